"""The linear layer of a reader's summary, and how a trained one is reduced to a lower rank.

A summary is read from many more values than there are kinds of shapes, so that a product of two narrow matrices does
nearly the same with a fraction of the parameters.
"""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from ..geometry import OrientedPoints

SUMMARY_SIZE = 256
"""Values of a summary."""


def summary_layer(given: int, rank: int) -> nn.Module:
    """A linear layer without bias from `given` values to a summary; of a rank above 0, a product of two."""
    if rank == 0:
        return nn.Linear(given, SUMMARY_SIZE, bias=False)
    return nn.Sequential(nn.Linear(given, rank, bias=False), nn.Linear(rank, SUMMARY_SIZE, bias=False))


@torch.no_grad()
def reduced_summaries(network: nn.Module, clouds: Iterable[OrientedPoints], rank: int) -> dict[str, Tensor]:
    """Reduce each `summary` of a network, followed by its `summary_normalised`, to the principal components of its
    normalised output.

    Args:
        network: reads clouds; left in evaluation mode.
        clouds: batches of what it was trained on; their summaries are measured.
        rank: number of components.

    Returns:
        The state of the same network with summary layers of this rank.

    Raises:
        ValueError: if there are no clouds.
    """
    layers = {name: layer for name, layer in network.named_modules() if name.rpartition(".")[2] == "summary"}
    found: dict[str, list[Tensor]] = {name: [] for name in layers}
    hooks = [
        layer.register_forward_hook(lambda _, __, output, name=name: found[name].append(output.double()))
        for name, layer in layers.items()
    ]
    network.eval()
    try:
        for points in clouds:
            network(points)
    finally:
        for hook in hooks:
            hook.remove()
    state = dict(network.state_dict())
    for name, layer in layers.items():
        if not found[name]:
            raise ValueError("there are no clouds to measure the summaries of; give at least one batch")
        assert isinstance(layer, nn.Linear)
        values, mean = torch.cat(found[name]), f"{name}_normalised.running_mean"
        normalised = network.get_submodule(f"{name}_normalised")
        assert isinstance(normalised, nn.BatchNorm1d)
        assert normalised.running_var is not None
        # What the normalisation hardly lets through counts little.
        scale = normalised.weight.double().abs().clamp_min(1e-3) / (normalised.running_var + normalised.eps).sqrt()
        centre = values.mean(0)
        scaled = (values - centre) * scale
        main = torch.linalg.eigh(scaled.t() @ scaled).eigenvectors[:, -rank:]
        there, back = main.t() * scale, main / scale[:, None]
        weight = state.pop(f"{name}.weight")
        state[f"{name}.0.weight"] = (there @ weight.double()).to(weight)
        state[f"{name}.1.weight"] = back.to(weight)
        # The mean summary stays as it is.
        state[mean] = (state[mean] + back @ (there @ centre) - centre).to(weight)
    return state
