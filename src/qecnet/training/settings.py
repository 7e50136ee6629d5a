"""Settings for training: checked, from a TOML file, an earlier run and the command line."""

import json
import reprlib
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, get_type_hints

from qecnet.geometry import PrepareConfig
from qecnet.models import RunSettings, update_settings
from qecnet.nn import SUMMARY_SIZE, Network, create_network, find_network, list_networks
from qecnet.schema import decode_value, system_reason

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


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
class Settings(RunSettings):
    """Settings that are checked: a registered network, values in their ranges, and none that contradicts another.

    `qecnet.models.RunSettings` describes the fields. Defaults are the paper's; `make_settings` applies those of other
    networks.
    """

    dataset: str = "modelnet10"
    config: str = "paper"

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
    values = {name: check_setting(name, value) for name, value in given.items()}
    return Settings(**{**_preset(values.get("config", Settings.config)), **values})


def parse_run_settings(text: str) -> dict[str, Any]:
    """Parse the settings.json of a run, also of an earlier version.

    Raises:
        ValueError, TypeError: if it cannot be parsed.
    """
    return update_settings(dict(json.loads(text)))


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
    return decode_value(value, types[name], name)


def _preset(name: str) -> dict[str, Any]:
    """Get the settings of a registered network: its configuration and its training defaults."""
    found, known = find_network(name), {field.name for field in fields(Settings)}
    return {k: v for k, v in vars(found.config).items() if k in known} | dict(found.training)
