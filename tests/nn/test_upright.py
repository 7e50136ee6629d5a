"""The network that verifies candidates: what a rotation changes, what an azimuth does not, and what it learns."""

import math
import re
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from qecnet.algebra import angular_distance, from_azimuth, from_rotvec, multiply, random_quaternion, rotate, to_matrix
from qecnet.compiled import use_compiled_operators
from qecnet.geometry import OrientedPoints, propose_poses
from qecnet.nn import Orientations, create_network
from qecnet.nn.azimuth import add_votes, azimuth_loss, azimuth_modes
from qecnet.nn.edge_reader import ReaderSize, pool_edges, see_neighbours
from qecnet.nn.invariant_reader import InvariantReader
from qecnet.nn.projection_reader import ProjectionReaderSize
from qecnet.nn.summary_layer import SUMMARY_SIZE
from qecnet.nn.upright_reader import UprightReader

SMALL = ReaderSize(128, (32, 16), (8, 8, 8, 8), (16, 16, 32, 32, 32, 48))
PROJECTIONS = ProjectionReaderSize(128, 16, (8, 16))


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def make_clouds(count=2, points=160, dtype=torch.float32, seed=0):
    """Clouds on a box without symmetry, with frames and candidates."""
    g = generator(seed)
    size = torch.tensor([0.3, 0.5, 0.8], dtype=dtype)
    positions = torch.rand(count, points, 3, generator=g, dtype=dtype) - 0.5
    side = torch.randint(3, (count, points, 1), generator=g)
    positions = positions.scatter(-1, side, torch.where(positions.gather(-1, side) > 0, 0.5, -0.5).to(dtype)) * size
    positions[..., 0] += 0.2 * positions[..., 2].square()
    positions -= positions.mean(1, keepdim=True)
    positions /= positions.norm(dim=-1).amax(1)[:, None, None]
    normals = torch.zeros_like(positions).scatter(-1, side, 1.0)
    up = torch.zeros_like(normals)
    up[..., 2] = 1
    axis = torch.linalg.cross(up, normals)
    frames = from_rotvec(math.pi / 2 * axis)
    candidates = torch.stack([padded(p, n) for p, n in zip(positions, normals, strict=True)])
    return replace(OrientedPoints.from_frames(positions, frames), candidates=candidates)


def padded(positions, normals):
    found = propose_poses(positions, normals)
    return torch.where(found.valid[:, None], found.poses, 0.0)


def make_network(dtype=torch.float32, **options):
    torch.manual_seed(0)
    return (
        create_network(
            "upright",
            3,
            **{
                "frames": 160,
                "scorer": SMALL,
                "reader": SMALL,
                "invariant": True,
                "invariant_reader": SMALL,
                "projections": True,
                "projection_reader": PROJECTIONS,
                **options,
            },
        )
        .to(dtype)
        .eval()
    )


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-3), (torch.float64, 1e-9)])
def test_rotating_a_cloud_rotates_poses_and_candidates_and_nothing_else(dtype, tolerance):
    network, points = make_network(dtype), make_clouds(dtype=dtype)
    for layer in (network.reader.level_offset, network.reader.height_growth):
        torch.nn.init.normal_(layer.weight)
    q = random_quaternion((2,), generator(), dtype=dtype)
    with torch.inference_mode():
        before, after = network(points), network(points.rotated(q))
    torch.testing.assert_close(after.activations, before.activations, atol=tolerance, rtol=0)
    torch.testing.assert_close(after.descriptor, before.descriptor, atol=tolerance, rtol=0)
    assert angular_distance(after.poses, multiply(q[:, None], before.poses)).max() < tolerance
    likely = before.orientations.probabilities > 0.05
    torch.testing.assert_close(
        after.orientations.probabilities, before.orientations.probabilities, atol=tolerance, rtol=0
    )
    turned = multiply(q[:, None], before.orientations.poses)
    assert likely.any()
    assert angular_distance(after.orientations.poses, turned)[likely].max() < tolerance
    torch.testing.assert_close(after.whole.growth, before.whole.growth, atol=tolerance, rtol=0)
    torch.testing.assert_close(after.whole.offset, rotate(q, before.whole.offset), atol=tolerance, rtol=0)
    assert (before.whole.offset.norm(dim=-1) > 0.01).all()


