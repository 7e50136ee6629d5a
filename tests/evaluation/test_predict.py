"""Predictions of many views: the same however they are made, kept as they come, and honest about the protocol."""

from dataclasses import fields, replace

import numpy as np
import pytest
import torch
from benchmarks.baselines import PointNet
from tests.kinds import present, recording

from qecnet.algebra import rotate
from qecnet.datasets import Dataset, make_furniture, open_dataset
from qecnet.evaluation import (
    Corruption,
    Measurement,
    measure_classification,
    measure_equivariance,
    measure_robustness,
    measure_rotation,
    protocols,
    robustness,
)
from qecnet.evaluation import measurement as measuring
from qecnet.evaluation import rows as rows_module
from qecnet.evaluation.metrics import EXPECTED_RANDOM_RAE
from qecnet.evaluation.predict import Predictions, predict_shape, read_predictions
from qecnet.evaluation.protocols import TestView, ViewSampler
from qecnet.evaluation.rotation import category_pairs, siamese_pairs
from qecnet.formats import write
from qecnet.geometry import PointCloud, PrepareConfig, prepare
from qecnet.models import Model, load
from qecnet.nn import NetworkConfig, Prediction, QECConfig, QECNet, create_network, save_network

SETTINGS = {
    "dataset": "shapes",
    "per_class": 10,
    "config": "paper",
    "method": "centred",
    "seed": 0,
    "epochs": 1,
    "siamese": 0.0,
    "points": 400,
    "frames": 48,
    "patches": 8,
    "neighbours": 4,
    "keep": 0.8,
}
CONFIG = PrepareConfig(400, 48, "centred")
VIEWS = [TestView(0, 0), TestView(1, 1), TestView(2, 2)]


@pytest.fixture(scope="module")
def dataset():
    """Two shapes of each of three classes in either split."""
    whole = make_furniture(10, seed=3)
    few = {split: [i for i in items if i.label < 3] for split, items in whole.splits.items()}
    chosen = {s: tuple(i for label in range(3) for i in [j for j in few[s] if j.label == label][:2]) for s in few}
    return Dataset("shapes", whole.classes[:3], chosen)


@pytest.fixture(scope="module")
def run(tmp_path_factory, dataset):
    """A folder with the weights of a network that has learnt nothing."""
    folder = tmp_path_factory.mktemp("run")
    torch.manual_seed(0)
    network = QECNet(QECConfig(3, 48, patches=8, neighbours=4, capsules=4))
    save_network(folder / "weights.safetensors", network, dataset.classes, {"settings": SETTINGS})
    return folder


@pytest.fixture(scope="module")
def model(run):
    return load(run)


def sampler(protocol="strict", config=CONFIG, **changes):
    return ViewSampler(protocol, config, **changes)


def made(stored, shape, views, protocol, **changes):
    return sampler(protocol, **changes).prepare(stored, shape, views)[0]


def measurement(model, dataset, folder, protocol="strict", **changes):
    return Measurement(model, dataset, folder, protocol, workers=1, progress=False, **changes)


def equal(a: Predictions, b: Predictions) -> bool:
    return all(np.array_equal(getattr(a, f.name), getattr(b, f.name)) for f in fields(Predictions))


@pytest.mark.parametrize("protocol", ["strict", "paper"])
def test_implausible_viewpoints_of_files_are_ignored(protocol):
    points = torch.nn.functional.normalize(torch.randn(600, 3, generator=torch.Generator().manual_seed(0)), dim=-1)
    cap = PointCloud(points[points[:, 2] > 0.5])
    below, inside = (torch.tensor([0.0, 0.0, height], dtype=torch.float64) for height in (-5, 0.8))
    config = replace(CONFIG, sign="camera")
    found = {
        name: made(cap.seen_from(viewpoint), 0, VIEWS, protocol, config=config)[0].frames
        for name, viewpoint in (("below", below), ("inside", inside), ("none", None))
    }
    assert torch.equal(found["inside"], found["none"])
    assert not torch.equal(found["below"], found["none"])


def test_result_does_not_depend_on_the_number_of_workers(model, dataset, tmp_path):
    one, two = (
        Measurement(model, dataset, tmp_path, workers=workers, progress=False).predict(f"{workers}", VIEWS)
        for workers in (1, 2)
    )
    assert equal(one, two)
    assert len(one.shape) == len(dataset.items("test")) * len(VIEWS)
    assert (np.abs(np.linalg.norm(one.poses, axis=-1) - 1) < 1e-5).all()


