"""Shapes that look the same upside down or not, at any azimuth, size and position."""

import pytest
import torch

from qecnet.algebra import from_rotvec, rotate
from qecnet.datasets import make_shape
from qecnet.datasets._solids import box, join, lathe
from qecnet.evaluation import looks_same_upside_down
from qecnet.geometry import Mesh, PointCloud

CABINET = box((-1, 1), (-0.6, 0.6), (0, 3))
LEGS = [box((x, x + 0.1), (y, y + 0.1), (-0.4, 0)) for x in (-1, 0.9) for y in (-0.6, 0.5)]


def make_mesh(parts, azimuth=0.0, scale=1.0, by=(0.0, 0.0, 0.0)):
    vertices, faces = join(parts)
    q = from_rotvec(torch.tensor([0.0, 0.0, azimuth], dtype=torch.float64))
    moved = scale * rotate(q, torch.from_numpy(vertices).double()) + torch.tensor(by, dtype=torch.float64)
    return Mesh(moved, torch.from_numpy(faces))


@pytest.mark.parametrize(
    ("expected", "parts"),
    [
        (True, [CABINET]),
        (True, [box((0, 1), (0, 1), (0, 1))]),
        (True, [box((0, 3), (0, 0.02), (0, 2))]),  # a panel
        (True, [lathe(((0, 0), (1, 0), (1, 3), (0, 3)))]),  # a can
        (True, [CABINET, box((0.5, 0.6), (-0.65, -0.6), (1.4, 1.6))]),  # a handle at half the height
        (True, [box((0, 2), (0, 0.4), (0, 0.4)), box((0, 0.4), (0, 0.4), (0, 2)), box((0, 2), (0, 0.4), (1.6, 2))]),
        (True, [box((0, 1), (0, 0.2), (0, 1)), box((-1, 0), (0, 0.2), (-1, 0))]),  # a Z, about the axis across it
        (False, [CABINET, *LEGS]),
        (False, [CABINET, box((-1, 1), (0.5, 0.6), (3, 3.4))]),  # a board along the upper edge
        (False, [lathe(((0, 0), (1, 0), (0, 2)))]),  # a cone
        (False, [lathe(((0, 0), (1, 0), (1, 2), (0.97, 2), (0.97, 0.03), (0, 0.03)))]),  # a mug
        (False, [box((-1, 1), (-0.8, 0.8), (0.9, 1)), *(box((x, x + 0.1), (0, 0.1), (0, 0.9)) for x in (-1, 0.9))]),
    ],
)
def test_the_same_upside_down_or_not(expected, parts):
    for azimuth, scale, by in ((0, 1, (0, 0, 0)), (0.7, 1e-3, (0, 0, 0)), (2.0, 1e3, (500.0, -300.0, 9000.0))):
        mesh = make_mesh(parts, azimuth, scale, by)
        assert looks_same_upside_down(mesh) == expected
        assert looks_same_upside_down(mesh.sample(10_000, torch.Generator().manual_seed(1))) == expected


@pytest.mark.parametrize("kind", ["bathtub", "bed", "chair", "desk", "monitor", "sofa", "table", "toilet"])
def test_furniture_with_an_up_side_is_not_the_same(kind):
    assert not any(looks_same_upside_down(make_shape(kind, seed)) for seed in range(4))


def test_a_reflection_is_no_turn():
    """Two different posts and bars at half the height: a reflection keeps them, and no half turn does."""
    posts = [box((0, 0.2), (0, 0.2), (0, 2)), box((2, 2.6), (0, 0.6), (0, 2))]
    bars = [box((0.2, 2), (0, 0.1), (0.95, 1.05)), box((0, 0.1), (0.2, 1.2), (0.95, 1.05))]
    assert not looks_same_upside_down(make_mesh([*posts, *bars]))


def test_a_few_points_have_an_answer():
    corners = torch.cartesian_prod(*[torch.arange(2, dtype=torch.float64)] * 3)
    assert looks_same_upside_down(PointCloud(corners)) in (True, False)