def test_probabilities_are_sorted_and_add_up_to_one():
    with torch.inference_mode():
        found = make_network()(make_clouds())
    shares = found.orientations.probabilities
    assert (shares[:, :-1] >= shares[:, 1:]).all()
    assert (shares >= 0).all()
    assert (shares.sum(-1) <= 1 + 1e-5).all()
    assert (shares.sum(-1) > 0.9).all()
    torch.testing.assert_close(found.activations.sum(-1), torch.ones(2))


def turned(*, up: float = 0.0, azimuth: float = 0.0) -> Tensor:
    """A pose whose up direction is off by an angle in degrees, rotated about it by another."""
    angles = torch.tensor([[math.radians(up), 0, 0], [0, 0, math.radians(azimuth)]], dtype=torch.float64)
    tilt, turn = from_rotvec(angles)
    return multiply(tilt, turn)


def test_candidates_that_agree_are_one_and_add_their_probabilities():
    poses = torch.stack([turned(azimuth=8), turned(), turned(up=5), turned(azimuth=30), turned(up=20), turned(up=180)])
    probabilities = torch.tensor([0.2, 0.3, 0.1, 0.15, 0.05, 0.2], dtype=torch.float64)
    found = Orientations.best(poses, probabilities, torch.zeros(6, dtype=torch.bool))
    kept = found.probabilities[0] > 0
    torch.testing.assert_close(found.probabilities[0, kept], torch.tensor([0.6, 0.2, 0.15, 0.05]).double())
    assert torch.equal(found.poses[0, kept], poses[[1, 5, 3, 4]])


def test_a_candidate_for_all_azimuths_takes_those_of_its_up_direction():
    poses, probabilities = torch.stack([turned(), turned(azimuth=90), turned(up=90)]), torch.tensor([0.5, 0.3, 0.2])
    found = Orientations.best(poses, probabilities.double(), torch.tensor([True, True, False]))
    torch.testing.assert_close(found.probabilities[0, :3], torch.tensor([0.8, 0.2, 0.0]).double())
    assert found.any_azimuth[0, :2].tolist() == [True, False]


def test_agreeing_with_one_that_has_joined_another_is_not_enough():
    poses, probabilities = torch.stack([turned(up=a) for a in (0, 7, 14)]), torch.tensor([0.5, 0.3, 0.2])
    found = Orientations.best(poses, probabilities.double(), torch.zeros(3, dtype=torch.bool))
    torch.testing.assert_close(found.probabilities[0, :3], torch.tensor([0.8, 0.2, 0.0]).double())


def test_a_cloud_has_the_same_answer_alone_and_in_a_batch():
    network, points = make_network(), make_clouds(count=3)
    with torch.inference_mode():
        together, alone = network(points), network(points.select(slice(1, 2)))
    assert torch.equal(together.activations[1], alone.activations[0])
    assert torch.equal(together.orientations.poses[1], alone.orientations.poses[0])


def test_without_an_invariant_reader_orientations_and_descriptors_stay_without_classes():
    network, points = make_network(invariant=False), make_clouds()
    with torch.inference_mode():
        with_classes, without = network(points), network.without_classes()(points)
    torch.testing.assert_close(without.activations, torch.ones(2, 1))
    assert torch.equal(without.descriptor, with_classes.descriptor)
    assert torch.equal(without.orientations.poses, with_classes.orientations.poses)
    assert torch.equal(without.orientations.probabilities, with_classes.orientations.probabilities)


def test_without_classes_the_invariant_reader_changes_nothing():
    network, points = make_network(), make_clouds()
    other = make_network(invariant=False)
    other.load_state_dict({name: network.state_dict()[name] for name in other.state_dict()})
    with torch.inference_mode():
        found, expected = network.without_classes()(points), other.without_classes()(points)
    assert torch.equal(found.orientations.poses, expected.orientations.poses)
    assert torch.equal(found.orientations.probabilities, expected.orientations.probabilities)
    assert torch.equal(found.descriptor, expected.descriptor)


@pytest.mark.parametrize("merged", [False, True])
def test_the_candidate_from_which_readers_recognise_the_same_class_is_the_first(merged, monkeypatch):
    network, points = make_network(), make_clouds()
    network = network.without_classes() if merged else network
    read, ups = network.read_candidates, []
    for place in (0, -1):

        def agree(*arguments, place=place):
            found = read(*arguments)
            classes = torch.eye(3)[torch.arange(found.classes.shape[-1]) % 3].t().repeat(len(found.classes), 1, 1)
            classes[place] = torch.tensor([1.0, 0, 0])[:, None]
            return found._replace(classes=100 * classes)

        monkeypatch.setattr(network, "read_candidates", agree)
        with torch.inference_mode():
            ups.append(to_matrix(network(points).orientations.poses[:, 0])[..., 2])
    assert ((ups[0] * ups[1]).sum(-1) < 0.9).all()


