"""Networks by name: how one is registered, found and created."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from ..schema import decode
from .network import Network, NetworkConfig


@dataclass(frozen=True)
class RegisteredNetwork:
    """What a name stands for.

    Attributes:
        network: the class, whose attributes say what it predicts and reads.
        config: its configuration; the number of classes is set when a network is created.
        training: the settings of training that are usual for it, by name.
    """

    network: type[Network]
    config: NetworkConfig
    training: Mapping[str, Any]


_NETWORKS: dict[str, RegisteredNetwork] = {}


def register_network(
    name: str, network: type[Network], config: NetworkConfig, training: Mapping[str, Any] | None = None
) -> None:
    """Make a network known by name, to `create_network`, weight files and training.

    Args:
        name: as in `create_network(name)` and `qec train --config name`.
        network: its class, made with the configuration as only argument.
        config: its configuration; the number of classes is set when it is created.
        training: settings of training that are usual for it, by name.
    """
    _NETWORKS[name] = RegisteredNetwork(network, config, training or {})


def list_networks() -> list[str]:
    """List the names of the registered networks, for `create_network`.

    Returns:
        The names, in the order in which they were registered.
    """
    return list(_NETWORKS)


def find_network(name: str) -> RegisteredNetwork:
    """Look up a registered network.

    Args:
        name: of the network.

    Returns:
        Its class, its configuration, and how it is usually trained.

    Raises:
        ValueError: if there is none of that name.
    """
    if name not in _NETWORKS:
        raise ValueError(f"network is {name!r}; it must be one of {', '.join(_NETWORKS)}, or be registered first")
    return _NETWORKS[name]


def create_network(name: str, classes: int, **options: Any) -> Network:
    """Create a registered network, with first weights from torch's global generator.

    Args:
        name: "paper", "features", "upright", or one that was registered by `register_network`.
        classes: number of classes.
        options: fields of its configuration that differ from the registered ones.

    Returns:
        The network, untrained.
    """
    found = find_network(name)
    return found.network(replace(found.config, classes=classes, **options))


def network_name(network: Network) -> str:
    """The first name that the network's class was registered under."""
    return next(name for name, entry in _NETWORKS.items() if entry.network is type(network))


def read_config(name: Any, options: Any, path: Path) -> tuple[type[Network], NetworkConfig]:
    """The class and the configuration of a registered network from the JSON in a file.

    Raises:
        ValueError: for a name that is not registered, and for options that do not fit its configuration.
    """
    if not isinstance(name, str):
        raise ValueError(f"network is {name!r}; it must be a name")
    entry = find_network(name)
    options = {**entry.network.former, **options} if isinstance(options, dict) else options
    config = decode(options, type(entry.config), path, "config")
    if unknown := {*options} - {field.name for field in fields(config)}:
        raise ValueError(f"config has {min(unknown)!r}, which the network {name} does not know")
    return entry.network, config
