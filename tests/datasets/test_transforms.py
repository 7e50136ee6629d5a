"""Corruptions: what each leaves alone, what it changes, and that the generator decides it."""

import pytest
import torch

from qecnet.datasets import crop, jitter


@pytest.fixture(params=[torch.float32, torch.float64], ids=["float32", "float64"])
def clouds(request):
    """(3, 500, 3)"""
    return torch.randn(3, 500, 3, dtype=request.param, generator=torch.Generator().manual_seed(0))


def generator(seed=1):
    return torch.Generator().manual_seed(seed)


ALL = {
    "jitter": lambda points, g: jitter(points, g, 0.01, 0.05),
    "crop": lambda points, g: crop(points, g, 0.25),
}


@pytest.mark.parametrize("name", ALL)
def test_generator_determines_the_result_and_dtype_is_kept(name, clouds):
    cloud = clouds[0].clone()
    once, again, other = (ALL[name](cloud, generator(seed)) for seed in (1, 1, 2))
    assert torch.equal(once, again)
    assert once.shape != other.shape or not torch.equal(once, other)
    assert once.dtype == cloud.dtype
    assert torch.equal(cloud, clouds[0])


def rows(points):
    return {tuple(row) for row in points.tolist()}


def test_remaining_points_are_points_of_the_cloud_each_once(clouds):
    left = ALL["crop"](clouds[0], generator())
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


def test_a_share_that_leaves_nothing_is_refused(clouds):
    with pytest.raises(ValueError, match="share is 1"):
        crop(clouds[0], generator(), 1)
