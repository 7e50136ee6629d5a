"""The network that verifies candidate orientations: geometry proposes them, and readers score them.

`prepare` proposes up to 24 poses that rotate with the shape. A small reader, the scorer, scores each of them; a larger
one reads the shape from the best few and predicts its class and azimuth. Two more, which a network may have, predict
the class without a candidate, and score candidates and classes from projections. The result is a distribution over
classes and orientations. Everything is computed in the frame of a candidate or of the shape itself, so nothing depends
on the shape's coordinates.

This network is not in the paper. Its output is that of the paper's last capsules, for each class an activation and a
pose, but no votes are routed (Algorithm 1): the pose is one of the candidates, rotated to the likeliest azimuth.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import torch
from torch import Tensor

from ..algebra import (
    from_azimuth,
    identity_like,
    is_exporting,
    multiply,
    nearest_with_up,
    rotate,
    to_matrix,
)
from ..geometry import MOST_CANDIDATES, OrientedPoints, snap_pose
from .azimuth import azimuth_is_open, azimuth_modes
from .capsules import fill
from .edge_reader import ReaderSize
from .invariant_reader import InvariantReader
from .joint import join_scores, score_weights
from .network import Network, NetworkConfig
from .orientations import Orientations
from .prediction import Prediction, Whole
from .projection_reader import ProjectionReader, ProjectionReaderSize, ProjectionReading
from .registry import register_network
from .summary_layer import SUMMARY_SIZE, reduced_summaries
from .upright_learning import learn
from .upright_reader import UprightReader, UprightReading

_NEGLIGIBLE = 0.01  # probability of a candidate that is not worth reading
_LARGEST_TILT = math.cos(math.radians(3))  # the cosine of the largest change of the up direction by snapping


@dataclass(frozen=True)
class UprightConfig(NetworkConfig):
    """The configuration of an `UprightNet`.

    Attributes:
        frames: number of points that are read.
        scorer: the reader that scores every candidate.
        reader: the reader of the best candidates.
        invariant: whether there is a reader that predicts the class without a candidate.
        invariant_reader: that reader.
        projections: whether there is a reader of depth maps along the axes of the best candidates.
        projection_reader: that reader.
        projection_blocks: number of its residual blocks at each resolution but the first.
        read: largest number of candidates that are read; those with a probability below 1% are not.
        wrong: number of wrong candidates of each shape that the scorer sees in a step of training.
        dropout: share of a summary's values that training leaves out.
        summary_rank: of the readers' layers before their summaries, see `UprightNet.reduced`; 0 for full rank.
        merged: whether answers have one class for all shapes; the classes then only tell from which candidate the
            readers recognise the same one.
    """

    frames: int = 1024
    scorer: ReaderSize = field(default=ReaderSize(512, (128, 32), (16, 8, 16, 8), (16, 32, 48, 64, 96, 128)))
    reader: ReaderSize = field(default=ReaderSize())
    invariant: bool = False
    invariant_reader: ReaderSize = field(
        default=ReaderSize(1024, (256, 64), (24, 16, 24, 32), (32, 64, 128, 128, 192, 384))
    )
    projections: bool = False
    projection_reader: ProjectionReaderSize = field(default=ProjectionReaderSize())
    projection_blocks: int = 1
    read: int = 6
    wrong: int = 3
    dropout: float = 0.4
    summary_rank: int = 0
    merged: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, most in (("read", MOST_CANDIDATES), ("wrong", MOST_CANDIDATES - 1)):
            if not 1 <= getattr(self, name) <= most:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be from 1 to {most}")
        if not 1 <= self.projection_blocks <= 16:
            raise ValueError(f"projection_blocks is {self.projection_blocks}; it must be from 1 to 16")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout is {self.dropout}; it must be at least 0 and below 1")
        if not 0 <= self.summary_rank <= SUMMARY_SIZE:
            raise ValueError(f"summary_rank is {self.summary_rank}; it must be from 0 to {SUMMARY_SIZE}")


class CandidateReadings(NamedTuple):
    """What the readers of a network find in the R best of one cloud's N candidates.

    Attributes:
        poses: (N, 4), the candidates, the best by the scorer first.
        probabilities: (N,), of these candidates, by the scorer.
        upright: (R, U), scores of the up direction by scorer, reader, and projections if they are read.
        classes: (R, C, K), scores of the classes by reader, projections, and invariant reader, as far as they exist.
        facing: (R, A, 4), the poses with the likeliest azimuths, see `UprightNet.face`.
        shares: (R, A), their shares of the probability.
        reading: of the reader.
    """

    poses: Tensor
    probabilities: Tensor
    upright: Tensor
    classes: Tensor
    facing: Tensor
    shares: Tensor
    reading: UprightReading


class UprightNet(Network):
    """Scores candidate orientations, and reads the class and the azimuth from the best.

    In training, clouds must be upright: their z axis is the correct up direction.
    """

    title = "Verified candidates"
    normalises_batch = True
    reads_candidates = has_pose_loss = learns_unlabelled = True
    reads_alone = True
    class_bias = "reader.classes.bias"
    parts = ("invariant", "projections")
    posed_parts = mixed_parts = ("projections",)
    adjustable = ("read",)
    growing = ("projection_blocks",)
    class_rows = ("scorer.classes", "reader.classes", "invariant.classes", "projections.classes")
    config: UprightConfig

    def __init__(self, config: UprightConfig) -> None:
        super().__init__(config)
        classes, dropout, rank = config.classes, config.dropout, config.summary_rank
        self.scorer = UprightReader(config.scorer, classes, dropout / 4, rank, facing=False)
        self.reader = UprightReader(config.reader, classes, dropout, rank)
        self.invariant = InvariantReader(config.invariant_reader, classes, dropout, rank) if config.invariant else None
        self.projections = (
            ProjectionReader(config.projection_reader, classes, dropout, rank, config.projection_blocks)
            if config.projections
            else None
        )
        self.score_weights = score_weights(config.projections, config.invariant)

    @property
    def descriptor_size(self) -> int:
        return SUMMARY_SIZE

    def predict(self, points: OrientedPoints) -> Prediction:
        positions, normals = positions_and_normals(points)
        if self.training:
            return learn(self, positions, normals, points.candidates)
        if is_exporting():
            return self._verify_batch(positions, normals, points.candidates)
        if not len(positions):
            return self._nothing(positions)
        # One by one: then a cloud has the same answer, to the last bit, in any batch.
        clouds = zip(positions, normals, points.candidates, strict=True)
        return Prediction.concatenate([self._verify(p[None], n[None], poses[poses.any(-1)]) for p, n, poses in clouds])

    def without_classes(self) -> "UprightNet":
        """Copy the network with one class for all shapes, without the reader that only predicts classes."""
        network = UprightNet(replace(self.config, invariant=False, merged=True))
        network.load_state_dict({name: self.state_dict()[name] for name in network.state_dict()})
        return network.train(self.training)

    def reduced(self, clouds: Iterable[OrientedPoints], rank: int) -> "UprightNet":
        network = UprightNet(replace(self.config, summary_rank=rank)).to(self.reader.classes.weight)
        network.load_state_dict(reduced_summaries(self, clouds, rank))
        return network.eval()

    def use_mixed_precision(self, on: bool = True) -> None:
        if self.projections is not None:
            self.projections.mixed_precision = on

    def read_less(self) -> None:
        self.config = replace(self.config, read=1)

    def predict_upright(self, points: OrientedPoints, up: Tensor) -> Prediction:
        """Predict with the known up direction as the only candidate."""
        up, identity = up[:, None], identity_like(up)
        found = self.predict(replace(points, candidates=nearest_with_up(identity.expand(len(up), 1, 4), up)))
        if (candidates := found.orientations) is None:
            return found
        # Snapping may have tilted them.
        there = candidates.probabilities[..., None] > 0
        kept = torch.where(there, nearest_with_up(candidates.poses, up), candidates.poses)
        orientations = replace(candidates, poses=kept)
        return replace(found, poses=nearest_with_up(found.poses, up), orientations=orientations)

    def _nothing(self, positions: Tensor) -> Prediction:
        """For a batch of no clouds."""
        empty = positions.new_zeros
        classes = 1 if self.config.merged else self.config.classes
        whole = Whole(empty(0, 3), empty(0))
        return Prediction(empty(0, classes), empty(0, classes, 4), empty(0, self.descriptor_size), whole=whole)

    def read_candidates(self, positions: Tensor, normals: Tensor, poses: Tensor) -> CandidateReadings:
        """Let all readers read one cloud from the best of its candidates.

        Args:
            positions, normals: (1, N, 3).
            poses: (C, 4), the candidates; where there is none, the identity is one.

        Returns:
            The candidates, the best first, and the readings of the best.
        """
        if not len(poses):
            poses = identity_like(positions)[None]
        scored = self.scorer.read_one(positions, normals, poses)
        order, count = self.rank(scored.upright, self.config.read)
        best = order[:count]
        reading = self.reader.read_one(positions, normals, poses[best])
        upright, classes = [scored.upright[best], reading.upright], [reading.scores]
        facing, shares = self.face(poses[best], reading.harmonics, normals[0])
        if self.projections is not None:
            further_upright, projected, facing, shares = self.read_projections(positions, normals, facing, shares)
            upright.append(further_upright)
            classes.append(projected)
        if self.invariant is not None:
            classes.append(self.invariant(positions, normals).expand_as(reading.scores))
        return CandidateReadings(
            poses[order],
            scored.upright.softmax(0)[order],
            torch.stack(upright, -1),
            torch.stack(classes, -1),
            facing,
            shares,
            reading,
        )

    def _verify(self, positions: Tensor, normals: Tensor, poses: Tensor) -> Prediction:
        """Predict for one cloud (1, N, 3) with candidates (C, 4)."""
        found = self.read_candidates(positions, normals, poses)
        reading, count = found.reading, len(found.upright)
        joint = join_scores(found.upright, found.classes, self.score_weights).flatten().softmax(0).view(count, -1)
        # The scorer gives the probability that one of these is right; if so, `among` are the probabilities of each, by
        # all readers together.
        among = joint.sum(-1)
        if self.config.merged:
            joint = among[:, None]
        # For each class its likeliest candidate, with the likeliest azimuth.
        of_class = found.facing[:, 0][joint.argmax(0)]
        of_read = found.probabilities[:count].sum() * among[:, None] * found.shares
        is_open = azimuth_is_open(reading.harmonics)[:, None].expand_as(found.shares).flatten()
        return Prediction(
            joint.sum(0)[None],
            of_class[None],
            (among[:, None] * reading.summary).sum(0)[None],
            orientations=Orientations.best(
                torch.cat((found.facing.flatten(0, 1), found.poses[count:])),
                torch.cat((of_read.flatten(), found.probabilities[count:])),
                torch.cat((is_open, is_open.new_zeros(len(found.poses) - count))),
            ),
            whole=Whole(reading.offset[among.argmax()][None], reading.growth[among.argmax()][None]),
        )

    def _verify_batch(self, positions: Tensor, normals: Tensor, poses: Tensor) -> Prediction:
        """`_verify` of many clouds in a graph that does not depend on the data, without the list of orientations.

        Args:
            positions, normals: (clouds, N, 3).
            poses: (clouds, C, 4), with zeros for padding.
        """
        there = poses.ne(0).any(-1)
        identity = identity_like(poses)
        poses = torch.where(there[..., None], poses, identity)
        first = torch.arange(poses.shape[1], device=poses.device) == 0  # used where there is no candidate
        scores = self.scorer.read_each(positions, normals, poses).upright.view(there.shape)
        scores = torch.where(there | (first & ~there.any(-1, keepdim=True)), scores, -math.inf)
        best_scores, best = scores.topk(min(self.config.read, poses.shape[1]), -1)
        likely = scores.softmax(-1).gather(-1, best) >= _NEGLIGIBLE
        likely = likely | first[: best.shape[1]]
        poses = poses.gather(1, best[..., None].expand(-1, -1, 4))
        reading = self.reader.read_each(positions, normals, poses)
        shape = (*best.shape, -1)
        upright = [torch.where(likely, best_scores, 0.0), reading.upright.view(best.shape)]
        classes = [reading.scores.view(shape)]
        of_rows = [x.repeat_interleave(best.shape[1], 0) for x in (positions, normals)]
        facing, shares = self.face(poses.flatten(0, 1), reading.harmonics, of_rows[1][:, None], most=2)
        if self.projections is not None:
            twice = [x.repeat_interleave(2, 0) for x in of_rows]
            further_upright, projected, facing, _ = self.read_projections(twice[0], twice[1], facing, shares)
            upright.append(further_upright.view(best.shape))
            classes.append(projected.view(shape))
        if self.invariant is not None:
            classes.append(self.invariant(positions, normals)[:, None].expand_as(classes[0]))
        joint = join_scores(torch.stack(upright, -1), torch.stack(classes, -1), self.score_weights)
        joint = torch.where(likely[..., None], joint, -math.inf)
        joint = joint.flatten(1).softmax(-1).view_as(joint)
        among = joint.sum(-1)
        if self.config.merged:
            joint = among[..., None]
        of_class = joint.argmax(1)[..., None].expand(-1, -1, 4)
        summary = (among[..., None] * reading.summary.view(shape)).sum(1)
        likeliest = among.argmax(-1, keepdim=True)
        offset = reading.offset.view(*best.shape, 3).gather(1, likeliest[..., None].expand(-1, -1, 3))
        whole = Whole(offset[:, 0], reading.growth.view(best.shape).gather(1, likeliest)[:, 0])
        return Prediction(joint.sum(1), facing[:, 0].view(*best.shape, 4).gather(1, of_class), summary, whole=whole)

    @staticmethod
    def rank(upright: Tensor, most: int) -> tuple[Tensor, int]:
        """Rank candidates by the scorer's scores.

        Args:
            upright: (C,), these scores.
            most: largest number of candidates to read.

        Returns:
            Their indices (C,), the likeliest first, and how many of the first ones are to be read.
        """
        likely = int((upright.softmax(0) >= _NEGLIGIBLE).sum())
        return upright.argsort(descending=True, stable=True), max(1, min(most, likely))

    @staticmethod
    def face(poses: Tensor, harmonics: Tensor, normals: Tensor, most: int = 4) -> tuple[Tensor, Tensor]:
        """Rotate candidates about their up direction to the azimuths that the shape may have, and snap them.

        Args:
            poses: (R, 4), candidates.
            harmonics: (R, 3, 2), of their azimuth, see `UprightReading`.
            normals: (N, 3), of the cloud, or (R, 1, N, 3).
            most: number of azimuths A.

        Returns:
            (R, A, 4) poses and (R, A) their shares of the probability, the likeliest first; where there are fewer
            likely azimuths, the shares of the others are 0.
        """
        angles, shares = (x[:, :most] for x in azimuth_modes(harmonics))
        return _snapped(multiply(poses[:, None], from_azimuth(angles)), normals), shares

    def read_projections(
        self, positions: Tensor, normals: Tensor, facing: Tensor, shares: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Read projections from the two likeliest azimuths of each candidate, and decide between these again.

        Args:
            positions, normals: (2 R, N, 3), for each candidate twice, or (1, N, 3) for one cloud that all are of.
            facing, shares: (R, A, 4) and (R, A), see `face`.

        Returns:
            The mean scores of the up direction (R,) and of the classes (R, C), and the poses and their shares.
        """
        assert self.projections is not None
        likely, share = facing[:, :2], shares[:, :2]
        read = self.projections(positions, normals, likely.flatten(0, 1))
        found = ProjectionReading(*(x.view(likely.shape[0], 2, *x.shape[1:]) for x in read))
        scores = share.log() + found.facing
        decided = scores.softmax(-1) * share.sum(-1, keepdim=True)
        swapped = scores[:, 1:] > scores[:, :1]
        facing = torch.cat((torch.where(swapped[..., None], likely.flip(1), likely), facing[:, 2:]), 1)
        shares = torch.cat((torch.where(swapped, decided.flip(1), decided), shares[:, 2:]), 1)
        # A second azimuth of share 0 does not exist.
        weight = (share > 0).to(share.dtype) / (share > 0).sum(-1, keepdim=True)
        upright, classes = (weight * found.upright).sum(-1), (weight[..., None] * found.scores).sum(1)
        return upright, classes, facing, shares