def test_candidates_below_one_percent_are_not_read(monkeypatch):
    network, points = make_network(), make_clouds()
    network.scorer.upright.weight.data *= 1000
    shares, counts = [], []
    score, read = network.scorer.read_one, network.reader.read_one

    def keep_shares(*arguments):
        found = score(*arguments)
        shares.append(found.upright.softmax(0))
        return found

    def count_poses(positions, normals, poses):
        counts.append(len(poses))
        return read(positions, normals, poses)

    monkeypatch.setattr(network.scorer, "read_one", keep_shares)
    monkeypatch.setattr(network.reader, "read_one", count_poses)
    with torch.inference_mode():
        found = network(points)
        normals = to_matrix(points.frames)[..., 2]
        exported = network._verify_batch(points.positions, normals, points.candidates)
    assert counts == [int((share >= 0.01).sum()) for share in shares]
    assert 1 < max(counts) < network.config.read
    torch.testing.assert_close(exported.activations, found.activations, atol=1e-5, rtol=0)
    assert angular_distance(exported.poses, found.poses).max() < 1e-3


@pytest.mark.parametrize("projections", [False, True])
@pytest.mark.parametrize("invariant", [False, True])
@pytest.mark.parametrize("merged", [False, True])
def test_the_graph_of_a_batch_gives_the_same_classes_and_poses(projections, invariant, merged):
    network, points = make_network(projections=projections, invariant=invariant), make_clouds(count=3)
    network.scorer.upright.weight.data *= 300  # so that not all candidates are read
    network = network.without_classes() if merged else network
    normals = to_matrix(points.frames)[..., 2]
    with torch.inference_mode():
        found = network(points)
        exported = network._verify_batch(points.positions, normals, points.candidates)
    torch.testing.assert_close(exported.activations, found.activations, atol=1e-5, rtol=0)
    torch.testing.assert_close(exported.descriptor, found.descriptor, atol=1e-4, rtol=0)
    assert angular_distance(exported.poses, found.poses).max() < 1e-3


def test_a_known_up_is_the_only_candidate():
    network, points = make_network(), make_clouds()
    up = torch.tensor([0.6, 0.0, 0.8])
    with torch.inference_mode():
        found = network(points, up)
    ups = to_matrix(found.orientations.poses)[..., 2][found.orientations.probabilities > 0]
    assert (ups @ up > 1 - 1e-6).all()
    assert (to_matrix(found.poses)[..., 2] @ up > 1 - 1e-6).all()


def test_points_without_candidates_or_frames_have_an_answer():
    points = make_clouds()
    nothing = replace(points, candidates=torch.zeros(2, 0, 4), valid=torch.zeros_like(points.valid))
    with torch.inference_mode():
        found = make_network()(nothing)
    assert found.activations.isfinite().all()
    assert found.poses.isfinite().all()


def test_class_and_score_are_invariant_to_the_azimuth_of_the_pose():
    torch.manual_seed(0)
    reader = UprightReader(SMALL, 3, 0.0).double().eval()
    points = make_clouds(1, dtype=torch.float64)
    normals = to_matrix(points.frames)[..., 2]
    pose = random_quaternion((1,), generator(), dtype=torch.float64)
    spin = from_rotvec(torch.tensor([[0.0, 0.0, 0.7]], dtype=torch.float64))
    neighbours = reader.find_neighbours(points.positions)
    with torch.inference_mode():
        a = reader(points.positions, normals, pose, neighbours)
        b = reader(points.positions, normals, multiply(pose, spin), neighbours)
    torch.testing.assert_close(a.scores, b.scores)
    torch.testing.assert_close(a.upright, b.upright)
    # The azimuth is relative to the pose, so that it falls by what the pose was turned by.
    before, after = azimuth_modes(a.harmonics)[0][:, 0], azimuth_modes(b.harmonics)[0][:, 0]
    assert abs(math.remainder(float(before - after) - 0.7, 2 * math.pi)) < 1e-6


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-12)])
def test_invariant_reader_is_invariant_to_rotation_but_not_to_reflection(dtype, tolerance):
    torch.manual_seed(0)
    reader = InvariantReader(SMALL, 3, 0.0).to(dtype).eval()
    points = make_clouds(dtype=dtype)
    positions, normals = points.positions, to_matrix(points.frames)[..., 2]
    q = random_quaternion((2, 1), generator(), dtype=dtype)
    mirror = torch.tensor([-1.0, 1.0, 1.0], dtype=dtype)
    with torch.inference_mode():
        found = reader(positions, normals)
        assert (reader(rotate(q, positions), rotate(q, normals)) - found).abs().max() < tolerance
        assert (reader(mirror * positions, mirror * normals) - found).abs().max() > 100 * tolerance


