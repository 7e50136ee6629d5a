"""Signals on the sphere and on SO(3), and their correlations (Cohen et al., "Spherical CNNs", ICLR 2018).

A signal is kept as its Fourier coefficients up to degree L = band − 1: on the sphere (..., band²), on SO(3) one
(..., 2l + 1, 2l + 1) for each degree l. A rotation multiplies these by Wigner's matrices from the left, and
correlations multiply from the right, so they are exactly equivariant. Between them, values on a grid are rectified:
that is equivariant only as far as the grid resolves what it makes. Wigner's matrices are e3nn's; harmonics are columns
of them, since e3nn's own end at degree 11.
"""

import math
from collections.abc import Callable
from functools import cache, wraps

import torch
from torch import Tensor, nn

SPREAD = math.pi / 8
"""Radians: how far from the identity a filter of SO(3) is supported."""
Coefficients = list[Tensor]
Tables = tuple[Tensor, Tensor]


def kept(compute: Callable[..., Tables]) -> Callable[..., Tables]:
    """Compute once for the same arguments, on the processor, also for networks that are then trained."""

    @cache
    @wraps(compute)
    def computed(*sizes: int) -> Tables:
        with torch.inference_mode(False), torch.device("cpu"):
            return compute(*sizes)

    return computed


def split(coefficients: Tensor, band: int) -> Coefficients:
    """The coefficients of each degree of a signal on the sphere, (..., band²) → (..., 2l + 1)."""
    return [*coefficients.split([2 * degree + 1 for degree in range(band)], -1)]


@kept
def sphere_grid(band: int, fitted: int) -> Tables:
    """2 band × 2 band angles: unit vectors (G, 3), and the matrix (G, fitted²) that fits coefficients to values.

    Values are weighted by the area that they stand for. Both are float64.
    """
    beta, alpha = _angles(band)
    b, a = (x.flatten() for x in torch.meshgrid(beta, alpha, indexing="ij"))
    directions = torch.stack((b.sin() * a.sin(), b.cos(), b.sin() * a.cos()), -1)  # e3nn's poles are on the y axis
    return directions, _fit(_harmonics(a, b, fitted), b.sin())


@kept
def rotation_grid(band: int, fitted: int) -> Tables:
    """(2 band)³ rotations: matrices from coefficients up to `band` to values, (n, P), and back to `fitted`, (P, n)."""
    beta, alpha = _angles(band)
    b, a, c = (x.flatten() for x in torch.meshgrid(beta, alpha, alpha, indexing="ij"))
    values = _wigner(a, b, c, band)
    return values.T.contiguous(), _fit(values, b.sin())[:, : sum((2 * degree + 1) ** 2 for degree in range(fitted))]


@kept
def ring(count: int, band: int) -> Tables:
    """Where filters have values: harmonics (count, band²) on a circle about the pole, Wigner's matrices (count, n) of
    rotations that tip the pole to that circle."""
    alpha = 2 * math.pi * torch.arange(count, dtype=torch.float64) / count
    beta = torch.full_like(alpha, SPREAD)
    # Turned back about the pole, but not all the way: otherwise a filter could not tell sides apart.
    return _harmonics(alpha, beta, band), _wigner(alpha, beta, alpha / 2 - alpha, band)


class SphereCorrelation(nn.Module):
    """From channels on the sphere to channels on SO(3): the inner products with a rotated filter (section 3.1)."""

    def __init__(self, before: int, after: int, ring_size: int, band: int) -> None:
        super().__init__()
        self.band = band
        self.filters = nn.Parameter(torch.randn(before, after, ring_size) / math.sqrt(before * ring_size))

    def forward(self, coefficients: Tensor) -> Coefficients:
        """(B, before, band²) → for each degree (B, after, 2l + 1, 2l + 1)."""
        harmonics, _ = ring(self.filters.shape[-1], self.band)
        filters = split(self.filters @ harmonics.to(self.filters), self.band)
        signal = split(coefficients, self.band)
        return [torch.einsum("bim,ion->bomn", f, g) for f, g in zip(signal, filters, strict=True)]


