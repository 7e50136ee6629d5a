"""The azimuth as a distribution: three harmonics of an angle, for which points vote in the plane across up.

`log p(φ) = Re Σₖ aₖ exp(−ikφ) + const` with k = 1, 2, 4: one front, two or four that look alike, or, where all aₖ are
small, any. A vote for harmonic k rotates by k times the angle that its point rotates by, so the sum of votes does, too.
"""

import math

import torch
from torch import Tensor

from ..algebra import is_exporting

HARMONICS = (1, 2, 4)
_GRID = 360
_MODES = 4
_NEWTON = 5
_OPEN = 0.75  # nats that a density is away from uniform; those of round shapes are less, of square ones more


def add_votes(weights: Tensor, arrows: Tensor) -> Tensor:
    """Sum of the votes of all points.

    Args:
        weights: (rows, P, 3, A, 2), a complex number for each harmonic and arrow.
        arrows: (rows, P, A, 2), directions in the plane, as complex numbers; longer ones count more.

    Returns:
        (rows, 3, 2), the harmonics aₖ.
    """
    length = arrows.norm(dim=-1, keepdim=True).clamp_min(1e-6)
    power = arrows / length
    votes = []
    for number in range(len(HARMONICS)):
        if number:  # each harmonic is twice the one before
            power = complex_product(power, power)
        votes.append(complex_product(weights[:, :, number], power * length).sum(-2).mean(1))
    return 8 * torch.stack(votes, 1)


def azimuth_loss(harmonics: Tensor, angle: Tensor) -> Tensor:
    """Negative log density of angles (rows), relative to uniform: 0 where the harmonics are. (rows, 3, 2) → (rows)."""
    total = _log_density(harmonics, _grid(harmonics)).logsumexp(-1) - math.log(_GRID)
    return total - _log_density(harmonics, angle[:, None])[:, 0]


def azimuth_modes(harmonics: Tensor) -> tuple[Tensor, Tensor]:
    """The four highest maxima of the density, and how much of the probability lies nearest to each.

    Args:
        harmonics: (rows, 3, 2).

    Returns:
        Angles (rows, 4) in radians and shares (rows, 4), which add up to 1; largest share first, and 0 where there are
        fewer maxima. Where the density is flat, the first angle is 0 and its share is 1.
    """
    grid = _grid(harmonics)
    density = _log_density(harmonics, grid)
    peak = (density >= density.roll(1, -1)) & (density > density.roll(-1, -1))
    flat = density.amax(-1, keepdim=True) - density.amin(-1, keepdim=True) < 1e-4
    peak = (flat & (grid == 0)) | (~flat & peak)
    height, place = torch.where(peak, density, -math.inf).topk(_MODES, -1)
    angle = grid.expand_as(density).gather(-1, place)
    order = torch.tensor(HARMONICS, dtype=grid.dtype, device=grid.device)
    limit = math.pi / _GRID
    start = angle
    for _ in range(_NEWTON):
        cos, sin = (angle[..., None] * order).cos(), (angle[..., None] * order).sin()
        real, imaginary = harmonics[:, None, :, 0], harmonics[:, None, :, 1]
        slope = (order * (imaginary * cos - real * sin)).sum(-1)
        bend = (order.square() * (real * cos + imaginary * sin)).sum(-1)  # minus the second derivative
        step = torch.where(bend > 0, slope / bend.clamp_min(1e-12), torch.zeros_like(slope))
        angle = torch.where(flat, start, start + (angle + step - start).clamp(-limit, limit))
    apart = (grid[:, None] - angle[:, None, :] + math.pi).remainder(2 * math.pi) - math.pi
    nearest = torch.where(height[:, None, :].isfinite(), apart.abs(), math.inf).argmin(-1)
    mass = torch.zeros_like(angle).scatter_add(-1, nearest, density.softmax(-1))
    # ONNX has no stable sort.
    first = mass.topk(_MODES).indices if is_exporting() else mass.argsort(dim=-1, descending=True, stable=True)
    return angle.gather(-1, first), mass.gather(-1, first)


def azimuth_is_open(harmonics: Tensor) -> Tensor:
    """Whether the density is so flat that any angle may be right. (rows, 3, 2) → (rows)"""
    log = _log_density(harmonics, _grid(harmonics)).log_softmax(-1)
    return (log.exp() * (log + math.log(_GRID))).sum(-1) < _OPEN


def _log_density(harmonics: Tensor, angle: Tensor) -> Tensor:
    """Up to a constant: (rows, 3, 2), angles (rows or 1, G) → (rows, G)."""
    order = torch.tensor(HARMONICS, dtype=harmonics.dtype, device=harmonics.device)
    phase = angle[..., None, :] * order[:, None]
    return (harmonics[..., :1] * phase.cos() + harmonics[..., 1:] * phase.sin()).sum(-2)


def _grid(like: Tensor) -> Tensor:
    return torch.arange(_GRID, dtype=like.dtype, device=like.device) * (2 * math.pi / _GRID)


def complex_product(a: Tensor, b: Tensor) -> Tensor:
    """Multiply complex numbers (..., 2)."""
    real = a[..., 0] * b[..., 0] - a[..., 1] * b[..., 1]
    return torch.stack((real, a[..., 0] * b[..., 1] + a[..., 1] * b[..., 0]), -1)
