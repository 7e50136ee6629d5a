"""Batches of frames for training: gathered by index from the memory-mapped cache, ahead of time, in another thread.

Everything drawn follows from the seed, the epoch and the step alone. So a run can go on from any step with no
generator's state to keep, and each process of several finds its piece of the same batch by itself.
"""

from __future__ import annotations

import queue
import threading
import zlib
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, fields, replace
from typing import TypeVar

import torch
from torch import Tensor

from qecnet.algebra import multiply, random_quaternion, rotate
from qecnet.datasets import FrameCache, derive_seed
from qecnet.geometry import Patches, Prepared
from qecnet.nn import Capsules, Pooling, QECConfig
from qecnet.training.pooling import pool
from qecnet.training.settings import Settings
from qecnet.training.stretch import stretched

_ORDER, _SUBSAMPLING, _GRAPH, _ROTATION = range(4)
"""What is drawn: one stream of random numbers each."""

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Batch:
    """points (B, N, 3), poses (B, N, 4) WXYZ, valid (B, N), patches as in `Patches` with a leading B, labels (L).

    L = B, or B/2 for pairs: then clouds i and L + i are two subsamplings of one shape.
    """

    points: Tensor
    poses: Tensor
    valid: Tensor
    centres: Tensor
    neighbours: Tensor
    mask: Tensor
    labels: Tensor

    def inputs(self) -> tuple[Capsules, list[Pooling]]:
        """What `QECNet` takes."""
        pooling = Pooling.at(self.points, self.centres, self.neighbours, self.mask)
        return Capsules.primary(self.points, self.poses, self.valid), [pooling]

    def to(self, device: torch.device) -> Batch:
        return Batch(**{field.name: getattr(self, field.name).to(device) for field in fields(Batch)})

    def rotated(self, q: Tensor) -> Batch:
        """Each cloud turned by its quaternion of (B, 4), WXYZ, and its frames with it."""
        turned = rotate(q[:, None], self.points), multiply(q[:, None].expand_as(self.poses), self.poses)
        return replace(self, points=turned[0], poses=turned[1])


class TrainingBatches:
    """The batches of each epoch, of some shapes of a cache: (B,) `shapes`, indices into it.

    Each epoch has its own order and takes the next subsampling of each shape; it also has its own pooling graphs, for
    networks that read them. What is left over after the last full batch waits for another epoch's order.
    """

    def __init__(self, cache: FrameCache, shapes: Tensor, settings: Settings) -> None:
        if len(shapes) < settings.batch_size:
            raise ValueError(
                f"batch_size is {settings.batch_size}, with {len(shapes)} shapes to train on; set a smaller one"
            )
        self.cache, self.shapes, self.settings = cache, shapes, settings
        self.steps = len(shapes) // settings.batch_size
        network = settings.network(len(cache.classes))
        self.pooled = isinstance(network, QECConfig) and bool(network.levels)

    def after(self, epoch: int, step: int, piece: slice) -> Iterator[Batch]:
        """All batches of a run from this place on; of each, the `piece` of its shapes that one process works on."""
        size, seed, count = self.settings.batch_size, self.settings.seed, self.cache.subsamplings
        offsets = torch.randint(count, (len(self.cache),), generator=_generator(seed, _SUBSAMPLING))
        for at in range(epoch, self.settings.epochs):
            order = self.shapes[torch.randperm(len(self.shapes), generator=_generator(seed, _ORDER, at))]
            for number in range(step if at == epoch else 0, self.steps):
                chosen = order[number * size : (number + 1) * size]
                subsampling = (offsets[chosen] + at) % count
                yield self._batch(chosen, subsampling, piece, _generator(seed, _GRAPH, at, number))

    def _batch(self, chosen: Tensor, subsampling: Tensor, piece: slice, generator: torch.Generator) -> Batch:
        """Draws for the whole batch, whichever piece of it is taken."""
        count, views = self.cache.subsamplings, [subsampling]
        if self.settings.siamese > 0:
            views.append((subsampling + torch.randint(1, count, chosen.shape, generator=generator)) % count)
        lots = torch.cat([torch.rand(len(chosen), self.settings.frames, generator=generator)[piece] for _ in views])
        shapes = chosen[piece]
        prepared = self.cache.prepared(shapes.repeat(len(views)), torch.cat([view[piece] for view in views]))
        prepared = replace(prepared, valid=prepared.valid & (lots >= self.settings.dropped))
        if self.settings.stretch > 1:
            factors = self.settings.stretch ** (2 * torch.rand(len(chosen), 3, generator=generator)[piece] - 1)
            prepared = stretched(prepared, factors.repeat(len(views), 1), self.settings.method)
        graph = _cached_graph(prepared)
        if self.pooled:
            starts = (lots + prepared.valid).argmax(-1)
            graph = pool(prepared.points, prepared.valid, starts, self.settings.patches, self.settings.neighbours)
        return _assembled(prepared, graph, self.cache.labels[shapes])


