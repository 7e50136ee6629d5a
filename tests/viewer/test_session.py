"""Responses: poses rotate with the shape, classes do not; layers show what the network computed."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import qecnet
from qecnet.algebra import angular_distance, multiply, random_quaternion
from qecnet.datasets import make_shape
from qecnet.geometry import PointCloud
from qecnet.viewer.request import CorruptionLevels, RequestedShape
from qecnet.viewer.session import VOTING_MODEL, ModelPool, Session
from qecnet.viewer.shape import view_shape
from qecnet.viewer.wire import unpack

LAYERS = ("frames", "patches", "capsules", "votes")
IDENTITY, HALF = (1, 0, 0, 0), (0, 0, 0, 1)
SECOND = RequestedShape((1, 0, 0, 0), "chair", 2)


def pose_of(header):
    return torch.tensor(header["answer"]["pose"], dtype=torch.float64)


def rotations(count):
    return [random_quaternion((), generator=seed, dtype=torch.float64) for seed in range(count)]


def test_the_class_is_invariant_and_the_pose_equivariant(session, request_of):
    first, _ = unpack(session.respond(request_of()))
    for rotation in rotations(3):
        header, _ = unpack(session.respond(request_of(rotation.tolist())))
        assert header["answer"]["label"] == first["answer"]["label"] == "chair"
        assert angular_distance(pose_of(header), multiply(rotation, pose_of(first))) < np.radians(1)


def test_a_shape_is_sent_when_it_changes(session, request_of):
    header, arrays = unpack(session.respond(request_of()))
    assert header["shape"]["name"] == "chair"
    assert arrays["shape.points"].shape == (2_000, 3)
    assert np.abs(np.linalg.norm(arrays["shape.points"], axis=1)).max() == pytest.approx(1, abs=0.05)
    assert len(arrays["shape.faces"]) == len(make_shape("chair", 1).faces)
    rotated, arrays = unpack(session.respond(request_of((0, 1, 0, 0))))
    assert "shape" not in rotated
    assert not arrays
    corrupted, arrays = unpack(session.respond(request_of(corruption=CorruptionLevels(500, noise=0.02))))
    assert "shape" in corrupted
    assert len(arrays["shape.points"]) == corrupted["answer"]["points"] == 500


def test_a_shape_is_sent_after_a_failed_request(session, store, request_of):
    line = PointCloud(torch.linspace(0, 1, 50, dtype=torch.float64)[:, None].expand(50, 3).clone(), name="line")
    with pytest.raises(ValueError, match="line: has no surface"):
        session.respond(request_of(upload=store.add("key", line)))
    assert "shape" in unpack(session.respond(request_of()))[0]


def test_a_second_shape_is_sent_after_a_failed_request(session, request_of):
    with pytest.raises(ValueError, match="point"):
        session.respond(request_of(corruption=CorruptionLevels(1), second=SECOND))
    session.respond(request_of())
    assert "second" in unpack(session.respond(request_of(second=SECOND)))[0]
    assert "second" not in unpack(session.respond(request_of(second=SECOND)))[0]


def test_sessions_are_independent(pool, store, request_of):
    def answer(session, kind):
        return unpack(session.respond(request_of(kind=kind)))[0]["answer"]

    one, other = Session("one", pool, store), Session("other", pool, store)
    expected = [answer(Session("alone", pool, store), kind) for kind in ("chair", "sofa")]
    for _ in range(2):
        assert [answer(one, "chair"), answer(other, "sofa")] == expected


def test_upload_0_is_the_file_of_the_command_line(pool, store, request_of):
    session = Session("key", pool, store, make_shape("bed", 1))
    assert unpack(session.respond(request_of(upload=0)))[0]["shape"]["name"] == "bed"


@pytest.mark.parametrize(("which", "patches"), [("pool", 64), ("paper", 128)])
def test_layers_lie_on_the_shape(which, patches, store, request_of, request):
    session = Session("key", request.getfixturevalue(which), store)
    header, arrays = unpack(session.respond(request_of(layers=LAYERS)))
    assert arrays["frames.positions"].shape == (header["answer"]["frames"], 3)
    assert arrays["frames.valid"].sum() == header["answer"]["valid"]
    for name in ("frames.positions", "patches.centres", "capsules.positions"):
        assert distance_to(arrays["shape.points"], arrays[name]).max() < 1e-5, name
    assert arrays["patches.centres"].shape == arrays["capsules.positions"].shape == (patches, 3)
    centres = arrays["patches.centres"][arrays["patches.of"]]
    np.testing.assert_allclose(arrays["patches.lines"][:, 0], centres, atol=1e-6)
    assert (arrays["capsules.activations"] >= 0).all()


def distance_to(points, positions):
    return np.linalg.norm(positions[:, None] - points[None], axis=-1).min(1)


def test_layers_lie_on_a_shape_with_a_far_stray(session, store, request_of):
    chair = view_shape(make_shape("chair", 1), CorruptionLevels(10_000), session._pool.model.config).cloud.points
    stray = torch.tensor([[3.0, 1.0, 2.0]], dtype=torch.float64)
    number = store.add("key", PointCloud(torch.cat((chair[:5_000], stray)), name="scan"))
    _, arrays = unpack(session.respond(request_of(upload=number, corruption=CorruptionLevels(10_000), layers=LAYERS)))
    for name in ("frames.positions", "patches.centres", "capsules.positions"):
        assert distance_to(arrays["shape.points"], arrays[name]).max() < 1e-5, name


@pytest.mark.parametrize(("which", "iterations"), [("pool", 3), ("paper", 2)])
def test_votes_lead_to_the_pose(which, iterations, request):
    pool = request.getfixturevalue(which)
    cloud = view_shape(make_shape("chair", 1), CorruptionLevels(2_000), pool.model.config).cloud
    observation = pool.observer(None).observe(cloud)
    rounds = pool.model.network.trace_votes(observation.points, observation.prediction)
    assert len(rounds) == max(1, len(observation.prediction.ballots))
    for found in rounds:
        assert found.weights.shape == (1 + iterations, len(found.votes))
        assert len(found.positions) == len(found.votes)
        torch.testing.assert_close(found.weights.sum(-1), torch.ones(1 + iterations), atol=1e-4, rtol=0)
    pose = observation.prediction.pose[0]
    assert angular_distance(rounds[-1].poses[-1], pose) < 1e-3
    assert angular_distance(pose.double(), observation.answer.pose) < 1e-3


def test_the_baseline_is_not_invariant(session, request_of):
    assert "comparison" not in unpack(session.respond(request_of()))[0]
    upright, _ = unpack(session.respond(request_of(compare=True)))
    assert upright["comparison"]["label"] == upright["comparison"]["upright"] == "chair"
    labels = set()
    for rotation in rotations(6):
        header, _ = unpack(session.respond(request_of(rotation.tolist(), compare=True)))
        assert header["answer"]["label"] == header["comparison"]["upright"] == "chair"
        assert sum(header["comparison"]["scores"].values()) == pytest.approx(1, abs=1e-4)
        labels.add(header["comparison"]["label"])
    assert labels - {"chair"}


def test_the_baseline_does_not_depend_on_the_model(session, store, request_of):
    model = qecnet.load("modelnet10-features")
    model.config = replace(model.config, frames=256)
    expected = unpack(session.respond(request_of(compare=True)))[0]["comparison"]
    found = unpack(Session("key", ModelPool(model), store).respond(request_of(compare=True)))[0]["comparison"]
    assert found["scores"] == pytest.approx(expected["scores"], abs=1e-3)


def test_alignment_finds_the_rotation_between_two_shapes(session, request_of):
    rotation = random_quaternion((), generator=5, dtype=torch.float64)
    second = RequestedShape(tuple(rotation.tolist()), "chair", 1)
    header, arrays = unpack(session.respond(request_of(corruption=CorruptionLevels(10_000), second=second)))
    found = header["alignment"]
    assert angular_distance(torch.tensor(found["rotation"], dtype=torch.float64), rotation) < np.radians(2)
    assert found["after"] < found["before"] / 3
    assert found["target"]["label"] == "chair"
    assert arrays["second.points"].shape == (10_000, 3)


def test_a_camera_sees_one_side(session, request_of):
    """It looks at a chair's back from behind: what is seen lies behind, and another rotation shows another side."""
    whole, arrays = unpack(session.respond(request_of()))
    points = arrays["shape.points"]
    views = {}
    places = {"back": (0, 4, 0), "front": (0, -4, 0), "turned": (0, -4, 0)}
    for name, camera in places.items():
        rotation = HALF if name == "turned" else IDENTITY
        header, arrays = unpack(session.respond(request_of(rotation, camera=camera)))
        assert header["view"]["camera"] == [*camera]
        assert 0.1 < header["view"]["visible"] < 0.7
        assert not header["view"]["trained"]
        assert "shape.points" not in arrays
        assert distance_to(points, arrays["view.points"]).max() < 0.15
        assert len(arrays["view.points"]) == header["answer"]["points"] <= 2_000
        views[name] = arrays["view.points"]
    assert views["back"].mean(0)[1] > views["front"].mean(0)[1]
    np.testing.assert_allclose(views["back"].mean(0), views["turned"].mean(0), atol=0.05)
    assert "view" not in unpack(session.respond(request_of()))[0]
    request = replace(request_of(camera=(0, 4, 0)), model="modelnet10")
    assert unpack(session.respond(request))[0]["view"]["trained"]
    assert unpack(session.respond(request_of()))[0]["answer"] == whole["answer"]


