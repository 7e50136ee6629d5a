"""Validation on held-out shapes, upright (NR) and rotated (AR)."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from qecnet.algebra import conjugate, multiply
from qecnet.datasets import stratified_split
from qecnet.nn import Network, fit_temperature, upright_distance
from qecnet.training.batches import prefetched, validation_batches
from qecnet.training.distributed import Processes
from qecnet.training.unlabelled import Frames

_BATCH = 16


def held_out(labels: Tensor, share: float) -> tuple[Tensor, Tensor]:
    """Split shapes into training and validation indices, stratified by class; the split does not depend on a seed."""
    if share == 0:
        return torch.arange(len(labels)), torch.arange(0)
    groups = torch.where(labels >= 0, labels, labels.amax() + 1)
    kept, held = stratified_split(groups.tolist(), share, seed=0)
    return torch.tensor(kept), torch.tensor(held)


def validate(
    network: Network, cache: Frames, shapes: Tensor, turns: Tensor, processes: Processes
) -> dict[str, float | None]:
    """Measure accuracy and orientation error on held-out shapes, under the protocol "paper".

    Args:
        network: is evaluated in evaluation mode and left in training mode.
        cache: the frames.
        shapes: indices of the held-out shapes.
        turns: (classes + 1) symmetries, as in `upright_distance`, the last of shapes without a class.
        processes: this process among those of the run.

    Returns:
        Accuracies under NR and AR, 0 to 1, and the orientation error δ/π of the true class under AR, up to symmetry; of
        shapes without a class, that of the predicted one, up to the azimuth.
        None if no shapes are held out, and for the orientation of a network without poses.
    """
    names = ("validation_nr", "validation_ar", "validation_pose")
    if not len(shapes):
        return dict.fromkeys(names)
    mine = shapes[processes.piece(len(shapes))]
    network.eval()
    sums: list[float] = []
    for rotated in (False, True):
        correct, pose = 0, 0.0
        with torch.inference_mode():
            for batch, turn in prefetched(validation_batches(cache, mine, _BATCH, rotated=rotated)):
                on_device = batch.to(processes.device)
                said, labels = network(on_device.points), on_device.labels
                correct += int((said.label == labels).sum())
                poses = said.pose_of(torch.where(labels >= 0, labels, said.label))
                error = multiply(conjugate(turn.to(processes.device)), poses)
                pose += float(upright_distance(error, turns[labels]).sum()) / math.pi
        sums += processes.total(correct, pose)
    network.train()
    labelled = max(int((cache.labels[shapes] >= 0).sum()), 1)
    pose = sums[3] / len(shapes) if network.has_poses else None
    return dict(zip(names, (sums[0] / labelled, sums[2] / labelled, pose), strict=True))


def held_out_temperature(network: Network, cache: Frames, shapes: Tensor, device: torch.device) -> float:
    """Fit the temperature (see `fit_temperature`) on the rotated held-out shapes; 1 if there are none."""
    shapes = shapes[cache.labels[shapes] >= 0]
    if not len(shapes):
        return 1.0
    network.eval()
    with torch.inference_mode():
        batches = prefetched(validation_batches(cache, shapes, _BATCH, rotated=True))
        said = [network(batch.to(device).points).activations.cpu() for batch, _ in batches]
    network.train()
    return fit_temperature(torch.cat(said), cache.labels[shapes])
