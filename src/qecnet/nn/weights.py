"""Networks by their configuration, and their weights in one file each: safetensors, nothing that is ever executed."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..files import read_tensors, write_tensors
from .baselines import BASELINES, Baseline, BaselineConfig
from .features import Features, Neighbourhood
from .network import Level, QECConfig, QECNet

Network = QECNet | Baseline
"""What is trained and measured: `Capsules` and the `Pooling` of each level in, a `Prediction` out."""


def make_network(config: QECConfig | BaselineConfig) -> Network:
    """The network that a configuration describes, with first weights from torch's global generator."""
    return QECNet(config) if isinstance(config, QECConfig) else BASELINES[config.kind](config)


def save_network(path: Path, network: Network, classes: Sequence[str], about: Mapping[str, Any]) -> None:
    """Weights with what is needed to build the network and to name what it says; `about` is kept beside it."""
    write_tensors(path, network.state_dict(), {"config": asdict(network.config), "classes": list(classes), **about})


def load_network(path: Path) -> tuple[Network, list[str], dict[str, Any]]:
    """The network that `save_network` wrote, in evaluation mode, its class names, and all that stood beside them."""
    tensors, about = read_tensors(path)
    try:
        given = dict(about["config"])
        if "kind" in given:
            config: QECConfig | BaselineConfig = BaselineConfig(**given)
        else:
            config = _qec_config(given)
        network = make_network(config)
        network.load_state_dict(tensors)
        classes = list(about["classes"])
    except (KeyError, TypeError, RuntimeError) as error:
        raise ValueError(f"{path}: holds weights that this version of qecnet cannot read ({error})") from error
    return network.eval(), classes, about


def _qec_config(given: Mapping[str, Any]) -> QECConfig:
    """What `asdict` made of one, after it was JSON."""
    features = given.get("features")
    if features is not None:
        neighbourhoods = tuple(Neighbourhood(**size) for size in features["neighbourhoods"])
        features = Features(**features | {"neighbourhoods": neighbourhoods, "whole": tuple(features["whole"])})
    levels = tuple(Level(**level) for level in given["levels"])
    return QECConfig(**{**given, "levels": levels, "features": features})
