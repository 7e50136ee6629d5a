"""Models by name, and from files."""

import os
from dataclasses import replace
from pathlib import Path

import torch

from qecnet.models.inputs import prepare_config
from qecnet.models.model import Model
from qecnet.nn import Calibration, load_network
from qecnet.schema import decode

_WEIGHTS = Path(__file__).parent / "weights"
_FAST_POINTS, _FAST_FRAMES = 4096, 512
_WITHOUT_CLASSES = {"upright": "modelnet40"}  # aliases: the weights of another model, loaded without its classes


def list_models() -> list[str]:
    """List the names of the models in the package, for `load`.

    Returns:
        The names, sorted.
    """
    return sorted([*(path.stem for path in _WEIGHTS.glob("*.safetensors")), *_WITHOUT_CLASSES])


def load(
    name: str | os.PathLike[str], device: torch.device | str = "cpu", *, poses: bool = True, fast: bool = False
) -> Model:
    """Load a trained model.

    Args:
        name: of a model in the package, or the path of a weights file or of the folder of a run of `qec train`.
        device: where the network runs.
        poses: whether the network must predict poses; evaluation also measures baselines that only classify.
        fast: trade some accuracy for time: 4,096 points describe a shape, and a network that verifies
            candidates sees 512 frames and reads only the best one.

    Returns:
        The model.

    Raises:
        ValueError: if there are no such weights, they are damaged, or their network has no poses.
    """
    file = weights_file(name)
    network, classes, about = load_network(file)
    if poses and not network.has_poses:
        raise ValueError(f"{name}: its network predicts no poses; give weights of one that does")
    config = replace(prepare_config(about.get("settings"), file), candidates=network.reads_candidates)
    if fast:
        frames = min(config.frames, _FAST_FRAMES) if network.reads_candidates else config.frames
        config = replace(config, points=min(config.points, _FAST_POINTS), frames=frames)
        network.read_less()
    calibration = decode(about, Calibration, file)
    model = Model(os.fspath(name), network, tuple(classes), config, calibration, about["settings"])
    return (model.without_classes() if name in _WITHOUT_CLASSES else model).to(device)


def weights_file(name: str | os.PathLike[str]) -> Path:
    """Find the weights file of a model.

    Args:
        name: of a model in the package, or the path of a weights file or of the folder of a run.

    Returns:
        The path of the file.

    Raises:
        ValueError: if there is none.
    """
    if name in list_models():
        return _WEIGHTS / f"{_WITHOUT_CLASSES.get(str(name), name)}.safetensors"
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
