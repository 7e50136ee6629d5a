"""Neighbours within a radius against all distances."""

import numpy as np
import pytest
import torch

from qecnet.geometry import Radii
from qecnet.geometry._neighbours import pairs_within
from qecnet.geometry._support import centre_cloud


@pytest.mark.parametrize("radius", [0.1, 0.3, 3.0])
def test_pairs_within_finds_exactly_those_within_the_radius(bumpy, radius):
    cloud = centre_cloud(bumpy)
    rows, near, distances = pairs_within(cloud.tree, cloud.points[:80], radius)
    expected = torch.cdist(torch.from_numpy(cloud.points[:80]), torch.from_numpy(cloud.points)).numpy()
    found = np.zeros(expected.shape, bool)
    found[rows, near] = True
    assert np.array_equal(found, expected <= radius)
    assert np.allclose(distances, expected[rows, near], atol=1e-6)


def test_invalid_radius_gives_a_one_sentence_error():
    with pytest.raises(ValueError, match="radius is 0; neighbours are searched within a finite distance above 0"):
        Radii(normals=0)
