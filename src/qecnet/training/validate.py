"""Validation on held-out shapes, upright (NR) and rotated (AR)."""

import math
from collections.abc import Iterator
from itertools import chain

import torch
from torch import Tensor

from qecnet.algebra import conjugate, multiply
from qecnet.datasets import stratified_split
from qecnet.nn import Calibration, Network, fit_calibration, upright_distance
from qecnet.outcome import Validation
from qecnet.training.batches import Batch, prefetch, validation_batches
from qecnet.training.distributed import Processes
from qecnet.training.unlabelled import TrainingFrames

_BATCH = 16


def held_out(labels: Tensor, share: float) -> tuple[Tensor, Tensor]:
    """Split shapes into training and validation indices, stratified by class; the split does not depend on a seed."""
    if share == 0:
        return torch.arange(len(labels)), torch.arange(0)
    groups = torch.where(labels >= 0, labels, labels.amax() + 1)
    kept, held = stratified_split(groups.tolist(), share, seed=0)
    return torch.tensor(kept), torch.tensor(held)


def validate(
    network: Network, cache: TrainingFrames, shapes: Tensor, turns: Tensor, processes: Processes, *, views: bool = False
) -> Validation:
    """Measure accuracy and orientation error on held-out shapes, under the protocol "paper".

    If there are none, all figures are None.

    The network is evaluated in evaluation mode and left in training mode. `turns` are (classes + 1) symmetries, as in
    `upright_distance`, the last of shapes without a class. With `views`, the last subsample of each shape is a view.
    """
    if not len(shapes):
        return Validation()
    there = torch.bincount(cache.labels[shapes][cache.labels[shapes] >= 0], minlength=len(turns) - 1)
    mine = shapes[processes.piece(len(shapes))]

    def measure(*, rotated: bool, subsampling: int = 0) -> tuple[float, float | None, float]:
        """The accuracy, the orientation error and the mean of the classes' accuracies."""
        tested = validation_batches(cache, mine, _BATCH, rotated=rotated, subsampling=subsampling)
        *correct, pose = processes.total(*_count(network, tested, turns, processes.device))
        shares = (torch.tensor(correct, dtype=torch.float64) / there)[there > 0]
        accuracy = sum(correct) / max(int(there.sum()), 1)
        mean = float(shares.mean()) if len(shares) else 0.0
        return accuracy, pose / len(shapes) if network.has_poses else None, mean

    upright = measure(rotated=False)[0]
    accuracy, pose, mean = measure(rotated=True)
    of_views = measure(rotated=True, subsampling=cache.subsamplings - 1) if views else (None, None, None)
    return Validation(
        validation_nr=upright,
        validation_ar=accuracy,
        validation_pose=pose,
        validation_class_mean=mean,
        validation_views=of_views[0],
        validation_views_pose=of_views[1],
        validation_views_class_mean=of_views[2],
    )


def _count(
    network: Network, batches: Iterator[tuple[Batch, Tensor]], turns: Tensor, device: torch.device
) -> list[float]:
    """How many shapes of each class are classified correctly, and last the sum of orientation errors."""
    network.eval()
    correct, pose = torch.zeros(len(turns) - 1), 0.0
    with torch.inference_mode():
        for batch, turn in prefetch(batches):
            on_device = batch.to(device)
            prediction, labels = network(on_device.points), on_device.labels
            correct += torch.bincount(labels[prediction.label == labels], minlength=len(correct)).cpu()
            poses = prediction.pose_of(torch.where(labels >= 0, labels, prediction.label))
            error = multiply(conjugate(turn.to(device)), poses)
            pose += float(upright_distance(error, turns[labels]).sum()) / math.pi
    network.train()
    return [*correct.tolist(), pose]


def calibrate(
    network: Network,
    cache: TrainingFrames,
    shapes: Tensor,
    device: torch.device,
    *,
    views: bool = False,
    seen: bool = False,
) -> Calibration:
    """Fit temperatures on the rotated held-out shapes: of the classes, and of the orientations of a network with any.

    The network is evaluated in evaluation mode and left in training mode. With `views`, the last subsample of each
    shape is a view, on which they are fitted as well. `seen` is that of `fit_calibration`. Without shapes, the result
    is the default.
    """
    if not len(shapes):
        return Calibration()
    network.eval()
    subsamplings = (0, cache.subsamplings - 1) if views else (0,)
    parts = [validation_batches(cache, shapes, _BATCH, rotated=True, subsampling=s) for s in subsamplings]
    predictions, rotations = [], []
    with torch.inference_mode():
        for batch, turn in prefetch(chain.from_iterable(parts)):
            predictions.append(network(batch.to(device).points))
            rotations.append(turn)
    network.train()
    labels = cache.labels[shapes].repeat(len(subsamplings))
    return fit_calibration(predictions, labels, torch.cat(rotations), seen)
