"""What a run is: every setting that changes its numbers, from a small TOML file and the command line."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from qecnet.algebra import Weighting
from qecnet.geometry import Method, PrepareConfig
from qecnet.nn import (
    Gradients,
    Network,
    Nonlinearity,
    create_network,
    has_poses,
    list_networks,
    network_config,
    training_defaults,
)

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


@dataclass(frozen=True)
class Settings:
    """All settings, each with its value; the defaults are the paper's, `make_settings` fills in other configurations.

    Attributes:
        dataset: "modelnet10", "modelnet40", "shapes" (made by our own code), or a name for a folder of one's own.
        per_class: shapes of each class, of `shapes` alone.
        config: the registered network that the settings from `frames` to `upside_down` are of; it takes those that are
            fields of its configuration, see `QECConfig` and `FeatureConfig`, and has no use for the others.
        method, points, keep, thinnest, subsamplings: of the frames, see `PrepareConfig` and `frame_cache`.
        start: the weights that training begins with, as `qecnet.load` takes them, of the same configuration; those of
            classes are drawn anew where the classes are others. Empty for all to be drawn.
        batch_size: of all processes together.
        dropped: the share of frames that training leaves out of a cloud, others each time.
        stretch: the largest factor by which training stretches a cloud along each of its axes, or shortens it; 1 for
            none.
        optimizer: "adamw", or "muon" for Muon on the matrices and AdamW on all other parameters.
        schedule: of the learning rate; "constant" as in the paper.
        margin: of the spread loss at the beginning and at the end, growing linearly.
        smoothing: the share of a label that cross-entropy spreads over all classes.
        aligned: the weight of the pose loss δ/π to the upright pose, in which the shapes of the train split stand, up
            to the class's declared symmetry (`qecnet.datasets.symmetry`).
        siamese: the weight of the pose loss δ/π between two subsamplings of a shape; 0 for none.
        weight_decay: how fast weights shrink by themselves, in units of the learning rate.
        clip: the largest norm of the gradient; 0 for no limit.
        ema: the decay of a moving average of the weights, which is then what is validated and kept; 0 for none.
        validation: the share of the train split that is held out; 0 to train on all of it.
        validate_every: epochs.
        fused: whether routing is compiled, which makes the paper's network several times as fast on a CPU and changes
            its numbers by rounding (`qecnet.nn.use_fused_routing`).
        seed: of the first weights, the order and what is drawn; frames and the held-out part are the same for all.
    """

    dataset: str = "modelnet10"
    per_class: int = 100
    config: str = "paper"
    method: Method = "flare"
    points: int = 10_000
    keep: float = 0.8
    thinnest: float = 1.0
    subsamplings: int = 4
    frames: int = 512
    patches: int = 64
    neighbours: int = 9
    capsules: int = 64
    iterations: int = 3
    weighting: Weighting = "sigmoid"
    exponent: float = 1.0
    gradients: Gradients = "last"
    nonlinearity: Nonlinearity = "none"
    canonicalize: bool = True
    looks: int = 2
    upside_down: bool = False
    start: str = ""
    epochs: int = 100
    batch_size: int = 8
    dropped: float = 0.0
    stretch: float = 1.0
    optimizer: Literal["adamw", "muon"] = "adamw"
    learning_rate: float = 1e-3
    schedule: Literal["constant", "onecycle"] = "constant"
    loss: Literal["spread", "cross_entropy"] = "spread"
    margin: tuple[float, float] = (0.1, 0.1)
    smoothing: float = 0.0
    aligned: float = 0.0
    siamese: float = 0.0
    weight_decay: float = 0.0
    clip: float = 0.0
    ema: float = 0.0
    validation: float = 0.1
    validate_every: int = 1
    fused: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("per_class", "points", "subsamplings", "epochs", "batch_size", "validate_every"):
            self._check(name, getattr(self, name) >= 1, "at least 1")
        for name in ("iterations", "aligned", "siamese", "weight_decay", "clip", "seed"):
            self._check(name, getattr(self, name) >= 0, "at least 0")
        self._check("learning_rate", self.learning_rate > 0, "above 0")
        self._check("seed", self.seed < 2**63, "below 2 to the power of 63")
        self._check("margin", min(self.margin) >= 0, "at least 0")
        self._check("stretch", self.stretch >= 1, "at least 1")
        for name in ("keep", "thinnest"):
            self._check(name, 0 < getattr(self, name) <= 1, "above 0 and at most 1")
        for name in ("dropped", "smoothing", "ema", "validation"):
            self._check(name, 0 <= getattr(self, name) < 1, "at least 0 and below 1")
        for name in ("siamese", "aligned"):
            if getattr(self, name) > 0 and not has_poses(self.config):
                raise ValueError(
                    f"{name} is {getattr(self, name)}; the network {self.config} has no poses to compare, set it to 0"
                )
        if self.siamese > 0 and self.subsamplings < 2:
            raise ValueError("subsamplings is 1; the siamese loss compares two of them, so set it to at least 2")
        network_config(self.config, 1, **self.network_options())
        self.prepare()

    def _check(self, name: str, good: bool, rule: str) -> None:
        if not good:
            raise ValueError(f"{name} is {getattr(self, name)}; it must be {rule}")

    def network_options(self) -> dict[str, Any]:
        """The settings that are fields of the network's configuration, for `create_network`."""
        known = {field.name for field in fields(self)}
        options = (field.name for field in fields(network_config(self.config, classes=1)))
        return {name: getattr(self, name) for name in options if name in known}

    def create_network(self, classes: int) -> Network:
        """The network that these settings describe, with first weights from torch's global generator."""
        return create_network(self.config, classes, **self.network_options())

    def prepare(self) -> PrepareConfig:
        """The frames that it reads."""
        return PrepareConfig(self.points, self.frames, self.method)


