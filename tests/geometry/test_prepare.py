"""From a cloud to what the network reads."""

import dataclasses
import os
import signal
import subprocess
import sys

import pytest
import torch

from qecnet.algebra import angular_distance, multiply, random_quaternion, rotate, to_matrix
from qecnet.geometry import PointCloud, PrepareConfig, default_radii, local_frames, prepare, prepare_many

FLAT = torch.rand(500, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * torch.tensor([1, 1, 0])
SMALL = PrepareConfig(points=1500, frames=64, patches=8, neighbours=5)


def seeded(seed):
    return torch.Generator().manual_seed(seed)


def test_a_prepared_cloud_is_frames_and_patches_of_the_cloud(bumpy):
    cloud = PointCloud(3 * bumpy + 40)
    prepared = prepare(cloud)
    assert prepared.points.shape == (512, 3)
    assert prepared.poses.shape == (512, 4)
    assert prepared.neighbours.shape == prepared.mask.shape == (64, 9)
    assert prepared.points.dtype == prepared.poses.dtype == torch.float32
    assert torch.cdist(prepared.restore(prepared.points), cloud.points).amin(1).max() < 1e-5
    centred = cloud.normalized().points
    frames = local_frames(centred, prepared.points, radii=default_radii(centred))
    assert torch.equal(prepared.valid, frames.valid)
    error = angular_distance(prepared.poses, frames.quaternions)[frames.valid]
    assert (error < 0.01).double().mean() > 0.99
    assert prepared.valid[prepared.neighbours[prepared.mask]].all()


def test_turning_the_cloud_turns_the_poses(bumpy):
    turn = random_quaternion((1,), generator=seeded(8), dtype=torch.float64)
    before, after = prepare(PointCloud(bumpy)), prepare(PointCloud(rotate(turn, bumpy)))
    same = (rotate(turn, before.points.double()) - after.points).norm(dim=-1) < 1e-5
    assert same.double().mean() > 0.99
    assert torch.equal(before.valid[same], after.valid[same])
    kept = same & before.valid
    error = angular_distance(multiply(turn.expand(512, 4), before.poses.double()), after.poses.double())[kept]
    assert (torch.rad2deg(error) < 0.5).double().mean() >= 0.99


def test_large_clouds_are_thinned_by_the_generator(bumpy):
    cloud = PointCloud(bumpy)
    first, again, other = (prepare(cloud, SMALL, seeded(s)) for s in (1, 1, 2))
    assert torch.equal(first.points, again.points)
    assert not torch.equal(first.points, other.points)
    with pytest.raises(ValueError, match="give a generator"):
        prepare(cloud, SMALL)


def test_signs_come_from_the_configured_rule(bumpy):
    cloud = PointCloud(bumpy + 7, normals=torch.nn.functional.normalize(bumpy, dim=-1))
    inward, outward, given, seen = (
        prepare(cloud, dataclasses.replace(SMALL, points=2000, method="centred", sign=sign))
        for sign in ("inward", "outward", "normals", (7.0, 7.0, 60.0))
    )
    z = [to_matrix(p.poses)[..., 2] for p in (inward, outward, given, seen)]
    assert torch.allclose(z[0], -z[1], atol=1e-5)
    assert torch.allclose(z[1], z[2], atol=1e-5)
    assert (z[3][seen.valid, 2] > -0.2).all()
    with pytest.raises(ValueError, match="has no normals"):
        prepare(PointCloud(bumpy), dataclasses.replace(SMALL, points=2000, sign="normals"))


def test_small_clouds_are_filled_up_with_invalid_frames(bumpy):
    prepared = prepare(PointCloud(bumpy[:40]))
    assert prepared.points.shape == (512, 3)
    assert not prepared.valid[40:].any()
    assert (prepared.neighbours[prepared.mask] < 40).all()


def test_what_is_not_finite_or_repeated_is_dropped(bumpy):
    dirty = torch.cat([bumpy, bumpy[:100], torch.tensor([[torch.nan, 0, 0], [0, torch.inf, 0]])])
    clean, washed = prepare(PointCloud(bumpy)), prepare(PointCloud(dirty))
    assert torch.equal(clean.points, washed.points)
    assert torch.equal(clean.poses, washed.poses)


@pytest.mark.parametrize(("scale", "offset"), [(1e-12, 0.0), (1e12, 0.0), (1.0, 1e8)])
def test_any_scale_and_a_huge_offset(bumpy, scale, offset):
    plain, moved = prepare(PointCloud(bumpy)), prepare(PointCloud(bumpy * scale + offset))
    assert torch.allclose(plain.points, moved.points, atol=1e-5)
    assert torch.equal(plain.valid, moved.valid)
    assert torch.allclose(
        moved.restore(moved.points),
        plain.points.double() * plain.scale * scale + plain.centre * scale + offset,
        rtol=1e-5,
        atol=1e-5 * scale,
    )


@pytest.mark.parametrize(
    "points",
    [
        torch.linspace(0, 1, 30)[:, None] * torch.ones(1, 3),
        torch.rand(50, 3, generator=seeded(0)) * torch.eye(3)[:2].sum(0),
        rotate(random_quaternion((1,), generator=seeded(1), dtype=torch.float64), FLAT),
    ],
    ids=["a line", "a plane", "a plane turned"],
)
def test_clouds_without_frames_come_out_masked(points):
    prepared = prepare(PointCloud(points))
    assert not prepared.valid.any()
    assert not prepared.mask.any()
    assert prepared.poses.isfinite().all()


@pytest.mark.parametrize("points", [torch.eye(3), torch.ones(100, 3)], ids=["three points", "all equal"])
def test_fewer_points_than_a_patch_is_one_sentence(points):
    with pytest.raises(ValueError, match=r"lamp: cloud has \d distinct points; a patch needs at least 9"):
        prepare(PointCloud(points, name="lamp"))


@pytest.mark.parametrize("values", [{"points": 8}, {"frames": 8}, {"neighbours": 600}])
def test_a_configuration_that_fills_no_patch_is_one_sentence(values):
    with pytest.raises(ValueError, match="a patch needs at least as many"):
        PrepareConfig(**values)


def test_the_number_of_workers_changes_nothing(bumpy):
    clouds = [PointCloud(bumpy + i, normals=-bumpy, name=f"cloud {i}") for i in range(3)]
    config = dataclasses.replace(SMALL, sign="normals")
    alone = prepare_many(clouds, config, seed=4, workers=1, progress=False)
    together = prepare_many(iter(clouds), config, seed=4, workers=2, progress=False)
    assert len(alone) == len(together) == 3
    for a, b in zip(alone, together, strict=True):
        for field in dataclasses.fields(a):
            assert torch.equal(getattr(a, field.name), getattr(b, field.name)), field.name
    assert not torch.equal(alone[0].points, alone[1].points), "each cloud has a draw of its own"


def test_an_interrupt_is_one_exception(tmp_path):
    """Ctrl-C reaches every process of the terminal; only the one that was asked to work may say so."""
    script = tmp_path / "many.py"
    script.write_text("""
import torch
from qecnet.geometry import PointCloud, prepare_many

def clouds():
    for i in range(1000):
        if i == 20:
            print("started", flush=True)
        yield PointCloud(torch.randn(3000, 3))

if __name__ == "__main__":
    try:
        prepare_many(clouds(), workers=2, progress=False)
    except KeyboardInterrupt:
        print("interrupted")
""")
    process = subprocess.Popen(
        [sys.executable, script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background ignores Ctrl-C
    )
    assert process.stdout.readline() == "started\n"
    os.killpg(process.pid, signal.SIGINT)
    out, errors = process.communicate(timeout=300)
    assert (process.returncode, out, errors) == (0, "interrupted\n", "")


def test_a_viewpoint_that_is_nowhere_is_one_sentence():
    with pytest.raises(ValueError, match=r"viewpoint is \(inf, 0, 0\)"):
        PrepareConfig(sign=(float("inf"), 0, 0))


def test_a_bad_cloud_among_many_is_named(bumpy):
    clouds = [PointCloud(bumpy), PointCloud(torch.eye(3), name="stool")]
    with pytest.raises(ValueError, match="stool: cloud has 3"):
        prepare_many(clouds, SMALL, workers=1, progress=False)
    with pytest.raises(ValueError, match="0 workers"):
        prepare_many(clouds, SMALL, workers=0)
