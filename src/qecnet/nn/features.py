"""The network whose capsules carry features: an extension of the paper that keeps its poses, votes and routing.

Points keep their local reference frames as poses. Readings gather features from growing neighbourhoods; then the whole
cloud is read from frames of its own, which gives the class, and determines how each capsule votes for the pose.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ..algebra import conjugate, from_azimuth, multiply, rotate
from ..geometry import OrientedPoints
from .capsules import Capsules, fill
from .field_limits import check_sizes
from .network import Network
from .prediction import Ballot, Prediction
from .principal import principal_frames
from .reading import Reading, gather_neighbours, nearest_points
from .registry import register_network
from .routing import RoutingConfig, route
from .tracing import PatchCapsules, VotingRound
from .votes import cast_votes

_PRIMARY = 4
"""The features of a primary capsule: the cloud's centre in its frame (3 values), and the distance to it."""

_VOTERS_WIDTH = 128
_MOST_READINGS, _WIDEST = 16, 65_536


@dataclass(frozen=True)
class Neighbourhood:
    """The sizes of one reading.

    Attributes:
        patches: number of patches.
        neighbours: number of points that each patch reads.
        hidden: width of the hidden layer.
        features: number of features of each patch.
        reach: unit of length in which positions are read, in radii of the cloud.
    """

    patches: int
    neighbours: int
    hidden: int
    features: int
    reach: float

    def __post_init__(self) -> None:
        check_sizes(self, patches=4096, neighbours=1024, hidden=_WIDEST, features=_WIDEST)
        if not 0 < self.reach < math.inf:
            raise ValueError(f"reach is {self.reach}; it must be a length above 0")


@dataclass(frozen=True)
class FeatureConfig(RoutingConfig):
    """The configuration of a `FeatureNet`.

    Attributes:
        neighbourhoods: the readings, from the points up; the first `patches` points of each are the centres.
        whole: the hidden and the last width of the reading of the whole cloud.
        summary: the size of a cloud's descriptor.
        dropout: the share that training leaves out of the features before the summary, and of the summary.
        looks: how often the whole cloud is read.
        upside_down: whether all looks but the first also use upside-down frames.
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
        super().__post_init__()
        if not 1 <= (count := len(self.neighbourhoods)) <= _MOST_READINGS:
            raise ValueError(f"neighbourhoods has {count} readings; it must have from 1 to {_MOST_READINGS}")
        check_sizes(self, whole=_WIDEST, summary=_WIDEST, looks=_MOST_READINGS)
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout is {self.dropout}; it must be at least 0 and below 1")


class Voters(nn.Module):
    """Computes votes and their weights from the capsules' features and the summary of the cloud."""

    def __init__(self, given: int, summary: int, classes: int) -> None:
        super().__init__()
        self.own = nn.Linear(given, _VOTERS_WIDTH, bias=False)
        self.normalised = nn.BatchNorm1d(_VOTERS_WIDTH)
        self.common = nn.Linear(summary, _VOTERS_WIDTH, bias=False)
        self.last = nn.Linear(_VOTERS_WIDTH, 5 * classes)

    def forward(self, capsules: Capsules, summary: Tensor) -> tuple[Tensor, Tensor]:
        """Capsules (clouds, L), summary (clouds, S) → votes (clouds, M, L, 4), WXYZ, and trust (clouds, M, L), real."""
        assert capsules.features is not None
        own = self.own(capsules.features)
        hidden = self.normalised(own.flatten(0, 1)).view_as(own) + self.common(summary)[:, None]
        said = self.last(hidden.relu()).unflatten(-1, (-1, 5)).transpose(1, 2)
        return cast_votes(capsules.poses[..., 0, :], said[..., :4]), said[..., 4]


class Look(nn.Module):
    """Reads the whole cloud from several frames at its centre; each is a capsule, and votes as the patches do.

    `before` is the number of looks before this one, whose features are also read.
    """

    def __init__(self, config: FeatureConfig, before: int) -> None:
        super().__init__()
        given, (hidden, whole) = config.neighbourhoods[-1].features, config.whole
        classes = config.classes
        self.routing = config.routing()
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

    def forward(self, patches: Capsules, frames: Tensor, before: Tensor) -> tuple[Ballot, Tensor, Tensor]:
        """patches (clouds, P), frames (clouds, G, 4) WXYZ, features of the looks before (clouds, F) → the votes, the
        summary (clouds, S), and the features of all looks until now."""
        clouds, count = frames.shape[:2]
        centres = Capsules.primary(frames.new_zeros(clouds, count, 3), frames)
        everyone = torch.arange(patches.positions.shape[1], device=frames.device).expand(clouds, count, -1)
        wholes = self.reading(centres, patches, everyone)
        found = torch.cat((before, wholes.features.amax(1)), -1)
        summary = self.summary(found)
        (votes, trust), (more, others) = self.patch_voters(patches, summary), self.whole_voters(wholes, summary)
        balance = math.log(trust.shape[-1] / count)  # untrained, all patches together count as much as all wholes
        votes, trust = torch.cat((votes, more), -2), torch.cat((trust, others + balance), -1).softmax(-1)
        # Each class has its own weights of the voters.
        poses = route(votes[:, :, None], trust, **self.routing).poses[:, :, 0]
        return Ballot(self.scores(summary), votes, trust, poses), summary, found


