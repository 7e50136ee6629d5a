"""The siamese network of the appendix: the rotation between two clouds, from the capsules of one shared network."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from ..algebra import conjugate, multiply
from .capsules import Capsules, Pooling
from .network import Prediction, QECNet


@dataclass(frozen=True)
class RelativePose:
    """The rotation (clouds, 4), WXYZ, that turns the first cloud into the second, and what each was taken for."""

    rotation: Tensor
    first: Prediction
    second: Prediction


class SiameseQECNet(nn.Module):
    """One `QECNet`, read twice: relative pose = `pose₂ ∘ pose₁⁻¹`."""

    def __init__(self, network: QECNet) -> None:
        super().__init__()
        self.network = network

    def forward(
        self,
        first: tuple[Capsules, Sequence[Pooling]],
        second: tuple[Capsules, Sequence[Pooling]],
        label: Tensor | None = None,
    ) -> RelativePose:
        """Poses are those of the class `label` (clouds), as in training; without it, of the most activated capsules."""
        a, b = self.network(*first), self.network(*second)
        before, after = (p.pose if label is None else p.pose_of(label) for p in (a, b))
        return RelativePose(multiply(after, conjugate(before)), a, b)