def test_a_point_at_the_centre_and_points_without_normals_are_read():
    points = make_clouds()
    positions = points.positions.clone()
    positions[:, 0] = 0
    with torch.inference_mode():
        found = InvariantReader(SMALL, 3, 0.0).eval()(positions, torch.zeros_like(positions))
    assert found.isfinite().all()


@pytest.mark.parametrize("part", ["reader", "invariant", "projections"])
def test_class_depends_on_each_reader(part):
    network, points = make_network(), make_clouds()
    with torch.no_grad():
        network.get_submodule(part).classes.bias += torch.tensor([0.0, 50.0, 0.0])
        assert (network(points).label == 1).all()


def read_two_azimuths(network, shares, second=1.0):
    """A box from one candidate with two azimuths."""
    points = make_clouds(1)
    facing = from_azimuth(torch.tensor([[0.0, second, 2.0, 3.0]]))
    with torch.inference_mode():
        return facing, network.read_projections(
            points.positions, to_matrix(points.frames)[..., 2], facing, torch.tensor([shares])
        )


def test_projections_decide_between_two_azimuths():
    network = make_network()
    facing, (_, _, poses, shares) = read_two_azimuths(network, [0.5, 0.4, 0.1, 0.0])
    torch.testing.assert_close(shares.sum(-1), torch.ones(1))
    assert shares[0, 0] >= shares[0, 1]
    assert torch.equal(poses[:, 2:], facing[:, 2:])
    assert torch.equal(shares[:, 2:], torch.tensor([[0.1, 0.0]]))
    first = [read_two_azimuths(network, [0.5, 0.5, 0.0, 0.0])[1][2][0, 0]]
    with torch.no_grad():
        network.projections.facing.weight *= -1
    first.append(read_two_azimuths(network, [0.5, 0.5, 0.0, 0.0])[1][2][0, 0])
    assert not torch.equal(*first)
    assert all(any(torch.equal(pose, given) for given in facing[0, :2]) for pose in first)


def test_an_azimuth_of_share_0_changes_nothing():
    network = make_network()
    one, other = (read_two_azimuths(network, [1.0, 0.0, 0.0, 0.0], second)[1] for second in (1.0, 2.5))
    assert all(torch.equal(a, b) for a, b in zip(one[:2], other[:2], strict=True))
    assert torch.equal(one[2][:, 0], other[2][:, 0])
    assert torch.equal(one[3], torch.tensor([[1.0, 0.0, 0.0, 0.0]]))


@pytest.mark.parametrize("head", ["upright", "facing"])
def test_projections_learn_the_up_direction_and_the_azimuth(head):
    """On one shape, which is not symmetric: the right pose gets the higher score than each wrong one."""
    network = make_network(dropout=0.0)
    network.train_only("projections")
    network.train()
    points = make_clouds(12)
    optimizer = torch.optim.Adam([p for p in network.parameters() if p.requires_grad], 1e-2)
    torch.manual_seed(0)
    for _ in range(60):
        optimizer.zero_grad()
        network(points).pose_loss.mean().backward()
        optimizer.step()
    network.eval()
    half = (
        from_rotvec(torch.tensor([[math.pi / 2, 0.0, 0.0]]))
        if head == "upright"
        else from_azimuth(torch.full((1,), math.pi))
    )
    identity = torch.tensor([[1.0, 0.0, 0.0, 0.0]])
    positions, normals = points.positions, to_matrix(points.frames)[..., 2]
    with torch.inference_mode():
        right, wrong = (network.projections(positions, normals, q.expand(12, 4)) for q in (identity, half))
    assert (getattr(right, head) > getattr(wrong, head)).float().mean() > 0.9


