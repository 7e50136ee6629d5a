"""`qec repeatability`: do two samples of one shape get the same frames? What limits the whole method, measured."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import typer
from rich.progress import track
from torch import Tensor

from qecnet.algebra import angular_distance
from qecnet.cli._output import check_writable, one_sentence, written_aside
from qecnet.data import read
from qecnet.geometry import Mesh, default_radii, local_frames
from qecnet.geometry.frames import Method

METHODS: tuple[Method, ...] = ("flare", "shot", "centred")
SIZES = (10_000, 2_000, 1_000)
WITHIN = (5, 15, 30)


def repeatability(
    data: Annotated[Path, typer.Argument(help="A folder of meshes, searched with its subfolders.")],
    out: Annotated[Path, typer.Option(help="The table to write, a .csv.")] = Path("frames_repeatability.csv"),
    places: Annotated[int, typer.Option(min=1, help="Places on each shape where frames are compared.")] = 512,
    seed: Annotated[int, typer.Option(min=0, help="Of all that is drawn.")] = 0,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the table if it exists.")] = False,
) -> None:
    """Compare the frames of two independent samples of each shape at the same places.

    Both samples and the places are drawn from the mesh by area, each on its own. The angle is that of the rotation
    between the two frames; places count as valid where both samples give a frame.
    """
    with one_sentence():
        check_writable(out, force, (".csv",))
        files = sorted(f for f in data.rglob("*") if f.suffix.lower() in (".off", ".obj", ".ply", ".stl"))
        if not files:
            raise ValueError(f"{data}: no meshes (OFF, OBJ, PLY, STL) in this folder")
        angles: dict[tuple[str, int], list[np.ndarray]] = {(m, n): [] for n in SIZES for m in METHODS}
        for index, file in enumerate(track(files, "comparing frames", transient=True)):
            mesh = read(file)
            if not isinstance(mesh, Mesh):
                raise ValueError(f"{file}: holds points without faces; repeatability needs meshes to sample twice")
            generator = torch.Generator().manual_seed(int(np.random.SeedSequence([seed, index]).generate_state(1)[0]))
            for method, size, angle in _compare(mesh, places, generator):
                angles[method, size].append(angle)
        rows = [_row(m, n, np.concatenate(a), len(files), places, seed) for (m, n), a in angles.items()]
        with written_aside(out) as aside, aside.open("w", newline="") as stream:
            table = csv.DictWriter(stream, rows[0].keys())
            table.writeheader()
            table.writerows(rows)
        for row in rows:
            typer.echo(
                f"{row['points']:>6} points  {row['method']:<8} valid {row['valid']:>6}  "
                f"median {row['median_degrees']:>6}°  within 15° {row['within_15']:>6}"
            )
        typer.echo(f"written to {out}")


def _compare(mesh: Mesh, places: int, generator: torch.Generator) -> Iterator[tuple[Method, int, np.ndarray]]:
    """Angles (places,) in degrees between the two samples' frames; NaN where either has none."""
    whole = mesh.sample(SIZES[0], generator).normalized(torch.float64)
    at = _into(whole.centre, whole.scale, mesh.sample(places, generator).points)
    for size in SIZES:
        views = [_into(whole.centre, whole.scale, mesh.sample(size, generator).points) for _ in range(2)]
        for method in METHODS:
            first, second = (local_frames(view, at, method, default_radii(view)) for view in views)
            angle = torch.rad2deg(angular_distance(first.quaternions, second.quaternions))
            both = first.valid & second.valid
            yield method, size, torch.where(both, angle, torch.nan).numpy()


def _into(centre: Tensor, scale: float, points: Tensor) -> Tensor:
    return (points.double() - centre) / scale


def _row(method: str, size: int, angles: np.ndarray, shapes: int, places: int, seed: int) -> dict[str, object]:
    """One line of the table. Shares within an angle are of the valid places."""
    valid = angles[~np.isnan(angles)]
    row: dict[str, object] = {"method": method, "points": size, "shapes": shapes, "places": places, "seed": seed}
    row["radii"] = "default"
    row["valid"] = f"{len(valid) / len(angles):.4f}"
    row["median_degrees"] = f"{np.median(valid):.2f}" if len(valid) else ""
    for limit in WITHIN:
        row[f"within_{limit}"] = f"{np.mean(valid <= limit):.4f}" if len(valid) else ""
    return row
