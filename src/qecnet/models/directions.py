"""Known up directions and camera positions, given as numbers or as text."""

from collections.abc import Callable

import torch
from numpy.typing import ArrayLike
from torch import Tensor
from torch.nn.functional import normalize

from qecnet.triples import Triple, parse_direction, parse_point


def parse_up(up: ArrayLike | None, name: str = "up") -> Tensor | None:
    """Convert a known up direction to a unit vector, float64; `name` is the argument that it was given as."""
    if up is None:
        return None
    direction = _to_tensor(up, parse_direction)
    if direction.shape != (3,) or not (direction.isfinite().all() and direction.any()):
        raise ValueError(
            f"{name} is {up}; give three finite numbers that are not all 0, such as (0, 0, 1), or an axis, such as 'z'"
        )
    return normalize(direction / direction.abs().amax(), dim=0)


def parse_viewpoint(viewpoint: ArrayLike | None) -> Tensor | None:
    """Convert the position of a camera to float64."""
    if viewpoint is None:
        return None
    place = _to_tensor(viewpoint, parse_point)
    if place.shape != (3,) or not place.isfinite().all():
        raise ValueError(f"viewpoint is {viewpoint}; give three finite coordinates")
    return place


def _to_tensor(values: ArrayLike, parse: Callable[[str], Triple]) -> Tensor:
    """Convert numbers, or a text of them, to float64; to no numbers if that is impossible."""
    try:
        return torch.as_tensor(parse(values) if isinstance(values, str) else values, dtype=torch.float64)
    except (TypeError, ValueError, RuntimeError):
        return torch.empty(0)