def positions_and_normals(points: OrientedPoints) -> tuple[Tensor, Tensor]:
    """What the readers see of clouds: (clouds, N, 3) positions and normals, of valid points only."""
    primary = fill(points)
    return primary.positions, to_matrix(primary.poses[..., 0, :])[..., 2]


def _snapped(poses: Tensor, normals: Tensor) -> Tensor:
    """Poses (..., 4) snapped to the axes of the normals (N, 3), where that keeps the up direction."""
    kind = poses.dtype if is_exporting() else torch.float64  # onnxruntime lacks operators in float64
    snapped = snap_pose(poses.to(kind), normals.to(kind)).to(poses)
    z = torch.tensor([0.0, 0.0, 1.0], dtype=poses.dtype, device=poses.device)
    same = (rotate(poses, z) * rotate(snapped, z)).sum(-1, keepdim=True) > _LARGEST_TILT
    return torch.where(same, snapped, poses)


register_network(
    "upright",
    UprightNet,
    UprightConfig(classes=40),
    {
        "method": "centred",
        "epochs": 40,
        "batch_size": 32,
        "learning_rate": 3e-3,
        "schedule": "onecycle",
        "loss": "cross_entropy",
        "smoothing": 0.1,
        "aligned": 1.0,
        "stretch": 1.3,
        "weight_decay": 0.05,
    },
)
