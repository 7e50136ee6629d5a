"""The paper's network (Sec. 5.2): two QEC modules, from frames to patches and from patches to classes."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import torch

from ..geometry import OrientedPoints
from .capsules import Capsules, Pooling
from .field_limits import check_sizes
from .kernel import Nonlinearity
from .module import QECModule
from .network import Network
from .patches import choose_patches
from .prediction import Prediction
from .registry import register_network
from .routing import RoutingConfig
from .tracing import PatchCapsules, VotingRound

PatchOrigin = Literal["cloud", "patch"]

_MOST_ROUTINGS = 20_000  # patches × iterations: bounds the time that a damaged file can take, which neither does alone


@dataclass(frozen=True)
class QECConfig(RoutingConfig):
    """The configuration of a `QECNet`; the defaults are the paper's.

    Attributes:
        patches, neighbours, capsules: number of patches, of frames that each reads, and of capsules at each.
        origin: what the positions of a patch's frames are relative to: the centre of the cloud, as in Algorithm 2 and
            in the authors' release, or that of the patch.
        nonlinearity: between the two layers of the transform kernels.
        canonicalize: whether patches are read in their own frames; False is the paper's "Var.", which is not
            equivariant.
    """

    patches: int = 64
    neighbours: int = 9
    capsules: int = 64
    origin: PatchOrigin = "cloud"
    nonlinearity: Nonlinearity = "none"
    canonicalize: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("patches", "neighbours"):
            if getattr(self, name) > self.frames:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at most the {self.frames} frames")
        check_sizes(self, patches=4096, neighbours=1024, capsules=4096)
        if self.patches * self.iterations > _MOST_ROUTINGS:
            both = f"patches is {self.patches} and iterations is {self.iterations}"
            raise ValueError(f"{both}; their product must be at most {_MOST_ROUTINGS:,}")


class QECNet(Network):
    """Local reference frames in, one capsule for each class out."""

    title = "QEC as in the paper"
    class_bias = "classes.kernel.first.bias"
    adjustable = ("patches",)
    former: ClassVar[Mapping[str, Any]] = {"origin": "patch"}
    variants: ClassVar[Mapping[str, tuple[str, str]]] = {"canonicalize": ("var", "no canonicalisation")}
    config: QECConfig

    def __init__(self, config: QECConfig) -> None:
        super().__init__(config)
        shared = config.routing() | {"nonlinearity": config.nonlinearity, "canonicalize": config.canonicalize}
        self.patches = QECModule(1, config.capsules, **shared)
        self.classes = QECModule(config.capsules, config.classes, **shared)

    @property
    def descriptor_size(self) -> int:
        return self.config.classes

    def predict(self, points: OrientedPoints) -> Prediction:
        capsules = self.patches(*self._pool(points))
        found = self.classes(capsules, Pooling.whole(capsules))
        activations, poses = found.activations[..., 0, :], found.poses[..., 0, :, :]
        return Prediction(activations, poses, descriptor=activations)

    def _pool(self, points: OrientedPoints) -> tuple[Capsules, Pooling]:
        """Primary capsules and their patches; the paper draws other patches in each epoch of training."""
        # One number for the whole batch, so that processes that share one choose as one process would.
        start = torch.rand((), device=points.valid.device) if self.training else None
        pooling = choose_patches(points.positions, points.valid, self.config.patches, self.config.neighbours, start)
        if self.config.origin == "cloud":
            pooling = replace(pooling, origins=torch.zeros_like(pooling.centres))
        return Capsules.primary(points.positions, points.frames, points.valid), pooling

    def explain_patches(self, points: OrientedPoints, prediction: Prediction) -> PatchCapsules:
        primary, pooling = self._pool(points)
        capsules = self.patches(primary, pooling)
        best = capsules.activations[0].argmax(-1)
        return PatchCapsules(
            pooling.centres[0],
            points.positions[0][pooling.neighbours[0]],
            pooling.present[0],
            capsules.poses[0, torch.arange(len(best)), best],
            capsules.activations[0].mean(-1),
        )

    def trace_votes(self, points: OrientedPoints, prediction: Prediction) -> list[VotingRound]:
        capsules = self.patches(*self._pool(points))
        votes, activations = self.classes.votes(capsules, Pooling.whole(capsules))
        places = capsules.positions[0].repeat(capsules.poses.shape[-2], 1)
        return [self.config.trace_round(places, votes[0, 0, int(prediction.label[0])], activations[0, 0])]


register_network("paper", QECNet, QECConfig(classes=40), {"batch_size": 8})
