"""Refinement with a scale: a view of one side and the whole shape."""

from dataclasses import replace
from unittest.mock import Mock

import numpy as np
import pytest
import torch

import qecnet
from qecnet.algebra import angular_distance, canonicalize, conjugate, from_rotvec, multiply, random_quaternion, rotate
from qecnet.datasets import make_shape, sample_view
from qecnet.geometry import PointCloud
from qecnet.models import Alignment
from qecnet.models.refine import residual
from qecnet.models.similarity import refine_similarity

TURN = random_quaternion((), generator=1, dtype=torch.float64)
SHIFT = torch.tensor([40.0, -10.0, 3.0], dtype=torch.float64)
SCALE = 0.37


def vector(*values):
    return torch.tensor(values, dtype=torch.float64)


@pytest.fixture(scope="module")
def scene():
    """A view of a chair, and the whole chair after `TURN`, `SHIFT` and `SCALE`."""
    mesh = make_shape("chair", 3)
    view = sample_view(mesh, torch.Generator().manual_seed(0)).cloud.points.double()
    whole = mesh.sample(4000, torch.Generator().manual_seed(1)).points.double()
    return PointCloud(view), PointCloud(SCALE * rotate(TURN, whole) + SHIFT)


def start(source, target, turn=TURN, degrees=8.0, growth=1.1, axis=(0.0, 1.0, 0.0)):
    """An alignment that is off by a rotation and a factor about the source's mean point."""
    rotation = canonicalize(multiply(turn, from_rotvec(np.radians(degrees) * vector(*axis))))
    centre = source.points.mean(0)
    translation = SCALE * rotate(TURN, centre) + SHIFT - growth * SCALE * rotate(rotation, centre)
    found = Alignment(rotation, translation, 0.0, Mock(), Mock(), growth * SCALE)
    return replace(found, residual=residual(found.moved(source.points), target))


def inverse(alignment):
    back = conjugate(alignment.rotation)
    translation = -rotate(back, alignment.translation) / alignment.scale
    return replace(alignment, rotation=back, translation=translation, scale=1 / alignment.scale)


@pytest.mark.parametrize("growth", [0.9, 1.1])
@pytest.mark.parametrize("view_first", [True, False])
def test_a_similarity_is_recovered_from_a_view(scene, view_first, growth):
    view, whole = scene
    about_right = start(view, whole, growth=growth)
    if view_first:
        found = refine_similarity([about_right], view, whole)
    else:
        found = inverse(refine_similarity([inverse(about_right)], whole, view))
    assert angular_distance(found.rotation, TURN) < np.radians(1)
    assert found.scale == pytest.approx(SCALE, rel=0.02)
    expected = SCALE * rotate(TURN, view.points) + SHIFT
    assert (found.moved(view.points) - expected).norm(dim=-1).mean() < 0.02 * SCALE


def test_the_true_motion_is_a_fixed_point(scene):
    _, whole = scene
    part = whole.points[:, 2] > whole.points[:, 2].median()
    view = PointCloud(rotate(conjugate(TURN), whole.points[part] - SHIFT) / SCALE)
    exact = start(view, whole, degrees=0.0, growth=1.0)
    found = refine_similarity([exact], view, whole)
    assert found.scale == pytest.approx(SCALE, rel=1e-9)
    assert torch.allclose(found.matrix, exact.matrix, atol=1e-9)


def test_refinement_is_equivariant(scene):
    view, whole = scene
    about_right = start(view, whole)
    q = random_quaternion((), generator=2, dtype=torch.float64)
    rotated_start = replace(about_right, rotation=canonicalize(multiply(about_right.rotation, conjugate(q))))
    plain = refine_similarity([about_right], view, whole)
    rotated = refine_similarity([rotated_start], view.rotated(q), whole)
    assert angular_distance(multiply(rotated.rotation, q), plain.rotation) < 1e-6
    assert rotated.scale == pytest.approx(plain.scale, rel=1e-6)
    assert torch.allclose(rotated.translation, plain.translation, atol=1e-5)


