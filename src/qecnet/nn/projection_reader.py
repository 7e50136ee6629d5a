"""Reads a cloud from its projections: depth maps along the three axes of a pose, and a small convolutional network.

The maps depend continuously on the points and on the pose, and a point that occurs twice changes nothing. A pose that
rotates with the cloud makes them invariant to rotation. Depth maps of points and a small residual network are those of
SimpleView (Goyal et al., ICML 2021); here front and back share one map, and normals are drawn as well.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor, nn

from ..algebra import conjugate, rotate
from .field_limits import check_at_most
from .fused import draw_projections_fused, is_fused
from .summary_layer import SUMMARY_SIZE, summary_layer

CHANNELS = 5
"""Of a projection: how near points are to the front (the end of the axis) and to the back, and the absolute values of
their normals along the three axes."""

_PLANES = ((1, 2), (0, 2), (0, 1))  # the axes across each of the three, the second drawn upward
_FAR = 0.3  # nearness at the far end of the cloud; at the near end it is 1, and where there is no point 0
_REACH = 1.5  # pixels: how far a point is drawn
_RIM = 0.25  # pixels over which it fades out, so that the maps are continuous
_UNSHUFFLED = 2  # pixels of a square with this side become channels of one
_SIDES = 32


@dataclass(frozen=True)
class ProjectionReaderSize:
    """The sizes of a projection reader.

    Attributes:
        points: the first points of a cloud that it draws.
        resolution: pixels of a projection along each side, a multiple of 2.
        widths: channels of its residual blocks; each block but the first halves the resolution.
    """

    points: int = 1024
    resolution: int = 64
    widths: tuple[int, ...] = (32, 64, 128)

    def __post_init__(self) -> None:
        check_at_most(self, points=20_000, resolution=1024)
        if self.points < 1:
            raise ValueError(f"points is {self.points}; it must be at least 1")
        if self.resolution < 2 or self.resolution % _UNSHUFFLED:
            raise ValueError(f"resolution is {self.resolution}; it must be a multiple of {_UNSHUFFLED}")
        if not 1 <= len(self.widths) <= 8 or not 1 <= min(self.widths) <= max(self.widths) <= 65_536:
            raise ValueError(f"widths is {self.widths}; it must be one to eight numbers from 1 to 65,536")


class ProjectionReading(NamedTuple):
    """The output of a projection reader for each of R rows, a cloud and a pose.

    Attributes:
        upright: (R,) score of the up direction; larger is more likely.
        facing: (R,) score of the rotation about it.
        scores: (R, C), of the classes.
    """

    upright: Tensor
    facing: Tensor
    scores: Tensor


class ProjectionReader(nn.Module):
    """Scores of a pose and of the class, from the projections along the axes of the pose.

    Args:
        size: see `ProjectionReaderSize`.
        classes: C.
        dropout: of the summary, in training.
        rank: of the summary, see `summary_layer`.
        blocks: number of residual blocks at each resolution but the first, which has one. Blocks after the first one
            change nothing before they are trained.

    Attributes:
        mixed_precision: whether training computes products in bfloat16.
    """

    def __init__(
        self, size: ProjectionReaderSize, classes: int, dropout: float, rank: int = 0, blocks: int = 1
    ) -> None:
        super().__init__()
        self.size = size
        self.mixed_precision = False
        first, *_, last = size.widths
        self.first = nn.Conv2d(CHANNELS * _UNSHUFFLED**2, first, 3, padding=1, bias=False)
        self.top = nn.Parameter(torch.zeros(first))  # added to the projection along up, which shares all weights
        self.first_normalised = nn.BatchNorm2d(first)
        self.blocks = nn.ModuleList([_Block(first, first, stride=1)])
        self.blocks += [_Block(given, features, stride=2) for given, features in pairwise(size.widths)]
        further = [0] + [blocks - 1] * (len(size.widths) - 1)
        self.further = nn.ModuleList(
            nn.Sequential(*(_Block(width, width, stride=1) for _ in range(count)))
            for width, count in zip(size.widths, further, strict=True)
        )
        for block in self.further.modules():
            if isinstance(block, _Block):
                nn.init.zeros_(block.normalised_again.weight)
        self.summary = summary_layer(6 * last, rank)
        self.summary_normalised = nn.BatchNorm1d(SUMMARY_SIZE)
        self.dropout = nn.Dropout(dropout)
        self.sides = nn.Linear(6 * last, _SIDES, bias=False)
        self.sides_normalised = nn.BatchNorm1d(_SIDES)
        self.facing = nn.Linear(_SIDES, 1)
        self.upright = nn.Linear(SUMMARY_SIZE, 1)
        self.classes = nn.Linear(SUMMARY_SIZE, classes)

    def forward(self, positions: Tensor, normals: Tensor, poses: Tensor) -> ProjectionReading:
        """Read each row.

        Args:
            positions: (R, N, 3), centred, of radius 1; or (1, N, 3) for one cloud that is read from all poses.
            normals: of the same shape, unit, or zero where unknown.
            poses: (R, 4) WXYZ, the z axis up.
        """
        to_pose, points = conjugate(poses)[:, None], self.size.points
        positions, normals = (rotate(to_pose, x[:, :points]) for x in (positions, normals))
        seen = draw_projections(positions, normals, self.size.resolution)
        with torch.autocast(seen.device.type, torch.bfloat16, enabled=self.mixed_precision and self.training):
            return ProjectionReading(*(found.to(positions.dtype) for found in self._read(seen)))

    def _read(self, seen: Tensor) -> ProjectionReading:
        """Read projections (R, 3, 5, S, S)."""
        rows = seen.shape[0]
        pixels = nn.functional.pixel_unshuffle(seen.flatten(0, 1), _UNSHUFFLED)
        found = self.first(pixels.contiguous(memory_format=torch.channels_last))
        kinds = torch.stack((torch.zeros_like(self.top), torch.zeros_like(self.top), self.top))
        found = found + kinds.to(found).repeat(rows, 1)[..., None, None]
        found = self.first_normalised(found).relu()
        for block, further in zip(self.blocks, self.further, strict=True):
            found = further(block(found))
        pooled = torch.cat((found.amax((2, 3)), found.mean((2, 3))), -1).view(rows, 3, -1)
        facing = self.facing(self.sides_normalised(self.sides(pooled.flatten(1))).relu())[:, 0]
        # The two horizontal axes change places when the pose is rotated by a quarter turn about up.
        level = pooled[:, :2]
        summary = self.summary(torch.cat((level.amax(1), level.mean(1), pooled[:, 2]), -1))
        summary = self.dropout(self.summary_normalised(summary).relu())
        return ProjectionReading(self.upright(summary)[:, 0], facing, self.classes(summary))


class _Block(nn.Module):
    """Two convolutions and a shortcut."""

    def __init__(self, given: int, features: int, stride: int) -> None:
        super().__init__()
        self.convolved = nn.Conv2d(given, features, 3, stride, 1, bias=False)
        self.normalised = nn.BatchNorm2d(features)
        self.convolved_again = nn.Conv2d(features, features, 3, 1, 1, bias=False)
        self.normalised_again = nn.BatchNorm2d(features)
        self.shortcut = (
            nn.Sequential(nn.Conv2d(given, features, 1, stride, bias=False), nn.BatchNorm2d(features))
            if stride > 1
            else nn.Identity()
        )

    def forward(self, images: Tensor) -> Tensor:
        found = self.normalised(self.convolved(images)).relu()
        result: Tensor = (self.normalised_again(self.convolved_again(found)) + self.shortcut(images)).relu()
        return result


@torch.no_grad()
def draw_projections(positions: Tensor, normals: Tensor, resolution: int) -> Tensor:
    """Draw clouds as seen along their x, y and z axes, orthographically.

    Each point is drawn on the pixels around it, and each pixel keeps the largest value.

    Args:
        positions: (R, N, 3), of radius 1.
        normals: (R, N, 3), unit, or zero where unknown.
        resolution: S, pixels along each side; the sphere of radius 1 fills the projection.

    Returns:
        (R, 3, 5, S, S): for each of the axes, `CHANNELS`. There is no gradient.
    """
    if is_fused(positions, normals):
        return draw_projections_fused(positions, normals, resolution, _FAR, _REACH, _RIM)
    rows, count, _ = positions.shape
    planes = torch.tensor(_PLANES, device=positions.device)
    across = (positions[..., planes] + 1) * (resolution / 2)  # (R, N, 3, 2)
    steps = torch.tensor([[x, y] for y in (-1, 0, 1) for x in (-1, 0, 1)], device=positions.device)
    pixels = across.floor().long()[..., None, :] + steps  # (R, N, 3, 9, 2)
    inside = (pixels >= 0).logical_and(pixels < resolution).all(-1)
    offsets = (across[..., None, :] - pixels - 0.5).abs()
    weights = ((_REACH - offsets) / _RIM).clamp(0, 1).prod(-1) * inside
    pixels = pixels.clamp(0, resolution - 1)
    place = pixels[..., 1] * resolution + pixels[..., 0]  # (R, N, 3, 9)
    depth = torch.stack((positions, -positions), -1) * ((1 - _FAR) / 2) + (1 + _FAR) / 2  # (R, N, 3, 2)
    shown = torch.cat((depth, normals.abs()[:, :, None].expand(-1, -1, 3, -1)), -1)  # (R, N, 3, 5)
    drawn = shown[..., None] * weights[..., None, :]  # (R, N, 3, 5, 9)
    drawn = drawn.permute(0, 2, 3, 1, 4).reshape(rows, 3, CHANNELS, count * 9)
    place = place.permute(0, 2, 1, 3).reshape(rows, 3, 1, count * 9).expand_as(drawn)
    empty = positions.new_zeros(rows, 3, CHANNELS, resolution * resolution)
    return empty.scatter_reduce(-1, place, drawn, "amax").view(rows, 3, CHANNELS, resolution, resolution)
