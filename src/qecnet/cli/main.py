"""The command `qec` and its subcommands."""

from __future__ import annotations

import typer

from qecnet.cli import evaluate
from qecnet.cli.card import card
from qecnet.cli.frames import frames
from qecnet.cli.repeatability import repeatability
from qecnet.cli.report import report
from qecnet.cli.train import train

app = typer.Typer(
    help="What is this 3D shape, and which way is it turned?",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(evaluate.app, name="evaluate")
app.command()(card)
app.command()(frames)
app.command()(repeatability)
app.command()(report)
app.command()(train)


@app.callback()
def main() -> None:
    """What is this 3D shape, and which way is it turned?"""
