"""`qec evaluate calibration` on a run that exists, with the predictions of `qec evaluate classification`."""

import json
from dataclasses import asdict

import pytest
import torch
from typer.testing import CliRunner

import qecnet
from qecnet.cli.main import app
from qecnet.datasets import make_furniture
from qecnet.evaluation import write_card
from qecnet.files import as_json
from qecnet.nn import QECConfig, QECNet, create_network, save_network
from qecnet.nn.edge_reader import ReaderSize
from qecnet.training.settings import make_settings

TINY = {"dataset": "shapes", "per_class": 5, "method": "centred", "points": 200, "frames": 32, "patches": 8}
FEW = ("--workers", 1, "--rotations", 1)


def make_run(folder, network, **changes):
    settings = asdict(make_settings(TINY | {"validation": 0.25} | changes))
    save_network(folder / "weights.safetensors", network, make_furniture(2).classes, {"settings": settings})
    (folder / "settings.json").write_bytes(as_json(settings))
    return folder


@pytest.fixture
def run(tmp_path):
    torch.manual_seed(0)
    return make_run(tmp_path, QECNet(QECConfig(10, 32, patches=8, neighbours=4, capsules=4)), neighbours=4, capsules=4)


def evaluate(*arguments):
    return CliRunner().invoke(app, ["evaluate", *(str(a) for a in arguments)])


def test_a_run_is_calibrated_from_what_was_predicted(run):
    assert evaluate("classification", run, "--protocol", "strict", *FEW).exit_code == 0
    predictions = run / "evaluation" / "classification-strict.npz"
    stamp = predictions.stat().st_mtime_ns
    found = evaluate("calibration", run, *FEW)
    assert found.exit_code == 0, found.output
    assert "held out, after" in found.output
    result = json.loads((run / "evaluation" / "calibration.json").read_text())
    assert qecnet.load(run).calibration.temperature == result["temperature"] != 1
    assert result["protocol"] == "strict"
    assert (result["held_out"]["shapes"], result["held_out"]["views"]) == (10, 10)
    assert result["candidate_sets"] is None
    assert result["test"]["views"] == 20
    assert result["held_out"]["after"]["nll"] <= result["held_out"]["before"]["nll"]
    assert f"a temperature of {result['temperature']:g}" in write_card(run)
    again = evaluate("calibration", run, *FEW)
    assert again.exit_code == 0
    assert json.loads((run / "evaluation" / "calibration.json").read_text()) == result
    assert predictions.stat().st_mtime_ns == stamp  # the temperature in the weights makes nobody predict again


def test_a_network_trained_on_views_is_calibrated_on_views_too(tmp_path):
    torch.manual_seed(0)
    small = ReaderSize(64, (32, 16), (8, 8, 8, 8), (16, 16, 32, 32, 32, 48))
    network = create_network("upright", 10, frames=64, scorer=small, reader=small)
    run = make_run(tmp_path, network, config="upright", frames=64, subsamplings=2, views=0.5)
    found = evaluate("calibration", run, *FEW)
    assert found.exit_code == 0, found.output
    assert "right pose in 90% sets" in " ".join(found.output.split())
    result = json.loads((run / "evaluation" / "calibration.json").read_text())
    assert (result["held_out"]["shapes"], result["held_out"]["views"]) == (10, 20)
    assert {*result["candidate_sets"]} == {"whole", "views"}
    calibration = qecnet.load(run).calibration
    assert calibration.temperature == result["temperature"] != 1
    assert calibration.orientation_temperature == result["orientation_temperature"] != 1


def test_shapes_without_classes_that_were_trained_on_have_to_be_given(tmp_path):
    network = create_network("upright", 10)
    run = make_run(tmp_path, network, config="upright", frames=1024, unlabelled="scanned_objects")
    found = evaluate("calibration", run, *FEW)
    assert found.exit_code == 1
    assert "was also trained on scanned_objects; give it with --unlabelled-data" in " ".join(found.output.split())
