"""Candidate orientations in answers: of the model that verifies them, and of those that decide on one."""

import copy
import math
from dataclasses import replace

import pytest
import torch

import qecnet
from qecnet.algebra import angular_distance, multiply, random_quaternion, rotate, to_matrix
from qecnet.datasets import make_furniture
from qecnet.datasets._solids import box, join, lathe
from qecnet.geometry import Mesh, sample_points
from qecnet.models import Answer, Candidate, hash_model
from qecnet.models.alignment import likely_rotations, relative_pose
from qecnet.nn import UprightNet

UP = torch.tensor([0.0, 0.0, 1.0], dtype=torch.float64)


@pytest.fixture(scope="module")
def chairs():
    dataset = make_furniture(per_class=10)
    label = dataset.classes.index("chair")
    generator = torch.Generator().manual_seed(0)
    return [
        sample_points(item.load(), 4000, generator).points.double()
        for item in dataset.items("test")
        if item.label == label
    ]


def degrees(a, b):
    return math.degrees(math.acos(float((a @ b).clamp(-1, 1))))


def make_answer(*verified):
    poses = torch.eye(4, dtype=torch.float64)[:1]
    return Answer("x", ("thing",), torch.ones(1), poses, torch.ones(1), torch.zeros(3), 1.0, 1.0, tuple(verified))


def test_upright_finds_the_up_of_chairs_in_any_pose(chairs):
    model = qecnet.load("upright")
    generator = torch.Generator().manual_seed(1)
    for points in chairs:
        q = random_quaternion((), generator, dtype=torch.float64)
        answer = model.predict(rotate(q, points))
        assert degrees(answer.up, rotate(q, UP)) < 10
        assert answer.up_confidence > 0.5
        shares = [candidate.probability for candidate in answer.candidates]
        assert shares == sorted(shares, reverse=True)
        assert 0.99 < sum(shares) < 1 + 1e-6
        assert torch.equal(answer.up, to_matrix(answer.pose)[:, 2])


def test_candidates_rotate_with_the_shape(chairs):
    model = qecnet.load("upright")
    q = random_quaternion((), torch.Generator().manual_seed(2), dtype=torch.float64)
    before, after = model.predict(chairs[0]), model.predict(rotate(q, chairs[0]))
    first, second = before.candidates[0], after.candidates[0]
    assert math.degrees(angular_distance(multiply(q, first.pose), second.pose)) < 1
    assert second.probability == pytest.approx(first.probability, abs=0.02)


def test_a_known_up_is_kept(chairs):
    answer = qecnet.load("upright").predict(chairs[0], up=(0, 1, 0))
    assert degrees(answer.up, torch.tensor([0.0, 1.0, 0.0], dtype=torch.float64)) < 0.01


def test_likely_candidates_are_the_fewest_with_that_share():
    a, b, c = (Candidate(torch.eye(4, dtype=torch.float64)[n], p) for n, p in ((0, 0.6), (1, 0.25), (2, 0.1)))
    answer = make_answer(a, b, c)
    assert answer.likely_candidates(0.5) == (a,)
    assert answer.likely_candidates(0.8) == (a, b)
    assert answer.likely_candidates(1.0) == (a, b, c)
    assert answer.likely_candidates(0.0) == (a,)


@pytest.mark.parametrize("share", [-0.1, 1.1, math.nan])
def test_a_share_is_between_0_and_1(share):
    with pytest.raises(ValueError, match="it must be from 0 to 1"):
        make_answer().likely_candidates(share)


def test_the_confidence_of_a_model_without_classes_is_that_of_the_up_direction():
    pose, flipped = torch.eye(4, dtype=torch.float64)[:2]
    answer = make_answer(Candidate(pose, 0.4), Candidate(flipped, 0.35), Candidate(pose, 0.25))
    assert answer.confidence == answer.up_confidence == pytest.approx(0.65)
    assert "confidence 0.65" in repr(answer)
    assert replace(answer, classes=("chair", "bed"), activations=torch.tensor([0.2, 0.8])).confidence == pytest.approx(
        0.8
    )


def test_the_confidence_of_an_up_is_that_of_all_candidates_with_it():
    about_z, about_x = (torch.eye(4, dtype=torch.float64)[n] for n in (3, 1))
    same, other = Candidate(about_z, 0.3), Candidate(about_x, 0.2)
    answer = make_answer(Candidate(torch.eye(4, dtype=torch.float64)[0], 0.5), same, other)
    assert answer.up_confidence == pytest.approx(0.8)


