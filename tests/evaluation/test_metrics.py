"""Scores against cases counted by hand, SciPy's rotations, and what chance would give."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.spatial.transform import Rotation
from tests.kinds import present

from qecnet.evaluation.metrics import (
    EXPECTED_RANDOM_RAE,
    NO_SYM,
    group_errors,
    relative_rotation,
    rotation_angles,
    score_classification,
    summarize_errors,
)
from qecnet.evaluation.results import BINS, ErrorGroups


def wxyz(rotation):
    return rotation.as_quat()[..., [3, 0, 1, 2]]


def random_rotations(count, seed):
    return Rotation.random(count, random_state=seed)


def test_classification_by_hand():
    truth = [0, 0, 0, 0, 1, 1, 3]
    predicted = [0, 0, 0, 1, 1, 3, 2]
    score = score_classification(truth, predicted, range(7), ["chair", "bed", "sofa", "desk"], seed=0)
    assert score.accuracy == pytest.approx(4 / 7)
    assert score.per_class == {"chair": 0.75, "bed": 0.5, "sofa": None, "desk": 0.0}
    assert score.mean_class == pytest.approx((0.75 + 0.5 + 0.0) / 3)
    assert score.confusion == ((3, 1, 0, 0), (0, 1, 0, 1), (0, 0, 0, 0), (0, 0, 1, 0))


def test_the_interval_by_hand():
    # Two shapes, one always right, one always wrong, of three views each: a draw is 0, 1/2 or 1, and 0 and 1 are each
    # a quarter of all. One shape is drawn as itself.
    right = score_classification([0] * 6, [0, 0, 0, 1, 1, 1], [7, 7, 7, 9, 9, 9], ["a", "b"], seed=0)
    assert (right.accuracy, right.interval) == (0.5, (0.0, 1.0))
    alone = score_classification([0] * 4, [0, 0, 0, 1], [7] * 4, ["a", "b"], seed=0)
    assert alone.interval == (0.75, 0.75)


def test_the_interval_of_many_single_views_is_the_binomials():
    rng = np.random.default_rng(0)
    wrong = (rng.random(2000) < 0.2).astype(int)
    score = score_classification(np.zeros(2000, int), wrong, np.arange(2000), ["a", "b"], seed=1)
    half = 1.96 * np.sqrt(score.accuracy * (1 - score.accuracy) / 2000)
    assert score.interval == pytest.approx((score.accuracy - half, score.accuracy + half), abs=0.003)


def test_the_interval_covers_the_truth_although_views_of_a_shape_agree():
    rng = np.random.default_rng(0)
    shape = np.repeat(np.arange(150), 5)
    covered, if_apart = 0, 0
    for trial in range(200):
        wrong = np.repeat(rng.random(150) < 0.3, 5).astype(int)
        low, high = score_classification(0 * wrong, wrong, shape, ["a", "b"], seed=trial).interval
        covered += low <= 0.7 <= high
        low, high = score_classification(0 * wrong, wrong, np.arange(750), ["a", "b"], seed=trial).interval
        if_apart += low <= 0.7 <= high
    assert 180 <= covered <= 198
    assert if_apart < 150


def test_the_seed_decides_the_interval_and_the_order_of_views_does_not():
    rng = np.random.default_rng(0)
    truth, predicted, shape = rng.integers(3, size=90), rng.integers(3, size=90), np.repeat(np.arange(30), 3)
    score = score_classification(truth, predicted, shape, "abc", seed=5)
    order = rng.permutation(90)
    assert score_classification(truth[order], predicted[order], shape[order], "abc", seed=5) == score
    assert score_classification(truth, predicted, shape, "abc", seed=6).interval != score.interval


def test_single_class_all_correct():
    score = score_classification([0, 0], [0, 0], [0, 1], ["chair"], seed=0)
    assert (score.accuracy, score.interval, score.mean_class) == (1.0, (1.0, 1.0), 1.0)


def test_no_views_cannot_be_scored():
    with pytest.raises(ValueError, match="truth has no views"):
        score_classification([], [], [], ["a", "b"], seed=0)


def test_angles_agree_with_scipy():
    p, q = random_rotations(500, 0), random_rotations(500, 1)
    np.testing.assert_allclose(rotation_angles(wxyz(p), wxyz(q)), (p.inv() * q).magnitude(), atol=1e-12)
    np.testing.assert_allclose(rotation_angles(wxyz(p), -wxyz(p)), 0, atol=1e-15)


@pytest.mark.parametrize("angle", [0.0, 1e-12, 1e-8, 1e-4, np.pi - 1e-9, np.pi])
def test_angles_are_exact_near_zero_and_pi(angle):
    p = random_rotations(50, 0)
    turned = p * Rotation.from_rotvec([0, 0, angle])
    np.testing.assert_allclose(rotation_angles(wxyz(p), wxyz(turned)), angle, atol=1e-15 * 4, rtol=1e-15 * 4)


def test_float32_poses_have_errors_of_float32():
    p = wxyz(random_rotations(500, 0))
    assert rotation_angles(p.astype(np.float32), p).max() < 3e-7
    stretched = (p * 1.0001).astype(np.float32)
    assert rotation_angles(stretched, p).max() < 3e-7


def test_relative_rotation_maps_the_first_pose_to_the_second():
    a, b = random_rotations(100, 0), random_rotations(100, 1)
    expected = wxyz(b * a.inv())
    np.testing.assert_allclose(rotation_angles(relative_rotation(wxyz(a), wxyz(b)), expected), 0, atol=1e-14)
    assert relative_rotation(wxyz(a[0]), wxyz(b)).shape == (100, 4)


@pytest.mark.parametrize("bad", [[0.0, 0, 0, 0], [np.nan, 0, 0, 1], [2.0, 0, 0, 0]])
def test_non_rotations_are_refused(bad):
    with pytest.raises(ValueError, match="q has a quaternion that is not finite or not of length 1"):
        rotation_angles([[1.0, 0, 0, 0]], [bad])
    with pytest.raises(ValueError, match=r"p has shape \(3,\)"):
        rotation_angles([1.0, 0, 0], [1.0, 0, 0, 0])


def test_chance_level_by_quadrature_and_by_sampling():
    density, _ = quad(lambda t: (1 - np.cos(t)) / np.pi, 0, np.pi)
    mean, _ = quad(lambda t: t / np.pi * (1 - np.cos(t)) / np.pi, 0, np.pi)
    assert density == pytest.approx(1)
    assert pytest.approx(mean, abs=1e-12) == EXPECTED_RANDOM_RAE
    truth, guess = wxyz(random_rotations(40_000, 0)), wxyz(random_rotations(40_000, 1))
    error = rotation_angles(truth, guess)
    assert present(summarize_errors(error, error)).mean == pytest.approx(EXPECTED_RANDOM_RAE, abs=0.004)
    assert round(EXPECTED_RANDOM_RAE, 4) == 0.7026


def test_perfect_predictor_has_zero_error():
    truth = wxyz(random_rotations(30, 0))
    row = present(summarize_errors(rotation_angles(truth, -truth), rotation_angles(truth, truth)))
    assert row.mean == pytest.approx(0, abs=1e-15)
    assert row.acc5 == row.symmetric.acc5 == 1
    assert row.histogram == (1.0, *[0.0] * 35)


def test_a_row_by_hand():
    degrees = np.array([1.0, 4, 12, 20, 33, 47, 90, 180])
    row = present(summarize_errors(np.deg2rad(degrees), np.deg2rad(degrees / 2)))
    assert row.count == 8
    assert row.mean == pytest.approx(degrees.mean() / 180)
    assert row.median == pytest.approx(26.5 / 180)
    assert [row.acc5, row.acc15, row.acc30] == [2 / 8, 3 / 8, 4 / 8]
    assert dict(zip(BINS, row.cumulative, strict=True))[45] == 5 / 8
    assert row.symmetric.median == pytest.approx(13.25 / 180)
    assert row.symmetric.acc5 == 2 / 8
    assert row.histogram[35] == row.histogram[0] / 2 == 1 / 8


@pytest.mark.parametrize("degrees", [5, 15, 30])
def test_an_error_on_the_bound_is_not_below_it(degrees):
    bound = np.deg2rad(degrees)
    row = present(summarize_errors([bound, np.nextafter(bound, 0)], [bound, bound]))
    assert getattr(row, f"acc{degrees}") == 0.5
    assert getattr(row.symmetric, f"acc{degrees}") == 0


def test_histogram_and_cumulative_agree():
    rng = np.random.default_rng(0)
    error = np.concatenate((rng.uniform(0, np.pi, 500), np.deg2rad(np.arange(0, 181, 5)), [np.pi]))
    row = present(summarize_errors(error, error))
    assert sum(row.histogram) == pytest.approx(1)
    np.testing.assert_allclose(np.cumsum(row.histogram)[np.array(BINS) // 5 - 1], row.cumulative, atol=1e-12)


def test_groups_by_hand():
    classes = ["bathtub", "bed", "chair", "table"]
    error = np.deg2rad([10.0, 20, 40, 180, 180])
    groups = group_errors(error, error / 2, [1, 2, 2, 0, 0], classes)
    assert present(groups.all_classes).mean == pytest.approx(430 / 5 / 180)
    assert present(groups.no_sym).mean == pytest.approx(70 / 3 / 180)
    assert present(groups.no_sym).symmetric.mean == pytest.approx(35 / 3 / 180)
    assert {name: row and row.count for name, row in groups.per_class.items()} == {
        "bathtub": 2, "bed": 1, "chair": 2, "table": None,
    }  # fmt: skip
    assert set(NO_SYM) & set(classes) == {"bed", "chair"}


def test_empty_group_is_none():
    assert summarize_errors([], []) is None
    assert group_errors([], [], [], ["chair"]) == ErrorGroups(all_classes=None, no_sym=None, per_class={"chair": None})
    assert group_errors([0.1], [0.1], [0], ["table"]).no_sym is None