def test_projections_are_trained_on_the_scorers_worst_mistake(monkeypatch):
    """With a scorer that prefers up directions near the x axis."""
    network, points = make_network(wrong=23), make_clouds(12)
    network.train_only("projections")
    network.train()

    def height_along_x(positions, normals, poses):
        assert not network.scorer.training
        return SimpleNamespace(upright=to_matrix(poses.flatten(0, 1))[:, 0, 2])

    read = []
    monkeypatch.setattr(network.scorer, "read_each", height_along_x)
    network.projections.register_forward_pre_hook(lambda _, given: read.append(given[2]))
    torch.manual_seed(0)
    network(points)
    up = to_matrix(read[0])[12:, :, 2]
    tilted = up[up[:, 2] < math.cos(math.radians(15))]
    assert len(tilted) > 1
    # The same box for all clouds, but not each candidate is drawn.
    assert (tilted[:, 0] > 0.95).float().mean() > 0.7
    assert network.scorer.training


def test_training_projections_works_in_float64():
    network = make_network(torch.float64)
    network.train_only("projections")
    network.train()
    found = network(make_clouds(6, dtype=torch.float64))
    assert found.pose_loss.dtype == found.activations.dtype == torch.float64


def test_mixed_precision_does_not_change_answers():
    network, points = make_network(), make_clouds()
    with torch.inference_mode():
        before = network(points).activations
        network.use_mixed_precision()
        assert torch.equal(network(points).activations, before)


def test_orientation_depends_on_projections():
    network, points = make_network(), make_clouds()
    with torch.inference_mode():
        before = network(points).orientations.probabilities
        network.projections.upright.weight *= 1000
        after = network(points).orientations.probabilities
    assert (after - before).abs().max() > 0.01


@pytest.mark.parametrize("part", ["invariant", "projections"])
def test_training_only_one_reader_leaves_the_others_as_they_are(part):
    network = make_network(dropout=0.0)
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    network.train_only(part)
    network.train()
    points = make_clouds(8)
    labels = torch.arange(8) % 3
    optimizer = torch.optim.Adam([p for p in network.parameters() if p.requires_grad], 1e-2)
    losses = []
    for _ in range(20):
        found = network(points)
        loss = -found.activations[torch.arange(8), labels].log().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        assert bool(found.pose_loss.any()) == (part == "projections")
    assert losses[-1] < 0.7 * losses[0]
    after = network.state_dict()
    assert all(torch.equal(after[name], before[name]) for name in before if not name.startswith(f"{part}."))


def test_edges_are_invariant_to_azimuth_but_not_to_up():
    points = make_clouds(1, dtype=torch.float64)
    normals = to_matrix(points.frames)[..., 2]
    neighbours = torch.randint(160, (1, 10, 4), generator=generator())
    up = torch.tensor([[[0.0, 0.6, 0.8]]], dtype=torch.float64)
    turn = from_rotvec(1.1 * up)[:, 0]
    seen = see_neighbours(up, points.positions, normals, neighbours, 0.3)
    same = see_neighbours(up, rotate(turn, points.positions), rotate(turn, normals), neighbours, 0.3)
    torch.testing.assert_close(seen, same)
    assert (see_neighbours(-up, points.positions, normals, neighbours, 0.3) - seen).abs().max() > 0.1


def test_reading_one_cloud_from_many_ups_equals_reading_copies():
    points = make_clouds(1)
    normals = to_matrix(points.frames)[..., 2]
    neighbours = torch.randint(160, (1, 12, 8), generator=generator())
    up = torch.nn.functional.normalize(torch.randn(5, 1, 3, generator=generator()), dim=-1)
    features, weight = torch.randn(5, 160, 16, generator=generator()), torch.randn(16, 14, generator=generator())
    shared = pool_edges(up, points.positions, normals, neighbours, features, weight, 0.3)
    positions, normals, neighbours = (x.expand(5, -1, -1) for x in (points.positions, normals, neighbours))
    copied = pool_edges(up, positions, normals, neighbours, features, weight, 0.3)
    torch.testing.assert_close(shared, copied, atol=1e-5, rtol=1e-5)


@pytest.fixture
def fused():
    assert use_compiled_operators()
    yield
    use_compiled_operators()


