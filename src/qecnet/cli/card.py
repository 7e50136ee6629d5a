"""`qec card`: describe a set of weights in Markdown."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from qecnet.cli._output import one_sentence
from qecnet.evaluation import write_card
from qecnet.files import write_whole


def card(run: Annotated[Path, typer.Argument(help="The folder of a run; its CARD.md is replaced.")]) -> None:
    """Write CARD.md: data, settings, results and limits of a run's weights. Example: qec card runs/x"""
    with one_sentence():
        text = write_card(run)
        write_whole(run / "CARD.md", text.encode())
        typer.echo(text)
