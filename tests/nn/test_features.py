"""The network whose capsules carry features: its equivariance, what is masked, and clouds that are hardly there."""

from dataclasses import replace

import pytest
import torch
from tests.nn.clouds import random_points

from qecnet.algebra import angular_distance, checking, multiply, random_quaternion, rotate
from qecnet.geometry import OrientedPoints
from qecnet.nn import (
    Ballot,
    FeatureConfig,
    FeatureNet,
    Neighbourhood,
    cross_entropy,
    load_network,
    save_network,
    upright_distance,
)
from qecnet.nn.features import _turns
from qecnet.testing import Kind, assert_equivariant, equivariance_error

SMALL = FeatureConfig(
    classes=3,
    frames=30,
    neighbourhoods=(Neighbourhood(12, 5, 8, 16, 0.5), Neighbourhood(6, 4, 16, 16, 1.0)),
    whole=(16, 24),
    summary=20,
)
KINDS: tuple[Kind, ...] = ("points", "poses", "scalars")


def trained(config, dtype):
    """A network in evaluation mode whose normalisation has seen some clouds, as after a long training."""
    torch.manual_seed(0)
    network = FeatureNet(config).to(dtype)
    for module in network.modules():
        if isinstance(module, torch.nn.BatchNorm1d):
            module.momentum = 1.0
    with torch.no_grad():
        network(cloud(dtype, clouds=4, points=config.frames, seed=9))
    return network.eval()


def cloud(dtype, clouds=3, points=30, seed=0, missing=0.1):
    return random_points(clouds, points, dtype, seed, missing)


def inputs_of(points):
    return points.positions, points.frames, points.valid.to(points.positions)


def as_function(network):
    """Poses, activations and every look's scores from positions, frames and validity; centred again."""

    def function(positions, frames, valid):
        centred = positions - positions.mean(-2, keepdim=True)
        prediction = network(OrientedPoints.from_frames(centred, frames, valid > 0))
        return prediction.poses, prediction.activations, torch.stack([b.scores for b in prediction.ballots])

    return function


def objective(prediction, label=0):
    """Something that hangs on all that a prediction says."""
    labels = torch.full((len(prediction.activations),), label)
    total = torch.zeros((), dtype=prediction.activations.dtype)
    for ballot in prediction.ballots:
        one = torch.ones(ballot.trust.shape, dtype=torch.long)
        off = upright_distance(ballot.poses, one[..., 0]).mean()
        total = total + off + (ballot.trust * upright_distance(ballot.votes, one)).mean()
        total = total + cross_entropy(ballot.scores.softmax(-1), labels)
    return total


@pytest.mark.parametrize(
    ("looks", "upside_down", "weighting"),
    [(1, False, "sigmoid"), (2, False, "sigmoid"), (2, True, "sigmoid"), (2, False, "linear"), (2, True, "lq")],
)
def test_poses_rotate_and_activations_and_scores_do_not(looks, upside_down, weighting, dtype):
    network = trained(replace(SMALL, looks=looks, upside_down=upside_down, weighting=weighting), dtype)
    function, inputs = as_function(network), inputs_of(cloud(dtype))
    assert_equivariant(function, inputs, KINDS, ("poses", "fixed", "fixed"), under=("rotation", "translation"))
    tolerance = 1e-5 if dtype == torch.float32 else 1e-9
    for action in ("rotation", "translation"):
        assert equivariance_error(lambda *x: function(*x)[1], inputs, KINDS, "fixed", action, trials=4) <= tolerance


@pytest.mark.parametrize("looks", [1, 2])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_full_network_is_equivariant(looks, seed, dtype):
    """In float32 the bound of 1e-4 rad holds for most class poses here, not for all: the frames are random, and a mean
    of votes that hardly agree amplifies rounding.
    """
    network = trained(FeatureConfig(classes=10, looks=looks), dtype)
    capsules, turn = cloud(dtype, 2, 512, seed), random_quaternion((2,), seed, dtype=dtype)
    with torch.inference_mode():
        before, after = network(capsules), network(capsules.rotated(turn))
    tight = 1e-5 if dtype == torch.float32 else 1e-9
    assert (before.activations - after.activations).abs().max() <= tight
    error = angular_distance(multiply(turn[:, None], before.poses), after.poses).flatten()
    if dtype == torch.float64:
        assert error.max() <= 1e-9
    else:
        assert error.median() <= 1e-4
        assert error.max() <= 1e-3


def test_checker_detects_missing_equivariance(dtype):
    """Points that turn without their frames are another cloud."""
    function = as_function(trained(SMALL, dtype))
    with pytest.raises(AssertionError, match="not equivariant under rotation"):
        assert_equivariant(
            function, inputs_of(cloud(dtype)), ("points", "fixed", "scalars"), ("poses", "fixed", "fixed"), "rotation"
        )