@pytest.mark.parametrize("ups", [1, 12], ids=["one for the cloud", "one for each centre"])
def test_compiled_edges_and_their_gradients_are_those_of_pytorch(fused, ups):
    points = make_clouds(3)
    normals = to_matrix(points.frames)[..., 2]
    neighbours = torch.randint(160, (3, 12, 8), generator=generator())
    up = torch.nn.functional.normalize(torch.randn(3, ups, 3, generator=generator()), dim=-1)
    results = []
    for on in (True, False):
        use_compiled_operators(on)
        features = torch.randn(3, 160, 16, generator=generator(1)).requires_grad_()
        weight = torch.randn(16, 14, generator=generator(2)).requires_grad_()
        pooled = pool_edges(up, points.positions, normals, neighbours, features, weight, 0.3)
        pooled.square().sum().backward()
        results.append((pooled.detach(), features.grad, weight.grad))
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a, b, atol=1e-4, rtol=1e-4)


def test_compiled_neighbours_are_those_of_pytorch_also_where_points_coincide(fused):
    points = torch.randn(2, 100, 3, generator=generator())
    points[:, 50:] = points[:, :50]
    reader = UprightReader(ReaderSize(100, (20, 10), (8, 8, 8, 8), SMALL.widths), 2, 0.0)
    found = reader.find_neighbours(points)
    use_compiled_operators(False)
    for compiled, plain, below in zip(found, reader.find_neighbours(points), (100, 20, 20, 10), strict=True):
        here = points[:, : compiled.shape[1], None]
        far = [
            (
                points[:, :below]
                .unsqueeze(1)
                .expand(-1, len(here[0]), -1, -1)
                .gather(2, i[..., None].expand(-1, -1, -1, 3))
                - here
            )
            .norm(dim=-1)
            .sort(-1)
            .values
            for i in (compiled, plain)
        ]
        torch.testing.assert_close(*far)


@pytest.mark.parametrize("order", [1, 2, 4])
def test_votes_for_a_harmonic_have_that_many_modes(order):
    angle = 0.3
    harmonics = torch.zeros(1, 3, 2, dtype=torch.float64)
    harmonics[0, {1: 0, 2: 1, 4: 2}[order]] = 6 * torch.tensor(
        [math.cos(order * angle), math.sin(order * angle)], dtype=torch.float64
    )
    angles, shares = azimuth_modes(harmonics)
    found = sorted(
        math.remainder(float(a), 2 * math.pi / order) for a, s in zip(angles[0], shares[0], strict=True) if s > 0
    )
    assert len(found) == order
    assert all(abs(a - angle) < 1e-9 for a in found)
    torch.testing.assert_close(shares.sum(), torch.tensor(1.0, dtype=torch.float64))


def test_a_flat_density_has_one_mode_at_the_pose_itself_and_no_loss():
    angles, shares = azimuth_modes(torch.zeros(1, 3, 2))
    assert angles[0, 0] == 0
    assert shares[0].tolist() == pytest.approx([1, 0, 0, 0], abs=1e-5)
    assert azimuth_loss(torch.zeros(2, 3, 2), torch.tensor([0.1, 2.0])).abs().max() < 1e-6


def test_the_loss_is_lowest_at_the_angle_that_was_voted_for():
    arrows = torch.tensor([[math.cos(0.5), math.sin(0.5)]]).expand(1, 7, 1, 2)
    weights = torch.zeros(1, 7, 3, 1, 2)
    weights[..., 0] = 1.0
    harmonics = add_votes(weights, arrows)
    tried = torch.linspace(0, 2 * math.pi, 100)
    best = tried[azimuth_loss(harmonics.expand(100, 3, 2), tried).argmin()]
    assert abs(best - 0.5) < 0.05


def test_training_ranks_the_upright_candidate_first():
    network = make_network(dropout=0.0).train()
    points = make_clouds(8)
    optimizer = torch.optim.Adam(network.parameters(), 3e-3)
    losses = []
    for _ in range(12):
        found = network(points)
        loss = found.pose_loss.mean() + 0 * (found.whole.offset.sum() + found.whole.growth.sum())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert sum(losses[-3:]) < 0.6 * sum(losses[:3])
    assert all(
        p.grad is not None for name, p in network.named_parameters() if not re.search("classes|^invariant", name)
    )


