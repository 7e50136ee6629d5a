"""How the network `upright` learns: from upright clouds in right poses, and in wrong ones to score lower.

A pose is right if its z axis is nearly the up direction, whatever its azimuth. As clouds are upright, the identity is
right, and its azimuth is the one to learn.
"""

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..algebra import conjugate, from_azimuth, from_rotvec, identity_like, multiply, to_matrix
from .azimuth import azimuth_loss, azimuth_modes
from .prediction import Prediction, Whole
from .upright_reader import UprightReader, UprightReading

if TYPE_CHECKING:
    from .projection_reader import ProjectionReading
    from .upright import UprightNet

_RIGHT = math.cos(math.radians(6))  # a candidate nearer to the up direction is right
_WRONG = math.cos(math.radians(20))  # one farther from it is wrong; those between are not used
_EXACT = 0.3  # share of right poses that are the identity, and not a candidate
_TILT = 0.02  # standard deviation of small random rotations of poses, about each axis, in radians
_AZIMUTH_NOISE = 0.06  # standard deviation of the azimuths that projections are read from, in radians


def learn(network: "UprightNet", positions: Tensor, normals: Tensor, candidates: Tensor) -> Prediction:
    """Predict for a step of training, with the loss of the orientation.

    Args:
        network: in training mode. If it trains one part only, just that part is run.
        positions, normals: (clouds, N, 3), upright: their z axis is the correct up direction.
        candidates: (clouds, C, 4), with zeros for padding.
    """
    if network.only == "projections":
        scores, tilted, loss = _learn_projections(network, positions, normals, candidates)
        return replace(_without_poses(network, scores.softmax(-1)), pose_loss=loss, side_activations=(tilted,))
    invariant = () if network.invariant is None else (network.invariant(positions, normals).softmax(-1),)
    if network.only:
        return _without_poses(network, *invariant)
    prediction, loss = _learn_readers(network, positions, normals, candidates)
    side = (*prediction.side_activations, *invariant)
    if network.projections is not None:
        scores, tilted, of_projections = _learn_projections(network, positions, normals, candidates)
        loss, side = loss + of_projections, (*side, scores.softmax(-1), tilted)
    return replace(prediction, pose_loss=loss, side_activations=side)


