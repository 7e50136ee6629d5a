"""Compiled operators of this package: frames.cpp, hull.cpp and snapping.cpp of `qecnet.compiled`."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from qecnet.compiled import call
from qecnet.geometry._support import Array, Centred


def farthest_compiled(cloud: Centred, kind: type[np.floating], count: int, start: int) -> Array:
    """(count,) int64 indices of farthest points, beginning with `start`, for distances in precision `kind`."""
    cells, index = cloud.cells(kind)
    chosen = np.empty(count, np.int64)
    call(f"farthest_{_name(kind)}", cells.shape[1], int(count), cells, index, int(start), chosen)
    return chosen


def sums_compiled(cloud: Centred, kind: type[np.floating], queries: Array, radius: float) -> Array:
    """(10, M) sums for `planes_of_sums`, about each of the centred queries (M, 3), in precision `kind`."""
    cells, _ = cloud.cells(kind)
    sums = np.empty((10, len(queries)))
    places = np.ascontiguousarray(queries, kind)
    sizes = cells.shape[1], len(queries), float(radius)
    call(f"sums_{_name(kind)}", *sizes, cells, places, sums, torch.get_num_threads())
    return sums


def merge_compiled(normals: Array, areas: Array, indices: Array, most: int, same: float) -> tuple[Array, Array]:
    """Sums (M, 3) of area times normal of merged faces, and their lowest indices (M,), see `_merge_faces`."""
    sums, lowest, count = np.empty((most, 3)), np.empty(most, np.int64), np.empty(1, np.int64)
    kinds = ((normals, np.float64), (areas, np.float64), (indices, np.int64))
    given = [np.ascontiguousarray(array, kind) for array, kind in kinds]
    call("merge_faces", len(normals), most, float(same), *given, sums, lowest, count)
    return sums[: count[0]], lowest[: count[0]]


def reach_compiled(corners: Array, directions: Array) -> Array:
    """(D,) how far corners (V, 3) reach along directions (D, 3)."""
    reach = np.empty(len(directions))
    given = [np.ascontiguousarray(array, np.float64) for array in (corners, directions)]
    call("reach_along", len(corners), len(directions), *given, reach)
    return reach


def climb_compiled(pose: Tensor, moment: Tensor, steps: int, squarings: int) -> Tensor:
    """`climb` without gradients, for float64 on the CPU and one moment (9, 9) for all poses or (..., 9, 9) for each."""
    found = pose.detach().clone(memory_format=torch.contiguous_format)
    shared = moment.dim() == 2
    call("climb", found.numel() // 4, int(shared), steps, squarings, moment.contiguous(), found)
    return found


def _name(kind: type[np.floating]) -> str:
    return "double" if kind is np.float64 else "float"
