"""The network as one would first write it: the paper's formulas on whole tensors, `torch.linalg.eigh`, no tuning.

The reference that `bench_network.py` measures against; it reads the parameters of a `QECNet` and gives what that gives.
"""

import torch
from torch import Tensor

from qecnet.geometry import OrientedPoints
from qecnet.nn import Capsules, Pooling, QECModule, QECNet


def mean(q: Tensor, w: Tensor) -> Tensor:
    moment = torch.einsum("...k,...ki,...kj->...ij", w, q, q)
    vectors: Tensor = torch.linalg.eigh(moment)[1]
    return vectors[..., -1]


def distance(p: Tensor, q: Tensor) -> Tensor:
    return 2 * torch.acos((p * q).sum(-1).abs().clamp(max=0.9999999))


def product(p: Tensor, q: Tensor) -> Tensor:
    (a, b, c, d), (e, f, g, h) = p.unbind(-1), q.unbind(-1)
    return torch.stack(
        (
            a * e - b * f - c * g - d * h,
            a * f + b * e + c * h - d * g,
            a * g - b * h + c * e + d * f,
            a * h + b * g - c * f + d * e,
        ),
        -1,
    )


def turn_back(q: Tensor, x: Tensor) -> Tensor:
    conjugate = q * q.new_tensor((1.0, -1.0, -1.0, -1.0))
    return product(product(conjugate, torch.nn.functional.pad(x, (1, 0))), q)[..., 1:]


def module(qec: QECModule, capsules: Capsules, pooling: Pooling) -> Capsules:
    patch = capsules.group(pooling)
    origins = pooling.centres if pooling.origins is None else pooling.origins
    positions = (patch.positions - origins[..., None, :])[..., None, :]
    average = mean(patch.poses.transpose(-3, -2), torch.ones_like(patch.activations.mT))[..., None, :, :]
    canonical = turn_back(average.expand_as(patch.poses), positions.expand(*patch.poses.shape[:-1], 3))
    hidden = qec.kernel.first(canonical.flatten(-2))
    raw = qec.kernel.second(hidden).unflatten(-1, (qec.kernel.out_capsules, 4, qec.kernel.in_capsules))
    transforms = torch.nn.functional.normalize(raw.movedim(-2, -1), dim=-1)
    votes = product(patch.poses[..., None, :, :].expand_as(transforms), transforms)
    votes = votes.transpose(-4, -3).flatten(-3, -2)
    alpha = patch.activations.flatten(-2)[..., None, :].expand(votes.shape[:-1])
    poses = mean(votes, alpha)
    for _ in range(qec.iterations):
        poses = mean(votes, alpha * torch.sigmoid(-distance(poses[..., None, :], votes)))
    agreement = -distance(poses[..., None, :], votes).mean(-1)
    return Capsules(pooling.centres, poses, torch.sigmoid(qec.scale * agreement + qec.shift))


def network(net: QECNet, points: OrientedPoints) -> Tensor:
    """Activations (clouds, classes)."""
    capsules = module(net.patches, *net._pool(points))
    return module(net.classes, capsules, Pooling.whole(capsules)).activations[..., 0, :]