def test_corruptions_apply_to_what_the_camera_sees(session, request_of):
    few = request_of(camera=(0, -4, 1), corruption=CorruptionLevels(300))
    assert unpack(session.respond(few))[0]["answer"]["points"] == 300


@pytest.mark.parametrize("camera", [(0, 0, 0), (0, 0.3, 0)])
def test_camera_inside_the_shape_gives_a_one_sentence_error(session, request_of, camera):
    with pytest.raises(ValueError, match="chair: the camera is inside"):
        session.respond(request_of(camera=camera))


def test_another_model_is_loaded_on_request(session, request_of):
    first, _ = unpack(session.respond(request_of()))
    assert (first["model"], first["answer"]["candidates"]) == ("modelnet10-features", [])
    header, _ = unpack(session.respond(request_of(model="upright")))
    assert header["model"] == "upright"
    shares = [candidate["probability"] for candidate in header["answer"]["candidates"]]
    assert shares == sorted(shares, reverse=True)
    assert 0.9 < sum(shares) < 1 + 1e-3, "they are rounded"
    assert all([*candidate] == ["pose", "probability", "any_azimuth"] for candidate in header["answer"]["candidates"])
    rotation = rotations(1)[0]
    rotated, _ = unpack(session.respond(request_of(rotation.tolist(), model="upright")))
    assert angular_distance(pose_of(rotated), multiply(rotation, pose_of(header))) < np.radians(2)