def test_an_interrupted_run_resumes_after_the_last_whole_shape(model, dataset, tmp_path, monkeypatch):
    given = measurement(model, dataset, tmp_path)
    whole = given.predict("whole", VIEWS)
    seen: list[int] = []

    def interrupted(*given):
        if len(seen) == 2:
            raise KeyboardInterrupt
        seen.append(given[2])
        return predict_shape(*given)

    monkeypatch.setattr(measuring, "predict_shape", interrupted)
    with pytest.raises(KeyboardInterrupt):
        given.predict("cut", VIEWS)
    assert not (tmp_path / "cut.npz").exists()
    part = tmp_path / "cut.rows"
    with part.open("ab") as file:  # a row that was being written
        file.write(b"half")
    later: list[tuple] = []
    monkeypatch.setattr(measuring, "predict_shape", recording(predict_shape, later))
    assert equal(given.predict("cut", VIEWS), whole)
    assert not set(seen) & {given[2] for given in later}
    assert not part.exists()


def test_stored_predictions_are_reused_unless_something_changed(model, dataset, tmp_path, monkeypatch):
    given, into = measurement(model, dataset, tmp_path), tmp_path / "p.npz"
    first = given.predict("p", VIEWS)
    computed: list[tuple] = []
    monkeypatch.setattr(measuring, "predict_shape", recording(predict_shape, computed))
    assert equal(given.predict("p", VIEWS), first)
    assert not computed
    changed = replace(given, seed=1)
    other = changed.predict("p", VIEWS)
    assert len(computed) == len(dataset.items("test"))
    assert not np.array_equal(other.rotation, first.rotation)
    into.write_bytes(into.read_bytes()[:100])
    with pytest.raises(ValueError, match=r"p\.npz: holds no predictions, or is damaged"):
        read_predictions(into)
    assert equal(changed.predict("p", VIEWS), other)


def test_predictions_of_earlier_versions_are_read_as_of_whole_shapes(model, dataset, tmp_path):
    found, into = measurement(model, dataset, tmp_path).predict("p", VIEWS), tmp_path / "p.npz"
    with np.load(into) as arrays:
        older = {name: arrays[name] for name in arrays if name != "partiality"}
    np.savez(into, **older)
    read = read_predictions(into)[1]
    assert not read.partiality.any()
    assert equal(read, replace(found, partiality=read.partiality))


def test_views_of_a_subset_equal_those_of_the_whole_split(model, dataset, tmp_path):
    whole = measurement(model, dataset, tmp_path).predict("all", VIEWS)
    few = measurement(model, dataset, tmp_path, shapes=[1, 4]).predict("few", VIEWS)
    assert equal(few, whole.select(np.isin(whole.shape, [1, 4])))


def test_strict_views_have_their_own_points_and_paper_views_of_one_resampling_share_them(dataset):
    stored = dataset.items("test")[0].load()
    for protocol in ("paper", "strict"):
        upright, same, other = made(stored, 0, [TestView(0, 0), TestView(0, 1), TestView(1, 1)], protocol)
        turned = rotate(sampler(protocol).rotation(0, TestView(0, 1)).float(), upright.positions)
        torch.testing.assert_close(same.positions, turned, atol=1e-5, rtol=0)
        assert (other.positions - turned).norm(dim=-1).max() > 0.01
    exact, estimated = (made(stored, 0, [TestView(0, 1)], p)[0].frames for p in ("paper", "strict"))
    assert upright.valid.any()
    assert not torch.equal(exact, estimated)
    close = (exact * estimated).sum(-1).abs()[upright.valid]
    assert close.median() > 1 - 1e-6  # our frames turn with the points


@pytest.mark.parametrize("protocol", ["paper", "strict"])
@pytest.mark.parametrize("corruption", [None, Corruption("frames", 0.5), Corruption("occlusion", 0.25)])
def test_view_does_not_depend_on_other_views(dataset, protocol, corruption):
    stored = dataset.items("test")[1].load()
    views = [TestView(1, 2), TestView(0, 0), TestView(1, 1), TestView(0, 2)]
    among = made(stored, 1, views, protocol, corruption=corruption)
    for view, found in zip(views, among, strict=True):
        (alone,) = made(stored, 1, [view], protocol, corruption=corruption)
        for field in fields(alone):
            assert torch.equal(torch.as_tensor(getattr(alone, field.name)), torch.as_tensor(getattr(found, field.name)))


