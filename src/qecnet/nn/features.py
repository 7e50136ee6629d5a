"""Capsules that carry features: past the paper, with its poses, votes and routing.

Points keep their local reference frames as poses. Readings gather features from growing neighbourhoods; then the whole
cloud is read from frames of its own, and what was found there names the class and tells each capsule how to vote.
"""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ..algebra import conjugate, multiply, rotate
from .capsules import Capsules, Pooling
from .principal import principal_frames
from .reading import Reading, nearest
from .routing import route
from .votes import cast_votes

_PRIMARY = 4
"""The features of a primary capsule: where its frame sees the cloud's centre, and how far away."""


@dataclass(frozen=True)
class Neighbourhood:
    """One reading: how many patches, how many neighbours each, the widths, and the length it measures in."""

    patches: int
    neighbours: int
    hidden: int
    features: int
    reach: float

    def __post_init__(self) -> None:
        if not min(self.patches, self.neighbours, self.hidden, self.features) >= 1:
            raise ValueError(f"a neighbourhood is {self}; it needs at least 1 of each")
        if not 0 < self.reach < math.inf:
            raise ValueError(f"reach is {self.reach}; it must be a length above 0")


@dataclass(frozen=True)
class Features:
    """What a network with features is.

    Attributes:
        neighbourhoods: the readings, from the points up; the first `patches` points of each are the centres.
        whole: the hidden and the last width of the reading of the whole cloud.
        summary: the width of what is known of a cloud in the end.
        dropout: the share of a summary's numbers that training leaves out.
        looks: how often the whole cloud is read.
        upside_down: whether the further looks are from upside-down frames, too.
    """

    neighbourhoods: tuple[Neighbourhood, ...] = (
        Neighbourhood(256, 16, 32, 64, 0.2),
        Neighbourhood(64, 24, 96, 128, 0.4),
    )
    whole: tuple[int, int] = (128, 448)
    summary: int = 256
    dropout: float = 0.3
    looks: int = 2
    upside_down: bool = False

    def __post_init__(self) -> None:
        if not self.neighbourhoods:
            raise ValueError("neighbourhoods is empty; a network with features needs at least 1 reading")
        if not min(self.whole) >= 1:
            raise ValueError(f"whole is {self.whole}; both widths must be at least 1")
        for name in ("summary", "looks"):
            if not getattr(self, name) >= 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least 1")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout is {self.dropout}; it must be at least 0 and below 1")


@dataclass(frozen=True, eq=False)
class Ballot:
    """What a look gives, for L voters and each of M classes; trust adds up to 1 over the voters.

    - summary: (clouds, S), what the look knows of the cloud; no rotation changes it
    - scores: (clouds, M), real; their softmax is the activations
    - votes: (clouds, M, L, 4), WXYZ, and trust: (clouds, M, L), how much each of them counts
    - poses: (clouds, M, 4), WXYZ, what routing made of the votes
    """

    summary: Tensor
    scores: Tensor
    votes: Tensor
    trust: Tensor
    poses: Tensor

    def best_pose(self) -> Tensor:
        """Of the class with the highest score. → (clouds, 4), WXYZ"""
        return self.poses[torch.arange(self.scores.shape[0], device=self.scores.device), self.scores.argmax(-1)]


class Voters(nn.Module):
    """How capsules vote, and how much each counts, from their own features and the summary of the cloud."""

    def __init__(self, given: int, summary: int, classes: int, hidden: int = 128) -> None:
        super().__init__()
        self.own = nn.Linear(given, hidden, bias=False)
        self.normalised = nn.BatchNorm1d(hidden)
        self.common = nn.Linear(summary, hidden, bias=False)
        self.last = nn.Linear(hidden, 5 * classes)

    def forward(self, capsules: Capsules, summary: Tensor) -> tuple[Tensor, Tensor]:
        """Capsules (clouds, L), summary (clouds, S) → votes (clouds, M, L, 4), WXYZ, and trust (clouds, M, L), real."""
        assert capsules.features is not None
        own = self.own(capsules.features)
        hidden = self.normalised(own.flatten(0, 1)).view_as(own) + self.common(summary)[:, None]
        said = self.last(hidden.relu()).unflatten(-1, (-1, 5)).transpose(1, 2)
        return cast_votes(capsules.poses[..., 0, :], said[..., :4]), said[..., 4]


class Look(nn.Module):
    """The whole cloud, read from several frames at its centre: each of them is a capsule, and votes beside the patches.

    `before` counts the looks that were taken before: what they found goes into the summary, too.
    """

    def __init__(self, config: Features, classes: int, before: int, **routing: Any) -> None:
        super().__init__()
        given, (hidden, whole) = config.neighbourhoods[-1].features, config.whole
        self.routing = routing
        self.reading = Reading(given, hidden, whole, reach=1.0)
        self.summary = nn.Sequential(
            nn.Dropout(config.dropout),
            nn.Linear((before + 1) * whole, config.summary, bias=False),
            nn.BatchNorm1d(config.summary),
            nn.ReLU(),
        )
        self.scores = nn.Sequential(nn.Dropout(config.dropout), nn.Linear(config.summary, classes))
        self.patch_voters = Voters(given, config.summary, classes)
        self.whole_voters = Voters(whole, config.summary, classes)

    def forward(self, patches: Capsules, frames: Tensor, before: Tensor) -> tuple[Ballot, Tensor]:
        """patches (clouds, P), frames (clouds, G, 4) WXYZ, what was found before (clouds, F) → and with this, too."""
        clouds, count = frames.shape[:2]
        centres = Capsules.primary(frames.new_zeros(clouds, count, 3), frames)
        everyone = torch.arange(patches.positions.shape[1], device=frames.device).expand(clouds, count, -1)
        wholes = self.reading(centres, patches, everyone)
        found = torch.cat((before, wholes.features.amax(1)), -1)
        summary = self.summary(found)
        (votes, trust), (more, others) = self.patch_voters(patches, summary), self.whole_voters(wholes, summary)
        balance = math.log(trust.shape[-1] / count)  # untrained, all patches together count as much as all wholes
        votes, trust = torch.cat((votes, more), -2), torch.cat((trust, others + balance), -1).softmax(-1)
        # Each class trusts its voters by its own measure.
        poses = route(votes[:, :, None], trust, **self.routing).poses[:, :, 0]
        return Ballot(summary, self.scores(summary), votes, trust, poses), found


