"""`qec evaluate` as a user runs it: tables, files, and every kind of bad input."""

import json

import pytest
import torch
from typer.testing import CliRunner

from qecnet.cli.main import app
from qecnet.datasets import make_furniture, make_shape
from qecnet.formats import write
from qecnet.nn import QECConfig, QECNet, save_network

SETTINGS = {
    "dataset": "shapes",
    "per_class": 2,
    "config": "paper",
    "method": "centred",
    "seed": 0,
    "epochs": 1,
    "siamese": 0.0,
    "points": 200,
    "frames": 32,
    "patches": 8,
    "neighbours": 4,
    "keep": 0.8,
}


@pytest.fixture
def run(tmp_path):
    """A run's folder, with weights that have learnt nothing."""
    torch.manual_seed(0)
    network = QECNet(QECConfig(10, 32, patches=8, neighbours=4, capsules=4))
    save_network(tmp_path / "weights.safetensors", network, make_furniture(2).classes, {"settings": SETTINGS})
    return tmp_path


def evaluate(*arguments):
    return CliRunner().invoke(app, ["evaluate", *(str(a) for a in arguments)])


def test_each_table_is_printed_and_kept_for_both_protocols(run):
    few = ("--workers", 1, "--per-class", 1)
    named = evaluate("classification", run, "--rotations", 1, *few)
    assert named.exit_code == 0, named.output
    assert "NR/AR" in named.output
    turned = evaluate("rotation", run, "--rotations", 1, "--resamplings", 2, *few)
    assert turned.exit_code == 0, turned.output
    assert "samplings" in turned.output
    for what in ("classification", "rotation"):
        for protocol in ("paper", "strict"):
            result = json.loads((run / "evaluation" / f"{what}-{protocol}.json").read_text())
            assert result["protocol"] == protocol
            assert result["shapes"] == 10
            assert result["model"]["parameters"] > 0
    changed = evaluate("equivariance", run, "--rotations", 1, *few)
    assert changed.exit_code == 0, changed.output
    assert "Changes under rotation" in changed.output


def test_no_correct_shape_is_a_dash(run):
    """One class is never named: nothing to average over the pairs of it that were named right."""
    found = evaluate("rotation", run, "--protocol", "strict", "--rotations", 1, "--resamplings", 2, "--workers", 1)
    assert found.exit_code == 0, found.output
    groups = json.loads((run / "evaluation" / "rotation-strict.json").read_text())["modes"]["siamese"]["correct"]
    assert None in groups["per_class"].values()


def test_bad_input_gives_a_one_sentence_error(run, tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    for arguments, words in (
        (("classification", empty), "holds no weights"),
        (("classification", tmp_path / "absent"), "there is no such folder"),
        (("rotation", run, "--data", empty), "shapes are generated, not read"),
        (("rotation", run, "--dataset", "modelnet10"), "give the path of their folder or zip"),
        (("rotation", run, "--dataset", "modelnet10", "--data", tmp_path / "absent"), "absent"),
    ):
        found = evaluate(*arguments)
        assert found.exit_code == 1
        assert words in found.output
        assert len(found.output.strip().splitlines()) == 1
    (run / "weights.safetensors").write_bytes(b"\x80\x04pickle")
    found = evaluate("classification", run)
    assert found.exit_code == 1
    assert "is damaged, or was not written by qecnet" in found.output


def test_views_are_measured_and_kept(run):
    found = evaluate("views", run, "--per-class", 1)
    assert found.exit_code == 0, found.output
    assert "Views of one side" in found.output
    assert json.loads((run / "evaluation" / "views-strict.json").read_text())["shapes"] == 10


def test_dataset_without_the_models_classes_is_not_said_to_have_some_in_common(run, tmp_path):
    folder = tmp_path / "objects"
    for name in ("cup", "hat", "mug", "toy"):  # some are in the half for testing
        (folder / name).mkdir(parents=True)
        write(folder / name / "model.obj", make_shape("chair", 0))
    found = evaluate("views", run, "--dataset", "scanned_objects", "--data", folder, "--workers", 1)
    assert found.exit_code == 0, found.output
    assert "in common" not in found.output
