"""Checkpoints: the state of a run in one safetensors file, tensors and a line of JSON; loading executes no code.

A new checkpoint is written to a temporary file and renamed, so that a complete one exists at every moment.
"""

import reprlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from qecnet.files import read_tensors, write_tensors
from qecnet.nn import Network
from qecnet.outcome import Epoch
from qecnet.schema import decode


@dataclass
class State:
    """Everything that changes during a run.

    Attributes:
        network: the network that is trained.
        optimizers: by the name under which a checkpoint keeps their state.
        average: the moving average of the network's weights, where the settings ask for it.
        epoch, step: of the next step; steps count from 0 in each epoch.
        totals: sums over the steps of this epoch so far.
        rows: of the log, one for each completed epoch.
        reduced: the result after the last epoch, where the settings ask for a lower rank; not in a checkpoint.
    """

    network: Network
    optimizers: dict[str, torch.optim.Optimizer]
    average: Network | None
    epoch: int = 0
    step: int = 0
    totals: dict[str, float] = field(default_factory=dict)
    rows: list[Epoch] = field(default_factory=list)
    reduced: Network | None = None

    @property
    def result(self) -> Network:
        """The network that is validated and saved."""
        return self.reduced or self.average or self.network

    def _parts(self) -> dict[str, Network]:
        return {"network": self.network} | ({"average": self.average} if self.average else {})


def save_checkpoint(path: Path, state: State, origin: dict[str, Any]) -> None:
    """Write a checkpoint; `origin` describes the training data and is compared when it is loaded."""
    tensors: dict[str, Tensor] = {}
    for part, network in state._parts().items():
        tensors |= {f"{part}/{name}": tensor for name, tensor in network.state_dict().items()}
    for part, optimizer in state.optimizers.items():
        for number, moments in optimizer.state_dict()["state"].items():
            tensors |= {f"{part}/{number}/{name}": tensor for name, tensor in moments.items()}
    rows = [asdict(row) for row in state.rows]
    rest = {"origin": origin, "epoch": state.epoch, "step": state.step, "totals": state.totals, "rows": rows}
    write_tensors(path, tensors, rest)


def load_checkpoint(path: Path, state: State, origin: dict[str, Any]) -> None:
    """Load a checkpoint into a new `state`.

    Raises:
        ValueError: if the file is damaged, or of other training data, another network or another optimizer.
    """
    tensors, found = read_tensors(path)
    about = decode(found, _About, path)
    then = found.get("origin", {})
    if not isinstance(then, dict) or then.keys() - origin.keys():
        raise ValueError(f"{path}: is damaged (origin); start a new run")
    for name, value in then.items():
        if origin[name] != value:
            before, now = (reprlib.repr(one) for one in (value, origin[name]))
            raise ValueError(
                f"{path}: was trained on different {name} ({before}) from those given now ({now}); give the same "
                "data, or start a new run"
            )
    try:
        for part, network in state._parts().items():
            network.load_state_dict(_below(tensors, part))
        for part, optimizer in state.optimizers.items():
            moments: dict[int, dict[str, Tensor]] = {}
            for name, tensor in _below(tensors, part).items():
                number, _, moment = name.partition("/")
                moments.setdefault(int(number), {})[moment] = tensor
            groups = optimizer.state_dict()["param_groups"]
            optimizer.load_state_dict({"state": moments, "param_groups": groups})
        state.epoch, state.step, state.totals, state.rows = about.epoch, about.step, dict(about.totals), [*about.rows]
    except (KeyError, RuntimeError, ValueError) as error:
        raise ValueError(f"{path}: does not match the run's settings; start a new run") from error


@dataclass(frozen=True)
class _About:
    """The content of a checkpoint besides its tensors."""

    epoch: int
    step: int
    totals: Mapping[str, float]
    rows: tuple[Epoch, ...]

    def __post_init__(self) -> None:
        if min(self.epoch, self.step) < 0:
            raise ValueError(f"epoch is {self.epoch} and step {self.step}; both must be at least 0")


def _below(tensors: dict[str, Tensor], part: str) -> dict[str, Tensor]:
    """Select the tensors under `part/`, by the rest of their names."""
    return {name.removeprefix(f"{part}/"): tensor for name, tensor in tensors.items() if name.startswith(f"{part}/")}
