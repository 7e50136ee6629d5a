"""Settings of a training run: everything that changes its numbers, from a TOML file and the command line."""

import json
import reprlib
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal, get_type_hints

from qecnet.algebra import Weighting
from qecnet.geometry import PrepareConfig, PrepareMethod
from qecnet.nn import (
    SUMMARY_SIZE,
    Gradients,
    Network,
    Nonlinearity,
    PatchOrigin,
    create_network,
    find_network,
    list_networks,
)
from qecnet.schema import decode_value, system_reason

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


_FORMER = ("fused",)  # settings in files of earlier versions: compiled operators are always used now
_RANGES: tuple[tuple[tuple[str, ...], Callable[[float], bool], str], ...] = (
    (("per_class", "points", "subsamplings", "epochs", "batch_size"), lambda x: x >= 1, "at least 1"),
    (("validate_every", "unlabelled_repeats", "stretch"), lambda x: x >= 1, "at least 1"),
    (("iterations", "margin", "aligned", "siamese", "weight_decay", "clip", "seed"), lambda x: x >= 0, "at least 0"),
    (("learning_rate",), lambda x: x > 0, "above 0"),
    (("seed",), lambda x: x < 2**63, "below 2 to the power of 63"),
    (("final_rank",), lambda x: 0 <= x <= SUMMARY_SIZE, f"from 0 to {SUMMARY_SIZE}"),
    (("balance",), lambda x: 0 <= x <= 1, "from 0 to 1"),
    (("keep", "thinnest"), lambda x: 0 < x <= 1, "above 0 and at most 1"),
    (("dropped", "smoothing", "ema", "validation", "views"), lambda x: 0 <= x < 1, "at least 0 and below 1"),
)
"""Names of settings, what must hold for each of them, and the same in words."""
_REMEDY = "give a TOML file with lines name = value, or the settings.json of a run"


