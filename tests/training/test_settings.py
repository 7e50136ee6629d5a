"""Settings: typed, whole, and refused in one sentence."""

import json
from dataclasses import asdict, replace

import pytest

from qecnet.nn import FeatureConfig, count_parameters, list_networks
from qecnet.training.folder import RunFolder
from qecnet.training.settings import Settings, make_settings, parse_setting, read_settings


def test_the_defaults_are_the_papers_network():
    assert make_settings({}) == Settings()
    assert count_parameters(Settings().create_network(10)) == 46_990


def test_given_settings_override_those_of_features():
    settings = make_settings({"config": "features", "looks": 1, "batch_size": 16})
    assert (settings.loss, settings.schedule, settings.method) == ("cross_entropy", "onecycle", "centred")
    assert (settings.smoothing, settings.aligned, settings.weight_decay) == (0.15, 1.0, 0.02)
    assert (settings.looks, settings.batch_size, settings.frames) == (1, 16, 512)
    assert settings.create_network(40).config == FeatureConfig(40, looks=1)
    upside_down = replace(settings, upside_down=True).create_network(40)
    assert upside_down.config == FeatureConfig(40, looks=1, upside_down=True)
    assert make_settings({"config": "features"}).create_network(40).config == FeatureConfig(40)
    assert make_settings(json.loads(json.dumps(asdict(settings)))) == settings


def test_settings_survive_a_json_round_trip():
    settings = make_settings({"config": "features", "margin": 0.2, "siamese": 0.1})
    assert make_settings(json.loads(json.dumps(asdict(settings)))) == settings


def test_a_runs_own_settings_can_be_given_to_another(tmp_path):
    settings, file = make_settings({"config": "features", "margin": 0.2}), tmp_path / "settings.json"
    file.write_text(json.dumps(asdict(settings)))
    assert make_settings(read_settings(file)) == settings
    for damaged in ("{", "3", "[1]"):
        file.write_text(damaged)
        with pytest.raises(ValueError, match=r"settings\.json: is not a settings file"):
            read_settings(file)


@pytest.mark.parametrize("damaged", ["{", "3", "[1]", '{"epochs": "many"}'])
def test_a_runs_settings_that_are_damaged_are_refused(tmp_path, damaged):
    (tmp_path / "settings.json").write_text(damaged)
    with pytest.raises(ValueError, match=r"settings\.json: is damaged \(.*; start a new run in another --out"):
        RunFolder(tmp_path).resumed_settings({})


@pytest.mark.parametrize(("stored", "origin"), [({}, "patch"), ({"origin": "cloud"}, "cloud")])
def test_settings_without_an_origin_are_relative_to_patches(tmp_path, stored, origin):
    file = tmp_path / "settings.json"
    file.write_text(json.dumps({"config": "paper", **stored}))
    assert RunFolder(tmp_path).resumed_settings({}).origin == origin
    assert make_settings(read_settings(file)).origin == origin


def test_a_run_from_when_the_margin_could_grow_has_one_margin(tmp_path):
    file = tmp_path / "settings.json"
    file.write_text(json.dumps({"margin": [0.1, 0.1]}))
    assert RunFolder(tmp_path).resumed_settings({}).margin == make_settings(read_settings(file)).margin == 0.1


def test_a_file_is_toml(tmp_path):
    file = tmp_path / "run.toml"
    file.write_text('schedule = "onecycle"\nlearning_rate = 1\nmargin = 0.2  # wide\n')
    settings = make_settings(read_settings(file))
    assert (settings.schedule, settings.learning_rate, settings.margin) == ("onecycle", 1.0, 0.2)
    file.write_text("schedule onecycle")
    with pytest.raises(ValueError, match=r"run\.toml: is not a settings file .*; give a TOML file"):
        read_settings(file)
    with pytest.raises(ValueError, match=r"absent\.toml: cannot be opened"):
        read_settings(tmp_path / "absent.toml")


