"""The last degrees of an alignment, by the nearest points."""

import sys
from dataclasses import replace
from unittest.mock import Mock

import numpy as np
import pytest
import torch

from qecnet.algebra import angular_distance, conjugate, from_rotvec, multiply, random_quaternion, rotate
from qecnet.datasets import make_shape, sample_view
from qecnet.geometry import PointCloud
from qecnet.models import Alignment
from qecnet.models.refine import refine_alignment, residual

TURN = random_quaternion((), generator=1, dtype=torch.float64)
SHIFT = torch.tensor([40.0, -10.0, 3.0], dtype=torch.float64)


def scans(scale=7.0):
    """Two samples of a chair, the second one moved, in units in which it is seven metres high."""
    mesh = make_shape("chair", 3)
    first, second = (mesh.sample(4000, torch.Generator().manual_seed(seed)).points * scale for seed in (0, 1))
    return PointCloud(first), PointCloud(rotate(TURN, second) + SHIFT)


def about_right(source, target, degrees=8.0):
    """Off by some degrees about the source's centre, and by a bit."""
    off = from_rotvec(torch.tensor([0.0, np.radians(degrees), 0.0], dtype=torch.float64))
    rotation = multiply(TURN, off)
    centre = source.points.mean(0)
    translation = rotate(TURN, centre) + SHIFT - rotate(rotation, centre) + 0.1
    found = Alignment(rotation, translation, 0.0, Mock(), Mock())
    return replace(found, residual=residual(found.moved(source.points), target))


def test_approximate_alignment_becomes_exact():
    pytest.importorskip("small_gicp")
    source, target = scans()
    start = about_right(source, target)
    found = refine_alignment(start, source, target)
    assert angular_distance(found.rotation, TURN) < np.radians(0.5)
    assert torch.allclose(found.translation, SHIFT, atol=0.05)
    assert found.residual < start.residual / 2
    assert np.isclose(found.residual, residual(found.moved(source.points), target))


def test_a_scale_is_kept():
    """The source in other units: its points at the size of the target are refined as they would be without."""
    pytest.importorskip("small_gicp")
    source, target = scans()
    start = about_right(source, target)
    small = PointCloud(source.points / 1000)
    found, plain = (
        refine_alignment(replace(start, scale=1000.0), small, target),
        refine_alignment(start, source, target),
    )
    assert found.scale == 1000
    assert angular_distance(found.rotation, plain.rotation) < 1e-5
    assert torch.allclose(found.matrix[:3, :3] / 1000, plain.matrix[:3, :3], atol=1e-5)
    assert torch.allclose(found.moved(small.points), plain.moved(source.points), atol=1e-4)


@pytest.mark.parametrize("whole_first", [False, True])
def test_a_view_and_a_whole_shape_are_refined_in_both_directions(whole_first):
    pytest.importorskip("small_gicp")
    whole, _ = scans()
    seen = sample_view(make_shape("chair", 3), torch.Generator().manual_seed(0)).cloud
    view = PointCloud(rotate(TURN, 7 * seen.points) + SHIFT)
    start = about_right(whole, view)
    if not whole_first:
        back = conjugate(start.rotation)
        start = replace(start, rotation=back, translation=-rotate(back, start.translation))
        start = replace(start, residual=residual(start.moved(view.points), whole))
    found = refine_alignment(start, *((whole, view) if whole_first else (view, whole)))
    assert angular_distance(found.rotation, TURN if whole_first else conjugate(TURN)) < np.radians(1)


@pytest.mark.parametrize("tilt", [from_rotvec(torch.zeros(3, dtype=torch.float64)), TURN])
def test_known_up_directions_are_kept(tilt):
    pytest.importorskip("small_gicp")
    source, target = scans()
    up = torch.tensor([1.0, 2.0, -2.0], dtype=torch.float64) / 3
    target = PointCloud(rotate(from_rotvec(1.2 * up), source.points) + SHIFT)
    source, source_up = PointCloud(rotate(tilt, source.points)), rotate(tilt, up)
    start = Alignment(multiply(from_rotvec(1.1 * up), conjugate(tilt)), SHIFT + 0.2, 0.0, Mock(), Mock())
    start = replace(start, residual=residual(start.moved(source.points), target))
    free, kept = refine_alignment(start, source, target), refine_alignment(start, source, target, up)
    assert not torch.allclose(rotate(free.rotation, source_up), up, rtol=0, atol=1e-9)
    assert torch.allclose(rotate(kept.rotation, source_up), up, rtol=0, atol=1e-12)
    assert angular_distance(multiply(kept.rotation, tilt), from_rotvec(1.2 * up)) < np.radians(0.5)
    assert kept.residual < start.residual / 2


def test_correct_alignment_is_unchanged():
    pytest.importorskip("small_gicp")
    source, _ = scans()
    target = PointCloud(rotate(TURN, source.points) + SHIFT)
    start = Alignment(TURN, SHIFT, 0.0, Mock(), Mock())
    start = replace(start, residual=residual(start.moved(source.points), target))
    assert start.residual < 1e-9
    assert refine_alignment(start, source, target).residual <= start.residual


def test_without_small_gicp_the_error_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "small_gicp", None)
    source, target = scans()
    with pytest.raises(ValueError, match=r"pip install 'qecnet\[refine\]'"):
        refine_alignment(about_right(source, target), source, target)
