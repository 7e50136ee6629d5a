"""Signals on the sphere and on SO(3): exact transforms and correlations, rays and voxels against loops over points."""

import math

import pytest
import torch
from benchmarks.baselines.prin import fill_voxels
from benchmarks.baselines.sphere import (
    GridActivation,
    RotationCorrelation,
    SphereCorrelation,
    grid_mean,
    rotation_grid,
    sphere_grid,
    split,
    unflatten,
)
from benchmarks.baselines.spherical_cnn import cast_rays

from qecnet.algebra import random_quaternion, rotate, to_matrix

o3 = pytest.importorskip("e3nn.o3")
BAND = 3


def random(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.fixture
def turn():
    """A rotation (4,), and its Wigner matrices of each degree."""
    q = random_quaternion((), 3, dtype=torch.float64)
    return q, [o3.wigner_D(degree, *o3.matrix_to_angles(to_matrix(q))) for degree in range(BAND)]


def test_coefficients_are_recovered_from_the_grids():
    directions, fit = sphere_grid(5, BAND)
    wanted = random(BAND**2)
    values = o3.spherical_harmonics([*range(BAND)], directions, True, normalization="component") @ wanted
    torch.testing.assert_close(values @ fit, wanted, rtol=1e-5, atol=1e-5)  # harmonics have float32's precision
    to_grid, from_grid = rotation_grid(BAND, BAND)
    wanted = random(len(to_grid))
    torch.testing.assert_close(wanted @ to_grid @ from_grid, wanted)


def test_a_rotated_signal_has_rotated_coefficients(turn):
    """f(R⁻¹x) for a signal of low degree: |x + c|² on the sphere."""
    q, wigner = turn
    directions, fit = sphere_grid(BAND, BAND)
    c = random(3)
    before, after = (((directions + one).square().sum(-1)) @ fit for one in (c, rotate(q, c)))
    expected = torch.cat([d @ part for d, part in zip(wigner, split(before, BAND), strict=True)])
    torch.testing.assert_close(after, expected, rtol=1e-5, atol=1e-5)  # e3nn's matrices have float32's precision


def test_correlations_are_exactly_equivariant(turn):
    _, wigner = turn
    sphere, rotation = SphereCorrelation(2, 4, 6, BAND).double(), RotationCorrelation(4, 5, 6, BAND).double()
    signal = random(1, 2, BAND**2)
    rotated = torch.cat([part @ d.T for d, part in zip(wigner, split(signal, BAND), strict=True)], -1)
    before, after = (rotation(sphere(x)) for x in (signal, rotated))
    for d, one, other in zip(wigner, before, after, strict=True):
        torch.testing.assert_close(other, d @ one)


def test_mean_over_rotations_is_invariant_up_to_the_grid(turn):
    """Of a smooth function of a signal of degree 1, on a grid that resolves degree 5."""
    _, wigner = turn
    activation = GridActivation(1, 6, 6).double().eval()
    low = [random(1, 1, 1, 1), 0.2 * random(1, 1, 3, 3)]
    fill = [torch.zeros(1, 1, 2 * degree + 1, 2 * degree + 1, dtype=torch.float64) for degree in range(2, 6)]
    means = []
    for signal in (low, [d @ part for d, part in zip(wigner, low, strict=False)]):
        flat = torch.cat([part.flatten(2) for part in (*signal, *fill)], -1)
        means.append(grid_mean((flat @ rotation_grid(6, 6)[0]).square(), 6))
    torch.testing.assert_close(*means, rtol=1e-9, atol=1e-9)
    assert activation.values([*low, *fill]).min() >= 0


def test_flat_and_separate_coefficients_are_the_same():
    flat = random(2, sum((2 * degree + 1) ** 2 for degree in range(BAND)))
    torch.testing.assert_close(torch.cat([part.flatten(-2) for part in unflatten(flat, BAND)], -1), flat)


def test_ray_hits_agree_with_the_naive_version():
    points, radius = random(1, 30, 3) / 3, 0.3
    present = torch.arange(30)[None] < 25
    directions = torch.nn.functional.normalize(random(20, 3, seed=1), dim=-1)
    first, last = cast_rays(points, present, directions, radius)
    for ray, direction in enumerate(directions):
        hits = []
        for point in points[0, :25]:
            along = float(point @ direction)
            aside = float((point - along * direction).norm())
            if along > 0 and aside < radius:
                half = math.sqrt(radius**2 - aside**2)
                hits.append((along + half, max(0.0, along - half)))
        assert float(first[0, ray]) == pytest.approx(max((far for far, _ in hits), default=0.0))
        assert float(last[0, ray]) == pytest.approx(min((near for _, near in hits), default=0.0))


def test_rotated_clouds_have_rotated_rays_and_voxels(turn):
    q, _ = turn
    points, present = random(1, 40, 3) / 3, torch.ones(1, 40, dtype=torch.bool)
    directions = torch.nn.functional.normalize(random(20, 3, seed=1), dim=-1)
    rotated = rotate(q, points), present, rotate(q, directions)
    for one, other in zip(cast_rays(points, present, directions, 0.2), cast_rays(*rotated, 0.2), strict=True):
        torch.testing.assert_close(one, other)
    torch.testing.assert_close(fill_voxels(points, present, directions, 4, 0.5), fill_voxels(*rotated, 4, 0.5))


def test_a_voxel_is_the_mean_nearness_of_its_points():
    up = torch.tensor([[0.0, 1, 0], [1, 0, 0]], dtype=torch.float64)
    points = torch.tensor([[[0.0, 0.125, 0], [0, 0.25, 0], [0, 0.9, 0], [0, 0.1, 0]]], dtype=torch.float64)
    present = torch.tensor([[True, True, True, False]])
    found = fill_voxels(points, present, up, 4, 0.3)
    # Shells at 1/8, 3/8, 5/8 and 7/8: the point at 1/8 is on the first, that at 1/4 half way to the second.
    torch.testing.assert_close(found[0, :, 0], torch.tensor([0.75, 0.5, 0.0, 0.9], dtype=torch.float64))
    assert (found[0, :, 1] == 0).all()