def test_prediction_is_invariant_to_the_order_of_points_after_the_centres(dtype):
    """The first points are the centres: another order of these is another network's input."""
    function, (points, frames, valid) = as_function(trained(SMALL, dtype)), inputs_of(cloud(dtype, missing=0))
    poses, activations, _ = function(points, frames, valid)
    order = torch.cat((torch.arange(12), torch.arange(12, 30).flip(0)))
    found = function(points[:, order], frames[:, order], valid)
    assert angular_distance(found[0], poses).max() <= (1e-4 if dtype == torch.float32 else 1e-9)
    torch.testing.assert_close(found[1], activations, atol=1e-5 if dtype == torch.float32 else 1e-9, rtol=0)
    other = function(points.flip(1), frames.flip(1), valid)
    assert (other[1] - activations).abs().max() > 1e-4


@pytest.mark.parametrize("training", [False, True])
def test_masked_points_may_have_any_value(training, dtype):
    network, capsules = trained(SMALL, dtype).train(training), cloud(dtype, missing=0.5)
    invalid = ~capsules.valid

    def run(positions, frames):
        torch.manual_seed(0)  # for dropout
        network.zero_grad()
        with checking():
            prediction = network(OrientedPoints.from_frames(positions, frames, capsules.valid))
        objective(prediction).backward()
        return prediction.poses, prediction.activations, *(p.grad.clone() for p in network.parameters())

    plain = run(capsules.positions, capsules.frames)
    for junk in (float("nan"), float("inf"), 0.0):
        positions, frames = capsules.positions.clone(), capsules.frames.clone()
        positions[invalid], frames[invalid] = junk, junk
        assert all(torch.equal(a, b) for a, b in zip(run(positions, frames), plain, strict=True))


CASES = (
    "no valid frame",
    "one valid frame",
    "fewer valid frames than centres",
    "fewer points than neighbours",
    "1 point",
    "all points equal",
    "all points at the centre",
    "in a plane",
    "on a line",
    "all frames equal",
    "opposite frames",
    "huge",
    "tiny",
)


def degenerate(case, dtype):
    capsules = cloud(dtype, missing=0)
    positions, poses, valid = capsules.positions, capsules.frames, capsules.valid
    if case == "no valid frame":
        valid[:] = False
    if case == "one valid frame":
        valid[:, :7], valid[:, 8:] = False, False
    if case == "fewer valid frames than centres":
        valid[:, ::2], valid[:, 9:] = False, False
    if case == "all points equal":
        positions[:] = positions[:, :1]
    if case == "all points at the centre":
        positions[:] = 0
    if case == "in a plane":
        positions[..., 2] = 0
    if case == "on a line":
        positions[..., 1:] = 0
    if case == "all frames equal":
        poses[:] = poses[:, :1]
    if case == "opposite frames":
        poses[:, ::2], poses[:, 1::2] = torch.eye(4, dtype=dtype)[0], torch.eye(4, dtype=dtype)[3]
    if case in ("huge", "tiny"):
        positions *= {"huge": 1e12, "tiny": 1e-30}[case]
    count = {"fewer points than neighbours": 3, "1 point": 1}.get(case, 30)
    return OrientedPoints.from_frames(positions[:, :count], poses[:, :count], valid[:, :count])


@pytest.mark.parametrize("case", CASES)
def test_degenerate_clouds_have_poses_and_finite_gradients(case, dtype):
    network, capsules = trained(replace(SMALL, gradients="all"), dtype), degenerate(case, dtype)
    for training in (False, True):
        network.train(training).zero_grad()
        with checking():
            prediction = network(capsules)
        torch.testing.assert_close(prediction.poses.norm(dim=-1), torch.ones(3, 3, dtype=dtype))
        torch.testing.assert_close(prediction.activations.sum(-1), torch.ones(3, dtype=dtype))
        objective(prediction).backward()
        assert all(p.grad.isfinite().all() for p in network.parameters())


@pytest.mark.parametrize("there", [0, 1, 2])
def test_nearly_empty_cloud_does_not_affect_others_in_the_batch(there, dtype):
    network, capsules = trained(SMALL, dtype), cloud(dtype)
    alone = network(capsules)
    capsules.valid[0] = False
    capsules.valid[0, 5 : 5 + there] = True
    found = network(capsules)
    assert found.poses.isfinite().all()
    assert torch.equal(found.poses[1:], alone.poses[1:])
    assert torch.equal(found.activations[1:], alone.activations[1:])


def test_batch_of_one_equals_a_row_of_a_batch(dtype):
    network, capsules = trained(SMALL, dtype), cloud(dtype, missing=0.3)
    batch = network(capsules)
    for row in range(3):
        single = network(capsules.select(slice(row, row + 1)))
        assert angular_distance(single.poses[0], batch.poses[row]).max() <= (1e-4 if dtype == torch.float32 else 1e-9)
        torch.testing.assert_close(single.activations[0], batch.activations[row], atol=1e-5, rtol=0)


