"""The benchmark that fits the weights of readers: what it joins, and what it fits."""

import math

import pytest
import torch
from benchmarks.candidates import UP
from benchmarks.reader_weights import FOLDS, Readings, describe, fit, log_likelihood, measure, read

from qecnet.algebra import random_quaternion, rotate
from qecnet.datasets import make_shape, sample_view
from qecnet.geometry import OrientedPoints, PointCloud, PrepareConfig, prepare
from qecnet.models import Model
from qecnet.nn import create_network
from qecnet.nn.edge_reader import ReaderSize
from qecnet.nn.joint import ScoreWeights, score_weights
from qecnet.nn.projection_reader import ProjectionReaderSize

SMALL = ReaderSize(128, (32, 16), (8, 8, 8, 8), (16, 16, 32, 32, 32, 48))
CLASSES = tuple("abcdefgh")


def make_decided_model():
    """An untrained model whose readers give very different scores, so that each of them can decide."""
    torch.manual_seed(0)
    readers = {"scorer": SMALL, "reader": SMALL, "invariant_reader": SMALL}
    network = create_network(
        "upright",
        len(CLASSES),
        frames=128,
        invariant=True,
        projections=True,
        projection_reader=ProjectionReaderSize(128, 16, (8, 16)),
        **readers,
    )
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if name.endswith(("classes.weight", "upright.weight")):
                parameter.mul_(30 if name.startswith("scorer") else 60)
    return Model("decided", network, CLASSES, PrepareConfig(8000, 128, "centred", candidates=True))


def make_readings(clouds=40, candidates=6, classes=8, seed=0):
    """Random scores in which reader and projections know the class and the up direction, and the others do not."""
    generator = torch.Generator().manual_seed(seed)
    upright = torch.randn(clouds, candidates, 3, generator=generator)
    scores = torch.randn(clouds, candidates, classes, 3, generator=generator)
    labels = torch.randint(classes, (clouds,), generator=generator)
    is_up = torch.arange(candidates).expand(clouds, -1) == torch.randint(4, (clouds, 1), generator=generator)
    upright[..., 1] += 2 * is_up
    scores[torch.arange(clouds), :, labels, 1] += 2
    there = torch.ones(clouds, candidates, dtype=torch.bool)
    there[::3, 4:] = False
    shapes = torch.arange(clouds) // 2
    return Readings(upright, scores, there, is_up, labels, shapes, torch.arange(clouds) % 2 == 1)


def test_the_readings_joined_with_the_weights_in_use_are_what_the_network_predicts():
    model = make_decided_model()
    for number in range(24):
        generator = torch.Generator().manual_seed(number)
        cloud = sample_view(make_shape(("bed", "desk", "chair")[number % 3], number), generator).cloud
        state = generator.get_state()
        q = random_quaternion((), generator, dtype=torch.float64)
        points = prepare(PointCloud(cloud.points.double()).rotated(q), model.config)
        found = model.predict_points(OrientedPoints.stack([points]))
        readings = Readings(
            *(value[None] for value in read(model, cloud, generator.set_state(state))), *[torch.zeros(1)] * 3
        )
        joint = readings.join(score_weights(True, True), (True, True)).exp()[0]
        torch.testing.assert_close(joint.sum(0), found.activations[0])
        up = rotate(found.pose[0].double(), UP.double()) @ rotate(q, UP.double())
        likeliest = joint[:, int(found.label)].argmax()
        assert bool(readings.is_up[0, likeliest]) == (float(up.arccos().rad2deg()) < 10)


def test_the_readers_that_know_most_get_the_largest_weights():
    weights = fit([make_readings(400)], (True, True), merged=False)
    assert max(weights.upright) == weights.upright[1]
    assert max(weights.classes) == weights.classes[1]


def test_fitted_weights_are_likelier_than_equal_ones():
    held, readers = make_readings(400), (True, True)
    equal = ScoreWeights((0.5,) * 3, (0.5,) * 3)
    fitted = fit([held], readers, merged=False)
    assert log_likelihood(held, fitted, readers, merged=False) > log_likelihood(held, equal, readers, merged=False)


@pytest.mark.parametrize("merged", [False, True])
def test_clouds_with_fewer_candidates_leave_weights_finite(merged):
    weights = fit([make_readings()], (True, False), merged)
    assert all(math.isfinite(value) for value in (*weights.upright, *weights.classes))


def test_figures_are_means_and_fitted_ones_are_cross_validated():
    held, readers = make_readings(), (True, True)
    in_use, fitted = describe("any", {"": held}, readers)
    whole = measure(held, score_weights(*readers), readers)[::2].mean(0)
    assert (in_use["whole_accuracy"], in_use["whole_first_three"]) == (f"{whole[0]:.4f}", f"{whole[2]:.4f}")
    right = []
    for fold in range(FOLDS):
        weights = fit([held.select(held.shapes % FOLDS != fold)], readers, merged=False)
        rest = held.select(held.shapes % FOLDS == fold)
        right.append(measure(rest, weights, readers)[rest.is_view, 0])
    assert fitted["views_accuracy"] == f"{torch.cat(right).mean():.4f}"


def test_scanned_objects_have_up_directions_and_no_accuracy():
    held = {"": make_readings(), "scanned_": make_readings(seed=1)}
    in_use, fitted = describe("any", held, (True, False), merged=True)
    assert in_use["clouds"] == 20
    assert in_use["whole_accuracy"] == in_use["scanned_views_accuracy"] == ""
    found = measure(held["scanned_"], score_weights(True, False), (True, False))
    assert in_use["scanned_views_up"] == f"{found[1::2, 1].mean():.4f}"
    assert fitted["weights"] == "fitted"
    assert len(fitted["of_upright"].split()) == 3
