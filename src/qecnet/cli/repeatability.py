"""`qec repeatability`: how well the local reference frames of two samples of a shape agree."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import torch
import typer
from torch import Tensor

from qecnet.algebra import angular_distance
from qecnet.cli._files import with_progress
from qecnet.cli._options import MAX_POINTS, Force, Seed
from qecnet.cli._output import check_writable, one_sentence
from qecnet.files import replace_when_done
from qecnet.formats import read
from qecnet.geometry import Mesh, Method, Radii, default_radii, local_frames

METHODS: tuple[Method, ...] = ("flare", "shot", "centred")
SIZES = (10_000, 2_000, 1_000)
RADII = ("normals", "z_axis", "tangent")
PERCENTILES = (10, 25, 50, 75, 90)
WITHIN = (5, 15, 30)


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
    with one_sentence():
        if output is not None:
            check_writable(output, force, (".csv",))
        files = sorted(f for f in data.rglob("*") if f.suffix.lower() in (".off", ".obj", ".ply", ".stl"))
        if not files:
            raise ValueError(f"{data}: contains no mesh (OFF, OBJ, PLY or STL); give another folder")
        compared: dict[tuple[Method, int], list[Comparison]] = {(m, n): [] for n in SIZES for m in METHODS}
        for index, file in enumerate(with_progress(files, "comparing frames", len(files))):
            mesh = read(file)
            if not isinstance(mesh, Mesh):
                raise ValueError(f"{file}: contains points without faces; give a folder of meshes only")
            generator = torch.Generator().manual_seed(int(np.random.SeedSequence([seed, index]).generate_state(1)[0]))
            for method, size, comparison in _compare(mesh, places, generator):
                compared[method, size].append(comparison)
        settings = {"shapes": len(files), "places": places, "seed": seed}
        rows = [{"method": m, "points": n, **settings, **_measures(found)} for (m, n), found in compared.items()]
        for row in rows:
            typer.echo(
                f"{row['points']:>6} points  {row['method']:<8} valid {row['valid']}  "
                f"median {row['percentile_50']:>6}°  within 15° {row['within_15']}"
            )
        if output is not None:
            with replace_when_done(output) as aside, aside.open("w", newline="") as stream:
                table = csv.DictWriter(stream, rows[0].keys())
                table.writeheader()
                table.writerows(rows)
            typer.echo(f"written to {output}")


class Comparison(NamedTuple):
    """One shape, sampled twice: the first sample's radii, the angles in degrees where both have a frame, and the
    share of places where they do."""

    radii: Radii
    angles: np.ndarray
    valid: float


def _compare(mesh: Mesh, places: int, generator: torch.Generator) -> Iterator[tuple[Method, int, Comparison]]:
    """All methods and sizes on one mesh, at radius 1."""
    whole = mesh.sample(SIZES[0], generator).normalized(torch.float64)

    def draw(count: int) -> Tensor:
        return (mesh.sample(count, generator).points.double() - whole.centre) / whole.scale

    at = draw(places)
    for size in SIZES:
        views = draw(size), draw(size)
        for method in METHODS:
            first, second = (local_frames(view, at, method) for view in views)
            both = first.valid & second.valid
            angles = torch.rad2deg(angular_distance(first.quaternions, second.quaternions)[both])
            yield method, size, Comparison(default_radii(views[0]), angles.numpy(), float(both.double().mean()))


def _measures(comparisons: list[Comparison]) -> dict[str, str]:
    """The measured columns: radii (median over shapes), the valid share, and of the valid the angles' distribution."""
    angles = np.concatenate([c.angles for c in comparisons])
    row = {f"radius_{name}": f"{np.median([getattr(c.radii, name) for c in comparisons]):.4f}" for name in RADII}
    row["valid"] = f"{np.mean([c.valid for c in comparisons]):.4f}"
    for percent in PERCENTILES:
        row[f"percentile_{percent}"] = f"{np.percentile(angles, percent):.2f}" if len(angles) else ""
    for limit in WITHIN:
        row[f"within_{limit}"] = f"{np.mean(angles <= limit):.4f}" if len(angles) else ""
    return row
