"""Points that stand alone are found in any pose and at any scale, and are not there where a surface is."""

from dataclasses import fields, replace

import pytest
import torch
from scipy.sparse.csgraph import connected_components

from qecnet.algebra import random_quaternion, rotate
from qecnet.datasets import FURNITURE_CLASSES, make_shape
from qecnet.geometry import OrientedPoints, PointCloud, farthest_points, find_strays, prepare
from qecnet.geometry._support import centre_cloud
from qecnet.geometry.sampling import may_have_strays


def spoiled(points, count, seed=0):
    """With points anywhere in the ball around the cloud, and which they are."""
    generator = torch.Generator().manual_seed(seed)
    radius = (points - points.mean(0)).norm(dim=-1).amax()
    directions = torch.nn.functional.normalize(torch.randn(count, 3, generator=generator, dtype=points.dtype), dim=-1)
    distances = 1.5 * radius * torch.rand(count, 1, generator=generator, dtype=points.dtype) ** (1 / 3)
    added = torch.arange(len(points) + count) >= len(points)
    return torch.cat((points, points.mean(0) + distances * directions)), added


def test_strays_agree_with_their_definition(bumpy):
    points, _ = spoiled(bumpy.double(), 200)
    distances = torch.cdist(points, points)
    near = distances <= 2.53 * distances.sort(-1).values[:, 4].median()
    _, group = connected_components(near.numpy(), directed=False)
    size = torch.from_numpy(group).bincount()[group]
    assert find_strays(points).tolist() == (size < 5).tolist()
    assert {1, 2} < set(size[size < 5].tolist())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_strays_are_invariant_to_rotation_translation_and_scale(bumpy, dtype, scale):
    points, _ = spoiled(bumpy.double(), 100)
    turned = rotate(random_quaternion((), 1, dtype=torch.float64), points) + torch.tensor([3.0, -2.0, 1.0]).double()
    found = find_strays(points)
    assert 60 < found.sum() < 120
    assert torch.equal(find_strays((scale * turned).to(dtype)), found)


@pytest.mark.parametrize("points", [200, 1000, 2000, 4000])
@pytest.mark.parametrize("kind", FURNITURE_CLASSES)
def test_thin_legs_are_not_strays(kind, points):
    """Whatever they stand on: thin legs of few points tell which way is up."""
    lost = []
    for seed in range(8):
        cloud = make_shape(kind, seed).sample(points, torch.Generator().manual_seed(seed)).points
        height = cloud[:, 2] - cloud[:, 2].amin()
        low = height < 0.3 * height.amax()
        lost.append(find_strays(cloud)[low].float().mean())
    assert max(lost) < 0.1


@pytest.mark.parametrize("kind", FURNITURE_CLASSES)
def test_scattered_points_are_found(kind):
    points = make_shape(kind, 1).sample(4000, torch.Generator().manual_seed(0)).points
    found, added = find_strays(spoiled(points, 200)[0]), spoiled(points, 200)[1]
    assert found[added].float().mean() > 0.8
    assert found[~added].float().mean() < 2e-3


GRID = torch.cartesian_prod(*(torch.arange(13.0),) * 3)
LINE = torch.linspace(0, 1, 2500)[:, None] * torch.tensor([1.0, 2.0, 3.0])


@pytest.mark.parametrize(
    "points",
    [
        torch.zeros(1, 3),
        torch.zeros(2500, 3),
        GRID,
        torch.cartesian_prod(torch.arange(50.0), torch.arange(50.0), torch.zeros(1)),
        LINE,
        torch.eye(3),
        torch.cat((GRID[:1900], 100 * GRID[:9])),  # few
        torch.cat((1e-3 * GRID, 100 * GRID[:900])),  # uneven
    ],
    ids=["one", "same", "grid", "plane", "line", "three", "few", "uneven"],
)
def test_no_strays_in_sparse_or_uneven_clouds(points):
    assert not find_strays(points).any()


def test_stray_near_a_grid_is_found_in_every_pose():
    points = torch.cat((GRID, torch.tensor([[4.0, 4.0, 14.6]]), torch.tensor([[4.0, 4.0, -2.5]])))
    for seed in range(5):
        found = find_strays(rotate(random_quaternion((), seed), points))
        assert found.nonzero().flatten().tolist() == [len(GRID)]


def test_farthest_points_reveal_strays(bumpy):
    for points, expected in ((bumpy, False), (spoiled(bumpy, 50)[0], True), (bumpy[:1000], False)):
        cloud = centre_cloud(points)
        assert may_have_strays(cloud, cloud.points[farthest_points(points, 256)]) is expected


def test_thin_leg_among_the_farthest_points_is_not_a_stray(bumpy):
    """Its points are far from their 4th neighbour, but each is near the next."""
    step = 4 * torch.cdist(bumpy[:200], bumpy).kthvalue(5).values.median()
    leg = bumpy[bumpy[:, 2].argmax()] + step / 2 * torch.arange(1, 21)[:, None] * torch.tensor([0.0, 0.0, 1.0])
    cloud = centre_cloud(torch.cat((bumpy, leg)))
    assert (cloud.reach(cloud.points[-20:], 4) > 2.53 * cloud.median_reach(4)).any()
    assert not may_have_strays(cloud, cloud.points[-20:])


def test_strays_do_not_change_the_prepared_cloud(bumpy):
    """Far ones as well, which would make the cloud a dot, and all of it one point of float32."""
    cloud = PointCloud(bumpy.double())
    directions = torch.randn(40, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    far = 10.0 ** torch.arange(1, 11).repeat(4)[:, None] * directions
    with_strays = prepare(replace(cloud, points=torch.cat((far, cloud.points))))
    expected = prepare(cloud)
    for field in fields(OrientedPoints):
        assert torch.allclose(getattr(with_strays, field.name), getattr(expected, field.name), atol=1e-6), field.name