class FeatureCapsules(nn.Module):
    """From primary capsules to a ballot for each look, the last of which decides.

    The first look is from the cloud's principal frames; each further one from the pose that the best class had in the
    one before, its quarter turns about the upright axis and, where the configuration says so, these upside down. The
    points' order is part of the input: the first ones should be spread over the cloud, as `prepare` has them.
    """

    def __init__(self, config: Features, classes: int, **routing: Any) -> None:
        super().__init__()
        self.neighbourhoods = config.neighbourhoods
        self.upside_down = config.upside_down
        widths = (_PRIMARY, *(size.features for size in config.neighbourhoods))
        self.readings = nn.ModuleList(
            Reading(given, size.hidden, size.features, size.reach)
            for given, size in zip(widths, config.neighbourhoods, strict=False)
        )
        self.looks = nn.ModuleList(Look(config, classes, before, **routing) for before in range(config.looks))

    def forward(self, capsules: Capsules) -> list[Ballot]:
        """(clouds, points), centred on each cloud's own centre."""
        points = _primary(_filled(capsules))
        patches = self.patches(points)
        frames, found = principal_frames(points.positions), points.positions.new_zeros(points.positions.shape[0], 0)
        ballots = []
        for look in self.looks:
            ballot, found = look(patches, frames, found)
            ballots.append(ballot)
            frames = multiply(ballot.best_pose().detach()[:, None], _turns(self.upside_down, frames))
        return ballots

    def patches(self, points: Capsules) -> Capsules:
        """The capsules of the last reading: frames as they were, with what each found around it."""
        below = points
        for reading, pooling in zip(self.readings, self._poolings(points.positions), strict=True):
            below = reading(_first(below, pooling.neighbours.shape[1]), below, pooling.neighbours)
        return below

    def poolings(self, capsules: Capsules) -> list[Pooling]:
        """Which points the patches of each reading read; neighbours are indices of the centres of the reading below.

        Those of the first are indices of the points that are not masked, again and again until all places are taken.
        The last centres are where the patches stand that vote, in the order of a ballot's first voters.
        """
        return self._poolings(_filled(capsules).positions)

    def _poolings(self, positions: Tensor) -> list[Pooling]:
        given = []
        for size in self.neighbourhoods:
            centres = positions[:, : size.patches]
            neighbours = nearest(centres, positions, min(size.neighbours, positions.shape[1]))
            given.append(Pooling(centres, neighbours, torch.ones_like(neighbours, dtype=torch.bool)))
            positions = centres
        return given


def _filled(capsules: Capsules) -> Capsules:
    """The points that are not masked, in their order, again and again until all places are taken.

    So nothing after this needs a mask: who is there twice changes no maximum. Where all are masked, the frame is the
    identity at the origin.
    """
    present = capsules.activations[..., 0] > 0
    count = present.shape[1]
    number = torch.arange(count, device=present.device)
    order = torch.where(present, number, number + count).argsort(dim=1)
    place = number % present.sum(1, keepdim=True).clamp_min(1)
    index = order.gather(1, place)[..., None]
    positions = capsules.positions.gather(1, index.expand_as(capsules.positions))
    poses = capsules.poses[..., 0, :].gather(1, index.expand(*present.shape, 4))
    nobody = ~present.any(1)[:, None, None]
    identity = torch.eye(4, dtype=poses.dtype, device=poses.device)[0]
    return Capsules.primary(torch.where(nobody, 0.0, positions), torch.where(nobody, identity, poses))


def _primary(capsules: Capsules) -> Capsules:
    """With the first features; the cloud's centre is the origin."""
    centre = rotate(conjugate(capsules.poses[..., 0, :]), -capsules.positions)
    features = torch.cat((centre, centre.norm(dim=-1, keepdim=True)), -1)
    return Capsules(capsules.positions, capsules.poses, capsules.activations, features)


def _first(capsules: Capsules, count: int) -> Capsules:
    return Capsules(*(x[:, :count] for x in (capsules.positions, capsules.poses, capsules.activations)))


def _turns(upside_down: bool, like: Tensor) -> Tensor:
    """The four quarter turns about the upright axis z, and those after a half turn about x: (4 or 8, 4), WXYZ."""
    half = torch.arange(4, dtype=like.dtype, device=like.device) * (math.pi / 4)
    cos, sin, nothing = half.cos(), half.sin(), torch.zeros_like(half)
    upright = torch.stack((cos, nothing, nothing, sin), -1)
    return torch.cat((upright, torch.stack((nothing, cos, sin, nothing), -1))) if upside_down else upright
