"""Solids that are boxes or not, in any pose, and the smallest box around them against trimesh."""

import numpy as np
import pytest
import torch
import trimesh
from scipy.spatial import QhullError

from qecnet.algebra import random_quaternion, rotate
from qecnet.datasets._solids import box, join, lathe
from qecnet.evaluation import is_box
from qecnet.evaluation.boxes import fit_box
from qecnet.geometry import Mesh, PointCloud

TABLE = [box((-1, 1), (-0.8, 0.8), (0.9, 1)), *(box((x, x + 0.1), (0, 0.1), (0, 0.9)) for x in (-1, 0.9))]


def rotated(parts, seed):
    vertices, faces = join(parts)
    q = random_quaternion((), seed, dtype=torch.float64)
    return Mesh(rotate(q, torch.from_numpy(vertices).double()), torch.from_numpy(faces))


@pytest.mark.parametrize(
    ("expected", "parts"),
    [
        (True, [box((0, 1), (0, 2), (0, 3))]),
        (True, [box((0, 1), (0, 1), (0, 1))]),
        (True, [box((0, 1), (0, 1), (0, 1)), box((0.4, 0.5), (0.4, 0.5), (1, 1.02))]),  # with a button on top
        (False, [lathe(((0, 0), (1, 0), (1, 3), (0, 3)))]),
        (False, [lathe(((0, 0), (1, 0), (0, 0.3)))]),
        (False, TABLE),
    ],
)
def test_boxes_are_recognised_in_any_pose(expected, parts):
    for seed in (0, 1):
        mesh = rotated(parts, seed)
        assert is_box(mesh) == expected
        assert is_box(mesh.sample(5000, torch.Generator().manual_seed(seed))) == expected


def test_a_sheet_is_not_a_box():
    sheet = torch.rand(500, 3, generator=torch.Generator().manual_seed(0)) * torch.tensor([1.0, 1.0, 0.0])
    assert not is_box(PointCloud(sheet))
    with pytest.raises(QhullError):
        fit_box(sheet.double().numpy())


@pytest.mark.parametrize("seed", range(3))
def test_the_box_is_as_small_as_that_of_trimesh(seed):
    points = rotated(TABLE, seed).sample(300, torch.Generator().manual_seed(seed)).points.double().numpy()
    inside, sides = fit_box(points)
    _, theirs = trimesh.bounds.oriented_bounds(points)
    assert sides.prod() <= theirs.prod() * 1.001
    assert inside.min() == pytest.approx(0, abs=1e-12)
    assert (inside <= sides / 2 + 1e-12).all()
    assert np.isclose(inside, 0).any(0).all()  # there are points on each pair of faces
