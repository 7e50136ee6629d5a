"""Projections: what is drawn where, continuity, repeated points, and the reader of them."""

import math

import pytest
import torch

from qecnet.algebra import from_azimuth, from_rotvec, multiply, random_quaternion, rotate
from qecnet.compiled import use_compiled_operators
from qecnet.nn.projection_reader import CHANNELS, ProjectionReader, ProjectionReaderSize, draw_projections

SMALL = ProjectionReaderSize(200, 16, (8, 16))


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def make_cloud(rows=2, points=200, dtype=torch.float32, seed=0):
    g = generator(seed)
    positions = torch.randn(rows, points, 3, generator=g, dtype=dtype)
    positions /= positions.norm(dim=-1).amax(1)[:, None, None]
    normals = torch.nn.functional.normalize(torch.randn(rows, points, 3, generator=g, dtype=dtype), dim=-1)
    return positions, normals


def draw_slowly(positions, normals, resolution):
    """Pixel by pixel."""
    drawn = torch.zeros(len(positions), 3, CHANNELS, resolution, resolution, dtype=positions.dtype)
    for row, (cloud, directions) in enumerate(zip(positions, normals, strict=True)):
        for point, normal in zip(cloud.tolist(), directions.tolist(), strict=True):
            for axis, (right, up) in enumerate(((1, 2), (0, 2), (0, 1))):
                depths = [0.65 + 0.35 * point[axis], 0.65 - 0.35 * point[axis]]
                values = [*depths, *map(abs, normal)]
                x, y = ((point[i] + 1) * resolution / 2 for i in (right, up))
                for v in range(resolution):
                    for u in range(resolution):
                        if abs(u + 0.5 - x) < 1.5 and abs(v + 0.5 - y) < 1.5:
                            weight = min(1, (1.5 - abs(u + 0.5 - x)) * 4) * min(1, (1.5 - abs(v + 0.5 - y)) * 4)
                            for channel, value in enumerate(values):
                                now = drawn[row, axis, channel, v, u].item()
                                drawn[row, axis, channel, v, u] = max(now, weight * value)
    return drawn


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-12)])
def test_projections_agree_with_a_loop_over_pixels(dtype, tolerance, compiled):
    positions, normals = make_cloud(points=20, dtype=dtype)
    positions[0, :6] = torch.cat((torch.eye(3), -torch.eye(3))).to(dtype)  # at the edges
    positions[0, 6] = 0
    normals[1, :5] = 0
    use_compiled_operators(compiled)
    try:
        found = draw_projections(positions, normals, 12)
    finally:
        use_compiled_operators(True)
    torch.testing.assert_close(found, draw_slowly(positions, normals, 12), atol=tolerance, rtol=0)


def test_a_point_is_drawn_where_it_lies():
    position = torch.tensor([[[0.6, -0.6, 0.2]]])
    drawn = draw_projections(position, torch.tensor([[[0.0, -1.0, 0.0]]]), 10)
    assert drawn[0, 0, 0, 6, 2] == pytest.approx(0.65 + 0.35 * 0.6)  # along x: y to the right, z up
    assert drawn[0, 1, 0, 6, 8] == pytest.approx(0.65 - 0.35 * 0.6)  # along y: x to the right
    assert drawn[0, 2, 1, 2, 8] == pytest.approx(0.65 - 0.35 * 0.2)  # along z, from below
    assert drawn[0, 0, 3, 6, 2] == 1
    assert drawn[0, 0, 2].count_nonzero() == 0
    assert drawn[0, 0, 0].count_nonzero() <= 9


def test_of_two_points_on_one_line_of_sight_each_side_shows_the_nearer():
    positions = torch.tensor([[[0.5, 0.0, 0.0], [-0.7, 0.0, 0.0]]])
    front, back = draw_projections(positions, torch.zeros_like(positions), 8)[0, 0, :2]
    assert front.max() == pytest.approx(0.65 + 0.35 * 0.5)
    assert back.max() == pytest.approx(0.65 + 0.35 * 0.7)


def test_order_and_repeated_points_change_nothing():
    positions, normals = make_cloud()
    order = torch.cat((torch.randperm(200, generator=generator()), torch.arange(50)))
    drawn = draw_projections(positions, normals, 16)
    assert torch.equal(draw_projections(positions[:, order], normals[:, order], 16), drawn)


@pytest.mark.parametrize("compiled", [True, False])
def test_projections_are_continuous(compiled):
    """A small step moves no value by more than its slope allows, also across the borders of pixels."""
    positions, normals = make_cloud(1, 50)
    step = 1e-4
    use_compiled_operators(compiled)
    try:
        before = draw_projections(positions, normals, 16)
        after = draw_projections((positions + step).clamp(-1, 1), normals, 16)
    finally:
        use_compiled_operators(True)
    assert 0 < (after - before).abs().max() < step * (16 / 2 * 4 * 2 + 1)


def test_no_points_and_points_outside_give_empty_projections():
    assert not draw_projections(torch.zeros(1, 0, 3), torch.zeros(1, 0, 3), 8).any()
    outside = torch.full((1, 3, 3), 5.0)
    assert not draw_projections(outside, torch.zeros_like(outside), 8).any()


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-12)])
def test_a_pose_that_rotates_with_the_cloud_changes_nothing(dtype, tolerance):
    torch.manual_seed(0)
    reader = ProjectionReader(SMALL, 3, 0.0).to(dtype).eval()
    positions, normals = make_cloud(dtype=dtype)
    poses = random_quaternion((2,), generator(), dtype=dtype)
    q = random_quaternion((2,), generator(1), dtype=dtype)
    with torch.inference_mode():
        found = reader(positions, normals, poses)
        rotated = reader(rotate(q[:, None], positions), rotate(q[:, None], normals), multiply(q, poses))
        other = reader(positions, normals, multiply(poses, from_rotvec(torch.tensor([math.pi, 0, 0], dtype=dtype))))
    torch.testing.assert_close(rotated, found, atol=tolerance, rtol=0)
    assert (other.upright - found.upright).abs().min() > 10 * tolerance


def test_one_cloud_is_read_from_several_poses():
    torch.manual_seed(0)
    reader = ProjectionReader(SMALL, 3, 0.0).eval()
    positions, normals = make_cloud(1)
    poses = from_azimuth(torch.tensor([0.0, 0.4, 2.0]))
    with torch.inference_mode():
        together = reader(positions, normals, poses)
        apart = reader(positions.expand(3, -1, -1), normals.expand(3, -1, -1), poses)
    torch.testing.assert_close(together, apart)


@pytest.mark.parametrize(
    "size",
    [{"resolution": 15}, {"resolution": 0}, {"resolution": 2048}, {"widths": ()}, {"widths": (0,)}, {"points": 0}],
)
def test_sizes_are_checked(size):
    with pytest.raises(ValueError, match=next(iter(size))):
        ProjectionReaderSize(**size)
