"""Oriented points: one cloud or a batch, rotated, selected, moved and sent as they are."""

import pickle
from dataclasses import fields

import pytest
import torch

from qecnet.algebra import multiply, random_quaternion, rotate
from qecnet.geometry import OrientedPoints


def one_cloud(seed, points=20):
    generator = torch.Generator().manual_seed(seed)
    return OrientedPoints(
        torch.randn(points, 3, generator=generator),
        random_quaternion((points,), generator),
        torch.rand(points, generator=generator) < 0.8,
        torch.randn(3, generator=generator, dtype=torch.float64),
        torch.tensor(2.0 + seed, dtype=torch.float64),
        random_quaternion((3,), generator),
    )


def assert_same(a, b):
    for field in fields(OrientedPoints):
        assert torch.equal(getattr(a, field.name), getattr(b, field.name)), field.name


def test_select_inverts_stack():
    clouds = [one_cloud(seed) for seed in range(3)]
    batch = OrientedPoints.stack(clouds)
    assert batch.positions.shape == (3, 20, 3)
    for number, cloud in enumerate(clouds):
        assert_same(batch.select(number), cloud)
    assert_same(batch.select(slice(1, 3)), OrientedPoints.stack(clouds[1:]))


def test_rotation_is_about_the_users_origin():
    batch = OrientedPoints.stack([one_cloud(seed) for seed in range(3)])
    q = random_quaternion((3,), 0, dtype=torch.float64)
    rotated = batch.rotated(q)
    before, after = (p.restore(p.positions) for p in (batch, rotated))
    assert torch.allclose(after, rotate(q[:, None], before), atol=1e-5)
    assert torch.allclose(rotated.frames, multiply(q[:, None], batch.frames.double()).float(), atol=1e-6)
    assert torch.equal(rotated.valid, batch.valid)


def test_pickling_preserves_the_points():
    batch = OrientedPoints.stack([one_cloud(0), one_cloud(1)])
    for given in (batch, batch.select(0)):
        assert_same(pickle.loads(pickle.dumps(given)), given)


def test_mismatched_shapes_give_a_one_sentence_error():
    cloud = one_cloud(0)
    with pytest.raises(ValueError, match=r"frames has shape \(20, 3\); for valid \(20,\) it must be \(20, 4\)"):
        OrientedPoints.from_frames(cloud.positions, cloud.positions, cloud.valid)
    with pytest.raises(ValueError, match=r"valid has dtype torch\.float32; it must be bool"):
        OrientedPoints.from_frames(cloud.positions, cloud.frames, cloud.valid.float())
    with pytest.raises(ValueError, match="not a batch to select from"):
        cloud.select(0)
