"""Plane fits against a plain solver, and their signs."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from qecnet.algebra import random_quaternion, rotate
from qecnet.geometry import fit_normals
from qecnet.geometry.normals import smallest_axis


def plane_naive(neighbours):
    """The smallest eigenvector of the covariance of (K, 3) points."""
    return torch.linalg.eigh(torch.cov(neighbours.T.double())).eigenvectors[:, 0]


@given(st.integers(0, 2**32 - 1), st.floats(-12, 6), st.floats(1e-2, 1))
@settings(max_examples=100, deadline=None)
def test_closed_form_axis_agrees_with_eigh(seed, power, narrow):
    rng = np.random.default_rng(seed)
    basis, _ = np.linalg.qr(rng.normal(size=(20, 3, 3)))
    thin = rng.uniform(0, 0.99)
    values = np.array([thin * narrow, narrow, 1.0])
    scale = 10.0**power
    c = scale * np.einsum("mij,j,mkj->mik", basis, values, basis)
    axis, gap_found = smallest_axis(c[:, 0, 0], c[:, 1, 1], c[:, 2, 2], c[:, 0, 1], c[:, 1, 2], c[:, 0, 2])
    gap = values[1] - values[0]
    defined = gap_found > 0
    assert (defined == (gap > 1e-4)).all()
    assert np.allclose(gap_found[defined], scale * gap, rtol=1e-9, atol=1e-7 * scale)
    across = np.linalg.norm(np.cross(axis, basis[:, :, 0]), axis=1)
    assert (across[defined] < 1e-12 + 1e-15 / gap**2).all()


def test_an_axis_between_equal_values_is_undefined():
    one, none = np.ones(1), np.zeros(1)
    for xx, yy, zz in ((one, one, one), (none, none, one), (none, none, none), (one, one, 2 * one)):
        axis, gap = smallest_axis(xx, yy, zz, none, none, none)
        assert (gap == 0).all()
        assert (axis == 0).all()


@pytest.mark.parametrize("offset", [0.0, 1000.0])
def test_fits_within_a_radius_agree_with_the_definition(bumpy, dtype, offset):
    points = (bumpy + offset).to(dtype)
    normals, valid = fit_normals(points, radius=0.25)
    for i in range(100):
        near = points[(points - points[i]).double().norm(dim=-1) <= 0.25]
        across = torch.linalg.cross(normals[i].double(), plane_naive(near)).norm()
        assert across < (1e-9 if dtype == torch.float64 else 1e-4)
    assert valid.all()


def test_fits_of_k_neighbours_agree_with_the_definition(bumpy):
    at = torch.arange(0, 2000, 40)
    normals, valid = fit_normals(bumpy, at, neighbours=20)
    indices = torch.cdist(bumpy[at], bumpy).topk(20, largest=False).indices
    expected = torch.stack([plane_naive(bumpy[i]) for i in indices])
    assert valid.all()
    assert torch.linalg.cross(normals, expected).norm(dim=-1).max() < 1e-9


def test_signs_follow_their_rule(bumpy):
    centre = bumpy.mean(0)
    inward, _ = fit_normals(bumpy, radius=0.25)
    outward, _ = fit_normals(bumpy, radius=0.25, sign="outward")
    eye = torch.tensor([5.0, 3.0, 1.0], dtype=torch.float64)
    seen, clear = fit_normals(bumpy, radius=0.25, sign=eye)
    assert ((centre - bumpy) * inward).sum(-1).min() > 0
    assert torch.equal(outward, -inward)
    assert ((eye - bumpy) * seen).sum(-1)[clear].min() > 0
    mixed = torch.where(torch.arange(2000)[:, None] % 2 == 0, inward, outward)
    agreed, _ = fit_normals(bumpy, radius=0.25, sign=mixed)
    assert torch.equal(agreed, mixed)


def test_an_unknown_reference_leaves_no_sign(bumpy):
    reference, _ = fit_normals(bumpy, radius=0.25)
    reference[:10] = 0
    normals, valid = fit_normals(bumpy, radius=0.25, sign=reference)
    assert not valid[:10].any()
    assert valid[10:].all()
    assert (normals[:10] == 0).all()


@pytest.mark.parametrize(
    "points",
    [
        torch.ones(50, 3),
        torch.linspace(0, 1, 50)[:, None] * torch.tensor([[1.0, 2, 3]]),
        torch.eye(2, 3),
        torch.ones(1, 3),
    ],
    ids=["equal", "a line", "two points", "one point"],
)
def test_points_without_a_plane_are_invalid(points, dtype):
    normals, valid = fit_normals(points.to(dtype), radius=10.0, sign=torch.tensor([9.0, 0, 1]))
    assert not valid.any()
    assert (normals == 0).all()


@pytest.mark.parametrize("seed", range(4))
def test_a_flat_cloud_has_normals_but_no_inside(dtype, seed):
    generator = torch.Generator().manual_seed(seed)
    turn = random_quaternion((1,), generator=generator, dtype=torch.float64)
    flat = rotate(turn, torch.rand(3000, 3, generator=generator) * torch.tensor([1.0, 1, 0], dtype=torch.float64))
    up = rotate(turn, torch.tensor([[0.0, 0, 1]], dtype=torch.float64))
    assert not fit_normals(flat.to(dtype), radius=0.1)[1].any()
    normals, valid = fit_normals(flat.to(dtype), radius=0.1, sign=5 * up[0])
    assert valid.all()
    assert (normals - up).norm(dim=-1).max() < (1e-9 if dtype == torch.float64 else 1e-4)


def test_distant_clusters_do_not_change_normals(bumpy):
    pair = torch.cat([bumpy, bumpy.flip(0) + 1e6])
    alone, _ = fit_normals(bumpy, radius=0.25)
    together, valid = fit_normals(pair, radius=0.25)
    assert valid[:2000].all()
    # Coordinates of 1e6 hold ten digits.
    assert torch.linalg.cross(together[:2000], alone).norm(dim=-1).max() < 1e-6
    assert torch.linalg.cross(together[2000:].flip(0), alone).norm(dim=-1).max() < 1e-6


@pytest.mark.parametrize(
    ("settings_", "sentence"),
    [
        ({}, "either a radius or a number"),
        ({"radius": 0.1, "neighbours": 5}, "either a radius or a number"),
        ({"neighbours": 2}, "2 neighbours were requested for a plane"),
        ({"radius": 0.1, "sign": "up"}, 'sign is "up"'),
        ({"radius": 0.1, "sign": torch.zeros(2, 3)}, r"sign has the shape \(2, 3\)"),
        ({"radius": 0.1, "at": torch.tensor([7])}, "outside 0..3"),
        ({"radius": 0.1, "at": torch.ones(4, dtype=torch.bool)}, "torch.bool"),
    ],
)
def test_bad_requests_give_a_one_sentence_error(settings_, sentence):
    with pytest.raises(ValueError, match=sentence):
        fit_normals(torch.eye(4, 3), **settings_)
