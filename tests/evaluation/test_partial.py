"""Scores on views of one side: by hand, and of a model that has learned nothing."""

import pytest
import torch

from qecnet.datasets import make_furniture
from qecnet.evaluation import Measurement, ViewsResult, measure_views, read_result, summarize, write_result
from qecnet.evaluation.partial import _group, _Row
from qecnet.geometry import PrepareConfig
from qecnet.models import Model
from qecnet.nn import QECConfig, QECNet


def row(visible, correct, up, pose, known=0.0, centre=0.1, size=0.2):
    return _Row("chair", visible, correct, True, 0.7, up, pose, known, centre, size)


def test_scores_of_rows_made_by_hand():
    found = _group(
        [row(None, True, 2, 3), row(0.35, True, 8, 14, 20), row(0.4, False, 12, 16, 2), row(0.9, None, 90, 180, 180)]
    )
    assert [*found] == ["whole", "views", "views, 30–40% visible", "views, 50–100% visible"]
    views, some, alone = (found[name] for name in [*found][1:])
    assert (found["whole"].views, views.views, some.views) == (1, 3, 2)
    assert (found["whole"].accuracy, views.accuracy, alone.accuracy) == (1, 0.5, None)
    assert (views.up10, views.pose15, views.pose15_known_up) == pytest.approx((1 / 3, 1 / 3, 1 / 3))
    assert (views.accuracy_known_up, views.confidence) == pytest.approx((1, 0.7))
    assert (views.up_degrees, views.pose_degrees, views.centre, views.size) == (12, 16, 0.1, 0.2)


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    network = QECNet(QECConfig(10, 32, patches=8, neighbours=4, capsules=4))
    classes = make_furniture(2).classes
    return Model("untrained", network, classes, PrepareConfig(400, 32, "centred"), settings={"dataset": "shapes"})


def test_each_shape_is_measured_whole_and_as_a_view(model, tmp_path):
    dataset = make_furniture(5)
    found = measure_views(Measurement(model, dataset, tmp_path, shapes=[0, 1], progress=False))
    assert found.shapes == found.groups["whole"].views == found.groups["views"].views == 2
    assert sum(of.views for name, of in found.groups.items() if name.startswith("views, ")) == 2
    assert {*found.whole_by_kind} == {*found.views_by_kind} <= {*dataset.classes}
    write_result(tmp_path, found)
    assert read_result(tmp_path, ViewsResult) == found
    assert summarize(found).rows[0][:2] == ["whole", "2"]
    again = measure_views(Measurement(model, dataset, tmp_path, shapes=[0, 1], progress=False))
    assert again == found


def test_a_dataset_of_other_classes_is_measured_by_orientation(model, tmp_path):
    stranger = Model("untrained", model.network, tuple("abcdefghij"), model.config)
    found = measure_views(Measurement(stranger, make_furniture(5), tmp_path, shapes=[0], progress=False))
    assert found.groups["views"].accuracy is None
    assert {*found.whole_by_kind} <= {"box", "flat", "round", "other"}
