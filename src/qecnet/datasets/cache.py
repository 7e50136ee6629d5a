"""Frames that are computed once and stored: one memory-mapped file per split, with several subsamples of each shape.

The paper draws a new subsample of each shape in each epoch; here S of them are computed in advance, and each epoch uses
the next one. A cache is found by a hash of everything that it depends on: the shapes, the settings, the seed and the
code that computes frames. A damaged or incomplete file is never used.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, fields
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from rich.progress import Progress
from torch import Tensor

from qecnet.datasets._cache_build import Task, records
from qecnet.datasets._cache_file import Layout, good_records, is_whole, read_layout, sealed
from qecnet.datasets.dataset import Dataset, Item
from qecnet.files import alone_in, sync_folder
from qecnet.fingerprint import code_hash
from qecnet.geometry import MOST_CANDIDATES, OrientedPoints, PrepareConfig
from qecnet.workers import leave_unguarded_script


class FrameCache:
    """The frames of one split; `frame_cache` opens or builds it. It is pickled as a path: processes map the same file.

    Attributes:
        path: the file.
        classes: names of the classes.
        names: of the N shapes.
        labels: (N,) int64.
        subsamplings: S, the number of subsamples of each shape.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        layout = read_layout(self.path)
        self.classes, self.names = tuple(layout.classes), tuple(layout.names)
        self.labels = torch.tensor(layout.labels, dtype=torch.int64)
        self.subsamplings = layout.subsamplings
        rows = np.memmap(self.path, layout.record, "r", len(layout.header), (len(self.names),))
        self._rows = np.asarray(rows["subsamplings"])

    def __len__(self) -> int:
        """N, the number of shapes."""
        return len(self.names)

    def __reduce__(self) -> tuple[type[FrameCache], tuple[Path]]:
        return FrameCache, (self.path,)

    def points(
        self, index: int | Sequence[int] | Tensor, subsampling: int | Sequence[int] | Tensor = 0
    ) -> OrientedPoints:
        """Get the result of `prepare` for subsamples of shapes.

        Args:
            index: which shapes, one or a batch.
            subsampling: which of their subsamples; both arguments are broadcast.

        Returns:
            The oriented points, with the batch axes of the arguments.
        """
        place = np.asarray(index), np.asarray(subsampling)
        return OrientedPoints(
            **{field.name: _tensor(self._rows[field.name][place]) for field in fields(OrientedPoints)}
        )


def _tensor(array: NDArray[np.generic]) -> Tensor:
    """Convert an array, copied if it is a part of the file."""
    return torch.from_numpy(np.require(array, requirements=("C", "A", "W")))


