"""Views: each effect of a camera on shapes whose views are known, and the seed that decides all of them."""

from dataclasses import replace

import pytest
import torch
from tests.kinds import present
from torch.nn.functional import normalize

from qecnet.datasets import ViewConfig, make_shape, sample_view, sample_view_from
from qecnet.geometry import Mesh, PointCloud

PLAIN = ViewConfig(pixels=0, noise=0.0, grazing=0.0)


def generator(seed=1):
    return torch.Generator().manual_seed(seed)


def see(shape, seed=1, **settings):
    return sample_view(shape, generator(seed), replace(PLAIN, **settings))


@pytest.fixture(scope="module")
def ball():
    """A unit ball's surface, away from the origin; no normals."""
    points = normalize(torch.randn(40_000, 3, generator=generator(0), dtype=torch.float64), dim=-1)
    return PointCloud(2 * points + torch.tensor([5.0, 0, 1]))


@pytest.fixture(scope="module")
def chair():
    return make_shape("chair", 3)


def square(side=1.0, z=0.0):
    corners = torch.tensor([[-1.0, -1, 0], [1, -1, 0], [1, 1, 0], [-1, 1, 0]], dtype=torch.float64) * side
    return corners + torch.tensor([0, 0, z], dtype=torch.float64), torch.tensor([[0, 1, 2], [0, 2, 3]])


def test_the_view_of_a_ball_is_the_cap_that_faces_the_camera(ball):
    view = see(ball, distance=(3.0, 3.0))
    towards = normalize(view.cameras[0] - view.centre, dim=0)
    height = ((view.cloud.points - view.centre) / view.radius) @ towards
    # From three radii away, the horizon of a ball is the circle at a third of its radius.
    assert height.amin() == pytest.approx(1 / 3, abs=0.1)
    assert view.visible == pytest.approx(1 / 3, abs=0.03)
    assert (view.cameras[0] - view.centre).norm() == pytest.approx(3 * view.radius)
    assert torch.equal(present(view.cloud.viewpoint), view.cameras[0])
    assert view.radius == pytest.approx(2, rel=0.01)


def test_points_behind_a_wall_are_hidden():
    (front, faces), (back, _) = square(1, 0.5), square(0.4, -0.5)
    mesh = Mesh(torch.cat([front, back]), torch.cat([faces, faces + 4]))
    shown = hidden = 0
    for seed in range(30):
        view = see(mesh, seed, distance=(5.0, 5.0), surface=10_000)
        above = view.cameras[0][2] / view.radius
        seen = (view.cloud.points[:, 2] < 0).any()
        if above < -1:
            assert seen
            shown += 1
        elif above > 4.4:  # nothing of the small square looks out behind the large one
            assert not seen
            hidden += 1
    assert shown
    assert hidden


def test_remaining_points_are_points_of_the_cloud_each_once(ball):
    rows = {tuple(row) for row in ball.points.tolist()}
    left = [tuple(row) for row in see(ball).cloud.points.tolist()]
    # Their coordinates pass through float32.
    near = {tuple(round(value, 4) for value in row) for row in rows}
    assert len({*left}) == len(left)
    assert len({tuple(round(value, 4) for value in row) for row in left} - near) < 0.02 * len(left)


def test_each_pixel_gives_one_point_and_near_surfaces_are_denser():
    vertices, faces = square()
    mesh = Mesh(torch.cat([vertices, vertices * 0.02 + torch.tensor([0, 0, 0.6])]), torch.cat([faces, faces + 4]))
    counts = {}
    for pixels in (16, 32, 64):
        views = [see(mesh, seed, pixels=pixels, surface=80_000) for seed in range(6)]
        counts[pixels] = sum(len(view.cloud) for view in views)
        assert all(len(view.cloud) <= pixels**2 for view in views)
    assert counts[32] == pytest.approx(4 * counts[16], rel=0.2)
    assert counts[64] == pytest.approx(4 * counts[32], rel=0.2)


def test_far_parts_of_a_plane_have_fewer_points():
    view = see(Mesh(*square()), seed=2, distance=(1.6, 1.6), pixels=48)
    depth = (view.cloud.points - view.cameras[0]).norm(dim=-1)
    uniform = (Mesh(*square()).sample(4000, generator()).points - view.cameras[0]).norm(dim=-1)
    middle = uniform.median()
    assert (depth < middle).double().mean() > 0.55


@pytest.mark.parametrize(("distance", "noise"), [(2.0, 0.001), (4.0, 0.001), (4.0, 0.002)])
def test_depth_noise_is_along_the_ray_and_grows_with_the_square_of_the_distance(ball, distance, noise):
    clean = see(ball, 3, distance=(distance, distance))
    noisy = see(ball, 3, distance=(distance, distance), noise=noise)
    rays = (clean.cloud.points - clean.cameras[0]) / clean.radius
    moved = (noisy.cloud.points - clean.cloud.points) / clean.radius
    along = (moved * normalize(rays, dim=-1)).sum(-1)
    assert (moved - along[:, None] * normalize(rays, dim=-1)).norm(dim=-1).amax() < 1e-5
    assert (along / rays.square().sum(-1)).std() == pytest.approx(noise, rel=0.05)


