"""Transforms: what each leaves alone, what it changes, and that the generator decides it."""

import pytest
import torch

from qecnet.algebra import rotate
from qecnet.datasets.transforms import jitter, occlude, random_rotation, random_scale, seen_from, subsample


@pytest.fixture(params=[torch.float32, torch.float64], ids=["float32", "float64"])
def clouds(request):
    """(3, 500, 3)"""
    return torch.randn(3, 500, 3, dtype=request.param, generator=torch.Generator().manual_seed(0))


def generator(seed=1):
    return torch.Generator().manual_seed(seed)


def first(result):
    return result[0] if isinstance(result, tuple) else result


ALL = {
    "subsample": lambda points, g: subsample(points, g, 100),
    "rotation": random_rotation,
    "jitter": jitter,
    "scale": random_scale,
    "occlude": occlude,
    "seen_from": seen_from,
}


@pytest.mark.parametrize("name", ALL)
def test_the_generator_decides_and_the_dtype_stays(name, clouds):
    cloud = clouds[0].clone()
    once, again, other = (first(ALL[name](cloud, generator(seed))) for seed in (1, 1, 2))
    assert torch.equal(once, again)
    assert once.shape != other.shape or not torch.equal(once, other)
    assert once.dtype == cloud.dtype
    assert torch.equal(cloud, clouds[0])


def rows(points):
    return {tuple(row) for row in points.tolist()}


@pytest.mark.parametrize("name", ["subsample", "occlude", "seen_from"])
def test_what_is_left_are_points_of_the_cloud_each_once(name, clouds):
    left = ALL[name](clouds[0], generator())
    assert len(rows(left)) == len(left) < len(clouds[0])
    assert rows(left) < rows(clouds[0])


def test_rotation_is_rigid_known_and_its_own_for_each_cloud(clouds):
    turned, q = random_rotation(clouds, generator())
    assert q.shape == (3, 4)
    assert torch.equal(turned, rotate(q[:, None], clouds))
    apart, before = (torch.cdist(x.double(), x.double()) for x in (turned, clouds))
    torch.testing.assert_close(apart, before, atol=1e-5, rtol=1e-5)
    assert len(rows(q)) == 3


def test_rotations_have_no_favourite_direction():
    turned, _ = random_rotation(torch.tensor([[0.0, 0.0, 1.0]]).expand(4000, 1, 3), generator())
    assert turned.mean(0).abs().amax() < 0.05
    assert (turned[:, 0].T.cov() - torch.eye(3) / 3).abs().amax() < 0.03


def test_jitter_stays_within_its_limit(clouds):
    moved = jitter(clouds, generator(), deviation=0.1, limit=0.15) - clouds
    assert moved.abs().amax() == pytest.approx(0.15, abs=1e-5)
    assert moved.std() == pytest.approx(0.09, abs=0.01)


def test_scale_is_one_factor_for_each_cloud_within_its_bounds(clouds):
    factor = random_scale(clouds, generator(), 0.5, 2) / clouds
    assert ((factor.amax((1, 2)) - factor.amin((1, 2))) < 1e-5).all()
    assert factor.amin() >= 0.5 - 1e-5
    assert factor.amax() <= 2 + 1e-5
    assert len(set(factor[:, 0, 0].tolist())) == 3


def test_occlusion_cuts_a_share_off_with_a_plane(clouds):
    cloud = clouds[0]
    left = occlude(cloud, generator(), 0.3)
    assert len(left) == 350
    gone = torch.tensor(sorted(rows(cloud) - rows(left)), dtype=cloud.dtype)
    # What a plane has parted lies on two sides of some direction; that of the two middles is near enough to it.
    apart = gone.mean(0) - left.mean(0)
    assert (gone @ apart).mean() > (left @ apart).quantile(0.9)
    assert torch.equal(occlude(cloud, generator(), 0.0), cloud)
    assert len(occlude(cloud[:1], generator(), 0.9)) == 1


def test_of_a_ball_one_sees_the_cap_that_faces_the_eye():
    ball = torch.nn.functional.normalize(torch.randn(4000, 3, generator=generator(0), dtype=torch.float64), dim=-1)
    left = seen_from(ball, generator(), distance=3.0)
    towards = torch.nn.functional.normalize(left.mean(0), dim=0)
    # From three radii away, the horizon of a unit ball is the circle at a third of the way to the eye.
    assert (left @ towards).amin() == pytest.approx(1 / 3, abs=0.1)
    assert len(left) == pytest.approx(4000 / 3, rel=0.1)


def test_a_flat_cloud_hides_nothing():
    flat = torch.rand(50, 3, generator=generator()) * torch.tensor([1.0, 1.0, 0.0])
    assert torch.equal(seen_from(flat, generator()), flat)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda x: subsample(x, generator(), 501), "501 points were asked of a cloud of 500"),
        (lambda x: random_scale(x, generator(), 0, 1), "low is 0"),
        (lambda x: occlude(x, generator(), 1), "share is 1"),
        (lambda x: seen_from(x, generator(), 0.5), "distance is 0.5"),
    ],
)
def test_settings_that_make_no_sense_are_sentences(clouds, call, says):
    with pytest.raises(ValueError, match=says):
        call(clouds[0])
