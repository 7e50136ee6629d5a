"""`qec merge`: one file of results from those of all shards."""

from pathlib import Path
from typing import Annotated

import typer

from qecnet.cli._interrupts import import_models
from qecnet.cli._options import Force
from qecnet.cli._output import count_of
from qecnet.schema import printable


def merge(
    results: Annotated[
        Path,
        typer.Argument(
            metavar="RESULTS",
            help="File of results or folder of an index to write, as it was named for the shards.",
            show_default=False,
        ),
    ],
    partial: Annotated[
        bool, typer.Option("--partial", help="Join the shards that exist, even if some are missing or not finished.")
    ] = False,
    force: Force = False,
) -> None:
    """Join the results of shards.

    Example: qec merge results.parquet

    Reads the journals of results-01-of-16.parquet and so on, which runs with --shard 1/16 and so on have written, and
    writes one file with one row for each shape, sorted by path. The indexes qec-index-01-of-16 and so on are joined to
    the index qec-index: qec merge meshes/qec-index.
    """
    if results.exists() and not force:
        raise ValueError(f"{results}: exists already; overwrite it with --force")
    import_models()
    from qecnet.bulk import RESULT_SUFFIXES, check_results_path, find_shards, merge_shards
    from qecnet.models import merge_libraries

    if results.suffix.lower() in RESULT_SUFFIXES:
        check_results_path(results)
        shards = merge_shards(results, partial=partial)
    else:
        parts = find_shards(results, results.suffix, partial=partial)
        merge_libraries(results, parts, replace=force, partial=partial)
        shards = len(parts)
    typer.echo(printable(f"{results}: {count_of(shards, 'shard')} joined"))
