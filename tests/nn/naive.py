"""A second implementation, straight from the pseudo-code of Algorithms 1 and 2: loops, and `eigh` for the mean.

It shares nothing with the package but the numbers in the modules' parameters, and is what they are compared with.
"""

import math

import torch
from torch import Tensor


def product(p: Tensor, q: Tensor) -> Tensor:
    w = p[0] * q[0] - p[1:] @ q[1:]
    v = p[0] * q[1:] + q[0] * p[1:] + torch.linalg.cross(p[1:], q[1:])
    return torch.cat((w[None], v))


def turn(q: Tensor, x: Tensor) -> Tensor:
    inverse = torch.cat((q[:1], -q[1:]))
    return product(product(q, torch.cat((x.new_zeros(1), x))), inverse)[1:]


def mean(quaternions: list[Tensor], weights: list[Tensor]) -> Tensor:
    if not any(w > 0 for w in weights):
        return torch.tensor([1.0, 0, 0, 0], dtype=quaternions[0].dtype)
    moment = sum(w * torch.outer(q, q) for q, w in zip(quaternions, weights, strict=True))
    return torch.linalg.eigh(moment)[1][:, -1]


def distance(p: Tensor, q: Tensor) -> Tensor:
    return 2 * torch.acos((p @ q).abs().clamp(max=1))


def route(votes, activations, iterations, weighting, exponent, scale, shift):
    """Algorithm 1. votes[j][i], activations[i] → poses[j], activations[j]."""
    poses, outputs = [], []
    for v in votes:
        pose = mean(v, activations)
        weights = [torch.ones_like(a) for a in activations]
        final = activations
        for _ in range(iterations):
            if weighting == "sigmoid":
                final = [a * torch.sigmoid(-distance(pose, x)) for a, x in zip(activations, v, strict=True)]
            elif weighting == "linear":
                weights = [
                    w * a * (1 - distance(pose, x) / math.pi) for w, a, x in zip(weights, activations, v, strict=True)
                ]
                final = weights
            else:
                final = [
                    a * torch.sin(distance(pose, x) / 2) ** (exponent - 2) for a, x in zip(activations, v, strict=True)
                ]
            pose = mean(v, final)
        here = [i for i, a in enumerate(activations) if a > 0]
        if not here:
            poses.append(pose)
            outputs.append(torch.zeros_like(activations[0]))
            continue
        if weighting == "linear":
            agreement = sum(final[i] * (1 - distance(pose, v[i]) / math.pi) for i in here) / len(here)
        else:
            agreement = -sum(distance(pose, v[i]) for i in here) / len(here)
        poses.append(pose)
        outputs.append(torch.sigmoid(scale * agreement + shift))
    return torch.stack(poses), torch.stack(outputs)


def qec_module(module, positions, poses, activations, centre):
    """Algorithm 2 for one patch. positions (K, 3), poses (K, Nc, 4), activations (K, Nc)."""
    points, channels = activations.shape
    canonical = torch.zeros(points, channels, 3, dtype=positions.dtype)
    for n in range(channels):
        here = [torch.ones_like(a) if a > 0 else torch.zeros_like(a) for a in activations[:, n]]
        average = mean(list(poses[:, n]), here)
        inverse = torch.cat((average[:1], -average[1:]))
        for k in range(points):
            relative = positions[k] - centre
            canonical[k, n] = turn(inverse, relative) if module.canonicalize else relative
    votes: list[list[torch.Tensor]] = [[] for _ in range(module.kernel.out_capsules)]
    flat = []
    for n in range(channels):
        for k in range(points):
            flat.append(activations[k, n])
            hidden = module.kernel.first.weight @ canonical[k].flatten() + module.kernel.first.bias
            if module.kernel.nonlinearity == "relu":
                hidden = hidden.clamp_min(0)
            out = module.kernel.second.weight @ hidden + module.kernel.second.bias
            out = out.view(module.kernel.out_capsules, 4, channels)
            for m in range(module.kernel.out_capsules):
                transform = out[m, :, n] / out[m, :, n].norm()
                votes[m].append(product(poses[k, n], transform))
    return route(votes, flat, module.iterations, module.weighting, module.exponent, module.scale, module.shift)


def qec_net(network, capsules, graph):
    """The two modules of Sec. 5.2 for a batch of clouds → poses (clouds, classes, 4), activations (clouds, classes)."""
    poses, activations = [], []
    for cloud in range(len(capsules.positions)):
        x, q, a = capsules.positions[cloud], capsules.poses[cloud], capsules.activations[cloud]
        results = []
        for patch in range(graph.centres.shape[1]):
            index, present = graph.neighbours[cloud, patch], graph.present[cloud, patch]
            read = x[index], q[index], a[index] * present[:, None]
            origin = graph.centres[cloud, patch] if network.config.origin == "patch" else torch.zeros(3, dtype=x.dtype)
            results.append(qec_module(network.patches, *read, origin))
        x = graph.centres[cloud]
        q, a = (torch.stack(parts) for parts in zip(*results, strict=True))
        pose, activation = qec_module(network.classes, x, q, a, torch.zeros(3, dtype=x.dtype))
        poses.append(pose)
        activations.append(activation)
    return torch.stack(poses), torch.stack(activations)
