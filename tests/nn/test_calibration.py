"""Temperatures: found again where they are known, and what they leave alone."""

import math

import pytest
import torch

from qecnet.algebra import from_rotvec, multiply, random_quaternion
from qecnet.nn import Orientations, Prediction, apply_temperature, fit_calibration, right_poses
from qecnet.nn.temperature import fit_orientation_temperature, fit_temperature


def scores(count=4000, classes=5, seed=0):
    return 3 * torch.randn(count, classes, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def drawn(probabilities):
    return probabilities.multinomial(1, generator=torch.Generator().manual_seed(1))[:, 0]


@pytest.mark.parametrize("temperature", [0.3, 1.0, 2.5])
def test_temperature_of_sampled_labels_is_recovered(temperature):
    sure = scores().softmax(-1)
    assert fit_temperature(sure, drawn(apply_temperature(sure, temperature))) == pytest.approx(temperature, rel=0.05)


def test_fitted_temperature_maximises_the_likelihood():
    activations = torch.sigmoid(scores(300) - 2)  # as the paper's network has them: they do not add up to 1
    labels = drawn(apply_temperature(activations, 0.7))
    best = fit_temperature(activations, labels)

    def likelihood(temperature):
        return float(apply_temperature(activations, temperature).gather(-1, labels[:, None]).log().mean())

    assert all(likelihood(best) > likelihood(best * factor) for factor in (0.5, 0.9, 0.99, 1.01, 1.1, 2))


def test_temperature_keeps_the_order_and_the_sum_of_one():
    activations = torch.sigmoid(scores(50)).float()
    for temperature in (0.2, 1.0, 5.0):
        found = apply_temperature(activations, temperature)
        torch.testing.assert_close(found.sum(-1), torch.ones(50))
        assert torch.equal(found.argsort(-1), activations.argsort(-1))
    softmax = scores(50).softmax(-1)
    torch.testing.assert_close(apply_temperature(softmax), softmax)


def test_zero_activations_give_a_uniform_distribution():
    torch.testing.assert_close(apply_temperature(torch.zeros(2, 4), 0.5), torch.full((2, 4), 0.25))
    torch.testing.assert_close(apply_temperature(torch.tensor([1.0, 0, 0])), torch.tensor([1.0, 0, 0]))


def test_temperature_is_one_if_all_predictions_are_correct():
    activations = scores(20).softmax(-1)
    assert fit_temperature(activations, activations.argmax(-1)) == 1.0
    with pytest.raises(ValueError, match="held out"):
        fit_temperature(activations[:0], torch.zeros(0, dtype=torch.int64))


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


@pytest.mark.parametrize("temperature", [0.4, 1.0, 2.0])
def test_temperature_of_sampled_candidates_is_recovered(temperature):
    found = make_orientations(3000)
    drawn_from = found.calibrated_probabilities(temperature)
    torch.testing.assert_close(drawn_from.sum(-1), torch.ones(3000, dtype=torch.float64))
    assert not drawn_from[found.probabilities == 0].any()
    rotations = found.poses[torch.arange(3000), drawn(drawn_from)]
    right = right_poses(found.poses, rotations, found.any_azimuth)
    assert right.sum() < 3100  # of random poses, hardly any two are near each other
    fitted = fit_orientation_temperature(found.probabilities, right)
    assert fitted == pytest.approx(temperature, rel=0.05)
    shares = found.calibrated_probabilities(fitted)
    in_set = (shares.cumsum(-1) - shares < 0.9) & (shares > 0)
    # The smallest set has at least its 90%; what it has more is what it holds more often.
    holds, total = (in_set & right).any(-1).double().mean(), (shares * in_set).sum(-1).mean()
    assert float(holds) == pytest.approx(float(total), abs=0.01)
    prediction = Prediction(torch.ones(3000, 1), found.poses[:, :1], torch.ones(3000, 1), orientations=found)
    halves = [prediction.select(slice(0, 1000)), prediction.select(slice(1000, 3000))]
    whole = fit_calibration(halves, torch.full((3000,), -1), rotations)
    assert (whole.temperature, whole.orientation_temperature) == (1.0, fitted)


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
    prediction = Prediction(activations, torch.zeros(300, 5, 4), torch.zeros(300, 1))
    rotations = torch.zeros(300, 4)
    labels[:200] = drawn(apply_temperature(activations[:200], 0.5))
    both = fit_calibration([prediction], labels, rotations)
    alone = fit_calibration([prediction.select(slice(0, 200))], labels[:200], rotations[:200])
    assert both == alone
    assert both.temperature != 1
