"""`qec report`: a run's results as one HTML page, and its tables as CSV files."""

from pathlib import Path
from typing import Annotated

import typer

from qecnet.cli._interrupts import import_models
from qecnet.cli._options import Force
from qecnet.cli._output import check_writable


def report(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run that qec evaluate has measured.")],
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", metavar="PATH", help="Page to write, *.html. Default: RUN/evaluation/report.html."
        ),
    ] = None,
    compare: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FOLDER", help="Another measured run, or a folder with pose-baselines.json. May be repeated."
        ),
    ] = None,
    data: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Dataset, a folder or a zip file, for pictures of shapes.")
    ] = None,
    force: Force = False,
) -> None:
    """Write the results of a run as one HTML page, next to the published ones.

    Example: qec report runs/x

    The page works offline and needs no other file. Its tables are also written to RUN/evaluation as CSV files.
    """
    page = output or run / "evaluation" / "report.html"
    if output is not None or page.parent.is_dir():
        check_writable(page, force, (".html",))
    import_models()
    from qecnet.evaluation import build_report
    from qecnet.files import write_whole

    made = build_report(run, compare or (), data)
    files = {run / "evaluation" / name: content for name, content in made.tables.items()} | {page: made.page}
    for path in files:
        check_writable(path, force, (path.suffix,))
    for path, content in files.items():
        write_whole(path, content)
    typer.echo(
        f"written to {page} ({len(made.page) / 1e6:.1f} MB), and {len(made.tables)} tables to {run / 'evaluation'}"
    )