def test_an_empty_batch_gives_an_empty_prediction(dtype):
    prediction = trained(SMALL, dtype)(cloud(dtype).select(slice(0)))
    assert prediction.activations.shape == (0, 3)
    assert prediction.poses.shape == (0, 3, 4)
    assert prediction.label.shape == (0,)


def test_training_on_a_batch_of_one_is_refused(dtype):
    network = trained(SMALL, dtype).train()
    with pytest.raises(ValueError, match=r"^the batch has 1 cloud; .* needs at least 2 to train$"):
        network(cloud(dtype, clouds=1))


def test_every_parameter_gets_a_gradient(dtype):
    network = trained(SMALL, dtype).train()
    objective(network(cloud(dtype, clouds=8))).backward()
    for name, parameter in network.named_parameters():
        assert (parameter.grad != 0).any(), name


def test_autocast_does_not_change_the_prediction():
    network, capsules = trained(SMALL, torch.float32), cloud(torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        found = network(capsules)
    plain = network(capsules)
    assert torch.equal(found.poses, plain.poses)
    assert torch.equal(found.activations, plain.activations)


def test_prediction_is_the_last_ballot(dtype):
    for looks in (1, 3):
        prediction = trained(replace(SMALL, looks=looks), dtype)(cloud(dtype))
        assert len(prediction.ballots) == looks
        assert prediction.poses is prediction.ballots[-1].poses
        assert torch.equal(prediction.activations, prediction.ballots[-1].scores.softmax(-1))
        assert torch.equal(prediction.pose, prediction.ballots[-1].best_pose())


def test_votes_are_unit_quaternions_and_trust_sums_to_one(dtype):
    """Six patches vote and four frames of the whole."""
    for ballot in trained(SMALL, dtype)(cloud(dtype)).ballots:
        assert ballot.votes.shape == (3, 3, 10, 4)
        torch.testing.assert_close(ballot.votes.norm(dim=-1), torch.ones(3, 3, 10, dtype=dtype))
        assert (ballot.trust > 0).all()
        torch.testing.assert_close(ballot.trust.sum(-1), torch.ones(3, 3, dtype=dtype))


def test_patch_votes_rotate_and_whole_votes_rotate_as_a_set(dtype):
    network, capsules, turn = trained(SMALL, dtype), cloud(dtype), random_quaternion((3,), 4, dtype=dtype)
    before, after = (network(given).ballots[0] for given in (capsules, capsules.rotated(turn)))
    expected, tolerance = multiply(turn[:, None, None], before.votes), 1e-4 if dtype == torch.float32 else 1e-9
    assert angular_distance(after.votes[:, :, :6], expected[:, :, :6]).max() <= tolerance
    wholes = after.votes[:, :, 6:, None], expected[:, :, None, 6:]
    assert angular_distance(*torch.broadcast_tensors(*wholes)).amin(-1).max() <= tolerance
    torch.testing.assert_close(after.trust[..., :6], before.trust[..., :6], atol=tolerance, rtol=0)


def test_explained_patches_are_those_that_vote(dtype):
    points, network = cloud(dtype, missing=0.3).select(slice(1)), trained(SMALL, dtype)
    prediction = network(points)
    label = int(prediction.label[0])
    found = network.explain_patches(points, prediction)
    there = points.positions[0][points.valid[0]]
    assert torch.equal(found.centres, there[torch.arange(6) % len(there)]), "points without a frame are no centres"
    assert torch.equal(found.poses, points.frames[0][points.valid[0]][:6])
    below = there[torch.arange(12) % len(there)]
    near = torch.cdist(found.centres.double(), below.double()).topk(4, largest=False).values
    read = (found.reads - found.centres[:, None]).norm(dim=-1).sort().values
    torch.testing.assert_close(read.double(), near, atol=1e-5, rtol=0)
    assert torch.equal(found.activations, prediction.ballots[-1].trust[0, label, :6])


def test_traced_votes_lead_to_the_pose(dtype):
    points, network = cloud(dtype).select(slice(1)), trained(SMALL, dtype)
    prediction = network(points)
    rounds = network.trace_votes(points, prediction)
    assert len(rounds) == SMALL.looks
    for voting, ballot in zip(rounds, prediction.ballots, strict=True):
        assert torch.equal(voting.votes, ballot.votes[0, int(prediction.label[0])])
        assert voting.positions.shape == (10, 3)
        assert voting.poses.shape == (SMALL.iterations + 1, 4)
        torch.testing.assert_close(voting.weights.sum(-1), torch.ones(SMALL.iterations + 1, dtype=dtype))
    assert angular_distance(rounds[-1].poses[-1], prediction.pose[0]) <= 1e-4


def test_untrained_patches_and_wholes_have_equal_total_weight(dtype):
    network = trained(SMALL, dtype)
    for look in network.looks:
        for voters in (look.patch_voters, look.whole_voters):
            torch.nn.init.zeros_(voters.last.weight)
            torch.nn.init.zeros_(voters.last.bias)
    for ballot in network(cloud(dtype)).ballots:
        half = torch.full((3, 3), 0.5, dtype=dtype)
        torch.testing.assert_close(ballot.trust[..., :6].sum(-1), half)
        torch.testing.assert_close(ballot.trust[..., 6:].sum(-1), half)


def test_the_best_pose_is_that_of_the_highest_score(dtype):
    scores = torch.tensor([[-3.0, 2, 1], [5, -1, 4.9]], dtype=dtype)
    poses = random_quaternion((2, 3), 0, dtype=dtype)
    ballot = Ballot(scores, poses[:, :, None], torch.ones(2, 3, 1, dtype=dtype), poses)
    assert torch.equal(ballot.best_pose(), torch.stack((poses[0, 1], poses[1, 0])))


@pytest.mark.parametrize(("upside_down", "count"), [(False, 4), (True, 8)])
def test_upside_down_frames_vote_in_further_looks_only(upside_down, count, dtype):
    ballots = trained(replace(SMALL, looks=3, upside_down=upside_down), dtype)(cloud(dtype)).ballots
    assert [ballot.votes.shape[2] - 6 for ballot in ballots] == [4, count, count]


@pytest.mark.parametrize(("upside_down", "count"), [(False, 4), (True, 8)])
def test_quarter_turns_are_a_group(upside_down, count, dtype):
    turns = _turns(upside_down, torch.ones((), dtype=dtype))
    z = rotate(turns, torch.tensor([0.0, 0, 1], dtype=dtype))
    assert z[:, 2].round().tolist() == [1] * 4 + [-1] * (count - 4)
    products = multiply(turns[:, None], turns)
    apart = angular_distance(products[:, :, None], turns)
    assert ((apart < 1e-3).sum(-1) == 1).all()
    assert ((apart < 1e-3).sum(1) == 1).all()


def test_saved_weights_are_loaded_unchanged(tmp_path):
    network, capsules = trained(replace(SMALL, looks=3), torch.float32), cloud(torch.float32)
    save_network(tmp_path / "w", network, ["a", "b", "c"], {})
    again, classes, _ = load_network(tmp_path / "w")
    assert (again.config, classes) == (network.config, ["a", "b", "c"])
    assert not again.training
    for a, b in zip(again(capsules).ballots, network(capsules).ballots, strict=True):
        assert all(torch.equal(getattr(a, name), getattr(b, name)) for name in ("scores", "votes", "trust", "poses"))


def test_weights_for_another_number_of_classes_are_refused():
    one, other = (FeatureNet(replace(SMALL, classes=classes)) for classes in (3, 5))
    with pytest.raises(ValueError, match=r"^the weights are for 5 classes; this network has 3$"):
        one.load_state_dict(other.state_dict())


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: FeatureConfig(3, looks=0), "looks is 0; it must be at least 1"),
        (lambda: FeatureConfig(3, summary=0), "summary is 0; it must be at least 1"),
        (lambda: FeatureConfig(3, neighbourhoods=()), "neighbourhoods has 0 readings; it must have from 1 to 16"),
        (lambda: FeatureConfig(3, whole=(128, 0)), r"whole is \(128, 0\); it must be at least 1"),
        (lambda: FeatureConfig(3, dropout=1.0), r"dropout is 1\.0; it must be at least 0 and below 1"),
        (lambda: FeatureConfig(3, dropout=-0.1), r"dropout is -0\.1; it must be at least 0 and below 1"),
        (lambda: FeatureConfig(3, dropout=float("nan")), "dropout is nan; it must be at least 0 and below 1"),
        (lambda: Neighbourhood(0, 5, 8, 16, 0.5), "patches is 0; it must be at least 1"),
        (lambda: Neighbourhood(6, 0, 8, 16, 0.5), "neighbours is 0; it must be at least 1"),
        (lambda: Neighbourhood(6, 5, 0, 16, 0.5), "hidden is 0; it must be at least 1"),
        (lambda: Neighbourhood(6, 5, 8, -1, 0.5), "features is -1; it must be at least 1"),
        (lambda: Neighbourhood(6, 5, 8, 16, 0.0), r"reach is 0\.0; it must be a length above 0"),
        (lambda: Neighbourhood(6, 5, 8, 16, float("inf")), "reach is inf; it must be a length above 0"),
    ],
)
def test_invalid_configurations_fail_at_construction(make, sentence):
    with pytest.raises(ValueError, match=sentence) as refused:
        make()
    assert "\n" not in str(refused.value)
