"""The losses of a batch, and the schedule of the learning rate."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from qecnet.nn import Prediction, Whole, cross_entropy, rotation_loss, spread_loss, upright_distance
from qecnet.training.settings import Settings


class Losses(NamedTuple):
    """Means over a batch: the total that is minimised, and its parts; the pose loss is δ/π, unweighted.

    The loss of the whole shapes' centre and size is a part of the total only.
    """

    total: Tensor
    classification: Tensor
    pose: Tensor


_WHOLE = 0.5
"""Weight of the centre and size of the whole shapes, both relative to the radius of the cloud."""


def losses(
    prediction: Prediction,
    labels: Tensor,
    turns: Tensor,
    settings: Settings,
    wholes: Whole | None = None,
    prior: Tensor | None = None,
) -> Losses:
    """Compute the losses of a batch.

    Args:
        prediction: for the L labelled shapes, or for 2L clouds, two subsamples of each, for the siamese loss.
        labels: (L), −1 for a shape without a class.
        turns: (classes + 1) number of rotations about z that leave a class unchanged, see `upright_distance`.
        settings: of the run.
        wholes: where the whole shapes are; None if all clouds are whole.
        prior: (classes) log frequencies of the classes that the loss corrects for, see `class_prior`.
    """
    pairs = len(prediction.activations) // len(labels)
    every = labels.repeat(pairs)
    named = every >= 0
    share = named.float().mean()
    classification = share * _classification(prediction.activations[named], every[named], settings, prior)
    beside = [ballot.scores.softmax(-1) for ballot in prediction.ballots[:-1]]
    beside += prediction.side_activations
    for activations in beside:
        further = _classification(activations[named], every[named], settings, prior)
        classification = classification + share * further / 2
    total, pose = classification, torch.zeros_like(classification)
    # In training, the pose is that of the true class's capsule, whatever its activation.
    if settings.siamese > 0:
        between = rotation_loss(*prediction.pose_of(every).chunk(2)) / math.pi
        total, pose = total + settings.siamese * between, pose + between
    if settings.aligned > 0:
        upright = _from_upright(prediction, every, turns[every])
        total, pose = total + settings.aligned * upright, pose + upright
    if prediction.whole is not None:
        total = total + _WHOLE * _from_whole(prediction.whole, wholes)
    return Losses(total, classification, pose)


def _from_whole(found: Whole, wholes: Whole | None) -> Tensor:
    """Mean distance of centres and of logarithms of sizes."""
    offset, growth = found.offset, found.growth
    if wholes is not None:
        offset, growth = offset - wholes.offset, growth - wholes.growth
    return torch.mean(offset.norm(dim=-1) + growth.abs())


def class_prior(labels: Tensor, classes: int, balance: float) -> Tensor | None:
    """Compute the log frequencies of the classes that the loss corrects for.

    The cross-entropy is logit-adjusted (Menon et al. 2021): a network that is trained with log frequencies added to its
    scores predicts without them as if all classes were equally frequent. The spread loss, whose activations are not
    probabilities, is weighted by the inverse frequencies instead.

    Args:
        labels: (N) of the training shapes, −1 for a shape without a class.
        classes: their number; a class without shapes counts as one with a single shape.
        balance: 0 for none (the result is None), 1 for the full adjustment.

    Returns:
        (classes), float32: log frequencies times `balance`, shifted such that the weights `exp(−prior)` have a mean of
        1 over the training shapes.
    """
    if balance == 0:
        return None
    counts = torch.bincount(labels[labels >= 0], minlength=classes).clamp_min(1).float()
    frequencies = (counts / counts.sum()).log()
    return balance * frequencies + ((1 - balance) * frequencies).logsumexp(0)


def _classification(activations: Tensor, labels: Tensor, settings: Settings, prior: Tensor | None) -> Tensor:
    if not len(labels):  # a process whose shapes have no classes still takes part in the gradients
        return activations.sum()
    if settings.loss == "spread":
        weights = None if prior is None else (-prior).exp()
        return spread_loss(activations, labels, settings.margin, weights)
    if prior is not None:
        activations = activations * prior.exp()
    return cross_entropy(activations, labels, settings.smoothing)


def _from_upright(prediction: Prediction, labels: Tensor, turns: Tensor) -> Tensor:
    """Mean distance δ/π from upright of the poses, and of their votes weighted by trust, summed over the looks.

    For a network with a loss of its own for poses, that one.
    """
    if prediction.pose_loss is not None:
        return prediction.pose_loss.mean()
    distance = upright_distance(prediction.pose_of(labels), turns)
    each = torch.arange(len(labels), device=labels.device)
    for ballot in prediction.ballots:
        votes, trust = ballot.votes[each, labels], ballot.trust[each, labels]
        distance = distance + (trust * upright_distance(votes, turns[:, None].expand_as(trust))).sum(-1)
    for ballot in prediction.ballots[:-1]:
        distance = distance + upright_distance(ballot.poses[each, labels], turns)
    return distance.mean() / math.pi


def learning_rate(settings: Settings, progress: float) -> float:
    """Compute the learning rate: constant, or one cycle (Smith & Topin 2018).

    One cycle rises from 1/25 of the setting to its peak at 30% of the run, then falls to 1/10,000, both along a cosine.
    """
    if settings.schedule == "constant":
        return settings.learning_rate
    rise = 0.3
    if progress < rise:
        low, share = 1 / 25, progress / rise
    else:
        low, share = 1e-4, 1 - (progress - rise) / (1 - rise)
    return settings.learning_rate * (low + (1 - low) * (1 - math.cos(math.pi * share)) / 2)
