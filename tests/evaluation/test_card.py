"""A card says what the files of its run say, and no more."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest
import torch
from tests.evaluation.synthetic import make_run

from qecnet.evaluation import write_card
from qecnet.files import as_json
from qecnet.nn import FeatureConfig, FeatureNet, QECConfig, QECNet, save_network
from qecnet.training import Settings, make_settings

REPO = Path(__file__).parents[2]
CARDS = sorted((REPO / "results").glob("*/CARD.md"))


def put_weights(folder, settings):
    torch.manual_seed(0)
    classes = [f"class {n}" for n in range(10)]
    save_network(folder / "weights.safetensors", QECNet(QECConfig(10)), classes, {"settings": asdict(settings)})
    (folder / "settings.json").write_bytes(as_json(asdict(settings)))
    return folder


@pytest.fixture
def run(tmp_path):
    return put_weights(tmp_path, Settings(seed=7))


def test_the_card_lists_what_was_not_measured(run):
    text = write_card(run)
    assert "46,990 parameters, 512 local reference frames per shape, 10 classes" in text
    assert "seed 7" in text
    assert "Nothing yet" in text
    assert "class 9" in text


@pytest.mark.parametrize("card", CARDS, ids=lambda path: path.parent.name)
def test_cards_in_results_are_up_to_date(card, monkeypatch):
    """After a change, `qec card` writes them again, in the checkout's folder: settings name other runs from there."""
    monkeypatch.chdir(REPO)
    assert write_card(card.parent) == card.read_text()


def test_the_card_names_the_weights_it_started_from(run):
    assert "Started from" not in write_card(run)
    put_weights(run, Settings(start="results/first"))
    assert "- **Started from** the weights of `results/first`" in write_card(run)


def test_the_card_gives_the_options_that_training_needs(run):
    command = "`qec train --settings settings.json{} --out RUN`"
    assert command.format(" --data PATH") in write_card(run)
    put_weights(run, Settings(config="upright", unlabelled="scanned_objects"))
    assert command.format(" --data PATH --unlabelled-data PATH") in write_card(run)
    put_weights(run, Settings(dataset="shapes"))
    assert command.format("") in write_card(run)


def test_the_card_names_the_data_of_the_runs_it_started_from(tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        folder.mkdir()
    put_weights(second, Settings(start=str(first)))
    put_weights(first, Settings(config="upright", unlabelled="scanned_objects"))
    assert write_card(second).count("- **Orientation only**: Google Scanned Objects (CC-BY 4.0)") == 1
    put_weights(first, Settings(start=str(second)))  # a circle ends
    assert "Orientation only" not in write_card(second)


def test_the_card_names_the_only_part_that_was_trained_and_the_weights_of_the_others(run):
    put_weights(run, Settings(config="upright", invariant=True, start="modelnet40"))
    assert "Part trained" not in write_card(run)
    put_weights(run, Settings(config="upright", invariant=True, start="modelnet40", only="invariant"))
    assert "only `invariant`. The other parts have the weights of `modelnet40`, unchanged" in write_card(run)


def test_the_card_names_the_weights_that_a_part_started_from(tmp_path):
    run, readers, part = (tmp_path / name for name in ("run", "readers", "part"))
    for folder in (run, readers, part):
        folder.mkdir()
    of_projections = {"config": "upright", "projections": True}
    put_weights(readers, make_settings({"config": "upright"}))
    put_weights(part, make_settings({**of_projections, "unlabelled": "scanned_objects"}))
    starts = {"only": "projections", "start": str(readers), "start_part": str(part)}
    put_weights(run, make_settings({**of_projections, **starts}))
    text = write_card(run)
    assert f"The other parts have the weights of `{readers}`, unchanged" in text
    assert f"Its own weights started from those of `{part}`." in text
    assert f"**Started from** the weights of `{readers}` and `{part}`, and so" in text
    assert text.count("- **Orientation only**: Google Scanned Objects") == 1


def test_figures_are_those_of_the_results_with_their_protocol(tmp_path):
    folder = make_run(tmp_path / "run", ("classification", "rotation"))
    put_weights(folder, Settings())
    text = write_card(folder)
    strict = json.loads((folder / "evaluation" / "classification-strict.json").read_text())["ar"]
    low, high = (100 * bound for bound in strict["interval"])
    assert f"| rotated (NR/AR) | strict | {100 * strict['accuracy']:.1f}% | {low:.1f} – {high:.1f}% |" in text
    paper = json.loads((folder / "evaluation" / "rotation-paper.json").read_text())["modes"]["siamese"]["correct"]
    means = f"{paper['no_sym']['mean']:.3f} | {paper['no_sym']['median']:.3f} | {paper['all_classes']['mean']:.3f}"
    assert f"| one shape, two samplings | paper | correct | {means} |" in text
    assert "test views have 8,000 (median)" in text
    (folder / "evaluation" / "rotation-paper.json").write_text("{")
    with pytest.raises(ValueError, match=r"rotation-paper\.json: is damaged"):
        write_card(folder)


def test_views_of_one_side_are_in_a_short_table(tmp_path):
    folder = make_run(tmp_path / "run", ("views",), ("strict",))
    put_weights(folder, Settings())
    text = write_card(folder)
    groups = json.loads((folder / "evaluation" / "views-strict.json").read_text())["groups"]
    for name, of in groups.items():
        shares = " | ".join(f"{100 * of[share]:.1f}%" for share in ("accuracy", "up10", "pose15"))
        assert f"| {name} | {of['views']} | {shares} | 6.2° |" in text
    assert "Nothing yet" not in text
    assert "chair, views" not in text


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({}, "**Pose supervision**: none"),
        ({"siamese": 0.1}, "trained for the same pose of two resamplings of a shape"),
        ({"aligned": 1.0}, "trained towards the upright pose"),
    ],
)
def test_the_card_describes_the_pose_supervision(run, settings, told):
    put_weights(run, Settings(**settings))
    assert told in write_card(run)


def test_a_network_with_features_has_a_card(run):
    network = FeatureNet(FeatureConfig(10))
    save_network(run / "weights.safetensors", network, [*"abcdefghij"], {"settings": asdict(Settings())})
    (run / "settings.json").write_bytes(as_json(asdict(Settings(config="features"))))
    assert "`features`, 831,580 parameters, 512 local reference frames per shape, 10 classes" in write_card(run)
