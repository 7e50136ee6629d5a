"""Further upright shapes, without the classes of the labelled split: they train orientations only."""

from collections.abc import Sequence
from dataclasses import fields

import torch
from torch import Tensor

from qecnet.datasets import FrameCache
from qecnet.geometry import OrientedPoints

UNLABELLED = -1
"""The label of a shape without a class."""


class JoinedFrames:
    """Two frame caches as one: the shapes of the first, then those of the second with the label −1.

    Raises:
        ValueError: if they have different numbers of subsamples.
    """

    def __init__(self, labelled: FrameCache, further: FrameCache) -> None:
        if labelled.subsamplings != further.subsamplings:
            raise ValueError(
                f"there are {labelled.subsamplings} and {further.subsamplings} subsamples of the shapes; "
                "build both caches with the same number"
            )
        self._parts = labelled, further
        self.classes, self.subsamplings = labelled.classes, labelled.subsamplings
        self.labels = torch.cat((labelled.labels, torch.full((len(further),), UNLABELLED)))

    def __len__(self) -> int:
        return len(self.labels)

    def points(
        self, index: int | Sequence[int] | Tensor, subsampling: int | Sequence[int] | Tensor = 0
    ) -> OrientedPoints:
        """As `FrameCache.points`."""
        first, numbers = len(self._parts[0]), torch.as_tensor(subsampling)
        chosen = torch.as_tensor(index) + torch.zeros_like(numbers)
        numbers = numbers + torch.zeros_like(chosen)
        which = chosen >= first
        parts = [
            cache.points(chosen[where] - start, numbers[where])
            for cache, where, start in zip(self._parts, (~which, which), (0, first), strict=True)
        ]
        order = torch.cat([where.flatten().nonzero()[:, 0] for where in (~which, which)]).argsort()
        joined = {
            field.name: torch.cat([getattr(part, field.name) for part in parts])[order]
            for field in fields(OrientedPoints)
        }
        shape = chosen.shape
        return OrientedPoints(**{name: x.view(*shape, *x.shape[1:]) for name, x in joined.items()})


TrainingFrames = FrameCache | JoinedFrames
