"""A card says what the files of its run say, and no more."""

import json
from dataclasses import replace

import pytest
import torch

from qecnet.evaluation.card import card
from qecnet.nn import CONFIGS, QECNet, save_network
from qecnet.training import Settings
from qecnet.training.settings import json_of


@pytest.fixture
def run(tmp_path):
    torch.manual_seed(0)
    classes = [f"class {n}" for n in range(10)]
    save_network(tmp_path / "weights.safetensors", QECNet(classes=10), classes, {"settings": json_of(Settings(seed=7))})
    return tmp_path


def test_what_was_not_measured_is_said_to_be_missing(run):
    text = card(run)
    assert "46,990 parameters, 10 classes" in text
    assert "seed 7" in text
    assert "Nothing yet" in text
    assert "class 9" in text


def test_what_it_started_with_is_said(run):
    assert "Started with" not in card(run)
    about = {"settings": json_of(Settings(start="results/first"))}
    save_network(run / "weights.safetensors", QECNet(classes=10), ["a"] * 10, about)
    assert "- **Started with** the weights of `results/first`" in card(run)


def test_figures_are_those_of_the_files_with_their_protocol(run):
    folder = run / "evaluation"
    folder.mkdir()
    figures = {"accuracy": 0.8125, "interval": [0.79, 0.834], "mean_class": 0.7777}
    (folder / "classification-strict.json").write_text(json.dumps({"nr": figures, "ar": figures}))
    row = {"mean": 0.1234, "median": 0.05, "symmetric": {"mean": 0.1}}
    groups = {"correct": {"no_sym": None, "all_classes": None}, "all": {"no_sym": row, "all_classes": row}}
    modes = {"canonical": groups, "siamese": groups}
    for protocol in ("paper", "strict"):
        (folder / f"rotation-{protocol}.json").write_text(json.dumps({"modes": modes}))
    text = card(run)
    assert "| NR/AR | strict | 81.2% | 79.0% – 83.4% | 77.8% |" in text
    assert "| siamese | strict | 0.123 | 0.050 | 0.123 | 0.100 |" in text
    assert "| siamese | paper | – | – | – | – |" in text
    (folder / "rotation-paper.json").write_text("{")
    with pytest.raises(ValueError, match=r"rotation-paper\.json: is damaged"):
        card(run)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({}, "trained without a loss on poses"),
        ({"siamese": 0.1}, "trained two subsamplings of a shape alike"),
        ({"aligned": 1.0}, "trained towards upright"),
    ],
)
def test_what_was_told_of_poses_is_said(run, settings, told):
    about = {"settings": {**json_of(Settings()), **settings}}
    save_network(run / "weights.safetensors", QECNet(classes=10), ["a"] * 10, about)
    assert told in card(run)


def test_a_network_with_features_has_a_card(run):
    network = QECNet(replace(CONFIGS["features"], classes=10))
    save_network(run / "weights.safetensors", network, ["a"] * 10, {"settings": json_of(Settings())})
    assert "with features, 512 frames, readings of 256 × 16, 64 × 24, 2 looks, 831,580 parameters" in card(run)
