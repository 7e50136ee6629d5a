"""Repeatability of local reference frames: how well those of two samples of a mesh agree at the same points."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from qecnet.algebra import angular_distance
from qecnet.geometry import Mesh, Method, Radii, default_radii, local_frames

_METHODS: tuple[Method, ...] = ("flare", "shot", "centred")
SIZES = (10_000, 2_000, 1_000)


@dataclass(frozen=True)
class FrameRepeatability:
    """How well frames of one method agree between two samples of each shape. Rounded to what a table shows.

    Attributes:
        method: of the frames.
        points: number of points in a sample.
        shapes: number of meshes.
        places: number of points of each surface where frames are compared.
        seed: of the sampling.
        radius_normals, radius_z_axis, radius_tangent: radii of the frames, medians over shapes, see `Radii`.
        valid: the share of places where both samples have a frame.
        percentile_10, percentile_25, percentile_50, percentile_75, percentile_90: of the angles between the two frames
            there, in degrees; None if no place is valid.
        within_5, within_15, within_30: the shares of these angles up to 5°, 15° and 30°; None if no place is valid.
    """

    method: Method
    points: int
    shapes: int
    places: int
    seed: int
    radius_normals: float
    radius_z_axis: float
    radius_tangent: float
    valid: float
    percentile_10: float | None
    percentile_25: float | None
    percentile_50: float | None
    percentile_75: float | None
    percentile_90: float | None
    within_5: float | None
    within_15: float | None
    within_30: float | None


def measure_repeatability(meshes: Iterable[Mesh], places: int, seed: int) -> list[FrameRepeatability]:
    """Compare the frames of two samples of each mesh, for each method and number of sampled points.

    Args:
        meshes: the shapes.
        places: number of points of each surface where frames are compared.
        seed: of the sampling.

    Returns:
        A result for each number of points and method.
    """
    compared: dict[tuple[Method, int], list[_Comparison]] = {(m, n): [] for n in SIZES for m in _METHODS}
    for index, mesh in enumerate(meshes):
        generator = torch.Generator().manual_seed(int(np.random.SeedSequence([seed, index]).generate_state(1)[0]))
        for method, size, comparison in _compare(mesh, places, generator):
            compared[method, size].append(comparison)
    return [_summarize(method, size, places, seed, found) for (method, size), found in compared.items()]


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


def _summarize(method: Method, size: int, places: int, seed: int, found: list[_Comparison]) -> FrameRepeatability:
    angles = np.concatenate([one.angles for one in found])
    measured: dict[str, float | None] = {"valid": round(float(np.mean([one.valid for one in found])), 4)}
    for name in ("normals", "z_axis", "tangent"):
        measured[f"radius_{name}"] = round(float(np.median([getattr(one.radii, name) for one in found])), 4)
    for percent in (10, 25, 50, 75, 90):
        measured[f"percentile_{percent}"] = round(float(np.percentile(angles, percent)), 2) if len(angles) else None
    for limit in (5, 15, 30):
        measured[f"within_{limit}"] = round(float(np.mean(angles <= limit)), 4) if len(angles) else None
    return FrameRepeatability(method, size, len(found), places, seed, **measured)  # type: ignore[arg-type]
