"""`qec info`: what a file holds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from torch import Tensor

from qecnet.cli._files import shown
from qecnet.cli._output import one_sentence
from qecnet.formats import read
from qecnet.geometry import Mesh


def info(file: Annotated[Path, typer.Argument(help="A mesh or a cloud.")]) -> None:
    """Say what a file holds, in its own units. Example: qec info chair.ply"""
    with one_sentence():
        shape = read(file)
        if isinstance(shape, Mesh):
            points, kind = shape.vertices, f"mesh, {len(shape.vertices):,} vertices, {len(shape.faces):,} triangles"
            dropped = [(shape.non_finite, "not finite")]
        else:
            normals = "" if shape.normals is None else ", with normals"
            points, kind = shape.points, f"cloud, {len(shape):,} points{normals}"
            dropped = [(shape.non_finite, "not finite"), (shape.duplicates, "repeated")]
        low, high = points.amin(0), points.amax(0)
        lines = [
            f"{shown(str(file))}: {kind}",
            f"size    {_numbers(high - low, ' × ')}",
            f"lowest  {_numbers(low, ' ')}",
            f"highest {_numbers(high, ' ')}",
            *(f"dropped {count:,} points that are {why}" for count, why in dropped if count),
        ]
        typer.echo("\n".join(lines))


def _numbers(values: Tensor, separator: str) -> str:
    return separator.join(f"{value:.6g}" for value in values.tolist())