def frame_cache(
    dataset: Dataset,
    split: str,
    folder: str | os.PathLike[str],
    config: PrepareConfig | None = None,
    *,
    subsamplings: int = 4,
    keep: float = 0.8,
    thinnest: float = 1.0,
    views: float = 0.0,
    seed: int = 0,
    workers: int = 2,
    progress: bool = True,
) -> FrameCache:
    """Open the frames of a split that are stored in `folder`, or compute and store them.

    A build that was interrupted or killed resumes where it stopped. Processes that build in the same folder wait for
    each other; a process whose cache is complete does not wait. The number of workers does not change the result.

    Args:
        dataset: the shapes.
        split: the part of the dataset.
        folder: where caches are stored; it is created if necessary.
        config: of `prepare`.
        subsamplings: S, the number of subsamples. Each has `config.points` new points of a mesh, or a random
            `config.points` of a larger cloud.
        keep: the fraction of the points that a subsample keeps if a cloud has no more than `config.points`; otherwise
            all subsamples would be the same.
        thinnest: number of points of the last subsample as a fraction of the first; those between are spaced
            geometrically.
        views: fraction of the subsamples that show what one camera sees (`sample_view`): the last ones, and never all.
        seed: of the subsamples, together with the shape's number in the split and that of the subsample.
        workers: number of processes.
        progress: whether to show a progress bar.

    Returns:
        The cache.

    Raises:
        ValueError: if a shape cannot be read or prepared.
        OSError: if the cache cannot be written, for example because the disk is full. What was built is kept, and the
            next call continues there.
    """
    if subsamplings < 1 or workers < 1 or not 0 < keep <= 1 or not 0 < thinnest <= 1:
        raise ValueError(
            f"subsamplings is {subsamplings}, workers is {workers}, keep is {keep} and thinnest is {thinnest}; "
            "the first two are at least 1, the others above 0 and at most 1"
        )
    seen = round(views * subsamplings)
    if not 0 <= seen < subsamplings:
        raise ValueError(f"views is {views}; at least one of {subsamplings} subsamplings must be of the whole shape")
    config = config or PrepareConfig()
    items = dataset.items(split)
    layout = _layout(dataset, split, config, subsamplings, (keep, thinnest, seen), seed)
    digest = hashlib.sha256(json.dumps(layout.key, sort_keys=True).encode()).hexdigest()[:16]
    path = Path(folder) / f"{dataset.name}-{split}-{digest}.frames"
    advice = "what was built is kept; run the command again to continue"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if is_whole(path, layout):  # without waiting for another cache that is being built
            return FrameCache(path)
        leave_unguarded_script()  # which would wait for the lock of its parent, and its parent for it
        with alone_in(path.parent, wait=True):
            if not is_whole(path, layout):
                path.unlink(missing_ok=True)
                task = Task(config, subsamplings, seen, keep, thinnest, seed, layout.subsampling)
                _build(path, layout, items, task, workers, progress)
        return FrameCache(path)
    except ChildProcessError as error:
        raise OSError(f"{path}: {error}; {advice}") from error
    except OSError as error:
        reason = error.strerror.lower() if error.strerror else str(error)  # our own sentences keep their capitals
        raise OSError(
            f"{path}: cannot be written ({reason}); free some space or give another folder; {advice}"
        ) from error


def _layout(
    dataset: Dataset, split: str, config: PrepareConfig, subsamplings: int, shares: tuple[float, float, int], seed: int
) -> Layout:
    items = dataset.items(split)
    key = {
        "dataset": dataset.fingerprint(split),
        "config": asdict(config),
        "subsamplings": subsamplings,
        "keep": shares[0],
        "thinnest": shares[1],
        "views": shares[2],
        "seed": seed,
        "code": [
            code_hash("qecnet.geometry", "*.py"),
            code_hash("qecnet.compiled", "frames.cpp", "hull.cpp", "snapping.cpp"),
            code_hash("qecnet.algebra", "quaternion.py"),
            code_hash("qecnet.datasets", "_cache_*.py"),
            code_hash("qecnet.datasets", "camera_views.py"),
        ],
    }
    names, labels = [item.name for item in items], [item.label for item in items]
    sizes = subsamplings, config.frames, MOST_CANDIDATES if config.candidates else 0
    return Layout(key, list(dataset.classes), names, labels, *sizes)


def _build(path: Path, layout: Layout, items: Sequence[Item], task: Task, workers: int, progress: bool) -> None:
    """Write the missing records to a temporary file, then rename it."""
    part = path.with_name(path.name + ".part")
    done = good_records(part, layout)
    record = layout.record.itemsize
    needed = layout.size - record * max(done, 0)
    if shutil.disk_usage(path.parent).free < needed:
        raise OSError(f"the disk has no room for {needed / 1e6:,.0f} MB of frames")
    with part.open("ab") as file, Progress(disable=not progress, transient=True) as bar:
        if done < 0:
            file.truncate(0)
            file.write(layout.header)
            done = 0
        file.truncate(len(layout.header) + done * record)
        shown = bar.add_task(f"frames of {path.name.rpartition('-')[0]}", total=len(items), completed=done)
        with closing(records(items, done, task, workers)) as new:
            for index, row in enumerate(new, start=done):
                file.write(sealed(row, index))
                # A killed process loses its own buffers, not what it has handed to the system.
                file.flush()
                bar.advance(shown)
        os.fsync(file.fileno())
    part.replace(path)
    sync_folder(path.parent)