@pytest.mark.parametrize(("protocol", "times"), [("paper", 2), ("strict", 5)])
def test_frames_are_estimated_once_for_all_rotations_that_share_them(dataset, monkeypatch, protocol, times):
    estimated: list[tuple] = []
    monkeypatch.setattr(protocols, "prepare", recording(prepare, estimated))
    views = [TestView(0, 0), TestView(0, 1), TestView(0, 2), TestView(1, 1), TestView(1, 2)]
    assert len(made(dataset.items("test")[0].load(), 0, views, protocol)) == len(views)
    assert len(estimated) == times


class Cheat(torch.nn.Module):
    """Takes as pose whatever the last frame holds, valid or not: nothing there comes from the shape."""

    def forward(self, points):
        poses = points.frames[:, -1:]
        activations = torch.eye(3)[:1].expand(len(poses), 3)
        return Prediction(activations, poses.expand(len(poses), 3, 4), activations)


def test_leaked_rotation_is_perfect_under_paper_and_random_under_strict(model, dataset, tmp_path, monkeypatch):
    """Where a cloud has fewer points than frames the rest is the identity. Turned with the points, it is the answer."""
    monkeypatch.setattr(rows_module, "_start", lambda _: setattr(rows_module, "_model", Cheat()))
    sparse = Model(model.name, model.network, model.classes, replace(CONFIG, points=20), settings=SETTINGS)
    errors = {}
    for protocol in ("paper", "strict"):
        found = measure_rotation(measurement(sparse, dataset, tmp_path / protocol, protocol), 4, 4)
        errors[protocol] = present(found.modes.siamese.all.all_classes).mean
    assert errors["paper"] < 1e-6
    assert errors["strict"] == pytest.approx(EXPECTED_RANDOM_RAE, abs=0.06)


def test_classes_that_are_not_shared_are_left_out_and_named(model, dataset, tmp_path):
    names = (dataset.classes[0], "whale", dataset.classes[2])
    other = replace(dataset, classes=names)
    found = measure_classification(measurement(model, other, tmp_path), rotations=1)
    assert found.classes == (dataset.classes[0], dataset.classes[2])
    assert found.missing == tuple(sorted(["whale", dataset.classes[1]]))
    assert found.shapes == 4
    nothing = replace(dataset, classes=("whale", "carp", "eel"))
    with pytest.raises(ValueError, match=r"shares no class with the weights .*; give another dataset$"):
        measure_classification(measurement(model, nothing, tmp_path))


def test_network_with_exact_frames_is_equivariant(model, dataset, tmp_path):
    found = measure_equivariance(measurement(model, dataset, tmp_path), rotations=3)
    assert present(found.network.pose_degrees_max) < 0.1
    assert found.network.activation_max < 1e-4
    assert found.accuracy.exact_frames == found.accuracy.nr
    assert present(found.resampled.pose_degrees_median) > present(found.network.pose_degrees_median)


def test_robustness_has_a_row_for_each_level(model, dataset, tmp_path, monkeypatch):
    levels = (
        Corruption("frames", 0.5),
        Corruption("points", 40),
        Corruption("noise", 0.02),
        Corruption("outliers", 0.1),
        Corruption("occlusion", 0.5),
        Corruption("viewpoint", 3.0),
        Corruption("density", 4.0),
    )
    monkeypatch.setattr(robustness, "CORRUPTIONS", levels)
    found = measure_robustness(measurement(model, dataset, tmp_path))
    assert [(row.kind, row.level) for row in found.levels] == [(s.kind, s.level) for s in levels]
    assert all(0 <= row.accuracy <= 1 and 0 <= present(row.rae_symmetric) <= 1 for row in found.levels)


