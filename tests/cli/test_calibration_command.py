"""`qec evaluate calibration` on a run that exists, with the predictions of `qec evaluate classification`."""

import json

import pytest
import torch
from typer.testing import CliRunner

import qecnet
from qecnet.cli.main import app
from qecnet.datasets import make_furniture
from qecnet.evaluation import write_card
from qecnet.files import as_json
from qecnet.nn import QECConfig, QECNet, save_network
from qecnet.training.settings import json_of, make_settings

TINY = {"dataset": "shapes", "per_class": 5, "method": "centred", "points": 200, "frames": 32, "patches": 8}
FEW = ("--workers", 1, "--rotations", 1)


@pytest.fixture
def run(tmp_path):
    torch.manual_seed(0)
    network = QECNet(QECConfig(10, 32, patches=8, neighbours=4, capsules=4))
    settings = json_of(make_settings(TINY | {"neighbours": 4, "capsules": 4, "validation": 0.25}))
    save_network(tmp_path / "weights.safetensors", network, make_furniture(2).classes, {"settings": settings})
    (tmp_path / "settings.json").write_bytes(as_json(settings))
    return tmp_path


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
    assert qecnet.load(run).temperature == result["temperature"] != 1
    assert result["protocol"] == "strict"
    assert (result["held_out"]["shapes"], result["held_out"]["views"]) == (10, 20)
    assert result["test"]["views"] == 20
    assert result["held_out"]["after"]["nll"] <= result["held_out"]["before"]["nll"]
    assert f"a temperature of {result['temperature']:g}" in write_card(run)
    again = evaluate("calibration", run, *FEW)
    assert again.exit_code == 0
    assert json.loads((run / "evaluation" / "calibration.json").read_text()) == result
    assert predictions.stat().st_mtime_ns == stamp  # the temperature in the weights makes nobody predict again