@pytest.mark.parametrize(
    ("text", "value"),
    [("a=1", 1), ("a=1e-3", 1e-3), ("a=linear", "linear"), ("a=false", False), ("a=[0.2, 0.9]", [0.2, 0.9])],
)
def test_command_line_values_have_the_syntax_of_the_file(text, value):
    name, found = parse_setting(text)
    assert (name, found, type(found)) == ("a", value, type(value))


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"epoch": 3}, "epoch is not a setting; use one of dataset"),
        ({"epochs": "many"}, "epochs is 'many'; it must be a whole number"),
        ({"epochs": True}, "epochs is True; it must be a whole number"),
        ({"epochs": 0}, "epochs is 0; it must be at least 1"),
        ({"learning_rate": float("nan")}, "learning_rate is nan; it must be"),
        ({"learning_rate": 10**400}, "it must be a number"),
        ({"seed": 2**63}, "it must be below 2 to the power of 63"),
        ({"margin": -0.1}, r"margin is -0.1; it must be at least 0"),
        ({"learning_rate": -1}, "learning_rate is -1.0; it must be above 0"),
        ({"weighting": "soft"}, "weighting is 'soft'; it must be one of sigmoid, linear, lq"),
        ({"config": "ours"}, f"config is 'ours'; it must be one of {', '.join(list_networks())}"),
        ({"margin": [0.2, 0.9]}, r"margin is \[0.2, 0.9\]; it must be a number"),
        ({"margin": []}, r"margin is \[\]; it must be a number"),
        ({"validation": 1}, "validation is 1.0; it must be at least 0 and below 1"),
        ({"siamese": 0.1, "subsamplings": 1}, "subsamplings is 1; the siamese loss compares two"),
        (
            {"views": 0.1, "subsamplings": 4},
            "views is 0.1 of 4 subsamplings; at least one must be a view and one whole",
        ),
        (
            {"views": 0.9, "subsamplings": 4},
            "views is 0.9 of 4 subsamplings; at least one must be a view and one whole",
        ),
        ({"patches": 9999}, "patches is 9999; it must be at most the 512 frames"),
        ({"points": 5}, "points is 5"),
        ({"config": "features", "looks": 0}, "looks is 0; it must be at least 1"),
        ({"config": "features", "aligned": -1}, "aligned is -1.0; it must be at least 0"),
        ({"config": "features", "smoothing": 1}, "smoothing is 1.0; it must be at least 0 and below 1"),
        ({"weight_decay": -0.1}, "weight_decay is -0.1; it must be at least 0"),
        ({"stretch": 0.9}, "stretch is 0.9; it must be at least 1"),
        ({"thinnest": 0}, "thinnest is 0.0; it must be above 0 and at most 1"),
        ({"dropped": 1}, "dropped is 1.0; it must be at least 0 and below 1"),
        ({"canonicalize": "yes"}, "canonicalize is 'yes'; it must be true or false"),
    ],
)
def test_impossible_settings_are_refused_by_name(given, sentence):
    with pytest.raises(ValueError, match=sentence) as refused:
        make_settings(given)
    assert "\n" not in str(refused.value)


def test_an_override_without_a_value_is_refused():
    with pytest.raises(ValueError, match="--set epochs: has no value"):
        parse_setting("epochs")


@pytest.mark.parametrize("name", ["scanned_objects", "\x1b[2J", "y" * 10_000])
def test_unlabelled_shapes_need_a_network_that_learns_from_them(name):
    sentence = r"^unlabelled needs .* without classes, and paper does not; leave it empty, or set config to upright$"
    with pytest.raises(ValueError, match=sentence):
        make_settings({"unlabelled": name})
    assert make_settings({"unlabelled": name, "config": "upright"}).unlabelled == name


def test_the_siamese_loss_is_not_for_a_network_with_a_pose_loss_of_its_own():
    message = r"^siamese is 0.1; set it to 0, as the network upright has its own pose loss$"
    with pytest.raises(ValueError, match=message):
        make_settings({"siamese": 0.1, "config": "upright", "subsamplings": 2})
