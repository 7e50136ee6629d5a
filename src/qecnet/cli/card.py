"""`qec card`: what a set of weights is, as a page of Markdown beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from qecnet.cli._output import one_sentence
from qecnet.evaluation.card import card as text_of
from qecnet.files import write_whole


def card(run: Annotated[Path, typer.Argument(help="The folder of a run; its CARD.md is written anew.")]) -> None:
    """Write CARD.md: data, settings, figures and limits of a run's weights. Example: qec card runs/x"""
    with one_sentence():
        text = text_of(run)
        write_whole(run / "CARD.md", text.encode())
        typer.echo(text)