def test_pixels_are_lost_at_grazing_angles(ball):
    every, left = (see(ball, distance=(3.0, 3.0), pixels=96, grazing=grazing) for grazing in (0.0, 0.5))

    def cosines(view):
        normal = (view.cloud.points - view.centre) / view.radius
        return (normal * normalize(view.cameras[0] - view.cloud.points, dim=-1)).sum(-1)

    def share(low, high):
        inside = [((c >= low) & (c < high)).sum().item() for c in (cosines(left), cosines(every))]
        return inside[0] / inside[1]

    assert share(0.65, 1.1) > 0.98
    assert share(0.2, 0.3) == pytest.approx(0.5, abs=0.2)
    assert share(0.0, 0.1) < share(0.1, 0.2) + 0.05 < share(0.3, 0.4) + 0.05


def test_floor_is_below_the_shape_and_seen_from_above_only(chair):
    low = chair.vertices[:, 2].amin()
    above = below = 0
    for seed in range(10):
        plain, floored = see(chair, seed), see(chair, seed, floor=1.0)
        more = len(floored.cloud) - len(plain.cloud)
        on_floor = ((floored.cloud.points[:, 2] - low).abs() < 0.01 * floored.radius).sum()
        if plain.cameras[0][2] < low:
            assert more == 0
            below += 1
        elif more:
            assert on_floor >= 0.9 * more
            above += 1
    assert above
    assert below


def test_merged_views_record_the_camera_of_each_point(chair):
    one, three = see(chair, 5), see(chair, 5, cameras=(3, 3))
    assert len(three.cameras) == 3
    assert torch.equal(three.seen_by.unique(), torch.arange(3))
    assert torch.equal(three.cloud.points[three.seen_by == 0], one.cloud.points)
    assert three.visible > one.visible
    assert three.cloud.viewpoint is None
    numbers = {len(see(chair, seed, cameras=(1, 3)).cameras) for seed in range(12)}
    assert numbers == {1, 2, 3}


def test_a_given_camera_sees_the_side_that_faces_it(ball):
    """Of a ball of radius r, a camera at distance d sees what lies more than r²/d towards it."""
    centre = torch.tensor([5.0, 0, 1], dtype=torch.float64)
    for seed in range(3):
        direction = normalize(torch.randn(3, generator=generator(seed), dtype=torch.float64), dim=-1)
        place = centre + 6 * direction
        view = sample_view_from(ball, place, generator(), PLAIN)
        assert torch.allclose(view.cameras, place[None], atol=1e-6)
        assert torch.equal(present(view.cloud.viewpoint), view.cameras[0])
        towards = (view.cloud.points - centre) @ direction
        assert towards.quantile(0.02) == pytest.approx(4 / 6, abs=0.1)
        assert view.visible == pytest.approx((1 - 2 / 6) / 2, abs=0.03)


def test_a_given_camera_sees_what_a_random_one_saw_there(chair):
    random = see(chair, 5)
    same = sample_view_from(chair, random.cameras[0], generator(5), PLAIN)
    assert same.visible == pytest.approx(random.visible, abs=1e-3)
    assert len(same.cloud) == pytest.approx(len(random.cloud), rel=0.01)


def test_seed_determines_the_view(chair):
    config = ViewConfig(cameras=(1, 3), floor=0.5)
    once, again, other = (sample_view(chair, generator(seed), config) for seed in (1, 1, 2))
    assert torch.equal(once.cloud.points, again.cloud.points)
    assert torch.equal(once.cameras, again.cameras)
    assert not torch.equal(once.cameras[0], other.cameras[0])


def test_views_scale_and_move_with_the_shape(chair):
    moved = Mesh(1000 * chair.vertices + torch.tensor([1e5, 0, -3e4]), chair.faces)
    here, there = see(chair, 4), see(moved, 4)
    assert there.visible == pytest.approx(here.visible, abs=0.005)
    assert there.radius == pytest.approx(1000 * here.radius)
    assert torch.allclose(there.cameras, 1000 * here.cameras + torch.tensor([1e5, 0, -3e4]).double(), rtol=1e-9)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"distance": (0.5, 2.0)}, "a camera within 1 radius is inside the shape"),
        ({"cameras": (0, 1)}, "cameras is"),
        ({"pixels": -1}, "pixels is -1"),
        ({"noise": -0.1}, "noise is -0.1"),
        ({"grazing": 1.5}, "grazing is 1.5"),
        ({"floor": 2}, "floor is 2"),
    ],
)
def test_invalid_camera_settings_give_a_one_sentence_error(settings, says):
    with pytest.raises(ValueError, match=says):
        ViewConfig(**settings)


def test_shapes_that_cannot_be_seen_give_a_one_sentence_error(chair):
    with pytest.raises(ValueError, match="lamp: its points are all equal"):
        sample_view(PointCloud(torch.ones(20, 3), name="lamp"), generator())
    with pytest.raises(ValueError, match="cameras see fewer than 9 points"):
        see(chair, pixels=2)
    with pytest.raises(ValueError, match="the camera sees fewer than 9 points of it; move it"):
        sample_view_from(chair, torch.tensor([0.0, -9, 0]), generator(), ViewConfig(pixels=2))
    with pytest.raises(ValueError, match="the camera is inside the sphere around the shape; move it away"):
        sample_view_from(chair, torch.zeros(3), generator())
