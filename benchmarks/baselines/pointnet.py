"""PointNet (Qi et al. 2017) without its spatial transformers: one shared perceptron a point, a maximum, a head."""

from benchmarks.baselines.base import Baseline
from benchmarks.baselines.layers import head, largest, perceptron
from torch import Tensor

from qecnet.nn import NetworkConfig


class PointNet(Baseline):
    """Sees absolute coordinates, so a rotation changes what it sees."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__(config)
        self.points = perceptron(3, 64, 64, 128, 512)
        self.head = head(512, config.classes)

    def scores(self, points: Tensor, normals: Tensor, present: Tensor) -> Tensor:
        return self.head(largest(self.points(points[present]), present))  # type: ignore[no-any-return]