@dataclass(frozen=True)
class Settings:
    """All settings of a training run. Defaults are the paper's; `make_settings` applies those of other networks.

    Attributes:
        dataset: "modelnet10", "modelnet40", "shapes" (procedural furniture), or any name for a folder of shapes.
        per_class: number of shapes per class; only for "shapes".
        config: name of a registered network. Of the settings from `frames` to `summary_rank`, it uses those that are
            fields of its configuration.
        unlabelled: name of a further dataset, such as "scanned_objects", whose upright shapes train the orientation and
            not the classes; for networks that read candidates. Empty for none.
        unlabelled_repeats: how often each of its shapes is used in an epoch.
        method: kind of local reference frames, see `PrepareConfig`.
        sign: the side that the frames' normals point to: "inward", "outward", or "camera" for that of the camera, and
            outward on whole shapes.
        points: number of points sampled from each shape.
        keep: fraction of the points that a subsample keeps if a cloud has no more than `points`.
        thinnest: number of points of the sparsest subsample as a fraction of the densest, see `frame_cache`.
        subsamplings: number of subsamples of each shape; every epoch uses the next one.
        views: fraction of the subsamples that are not of the whole shape but what one camera sees of it, e.g. 0.4.
        frames: number of local reference frames that the network reads of a cloud.
        patches, neighbours, capsules, origin, nonlinearity, canonicalize: see `QECConfig`.
        iterations, weighting, exponent, gradients: of routing, see `route`.
        looks, upside_down: see `FeatureConfig`.
        invariant, projections, projection_blocks, summary_rank: see `UprightConfig`.
        start: weights to start from: a model's name, a file or a run's folder. They must have the same configuration,
            except for the `patches` of the network "paper", fewer `projection_blocks`, and parts of the network
            "upright" that they do not have, and the same kind of frames. If the classes differ, the network "upright"
            keeps what the weights know about classes with the same name; all else that depends on the classes is
            random. If empty, everything is.
        only: the part of the network that is trained, "invariant" or "projections" of the network "upright"; the others
            stay as they are in `start`. Empty for all.
        start_part: weights that the part `only` starts from, if they are not those of `start`.
        epochs: number of training epochs.
        batch_size: number of shapes per step, over all processes.
        dropped: fraction of the frames of a cloud that each step leaves out at random.
        stretch: largest factor by which a cloud is stretched or compressed along each of its axes; 1 for none.
        optimizer: "adamw", or "muon" for Muon on the matrices and AdamW on all other parameters.
        learning_rate: the constant learning rate, or the peak of one cycle.
        schedule: of the learning rate: "constant", as in the paper, or "onecycle".
        loss: of the classification: "spread", as in the paper, or "cross_entropy".
        margin: of the spread loss.
        smoothing: label smoothing of the cross-entropy.
        balance: how far the loss corrects for classes that have more training shapes than others: 0 not at
            all, 1 for predictions as if all classes were equally frequent, see `class_prior`.
        aligned: weight of the pose loss δ/π to the upright pose of the training shapes, up to the symmetry declared
            for the class (`qecnet.datasets.symmetry`), or of the network's own loss for poses; 0 for none.
        siamese: weight of the pose loss δ/π between two subsamples of a shape; 0 for none.
        weight_decay: decoupled weight decay, in units of the learning rate.
        clip: largest norm of the gradient; 0 for no limit.
        precision: of products in training: "float32", or "bfloat16" for mixed precision, which is faster on processors
            with instructions for it; for the part "projections" only.
        final_rank: rank to which the layers before the summaries of the network "upright" are reduced after the last
            epoch, for fewer parameters, see `Network.reduced`; 0 to leave them as they are.
        ema: decay of the moving average of the weights, which is then validated and saved; 0 for none.
        validation: fraction of the train split that is held out; 0 to train on all of it.
        validate_every: number of epochs between validations.
        seed: of the initial weights, the order of shapes and the augmentation. Frames and the held-out shapes do not
            depend on it.
    """

    dataset: str = "modelnet10"
    per_class: int = 100
    config: str = "paper"
    unlabelled: str = ""
    unlabelled_repeats: int = 1
    method: PrepareMethod = "flare"
    sign: Literal["inward", "outward", "camera"] = "inward"
    points: int = 10_000
    keep: float = 0.8
    thinnest: float = 1.0
    subsamplings: int = 4
    views: float = 0.0
    frames: int = 512
    patches: int = 64
    neighbours: int = 9
    capsules: int = 64
    origin: PatchOrigin = "cloud"
    iterations: int = 3
    weighting: Weighting = "sigmoid"
    exponent: float = 1.0
    gradients: Gradients = "last"
    nonlinearity: Nonlinearity = "none"
    canonicalize: bool = True
    looks: int = 2
    upside_down: bool = False
    invariant: bool = False
    projections: bool = False
    projection_blocks: int = 1
    summary_rank: int = 0
    start: str = ""
    only: str = ""
    start_part: str = ""
    epochs: int = 100
    batch_size: int = 8
    dropped: float = 0.0
    stretch: float = 1.0
    optimizer: Literal["adamw", "muon"] = "adamw"
    learning_rate: float = 1e-3
    schedule: Literal["constant", "onecycle"] = "constant"
    loss: Literal["spread", "cross_entropy"] = "spread"
    margin: float = 0.1
    smoothing: float = 0.0
    balance: float = 0.0
    aligned: float = 0.0
    siamese: float = 0.0
    weight_decay: float = 0.0
    clip: float = 0.0
    precision: Literal["float32", "bfloat16"] = "float32"
    final_rank: int = 0
    ema: float = 0.0
    validation: float = 0.1
    validate_every: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        for names, is_good, rule in _RANGES:
            for name in names:
                if not is_good(value := getattr(self, name)):
                    raise ValueError(f"{name} is {value}; it must be {rule}")
        network, only = find_network(self.config).network, f"only is {self.only!r}"
        for name in ("siamese", "aligned"):
            if getattr(self, name) > 0 and not network.has_poses:
                raise ValueError(
                    f"{name} is {getattr(self, name)}; set it to 0, as the network {self.config} has no poses"
                )
        if self.only and self.only not in network.parts:
            parts = ", ".join(network.parts) or "none"
            raise ValueError(f"{only}; parts of the network {self.config} that can be trained alone: {parts}")
        if self.start_part and not self.only:
            raise ValueError(f"start_part is {self.start_part!r}; set only to the part that starts from it")
        if self.only and self.unlabelled and self.only not in network.posed_parts:
            raise ValueError(f"{only}; it learns nothing from the unlabelled shapes, so omit them")
        if self.precision != "float32" and self.only not in network.mixed_parts:
            raise ValueError(
                f"precision is {self.precision}; set only to a part of the network {self.config} that supports it: "
                f"{', '.join(network.mixed_parts) or 'none'}"
            )
        if self.siamese > 0 and network.has_pose_loss:
            raise ValueError(
                f"siamese is {self.siamese}; set it to 0, as the network {self.config} has its own pose loss"
            )
        if self.unlabelled and not network.learns_unlabelled:
            able = [name for name in list_networks() if find_network(name).network.learns_unlabelled]
            raise ValueError(
                f"unlabelled needs a network that learns from shapes without classes, and {self.config} does not; "
                f"leave it empty, or set config to {' or '.join(able)}"
            )
        if self.views > 0 and not 0 < round(self.views * self.subsamplings) < self.subsamplings:
            raise ValueError(
                f"views is {self.views} of {self.subsamplings} subsamplings; at least one must be a view and one whole"
            )
        if self.siamese > 0 and self.subsamplings < 2:
            raise ValueError("subsamplings is 1; the siamese loss compares two of them, so set it to at least 2")
        config = replace(find_network(self.config).config, classes=1, **self.network_options())
        if self.final_rank and getattr(config, "summary_rank", 1):
            raise ValueError(
                f"final_rank is {self.final_rank}; set it to 0, as the network has no summaries of full rank to reduce"
            )
        if self.only and not getattr(config, self.only):
            raise ValueError(f"{only}, a part that this network does not have; set {self.only} to true")
        self.prepare_config()

    def network_options(self) -> dict[str, Any]:
        """Select the settings that are fields of the network's configuration.

        Returns:
            The options of `create_network`.
        """
        options = vars(find_network(self.config).config)
        return {name: value for name, value in vars(self).items() if name in options}

    def create_network(self, classes: int) -> Network:
        """Create the network of these settings, with random weights from torch's global generator.

        Args:
            classes: number of classes.

        Returns:
            The network.
        """
        return create_network(self.config, classes, **self.network_options())

    def prepare_config(self) -> PrepareConfig:
        """Get the configuration of the frames that the network reads.

        Returns:
            The argument of `prepare`.
        """
        candidates = find_network(self.config).network.reads_candidates
        return PrepareConfig(self.points, self.frames, self.method, sign=self.sign, candidates=candidates)


