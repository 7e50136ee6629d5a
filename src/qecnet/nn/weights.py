"""Networks by their configuration, and their weights in one file each: safetensors, nothing that is ever executed."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

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


def start_from(network: Network, classes: Sequence[str], path: Path, method: str) -> None:
    """Puts the weights that `save_network` wrote into a network of the same configuration, to train it further.

    `method` is that of the frames, which weights of a run say, too: they mean nothing with others.

    What is there for each class is taken over where the classes are the same, and otherwise stays as it is in
    `network`: what shapes have in common was learned once.
    """
    found, others, about = load_network(path)
    if (frames := about.get("settings", {}).get("method", method)) != method:
        raise ValueError(f"{path}: was trained on {frames} frames, not on {method}; start with --set method={frames}")
    if replace(found.config, classes=network.config.classes) != network.config:
        raise ValueError(f"{path}: is another network than the settings describe; start with their configuration")
    tensors = found.state_dict()
    if list(classes) != others:
        with torch.device("meta"):
            larger = make_network(replace(found.config, classes=len(others) + 1)).state_dict()
        of_classes = {name for name, tensor in tensors.items() if tensor.shape != larger[name].shape}
        tensors |= {name: tensor for name, tensor in network.state_dict().items() if name in of_classes}
    network.load_state_dict(tensors)


def _qec_config(given: Mapping[str, Any]) -> QECConfig:
    """What `asdict` made of one, after it was JSON."""
    features = given.get("features")
    if features is not None:
        neighbourhoods = tuple(Neighbourhood(**size) for size in features["neighbourhoods"])
        features = Features(**features | {"neighbourhoods": neighbourhoods, "whole": tuple(features["whole"])})
    levels = tuple(Level(**level) for level in given["levels"])
    return QECConfig(**{**given, "levels": levels, "features": features})
