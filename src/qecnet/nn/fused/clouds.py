"""Patches, neighbours, edges and projections of clouds: pooling.cpp, edges.cpp, projections.cpp."""

from typing import Any

import torch
from torch import Tensor

from ...compiled import call

_LANES, _TOGETHER, _MOST = 16, 4, 256


def edges_fit(neighbours: int, hidden: int) -> bool:
    """Whether the operator takes this many neighbours and hidden values."""
    return neighbours % _TOGETHER == 0 and neighbours <= _MOST and hidden % _LANES == 0


def pool_edges_fused(
    up: Tensor, positions: Tensor, normals: Tensor, neighbours: Tensor, features: Tensor, weight: Tensor, reach: float
) -> Tensor:
    """As `pool_edges` of nn/edge_reader.py, for float32 on the CPU; only features and weight get a gradient."""
    pooled: Tensor = _PoolEdges.apply(up, positions, normals, neighbours, features, weight, reach)  # type: ignore[no-untyped-call]
    return pooled


def nearest_fused(centres: Tensor, points: Tensor, count: int) -> Tensor:
    """Indices of the `count` nearest points of each centre, in no order: (B, M, 3), (B, N, 3) → (B, M, K)."""
    clouds, places, total = *centres.shape[:2], points.shape[1]
    found = torch.empty(clouds, places, count, dtype=torch.int64)
    given = (x.contiguous() for x in (centres, points))
    call("nearest_points", clouds, places, total, count, *given, found, torch.get_num_threads())
    return found


def pool_fused(points: Tensor, valid: Tensor, starts: Tensor, count: int, size: int) -> tuple[Tensor, Tensor, Tensor]:
    """Patches around farthest points, and their nearest neighbours, among the valid points of each cloud.

    Args:
        points: (B, N, 3) float32 on the CPU.
        valid: (B, N) bool.
        starts: (B,) int64, a valid point of each, the first centre.
        count: patches P of a cloud.
        size: neighbours K of a patch.

    Returns:
        Centres (B, P), neighbours (B, P, K), nearest first, and mask (B, P, K); index 0 where one is missing.
    """
    clouds, total = valid.shape
    centres = torch.empty(clouds, count, dtype=torch.int64)
    neighbours = torch.empty(clouds, count, size, dtype=torch.int64)
    mask = torch.empty(clouds, count, size, dtype=torch.bool)
    given = (x.contiguous() for x in (points, valid, starts))
    call("pool_clouds", clouds, total, count, size, *given, centres, neighbours, mask)
    return centres, neighbours, mask


def draw_projections_fused(
    positions: Tensor, normals: Tensor, resolution: int, far: float, reach: float, rim: float
) -> Tensor:
    """As `draw_projections` of nn/projection_reader.py, for float32 on the CPU."""
    rows, points, _ = positions.shape
    drawn = positions.new_empty(rows, 3, 5, resolution, resolution)
    given = (x.contiguous() for x in (positions, normals))
    call("draw_projections", rows, points, resolution, far, reach, rim, *given, drawn, torch.get_num_threads())
    return drawn


class _PoolEdges(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        up: Tensor,
        positions: Tensor,
        normals: Tensor,
        neighbours: Tensor,
        features: Tensor,
        weight: Tensor,
        reach: float,
    ) -> Tensor:
        rows, centres, count = neighbours.shape
        points, hidden = features.shape[1:]
        geometry = tuple(x.contiguous() for x in (up, positions, normals, neighbours))
        pooled = features.new_empty(rows, centres, hidden)
        chosen = torch.empty(rows, centres, hidden, dtype=torch.uint8)
        sizes = (rows, up.shape[1], points, centres, count, hidden, 1 / reach)
        given = (*geometry, features.contiguous(), weight.t().contiguous())
        call("pool_edges", *sizes, *given, pooled, chosen, torch.get_num_threads())
        ctx.save_for_backward(*geometry, chosen)
        ctx.sizes = sizes
        return pooled

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        rows, _, points, _, _, hidden, _ = ctx.sizes
        *geometry, chosen = ctx.saved_tensors
        by_features = gradient.new_zeros(rows, points, hidden)
        by_weight = gradient.new_zeros(14, hidden)
        call("pool_edges_backward", *ctx.sizes, *geometry, chosen, gradient.contiguous(), by_features, by_weight)
        return None, None, None, None, by_features, by_weight.t(), None
