"""Calibrations: found again where they are known, and what they leave alone."""

import math
from dataclasses import replace

import pytest
import torch
from tests.kinds import present

from qecnet.algebra import from_rotvec, multiply, random_quaternion
from qecnet.nn import Calibration, Orientations, Prediction, Whole, candidate_set, fit_calibration, right_poses
from qecnet.nn.losses import log_positive
from qecnet.nn.temperature import fit_set_temperature, fit_temperature


def scores(count=4000, classes=5, seed=0):
    return 3 * torch.randn(count, classes, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def drawn(probabilities):
    return probabilities.multinomial(1, generator=torch.Generator().manual_seed(1))[:, 0]


def probabilities(activations, temperature=1.0, slope=0.0, partiality=None):
    calibration = Calibration(temperature, temperature_slope=slope)
    return calibration.class_probabilities(
        activations, torch.zeros_like(activations[..., 0]) if partiality is None else partiality
    )


def fitted(activations, labels, partiality=None):
    right = torch.nn.functional.one_hot(labels, activations.shape[-1]).bool()
    nothing = torch.zeros(len(labels), dtype=torch.float64)
    return fit_temperature(log_positive(activations), right, nothing if partiality is None else partiality)


def partialities(count, seed=3):
    """Of as many whole shapes, about 0, as views, up to 0.8."""
    generator = torch.Generator().manual_seed(seed)
    spread = torch.tensor([0.02, 0.8], dtype=torch.float64).repeat_interleave(count // 2)
    return spread * torch.rand(count, generator=generator, dtype=torch.float64)


def predict(activations, partiality=None, orientations=None):
    """A prediction with these activations, of clouds that are off the shape's centre by their partiality."""
    count, classes = activations.shape
    offset = torch.zeros(count, 3, dtype=activations.dtype)
    if partiality is not None:
        offset[:, 1] = partiality
    whole = None if partiality is None else Whole(offset, offset[:, 0])
    poses = torch.zeros(count, classes, 4, dtype=activations.dtype)
    return Prediction(activations, poses, torch.zeros(count, 1), orientations=orientations, whole=whole)


@pytest.mark.parametrize("temperature", [0.3, 1.0, 2.5])
def test_temperature_of_sampled_labels_is_recovered(temperature):
    sure = scores().softmax(-1)
    found, slope = fitted(sure, drawn(probabilities(sure, temperature)))
    assert found == pytest.approx(temperature, rel=0.05)
    assert slope == 0


@pytest.mark.parametrize(("temperature", "slope"), [(0.8, 1.5), (1.4, 0.5), (1.2, 0.0)])
def test_slope_of_sampled_labels_is_recovered(temperature, slope):
    sure, partiality = scores().softmax(-1), partialities(4000)
    found = fitted(sure, drawn(probabilities(sure, temperature, slope, partiality)), partiality)
    assert found == (pytest.approx(temperature, rel=0.06), pytest.approx(slope, abs=0.2))


def test_slope_is_not_negative_and_the_temperature_is_then_the_best_without_one():
    activations, partiality = scores().softmax(-1), partialities(4000)
    labels = drawn(probabilities(activations, 1.4, -1.0, partiality))
    assert fitted(activations, labels, partiality) == fitted(activations, labels, torch.zeros_like(partiality))
    assert fitted(activations, labels, partiality)[1] == 0


def test_fitted_temperature_and_slope_maximise_the_likelihood():
    activations, partiality = torch.sigmoid(scores(300) - 2), partialities(300)  # as the paper's network has them
    labels = drawn(probabilities(activations, 0.7, 1.0, partiality))
    for given in (torch.zeros_like(partiality), partiality):
        best, slope = fitted(activations, labels, given)

        def likelihood(temperature, slope, given=given):
            found = probabilities(activations, temperature, slope, given).gather(-1, labels[:, None])
            return float(found.log().sum()) - 0.5 * (slope / 2) ** 2

        assert all(likelihood(best, slope) > likelihood(best * f, slope) for f in (0.5, 0.9, 0.99, 1.01, 1.1, 2))
        assert all(likelihood(best, slope) > likelihood(best, slope + d) for d in (-1, -0.1, 0.1, 1))


@pytest.mark.parametrize("slope", [0.0, 1.5])
def test_shapes_that_may_have_been_trained_on_never_raise_the_confidence(slope):
    activations, partiality = scores().softmax(-1), partialities(4000)
    labels = drawn(probabilities(activations, 0.7, slope, partiality))
    prediction = predict(activations, partiality)
    found = {seen: fit_calibration([prediction], labels, torch.zeros(4000, 4), seen) for seen in (False, True)}
    assert found[False].temperature == pytest.approx(0.7, rel=0.06)
    assert found[True].temperature == 1
    assert 0 <= found[True].temperature_slope <= found[False].temperature_slope + 0.01
    labels = drawn(probabilities(activations, 1.3, slope, partiality))
    doubted = [fit_calibration([prediction], labels, torch.zeros(4000, 4), seen) for seen in (False, True)]
    assert doubted[0] == doubted[1]


def test_the_slope_is_0_if_all_shapes_are_equally_partial():
    activations = scores(600).softmax(-1)
    found = fitted(activations, drawn(probabilities(activations, 1.3)), torch.full((600,), 0.3))
    assert found == (pytest.approx(1.3, rel=0.1), pytest.approx(0, abs=0.01))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_calibration_keeps_the_order_of_each_cloud_and_the_sum_of_one(dtype):
    activations, partiality = torch.sigmoid(scores(50)).to(dtype), partialities(50).to(dtype)
    orientations = make_orientations(50)
    orientations = replace(orientations, probabilities=orientations.probabilities.to(dtype))
    prediction = predict(activations, partiality, orientations)
    for temperature in (0.2, 1.0, 5.0):
        for slope in (-1.0, 0.0, 2.0):
            found = Calibration(temperature, temperature, slope, slope).apply(prediction)
            torch.testing.assert_close(found.activations.sum(-1), torch.ones(50, dtype=dtype))
            assert torch.equal(found.activations.argsort(-1), activations.argsort(-1))
            shares = present(found.orientations).probabilities
            torch.testing.assert_close(shares.sum(-1), torch.ones(50, dtype=dtype))
            assert (shares.diff(dim=-1) <= 0).all()
            assert not shares[orientations.probabilities == 0].any()
            assert torch.equal(present(found.orientations).poses, orientations.poses)
    softmax = scores(50).softmax(-1)
    torch.testing.assert_close(Calibration().apply(predict(softmax)).activations, softmax)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_without_a_slope_partiality_changes_nothing(dtype):
    activations, partiality = torch.sigmoid(scores(50)).to(dtype), partialities(50).to(dtype)
    orientations = make_orientations(50)
    orientations = replace(orientations, probabilities=orientations.probabilities.to(dtype))
    found = Calibration(1.402, 1.337).apply(predict(activations, partiality, orientations))
    assert torch.equal(found.activations, (log_positive(activations) / 1.402).softmax(-1))
    there = orientations.probabilities > 0
    plain = torch.where(there, torch.where(there, orientations.probabilities, 1).log() / 1.337, -torch.inf).softmax(-1)
    assert torch.equal(present(found.orientations).probabilities, plain)


def test_a_network_without_a_whole_has_no_slope_and_ignores_one():
    activations = scores(300).softmax(-1)
    labels = drawn(probabilities(activations, 1.5))
    assert fit_calibration([predict(activations)], labels, torch.zeros(300, 4)).temperature_slope == 0
    steep, flat = (Calibration(1.5, temperature_slope=slope).apply(predict(activations)) for slope in (2.0, 0.0))
    assert torch.equal(steep.activations, flat.activations)


def test_partiality_does_not_depend_on_rotation_and_is_at_most_one():
    generator = torch.Generator().manual_seed(0)
    offset = torch.randn(20, 3, generator=generator, dtype=torch.float64)
    axes = torch.linalg.qr(torch.randn(3, 3, generator=generator, dtype=torch.float64)).Q
    of = [replace(predict(scores(20)), whole=Whole(o, o[:, 0])).partiality for o in (offset, offset @ axes)]
    torch.testing.assert_close(*of)
    assert of[0].max() == 1
    assert of[0].min() < 1


def test_zero_activations_give_a_uniform_distribution():
    torch.testing.assert_close(probabilities(torch.zeros(2, 4), 0.5), torch.full((2, 4), 0.25))
    torch.testing.assert_close(probabilities(torch.tensor([1.0, 0, 0])), torch.tensor([1.0, 0, 0]))


def test_nothing_is_fitted_if_all_predictions_are_correct_or_there_are_none():
    activations = scores(20).softmax(-1)
    assert fitted(activations, activations.argmax(-1)) == (1.0, 0.0)
    assert fitted(activations[:0], torch.zeros(0, dtype=torch.int64)) == (1.0, 0.0)


@pytest.mark.parametrize("values", [(0, 1, 0, 0), (1, math.nan, 0, 0), (1, 1, 5.1, 0), (1, 1, 0, -math.inf)])
def test_values_out_of_range_give_a_one_sentence_error(values):
    with pytest.raises(ValueError, match=r"it must be a number from .* to \S+$"):
        Calibration(*values)


def make_orientations(count, seed=0):
    """Candidates of random poses, 2 to 24 of each cloud, with probabilities from flat to sharp."""
    generator = torch.Generator().manual_seed(seed)
    poses = random_quaternion((count, 24), generator, dtype=torch.float64)
    there = torch.arange(24) < torch.randint(2, 25, (count, 1), generator=generator)
    spread = 4 * torch.rand(count, 1, generator=generator, dtype=torch.float64)
    scores = torch.where(there, spread * torch.randn(count, 24, generator=generator, dtype=torch.float64), -math.inf)
    shares, order = scores.softmax(-1).sort(descending=True)
    poses = poses.gather(1, order[..., None].expand_as(poses))
    return Orientations(poses, shares, torch.zeros(count, 24, dtype=torch.bool))


def held_by_sets(calibration, prediction, right):
    """How often candidate sets hold a right pose: of the less partial half of the clouds, and of the other half."""
    shares = present(calibration.apply(prediction).orientations).probabilities
    held = (candidate_set(shares) & right).any(-1).double()
    return [float(half.mean()) for half in held.chunk(2)]


def sampled_candidates(count, temperature, slope):
    """Candidates, and rotations of which one is right with its probability at a known temperature."""
    found, partiality = make_orientations(count), partialities(count)
    prediction = predict(torch.ones(count, 1, dtype=torch.float64), partiality, found)
    known = present(Calibration(1, temperature, 0, slope).apply(prediction).orientations).probabilities
    rotations = found.poses[torch.arange(count), drawn(known)]
    right = right_poses(found.poses, rotations, found.any_azimuth)
    assert right.sum() < 1.04 * count  # of random poses, hardly any two are near each other
    return prediction, rotations, right


@pytest.mark.parametrize(("temperature", "slope"), [(0.4, 0.0), (1.0, 1.5), (0.7, 0.5)])
def test_sets_of_sampled_candidates_hold_the_right_one_for_90_percent(temperature, slope):
    prediction, rotations, right = sampled_candidates(3000, temperature, slope)
    halves = [prediction.select(slice(0, 1000)), prediction.select(slice(1000, 3000))]
    fitted = fit_calibration(halves, torch.full((3000,), -1), rotations)
    assert (fitted.temperature, fitted.temperature_slope) == (1, 0)
    assert held_by_sets(fitted, prediction, right) == pytest.approx([0.9, 0.9], abs=0.02)
    # Sets have at least their share of the probability: the known temperature holds a little more.
    assert min(held_by_sets(Calibration(1, temperature, 0, slope), prediction, right)) > 0.9
    assert fitted.orientation_temperature < temperature


def test_sets_of_views_are_larger_if_some_views_have_no_right_candidate():
    prediction, rotations, right = sampled_candidates(3000, 1.0, 0.0)
    missing = torch.arange(3000) % 16 == 0
    missing[:1500] = False
    elsewhere = random_quaternion(3000, torch.Generator().manual_seed(5), dtype=torch.float64)
    rotations = torch.where(missing[:, None], elsewhere, rotations)
    right = right_poses(present(prediction.orientations).poses, rotations, torch.zeros(3000, 24, dtype=torch.bool))
    fitted = fit_calibration([prediction], torch.full((3000,), -1), rotations)
    assert fitted.orientation_temperature_slope > 0.5
    whole, views = held_by_sets(fitted, prediction, right)
    assert whole == pytest.approx(0.9, abs=0.02)
    assert views == pytest.approx(0.9, abs=0.02)
    assert held_by_sets(replace(fitted, orientation_temperature_slope=0.0), prediction, right)[1] < 0.88


def test_the_likelihood_decides_where_the_first_candidate_alone_is_right_for_90_percent():
    scores = torch.tensor([[3.0, 0.0], [3.0, 1.0]], dtype=torch.float64).repeat(100, 1)
    right = torch.tensor([[True, False]]).repeat(200, 1)
    right[:8] = right[:8].flip(-1)
    nothing = torch.zeros(200, dtype=torch.float64)
    assert fit_set_temperature(scores, right, nothing) == fit_temperature(scores, right, nothing)


def test_no_candidates_or_only_wrong_ones_give_the_default():
    empty = torch.zeros(0, 3, dtype=torch.float64)
    assert fit_set_temperature(empty, empty.bool(), empty[:, 0]) == (1.0, 0.0)
    wrong = torch.zeros(4, 3, dtype=torch.bool)
    assert fit_set_temperature(torch.zeros(4, 3, dtype=torch.float64), wrong, torch.zeros(4)) == (1.0, 0.0)


def test_views_are_less_confident_where_they_are_less_often_right():
    sure, partiality = scores(600).softmax(-1), partialities(600)
    labels = drawn(probabilities(sure, 0.7, 2.0, partiality))
    prediction = predict(sure, partiality)
    fitted = fit_calibration([prediction], labels, torch.zeros(600, 4))
    assert fitted.temperature_slope > 1
    confidence, right = fitted.apply(prediction).confidence, prediction.label == labels
    whole, views = (float(confidence[part].mean()) for part in (slice(0, 300), slice(300, 600)))
    assert views < whole - 0.05
    for mean, part in ((whole, slice(0, 300)), (views, slice(300, 600))):
        assert mean == pytest.approx(float(right[part].double().mean()), abs=0.05)


def test_pose_is_correct_within_10_degrees_of_up_and_15_about_it():
    q = random_quaternion((), 3, dtype=torch.float64)

    def is_right(tilt, turn, any_azimuth=False):
        about = from_rotvec(torch.tensor([[0, 0, turn], [tilt, 0, 0]], dtype=torch.float64).deg2rad())
        pose = multiply(q, multiply(about[1], about[0]))
        return bool(right_poses(pose[None], q, torch.tensor([any_azimuth]))[0])

    assert is_right(9.9, 0)
    assert is_right(0, 14.9)
    assert is_right(-9.9, -14.9)
    assert not is_right(10.1, 0)
    assert not is_right(0, 15.1)
    assert not is_right(0, 180)
    assert is_right(9.9, 100, any_azimuth=True)
    assert not is_right(10.1, 100, any_azimuth=True)


def test_unlabelled_shapes_do_not_affect_the_class_temperature():
    activations, labels = scores(300).softmax(-1), torch.full((300,), -1)
    prediction, rotations = predict(activations, partialities(300)), torch.zeros(300, 4)
    labels[:200] = drawn(probabilities(activations[:200], 0.5))
    both = fit_calibration([prediction], labels, rotations)
    alone = fit_calibration([prediction.select(slice(0, 200))], labels[:200], rotations[:200])
    assert both == alone
    assert both.temperature != 1
