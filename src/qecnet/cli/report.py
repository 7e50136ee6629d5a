"""`qec report`: a run's results as one HTML page, and its tables as CSV files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from qecnet.cli._output import check_writable, one_sentence
from qecnet.evaluation import build_report
from qecnet.files import write_whole


def report(
    run: Annotated[Path, typer.Argument(help="The folder of a run that qec evaluate has measured.")],
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="The page, e.g. page.html; RUN/evaluation/report.html by default."),
    ] = None,
    compare: Annotated[
        list[Path] | None,
        typer.Option(help="Another measured run, or a folder with pose-baselines.json; may be given several times."),
    ] = None,
    data: Annotated[Path | None, typer.Option(help="The dataset, a folder or a zip file, to draw shapes from.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite files that exist.")] = False,
) -> None:
    """Write one page with every table and figure beside the published ones. Example: qec report runs/x

    The page works offline and needs no other file. CSV files of its tables go to RUN/evaluation.
    """
    with one_sentence():
        page = output or run / "evaluation" / "report.html"
        if output is not None or page.parent.is_dir():
            check_writable(page, force, (".html",))
        made = build_report(run, compare or (), data)
        files = {run / "evaluation" / name: content for name, content in made.tables.items()} | {page: made.page}
        for path in files:
            check_writable(path, force, (path.suffix,))
        for path, content in files.items():
            write_whole(path, content)
        typer.echo(
            f"written to {page} ({len(made.page) / 1e6:.1f} MB), and {len(made.tables)} tables beside the results"
        )
