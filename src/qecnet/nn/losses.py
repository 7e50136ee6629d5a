"""Losses for training: the spread loss, the rotation loss, and cross-entropy."""

import torch
from torch import Tensor

from ..algebra import angular_distance, from_azimuth


def spread_loss(
    activations: Tensor, labels: Tensor, margin: float = 0.1, class_weights: Tensor | None = None
) -> Tensor:
    """Compute the spread loss `Σ_{i≠t} max(0, m − (a_t − a_i))²`, averaged over clouds (Sabour et al. 2018).

    Args:
        activations: a, (B, C).
        labels: t, (B,).
        margin: m.
        class_weights: (C), by which the loss of each cloud is multiplied according to its label; None for ones.

    Returns:
        ().
    """
    _check(activations, labels)
    target = activations.gather(-1, labels[:, None])
    short = (margin - (target - activations)).clamp_min(0) ** 2
    each = short.scatter(-1, labels[:, None], 0.0).sum(-1)
    return (each if class_weights is None else each * class_weights[labels]).mean()


def rotation_loss(poses: Tensor, targets: Tensor) -> Tensor:
    """Compute the mean geodesic distance δ (Eq. 3).

    Args:
        poses: (..., 4), WXYZ.
        targets: (..., 4), WXYZ.

    Returns:
        (), in radians.
    """
    return angular_distance(poses, targets).mean()


def upright_distance(poses: Tensor, turns: Tensor) -> Tensor:
    """Compute the distance of poses from upright, up to rotations about z that make no difference.

    Args:
        poses: (..., 4), WXYZ.
        turns: (...), the number of evenly spaced rotations about z that count as one, the identity among them: 1 for no
            symmetry, 0 for any rotation.

    Returns:
        (...), in radians.
    """
    with torch.no_grad():
        twist = 2 * torch.atan2(poses[..., 3], poses[..., 0])  # the nearest rotation about z
        step = 2 * torch.pi / turns.clamp_min(1).to(poses.dtype)
        upright = from_azimuth(torch.where(turns == 0, twist, (twist / step).round() * step))
    return angular_distance(poses, upright)


def cross_entropy(activations: Tensor, labels: Tensor, smoothing: float = 0.0) -> Tensor:
    """Compute the cross-entropy of activations, each cloud's divided by their sum.

    Args:
        activations: (B, C).
        labels: (B,).
        smoothing: share of the label that is spread over all classes.

    Returns:
        ().
    """
    _check(activations, labels)
    # The softmax of logarithms divides by the sum; for probabilities it changes nothing.
    return torch.nn.functional.cross_entropy(log_positive(activations), labels, label_smoothing=smoothing)


def log_positive(activations: Tensor) -> Tensor:
    """Take the logarithm of activations; 0 counts as the least positive number."""
    return activations.clamp_min(torch.finfo(torch.float32).tiny).log()


def _check(activations: Tensor, labels: Tensor) -> None:
    if activations.dim() != 2 or labels.shape != activations.shape[:1]:
        raise ValueError(
            f"activations and labels must be (clouds, classes) and (clouds); "
            f"they are {tuple(activations.shape)} and {tuple(labels.shape)}"
        )
