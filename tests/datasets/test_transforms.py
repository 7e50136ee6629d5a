"""Corruptions: what each leaves alone, what it changes, and that the generator decides it."""

import pytest
import torch

from qecnet.datasets import crop, jitter, single_view


@pytest.fixture(params=[torch.float32, torch.float64], ids=["float32", "float64"])
def clouds(request):
    """(3, 500, 3)"""
    return torch.randn(3, 500, 3, dtype=request.param, generator=torch.Generator().manual_seed(0))


def generator(seed=1):
    return torch.Generator().manual_seed(seed)


ALL = {
    "jitter": lambda points, g: jitter(points, g, 0.01, 0.05),
    "crop": lambda points, g: crop(points, g, 0.25),
    "single_view": lambda points, g: single_view(points, g, 3.0),
}


@pytest.mark.parametrize("name", ALL)
def test_the_generator_decides_and_the_dtype_stays(name, clouds):
    cloud = clouds[0].clone()
    once, again, other = (ALL[name](cloud, generator(seed)) for seed in (1, 1, 2))
    assert torch.equal(once, again)
    assert once.shape != other.shape or not torch.equal(once, other)
    assert once.dtype == cloud.dtype
    assert torch.equal(cloud, clouds[0])


def rows(points):
    return {tuple(row) for row in points.tolist()}


@pytest.mark.parametrize("name", ["crop", "single_view"])
def test_remaining_points_are_points_of_the_cloud_each_once(name, clouds):
    left = ALL[name](clouds[0], generator())
    assert len(rows(left)) == len(left) < len(clouds[0])
    assert rows(left) < rows(clouds[0])


def test_jitter_stays_within_its_limit(clouds):
    moved = jitter(clouds, generator(), deviation=0.1, limit=0.15) - clouds
    assert moved.abs().amax() == pytest.approx(0.15, abs=1e-5)
    assert moved.std() == pytest.approx(0.09, abs=0.01)


def test_crop_removes_a_share_beyond_a_plane(clouds):
    cloud = clouds[0]
    left = crop(cloud, generator(), 0.3)
    assert len(left) == 350
    gone = torch.tensor(sorted(rows(cloud) - rows(left)), dtype=cloud.dtype)
    # The direction between the two means is close to the normal of the plane that separates them.
    apart = gone.mean(0) - left.mean(0)
    assert (gone @ apart).mean() > (left @ apart).quantile(0.9)
    assert torch.equal(crop(cloud, generator(), 0.0), cloud)
    assert len(crop(cloud[:1], generator(), 0.9)) == 1


def test_single_view_of_a_ball_is_the_cap_that_faces_the_camera():
    ball = torch.nn.functional.normalize(torch.randn(4000, 3, generator=generator(0), dtype=torch.float64), dim=-1)
    left = single_view(ball, generator(), distance=3.0)
    towards = torch.nn.functional.normalize(left.mean(0), dim=0)
    # From three radii away, the horizon of a unit ball is the circle at a third of its radius.
    assert (left @ towards).amin() == pytest.approx(1 / 3, abs=0.1)
    assert len(left) == pytest.approx(4000 / 3, rel=0.1)


def test_flat_cloud_hides_nothing():
    flat = torch.rand(50, 3, generator=generator()) * torch.tensor([1.0, 1.0, 0.0])
    assert torch.equal(single_view(flat, generator(), 3.0), flat)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda x: crop(x, generator(), 1), "share is 1"),
        (lambda x: single_view(x, generator(), 0.5), "distance is 0.5"),
    ],
)
def test_invalid_settings_are_refused(clouds, call, says):
    with pytest.raises(ValueError, match=says):
        call(clouds[0])
