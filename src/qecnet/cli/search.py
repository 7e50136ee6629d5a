"""`qec search`: the shapes of a library that are most like another one, in any pose."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from qecnet.cli._files import angle_about_axis, shown
from qecnet.cli._output import LARGEST_SEED, one_sentence
from qecnet.cli.index import INDEX
from qecnet.models import load
from qecnet.models.library import Neighbour, key_of, read_library


def search(
    query: Annotated[Path, typer.Argument(help="A mesh or a cloud.")],
    library: Annotated[Path, typer.Option(help="A folder that qec index has been through.")] = Path(),
    count: Annotated[int, typer.Option("-n", "--count", min=1, help="How many are shown.")] = 10,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
    seed: Annotated[int, typer.Option(min=0, max=LARGEST_SEED, help="Of the points that are drawn.")] = 0,
) -> None:
    """Find the most alike shapes of a library, and how each is turned. Example: qec search scan.ply --library parts/

    The rotation turns the shape that was found into the query.
    """
    with one_sentence():
        path = library / INDEX
        if not path.exists():
            raise ValueError(f"{path}: is not there; make it with qec index {library}")
        known = read_library(path)
        model = load(known.model)
        if key_of(model) != known.key:
            raise ValueError(f"{path}: was made by other weights than {known.model} has now; make it anew with --force")
        found = known.nearest(model.predict(query, seed=seed), count)
        (_write_json if as_json else _print_table)(found, library)


def _write_json(found: list[Neighbour], library: Path) -> None:
    for one in found:
        row = {"file": str(library / one.file), "label": one.label, "likeness": one.likeness}
        print(json.dumps(row | {"rotation": one.rotation.tolist()}, allow_nan=False))


def _print_table(found: list[Neighbour], library: Path) -> None:
    table = Table()
    for heading in ("file", "class", "likeness", "rotation"):
        table.add_column(heading, justify="right" if heading == "likeness" else "left", overflow="fold")
    for one in found:
        cells = one.label, f"{one.likeness:.3f}", angle_about_axis(one.rotation.tolist())
        table.add_row(Text(shown(str(library / one.file))), *cells)
    Console(width=None if sys.stdout.isatty() else 1000).print(table)
