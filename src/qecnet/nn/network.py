"""The interface of a network to the rest of the package."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from torch import Tensor, nn

from ..algebra import full_precision, nearest_with_up
from ..geometry import OrientedPoints
from .field_limits import check_at_most
from .prediction import Prediction
from .tracing import PatchCapsules, VotingRound


@dataclass(frozen=True)
class NetworkConfig:
    """The part of a configuration that all networks share.

    Attributes:
        classes: number of classes.
        frames: number of local reference frames that are read of a cloud.
    """

    classes: int
    frames: int = 512

    def __post_init__(self) -> None:
        if not isinstance(self.classes, int) or self.classes < 1:
            raise ValueError(f"classes is {self.classes}; a network needs a whole number, at least 1")
        check_at_most(self, classes=100_000, frames=20_000)


class Network(nn.Module, ABC):
    """`OrientedPoints` in, a `Prediction` out. Subclasses implement `predict`.

    Attributes:
        config: the configuration that it was created from.
        title: its name in tables and lists.
        has_poses: whether it predicts poses; otherwise they are the identity.
        normalises_batch: whether it trains on at least two clouds at a time.
        reads_candidates: whether it reads candidate poses, which `prepare` then proposes.
        has_pose_loss: whether its predictions have a loss of their own for poses.
        learns_unlabelled: whether it also learns orientations from shapes without a class.
        reads_alone: whether it reads the clouds of a batch one by one, so that a batch changes no bit of a prediction.
        class_bias: the name of a parameter that has one value for each class.
        class_rows: names of the linear layers that have one row for each class.
        parts: names of the submodules that can be trained alone.
        posed_parts: those of them that learn orientations, also from shapes without a class.
        mixed_parts: those that can be trained in mixed precision, see `use_mixed_precision`.
        only: the one of them that is trained; empty for the whole network.
        adjustable: fields of the configuration in which weights to start from may differ, as no parameter depends on
            them.
        growing: fields that may be larger than in weights to start from; what these lack changes nothing at first.
        former: values of fields of the configuration that files of earlier versions do not have.
        variants: by a boolean field of the configuration, the name and the end of the title that tables use for the
            network if that field is False.
    """

    has_poses: ClassVar[bool] = True
    normalises_batch: ClassVar[bool] = False
    reads_candidates: ClassVar[bool] = False
    has_pose_loss: ClassVar[bool] = False
    learns_unlabelled: ClassVar[bool] = False
    reads_alone: ClassVar[bool] = False
    class_rows: ClassVar[tuple[str, ...]] = ()
    parts: ClassVar[tuple[str, ...]] = ()
    posed_parts: ClassVar[tuple[str, ...]] = ()
    mixed_parts: ClassVar[tuple[str, ...]] = ()
    adjustable: ClassVar[tuple[str, ...]] = ()
    growing: ClassVar[tuple[str, ...]] = ()
    former: ClassVar[Mapping[str, Any]] = {}
    variants: ClassVar[Mapping[str, tuple[str, str]]] = {}
    class_bias: ClassVar[str]
    title: ClassVar[str]

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        self.config = config
        self.only = ""
        self.register_load_state_dict_pre_hook(self._check_classes)  # type: ignore[no-untyped-call]

    @abstractmethod
    def predict(self, points: OrientedPoints) -> Prediction:
        """Predict class and pose of each cloud.

        Args:
            points: (clouds, N).

        Returns:
            One prediction for each cloud.
        """

    @property
    @abstractmethod
    def descriptor_size(self) -> int:
        """D, the number of values in a descriptor."""

    def predict_upright(self, points: OrientedPoints, up: Tensor) -> Prediction:
        """Predict where the up direction is known; by default, poses are moved to the nearest ones that have it.

        Args:
            points: (clouds, N).
            up: (clouds, 3), of any length above 0.

        Returns:
            One prediction for each cloud, whose poses take z to `up`.
        """
        found = self.predict(points)
        return replace(found, poses=nearest_with_up(found.poses, up[:, None]))

    def forward(self, points: OrientedPoints, up: Tensor | None = None) -> Prediction:
        """Predict class and pose of each cloud.

        Args:
            points: (clouds, N), see `OrientedPoints.stack`.
            up: (3,) or (clouds, 3), directions that are known to be up, of any length above 0: poses take z there.

        Returns:
            One prediction for each cloud.
        """
        if points.positions.dim() != 3:
            raise ValueError(f"positions has shape {tuple(points.positions.shape)}; it must be (clouds, points, 3)")
        if self.training and self.normalises_batch and len(points.positions) < 2:
            raise ValueError(
                "the batch has 1 cloud; this network uses batch normalisation and needs at least 2 to train"
            )
        with full_precision(points.positions.device):
            if up is None:
                return self.predict(points)
            return self.predict_upright(points, up.to(points.positions).expand(len(points.positions), 3))

    def train_only(self, part: str) -> None:
        """Train only one part from now on; the others are frozen.

        Args:
            part: one of `parts`.
        """
        self.only = part
        self.requires_grad_(False)
        self.get_submodule(part).requires_grad_(True)

    def use_mixed_precision(self, on: bool = True) -> None:
        """Compute products of `mixed_parts` in bfloat16 while they are trained, or no longer; does nothing by default.

        Args:
            on: False for float32.
        """

    def read_less(self) -> None:
        """Trade a little accuracy for speed, if the network supports it; does nothing by default."""

    def without_classes(self) -> "Network":
        """Copy the network with one class, for orientations only.

        Returns:
            The copy.

        Raises:
            ValueError: unless the network supports it.
        """
        raise ValueError(f"{self.title}: this network predicts no orientations without classes")

    def reduced(self, clouds: Iterable[OrientedPoints], rank: int) -> "Network":
        """Copy a trained network with fewer parameters, if the network supports it; otherwise a ValueError.

        The layers before the readers' summaries are replaced by products of two matrices of a low rank, which keep the
        principal components of the normalised summaries.

        Args:
            clouds: batches of training data, on which the summaries are measured.
            rank: of the products, at least 1.

        Returns:
            The copy. Both are left in evaluation mode.
        """
        raise ValueError(f"{self.title}: this network has no summaries to reduce")

    def explain_patches(self, points: OrientedPoints, prediction: Prediction) -> PatchCapsules | None:
        """Describe the patches of a cloud.

        Args:
            points: (1, N), one cloud.
            prediction: for this cloud.

        Returns:
            Its patches and their capsules; None for a network without patches.
        """
        return None

    def trace_votes(self, points: OrientedPoints, prediction: Prediction) -> list[VotingRound]:
        """Trace the votes for the pose of a cloud through routing.

        Args:
            points: (1, N), one cloud.
            prediction: for this cloud.

        Returns:
            The votes for the pose of the predicted class, one round for each time that votes are routed.
        """
        return []

    def _check_classes(self, _: nn.Module, state_dict: Mapping[str, Any], prefix: str, *__: Any) -> None:
        """Refuse weights for another number of classes in one sentence; PyTorch would list every differing shape."""
        bias = state_dict.get(prefix + self.class_bias)
        if isinstance(bias, Tensor) and len(bias) != self.config.classes:
            raise ValueError(f"the weights are for {len(bias)} classes; this network has {self.config.classes}")
