"""`qec info`: what shape files contain."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from qecnet.cli._files import find_shapes
from qecnet.cli._options import Files
from qecnet.cli._output import count_of, print_error
from qecnet.schema import printable

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor

    from qecnet.geometry import PointCloud


def info(files: Files) -> None:
    """Print what shape files contain.

    Example: qec info chair.ply scans/

    For each file: a mesh or a cloud, how many points, the bounding box in the file's own units, the viewpoint if the
    file has one, and how many points were dropped because they are repeated or not finite. Exit code 1 means that a
    file could not be read.
    """
    paths, failures = find_shapes(files)
    errors = [failure.error for failure in failures]
    for path in paths:
        try:
            lines = _describe(path)
        except (ValueError, OSError) as error:
            errors.append(str(error))
        else:
            typer.echo("\n".join(map(printable, lines)))
    for sentence in errors:
        print_error(sentence)
    if errors:
        raise typer.Exit(1)


def _describe(path: Path) -> list[str]:
    """The lines that `qec info` prints for one file."""
    from qecnet.formats import read
    from qecnet.geometry import Mesh

    shape = read(path)
    camera: list[str] = []
    if isinstance(shape, Mesh):
        points, kind = shape.vertices, f"mesh, {len(shape.vertices):,} vertices, {len(shape.faces):,} triangles"
        dropped = [(shape.non_finite, "not finite")]
    else:
        normals = "" if shape.normals is None else ", with normals"
        points, kind = shape.points, f"cloud, {len(shape):,} points{normals}"
        dropped = [(shape.non_finite, "not finite"), (shape.duplicates, "repeated")]
        camera = _describe_viewpoint(shape)
    low, high = points.amin(0), points.amax(0)
    return [
        f"{path}: {kind}",
        f"  size    {_join(high - low, ' × ')}",
        f"  minimum {_join(low, ' ')}",
        f"  maximum {_join(high, ' ')}",
        *camera,
        *(f"  dropped {count_of(count, 'point')} ({why})" for count, why in dropped if count),
    ]


def _describe_viewpoint(cloud: PointCloud) -> list[str]:
    """The line for the viewpoint in the file, if there is one."""
    from qecnet.geometry import drop_implausible_viewpoint

    if cloud.viewpoint is None:
        return []
    is_used = drop_implausible_viewpoint(cloud).viewpoint is not None
    why = "" if is_used else " (ignored: a camera there cannot have seen this shape from one side)"
    return [f"  viewpoint {_join(cloud.viewpoint, ' ')}{why}"]


def _join(values: Tensor, separator: str) -> str:
    return separator.join(f"{value:.6g}" for value in values.tolist())
