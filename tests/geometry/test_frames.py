"""Laws of local reference frames: they turn with the cloud, ignore its place and size, and are never made up."""

import itertools
from typing import get_args

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from qecnet.algebra import angular_distance, multiply, random_quaternion, rotate, to_matrix
from qecnet.geometry import Radii, default_radii, farthest_points, fit_normals, local_frames
from qecnet.geometry._neighbours import pairs_within
from qecnet.geometry.frames import Method

METHODS = get_args(Method)


@pytest.fixture(params=METHODS)
def method(request):
    return request.param


def turned(points, seed):
    """A random rotation (1, 4), and float64 points turned by it."""
    turn = random_quaternion((1,), generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return turn, rotate(turn, points)


def flat(count):
    generator = torch.Generator().manual_seed(0)
    return torch.rand(count, 3, generator=generator, dtype=torch.float64) * torch.tensor([1, 1, 0])


def degrees(a, b):
    return torch.rad2deg(angular_distance(a.double(), b.double()))


@pytest.mark.parametrize("count", [10_000, 2_000, 1_000])
def test_frames_of_real_clouds_rotate_with_them(modelnet, method, dtype, count):
    found, total = [], 0
    for seed, cloud in enumerate(modelnet):
        cloud = cloud[:count]
        turn, other = turned(cloud, seed)
        at = farthest_points(cloud, 512)
        before, after = (local_frames(c.to(dtype), at, method) for c in (cloud, other))
        assert torch.equal(before.valid, after.valid)
        expected = multiply(turn.expand(512, 4), before.quaternions.double())
        found.append(degrees(expected, after.quaternions)[before.valid])
        total += 512
    errors = torch.cat(found)
    assert len(errors) > 0.97 * total
    limit, share = (0.01, 0.999) if dtype == torch.float64 else (0.5, 0.99)
    assert (errors < limit).double().mean() >= share


def test_frames_of_real_clouds_are_invariant_to_translation_and_scale(modelnet, method, dtype):
    limit, share = (0.01, 0.999) if dtype == torch.float64 else (0.5, 0.99)
    every_at = [farthest_points(cloud, 512) for cloud in modelnet]
    every = [local_frames(cloud.to(dtype), at, method) for cloud, at in zip(modelnet, every_at, strict=True)]
    for scale, offset in ((1e-12, 2.0), (1.0, 2.0), (37.0, 0.0), (1e12, 2.0)):
        errors = []
        for cloud, at, before in zip(modelnet, every_at, every, strict=True):
            moved = (cloud + offset * cloud.norm(dim=-1).max() * torch.tensor([1.0, -0.5, 0.3])) * scale
            after = local_frames(moved.to(dtype), at, method)
            assert torch.equal(before.valid, after.valid), (scale, offset)
            errors.append(degrees(before.quaternions, after.quaternions)[before.valid])
        assert (torch.cat(errors) < limit).double().mean() >= share, (scale, offset)


@given(seed=st.integers(0, 2**32 - 1), power=st.integers(-12, 12), steps=st.integers(-1000, 1000))
@settings(max_examples=15, deadline=None)
@pytest.mark.parametrize("name", METHODS)
def test_frames_are_invariant_to_translation_and_scale(name, seed, power, steps):
    generator = torch.Generator().manual_seed(seed)
    points = torch.randn(400, 3, generator=generator, dtype=torch.float64) * torch.tensor([1.0, 0.7, 0.2])
    before = local_frames(points, method=name)
    after = local_frames((points + steps) * 10.0**power, method=name)
    assert torch.equal(before.valid, after.valid)
    assert degrees(before.quaternions, after.quaternions)[before.valid].max() < 0.01


def test_frames_do_not_depend_on_order_or_batching(bumpy, method):
    whole = local_frames(bumpy, method=method)
    order = torch.randperm(len(bumpy), generator=torch.Generator().manual_seed(0))
    shuffled = local_frames(bumpy[order], method=method)
    assert torch.equal(shuffled.valid, whole.valid[order])
    assert degrees(shuffled.quaternions, whole.quaternions[order]).max() < 1e-3
    few = torch.tensor([3, 1999, 700])
    part = local_frames(bumpy, few, method)
    assert degrees(part.quaternions, whole.quaternions[few]).max() < 1e-3
    there = local_frames(bumpy, bumpy[few], method)
    assert torch.equal(part.quaternions, there.quaternions)


def test_frames_are_rotations_on_the_northern_hemisphere(bumpy, method, dtype):
    frames = local_frames(bumpy.to(dtype), method=method)
    assert frames.quaternions.dtype == dtype
    assert torch.allclose(frames.quaternions.norm(dim=-1), torch.ones(2000, dtype=dtype), atol=1e-6)
    assert (frames.quaternions[:, 0] >= 0).all()
    assert frames.valid.double().mean() > 0.95


def test_flare_and_centred_z_point_inwards(bumpy):
    for name in ("flare", "centred"):
        frames = local_frames(bumpy, method=name)
        z = to_matrix(frames.quaternions)[..., 2]
        assert (((bumpy.mean(0) - bumpy) * z).sum(-1)[frames.valid] > 0).all()


def test_centred_frames_agree_with_their_definition(bumpy):
    radii = Radii(0.25, 0.1, 0.2)
    frames = local_frames(bumpy, method="centred", radii=radii)
    normals, _ = fit_normals(bumpy, radius=0.25)
    x, _, z = to_matrix(frames.quaternions).unbind(-1)
    to_centre = bumpy.mean(0) - bumpy
    assert torch.allclose(z[frames.valid], normals[frames.valid], atol=1e-6)
    level = to_centre - (to_centre * normals).sum(-1, keepdim=True) * normals
    assert torch.allclose(x, torch.nn.functional.normalize(level, dim=-1), atol=1e-6)


def test_shot_frames_agree_with_their_definition(bumpy):
    radius, at = 0.3, torch.arange(0, 2000, 50)
    frames = local_frames(bumpy, at, "shot", Radii(0.3, 0.3, radius))
    assert frames.valid.all()
    for place, matrix in zip(bumpy[at], to_matrix(frames.quaternions), strict=True):
        offsets = bumpy - place
        distances = offsets.norm(dim=-1)
        near = (distances > 0) & (distances <= radius)
        weights, offsets = radius - distances[near], offsets[near]
        vectors = torch.linalg.eigh(torch.einsum("k,ki,kj->ij", weights, offsets, offsets)).eigenvectors
        for column, axis in ((0, vectors[:, 2]), (2, vectors[:, 0])):
            votes = (offsets @ axis).sign().sum()
            axis = axis * votes.sign() if votes != 0 else axis * (-place + bumpy.mean(0)).dot(axis).sign()
            # Radii reach a millionth further than asked, which an axis between near-equal values feels.
            assert torch.allclose(matrix[:, column], axis, atol=1e-4)


def grid(n=25):
    """A flat square of points a grid step apart, above a far point that gives the cloud an inside."""
    step = torch.linspace(-0.5, 0.5, n, dtype=torch.float64)
    flat = torch.cartesian_prod(step, step, torch.zeros(1, dtype=torch.float64))
    return torch.cat([flat + 0.01, torch.tensor([[0.03, -0.02, -1.0]], dtype=torch.float64)])


def test_ties_on_a_grid_are_broken_equally_after_rotation(method, dtype):
    points, radii = grid(), Radii(0.125, 0.0834, 0.125)
    before = local_frames(points.to(dtype), method=method, radii=radii)
    for seed in range(5):
        turn, other = turned(points, seed)
        after = local_frames(other.to(dtype), method=method, radii=radii)
        assert torch.equal(before.valid, after.valid)
        error = degrees(multiply(turn.expand(len(points), 4), before.quaternions.double()), after.quaternions)
        assert error[before.valid].max() < 0.5
    assert before.valid.any() or method == "shot", "the square axes of a grid leave SHOT undecided"


def cylinder(around=48, up=33):
    """Points in rings, each with its mirror images, and one ring whose normals meet at the centre."""
    angle = torch.arange(around, dtype=torch.float64) * (2 * torch.pi / around)
    angle, height = torch.cartesian_prod(angle, torch.linspace(-0.5, 0.5, up, dtype=torch.float64)).unbind(-1)
    return torch.stack([angle.cos() / 2, angle.sin() / 2, height], dim=-1)


def cube_grid(n=9):
    return torch.cartesian_prod(*[torch.linspace(-1, 1, n, dtype=torch.float64)] * 3)


def globe():
    """Points of an icosahedron's faces, brought out to the sphere: sixty turns leave it as it is."""
    golden = (1 + 5**0.5) / 2
    third = [(0, a, b * golden) for a in (-1, 1) for b in (-1, 1)]
    corners = torch.tensor([c[i:] + c[:i] for c in third for i in range(3)], dtype=torch.float64)
    near = torch.cdist(corners, corners) < 2.1
    faces = [(a, b, c) for a, b, c in itertools.combinations(range(12), 3) if near[a, b] and near[b, c] and near[a, c]]
    weights = [(i, j, 10 - i - j) for i in range(11) for j in range(11 - i)]
    points = torch.einsum("wk,fkd->fwd", torch.tensor(weights, dtype=torch.float64), corners[torch.tensor(faces)])
    return torch.nn.functional.normalize(points.reshape(-1, 3).round(decimals=9).unique(dim=0), dim=-1)


@pytest.mark.parametrize("symmetric", [cylinder, cube_grid, globe])
def test_ties_of_symmetric_clouds_do_not_depend_on_rotation_or_order(method, dtype, symmetric):
    points = symmetric()
    before = local_frames(points.to(dtype), method=method)
    for seed in range(3):
        turn, other = turned(points, seed)
        order = torch.randperm(len(points), generator=torch.Generator().manual_seed(seed))
        after = local_frames(other[order].to(dtype), order.argsort(), method)
        assert torch.equal(before.valid, after.valid)
        error = degrees(multiply(turn.expand(len(points), 4), before.quaternions.double()), after.quaternions)
        assert (error[before.valid] < (0.01 if dtype == torch.float64 else 0.5)).all()


@pytest.mark.parametrize(
    "points",
    [
        torch.ones(100, 3) * 0.1,
        torch.linspace(-1, 1, 100)[:, None] * torch.tensor([[1.0, 2, 3]]) + 0.3,
        flat(300),
        turned(flat(500), 1)[1],
        turned(flat(3000), 2)[1],
        torch.ones(1, 3),
        torch.eye(3),
        torch.eye(3).repeat(20, 1),
    ],
    ids=[
        "all equal",
        "a line",
        "a plane",
        "a plane turned",
        "a dense plane turned",
        "one point",
        "three points",
        "three points twenty times",
    ],
)
def test_undefined_frames_are_invalid_and_the_identity(points, method, dtype):
    frames = local_frames(points.to(dtype), method=method)
    assert frames.quaternions.isfinite().all()
    assert not frames.valid.any()
    assert torch.equal(frames.quaternions, torch.tensor([1.0, 0, 0, 0], dtype=dtype).expand(len(points), 4))


def test_a_plane_seen_from_a_viewpoint_has_frames(dtype):
    frames = local_frames(flat(2000).to(dtype), sign=torch.tensor([0.5, 0.5, 9]))
    assert frames.valid.double().mean() > 0.9
    z = to_matrix(frames.quaternions.double())[frames.valid][..., 2]
    assert torch.allclose(z, torch.tensor([0.0, 0, 1], dtype=torch.float64).expand_as(z), atol=1e-6)


def test_positions_far_from_the_cloud_are_invalid(bumpy, method):
    frames = local_frames(bumpy, torch.tensor([[50.0, 0, 0], [0.0, 0, 0]], dtype=torch.float64), method)
    assert not frames.valid[0]


def test_repeated_points_keep_frames(bumpy, method):
    wide = Radii(0.3, 0.3, 0.3)
    twice, once = (local_frames(points, method=method, radii=wide) for points in (torch.cat([bumpy, bumpy]), bumpy))
    assert torch.equal(twice.valid[:2000], once.valid)
    assert degrees(twice.quaternions[:2000], once.quaternions)[once.valid].max() < 1e-3


def test_default_radii_are_the_releases_where_dense_and_wider_where_sparse(bumpy):
    dense = torch.nn.functional.normalize(torch.randn(20_000, 3, generator=torch.Generator().manual_seed(0)), dim=-1)
    radii = default_radii(5 * dense)
    for name, value in (("normals", 0.15), ("z_axis", 0.06), ("tangent", 0.12)):
        assert getattr(radii, name) == pytest.approx(5 * value, rel=0.02)
    sparse = default_radii(5 * dense[:1000])
    assert sparse.z_axis > 1.5 * radii.z_axis
    assert sparse.tangent > 1.3 * radii.tangent


def test_stray_point_does_not_change_other_frames(bumpy, method, dtype):
    stray = torch.cat([bumpy, torch.tensor([[50.0, 0, 0]])])
    assert default_radii(stray).tangent == pytest.approx(default_radii(bumpy).tangent, rel=0.05)
    clean, frames = (local_frames(points.to(dtype), method=method) for points in (bumpy, stray))
    kept = clean.valid & frames.valid[:2000]
    assert kept.double().mean() > 0.95
    z = [to_matrix(q.double())[..., 2][kept] for q in (clean.quaternions, frames.quaternions[:2000])]
    assert ((z[0] * z[1]).sum(-1) > 0.95).double().mean() > 0.95
    assert not frames.valid[2000]


def test_many_neighbours_are_processed_in_chunks(bumpy, method, monkeypatch):
    wide = Radii(0.5, 0.5, 0.5)
    whole = local_frames(bumpy, method=method, radii=wide)
    most = []

    def counting(*arguments):
        pairs = pairs_within(*arguments)
        most.append(len(pairs[0]))
        return pairs

    monkeypatch.setattr("qecnet.geometry.frames._PAIRS", 10_000)
    for room in ("_flare", "_shot"):
        monkeypatch.setattr(f"qecnet.geometry.{room}.pairs_within", counting)
    pieces = local_frames(bumpy, method=method, radii=wide)
    assert max(most, default=0) <= 10_000
    assert torch.equal(whole.valid, pieces.valid)
    assert degrees(whole.quaternions, pieces.quaternions).max() < 1e-3


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"method": "gframes"}, 'method is "gframes"'),
        ({"at": torch.tensor([99])}, "outside 0..11"),
        ({"at": torch.zeros(2, 3, dtype=torch.int64)}, r"shape \(2, 3\)"),
        ({"at": torch.full((2, 3), torch.nan)}, "2 of 2 are not finite"),
    ],
)
def test_bad_requests_give_a_one_sentence_error(arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        local_frames(torch.rand(12, 3, generator=torch.Generator().manual_seed(0)), **arguments)


@pytest.mark.parametrize("values", [{"normals": 0.0}, {"tangent": float("nan")}, {"margin": 1.0}])
def test_bad_radii_give_a_one_sentence_error(values):
    with pytest.raises(ValueError, match="is "):
        Radii(**values)
