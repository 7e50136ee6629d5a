"""What the network is trained with: the spread loss, the rotation loss, and cross-entropy to compare with."""

import torch
from torch import Tensor

from ..algebra import angular_distance


def spread_loss(activations: Tensor, labels: Tensor, margin: float = 0.1) -> Tensor:
    """`Σ_{i≠t} max(0, m − (a_t − a_i))²`, averaged over clouds (Sabour et al. 2018). (B, C), (B) → ()."""
    _check(activations, labels)
    target = activations.gather(-1, labels[:, None])
    short = (margin - (target - activations)).clamp_min(0) ** 2
    return short.scatter(-1, labels[:, None], 0.0).sum(-1).mean()


def spread_margin(progress: float, first: float = 0.2, last: float = 0.9) -> float:
    """A margin that grows linearly with training, from `first` at progress 0 to `last` at 1 (Sabour et al. 2018)."""
    return first + (last - first) * min(max(progress, 0.0), 1.0)


def rotation_loss(poses: Tensor, targets: Tensor) -> Tensor:
    """The mean geodesic distance δ (Eq. 3) in radians. (..., 4), (..., 4), WXYZ → ()."""
    return angular_distance(poses, targets).mean()


def upright_distance(poses: Tensor, turns: Tensor) -> Tensor:
    """How far poses are from upright, in radians, up to turns about z that make no difference. (..., 4), (...) → (...).

    `turns` evenly spaced turns about z count as one, the identity among them: 1 for no symmetry, 0 for any turn.
    """
    with torch.no_grad():
        twist = 2 * torch.atan2(poses[..., 3], poses[..., 0])  # the turn about z that comes nearest
        step = 2 * torch.pi / turns.clamp_min(1).to(poses.dtype)
        half = torch.where(turns == 0, twist, (twist / step).round() * step) / 2
        nothing = torch.zeros_like(half)
        upright = torch.stack((half.cos(), nothing, nothing, half.sin()), -1)
    return angular_distance(poses, upright)


def cross_entropy(activations: Tensor, labels: Tensor, smoothing: float = 0.0) -> Tensor:
    """Cross-entropy of the activations, each cloud's divided by their sum. (B, C), (B) → ().

    `smoothing` is the share of the label that is spread over all classes.
    """
    _check(activations, labels)
    logarithms = activations.clamp_min(torch.finfo(activations.dtype).tiny).log()
    # The softmax of logarithms divides by the sum; for probabilities it changes nothing.
    return torch.nn.functional.cross_entropy(logarithms, labels, label_smoothing=smoothing)


def _check(activations: Tensor, labels: Tensor) -> None:
    if activations.dim() != 2 or labels.shape != activations.shape[:1]:
        raise ValueError(
            f"activations and labels must be (clouds, classes) and (clouds); "
            f"they are {tuple(activations.shape)} and {tuple(labels.shape)}"
        )