def test_training_finds_the_centre_and_size_of_the_whole_from_a_part():
    """Clouds that are cut at a height that their top or bottom tells: what is missing is above or below."""
    whole = make_clouds(16)
    top = torch.arange(16)[:, None] % 2 == 0
    kept = (whole.positions[..., 2] > 0) == top
    centre = (whole.positions * kept[..., None]).sum(1) / kept.sum(1)[:, None]
    points = replace(whole, positions=whole.positions - centre[:, None], valid=kept)
    network = make_network(dropout=0.0).train()
    optimizer = torch.optim.Adam(network.parameters(), 1e-2)
    for _ in range(30):
        found = network(points).whole
        loss = (found.offset + centre).norm(dim=-1).mean() + (found.growth - 0.3).abs().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss < 0.5 * centre.norm(dim=-1).mean()


@pytest.mark.parametrize(
    "bad",
    [{"read": 0}, {"wrong": 24}, {"dropout": 1.0}, {"projection_blocks": 0}],
)
def test_bad_configuration_gives_a_one_sentence_error(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        create_network("upright", 3, **bad)


def test_empty_batch_gives_an_empty_prediction():
    with torch.inference_mode():
        found = make_network()(make_clouds().select(slice(0, 0)))
    assert found.activations.shape == (0, 3)
    assert found.poses.shape == (0, 3, 4)


def test_training_without_candidates_gives_a_one_sentence_error():
    points = make_clouds()
    with pytest.raises(ValueError, match="no candidates"):
        make_network().train()(replace(points, candidates=torch.zeros(2, 0, 4)))


@pytest.mark.parametrize("sizes", [{"centres": (5000, 64)}, {"neighbours": (300, 8, 8, 8)}, {"widths": (0,) * 6}])
def test_sizes_that_would_take_all_memory_are_refused(sizes):
    with pytest.raises(ValueError, match=next(iter(sizes))):
        ReaderSize(20_000, **sizes)


def test_a_reader_of_more_centres_than_points_is_refused():
    with pytest.raises(ValueError, match="centres"):
        ReaderSize(100, (200, 10))


def trained(clouds, dtype=torch.float64, **options):
    """A network with all readers, whose normalisation has seen clouds."""
    network = make_network(dtype, invariant=True, projections=True, **options).train()
    for layer in network.modules():
        if isinstance(layer, torch.nn.BatchNorm1d):
            torch.nn.init.uniform_(layer.weight, 0.5, 1.5)
    with torch.no_grad():
        for _ in range(20):
            network(clouds)
    return network.eval()


def test_a_reduction_to_full_rank_changes_nothing():
    clouds = make_clouds(6, dtype=torch.float64)
    network = trained(clouds)
    reduced = network.reduced([clouds], SUMMARY_SIZE)
    before, after = network(clouds), reduced(clouds)
    assert torch.allclose(before.activations, after.activations, atol=1e-9)
    assert torch.allclose(before.descriptor, after.descriptor, atol=1e-9)
    assert torch.allclose(before.poses, after.poses, atol=1e-9)


def test_a_reduction_keeps_what_varies_most():
    """Six clouds with two candidates have at most 24 summaries of a reader: that rank holds all of them."""
    clouds = make_clouds(6, dtype=torch.float64)
    clouds = replace(clouds, candidates=clouds.candidates[:, :2])
    network = trained(clouds)
    before = network(clouds)
    errors = [(network.reduced([clouds], rank)(clouds).descriptor - before.descriptor).norm() for rank in (1, 4, 24)]
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 1e-6 * before.descriptor.norm()


def test_a_reduced_network_is_smaller_and_equivariant():
    clouds = make_clouds(4, dtype=torch.float64)
    network = trained(clouds).reduced([clouds], 3)
    assert network.config.summary_rank == 3
    assert network.scorer.summary[0].weight.shape == (3, 2 * SMALL.widths[-1])
    q = random_quaternion((len(clouds.positions),), generator(5)).double()
    before, after = network(clouds), network(clouds.rotated(q))
    assert torch.allclose(before.activations, after.activations, atol=1e-9)
    turned = multiply(q[:, None], before.poses)
    assert angular_distance(turned, after.poses).max() < 1e-6


def test_a_reduction_needs_clouds():
    with pytest.raises(ValueError, match="there are no clouds to measure the summaries of"):
        trained(make_clouds(2, dtype=torch.float64)).reduced([], 8)


@pytest.mark.parametrize("rank", [-1, SUMMARY_SIZE + 1])
def test_a_rank_out_of_range_is_refused(rank):
    with pytest.raises(ValueError, match=f"summary_rank is {rank}; it must be from 0 to 256"):
        make_network(summary_rank=rank)
