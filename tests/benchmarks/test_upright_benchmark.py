"""The share of up directions that are right "either way up": only for shapes that look the same upside down."""

from unittest.mock import Mock

import pytest
import torch
from benchmarks.upright import measure_one

import qecnet
from qecnet.algebra import from_rotvec, multiply
from qecnet.datasets import Item
from qecnet.datasets._solids import box, join
from qecnet.geometry import Mesh

CABINET = [box((-1, 1), (-0.6, 0.6), (0, 3))]
TABLE = [box((-1, 1), (-0.6, 0.6), (1, 1.1)), *(box((x, x + 0.1), (0, 0.1), (0, 1)) for x in (-1, 0.9))]
OVER = from_rotvec(torch.tensor([torch.pi, 0, 0], dtype=torch.float64))


@pytest.mark.parametrize(("parts", "either_way"), [(CABINET, 1.0), (TABLE, 0.0)])
def test_down_counts_if_the_shape_looks_the_same_upside_down(parts, either_way, monkeypatch):
    model = qecnet.load("upright", fast=True)
    vertices, faces = join(parts)
    mesh = Mesh(torch.from_numpy(vertices).double(), torch.from_numpy(faces))
    item = Item(0, "thing", Mock(load=lambda: mesh))
    truth: dict[str, tuple[torch.Tensor, torch.Tensor]] = {}
    monkeypatch.setattr("benchmarks.upright.rotated_cloud", lambda *_: truth["cloud"])
    points = mesh.sample(2000, torch.Generator().manual_seed(0)).points.float()
    answer = model.predict(points)
    for turn, right, expected in ((torch.tensor([1.0, 0, 0, 0]).double(), 1.0, 1.0), (OVER, 0.0, either_way)):
        truth["cloud"] = points, multiply(answer.pose, turn)
        found = measure_one(model, item, 0)
        assert (found["within_10"], found["within_10_either_way"]) == (right, expected)
