"""What is made small and how fast: losses of a batch, the learning rate and the margin over the course of a run."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from qecnet.nn import Prediction, cross_entropy, rotation_loss, spread_loss, spread_margin
from qecnet.training.settings import Settings


class Losses(NamedTuple):
    """Means over a batch: what is minimised, and its two parts (δ/π, unweighted, for the pose)."""

    total: Tensor
    classification: Tensor
    pose: Tensor


def losses(prediction: Prediction, labels: Tensor, settings: Settings, progress: float) -> Losses:
    """Of a batch whose clouds are the labelled shapes (L), or these twice: pairs, for the siamese loss."""
    pairs = len(prediction.activations) // len(labels)
    every = labels.repeat(pairs)
    if settings.loss == "spread":
        classification = spread_loss(prediction.activations, every, spread_margin(progress, *settings.margin))
    else:
        classification = cross_entropy(prediction.activations, every)
    if settings.siamese == 0:
        return Losses(classification, classification, torch.zeros_like(classification))
    # In training the poses are those of the true class's capsule, however it is activated.
    pose = rotation_loss(*prediction.pose_of(every).chunk(2)) / math.pi
    return Losses(classification + settings.siamese * pose, classification, pose)


def learning_rate(settings: Settings, progress: float) -> float:
    """At a share of the run from 0 to 1: constant, or one cycle (Smith & Topin 2018) with its peak at three tenths.

    One cycle rises from 1/25 of the learning rate and falls to 1/10,000 of it, both along a cosine.
    """
    if settings.schedule == "constant":
        return settings.learning_rate
    rise = 0.3
    if progress < rise:
        low, share = 1 / 25, progress / rise
    else:
        low, share = 1e-4, 1 - (progress - rise) / (1 - rise)
    return settings.learning_rate * (low + (1 - low) * (1 - math.cos(math.pi * share)) / 2)
