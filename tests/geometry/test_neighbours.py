"""Neighbours against all distances."""

import pytest
import torch

from qecnet.geometry import nearest_neighbours, radius_neighbours


def test_nearest_are_those_of_all_distances(bumpy, dtype):
    points, queries = bumpy.to(dtype), bumpy[:50].to(dtype) + 0.01
    indices, mask = nearest_neighbours(points, queries, 7)
    expected = torch.cdist(queries.double(), points.double()).topk(7, largest=False).indices
    assert mask.all()
    assert torch.equal(indices, expected)


def test_missing_nearest_are_masked():
    points = torch.eye(3)
    indices, mask = nearest_neighbours(points, points, 5)
    assert mask.tolist() == [[True, True, True, False, False]] * 3
    assert indices[:, 0].tolist() == [0, 1, 2]
    assert (indices[:, 3:] == 0).all()


@pytest.mark.parametrize(("scale", "offset"), [(1, 0), (1e-12, 0), (1e12, 0), (1, 1e4)])
def test_all_within_the_radius_and_no_others(bumpy, scale, offset):
    points, queries = bumpy * scale + offset, bumpy[:80] * scale + offset
    indices, mask = radius_neighbours(points, queries, 0.3 * scale)
    inside = torch.cdist(queries / scale, points / scale, compute_mode="donot_use_mm_for_euclid_dist") <= 0.3
    found = torch.zeros_like(inside)
    rows = torch.arange(80)[:, None].expand_as(indices)
    found[rows[mask], indices[mask]] = True
    assert torch.equal(found, inside)
    assert (indices[~mask] == 0).all()
    assert mask.any(0).all(), "no column is empty"


def test_a_radius_includes_its_end():
    points = torch.tensor([[0.0, 0, 0], [3, 4, 0], [3, 4, 1e-3]])
    indices, mask = radius_neighbours(points, points[:1], 5.0)
    assert indices[mask].tolist() == [0, 1]


def test_a_query_with_nothing_near_is_masked():
    points = torch.eye(3)
    indices, mask = radius_neighbours(points, torch.tensor([[1.0, 0, 0], [9, 9, 9]]), 0.5)
    assert mask.tolist() == [[True], [False]]
    assert indices.tolist() == [[0], [0]]


def test_repeated_points_are_all_found():
    indices, mask = radius_neighbours(torch.ones(40, 3), torch.ones(1, 3), 0.1)
    assert mask.all()
    assert indices.tolist() == [list(range(40))]


@pytest.mark.parametrize("radius", [0.0, -1.0, float("nan"), float("inf")])
def test_a_radius_is_a_positive_number(radius):
    with pytest.raises(ValueError, match="radius is"):
        radius_neighbours(torch.eye(3), torch.eye(3), radius)