def validation_batches(cache: FrameCache, shapes: Tensor, size: int, *, turned: bool) -> Iterator[tuple[Batch, Tensor]]:
    """Each shape once, its first subsampling, with the cached graph; as it is (NR), or turned at random (AR). With each
    batch come the rotations (B, 4), WXYZ.

    A shape's rotation follows from its place in the cache, so that it is the same in each epoch and in each run. Frames
    are turned with the points: the protocol "paper". (The strict one estimates them after the rotation.)
    """
    for first in range(0, len(shapes), size):
        chosen = shapes[first : first + size]
        prepared = cache.prepared(chosen, torch.zeros_like(chosen))
        batch = _assembled(prepared, _cached_graph(prepared), cache.labels[chosen])
        if turned:
            q = torch.stack([random_quaternion((), derive_seed(_ROTATION, index)) for index in chosen.tolist()])
            yield batch.rotated(q), q
        else:
            yield batch, torch.eye(4)[0].expand(len(chosen), 4)


def _cached_graph(prepared: Prepared) -> Patches:
    return Patches(prepared.centres, prepared.neighbours, prepared.mask)


def _assembled(prepared: Prepared, graph: Patches, labels: Tensor) -> Batch:
    return Batch(prepared.points, prepared.poses, prepared.valid, *graph, labels)


def prefetched(items: Iterable[T], depth: int = 4) -> Generator[T]:
    """The items, made by a background thread up to `depth` ahead; an error there is raised here. Close it when done."""
    ready: queue.Queue[tuple[T, ...] | BaseException] = queue.Queue(depth)
    closed = threading.Event()

    def put(result: tuple[T, ...] | BaseException) -> None:
        while not closed.is_set():
            try:
                ready.put(result, timeout=0.1)
                return
            except queue.Full:
                continue

    def work() -> None:
        try:
            for item in items:
                put((item,))
                if closed.is_set():
                    return
            put(())
        except BaseException as error:
            put(error)

    thread = threading.Thread(target=work, name="prefetch", daemon=True)
    thread.start()
    try:
        while result := ready.get():
            if isinstance(result, BaseException):
                raise result
            yield result[0]
    finally:
        closed.set()
        thread.join()


def checksum(cache: FrameCache) -> int:
    """Of all frames of a cache: what a run that goes on must find unchanged."""
    found = 0
    for first in range(0, len(cache), 64):
        shapes = torch.arange(first, min(first + 64, len(cache)))
        prepared = cache.prepared(shapes[:, None], torch.arange(cache.subsamplings))
        for part in (prepared.points, prepared.poses, prepared.valid):
            found = zlib.crc32(part.numpy().data, found)
    return found


def _generator(*numbers: int) -> torch.Generator:
    return torch.Generator().manual_seed(derive_seed(*numbers))
