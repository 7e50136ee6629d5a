"""`qec merge`: one file of results from those of all shards."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from qecnet.cli._interrupts import quiet_interrupts
from qecnet.cli._options import Force
from qecnet.cli._output import one_sentence, printable


def merge(
    results: Annotated[
        Path,
        typer.Argument(metavar="RESULTS", help="File to write, as it was named for the shards.", show_default=False),
    ],
    partial: Annotated[
        bool, typer.Option("--partial", help="Join what there is, even if shards are missing or not finished.")
    ] = False,
    force: Force = False,
) -> None:
    """Join the results of shards.

    Example: qec merge results.parquet

    Reads the journals of results-01-of-16.parquet and so on, which runs with --shard 1/16 and so on have written, and
    writes one file with one row for each shape, sorted by path.
    """
    with one_sentence():
        with quiet_interrupts():
            from qecnet.bulk import check_results_path, merge_shards
        check_results_path(results)
        if results.exists() and not force:
            raise ValueError(f"{results}: exists already; overwrite it with --force")
        shards = merge_shards(results, partial=partial)
        typer.echo(printable(f"{results}: {'1 shard' if shards == 1 else f'{shards:,} shards'} joined"))
