"""The weights that ship, by name."""

from __future__ import annotations

import math
import os
from pathlib import Path

import torch

from qecnet.models.inputs import prepare_config
from qecnet.models.model import Model
from qecnet.nn import load_network

_WEIGHTS = Path(__file__).parent / "weights"


def list_models() -> list[str]:
    """The names that `load` knows: weights inside the package, no download."""
    return sorted(path.stem for path in _WEIGHTS.glob("*.safetensors"))


def load(name: str | os.PathLike[str], device: torch.device | str = "cpu", *, poses: bool = True) -> Model:
    """Load a trained model.

    Args:
        name: of weights that ship, or the path of a weights file or of the folder of a run of `qec train`.
        device: where the network runs.
        poses: whether the network must predict poses; evaluation also measures baselines that only classify.

    Raises:
        ValueError: if there are no such weights, or they are damaged or of a network without poses.
    """
    file = weights_file(name)
    network, classes, about = load_network(file)
    if poses and not network.has_poses:
        raise ValueError(f"{name}: its network has no poses to give; give weights of one that has")
    try:
        config = prepare_config(about["settings"])
    except KeyError as error:
        raise ValueError(
            f"{name}: does not say how its network was trained ({error}); give weights that qec train wrote"
        ) from error
    temperature = about.get("temperature", 1.0)
    if isinstance(temperature, bool) or not isinstance(temperature, int | float) or not 0 < temperature < math.inf:
        raise ValueError(f"{name}: its temperature is {temperature!r}; it must be a number above 0")
    return Model(os.fspath(name), network.to(device), tuple(classes), config, temperature, about["settings"])


def weights_file(name: str | os.PathLike[str]) -> Path:
    """Find the weights of a model in the package, by its name, or of a weights file or a run's folder, by its path."""
    if name in list_models():
        return _WEIGHTS / f"{name}.safetensors"
    path = Path(name)
    file = path / "weights.safetensors" if path.is_dir() else path
    if path.is_dir() and not file.exists():
        raise ValueError(f"{name}: holds no weights (weights.safetensors); train there first with qec train")
    if not file.is_file():
        raise ValueError(
            f"{name}: is neither a model in the package ({', '.join(list_models())}) nor a weights file nor the folder "
            "of a run; give one of these"
        )
    return file
