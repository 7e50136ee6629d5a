"""One look at a shape: what a network reads of it, by this process or by another."""

from __future__ import annotations

from dataclasses import dataclass, fields
from time import perf_counter
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from qecnet.geometry import PrepareConfig, Prepared
from qecnet.models.answer import Failure
from qecnet.models.inputs import Shape, as_cloud, prepared_cloud


@dataclass(frozen=True)
class View:
    """A shape's name, its frames, and how long they took."""

    name: str
    prepared: Prepared
    milliseconds: float


def view_of(shape: Shape, config: PrepareConfig, seed: int) -> View:
    """Reads, draws points and estimates frames."""
    start = perf_counter()
    cloud = as_cloud(shape, config, seed)
    prepared = prepared_cloud(cloud, config)
    return View(cloud.name, prepared, 1000 * (perf_counter() - start))


@dataclass(frozen=True)
class PackedView:
    """A view on its way between processes; tensors would cross as open files, of which there may be too many."""

    name: str
    arrays: tuple[NDArray[Any], ...]
    milliseconds: float

    def unpacked(self) -> View:
        return View(self.name, Prepared(*(torch.from_numpy(np.asarray(a)) for a in self.arrays)), self.milliseconds)


def packed_view(path: str, config: PrepareConfig, seed: int) -> PackedView | Failure:
    """What a worker does with a file; a bad one stops nobody."""
    try:
        view = view_of(path, config, seed)
    except (ValueError, OSError) as error:
        return Failure(path, str(error))
    arrays = tuple(getattr(view.prepared, field.name).numpy() for field in fields(Prepared))
    return PackedView(path, arrays, view.milliseconds)
