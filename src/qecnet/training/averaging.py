"""The moving average of a network's weights, and the statistics that its normalisation needs."""

from collections.abc import Iterator
from itertools import islice

import torch
from torch import nn

from qecnet.nn import Network
from qecnet.training.batches import Batch

_BATCHES = 16
_SEED = 5


def update_average(average: Network, network: Network, decay: float) -> None:
    """Move the averaged weights a share of 1 − decay toward the network's; buffers are copied."""
    for kept, new in zip(average.parameters(), network.parameters(), strict=True):
        kept.lerp_(new.detach(), 1 - decay)
    for mine, current in zip(average.buffers(), network.buffers(), strict=True):
        mine.copy_(current)


def recalibrate(average: Network, batches: Iterator[Batch], device: torch.device) -> None:
    """Measure the batch normalisation's means and variances with the averaged weights.

    Those of the network that is trained belong to other weights: while the learning rate is high, an average that
    takes them is much worse than either. The first 16 batches are used. The average is left in training mode; without
    batch normalisation, nothing changes.
    """
    trained = average.get_submodule(average.only)
    layers = [layer for layer in trained.modules() if isinstance(layer, (nn.BatchNorm1d, nn.BatchNorm2d))]
    if not layers:
        return
    momenta = [layer.momentum for layer in layers]
    for layer in layers:
        layer.reset_running_stats()
        layer.momentum = None  # the mean over all batches
    average.train()
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(_SEED)
        for batch in islice(batches, _BATCHES):
            average(batch.to(device).points)
    for layer, momentum in zip(layers, momenta, strict=True):
        layer.momentum = momentum
