"""The command `qec` and its subcommands."""

from __future__ import annotations

from typing import Annotated

import typer

from qecnet import __version__
from qecnet.cli import evaluate
from qecnet.cli.align import align
from qecnet.cli.card import card
from qecnet.cli.classify import classify
from qecnet.cli.export import export
from qecnet.cli.frames import frames
from qecnet.cli.index import index
from qecnet.cli.info import info
from qecnet.cli.models import models
from qecnet.cli.orient import orient
from qecnet.cli.repeatability import repeatability
from qecnet.cli.report import report
from qecnet.cli.search import search
from qecnet.cli.train import train
from qecnet.cli.view import view

app = typer.Typer(
    help="What is this 3D shape, and which way is it turned?",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(evaluate.app, name="evaluate")
app.command()(align)
app.command()(card)
app.command()(classify)
app.command()(export)
app.command()(frames)
app.command()(index)
app.command()(info)
app.command()(models)
app.command()(orient)
app.command()(repeatability)
app.command()(report)
app.command()(search)
app.command()(train)
app.command()(view)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"qecnet {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say which it is.")
    ] = False,
) -> None:
    """What is this 3D shape, and which way is it turned?"""