def test_a_network_without_poses_is_measured_by_accuracy_alone(dataset, tmp_path, monkeypatch):
    network = PointNet(NetworkConfig(3))
    save_network(tmp_path / "weights.safetensors", network, dataset.classes, {"settings": SETTINGS})
    model = load(tmp_path, poses=False)
    with pytest.raises(ValueError, match="predicts no pose"):
        measure_rotation(measurement(model, dataset, tmp_path))
    monkeypatch.setattr(robustness, "CORRUPTIONS", (Corruption("noise", 0.01),))
    (row,) = measure_robustness(measurement(model, dataset, tmp_path)).levels
    assert 0 <= row.accuracy <= 1
    assert row.rae is row.rae_all is row.rae_symmetric is None
    found = measure_equivariance(measurement(model, dataset, tmp_path), rotations=2)
    for way in ("network", "frames", "resampled"):
        assert getattr(found, way).pose_degrees_median is getattr(found, way).pose_degrees_max is None
        assert getattr(found, way).activation_max > 0  # coordinates are all that it sees


def test_pairs_are_two_views_of_one_shape_with_different_points():
    shape, resampling = np.array([5, 3, 5, 3, 5]), np.array([0, 0, 0, 1, 1])
    first, second = siamese_pairs(shape, resampling)
    found = {frozenset(p) for p in zip(first.tolist(), second.tolist(), strict=True)}
    assert found == {frozenset(p) for p in ((0, 4), (2, 4), (1, 3))}


def test_neighbours_are_the_same_view_of_the_next_shape_of_the_class():
    shape, label = np.array([0, 0, 1, 1, 2, 2, 3, 3]), np.array([4, 4, 4, 4, 7, 7, 4, 4])
    first, second = category_pairs(shape, label)
    assert list(zip(first.tolist(), second.tolist(), strict=True)) == [(0, 2), (1, 3), (2, 6), (3, 7), (6, 0), (7, 1)]
    assert [len(rows) for rows in category_pairs(shape[:0], label[:0])] == [0, 0]


def test_weights_without_settings_give_a_one_sentence_error(model, dataset, tmp_path):
    settings = {n: v for n, v in SETTINGS.items() if n != "keep"}
    save_network(tmp_path / "weights.safetensors", model.network, model.classes, {"settings": settings})
    with pytest.raises(ValueError, match=r"does not record how its network was trained \(keep\)"):
        measure_classification(measurement(load(tmp_path), dataset, tmp_path))


@pytest.mark.parametrize("config", ["paper", "features"])
def test_dropped_frames_change_the_predictions_of_every_network(config, dataset, tmp_path):
    torch.manual_seed(0)
    network = create_network(config, 3).eval()
    settings = SETTINGS | {"points": 600, "frames": 512, "patches": 64, "neighbours": 9}
    save_network(tmp_path / "weights.safetensors", network, dataset.classes, {"settings": settings})
    few = measurement(load(tmp_path), dataset, tmp_path, shapes=[0])
    views = [TestView(1, 1), TestView(2, 2)]
    whole = few.predict("whole", views)
    kept = {level: few.predict(f"{level}", views, corruption=Corruption("frames", level)) for level in (0.5, 0.75, 1)}
    assert np.array_equal(kept[1].activations, whole.activations)
    assert len({found.activations.tobytes() for found in kept.values()}) == 3
    assert (kept[0.5].points == 600).all()


def test_share_of_the_frames_is_dropped(dataset):
    stored, views = dataset.items("test")[0].load(), [TestView(0, 1)]
    (whole,), (half,) = (made(stored, 0, views, "strict", corruption=c) for c in (None, Corruption("frames", 0.5)))
    assert torch.equal(half.frames, whole.frames)
    assert not (half.valid & ~whole.valid).any()
    assert half.valid.sum() <= len(half.valid) / 2


def test_results_count_actual_points(model, dataset, tmp_path, monkeypatch):
    """A stored cloud of 300 points gives views of 240, whatever the settings allow."""
    for number, item in enumerate(dataset.items("test")[:4]):
        for split in ("train", "test"):
            cloud = item.load().sample(300, torch.Generator().manual_seed(number))
            folder = tmp_path / "data" / dataset.classes[item.label] / split
            folder.mkdir(parents=True, exist_ok=True)
            write(folder / f"{number}.xyz", cloud)
    stored = open_dataset("stored", tmp_path / "data")
    found = measure_classification(measurement(model, stored, tmp_path), rotations=1)
    assert model.settings["points"] == 400
    assert found.points == 240
    monkeypatch.setattr(robustness, "CORRUPTIONS", (Corruption("points", 100), Corruption("points", 2000)))
    assert [row.points for row in measure_robustness(measurement(model, stored, tmp_path)).levels] == [100, 240]
