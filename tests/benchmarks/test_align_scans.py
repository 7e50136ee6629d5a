"""Scans of one side aligned with whole shapes: the errors of motions that are known."""

import math
from dataclasses import replace
from unittest.mock import Mock

import pytest
import torch
from benchmarks.align_scans import choose_of_each, make_scene, measure_errors, summarize_errors
from scipy.spatial import cKDTree

from qecnet.algebra import conjugate, from_azimuth, multiply, rotate
from qecnet.datasets import NO_SYMMETRY, SymmetryGroup, open_dataset
from qecnet.models import Alignment


@pytest.fixture(scope="module")
def scene():
    item = choose_of_each(open_dataset("shapes", per_class=5), "test", 1)[2]
    return make_scene(item, torch.Generator().manual_seed(0))


def align_by(scene, azimuth=0.0):
    """The motion from the scan to the whole shape, after a rotation of the upright shape about its centre."""
    first, second = scene.rotations
    turn = multiply(second, from_azimuth(torch.tensor(azimuth, dtype=torch.float64)))
    rotation, scale = multiply(turn, conjugate(first)), 1 / scene.scale
    place = rotate(turn, scene.upright - scene.centre) + rotate(second, scene.centre)
    shift = (place - scale * rotate(rotation, scene.scan.points)).mean(0)
    return Alignment(rotation, shift, 0.0, Mock(), Mock(), scale)


def test_the_true_motion_has_no_error_and_brings_the_scan_onto_the_whole_without_common_points(scene):
    truth = align_by(scene)
    assert measure_errors(truth, scene, NO_SYMMETRY) == pytest.approx((0, 0, 0), abs=1e-5)
    distances = cKDTree(scene.whole.points.numpy()).query(truth.moved(scene.scan.points).numpy())[0]
    assert 0 < distances.min() <= distances.max() < 0.2 * scene.radius


def test_errors_are_those_of_the_motion_up_to_symmetry(scene):
    turned = align_by(scene, math.pi / 2)
    angle, scale, error = measure_errors(turned, scene, NO_SYMMETRY)
    assert (angle, scale) == pytest.approx((90, 0), abs=1e-4)
    assert error > 0.2
    assert measure_errors(turned, scene, SymmetryGroup(4)) == pytest.approx((0, 0, 0), abs=1e-5)
    larger = replace(turned, scale=1.25 * turned.scale)
    assert measure_errors(larger, scene, SymmetryGroup(4))[1] == pytest.approx(0.25)


def test_the_summary_has_medians_and_shares():
    found = summarize_errors([[1.0, 0.01, 0.02, 100.0], [2.0, 0.03, 0.07, 120.0], [90.0, 0.5, 0.9, 200.0]])
    assert (found["scans"], found["rotation"], found["within_15"], found["scale"]) == (3, "2.00", "0.667", "0.0300")
    assert (found["below_05"], found["below_10"], found["milliseconds"]) == ("0.333", "0.667", "120")
