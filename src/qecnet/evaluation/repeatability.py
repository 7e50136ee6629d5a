"""Repeatability of local reference frames: how well those of two samples of a mesh agree at the same points."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from qecnet.algebra import angular_distance
from qecnet.geometry import Mesh, Method, Radii, default_radii, local_frames

_METHODS: tuple[Method, ...] = ("flare", "shot", "centred")
SIZES = (10_000, 2_000, 1_000)
RADII = ("normals", "z_axis", "tangent")
PERCENTILES = (10, 25, 50, 75, 90)
WITHIN = (5, 15, 30)


def measure_repeatability(meshes: Iterable[Mesh], places: int, seed: int) -> list[dict[str, str | int]]:
    """Compare the frames of two samples of each mesh, for each method and number of sampled points.

    Args:
        meshes: the shapes.
        places: number of points of each surface where frames are compared.
        seed: of the sampling.

    Returns:
        A row for each number of points and method: the radii of the frames (median over meshes), the share of points
        where both samples have a frame, and percentiles and shares of the angles between the two in degrees.
    """
    compared: dict[tuple[Method, int], list[_Comparison]] = {(m, n): [] for n in SIZES for m in _METHODS}
    for index, mesh in enumerate(meshes):
        generator = torch.Generator().manual_seed(int(np.random.SeedSequence([seed, index]).generate_state(1)[0]))
        for method, size, comparison in _compare(mesh, places, generator):
            compared[method, size].append(comparison)
    settings = {"places": places, "seed": seed}
    return [
        {"method": method, "points": size, "shapes": len(found), **settings, **_measures(found)}
        for (method, size), found in compared.items()
    ]


class _Comparison(NamedTuple):
    """One mesh, sampled twice: the first sample's radii, the angles in degrees where both samples have a frame, and
    the share of points where they do."""

    radii: Radii
    angles: np.ndarray
    valid: float


def _compare(mesh: Mesh, places: int, generator: torch.Generator) -> Iterator[tuple[Method, int, _Comparison]]:
    """All methods and sizes on one mesh, at radius 1."""
    whole = mesh.sample(SIZES[0], generator).normalized(torch.float64)

    def draw(count: int) -> Tensor:
        return (mesh.sample(count, generator).points.double() - whole.centre) / whole.scale

    at = draw(places)
    for size in SIZES:
        views = draw(size), draw(size)
        for method in _METHODS:
            first, second = (local_frames(view, at, method) for view in views)
            both = first.valid & second.valid
            angles = torch.rad2deg(angular_distance(first.quaternions, second.quaternions)[both])
            yield method, size, _Comparison(default_radii(views[0]), angles.numpy(), float(both.double().mean()))


def _measures(comparisons: list[_Comparison]) -> dict[str, str]:
    """The measured columns: radii (median over shapes), the valid share, and of the valid the angles' distribution."""
    angles = np.concatenate([c.angles for c in comparisons])
    row = {f"radius_{name}": f"{np.median([getattr(c.radii, name) for c in comparisons]):.4f}" for name in RADII}
    row["valid"] = f"{np.mean([c.valid for c in comparisons]):.4f}"
    for percent in PERCENTILES:
        row[f"percentile_{percent}"] = f"{np.percentile(angles, percent):.2f}" if len(angles) else ""
    for limit in WITHIN:
        row[f"within_{limit}"] = f"{np.mean(angles <= limit):.4f}" if len(angles) else ""
    return row