class FeatureNet(Network):
    """From oriented points to a ballot for each look, the last of which decides.

    The first look is from the cloud's principal frames; each further one from the pose that the best class had in the
    one before, its quarter turns about the upright axis and, where the configuration says so, these upside down. The
    order of the points matters: the first ones should be spread over the cloud, as `prepare` orders them.
    """

    title = "QEC with features"
    normalises_batch = True
    class_bias = "looks.0.scores.1.bias"
    config: FeatureConfig

    def __init__(self, config: FeatureConfig) -> None:
        super().__init__(config)
        widths = (_PRIMARY, *(size.features for size in config.neighbourhoods))
        self.readings = nn.ModuleList(
            Reading(given, size.hidden, size.features, size.reach)
            for given, size in zip(widths, config.neighbourhoods, strict=False)
        )
        self.looks = nn.ModuleList(Look(config, before) for before in range(config.looks))

    @property
    def descriptor_size(self) -> int:
        return self.config.summary

    def predict(self, points: OrientedPoints) -> Prediction:
        primary = fill(points)
        patches = self._read(primary)
        found = primary.positions.new_zeros(primary.positions.shape[0], 0)
        frames, summary, ballots = principal_frames(primary.positions), found, []
        for look in self.looks:
            ballot, summary, found = look(patches, frames, found)
            ballots.append(ballot)
            frames = multiply(ballot.best_pose().detach()[:, None], _turns(self.config.upside_down, frames))
        return Prediction(ballots[-1].scores.softmax(-1), ballots[-1].poses, summary, ballots)

    def _read(self, primary: Capsules) -> Capsules:
        """The capsules of the last reading: the same frames, with features of their neighbourhoods."""
        below = _with_features(primary)
        for reading, neighbours in zip(self.readings, self._neighbours(primary.positions), strict=True):
            below = reading(_first(below, neighbours.shape[1]), below, neighbours)
        return below

    def _neighbours(self, positions: Tensor) -> list[Tensor]:
        """The indices that the patches of each reading read: of points, then of the centres of the reading before."""
        found = []
        for size in self.config.neighbourhoods:
            centres = positions[:, : size.patches]
            found.append(nearest_points(centres, positions, min(size.neighbours, positions.shape[1])))
            positions = centres
        return found

    def explain_patches(self, points: OrientedPoints, prediction: Prediction) -> PatchCapsules:
        """Activations are the weights of the last look, as capsules with features are all equally active."""
        primary = fill(points)
        *below, neighbours = self._neighbours(primary.positions)
        lower = primary.positions[:, : below[-1].shape[1]] if below else primary.positions
        count = neighbours.shape[1]
        return PatchCapsules(
            primary.positions[0, :count],
            gather_neighbours(lower, neighbours)[0],
            torch.ones_like(neighbours[0], dtype=torch.bool),
            primary.poses[0, :count, 0],
            prediction.ballots[-1].trust[0, int(prediction.label[0]), :count],
        )

    def trace_votes(self, points: OrientedPoints, prediction: Prediction) -> list[VotingRound]:
        """Voters are the patches, and then the frames of the whole cloud, at its centre."""
        label, count = int(prediction.label[0]), self.config.neighbourhoods[-1].patches
        patches = fill(points).positions[0, :count]
        rounds = []
        for ballot in prediction.ballots:
            votes, trust = ballot.votes[0, label], ballot.trust[0, label]
            places = torch.cat((patches, patches.new_zeros(len(votes) - len(patches), 3)))
            rounds.append(self.config.trace_round(places, votes, trust))
        return rounds


def _with_features(capsules: Capsules) -> Capsules:
    """With the first features; the cloud's centre is the origin."""
    centre = rotate(conjugate(capsules.poses[..., 0, :]), -capsules.positions)
    features = torch.cat((centre, centre.norm(dim=-1, keepdim=True)), -1)
    return Capsules(capsules.positions, capsules.poses, capsules.activations, features)


def _first(capsules: Capsules, count: int) -> Capsules:
    return Capsules(*(x[:, :count] for x in (capsules.positions, capsules.poses, capsules.activations)))


def _turns(upside_down: bool, like: Tensor) -> Tensor:
    """The four quarter turns about the upright axis z, and those after a half turn about x: (4 or 8, 4), WXYZ."""
    upright = from_azimuth(torch.arange(4, dtype=like.dtype, device=like.device) * (math.pi / 2))
    return torch.cat((upright, upright[:, [1, 0, 3, 2]])) if upside_down else upright


register_network(
    "features",
    FeatureNet,
    FeatureConfig(classes=40),
    {
        "method": "centred",
        "epochs": 40,
        "batch_size": 32,
        "learning_rate": 4e-3,
        "schedule": "onecycle",
        "loss": "cross_entropy",
        "smoothing": 0.15,
        "aligned": 1.0,
        "weight_decay": 0.02,
        "clip": 5.0,
    },
)