class RotationCorrelation(nn.Module):
    """From channels on SO(3) to channels on SO(3) (section 3.2)."""

    def __init__(self, before: int, after: int, ring_size: int, band: int) -> None:
        super().__init__()
        self.band = band
        self.filters = nn.Parameter(torch.randn(before, after, ring_size) / math.sqrt(before * ring_size))

    def forward(self, signal: Coefficients) -> Coefficients:
        """For each degree (B, before, 2l + 1, 2l + 1) → (B, after, 2l + 1, 2l + 1), degrees below the band."""
        _, wigner = ring(self.filters.shape[-1], self.band)
        filters = unflatten(self.filters @ wigner.to(self.filters), self.band)
        # Filters have Wigner's matrices scaled by the square root of 2l + 1, as values on the grid do.
        return [
            torch.einsum("bimk,iokn->bomn", f, g) / math.sqrt(2 * degree + 1)
            for degree, (f, g) in enumerate(zip(signal, filters, strict=False))
        ]


class GridActivation(nn.Module):
    """Values on a grid of SO(3), normalised over clouds and rotations, and rectified."""

    def __init__(self, channels: int, band: int, fitted: int) -> None:
        super().__init__()
        self.band, self.fitted = band, fitted
        self.normalize = nn.BatchNorm1d(channels)

    def values(self, signal: Coefficients) -> Tensor:
        """→ (B, C, P) on the grid."""
        flat = torch.cat([part.flatten(2) for part in signal], -1)
        to_grid, _ = rotation_grid(self.band, self.fitted)
        return torch.relu(self.normalize(flat @ to_grid.to(flat)))

    def forward(self, signal: Coefficients) -> Coefficients:
        """Coefficients below `band` → those of the rectified signal, below `fitted`."""
        values = self.values(signal)
        _, from_grid = rotation_grid(self.band, self.fitted)
        return unflatten(values @ from_grid.to(values), self.fitted)


def grid_mean(values: Tensor, band: int) -> Tensor:
    """The mean over SO(3) of values on its grid, weighted by volume. (B, C, P) → (B, C)"""
    _, from_grid = rotation_grid(band, band)
    return values @ from_grid[:, 0].to(values)


def unflatten(flat: Tensor, band: int) -> Coefficients:
    """(..., n) → for each degree (..., 2l + 1, 2l + 1)."""
    sizes = [2 * degree + 1 for degree in range(band)]
    parts = flat.split([size * size for size in sizes], -1)
    return [part.unflatten(-1, (size, size)) for part, size in zip(parts, sizes, strict=True)]


def _angles(band: int) -> tuple[Tensor, Tensor]:
    """2 band polar angles between the poles, and as many azimuths."""
    steps = torch.arange(2 * band, dtype=torch.float64)
    return math.pi * (steps + 0.5) / (2 * band), math.pi * steps / band


def _fit(basis: Tensor, weights: Tensor) -> Tensor:
    """Weighted least squares: the matrix (P, n) from values to coefficients of the basis (P, n)."""
    weighted = basis * weights[:, None]
    found: Tensor = torch.linalg.solve(basis.T @ weighted, weighted.T)
    return found.T.contiguous()


def _harmonics(alpha: Tensor, beta: Tensor, band: int) -> Tensor:
    """Spherical harmonics of all degrees at an azimuth and a polar angle, as e3nn's "component". → (P, band²)"""
    from e3nn import o3

    zero = torch.zeros_like(alpha)
    parts = [math.sqrt(2 * degree + 1) * o3.wigner_D(degree, alpha, beta, zero)[..., degree] for degree in range(band)]
    return torch.cat(parts, -1)


def _wigner(alpha: Tensor, beta: Tensor, gamma: Tensor, band: int) -> Tensor:
    """Wigner's matrices of all degrees, flat, each scaled by the square root of 2l + 1. → (P, n)"""
    from e3nn import o3

    parts = [math.sqrt(2 * degree + 1) * o3.wigner_D(degree, alpha, beta, gamma).flatten(-2) for degree in range(band)]
    return torch.cat(parts, -1)
