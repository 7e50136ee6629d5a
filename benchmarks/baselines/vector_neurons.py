"""VN-DGCNN (Deng et al., "Vector Neurons", ICCV 2021): DGCNN whose neurons are vectors that rotate with the input.

Features are (R, 3, C): C vectors for each present point. Every layer is equivariant; the inner products of the vectors
with a learned frame of three of them are invariant, and an ordinary classifier reads these.
"""

import torch
from benchmarks.baselines.base import Baseline, BaselineConfig
from benchmarks.baselines.layers import largest, mean, nearest, padded, perceptron, pick
from torch import Tensor, nn

_TINY = 1e-6


class VectorActivation(nn.Module):
    """Batch normalisation of lengths, then the leaky rectifier along a learned direction (sections 3.2 and 3.4)."""

    def __init__(self, channels: int, slope: float = 0.2) -> None:
        super().__init__()
        self.lengths = nn.BatchNorm1d(channels)
        self.slope = slope

    def forward(self, vectors: Tensor, directions: Tensor) -> Tensor:
        """Vectors (..., 3, C) and directions (..., 3, C or 1) → (..., 3, C)."""
        length = vectors.square().sum(-2).add(_TINY**2).sqrt()
        scaled = self.lengths(length.flatten(0, -2)).view_as(length)
        vectors = vectors * (scaled / length).unsqueeze(-2)
        along = (vectors * directions).sum(-2, keepdim=True).clamp_max(0)
        return vectors - (1 - self.slope) * along / (directions.square().sum(-2, keepdim=True) + _TINY) * directions


class VectorLayer(nn.Module):
    """A linear map of vectors and its activation; `shared` uses one direction for all channels."""

    def __init__(self, before: int, after: int, *, shared: bool = False, slope: float = 0.2) -> None:
        super().__init__()
        self.linear = nn.Linear(before, after, bias=False)
        self.direction = nn.Linear(before, 1 if shared else after, bias=False)
        self.activation = VectorActivation(after, slope)

    def forward(self, vectors: Tensor) -> Tensor:
        """(R, 3, before) → (R, 3, after)"""
        return self.activation(self.linear(vectors), self.direction(vectors))  # type: ignore[no-any-return]


class VectorEdgeConv(nn.Module):
    """The mean over neighbours j of the layer of (x_j − x_i, x_i), whose linear parts are computed for each point."""

    def __init__(self, before: int, after: int, neighbours: int) -> None:
        super().__init__()
        self.neighbours = neighbours
        self.own = nn.Linear(before, 2 * after, bias=False)
        self.other = nn.Linear(before, 2 * after, bias=False)
        self.activation = VectorActivation(after)

    def forward(self, rows: Tensor, present: Tensor) -> Tensor:
        """(R, 3, before) → (R, 3, after); present (B, N)."""
        index = nearest(padded(rows.flatten(1), present), present, present.shape[1], self.neighbours)
        other = pick(padded(self.other(rows).flatten(1), present), index).unflatten(-1, (3, -1))
        vectors, directions = (self.own(rows)[:, None] + other).chunk(2, -1)
        return self.activation(vectors, directions).mean(1)  # type: ignore[no-any-return]


class VectorNeurons(Baseline):
    """Invariant up to rounding, which may exchange neighbours that are equally far."""

    compact = BaselineConfig(classes=40, frames=512, width=0.33, reads=128)
    class_bias = "head.4.bias"

    def __init__(self, config: BaselineConfig) -> None:
        super().__init__(config)
        # The paper has a third of DGCNN's channels, as each is a vector.
        widths = config.scale(21, 21, 42, 85)
        wide, frame, narrow = config.scale(341, 341, 170)
        neighbours = 20 if config.reads >= 1024 else 10
        self.edges = nn.ModuleList(
            VectorEdgeConv(before, after, neighbours) for before, after in zip((1, *widths), widths, strict=False)
        )
        self.points = VectorLayer(sum(widths), wide, shared=True)
        self.frame = nn.Sequential(
            VectorLayer(2 * wide, frame), VectorLayer(frame, narrow), nn.Linear(narrow, 3, bias=False)
        )
        hidden = config.scale(512, 256)
        self.head = nn.Sequential(
            perceptron(12 * wide, hidden[0]),
            nn.Dropout(0.5),
            perceptron(*hidden),
            nn.Dropout(0.5),
            nn.Linear(hidden[1], config.classes),
        )

    def scores(self, points: Tensor, normals: Tensor, present: Tensor) -> Tensor:
        rows = [points[present].unsqueeze(-1)]
        for edge in self.edges:
            rows.append(edge(rows[-1], present))
        vectors = self.points(torch.cat(rows[1:], -1))
        # Each point sees its own vectors and the mean of its cloud's.
        middle = mean(vectors.flatten(1), present).repeat_interleave(present.sum(1), 0).view_as(vectors)
        vectors = torch.cat((vectors, middle), -1)
        invariant = (vectors.transpose(1, 2) @ self.frame(vectors)).flatten(1)
        return self.head(torch.cat((largest(invariant, present), mean(invariant, present)), -1))  # type: ignore[no-any-return]
