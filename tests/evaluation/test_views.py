"""Scores on views of one side: by hand, and of a model that has learned nothing."""

import json
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from tests.kinds import present, recording

from qecnet.datasets import Dataset, Item, make_furniture
from qecnet.evaluation import Measurement, ViewsResult, measure_views, read_result, summarize, write_result
from qecnet.evaluation import views as views_module
from qecnet.evaluation.views import _ROW, _group
from qecnet.geometry import PointCloud, PrepareConfig
from qecnet.models import Model
from qecnet.nn import Calibration, QECConfig, QECNet, count_parameters, create_network
from qecnet.nn.edge_reader import ReaderSize


def row(visible, correct, up, pose, known=0.0, centre=0.1, size=0.2, sets=(False, 0)):
    """A row of a view, or of a whole shape if `visible` is None."""
    share, is_view = (1, False) if visible is None else (visible, True)
    return (0, 0, is_view, True, 400, share, correct, True, 0.7, up < 20, *sets, up, pose, known, centre, size)


def test_scores_of_rows_made_by_hand():
    rows = [
        row(None, True, 2, 3),
        row(0.35, True, 8, 14, 20, sets=(True, 4)),
        row(0.4, False, 12, 16, 2, sets=(False, 7)),
    ]
    rows.append(row(0.9, True, 90, 180, 180, sets=(True, 1)))
    found = _group(np.array(rows, _ROW), True)
    assert [*found] == ["whole", "views", "views, 30–40% visible", "views, 50–100% visible"]
    views, some, alone = (found[name] for name in [*found][1:])
    assert (found["whole"].views, views.views, some.views) == (1, 3, 2)
    assert (found["whole"].accuracy, some.accuracy, alone.accuracy) == (1, 0.5, 1)
    assert (views.accuracy, views.up10, views.pose15, views.pose15_known_up) == pytest.approx((2 / 3, *[1 / 3] * 3))
    assert (views.accuracy_known_up, views.confidence) == pytest.approx((1, 0.7))
    assert (views.up_degrees, views.pose_degrees, views.centre, views.size) == (12, 16, 0.1, 0.2)
    assert (views.ece, views.first_three) == pytest.approx((0.7 - 2 / 3, 2 / 3))
    assert (views.set_holds_pose, views.set_size) == pytest.approx((2 / 3, 4))
    assert (found["whole"].set_holds_pose, found["whole"].set_size) == (None, None)
    unnamed = _group(np.array(rows, _ROW), False)
    assert unnamed["views"].ece == pytest.approx(0.7 - 1 / 3)  # of the up direction
    assert {(of.accuracy, of.accuracy_known_up) for of in unnamed.values()} == {(None, None)}
    assert unnamed["views"].up10 == views.up10


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    network = QECNet(QECConfig(10, 32, patches=8, neighbours=4, capsules=4))
    classes = make_furniture(2).classes
    return Model("untrained", network, classes, PrepareConfig(400, 32, "centred"), settings={"dataset": "shapes"})


@dataclass(frozen=True)
class StoredShape:
    cloud: PointCloud
    stamp: str = ""

    def load(self):
        return self.cloud


def measure(model, dataset, folder, **changes):
    return measure_views(Measurement(model, dataset, folder, **{"workers": 1, "progress": False} | changes))


def test_each_shape_is_measured_whole_and_as_a_view(model, tmp_path):
    dataset = make_furniture(5)
    found = measure(model, dataset, tmp_path, shapes=[0, 1])
    assert found.shapes == found.groups["whole"].views == found.groups["views"].views == 2
    assert (found.points, found.no_answer) == (400, 0)
    assert sum(of.views for name, of in found.groups.items() if name.startswith("views, ")) == 2
    assert {*found.whole_by_kind} == {*found.views_by_kind} <= {*dataset.classes}
    write_result(tmp_path, found)
    assert read_result(tmp_path, ViewsResult) == found
    assert summarize(found).rows[0][:2] == ["whole", "2"]
    assert found.groups["whole"].set_size is None  # a network that compares no candidates
    assert measure(model, dataset, tmp_path / "again", shapes=[0, 1], workers=2) == found


