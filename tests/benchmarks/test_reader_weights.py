"""The benchmark of readers' weights combines scores itself: with the weights in use, as the network does."""

import torch
from benchmarks.candidates import UP
from benchmarks.reader_weights import CHOICES, describe, measure

from qecnet.algebra import random_quaternion, rotate
from qecnet.datasets import make_shape, sample_view
from qecnet.geometry import OrientedPoints, PointCloud, PrepareConfig, prepare
from qecnet.models import Model
from qecnet.nn import UprightConfig, create_network
from qecnet.nn.edge_reader import ReaderSize
from qecnet.nn.projection_reader import ProjectionReaderSize
from qecnet.nn.upright import _FURTHER, _READER, _RECOGNITION

IN_USE = CHOICES.index((UprightConfig(2).read, _READER, _FURTHER, _FURTHER, _RECOGNITION))
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


def test_the_choice_in_use_is_what_the_network_predicts():
    model = make_decided_model()
    for number in range(24):
        generator = torch.Generator().manual_seed(number)
        cloud = sample_view(make_shape(("bed", "desk", "chair")[number % 3], number), generator).cloud
        state = generator.get_state()
        q = random_quaternion((), generator, dtype=torch.float64)
        points = prepare(PointCloud(cloud.points.double()).rotated(q), model.config)
        found = model.predict_points(OrientedPoints.stack([points]))
        up = rotate(found.pose[0].double(), UP.double()) @ rotate(q, UP.double())
        named, is_up, _ = measure(model, cloud, int(found.label), generator.set_state(state))[IN_USE]
        assert bool(named)
        assert bool(is_up) == (float(up.arccos().rad2deg()) < 10)


def test_a_row_has_means_of_all_clouds():
    clouds = [torch.tensor([1, 1, 1]), torch.tensor([0, 0, 1])]
    row = describe("any", IN_USE, {(IN_USE, "whole"): clouds, (IN_USE, "views"): clouds[1:]})
    assert row["clouds"] == 2
    assert (row["whole_accuracy"], row["whole_first_three"]) == ("0.5000", "1.0000")
    assert (row["views_up"], row["recognition"]) == ("0.0000", _RECOGNITION)
