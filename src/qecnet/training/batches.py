"""Batches of frames for training, gathered from the memory-mapped cache by a background thread.

All random numbers follow from the seed, the epoch and the step. A run can therefore resume at any step without the
state of a generator, and each of several processes finds its part of a batch by itself.
"""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice
from typing import TypeVar

import torch
from torch import Tensor

from qecnet.algebra import random_quaternion
from qecnet.datasets import derive_seed
from qecnet.geometry import OrientedPoints
from qecnet.nn import Whole
from qecnet.training.settings import Settings
from qecnet.training.stretch import stretch
from qecnet.training.unlabelled import TrainingFrames

_ORDER, _SUBSAMPLING, _AUGMENTATION, _ROTATION = range(4)
"""Streams of random numbers."""

_AHEAD = 4
"""Number of items that wait until they are used."""

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Batch:
    """B clouds with L labels.

    L = B, or B/2 for pairs: then clouds i and L + i are two subsamples of one shape.

    Attributes:
        points: the clouds.
        labels: (L), of their classes.
        wholes: where the whole shapes of the clouds are; None if all clouds are whole.
    """

    points: OrientedPoints
    labels: Tensor
    wholes: Whole | None = None

    def to(self, device: torch.device) -> Batch:
        """Move all tensors to a device."""
        return Batch(self.points.to(device), self.labels.to(device), self.wholes and self.wholes.to(device))


class TrainingBatches:
    """The batches of each epoch, in a new order and with the next subsample of each shape.

    An incomplete last batch is left out. `shapes` are indices (N) into the cache.

    Raises:
        ValueError: if there are fewer shapes than `batch_size`.
    """

    def __init__(self, cache: TrainingFrames, shapes: Tensor, settings: Settings) -> None:
        if len(shapes) < settings.batch_size:
            raise ValueError(
                f"batch_size is {settings.batch_size}, with {len(shapes)} training shapes; set a smaller one"
            )
        again = shapes[cache.labels[shapes] < 0].repeat(settings.unlabelled_repeats - 1)
        self.cache, self.shapes, self.settings = cache, torch.cat((shapes, again)), settings
        self.steps = len(self.shapes) // settings.batch_size

    def after(self, epoch: int, step: int, piece: slice) -> Iterator[Batch]:
        """Yield all batches of a run from an epoch and step on; of each, the `piece` that one process works on."""
        size, seed, count = self.settings.batch_size, self.settings.seed, self.cache.subsamplings
        offsets = torch.randint(count, (len(self.cache),), generator=_generator(seed, _SUBSAMPLING))
        for at in range(epoch, self.settings.epochs):
            order = self.shapes[torch.randperm(len(self.shapes), generator=_generator(seed, _ORDER, at))]
            for number in range(step if at == epoch else 0, self.steps):
                chosen = order[number * size : (number + 1) * size]
                subsampling = (offsets[chosen] + at) % count
                yield self._batch(chosen, subsampling, piece, _generator(seed, _AUGMENTATION, at, number))

    def _batch(self, chosen: Tensor, subsampling: Tensor, piece: slice, generator: torch.Generator) -> Batch:
        """Gather one batch; random numbers are drawn for the whole batch, whatever the piece."""
        count, views = self.cache.subsamplings, [subsampling]
        if self.settings.siamese > 0:
            views.append((subsampling + torch.randint(1, count, chosen.shape, generator=generator)) % count)
        lots = torch.cat([torch.rand(len(chosen), self.settings.frames, generator=generator)[piece] for _ in views])
        shapes = chosen[piece]
        points = self.cache.points(shapes.repeat(len(views)), torch.cat([view[piece] for view in views]))
        points = replace(points, valid=points.valid & (lots >= self.settings.dropped))
        wholes = self.cache.points(shapes.repeat(len(views))) if self.settings.views > 0 else None
        if self.settings.stretch > 1:
            factors = self.settings.stretch ** (2 * torch.rand(len(chosen), 3, generator=generator)[piece] - 1)
            factors = factors.repeat(len(views), 1)
            points = stretch(points, factors, self.settings.method)
            wholes = wholes and stretch(wholes, factors, self.settings.method)
        return Batch(points, self.cache.labels[shapes], _place(points, wholes) if wholes else None)


def _place(parts: OrientedPoints, wholes: OrientedPoints) -> Whole:
    """Where whole shapes are, as seen from parts of them with the same coordinates."""
    offset = (wholes.centre - parts.centre) / parts.scale[:, None]
    return Whole(offset.to(parts.positions), (wholes.scale / parts.scale).log().to(parts.positions))


def validation_batches(
    cache: TrainingFrames, shapes: Tensor, size: int, *, rotated: bool, subsampling: int = 0
) -> Iterator[tuple[Batch, Tensor]]:
    """Yield one subsample of each shape, upright (NR) or randomly rotated (AR), with rotations (B, 4), WXYZ.

    The rotation depends only on the shape's index in the cache, so that it is the same in each epoch and each run.
    Frames are rotated with the points, as in the protocol "paper"; the strict one estimates them after the rotation.
    """
    for first in range(0, len(shapes), size):
        chosen = shapes[first : first + size]
        points = cache.points(chosen, torch.full_like(chosen, subsampling))
        q = torch.eye(4)[0].expand(len(chosen), 4)
        if rotated:
            q = torch.stack([random_quaternion((), derive_seed(_ROTATION, index)) for index in chosen.tolist()])
            points = points.rotated(q)
        yield Batch(points, cache.labels[chosen]), q


def prefetch(items: Iterable[T]) -> Generator[T]:
    """Yield items that a background thread makes a few ahead; its errors are raised here. Close when done."""
    rest = iter(items)
    pool = ThreadPoolExecutor(1, "prefetch")
    try:
        ahead = deque(pool.submit(tuple, islice(rest, 1)) for _ in range(_AHEAD))
        while item := ahead.popleft().result():
            ahead.append(pool.submit(tuple, islice(rest, 1)))
            yield item[0]
    finally:
        pool.shutdown(cancel_futures=True)


def checksum(cache: TrainingFrames) -> int:
    """Compute the CRC-32 of all frames of a cache, which must not change before a run is resumed."""
    found = 0
    for first in range(0, len(cache), 64):
        shapes = torch.arange(first, min(first + 64, len(cache)))
        points = cache.points(shapes[:, None], torch.arange(cache.subsamplings))
        for part in (points.positions, points.frames, points.valid, points.candidates):
            found = zlib.crc32(part.numpy().data, found)
    return found


def _generator(*numbers: int) -> torch.Generator:
    return torch.Generator().manual_seed(derive_seed(*numbers))