def test_an_interrupted_measurement_resumes(model, tmp_path, monkeypatch):
    dataset = make_furniture(5)
    whole = measure(model, dataset, tmp_path / "whole", shapes=[0, 1, 2])
    rows = views_module._measure_shape
    calls: list[tuple] = []

    def interrupted(*given):
        if given[2] == 2:
            raise KeyboardInterrupt
        return rows(*given)

    monkeypatch.setattr(views_module, "_measure_shape", interrupted)
    with pytest.raises(KeyboardInterrupt):
        measure(model, dataset, tmp_path, shapes=[0, 1, 2])
    monkeypatch.setattr(views_module, "_measure_shape", recording(rows, calls))
    assert measure(model, dataset, tmp_path, shapes=[0, 1, 2]) == whole
    assert [given[2] for given in calls] == [2]
    assert measure(model, dataset, tmp_path, shapes=[0, 1, 2]) == whole
    assert len(calls) == 1
    measure(model, dataset, tmp_path, shapes=[0, 1, 2], seed=1)
    assert len(calls) == 4


def test_what_has_no_answer_is_counted_and_left_out(model, tmp_path):
    chair = make_furniture(5).items("test")[0]
    line = PointCloud(torch.linspace(0, 1, 5)[:, None] * torch.ones(3), name="line")
    dataset = Dataset("shapes", model.classes, {"test": (chair, Item(1, "line", StoredShape(line)))})
    found = measure(model, dataset, tmp_path)
    assert (found.shapes, found.no_answer) == (1, 2)
    assert found.groups["whole"].views == found.groups["views"].views == 1
    assert "without 2 that have no answer" in summarize(found).title
    with pytest.raises(ValueError, match="has no answer for any of its test shapes"):
        measure(model, dataset, tmp_path, shapes=[1])


def test_a_dataset_of_other_classes_is_measured_by_orientation(model, tmp_path):
    stranger = Model("untrained", model.network, tuple("abcdefghij"), model.config)
    found = measure(stranger, make_furniture(5), tmp_path, shapes=[0])
    assert (found.classes, found.missing) == (make_furniture(5).classes, ())
    assert found.groups["views"].accuracy is None
    assert {*found.whole_by_kind} <= {*found.classes}


SMALL = ReaderSize(64, (32, 16), (8, 8, 8, 8), (16, 16, 32, 32, 32, 48))


def test_sets_of_candidates_are_looked_at_with_classes_and_without(tmp_path):
    torch.manual_seed(0)
    dataset = make_furniture(5)
    network = create_network("upright", 10, frames=64, scorer=SMALL, reader=SMALL)
    config = PrepareConfig(400, 64, "centred", candidates=True)
    for number, classes in enumerate((dataset.classes, tuple("abcdefghij"))):
        model = Model("untrained", network, classes, config, Calibration(1, 100))
        found = measure(model, dataset, tmp_path / str(number), shapes=[0])
        whole = found.groups["whole"]
        assert present(whole.set_size) > 1
        assert whole.set_holds_pose in (0, 1)
        assert (whole.accuracy is None) == (number == 1)
        names = model.classes if number == 0 else ("object",)
        alone = Model(
            "untrained", network if number == 0 else network.without_classes(), names, config, Calibration(1, 100)
        )
        assert found.model.parameters == count_parameters(alone.network)
        assert measure(alone, dataset, tmp_path / f"{number}-again", shapes=[0]).groups == found.groups


def test_results_of_earlier_versions_are_read(model, tmp_path):
    found = measure(model, make_furniture(5), tmp_path, shapes=[0])
    write_result(tmp_path, found)
    path = tmp_path / found.file_name("strict")
    values = json.loads(path.read_text())
    for scores in values["groups"].values():
        for name in ("ece", "first_three", "set_holds_pose", "set_size"):
            del scores[name]
    path.write_text(json.dumps(values))
    older = present(read_result(tmp_path, ViewsResult))
    assert older.groups["whole"].ece is None
    assert older.groups["whole"].accuracy == found.groups["whole"].accuracy
    assert "–" in summarize(older).rows[0]
