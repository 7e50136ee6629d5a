"""Point2Sequence (Liu et al., AAAI 2019): areas of growing size around a point are a sequence, which a network with
attention reads.

Each area is a maximum over its points. An LSTM encodes the sequence of areas, a decoder takes one step, and attention
weighs the encoder's states by it; a small PointNet then reads the features of all regions.
"""

import torch
from benchmarks.baselines.base import Baseline, BaselineConfig
from benchmarks.baselines.layers import largest, nearest, perceptron, pick
from torch import Tensor, nn

SHARES = (16, 32, 64, 128)
"""Points in the areas around a centre, of 1,024."""


class AttentiveSequence(nn.Module):
    """An encoder and a decoder of one step, whose context is a weighted sum of the encoder's states (section 3.3)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.encoder = nn.LSTM(width, width, batch_first=True)
        self.decoder = nn.LSTMCell(width, width)
        self.score = nn.Linear(width, width, bias=False)
        self.out = nn.Linear(2 * width, width, bias=False)

    def forward(self, sequence: Tensor) -> Tensor:
        """(R, areas, width) → (R, width)"""
        states, (hidden, cell) = self.encoder(sequence)
        step, _ = self.decoder(sequence[:, -1], (hidden[0], cell[0]))
        weights = (states @ self.score(step)[..., None]).softmax(1)
        return torch.tanh(self.out(torch.cat(((weights * states).sum(1), step), -1)))


class Point2Sequence(Baseline):
    """Sees coordinates relative to centres, along the world's axes: a rotation changes what it sees."""

    compact = BaselineConfig(classes=40, frames=512, width=0.25, reads=256)
    class_bias = "head.4.bias"

    def __init__(self, config: BaselineConfig) -> None:
        super().__init__(config)
        # 384 of 1,024 points are centres; areas have the same shares of a smaller cloud.
        self.centres = max(1, 3 * config.reads // 8)
        self.sizes = [max(4, share * config.reads // 1024) for share in SHARES]
        widths = ((32, 64, 128), (64, 64, 128), (64, 64, 128), (128, 128, 128))
        self.areas = nn.ModuleList(perceptron(3, *config.scale(*each)) for each in widths)
        region, *rest, first, second = config.scale(128, 256, 512, 1024, 512, 256)
        self.sequence = AttentiveSequence(region)
        self.region = perceptron(region, region)
        self.whole = perceptron(3 + region, *rest)
        self.head = nn.Sequential(
            perceptron(rest[-1], first),
            nn.Dropout(0.6),
            perceptron(first, second),
            nn.Dropout(0.6),
            nn.Linear(second, config.classes),
        )

    def scores(self, points: Tensor, normals: Tensor, present: Tensor) -> Tensor:
        few = present[:, : self.centres]
        own = points[:, : self.centres][few]
        index = nearest(points, present, self.centres, self.sizes[-1])
        offsets = pick(points, index) - own[:, None]
        # The nearest come first, so an area is a part of each larger one.
        areas = [_embed(area, offsets[:, :size]) for area, size in zip(self.areas, self.sizes, strict=True)]
        regions = self.region(self.sequence(torch.stack(areas, 1)))
        return self.head(largest(self.whole(torch.cat((own, regions), -1)), few))  # type: ignore[no-any-return]


def _embed(area: nn.Module, offsets: Tensor) -> Tensor:
    """(R, K, 3) → the maximum over each area (R, C)"""
    rows: Tensor = area(offsets.flatten(0, 1))
    return rows.view(*offsets.shape[:2], rows.shape[-1]).amax(1)
