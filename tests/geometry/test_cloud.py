"""A cloud keeps its shape, its order and the way back to its user's coordinates."""

import dataclasses
import pickle

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kinds import present

from qecnet.algebra import random_quaternion, rotate
from qecnet.geometry import PointCloud, cloud


def points(count: int = 200, seed: int = 0, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(count, 3, generator=torch.Generator().manual_seed(seed), dtype=dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_normalized_has_zero_mean_and_largest_radius_one(dtype):
    normalized = PointCloud(points() * 7 + 3).normalized(dtype)
    assert normalized.points.dtype == dtype
    assert normalized.points.mean(0).abs().max() < 1e-6
    assert normalized.points.norm(dim=-1).max() == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("size", [1e-200, 1e-12, 1.0, 1e12, 1e200])
@pytest.mark.parametrize("shift", [0.0, 5.0])
def test_restore_undoes_normalized_at_any_scale(size, shift):
    given = PointCloud(points() * size + shift * size)
    normalized = given.normalized(torch.float64)
    error = (normalized.restore(normalized.points) - given.points).abs().max()
    assert error <= 1e-14 * given.points.abs().max()


def test_normalized_cloud_is_invariant_to_translation_and_scale():
    moved = PointCloud(points() * 1e3 + torch.tensor([4e5, 5e6, 80.0], dtype=torch.float64))
    assert torch.allclose(moved.normalized().points, PointCloud(points()).normalized().points, atol=1e-6)


def test_map_coordinates_keep_a_shape_smaller_than_their_float32_spacing():
    shape = points() * 0.01
    normalized = PointCloud(shape + torch.tensor([5e5, 5e6, 100.0], dtype=torch.float64)).normalized()
    expected = PointCloud(shape).normalized()
    assert torch.allclose(normalized.points, expected.points, atol=1e-6)
    assert normalized.restore(normalized.points).std(0) == pytest.approx(shape.std(0), rel=1e-4)


def test_normalizing_twice_still_leads_back_to_the_user():
    given = PointCloud(points() * 3 + 10)
    once = given.normalized(torch.float64)
    part = PointCloud(once.points[:50] + 2, centre=once.centre - 2 * once.scale, scale=once.scale)
    twice = part.normalized(torch.float64)
    assert torch.allclose(twice.restore(twice.points), given.points[:50], atol=1e-12)


def test_restore_of_a_cloud_never_normalized_changes_nothing():
    given = points()
    assert torch.equal(PointCloud(given).restore(given), given)


@pytest.mark.parametrize("count", [1, 7])
def test_equal_points_are_normalized_to_the_origin_and_restored(count):
    given = PointCloud(torch.full((count, 3), 0.1, dtype=torch.float64))
    normalized = given.normalized(torch.float64)
    assert (normalized.points == 0).all()
    assert torch.equal(normalized.restore(normalized.points), given.points)


def test_coordinates_that_cannot_be_centred_are_refused_by_name():
    huge = torch.tensor([[1.7e308, 0, 0], [1.6e308, 0, 0]], dtype=torch.float64)
    with pytest.raises(ValueError, match=r"^scan: .*too large"):
        PointCloud(huge, name="scan").normalized()


def test_clean_counts_what_it_drops_and_keeps_the_order():
    nan, inf = float("nan"), float("inf")
    rows = [[3.0, 0, 0], [1, 0, 0], [nan, 0, 0], [3, 0, 0], [2, 0, 0], [0, -inf, 0], [1, 0, 0], [1, 0, 0]]
    normals = torch.arange(24.0).reshape(8, 3)
    normals[1, 2] = nan
    cleaned = PointCloud(torch.tensor(rows), normals).clean()
    assert cleaned.points[:, 0].tolist() == [3, 1, 2]
    assert (cleaned.non_finite, cleaned.duplicates) == (2, 3)
    assert present(cleaned.normals).tolist() == [[0, 1, 2], [0, 0, 0], [12, 13, 14]]


def test_positive_and_negative_zero_are_one_position():
    assert len(PointCloud(torch.tensor([[0.0, 1, 2], [-0.0, 1, 2]])).clean()) == 1


@given(st.lists(st.tuples(*[st.sampled_from([-1.5, -0.0, 0.0, 1e-300, 2.0])] * 3), min_size=1, max_size=40))
@settings(max_examples=60, deadline=None)
def test_clean_keeps_the_first_of_each_position(rows):
    cleaned = PointCloud(torch.tensor(rows, dtype=torch.float64)).clean()
    assert [tuple(p) for p in cleaned.points.tolist()] == list(dict.fromkeys(rows))
    assert cleaned.duplicates == len(rows) - len(cleaned)


def test_positions_with_equal_keys_are_distinguished(monkeypatch):
    given = points()[torch.randint(0, 200, (500,), generator=torch.Generator().manual_seed(1))]
    expected = PointCloud(given).clean()
    monkeypatch.setattr(cloud, "_mix", lambda rows: torch.zeros(len(rows), dtype=torch.int64))
    assert torch.equal(PointCloud(given).clean().points, expected.points)
    assert 0 < len(expected) < 200


def test_cloud_without_finite_points_is_refused():
    with pytest.raises(ValueError, match="none of the 2 points"):
        PointCloud(torch.full((2, 3), float("nan"))).clean()


@pytest.mark.parametrize(
    ("values", "normals", "message"),
    [
        (torch.zeros(0, 3), None, "shape"),
        (torch.zeros(4, 2), None, "shape"),
        (torch.zeros(12), None, "shape"),
        (torch.zeros(4, 3, dtype=torch.int64), None, "float32 or float64"),
        (torch.zeros(4, 3), torch.zeros(3, 3), "one normal for each point"),
    ],
)
def test_invalid_arrays_are_refused(values, normals, message):
    with pytest.raises(ValueError, match=message):
        PointCloud(values, normals)


def test_clean_cloud_is_not_cleaned_again():
    cloud = PointCloud(torch.eye(3)).clean()
    assert cloud.clean() is cloud
    subset = cloud.select(torch.tensor([0, 2]))
    assert subset.clean() is subset
    assert len(dataclasses.replace(cloud, points=torch.zeros(3, 3)).clean()) == 1


def test_a_rotated_cloud_is_the_cloud_in_rotated_coordinates():
    given = PointCloud(points(50), points(50, 1))
    q = random_quaternion((), 3, dtype=torch.float64)
    rotated = dataclasses.replace(given, centre=torch.ones(3, dtype=torch.float64), scale=2.0).rotated(q)
    assert torch.allclose(rotated.restore(rotated.points), rotate(q, 2 * given.points + 1))
    assert torch.allclose(present(rotated.normals), rotate(q, present(given.normals)))


def test_pickling_preserves_the_cloud():
    given = PointCloud(points(5), points(5, 1), "chair", scale=2.0).clean()
    found = pickle.loads(pickle.dumps(given))
    assert (found.name, found.scale, found.clean()) == ("chair", 2.0, found)
    for name in ("points", "normals", "centre"):
        assert torch.equal(getattr(found, name), getattr(given, name))
