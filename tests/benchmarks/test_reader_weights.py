"""The benchmark of readers' weights combines scores itself: with the weights in use, as the network does."""

import torch
from benchmarks.candidates import UP
from benchmarks.reader_weights import CHOICES, describe, measure

import qecnet
from qecnet.algebra import random_quaternion, rotate
from qecnet.datasets import make_shape, sample_view
from qecnet.geometry import OrientedPoints, PointCloud, prepare
from qecnet.nn import UprightConfig
from qecnet.nn.upright import _FURTHER, _READER, _RECOGNITION

IN_USE = CHOICES.index((UprightConfig(2).read, _READER, _FURTHER, _FURTHER, _RECOGNITION))


def test_the_choice_in_use_is_what_the_network_predicts():
    model = qecnet.load("modelnet40")
    for number, kind in enumerate(("bed", "bed", "desk", "chair")):
        generator = torch.Generator().manual_seed(number)
        cloud = sample_view(make_shape(kind, number), generator).cloud
        state = generator.get_state()
        q = random_quaternion((), generator, dtype=torch.float64)
        found = model.predict_points(
            OrientedPoints.stack([prepare(PointCloud(cloud.points.double()).rotated(q), model.config)])
        )
        up = rotate(found.pose[0].double(), UP.double()) @ rotate(q, UP.double())
        for label in (int(found.label), int(found.label) + 1):
            result = measure(model, cloud, label, generator.set_state(state))[IN_USE]
            assert bool(result[0]) == (label == int(found.label))
            assert bool(result[1]) == (up.arccos().rad2deg() < 10)


def test_a_row_has_means_of_all_clouds():
    clouds = [torch.tensor([1, 1, 1]), torch.tensor([0, 0, 1])]
    row = describe("any", IN_USE, {(IN_USE, "whole"): clouds, (IN_USE, "views"): clouds[1:]})
    assert row["clouds"] == 2
    assert (row["whole_accuracy"], row["whole_first_three"]) == ("0.5000", "1.0000")
    assert (row["views_up"], row["recognition"]) == ("0.0000", _RECOGNITION)
