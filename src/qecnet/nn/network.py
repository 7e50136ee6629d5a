"""The network of Sec. 5.2: a hierarchy of QEC modules, from local reference frames to one capsule for each class.

Past the paper, capsules may carry features (`Features`): readings then take the place of the lower QEC modules, and
the features decide the class and the votes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor, nn

from ..algebra import Weighting
from ..algebra.modes import full_precision
from .capsules import Capsules, Pooling
from .features import Ballot, FeatureCapsules, Features
from .kernel import Nonlinearity
from .module import QECModule
from .routing import Gradients, check_routing


@dataclass(frozen=True)
class Level:
    """One level of the hierarchy: how many patches, how many neighbours each reads, how many capsules it gives."""

    patches: int
    neighbours: int
    capsules: int


@dataclass(frozen=True)
class QECConfig:
    """What a `QECNet` is. By default the paper's: 512 frames, 64 patches of 9, 64 capsules, and the classes.

    With `features`, there are no `levels`, and `nonlinearity` and `canonicalize` have no use.
    """

    classes: int
    points: int = 512
    levels: tuple[Level, ...] = (Level(patches=64, neighbours=9, capsules=64),)
    iterations: int = 3
    weighting: Weighting = "sigmoid"
    exponent: float = 1.0
    gradients: Gradients = "last"
    nonlinearity: Nonlinearity = "none"
    canonicalize: bool = True
    features: Features | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.classes, int) or self.classes < 1:
            raise ValueError(f"classes is {self.classes}; a network needs a whole number, at least 1")
        check_routing(self.iterations, self.weighting, self.exponent, self.gradients)
        if bool(self.levels) == (self.features is not None):
            raise ValueError("a network needs either levels below its classes, or features")
        available = self.points
        for number, level in enumerate(self.levels, start=1):
            if min(level.patches, level.neighbours, level.capsules) < 1:
                raise ValueError(f"level {number} is {level}; it needs at least 1 of each")
            for what, size in (("neighbours", level.neighbours), ("patches", level.patches)):
                if size > available:
                    raise ValueError(
                        f"level {number} has {size} {what}, but there are only {available} points below it"
                    )
            available = level.patches


PAPER = QECConfig(classes=40)
RELEASE = QECConfig(
    classes=40, points=2048, levels=(Level(patches=256, neighbours=9, capsules=128),), weighting="linear"
)
FEATURES = QECConfig(classes=40, levels=(), features=Features())
CONFIGS: Mapping[str, QECConfig] = {"paper": PAPER, "release": RELEASE, "features": FEATURES}
"""Configurations by name; `dataclasses.replace(CONFIGS[name], classes=C)` for another number of classes."""


@dataclass(frozen=True)
class Prediction:
    """What the network says of each cloud: activations (clouds, classes) that no rotation changes, and poses
    (clouds, classes, 4), WXYZ, that turn with the cloud. Of a network with features also the `ballots` of its looks.
    """

    activations: Tensor
    poses: Tensor
    ballots: tuple[Ballot, ...] = ()

    @property
    def label(self) -> Tensor:
        """The class of the most activated capsule. (clouds)"""
        return self.activations.argmax(-1)

    @property
    def confidence(self) -> Tensor:
        """The activation of that capsule. (clouds)"""
        return self.activations.amax(-1)

    @property
    def pose(self) -> Tensor:
        """The pose of that capsule: from the class's canonical orientation to the cloud's. (clouds, 4), WXYZ"""
        return self.pose_of(self.label)

    def pose_of(self, label: Tensor) -> Tensor:
        """The pose of the capsule of a given class for each cloud. (clouds) → (clouds, 4), WXYZ"""
        return self.poses.gather(-2, label[..., None, None].expand(*label.shape, 1, 4))[..., 0, :]


class QECNet(nn.Module):
    """Local reference frames in, one capsule for each class out. `QECNet(classes=C)` is the paper's network."""

    def __init__(self, config: QECConfig | None = None, *, classes: int | None = None) -> None:
        super().__init__()
        if (config is None) == (classes is None):
            raise ValueError("give QECNet either a config or a number of classes")
        self.config = config or replace(PAPER, classes=classes or 0)
        routing = {name: getattr(self.config, name) for name in ("iterations", "weighting", "exponent", "gradients")}
        self.levels = nn.ModuleList()
        self.head: QECModule | FeatureCapsules
        if self.config.features is not None:
            self.head = FeatureCapsules(self.config.features, self.config.classes, **routing)
        else:
            self._add_levels(routing)
        self.register_load_state_dict_pre_hook(self._check_weights)  # type: ignore[no-untyped-call]

    def _add_levels(self, routing: dict[str, Any]) -> None:
        """QEC modules, as many as there are levels, and one for the classes."""
        shared: dict[str, Any] = routing | {
            "nonlinearity": self.config.nonlinearity,
            "canonicalize": self.config.canonicalize,
        }
        channels = 1
        for level in self.config.levels:
            self.levels.append(QECModule(channels, level.capsules, level.neighbours, **shared))
            channels = level.capsules
        self.head = QECModule(channels, self.config.classes, **shared)

    def forward(self, capsules: Capsules, poolings: Sequence[Pooling]) -> Prediction:
        """Primary capsules (clouds, points), centred on each cloud's own centre, and the pooling of each level.

        With features, capsules find their neighbours themselves and `poolings` are not looked at.
        """
        if isinstance(self.head, FeatureCapsules):
            return self._by_features(capsules, self.head)
        *_, last = self.capsules(capsules, poolings)
        return Prediction(last.activations[..., 0, :], last.poses[..., 0, :, :])

    def _by_features(self, capsules: Capsules, head: FeatureCapsules) -> Prediction:
        if self.training and len(capsules.positions) < 2:
            raise ValueError(
                "there is 1 cloud; a network with features normalises over its batch, and trains on at least 2"
            )
        with full_precision(capsules.poses.device):
            ballots = head(capsules)
        return Prediction(ballots[-1].scores.softmax(-1), ballots[-1].poses, tuple(ballots))

    def capsules(self, capsules: Capsules, poolings: Sequence[Pooling]) -> list[Capsules]:
        """The capsules of every level, the classes' last: (clouds, patches) each; of a network without features."""
        if len(poolings) != len(self.levels):
            raise ValueError(f"there are poolings for {len(poolings)} levels; this network has {len(self.levels)}")
        given = []
        for module, pooling in zip(self.levels, poolings, strict=True):
            capsules = module(capsules, pooling)
            given.append(capsules)
        return [*given, self.head(capsules, Pooling.whole(capsules))]

    def _check_weights(self, _: nn.Module, state_dict: Mapping[str, Any], prefix: str, *__: Any) -> None:
        """One sentence for weights of another number of classes, before PyTorch lists every shape that differs."""
        name = "head.looks.0.scores.1.bias" if self.config.features else "head.kernel.first.bias"
        bias = state_dict.get(prefix + name)
        if isinstance(bias, Tensor) and len(bias) != self.config.classes:
            raise ValueError(f"the weights are for {len(bias)} classes; this network has {self.config.classes}")


def count_parameters(module: nn.Module) -> int:
    """How many numbers a module learns."""
    return sum(p.numel() for p in module.parameters() if p.requires_grad)