def _learn_readers(
    network: "UprightNet", positions: Tensor, normals: Tensor, candidates: Tensor
) -> tuple[Prediction, Tensor]:
    """Train scorer and reader on right poses and on wrong ones.

    The scorer sees each cloud from a right pose and several wrong ones. The reader sees it from the right pose and, for
    half of the clouds, also from the wrong pose that the scorer ranks highest.

    Returns:
        The reader's prediction, with side activations of the scorer and from wrong poses, and the loss of the
        orientation (clouds).
    """
    count, clouds = network.config.wrong, len(positions)
    right, wrong, has_wrong = _sample_poses(candidates, count)
    each = torch.arange(clouds, device=positions.device)
    rows = each.repeat(1 + count)
    neighbours = network.scorer.find_neighbours(positions)
    poses = torch.cat((right, wrong.transpose(0, 1).flatten(0, 1)))
    scored = network.scorer(positions[rows], normals[rows], poses, tuple(n[rows] for n in neighbours))
    scores = scored.upright.view(1 + count, clouds).t()
    worst = wrong[each, scores[:, 1:].detach().argmax(-1)]
    # Only half of the clouds are also read from a wrong pose, because reading takes most of the time.
    half = torch.randperm(clouds, device=positions.device)[: clouds - clouds // 2]
    rows = torch.cat((each, half))
    neighbours = network.reader.find_neighbours(positions)
    reading = network.reader(
        positions[rows], normals[rows], torch.cat((right, worst[half])), tuple(n[rows] for n in neighbours)
    )
    pairs = torch.stack((reading.upright[:clouds][half], reading.upright[clouds:]), 1)
    ranking = _first_is_right(scores) * has_wrong
    ranking = ranking.index_add(0, half, 2 * _first_is_right(pairs) * has_wrong[half])
    # The azimuth of the identity relative to the pose that was read.
    back = conjugate(right)
    angle = 2 * torch.atan2(back[:, 3], back[:, 0])
    loss = ranking + 0.3 * azimuth_loss(reading.harmonics[:clouds], angle)
    of_scorer = scored.scores[:clouds].softmax(-1)
    # A class can often be recognised from a wrong pose, too, and answers combine several poses.
    tilted = reading.scores[:clouds].index_copy(0, half, reading.scores[clouds:]).softmax(-1)
    reading = UprightReading(*(x[:clouds] for x in reading))
    best = multiply(right, from_azimuth(azimuth_modes(reading.harmonics.detach())[0][:, 0]))
    prediction = Prediction(
        reading.scores.softmax(-1),
        best[:, None].expand(-1, network.config.classes, 4),
        reading.summary,
        side_activations=(of_scorer, tilted),
        whole=Whole(reading.offset, reading.growth),
    )
    return prediction, loss


def _learn_projections(
    network: "UprightNet", positions: Tensor, normals: Tensor, candidates: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Train the reader of projections on right poses, and about half of the clouds on a wrong pose, too.

    A third of the clouds are also read with a wrong up direction, the one that the scorer ranks highest, and a sixth
    with a wrong azimuth.

    Returns:
        The scores of the classes from right poses (clouds, C), their activations (clouds, C) from the wrong pose of
        each cloud that is read from one and otherwise from the right pose, and the loss of the orientation (clouds).
    """
    assert network.projections is not None
    clouds, device = len(positions), positions.device
    right, wrong, has_wrong = _sample_poses(candidates, network.config.wrong)
    chance = torch.rand(clouds, device=device)
    is_turned = chance >= 5 / 6  # also read with a wrong azimuth
    tilted, turned = (chance < 1 / 3).nonzero()[:, 0], is_turned.nonzero()[:, 0]
    mistakes = _worst(network.scorer, positions[tilted], normals[tilted], wrong[tilted])
    right = torch.where(is_turned[:, None], _tilt(identity_like(right).expand_as(right)), right)
    quarters = torch.randint(1, 4, (len(turned),), device=device)
    poses = torch.cat(
        (right, _tilt(mistakes), multiply(right[turned], from_azimuth((math.pi / 2 * quarters).to(right))))
    )
    noise = _AZIMUTH_NOISE * torch.randn(len(poses), dtype=poses.dtype, device=device)
    poses = multiply(poses, from_azimuth(noise))
    rows = torch.cat((torch.arange(clouds, device=device), tilted, turned))
    # A mirror image has the same class and the same up direction, but may face elsewhere.
    axis = to_matrix(poses)[:, None, :, 0]
    mirrored = (torch.rand(len(rows), device=device) < 0.5) & ~is_turned[rows]
    positions, normals = (
        torch.where(mirrored[:, None, None], x - 2 * (x * axis).sum(-1, keepdim=True) * axis, x)
        for x in (positions[rows], normals[rows])
    )
    found: ProjectionReading = network.projections(positions, normals, poses)
    last = clouds + len(tilted)
    upright_pairs = torch.stack((found.upright[tilted], found.upright[clouds:last]), 1)
    facing_pairs = torch.stack((found.facing[turned], found.facing[last:]), 1)
    loss = positions.new_zeros(clouds)
    loss = loss.index_copy(0, tilted, 3 * _first_is_right(upright_pairs) * has_wrong[tilted])
    loss = loss.index_copy(0, turned, 3 * _first_is_right(facing_pairs))
    # A class can often be recognised from a wrong pose, too, and answers combine several poses.
    side = found.scores[:clouds].index_copy(0, rows[clouds:], found.scores[clouds:]).softmax(-1)
    return found.scores[:clouds], side, loss


@torch.no_grad()
def _worst(scorer: UprightReader, positions: Tensor, normals: Tensor, wrong: Tensor) -> Tensor:
    """The wrong pose of each cloud, out of (clouds, K, 4), that the scorer ranks highest."""
    if not len(wrong):
        return wrong[:, 0]
    was_training = scorer.training
    scorer.eval()  # its statistics must not change, nor depend on the other clouds
    scores = scorer.read_each(positions, normals, wrong).upright.view(wrong.shape[:2])
    scorer.train(was_training)
    return wrong[torch.arange(len(wrong), device=wrong.device), scores.argmax(-1)]


def _without_poses(network: "UprightNet", activations: Tensor) -> Prediction:
    """The prediction of a part that is trained alone."""
    nothing = activations.new_zeros
    clouds, classes = activations.shape
    poses = identity_like(activations).expand(clouds, classes, 4)
    return Prediction(activations, poses, nothing(clouds, network.descriptor_size), pose_loss=nothing(clouds))


def _sample_poses(poses: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Sample from candidates (clouds, C, 4) of upright clouds.

    Returns:
        A right pose for each cloud (clouds, 4), `count` wrong ones (clouds, count, 4), and which clouds have any wrong
        one (clouds); the others have the identity instead.
    """
    clouds = len(poses)
    if not poses.shape[1]:
        raise ValueError("the clouds have no candidates to learn from; prepare them with candidates=True")
    height = to_matrix(poses)[..., 2, 2]  # of the up direction
    there = poses.any(-1)
    near, far = there & (height > _RIGHT), there & (height < _WRONG)
    first = near.long().argmax(-1)
    identity = identity_like(poses)
    is_exact = (torch.rand(clouds, device=poses.device) < _EXACT) | ~near.any(-1)
    each = torch.arange(clouds, device=poses.device)
    right = _tilt(torch.where(is_exact[:, None], identity, poses[each, first]))
    has = far.any(-1)
    sampled = torch.multinomial(torch.where(has[:, None], far, True).to(poses.dtype), count, replacement=True)
    wrong = torch.where(has[:, None, None], poses[each[:, None], sampled], identity)
    return right, wrong, has


def _tilt(poses: Tensor) -> Tensor:
    """Rotate poses (..., 4) by small random angles."""
    noise = torch.randn(*poses.shape[:-1], 3, dtype=poses.dtype, device=poses.device)
    return multiply(from_rotvec(_TILT * noise), poses)


def _first_is_right(scores: Tensor) -> Tensor:
    """Cross-entropy of choosing the first of K by their scores: (rows, K) → (rows)."""
    return -scores.log_softmax(-1)[:, 0]