def test_the_best_of_several_starts_is_kept(scene):
    view, whole = scene
    backwards = start(view, whole, turn=multiply(TURN, from_rotvec(vector(0, 0, np.pi))))
    right = start(view, whole)
    found = refine_similarity([backwards, right], view, whole)
    assert angular_distance(found.rotation, TURN) < np.radians(1)
    assert found.residual < backwards.residual / 2
    assert found.residual == pytest.approx(residual(found.moved(view.points), whole))


@pytest.mark.parametrize("view_first", [True, False])
def test_known_up_directions_are_kept_with_a_scale(scene, view_first):
    """The direction of the view is another one than that of the whole."""
    view, whole = scene
    about, tilt = vector(1, 2, -2) / 3, random_quaternion((), generator=7, dtype=torch.float64)
    right = multiply(from_rotvec(1.2 * about), conjugate(tilt))  # of the view in these coordinates
    tilted = PointCloud(rotate(tilt, view.points))
    level = PointCloud(rotate(multiply(from_rotvec(1.2 * about), conjugate(TURN)), whole.points))
    begun = Alignment(multiply(from_rotvec(1.1 * about), conjugate(tilt)), vector(0, 0, 0), 0.0, Mock(), Mock())
    begun = replace(begun, scale=1.1 * SCALE)
    middle = SCALE * rotate(right, tilted.points.mean(0))
    shift = rotate(multiply(from_rotvec(1.2 * about), conjugate(TURN)), SHIFT)
    begun = replace(begun, translation=middle + shift - begun.moved(tilted.points.mean(0)))
    if view_first:
        found = refine_similarity([begun], tilted, level, about)
    else:
        found = inverse(refine_similarity([inverse(begun)], level, tilted, rotate(tilt, about)))
    assert torch.allclose(rotate(found.rotation, rotate(tilt, about)), about, rtol=0, atol=1e-9)
    assert angular_distance(found.rotation, right) < np.radians(1)
    assert found.scale == pytest.approx(SCALE, rel=0.02)


@pytest.mark.parametrize("count", [9, 400])
def test_a_plane_and_a_few_points_stay_near_their_start(count):
    """A piece of a plane may slide on the plane; it neither collapses nor moves away."""
    generator = torch.Generator().manual_seed(0)
    plane = torch.rand((2000, 3), generator=generator, dtype=torch.float64) * vector(2, 2, 0)
    piece = 0.5 + torch.rand((count, 3), generator=generator, dtype=torch.float64) * vector(1, 1, 0)
    begun = Alignment(vector(1, 0, 0, 0), vector(0, 0, 0.1), 0.0, Mock(), Mock())
    found = refine_similarity([begun], PointCloud(piece - vector(0, 0, 0.5)), PointCloud(plane))
    assert found.matrix.isfinite().all()
    assert found.scale == pytest.approx(1, rel=0.15)
    assert found.residual < 0.15
    assert (found.moved(piece) - piece).norm(dim=-1).mean() < 0.7


@pytest.mark.parametrize("count", [1, 4])
def test_a_result_of_an_implausible_size_is_no_result(count):
    """From a wrong half turn, registration would enlarge the view several times: relative to it, distances shrink."""
    mesh = make_shape("chair", 3)
    view = PointCloud(sample_view(mesh, torch.Generator().manual_seed(0)).cloud.points.double())
    whole = PointCloud(mesh.sample(4000, torch.Generator().manual_seed(1)).points.double())
    backwards = Alignment(vector(0, 0, 0, 1), vector(0, 0, 0), 0.0, Mock(), Mock())
    assert refine_similarity([backwards] * count, view, whole) is backwards


def test_align_refines_rotation_and_scale_of_a_view():
    mesh = make_shape("toilet", 3)
    view = sample_view(mesh, torch.Generator().manual_seed(0)).cloud.points.double()
    whole = SCALE * rotate(TURN, mesh.sample(6000, torch.Generator().manual_seed(1)).points.double()) + SHIFT
    found = qecnet.load("modelnet10").align(view, whole, scale=True, refine=True)
    assert angular_distance(found.rotation, TURN) < np.radians(2)
    assert found.scale == pytest.approx(SCALE, rel=0.05)
