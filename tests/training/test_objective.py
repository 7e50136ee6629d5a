"""What is minimised, and how fast."""

import math

import pytest
import torch

from qecnet.algebra import from_rotvec, random_quaternion
from qecnet.nn import Prediction, cross_entropy, spread_loss
from qecnet.training.objective import learning_rate, losses


@pytest.fixture
def prediction():
    generator = torch.Generator().manual_seed(0)
    return Prediction(torch.rand(6, 5, generator=generator), random_quaternion((6, 5), generator))


LABELS = torch.tensor([0, 3, 1, 4, 2, 2])


def test_the_loss_is_the_one_that_is_asked_for(prediction, tiny):
    spread = losses(prediction, LABELS, tiny(), 0.5)
    assert spread.total == spread.classification == spread_loss(prediction.activations, LABELS, 0.1)
    grown = losses(prediction, LABELS, tiny(margin=[0.2, 0.9]), 0.5)
    assert grown.total == spread_loss(prediction.activations, LABELS, 0.55)
    assert losses(prediction, LABELS, tiny(loss="cross_entropy"), 0).total == cross_entropy(
        prediction.activations, LABELS
    )


def test_the_pose_loss_is_between_true_classes_of_a_pair(prediction, tiny):
    angles = torch.tensor([0.3, 1.0, 2.0])
    poses = prediction.poses.clone()
    labels = LABELS[:3]
    true = torch.arange(3), labels
    poses[3:][true] = poses[:3][true]
    same = losses(Prediction(prediction.activations, poses), labels, tiny(siamese=0.1), 0)
    torch.testing.assert_close(same.pose, torch.tensor(0.0), atol=1e-6, rtol=0)
    poses[:3][true] = torch.tensor([1.0, 0, 0, 0])
    poses[3:][true] = from_rotvec(angles[:, None] * torch.tensor([0.0, 0.6, 0.8]))
    found = losses(Prediction(prediction.activations, poses), labels, tiny(siamese=0.1), 0)
    torch.testing.assert_close(found.pose, angles.mean() / math.pi)
    torch.testing.assert_close(found.total, found.classification + 0.1 * found.pose)


def test_one_cycle_rises_and_falls(tiny):
    assert {learning_rate(tiny(), p / 10) for p in range(11)} == {1e-3}
    settings = tiny(schedule="onecycle", learning_rate=0.5)
    course = [learning_rate(settings, p / 1000) for p in range(1001)]
    assert course[0] == pytest.approx(0.5 / 25)
    assert max(course) == course[300] == pytest.approx(0.5)
    assert course[-1] == pytest.approx(0.5e-4)
    assert course[:301] == sorted(course[:301])
    assert course[300:] == sorted(course[300:], reverse=True)
