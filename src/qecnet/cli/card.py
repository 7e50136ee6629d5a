"""`qec card`: describe a set of weights in Markdown."""

from pathlib import Path
from typing import Annotated

import typer


def card(run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run; its CARD.md is replaced.")]) -> None:
    """Write the model card of a run, with its data, settings, results and limitations.

    Example: qec card runs/x

    The card is printed, and written to CARD.md in the folder of the run.
    """
    from qecnet.evaluation import write_card
    from qecnet.files import write_whole

    text = write_card(run)
    write_whole(run / "CARD.md", text.encode())
    typer.echo(text)
