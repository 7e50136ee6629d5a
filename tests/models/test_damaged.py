"""Weights whose metadata or tensors were altered: one sentence that names the file, before any work."""

import json
from pathlib import Path

import pytest
import safetensors.torch
import torch
from tests.models.conftest import SETTINGS

import qecnet
from qecnet.datasets import make_shape
from qecnet.files import read_tensors, write_tensors
from qecnet.models import Failure
from qecnet.nn import QECNet


def alter(path: Path, keys: tuple, value: object) -> None:
    """Change one value of a file's metadata, whatever JSON it is."""
    tensors, about = read_tensors(path)
    place = about
    for key in keys[:-1]:
        place = place[key]
    place[keys[-1]] = value
    write_tensors(path, tensors, about)


@pytest.mark.parametrize("value", [None, True, -1, 0, 1.5, 10**400, "x", [], {}, float("nan"), [[]], {"a": {}}])
@pytest.mark.parametrize(
    "keys",
    [
        ("network",),
        ("config",),
        ("classes",),
        ("settings",),
        ("temperature",),
        ("temperature_slope",),
        *[("config", name) for name in ("classes", "frames", "patches", "capsules", "iterations", "weighting")],
        *[("settings", name) for name in SETTINGS],
    ],
)
def test_altered_metadata_gives_a_one_sentence_error(weights, keys, value):
    if (keys[-1], value) in (("iterations", 0), ("temperature", 1.5)) or (
        keys[-1] == "temperature_slope" and value in (-1, 0, 1.5)
    ):
        pytest.skip("a value that it may have")
    alter(weights, keys, value)
    with pytest.raises(ValueError, match=rf"^{weights}: ") as caught:
        qecnet.load(weights)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize(
    ("keys", "value", "sentence"),
    [
        (("classes",), ["bed", "chair"], "it names 2 classes; its network has 3"),
        (("classes",), ["bed", "chair", "bed"], "a name twice"),
        (("classes",), ["bed", "chair", "a\x1b[2J"], "control characters"),
        (("config", "iterations"), 10**6, "iterations is 1000000; it must be at most 100"),
        (
            ("config",),
            {"classes": 3, "frames": 4096, "patches": 4096, "iterations": 100},
            "patches is 4096 and iterations is 100; their product must be at most 20,000",
        ),
        (("config", "capsules"), 4000, "has shape"),
        (("config", "colour"), 1, "config has 'colour', which the network paper does not know"),
        (("settings", "points"), 10**9, "points is 1000000000; it must be at most 1,000,000"),
        (("settings", "method"), "magic", "settings.method is 'magic'; it must be one of"),
    ],
)
def test_damaged_weights_give_a_one_sentence_error(weights, keys, value, sentence):
    alter(weights, keys, value)
    with pytest.raises(ValueError, match=sentence):
        qecnet.load(weights)


def test_weights_that_are_not_finite_are_refused(weights):
    tensors, about = read_tensors(weights)
    next(iter(tensors.values())).view(-1)[0] = torch.nan
    write_tensors(weights, tensors, about)
    with pytest.raises(ValueError, match="has values that are not finite"):
        qecnet.load(weights)


def test_deeply_nested_metadata_gives_a_one_sentence_error(weights):
    tensors, _ = read_tensors(weights)
    weights.write_bytes(safetensors.torch.save(tensors, {"qecnet": "[" * 100_000}))
    with pytest.raises(ValueError, match=rf"^{weights}: is damaged"):
        qecnet.load(weights)


def test_an_answer_that_is_not_finite_is_an_error(weights, tmp_path):
    model = qecnet.load(weights)
    assert isinstance(model.network, QECNet)
    with torch.no_grad():
        model.network.classes.scale.fill_(torch.inf)
        model.network.classes.shift.fill_(torch.nan)
    chair = tmp_path / "chair.off"
    qecnet.formats.write(chair, make_shape("chair", 0))
    with pytest.raises(ValueError, match=r"chair\.off: the model .* gives values that are not finite"):
        model.predict(chair)
    (failure,) = model.predict_many([chair])
    assert isinstance(failure, Failure)


def test_metadata_is_an_object(weights):
    tensors, _ = read_tensors(weights)
    weights.write_bytes(safetensors.torch.save(tensors, {"qecnet": json.dumps([1, 2])}))
    with pytest.raises(ValueError, match="its metadata is not a JSON object"):
        qecnet.load(weights)
