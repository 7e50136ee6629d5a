"""The parts of the baselines against slow, obvious ones: SciPy's tree, loops over points, angles."""

import numpy as np
import pytest
import torch
from benchmarks.baselines.dgcnn import EdgeConv
from benchmarks.baselines.layers import Abstraction, largest, mean, nearest, padded, pick
from benchmarks.baselines.pointnet2 import offset
from benchmarks.baselines.ppf import pair_features
from scipy.spatial import cKDTree

CLOUDS, POINTS = 3, 40


@pytest.fixture
def present():
    """Points present in the first cloud: all, in the second: 25, in the third: 5, fewer than any neighbourhood."""
    return torch.arange(POINTS) < torch.tensor([[POINTS], [25], [5]])


def random(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("dimension", [3, 16])
def test_neighbours_are_those_of_scipys_tree(present, dimension):
    places, centres, count = random(CLOUDS, POINTS, dimension), 30, 8
    found = iter(nearest(places, present, centres, count))
    for cloud in range(CLOUDS):
        there = places[cloud, present[cloud]].numpy()
        _, expected = cKDTree(there).query(there[:centres], min(count, len(there)))
        for row in expected:
            index = next(found) - cloud * POINTS
            assert index[: len(row)].tolist() == row.tolist()
            assert (index[len(row) :] == index[0]).all()
    assert next(found, None) is None


def test_a_cloud_smaller_than_a_neighbourhood_is_taken_whole():
    found = nearest(random(2, 4, 3), torch.ones(2, 4, dtype=torch.bool), 128, 16)
    assert found.sort().values.tolist() == [[0, 1, 2, 3]] * 4 + [[4, 5, 6, 7]] * 4


def test_padded_and_pick_agree_with_indexing(present):
    x = random(CLOUDS, POINTS, 6)
    spread = padded(x[present], present)
    assert torch.equal(spread, torch.where(present[..., None], x, 0.0))
    index = torch.tensor([[0, 41], [119, 0]])
    assert torch.equal(pick(x, index), torch.stack((x[[0, 1], [0, 1]], x[[2, 0], [39, 0]])))


def test_pooling_reads_what_is_present_and_nothing_of_an_empty_cloud():
    x, present = random(3, POINTS, 6).abs(), torch.arange(POINTS) < torch.tensor([[7], [0], [1]])
    rows = x[present]
    torch.testing.assert_close(mean(rows, present)[0], x[0, :7].mean(0))
    torch.testing.assert_close(largest(rows, present)[0], x[0, :7].amax(0))
    for pool in (mean, largest):
        assert torch.equal(pool(rows, present)[1], torch.zeros(6, dtype=torch.float64))
        assert torch.equal(pool(rows, present)[2], x[2, 0])


def test_an_abstraction_is_a_maximum_over_neighbours_of_a_perceptron(present):
    level = Abstraction(offset, 10, 8, 3 + 2, 7, 4).double()
    points, features = random(CLOUDS, POINTS, 3), random(CLOUDS, POINTS, 2, seed=1)
    level(points, points, present, features[present])
    *few, rows = level.eval()(points, points, present, features[present])
    assert all(torch.equal(x, y[:, :10]) for x, y in zip(few, (points, points, present), strict=True))
    found = iter(rows)
    for cloud in range(CLOUDS):
        there, theirs = points[cloud, present[cloud]], features[cloud, present[cloud]]
        for centre in there[:10]:
            index = (there - centre).norm(dim=-1).argsort()[:8]
            seen = level.perceptron(torch.cat((there[index] - centre, theirs[index]), -1))
            torch.testing.assert_close(next(found), seen.amax(0))
    assert next(found, None) is None


def test_an_edge_convolution_is_the_one_on_edges(present):
    """W (x_i, x_j − x_i), one edge after the other, with its W = (A + B, B)."""
    layer = EdgeConv(5, 4, neighbours=8).double()
    x = random(CLOUDS, POINTS, 5)
    layer(x[present], present)
    found = iter(layer.eval()(x[present], present))
    weight = torch.cat((layer.own.weight + layer.other.weight, layer.other.weight), 1)
    for cloud in range(CLOUDS):
        there = x[cloud, present[cloud]]
        for own in there:
            near = there[(there - own).norm(dim=-1).argsort()[:8]]
            edges = torch.stack([weight @ torch.cat((own, other - own)) for other in near])
            torch.testing.assert_close(next(found), layer.activation(edges).amax(0))
    assert next(found, None) is None


def test_pair_features_are_lengths_and_cosines_of_angles():
    points, normals = random(2, 3), torch.nn.functional.normalize(random(2, 3, seed=1), dim=-1)

    def angle(a, b):
        return np.arctan2(np.linalg.norm(np.cross(a, b)), a @ b)

    (p1, p2), (n1, n2) = points.numpy(), normals.numpy()
    d = p2 - p1
    angles = [angle(n1, d), angle(n2, d), angle(n1, n2), angle(n1, p1), angle(n2, p2)]
    lengths = [np.linalg.norm(v) for v in (d, p1, p2)]
    c = np.cos(angles)
    expected = torch.tensor([lengths[0], c[0], c[1], c[2], lengths[1], c[3], lengths[2], c[4]])
    found = pair_features(*(x[None, None] for x in (points[0], normals[0], points[1], normals[1])))
    torch.testing.assert_close(found, expected[None, None])


def test_a_pair_at_one_place_and_the_centre_have_no_direction():
    zero, up = torch.zeros(1, 1, 3), torch.tensor([[[0.0, 0.0, 1.0]]])
    assert pair_features(zero, up, zero, up).tolist() == [[[0, 0, 0, 1, 0, 0, 0, 0]]]