@pytest.mark.parametrize("name", ["nothing", "../../secret.safetensors", "x" * 9999])
def test_only_models_of_the_viewer_are_loaded(session, request_of, name):
    with pytest.raises(ValueError, match=r"it must be one of modelnet10-features, .*upright") as caught:
        session.respond(request_of(model=name))
    assert len(str(caught.value)) < 300


def test_corruptions_do_what_they_say(pool):
    def view(corruption):
        return view_shape(make_shape("chair", 1), corruption, pool.model.config).cloud.points

    def distance(corruption):
        return torch.cdist(view(corruption)[:500], whole).amin(-1).mean()

    whole = view(CorruptionLevels(10_000))
    assert torch.equal(whole, view(CorruptionLevels(10_000))), "the same seed gives the same points"
    assert not torch.equal(whole, view(CorruptionLevels(10_000, seed=1)))
    assert len(view(CorruptionLevels(10_000, occlusion=0.5))) == 5_000
    assert distance(CorruptionLevels(1_000)) < 1e-6
    assert distance(CorruptionLevels(10_000, noise=0.05)) > 0.01
    assert distance(CorruptionLevels(10_000, outliers=0.5)) > 0.05


def test_the_page_offers_a_model_with_votes_where_the_default_has_none(store, request_of):
    session = Session("key", ModelPool(qecnet.load(qecnet.DEFAULT_MODEL)), store)
    layers = ("patches", "capsules", "votes")
    header, arrays = unpack(session.respond(request_of(layers=layers)))
    assert header["answer"]["candidates"]
    assert not [name for name in arrays if name.startswith(("patches", "capsules", "round"))]
    header, arrays = unpack(session.respond(request_of(layers=layers, model=VOTING_MODEL)))
    assert {"patches.centres", "capsules.positions", "round0.votes"} <= {*arrays}
    assert "view" not in header


def test_the_default_model_was_trained_on_what_a_camera_sees(store, request_of):
    session = Session("key", ModelPool(qecnet.load(qecnet.DEFAULT_MODEL)), store)
    header, _ = unpack(session.respond(request_of(camera=(0, -4, 0))))
    assert header["view"]["trained"]