def make_settings(given: Mapping[str, Any]) -> Settings:
    """Create settings from values by name; all others are the defaults of the network `config`, or the paper's.

    Args:
        given: values by name, as in a settings file.

    Returns:
        The settings.

    Raises:
        ValueError: for an unknown name, or a value of the wrong type or range.
    """
    values = {name: check_setting(name, value) for name, value in given.items() if name not in _FORMER}
    return Settings(**{**_preset(values.get("config", Settings.config)), **values})


def parse_run_settings(text: str) -> dict[str, Any]:
    """Parse the settings.json of a run; one of an earlier version gets what was not a setting then.

    Raises:
        ValueError, TypeError: if it cannot be parsed.
    """
    values = dict(json.loads(text))
    config = values.get("config", Settings.config)
    return {**(find_network(config).network.former if config in list_networks() else {}), **values}


def read_settings(path: Path) -> dict[str, Any]:
    """Read settings from a TOML file (lines `name = value`) or the settings.json of a run.

    Raises:
        ValueError: if the file cannot be opened or parsed.
    """
    try:
        text = path.read_text(encoding="utf-8")
        return parse_run_settings(text) if path.suffix == ".json" else tomllib.loads(text)
    except OSError as error:
        raise ValueError(f"{path}: cannot be opened ({system_reason(error)}); {_REMEDY}") from error
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path}: is not a settings file ({error}); {_REMEDY}") from error


def parse_setting(text: str) -> tuple[str, Any]:
    """Parse `name=value` from the command line; values are TOML, and words need no quotes."""
    name, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"--set {text}: has no value; write it as name=value")
    try:
        return name.strip(), tomllib.loads(f"x = {value}")["x"]
    except ValueError:
        return name.strip(), value.strip()


def check_setting(name: str, value: Any) -> Any:
    """Convert the value of a setting to its type; a ValueError says what it must be."""
    types = get_type_hints(Settings)
    if name not in types:
        raise ValueError(f"{reprlib.repr(name)[1:-1]} is not a setting; use one of {', '.join(types)}")
    if name == "config" and value not in list_networks():
        raise ValueError(f"config is {reprlib.repr(value)}; it must be one of {', '.join(list_networks())}")
    if name == "margin" and isinstance(value, list) and value and value == value[:1] * 2:  # a pair in earlier versions
        value = value[0]
    return decode_value(value, types[name], name)


def _preset(name: str) -> dict[str, Any]:
    """Get the settings of a registered network: its configuration and its training defaults."""
    found, known = find_network(name), {field.name for field in fields(Settings)}
    return {k: v for k, v in vars(found.config).items() if k in known} | dict(found.training)
