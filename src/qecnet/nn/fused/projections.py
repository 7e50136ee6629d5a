"""Clouds as seen along their three axes, drawn in one operator: projections.cpp."""

import torch
from torch import Tensor

from ...compiled import call


def draw_projections_fused(
    positions: Tensor, normals: Tensor, resolution: int, far: float, reach: float, rim: float
) -> Tensor:
    """As `draw_projections` of nn/projection_reader.py, for float32 on the CPU."""
    rows, points, _ = positions.shape
    drawn = positions.new_empty(rows, 3, 5, resolution, resolution)
    given = (x.contiguous() for x in (positions, normals))
    call("draw_projections", rows, points, resolution, far, reach, rim, *given, drawn, torch.get_num_threads())
    return drawn
