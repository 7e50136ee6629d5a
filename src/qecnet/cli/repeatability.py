"""`qec repeatability`: how well the local reference frames of two samples of a shape agree."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from qecnet.cli._files import find_shapes, with_progress
from qecnet.cli._interrupts import import_models
from qecnet.cli._options import MAX_POINTS, Force, Seed
from qecnet.cli._output import check_writable

if TYPE_CHECKING:
    from qecnet.geometry import Mesh


def repeatability(
    data: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder of meshes, searched with its subfolders.")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="PATH", help="Write all measurements to this file, *.csv.")
    ] = None,
    places: Annotated[
        int,
        typer.Option(
            min=1, max=MAX_POINTS, metavar="INTEGER", help="Number of points per shape where frames are compared."
        ),
    ] = 512,
    seed: Seed = 0,
    force: Force = False,
) -> None:
    """Measure the repeatability of local reference frames.

    Example: qec repeatability meshes/ -o repeatability.csv

    Each mesh is sampled twice, and the frames of both samples are compared at the same points of its surface. A point
    is valid if both samples have a frame there. For each method and number of sampled points, prints the share of valid
    points, the median angle between the two frames, and the share of angles up to 15°.
    """
    if output is not None:
        check_writable(output, force, (".csv",))
    import_models()
    files, failures = find_shapes([str(data)])
    if failures:
        raise ValueError(failures[0].error)
    from qecnet.evaluation import measure_repeatability
    from qecnet.files import replace_when_done

    rows = measure_repeatability(_read(with_progress(files, "comparing frames", len(files))), places, seed)
    for row in rows:
        agreement = "" if row.percentile_50 is None else f"median {row.percentile_50:>6.2f}°  "
        agreement += "" if row.within_15 is None else f"within 15° {row.within_15:.4f}"
        typer.echo(f"{row.points:>6} points  {row.method:<8} valid {row.valid:.4f}  {agreement}".rstrip())
    if output is not None:
        with replace_when_done(output) as aside, aside.open("w", newline="") as stream:
            table = csv.DictWriter(stream, asdict(rows[0]))
            table.writeheader()
            table.writerows(map(asdict, rows))
        typer.echo(f"written to {output}")


def _read(files: Iterable[Path]) -> Iterator[Mesh]:
    from qecnet.formats import read
    from qecnet.geometry import Mesh

    found = False
    for file in files:
        shape = read(file)
        if isinstance(shape, Mesh):  # point clouds, which may lie in the same folder, have no surface to sample
            found = True
            yield shape
    if not found:
        raise ValueError("the files contain points without faces; give at least one mesh")
