"""Weights of networks in one file each: safetensors, nothing that is ever executed."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..files import read_tensors, write_tensors
from ..schema import check_names, decode, first_line
from .network import Network
from .registry import network_name, read_config


def save_network(path: Path, network: Network, classes: Sequence[str], about: Mapping[str, Any]) -> None:
    """Write weights with what is needed to create the network again.

    Args:
        path: the file, *.safetensors.
        network: of a registered class.
        classes: their names, in the order of its outputs.
        about: further data to store, as JSON.
    """
    config = {"network": network_name(network), "config": asdict(network.config), "classes": list(classes)}
    write_tensors(path, network.state_dict(), config | dict(about))


def load_network(path: Path) -> tuple[Network, list[str], dict[str, Any]]:
    """Read what `save_network` wrote.

    Everything is checked before a network is created, so a damaged file cannot make it allocate memory.

    Args:
        path: the weights file.

    Returns:
        The network in evaluation mode, its class names, and everything that was stored along with them.

    Raises:
        ValueError: for a file that is damaged, or of a network that is not registered.
    """
    tensors, about = read_tensors(path)
    try:
        if "network" not in about:
            tensors, about = _from_version_1(tensors, about)
        kind, config = read_config(about["network"], about["config"], path)
        classes = decode(about, _Classes, path).classes
        if len(classes) != config.classes:
            raise ValueError(f"it names {len(classes)} classes; its network has {config.classes}")
        with torch.device("meta"):
            _check_tensors(tensors, kind(config).state_dict())
        network = kind(config)
        network.load_state_dict(tensors)
    except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        reason = first_line(error).removeprefix(f"{path}: ")
        raise ValueError(f"{path}: holds weights that this version of qecnet cannot read ({reason})") from error
    return network.eval(), [*classes], about


@dataclass(frozen=True)
class _Classes:
    classes: tuple[str, ...]

    def __post_init__(self) -> None:
        check_names("classes", self.classes)


def _check_tensors(found: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> None:
    """Raise a ValueError unless names, shapes and types are as expected, and every value is finite."""
    if found.keys() != expected.keys():
        raise ValueError(
            f"the tensor {min(found.keys() ^ expected.keys())!r} is missing or does not belong to this network"
        )
    for name, tensor in found.items():
        if tensor.shape != expected[name].shape:
            shapes = f"{tuple(tensor.shape)}; it must be {tuple(expected[name].shape)}"
            raise ValueError(f"the tensor {name!r} has shape {shapes}")
        if tensor.is_floating_point() != expected[name].is_floating_point() or tensor.is_complex():
            raise ValueError(f"the tensor {name!r} has type {tensor.dtype}; it must be {expected[name].dtype}")
        if not tensor.isfinite().all():
            raise ValueError(f"the tensor {name!r} has values that are not finite")


def start_from(
    network: Network, classes: Sequence[str], path: Path, method: str, sign: str = "inward", part: str = ""
) -> bool:
    """Copy the weights of a file into a network of the same configuration, to train it further.

    Of layers with one row for each class (`Network.class_rows`), the rows of classes with the same name are copied.
    Other parameters that depend on the classes are copied only if the classes are the same. What is not copied stays as
    it is in `network`. Either network may lack `Network.parts` of the other; fields that are `adjustable` may differ,
    and those that are `growing` may be larger in `network`.

    Args:
        network: gets the weights.
        classes: names of its classes.
        path: of the weights.
        method: of the frames; weights that were trained on frames of another method are refused.
        sign: of the frames' normals, likewise.
        part: one of `Network.parts`, to copy nothing else; by default, everything is copied.

    Returns:
        Whether the classes are the same.
    """
    found, others, about = load_network(path)
    settings = about.get("settings", {})
    if (frames := settings.get("method", method) if isinstance(settings, dict) else None) != method:
        raise ValueError(f"{path}: was trained on {frames} frames, not on {method}; start with --set method={frames}")
    if (side := settings.get("sign", "inward")) != sign:
        raise ValueError(
            f"{path}: was trained on frames with the sign {side}, not {sign}; start with --set sign={side}"
        )
    grown = [name for name in network.growing if getattr(network.config, name) >= getattr(found.config, name, 0)]
    may_differ = {
        name: getattr(network.config, name) for name in ("classes", *network.adjustable, *grown, *network.parts)
    }
    if type(found) is not type(network) or vars(found.config) | may_differ != vars(network.config):
        raise ValueError(
            f"{path}: is a different network from the one in the settings; give the settings it was trained with"
        )
    if part and not getattr(found.config, part):
        raise ValueError(f"{path}: has no part {part} to start from; give weights that have it")
    given, tensors = network.state_dict(), found.state_dict()
    if list(classes) != others:
        with torch.device("meta"):
            larger = type(found)(replace(found.config, classes=len(others) + 1)).state_dict()
        for name, tensor in tensors.items():
            if tensor.shape != larger[name].shape and name in given:
                rows = name.rpartition(".")[0] in network.class_rows
                tensors[name] = _copy_rows(tensor, others, given[name], classes) if rows else given[name]
    prefix = f"{part}." if part else ""
    chosen = {name: tensor for name, tensor in tensors.items() if name in given and name.startswith(prefix)}
    network.load_state_dict(given | chosen)
    return list(classes) == others


def parts_left_out(network: Network, path: Path) -> list[str]:
    """List the parts that weights have and a network that starts from them does not.

    Args:
        network: of the same kind.
        path: of the weights.

    Returns:
        Names of `Network.parts`.
    """
    config = load_network(path)[0].config
    return [name for name in network.parts if getattr(config, name) and not getattr(network.config, name)]


def _copy_rows(source: Tensor, names: Sequence[str], target: Tensor, wanted: Sequence[str]) -> Tensor:
    """Replace the rows of a tensor by those of another one that have the same names."""
    rows = {name: row for row, name in enumerate(names)}
    return torch.stack([source[rows[name]] if name in rows else row for name, row in zip(wanted, target, strict=True)])


def count_parameters(network: torch.nn.Module) -> int:
    """Count the values that a network learns.

    Args:
        network: any module.

    Returns:
        Their number.
    """
    return sum(p.numel() for p in network.parameters())


def _from_version_1(tensors: dict[str, Tensor], about: dict[str, Any]) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Convert the content of a file that was written before networks had names."""
    config = dict(about["config"])
    if "kind" in config:
        return tensors, {**about, "network": config.pop("kind"), "config": config}
    features, levels = config.pop("features", None), config.pop("levels", ())
    config["frames"] = config.pop("points")
    if features is None:
        name, moved = "paper", {"levels.0.": "patches.", "head.": "classes."}
        config |= levels[0]
    else:
        name, moved = "features", {"head.": ""}
        config = {k: v for k, v in config.items() if k not in ("nonlinearity", "canonicalize")} | features
    for before, after in moved.items():
        tensors = {after + n.removeprefix(before) if n.startswith(before) else n: t for n, t in tensors.items()}
    return tensors, {**about, "network": name, "config": config}
