"""Stretched clouds: their frames are those of the stretched surface."""

from dataclasses import replace

import pytest
import torch

from qecnet.algebra import angular_distance, to_matrix
from qecnet.geometry import OrientedPoints, local_frames
from qecnet.training.stretch import stretch

FACTORS = torch.tensor([1.25, 0.8, 1.1])


@pytest.fixture
def egg():
    """Points on an ellipsoid of radius 1, (4,000, 3), and a function from it to a batch of one prepared cloud."""
    directions = torch.randn(4000, 3, generator=torch.Generator().manual_seed(0))
    points = torch.nn.functional.normalize(directions, dim=-1) * torch.tensor([1.0, 0.7, 0.5])
    return points - points.mean(0)


def prepared(points, method, at=slice(0, 300)):
    poses, valid = local_frames(points, points[at], method=method)
    return OrientedPoints.from_frames(points[at][None], poses[None], valid[None])


def test_stretched_frames_are_those_of_the_stretched_cloud(egg):
    whole = egg * FACTORS
    found = stretch(prepared(egg, "centred"), FACTORS[None], "centred")
    again = prepared(whole, "centred")
    both = (found.valid & again.valid)[0]
    assert both.float().mean() > 0.9
    error = angular_distance(found.frames, again.frames)[0, both].rad2deg()
    before = angular_distance(prepared(egg, "centred").frames, again.frames)[0, both].rad2deg()
    assert error.median() < 3  # each is estimated from the points that happen to be near
    assert before.median() > 6
    radius = whole[:300].norm(dim=-1).amax()
    torch.testing.assert_close(found.positions[0], whole[:300] / radius)


@pytest.mark.parametrize("method", ["centred", "flare"])
def test_uniform_stretch_changes_nothing(egg, method):
    given = prepared(egg, method)
    found = stretch(given, torch.full((1, 3), 1.3), method)
    assert torch.equal(found.valid, given.valid)
    assert angular_distance(found.frames, given.frames)[given.valid].max() < 2e-3
    torch.testing.assert_close(found.positions, given.positions / given.positions.norm(dim=-1).amax())


def test_x_follows_the_surface_and_frames_stay_frames(egg):
    """FLARE's x looks along the surface; a surface that is stretched takes it along."""
    given = prepared(egg, "flare")
    found = stretch(given, FACTORS[None], "flare")
    before, after = to_matrix(given.frames[given.valid]), to_matrix(found.frames[given.valid])
    along = torch.nn.functional.normalize(before[..., 0] * FACTORS, dim=-1)
    torch.testing.assert_close(after[..., 0], along, atol=1e-5, rtol=0)
    across = torch.nn.functional.normalize(before[..., 2] / FACTORS, dim=-1)
    torch.testing.assert_close(after[..., 2], across, atol=1e-5, rtol=0)


def test_points_in_their_own_coordinates_are_stretched_about_the_origin(egg):
    given = replace(
        prepared(egg, "centred"), centre=torch.tensor([[3.0, -2.0, 5.0]]).double(), scale=torch.tensor([7.0]).double()
    )
    found = stretch(given, FACTORS[None], "centred")
    expected = given.restore(given.positions) * FACTORS
    torch.testing.assert_close(found.restore(found.positions), expected, atol=1e-5, rtol=0)


def test_invalid_frames_stay_invalid(egg):
    given = prepared(egg, "centred")
    given.valid[0, 5] = False
    given.positions[0, 6] = 0  # in the middle, whence no way leads to the middle
    found = stretch(given, FACTORS[None], "centred")
    assert not found.valid[0, [5, 6]].any()
    assert torch.equal(found.frames[0, [5, 6]], torch.eye(4)[0].expand(2, 4))
    assert found.frames.isfinite().all()
