"""Points that stand alone: what a sensor saw where there is no surface."""

from __future__ import annotations

import torch
from torch import Tensor

from qecnet.geometry._support import centred, check_cloud, places

_NEIGHBOUR = 4
_TIMES = 3.03  # its square is no whole number: on a grid there is no tie for rounding to break
_FEWEST = 64
_MOST = 0.25


def strays(points: Tensor, at: Tensor | None = None) -> Tensor:
    """Which points are three times as far from their 4th neighbour as half of the points are from theirs.

    None, where these are more than a quarter of all: a cloud of such uneven density has no strays that could be told;
    and none among fewer than 64 points.

    Args:
        points: (N, 3), one cloud, finite.
        at: (M,) indices of the points to look at first: where none of them is a stray, no other is looked at. Farthest
            points are chosen among strays before others; the few that they leave stand near the surface.

    Returns:
        (N,) bool.
    """
    check_cloud(points)
    none = torch.zeros(len(points), dtype=torch.bool, device=points.device)
    if len(points) < _FEWEST:
        return none
    cloud = centred(points)
    largest = _TIMES * cloud.median_reach(_NEIGHBOUR)
    if at is not None and (cloud.reach(cloud.of(places(points, at)), _NEIGHBOUR) <= largest).all():
        return none
    alone = torch.from_numpy(cloud.reach(cloud.points, _NEIGHBOUR) > largest).to(points.device)
    return none if alone.sum() > _MOST * len(points) else alone
