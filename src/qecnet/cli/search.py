"""`qec search`: the shapes of an indexed folder that are most similar to another one, in any pose."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from qecnet.cli._interrupts import import_models
from qecnet.cli._options import INDEX, IndexPath, Seed
from qecnet.cli._output import angle_about_axis, print_table
from qecnet.schema import printable

if TYPE_CHECKING:
    from qecnet.models import Neighbour


def search(
    query: Annotated[Path, typer.Argument(metavar="FILE", help="A mesh or a point cloud.")],
    library: Annotated[Path, typer.Option(metavar="FOLDER", help="A folder that qec index has indexed.")] = Path(),
    index_path: IndexPath = None,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Model that the index was made with. Default: its name or path as given to qec index.",
            show_default=False,
        ),
    ] = None,
    count: Annotated[
        int, typer.Option("-n", "--count", min=1, metavar="INTEGER", help="Number of shapes to print.")
    ] = 10,
    label: Annotated[
        str | None,
        typer.Option("--class", metavar="NAME", help="Find only shapes of this class, e.g. chair.", show_default=False),
    ] = None,
    min_confidence: Annotated[
        float,
        typer.Option(min=0, max=1, metavar="NUMBER", help="Find only shapes with at least this confidence, e.g. 0.7."),
    ] = 0.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")] = False,
    seed: Seed = 0,
) -> None:
    """Find similar shapes in an indexed folder.

    Example: qec search scan.ply --library meshes/ --class chair --min-confidence 0.7

    Similarity is the cosine of two descriptors, at most 1. The rotation aligns the shape that was found with the query.
    """
    path = index_path or library / INDEX
    if not path.exists():
        raise ValueError(f"{path}: does not exist; create it with qec index {library}")
    import_models()
    from qecnet.models import load, read_library

    with read_library(path) as known:
        name = model or known.model
        try:
            loaded = load(name)
        except ValueError as error:
            advice = "" if model else f" ({path} was made with it; if it has moved, name it with --model)"
            raise ValueError(f"{error}{advice}") from error
        if not known.fits(loaded):
            raise ValueError(
                f"{path}: was made with different weights from {name}; name the right ones with --model, or index "
                f"again with qec index {library} --model {name} --force"
            )
        query_answer = loaded.predict(query, seed=seed)
        found = known.nearest(query_answer, count, label=label, min_confidence=min_confidence)
        if not known.finished:
            note = "is not finished; qec index is at work or was interrupted: run it again to continue"
            typer.echo(printable(f"note: {path}: {note}"), err=True)
    if as_json:
        _print_json(found, library)
    else:
        _print_table(found, library, known.classes)


def _print_json(found: list[Neighbour], library: Path) -> None:
    for one in found:
        row = {
            "file": str(library / one.file),
            "label": one.label,
            "confidence": round(one.confidence, 4),
            "similarity": round(one.similarity, 4),
            "rotation": [round(x, 5) for x in one.rotation.tolist()],
        }
        print(json.dumps(row, allow_nan=False))


def _print_table(found: list[Neighbour], library: Path, classes: Sequence[str]) -> None:
    columns = {"class": max(map(len, classes)), "confidence": -10, "similarity": -10, "rotation": 32}
    rows = [
        (
            str(library / one.file),
            one.label,
            f"{one.confidence:.2f}",
            f"{one.similarity:.3f}",
            angle_about_axis(one.rotation.tolist()),
        )
        for one in found
    ]
    print_table(columns, rows, max((len(row[0]) for row in rows), default=0))
