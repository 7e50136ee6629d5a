"""The answer to a wish: poses turn, names do not; layers show what the network did; tabs know nothing of each other."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import qecnet
from qecnet.algebra import angular_distance, multiply, random_quaternion
from qecnet.datasets import make_shape
from qecnet.geometry import PointCloud
from qecnet.viewer.inside import hearings
from qecnet.viewer.reply import Respondent, Tab
from qecnet.viewer.subject import subject_of
from qecnet.viewer.wire import unpacked
from qecnet.viewer.wish import Given, Made, Spoil, Turned

LAYERS = ("frames", "patches", "capsules", "votes")


def pose_of(header):
    return torch.tensor(header["answer"]["pose"], dtype=torch.float64)


def test_the_name_stays_and_the_pose_turns(respondent, wish):
    tab = Tab(respondent)
    first, _ = unpacked(tab.reply(wish()))
    assert first["answer"]["label"] == "chair"
    for seed in range(3):
        turn = random_quaternion((), generator=seed, dtype=torch.float64)
        header, _ = unpacked(tab.reply(wish(turn=turn.tolist())))
        assert header["answer"]["label"] == "chair"
        assert angular_distance(pose_of(header), multiply(turn, pose_of(first))) < np.radians(1)


def test_a_shape_is_sent_once_and_again_when_it_changes(respondent, wish):
    tab = Tab(respondent)
    header, arrays = unpacked(tab.reply(wish()))
    assert header["shape"]["name"] == "chair"
    assert arrays["shape.points"].shape == (2_000, 3)
    assert np.abs(np.linalg.norm(arrays["shape.points"], axis=1)).max() == pytest.approx(1, abs=0.05)
    assert len(arrays["shape.faces"]) == len(make_shape("chair", 1).faces)
    turned, arrays = unpacked(tab.reply(wish(turn=(0.0, 1.0, 0.0, 0.0))))
    assert "shape" not in turned
    assert not arrays
    spoiled, arrays = unpacked(tab.reply(wish(spoil=Spoil(500, noise=0.02))))
    assert "shape" in spoiled
    assert arrays["shape.points"].shape == (500, 3)
    assert spoiled["answer"]["points"] == 500


def test_a_shape_that_failed_to_be_sent_is_sent_next_time(respondent, wish):
    tab = Tab(respondent)
    line = PointCloud(torch.linspace(0, 1, 50, dtype=torch.float64)[:, None].expand(50, 3).clone(), name="line")
    number = tab.add(line)
    with pytest.raises(ValueError, match="has no surface to see"):
        tab.reply(replace(wish(), shape=Turned(Given(number), (1, 0, 0, 0))))
    assert "shape" in unpacked(tab.reply(wish()))[0]


def test_a_second_shape_that_failed_to_be_sent_is_sent_next_time(respondent, wish):
    tab = Tab(respondent)
    second = Turned(Made("chair", 2), (1, 0, 0, 0))
    with pytest.raises(ValueError, match="point"):
        tab.reply(replace(wish(spoil=Spoil(1)), second=second))
    tab.reply(wish())
    assert "second" in unpacked(tab.reply(replace(wish(), second=second)))[0]
    assert "second" not in unpacked(tab.reply(replace(wish(), second=second)))[0]


def test_tabs_do_not_disturb_each_other(respondent, wish):
    one, other = Tab(respondent), Tab(respondent)
    alone = [unpacked(Tab(respondent).reply(wish(kind=kind)))[0]["answer"] for kind in ("chair", "sofa")]
    for _ in range(2):
        both = [unpacked(tab.reply(wish(kind=kind)))[0] for tab, kind in ((one, "chair"), (other, "sofa"))]
        assert [reply["answer"] for reply in both] == alone
    number = one.add(make_shape("bed", 1))
    with pytest.raises(ValueError, match="no longer here"):
        other.reply(replace(wish(), shape=Turned(Given(number), (1, 0, 0, 0))))


def test_a_tab_keeps_a_few_uploads_and_the_file_of_the_command_line(respondent, wish):
    tab = Tab(respondent, make_shape("bed", 1))
    numbers = [tab.add(make_shape("sofa", seed)) for seed in range(Tab.MOST_UPLOADS + 1)]
    asked = [replace(wish(), shape=Turned(Given(number), (1, 0, 0, 0))) for number in (0, *numbers)]
    assert unpacked(tab.reply(asked[0]))[0]["shape"]["name"] == "bed"
    with pytest.raises(ValueError, match="upload it again"):
        tab.reply(asked[1])
    assert unpacked(tab.reply(asked[2]))[0]["shape"]["name"] == "sofa"


def test_a_tab_keeps_so_many_points_and_triangles(respondent, wish, monkeypatch):
    sofas = [make_shape("sofa", seed) for seed in range(3)]
    size = sum(len(sofa.vertices) + len(sofa.faces) for sofa in sofas[1:])
    monkeypatch.setattr(Tab, "MOST_KEPT", size)
    tab = Tab(respondent)
    numbers = [tab.add(sofa) for sofa in sofas]
    first, *others = (replace(wish(), shape=Turned(Given(number), (1, 0, 0, 0))) for number in numbers)
    with pytest.raises(ValueError, match="upload it again"):
        tab.reply(first)
    for asked in others:
        assert "shape" in unpacked(tab.reply(asked))[0]


@pytest.mark.parametrize("which", ["respondent", "paper"])
def test_layers_show_what_the_network_did(which, wish, request):
    tab = Tab(request.getfixturevalue(which))
    header, arrays = unpacked(tab.reply(wish(layers=LAYERS)))
    count = header["answer"]["frames"]
    assert arrays["frames.places"].shape == (count, 3)
    assert arrays["frames.valid"].sum() == header["answer"]["valid"]
    points = arrays["shape.points"]
    for places in (arrays["frames.places"], arrays["patches.centres"], arrays["capsules.places"]):
        nearest = np.linalg.norm(places[:, None] - points[None], axis=-1).min(1)
        assert nearest.max() < 1e-5, "they stand on points of the shape"
    assert arrays["patches.centres"].shape == arrays["capsules.places"].shape == (64, 3)
    centres = arrays["patches.centres"][arrays["patches.of"]]
    np.testing.assert_allclose(arrays["patches.lines"][:, 0], centres, atol=1e-6)
    assert (arrays["capsules.activations"] >= 0).all()


@pytest.mark.parametrize("which", ["respondent", "paper"])
def test_votes_lead_to_the_pose(which, wish, request):
    asked = request.getfixturevalue(which)
    cloud = subject_of(make_shape("chair", 1), Spoil(2_000), asked.model.config).cloud
    observed = asked.observer.ask(cloud)
    heard = hearings(asked.model.network, observed)
    assert len(heard) == max(1, len(observed.prediction.ballots))
    for hearing in heard:
        assert hearing.weights.shape == (4, len(hearing.votes))
        assert len(hearing.places) == len(hearing.votes)
        torch.testing.assert_close(hearing.weights.sum(-1), torch.ones(4), atol=1e-4, rtol=0)
    pose = observed.prediction.pose[0]
    assert angular_distance(heard[-1].poses[-1], pose) < 1e-3
    assert angular_distance(pose.double(), observed.answer.pose) < 1e-3


def test_the_other_network_is_asked_about_the_same_points(respondent, wish):
    tab = Tab(respondent)
    assert "comparison" not in unpacked(tab.reply(wish()))[0]
    upright, _ = unpacked(tab.reply(wish(compare=True)))
    assert upright["comparison"]["label"] == upright["comparison"]["upright"] == "chair"
    said = set()
    for seed in range(6):
        turn = random_quaternion((), generator=seed, dtype=torch.float64).tolist()
        header, _ = unpacked(tab.reply(wish(turn=turn, compare=True)))
        assert header["answer"]["label"] == header["comparison"]["upright"] == "chair"
        assert sum(header["comparison"]["scores"].values()) == pytest.approx(1, abs=1e-4)
        said.add(header["comparison"]["label"])
    assert said - {"chair"}, "it is not equivariant, and that shows"


def test_the_other_network_has_frames_of_its_own_where_the_model_reads_others(respondent, wish):
    model = qecnet.load("modelnet10")
    model.config = replace(model.config, frames=256, patches=32, neighbours=16)
    expected = unpacked(Tab(respondent).reply(wish(compare=True)))[0]["comparison"]
    found = unpacked(Tab(Respondent(model)).reply(wish(compare=True)))[0]["comparison"]
    assert found["scores"] == pytest.approx(expected["scores"], abs=1e-3)


def test_two_shapes_are_aligned(respondent, wish):
    turn = random_quaternion((), generator=5, dtype=torch.float64)
    second = Turned(Made("chair", 1), tuple(turn.tolist()))
    header, arrays = unpacked(Tab(respondent).reply(replace(wish(spoil=Spoil(10_000)), second=second)))
    found = header["alignment"]
    assert angular_distance(torch.tensor(found["rotation"], dtype=torch.float64), turn) < np.radians(2)
    assert found["after"] < found["before"] / 3
    assert found["target"]["label"] == "chair"
    assert arrays["second.points"].shape == (10_000, 3)


def test_spoiling_does_what_it_says(respondent):
    config = respondent.model.config
    chair = make_shape("chair", 1)
    whole = subject_of(chair, Spoil(10_000), config).cloud.points
    assert torch.equal(whole, subject_of(chair, Spoil(10_000), config).cloud.points), "the same seed, the same points"
    assert not torch.equal(whole, subject_of(chair, Spoil(10_000, seed=1), config).cloud.points)
    assert len(subject_of(chair, Spoil(10_000, occlusion=0.5), config).cloud) == 5_000

    def distance(spoil):
        points = subject_of(chair, spoil, config).cloud.points
        return torch.cdist(points[:500], whole).amin(-1).mean()

    assert distance(Spoil(1_000)) < 1e-6
    assert distance(Spoil(10_000, noise=0.05)) > 0.01
    assert distance(Spoil(10_000, outliers=0.5)) > 0.05