def test_up_directions_add_the_probabilities_of_their_candidates():
    half = math.radians(90) / 2
    lying = [turn(math.cos(half), math.sin(half), 0, 0), turn(0, 0, -math.sin(half), math.cos(half))]
    tilted = math.radians(9) / 2
    candidates = [
        Candidate(turn(1, 0, 0, 0), 0.3),
        Candidate(turn(0, 1, 0, 0), 0.25),  # upside down
        Candidate(lying[0], 0.2),
        Candidate(lying[1], 0.15),  # the same direction, and facing another way
        Candidate(turn(math.cos(tilted), 0, math.sin(tilted), 0), 0.1),
    ]
    for q in (turn(1, 0, 0, 0), random_quaternion((), 5, dtype=torch.float64)):
        rotated = [one._replace(pose=multiply(q, one.pose)) for one in candidates]
        answer = replace(make_answer(*rotated), poses=q[None])
        assert [one.probability for one in answer.ups] == pytest.approx([0.4, 0.35, 0.25])
        for found, expected in zip(answer.ups, [(0, 0, 1), (0, -1, 0), (0, 0, -1)], strict=True):
            assert degrees(found.direction, rotate(q, torch.tensor(expected, dtype=torch.float64))) < 1e-4
        less_likely = replace(answer, poses=multiply(q, lying[0])[None])
        assert [one.probability for one in less_likely.ups] == pytest.approx([0.35, 0.4, 0.25])
        assert degrees(less_likely.ups[0].direction, less_likely.up) < 1e-4


def turn(*wxyz):
    return torch.tensor(wxyz, dtype=torch.float64)


def test_a_model_that_compares_none_shares_its_confidence_among_equivalents(chairs):
    answer = qecnet.load("modelnet10-features").predict(chairs[0])
    assert answer.verified == ()
    assert len(answer.candidates) == len(answer.equivalents)
    assert sum(candidate.probability for candidate in answer.candidates) == pytest.approx(answer.confidence)
    assert answer.up_confidence == answer.confidence
    assert len(answer.ups) == 1
    assert torch.equal(answer.ups[0].direction, answer.up)


def turned(*degrees_and_shares, any_azimuth=False):
    """Candidates that are rotations about z."""
    half = [math.radians(angle) / 2 for angle, _ in degrees_and_shares]
    poses = torch.tensor([[math.cos(h), 0, 0, math.sin(h)] for h in half], dtype=torch.float64)
    shares = [share for _, share in degrees_and_shares]
    return [Candidate(pose, share, any_azimuth) for pose, share in zip(poses, shares, strict=True)]


@pytest.mark.parametrize(
    ("candidates", "symmetry"),
    [
        (turned((0, 1.0)), 1),
        (turned((0, 0.97), (90, 0.01), (180, 0.01), (270, 0.01)), 1),
        (turned((0, 0.5), (90, 0.5)), 1),  # no rotation has that order
        (turned((0, 0.6), (180, 0.4)), 2),
        (turned((0, 0.5), (2, 0.1), (181, 0.4)), 2),
        (turned((0, 0.45), (180, 0.45), (90, 0.05), (270, 0.05)), 2),
        (turned((0, 0.3), (90, 0.25), (180, 0.25), (270, 0.2)), 4),
        (turned((0, 0.9), (120, 0.1), any_azimuth=True), "any"),
    ],
)
def test_symmetry_follows_from_equally_likely_candidates(candidates, symmetry):
    on_its_side = Candidate(torch.tensor([1.0, 1, 0, 0], dtype=torch.float64) / math.sqrt(2), 0.9, any_azimuth=True)
    for q in (torch.eye(4, dtype=torch.float64)[0], random_quaternion((), 5, dtype=torch.float64)):
        rotated = [one._replace(pose=multiply(q, one.pose)) for one in candidates]
        answer = replace(make_answer(*rotated), poses=q[None])
        assert answer.symmetry == symmetry
        count = 1 if symmetry == "any" else symmetry
        turns = torch.arange(count) * 2 * math.pi / count
        assert torch.allclose(
            angular_distance(q, answer.equivalents), torch.minimum(turns, 2 * math.pi - turns).double()
        )
        assert torch.allclose(to_matrix(answer.equivalents)[..., 2], to_matrix(q)[..., 2].expand(count, 3))
        other_way_up = on_its_side._replace(pose=multiply(q, on_its_side.pose))
        assert replace(answer, verified=(other_way_up, *rotated)).symmetry == symmetry


