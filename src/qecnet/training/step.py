"""One step of training: forward, losses, gradients, optimizers."""

import copy
import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from qecnet.datasets import derive_seed
from qecnet.models import weights_file
from qecnet.nn import Network, start_from
from qecnet.training.averaging import update_average
from qecnet.training.batches import Batch
from qecnet.training.checkpoint import State
from qecnet.training.distributed import Processes
from qecnet.training.objective import learning_rate, losses
from qecnet.training.settings import Settings

_NETWORK = 4
"""Stream of random numbers, besides those of `batches`."""


def initial_network(settings: Settings, classes: Sequence[str]) -> Network:
    """Create the network with the weights that training starts from: random ones, or those of another run.

    Raises:
        ValueError: if the weights of `start` belong to another kind of frames or another configuration.
    """
    # PyTorch's layers draw from the global generator, whose state must not change for other code.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        network = settings.create_network(len(classes))
        if settings.start:
            same = start_from(network, classes, weights_file(settings.start), settings.method, settings.sign)
            if settings.only and not same:
                raise ValueError(
                    f"only is {settings.only!r}, but {settings.start} has different classes, "
                    "so all parts have to be trained; omit only"
                )
        if settings.start_part:
            part = weights_file(settings.start_part)
            start_from(network, classes, part, settings.method, settings.sign, settings.only)
    if settings.only:
        network.train_only(settings.only)
    if settings.precision == "bfloat16":
        network.use_mixed_precision()
    return network


def new_state(settings: Settings, classes: Sequence[str], device: torch.device) -> State:
    """Create the state of a run before its first step: the network and its optimizer on a device."""
    network = initial_network(settings, classes).to(device)
    average = copy.deepcopy(network).requires_grad_(False) if settings.ema > 0 else None
    if average is not None and settings.precision == "bfloat16":
        average.use_mixed_precision(False)  # its statistics are measured for answers, in float32
    return State(network, create_optimizers(network, settings), average)


def create_optimizers(network: Network, settings: Settings) -> dict[str, torch.optim.Optimizer]:
    """Create AdamW for all parameters, or Muon for the matrices and AdamW for the rest.

    Muon scales its steps to the size of AdamW's ("match_rms_adamw", Liu et al. 2025), so that one learning rate and one
    weight decay suit both.

    Returns:
        Optimizers by the name under which a checkpoint keeps their state.

    Raises:
        ValueError: if the settings ask for Muon and the installed torch has none.
    """
    rate, decay = settings.learning_rate, settings.weight_decay
    parameters = [parameter for parameter in network.parameters() if parameter.requires_grad]
    if settings.optimizer == "adamw":
        return {"optimizer": torch.optim.AdamW(parameters, rate, weight_decay=decay)}
    if not hasattr(torch.optim, "Muon"):
        raise ValueError(f"optimizer is muon, which torch {torch.__version__} lacks; install torch 2.9 or newer")
    matrices = [parameter for parameter in parameters if parameter.dim() == 2]
    rest = [parameter for parameter in parameters if parameter.dim() != 2]
    return {
        "optimizer": torch.optim.AdamW(rest, rate, weight_decay=decay),
        "muon": torch.optim.Muon(matrices, rate, weight_decay=decay, adjust_lr_fn="match_rms_adamw"),
    }


def train_step(
    module: nn.Module,
    state: State,
    batch: Batch,
    turns: Tensor,
    settings: Settings,
    progress: float,
    processes: Processes,
    prior: Tensor | None = None,
) -> dict[str, float]:
    """Take one training step, which changes the network, the average and the optimizers of `state`.

    `module` is that network, wrapped by `Processes.wrap`, `batch` is this process's part of the batch, `progress` is
    the fraction of the run that is completed, and `turns` and `prior` are those of `losses`.

    Returns:
        Sums over this process's shapes; they add up over processes.

    Raises:
        ValueError: if the gradient is not finite; the weights are then unchanged.
    """
    for optimizer in state.optimizers.values():
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(settings, progress)
        optimizer.zero_grad()
    # Networks draw from the global generator: the same after a resume, and for each process.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive_seed(settings.seed, _NETWORK, state.epoch, state.step))
        prediction = module(batch.points)
    found = losses(prediction, batch.labels, turns, settings, batch.wholes, prior)
    shapes = len(batch.labels)
    # Gradients are averaged over processes, some of which may have one shape more than others.
    loss = found.total * (shapes * processes.count / settings.batch_size)
    loss.backward()  # type: ignore[no-untyped-call]
    norm = nn.utils.clip_grad_norm_(state.network.parameters(), settings.clip or math.inf)
    if not math.isfinite(norm):
        raise ValueError(
            f"the gradient is not finite in epoch {state.epoch + 1}, step {state.step + 1}; "
            f"learning_rate is {settings.learning_rate}: set a lower one, or a limit with clip, in a new --out"
        )
    for optimizer in state.optimizers.values():
        optimizer.step()
    if state.average is not None:
        update_average(state.average, state.network, settings.ema)
    right = (prediction.label.view(-1, shapes) == batch.labels).double().mean(0).sum()
    sums = {name: shapes * value.item() for name, value in zip(found._fields, found, strict=True)}
    labelled = (batch.labels >= 0).sum().item()
    return {"shapes": float(shapes), "labelled": float(labelled), "correct": right.item(), **sums}
