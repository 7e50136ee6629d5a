"""How often a network is right on shapes that it was not trained on, as they stand (NR) and turned (AR)."""

from __future__ import annotations

import torch
from torch import Tensor

from qecnet.data import FrameCache, stratified
from qecnet.nn import Network
from qecnet.training.batches import prefetched, validation_batches
from qecnet.training.distributed import Processes

_BATCH = 16


def held_out(labels: Tensor, share: float) -> tuple[Tensor, Tensor]:
    """Indices of the shapes to train on and of those to validate on, class by class, the same for each seed."""
    if share == 0:
        return torch.arange(len(labels)), torch.arange(0)
    kept, held = stratified(labels.tolist(), share, seed=0)
    return torch.tensor(kept), torch.tensor(held)


def validate(network: Network, cache: FrameCache, shapes: Tensor, processes: Processes) -> dict[str, float | None]:
    """Accuracies 0..1 under NR and AR, the protocol "paper"; None where nothing was held out."""
    found: dict[str, float | None] = {"validation_nr": None, "validation_ar": None}
    if not len(shapes):
        return found
    mine = shapes[processes.piece(len(shapes))]
    network.eval()
    for name, turned in (("validation_nr", False), ("validation_ar", True)):
        correct = 0
        with torch.inference_mode():
            for batch in prefetched(validation_batches(cache, mine, _BATCH, turned=turned)):
                on_device = batch.to(processes.device)
                correct += int((network(*on_device.inputs()).label == on_device.labels).sum())
        (right,) = processes.total(correct)
        found[name] = right / len(shapes)
    network.train()
    return found