def test_the_symmetry_of_tables_and_chairs_in_any_pose(chairs):
    model = qecnet.load("upright")
    for shape, expected in (
        (make_table("square"), 4),
        (make_table("oblong"), 2),
        (make_table("round"), "any"),
        (chairs[0], 1),
    ):
        for q in (torch.eye(4, dtype=torch.float64)[0], random_quaternion((), 5, dtype=torch.float64)):
            assert model.predict(rotate(q, shape)).symmetry == expected


def make_table(kind):
    """Points on a table, (N, 3): a top with a leg at each corner, or a round one with one leg and a round foot."""
    deep = {"square": 0.5, "oblong": 0.25, "round": 0}[kind]
    if kind == "round":
        parts = [lathe(((0, z), (r, z), (r, z + h), (0, z + h))) for r, z, h in ((0.6, 0.5, 0.05), (0.06, 0, 0.5))]
        parts.append(lathe(((0, 0), (0.3, 0), (0.3, 0.04), (0, 0.04))))
    else:
        corners = [(x, y) for x in (-0.47, 0.47) for y in (0.03 - deep, deep - 0.03)]
        parts = [box((x - 0.03, x + 0.03), (y - 0.03, y + 0.03), (0, 0.5)) for x, y in corners]
        parts.append(box((-0.5, 0.5), (-deep, deep), (0.5, 0.55)))
    vertices, faces = join(parts)
    mesh = Mesh(torch.from_numpy(vertices).double(), torch.from_numpy(faces))
    return mesh.sample(10_000, torch.Generator().manual_seed(0)).points


def test_likely_rotations_start_with_the_relative_pose_and_differ():
    around = turned((0, 0.5), (180, 0.3), (5, 0.1), (90, 0.1))
    q = random_quaternion((), 5, dtype=torch.float64)
    source = make_answer(*around)
    target = replace(make_answer(Candidate(q, 1.0)), poses=q[None])
    found = likely_rotations(source, target)
    assert torch.equal(found[0], relative_pose(source, target))
    assert [round(math.degrees(angular_distance(one, q))) for one in found] == [0, 180, 90]  # 5° is no other start


def test_a_flat_sheet_has_an_answer():
    corners = torch.tensor([[0, 0, 0], [1, 0, 0], [0.3, 0.6, 0]], dtype=torch.float64)
    sheet = Mesh(corners, torch.tensor([[0, 1, 2]]))
    answer = qecnet.load("upright").predict(sheet)
    assert answer.pose.isfinite().all()
    assert answer.candidates


def test_centre_and_radius_follow_the_network_in_any_pose_position_and_unit(chairs):
    model = copy.deepcopy(qecnet.load("upright"))
    parameters = dict(model.network.named_parameters())
    with torch.no_grad():
        for name in ("reader.level_offset.weight", "reader.height_growth.weight"):
            parameters[name].normal_(0, 0.05, generator=torch.Generator().manual_seed(0))
    points = chairs[0]
    here = model.predict(points)
    assert 0.01 < (here.centre - points.mean(0)).norm() < 10
    q = random_quaternion((), torch.Generator().manual_seed(2), dtype=torch.float64)
    moved = model.predict(50 * rotate(q, points) + 700)
    assert (moved.centre - (50 * rotate(q, here.centre) + 700)).norm() < 0.02 * moved.radius
    assert moved.radius == pytest.approx(50 * here.radius, rel=0.02)
    with torch.no_grad():
        parameters["reader.height_growth.bias"].fill_(math.nan)
    with pytest.raises(ValueError, match="not finite"):
        model.predict(points)


def test_fast_model_reads_less_and_has_another_hash(chairs):
    model, fast = qecnet.load("upright"), qecnet.load("upright", fast=True)
    assert isinstance(fast.network, UprightNet)
    assert (fast.config.points, fast.config.frames, fast.network.config.read) == (4096, 512, 1)
    assert hash_model(fast) != hash_model(model)
    up = to_matrix(model.predict(chairs[0]).pose)[:, 2]
    assert to_matrix(fast.predict(chairs[0]).pose)[:, 2] @ up > 0.99
