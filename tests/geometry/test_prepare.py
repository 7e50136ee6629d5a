"""From a cloud to what the network reads."""

import dataclasses

import pytest
import torch
from tests.kinds import present

from qecnet.algebra import angular_distance, multiply, random_quaternion, rotate, to_matrix
from qecnet.geometry import (
    PointCloud,
    PrepareConfig,
    check_viewpoint,
    default_radii,
    drop_implausible_viewpoint,
    local_frames,
    prepare,
)
from qecnet.geometry._support import centre_cloud
from qecnet.geometry.frames import plane_frames

SMALL = PrepareConfig(points=1500, frames=64)


def seeded(seed):
    return torch.Generator().manual_seed(seed)


def test_frames_are_those_of_the_cloud(bumpy):
    cloud = PointCloud(3 * bumpy + 40)
    prepared = prepare(cloud)
    assert prepared.positions.shape == (512, 3)
    assert prepared.frames.shape == (512, 4)
    assert prepared.positions.dtype == prepared.frames.dtype == torch.float32
    assert torch.cdist(prepared.restore(prepared.positions), cloud.points).amin(1).max() < 1e-5
    centred = cloud.normalized().points
    frames = local_frames(centred, prepared.positions, radii=default_radii(centred))
    assert torch.equal(prepared.valid, frames.valid)
    error = angular_distance(prepared.frames, frames.quaternions)[frames.valid]
    assert (error < 0.01).double().mean() > 0.99


def test_rotating_the_cloud_rotates_the_frames(bumpy):
    turn = random_quaternion((1,), generator=seeded(8), dtype=torch.float64)
    before, after = prepare(PointCloud(bumpy)), prepare(PointCloud(rotate(turn, bumpy)))
    same = (rotate(turn, before.positions.double()) - after.positions).norm(dim=-1) < 1e-5
    assert same.double().mean() > 0.99
    assert torch.equal(before.valid[same], after.valid[same])
    kept = same & before.valid
    error = angular_distance(multiply(turn.expand(512, 4), before.frames.double()), after.frames.double())[kept]
    assert (torch.rad2deg(error) < 0.5).double().mean() >= 0.99


def test_large_clouds_are_thinned_by_the_generator(bumpy):
    cloud = PointCloud(bumpy)
    first, again, other = (prepare(cloud, SMALL, seeded(s)) for s in (1, 1, 2))
    assert torch.equal(first.positions, again.positions)
    assert not torch.equal(first.positions, other.positions)
    with pytest.raises(ValueError, match="give a generator"):
        prepare(cloud, SMALL)


def test_signs_come_from_the_configured_rule(bumpy):
    cloud = PointCloud(bumpy + 7, normals=torch.nn.functional.normalize(bumpy, dim=-1))
    cloud = cloud.seen_from(torch.tensor([7.0, 7, 60]))
    inward, outward, given, seen = (
        prepare(cloud, dataclasses.replace(SMALL, points=2000, method="centred", sign=sign))
        for sign in ("inward", "outward", "normals", "camera")
    )
    z = [to_matrix(p.frames)[..., 2] for p in (inward, outward, given, seen)]
    assert torch.allclose(z[0], -z[1], atol=1e-5)
    assert torch.allclose(z[1], z[2], atol=1e-5)
    assert (z[3][seen.valid, 2] > -0.2).all()
    with pytest.raises(ValueError, match="has no normals"):
        prepare(PointCloud(bumpy), dataclasses.replace(SMALL, points=2000, sign="normals"))


def test_method_none_has_the_same_points_with_identity_frames(bumpy):
    config = dataclasses.replace(SMALL, method="none")
    found, framed = (prepare(PointCloud(bumpy), each, seeded(0)) for each in (config, SMALL))
    assert torch.equal(found.positions, framed.positions)
    assert torch.equal(found.frames, torch.tensor([1.0, 0, 0, 0]).expand(64, 4))
    assert found.valid.all()


def test_small_clouds_are_padded_with_invalid_frames(bumpy):
    prepared = prepare(PointCloud(bumpy[:40]))
    assert prepared.positions.shape == (512, 3)
    assert not prepared.valid[40:].any()


def test_non_finite_and_repeated_points_are_dropped(bumpy):
    dirty = torch.cat([bumpy, bumpy[:100], torch.tensor([[torch.nan, 0, 0], [0, torch.inf, 0]])])
    clean, washed = prepare(PointCloud(bumpy)), prepare(PointCloud(dirty))
    assert torch.equal(clean.positions, washed.positions)
    assert torch.equal(clean.frames, washed.frames)