def make_settings(given: Mapping[str, Any]) -> Settings:
    """Settings from those that are given by name; the rest is as the given `config`, or the paper's, has it."""
    values = {name: checked(name, value) for name, value in given.items()}
    return Settings(**{**_preset(values.get("config", "paper")), **values})


def read_settings(path: Path) -> dict[str, Any]:
    """The settings that a TOML file gives, lines `name = value`, or a JSON file, such as a run's settings.json."""
    try:
        text = path.read_text(encoding="utf-8")
        return dict(json.loads(text)) if path.suffix == ".json" else tomllib.loads(text)
    except OSError as error:
        raise ValueError(f"{path}: cannot be opened ({(error.strerror or str(error)).lower()})") from error
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path}: is not a file of settings ({error})") from error


def parse_setting(text: str) -> tuple[str, Any]:
    """`name=value` from the command line; values are written as in the file, words also without quotes."""
    name, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"--set {text}: has no value; write it as name=value")
    try:
        return name.strip(), tomllib.loads(f"x = {value}")["x"]
    except ValueError:
        return name.strip(), value.strip()


def checked(name: str, value: Any) -> Any:
    """The value of a setting in its type, or a sentence on what it should be."""
    types = get_type_hints(Settings)
    if name not in types:
        raise ValueError(f"{name} is no setting; there are {', '.join(types)}")
    kind = types[name]
    if get_origin(kind) is Literal or name == "config":
        choices = get_args(kind) or list_networks()
        if value in choices:
            return value
        raise ValueError(f"{name} is {value!r}; it must be one of {', '.join(choices)}")
    if get_origin(kind) is tuple:
        if isinstance(value, list | tuple) and len(value) == 2 and all(_is_number(v) for v in value):
            return float(value[0]), float(value[1])
        raise ValueError(f"{name} is {value!r}; it must be two numbers, as in {name}=[0.1, 0.1]")
    if kind is float and _is_number(value):
        return float(value)
    if kind is float or type(value) is not kind:
        words = {int: "a whole number", float: "a number", bool: "true or false", str: "a word"}
        raise ValueError(f"{name} is {value!r}; it must be {words[kind]}")
    return value


def json_of(settings: Settings) -> dict[str, Any]:
    """As `json` reads it back: lists for tuples."""
    return {name: list(v) if isinstance(v, tuple) else v for name, v in asdict(settings).items()}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def _preset(name: str) -> dict[str, Any]:
    """The settings of a registered network: those of its configuration, and those that are usual to train it with."""
    config = network_config(name, classes=1)
    known = {field.name for field in fields(Settings)}
    return {k: v for k, v in vars(config).items() if k in known} | dict(training_defaults(name))