@pytest.mark.parametrize(("scale", "offset"), [(1e-12, 0.0), (1e12, 0.0), (1.0, 1e8)])
def test_any_scale_and_a_huge_offset_are_prepared(bumpy, scale, offset):
    plain, moved = prepare(PointCloud(bumpy)), prepare(PointCloud(bumpy * scale + offset))
    assert torch.allclose(plain.positions, moved.positions, atol=1e-5)
    assert torch.equal(plain.valid, moved.valid)
    assert torch.allclose(
        moved.restore(moved.positions),
        plain.positions.double() * plain.scale * scale + plain.centre * scale + offset,
        rtol=1e-5,
        atol=1e-5 * scale,
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_points_on_a_line_are_masked(dtype):
    prepared = prepare(PointCloud(torch.linspace(0, 1, 30, dtype=dtype)[:, None] * torch.tensor([1.0, 2.0, 3.0])))
    assert not prepared.valid.any()
    assert prepared.frames.isfinite().all()


@pytest.mark.parametrize("count", [9, 10, 12, 13])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_sparsest_clouds_have_frames_that_rotate_with_them(bumpy, count, dtype):
    points = bumpy[torch.linspace(0, len(bumpy) - 1, count).long()].to(dtype)
    q = random_quaternion((), 1, dtype=torch.float64)
    config = PrepareConfig(frames=9, method="centred")
    here, there = (prepare(PointCloud(p), config) for p in (points, rotate(q, points.double()).to(dtype)))
    assert here.valid.sum() >= 6
    assert torch.equal(here.valid, there.valid)
    expected = multiply(q.float().expand_as(here.frames), here.frames)
    assert angular_distance(expected, there.frames)[here.valid].max() < 2e-3


@pytest.mark.parametrize(
    ("points", "found"), [(torch.eye(3), "3 distinct points"), (torch.ones(100, 3), "1 distinct point")]
)
def test_too_few_points_give_a_one_sentence_error(points, found):
    with pytest.raises(ValueError, match=f"lamp: has {found}; a shape needs at least 9"):
        prepare(PointCloud(points, name="lamp"))


@pytest.mark.parametrize("values", [{"points": 8}, {"frames": 8}])
def test_too_small_a_configuration_gives_a_one_sentence_error(values):
    with pytest.raises(ValueError, match="is 8; a shape needs at least 9"):
        PrepareConfig(**values)


def test_normals_face_the_camera_at_any_position_and_scale():
    generator = torch.Generator().manual_seed(0)
    ball = torch.nn.functional.normalize(torch.randn(3000, 3, generator=generator, dtype=torch.float64), dim=-1)
    camera = torch.tensor([0.0, 0, 4], dtype=torch.float64)
    cap = 100 * ball[ball[:, 2] > 0.3] + 7
    config = dataclasses.replace(SMALL, points=3000, method="centred", sign="camera")
    seen = prepare(PointCloud(cap).seen_from(100 * camera + 7), config)
    z = to_matrix(seen.frames.double())[..., 2]
    towards = 100 * camera + 7 - seen.restore(seen.positions)
    assert seen.valid.sum() > 0.9 * len(seen.valid)
    assert ((z * towards).sum(-1)[seen.valid] > 0).all()
    unknown, outward = (prepare(PointCloud(cap), dataclasses.replace(config, sign=s)) for s in ("camera", "outward"))
    assert torch.equal(unknown.frames, outward.frames)


def test_a_viewpoint_rotates_with_the_cloud():
    cloud = PointCloud(torch.rand(50, 3, dtype=torch.float64, generator=seeded(0)))
    camera = torch.tensor([0, 0, 9], dtype=torch.float64)
    cloud = cloud.seen_from(camera)
    q = random_quaternion((), 3, dtype=torch.float64)
    assert torch.allclose(present(cloud.rotated(q).viewpoint), rotate(q, camera))
    small = cloud.clean().normalized(torch.float64)
    assert torch.allclose(small.restore(present(small.viewpoint)), camera)
    assert torch.equal(present(cloud.select(torch.arange(9)).viewpoint), camera)


def test_impossible_viewpoint_gives_a_one_sentence_error():
    generator = torch.Generator().manual_seed(0)
    normals = torch.nn.functional.normalize(torch.randn(500, 3, generator=generator, dtype=torch.float64), dim=-1)
    normals = normals[normals[:, 2] > 0.3]
    above = torch.tensor([0.0, 0, 5], dtype=torch.float64)
    cap = PointCloud(normals, normals, "scan.ply")
    check_viewpoint(cap)
    check_viewpoint(cap.seen_from(above))
    with pytest.raises(ValueError, match=r"scan.ply: the viewpoint \(0, 0, 0.6\) is inside the shape; give the camera"):
        check_viewpoint(cap.seen_from(torch.tensor([0, 0, 0.6], dtype=torch.float64)))
    with pytest.raises(ValueError, match=r"scan.ply: 100% of the normals face away from the viewpoint \(0, 0, -5\)"):
        check_viewpoint(cap.seen_from(-above))
    assert drop_implausible_viewpoint(cap.seen_from(-above)).viewpoint is None
    assert drop_implausible_viewpoint(cap.seen_from(above)).viewpoint is not None
    with pytest.raises(ValueError, match=r"scan.ply: the viewpoint is \[inf, 0.0, 0.0\]; give three"):
        cap.seen_from(torch.tensor([float("inf"), 0, 0]))


@pytest.mark.parametrize("method", ["centred", "flare"])
def test_a_flat_shape_has_frames_that_rotate_with_it(method):
    """No side of a plane through the centroid is inward; one of a letter's sides is still the front."""
    generator = torch.Generator().manual_seed(0)
    flat = torch.rand(3000, 3, generator=generator, dtype=torch.float64)
    flat = torch.cat((flat * torch.tensor([1.0, 0.2, 0.0]), flat * torch.tensor([0.2, 0.6, 0.0])))
    config = PrepareConfig(10_000, 64, method)
    q = random_quaternion((), generator, dtype=torch.float64)
    before, after = (prepare(PointCloud(points), config) for points in (flat, rotate(q, flat)))
    assert before.valid.float().mean() > 0.9
    turned = before.rotated(q)
    both = before.valid & after.valid
    torch.testing.assert_close(after.positions, turned.positions, atol=1e-5, rtol=0)
    assert angular_distance(after.frames, turned.frames)[both].max() < 1e-2


def test_points_in_general_position_are_not_a_plane():
    apart = torch.randn(9, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    cloud = centre_cloud(apart)
    assert not plane_frames(cloud, cloud.points, apart).valid.any()
