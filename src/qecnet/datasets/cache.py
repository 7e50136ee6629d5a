"""Frames are computed once and kept: one memory-mapped file a split, several subsamplings a shape.

The paper draws a new subsample of each shape in each epoch; here S of them are drawn beforehand, and training takes
another one each time. A cache is found by a hash of everything that changes it: the shapes, the settings, the seed and
the code that makes frames. What is damaged or half written is never used.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
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
from qecnet.files import alone_in
from qecnet.fingerprint import code_hash
from qecnet.geometry import MOST_CANDIDATES, OrientedPoints, PrepareConfig
from qecnet.workers import leave_unguarded_script


class FrameCache:
    """The frames of one split; `frame_cache` makes or finds it. Light to pickle: worker processes map the same file.

    Attributes:
        path: of the file.
        classes: their names; names: of the N shapes; labels: (N,) int64.
        subsamplings: S, how many there are of each shape.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        layout = read_layout(self.path)
        self.classes, self.names = tuple(layout.classes), tuple(layout.names)
        self.labels = torch.tensor(layout.labels, dtype=torch.int64)
        self.subsamplings = layout.subsamplings
        rows = np.memmap(self.path, layout.record, "r", len(layout.header), (len(self.names),))
        self._rows = rows["subsamplings"]

    def __len__(self) -> int:
        """N, the number of shapes."""
        return len(self.names)

    def __reduce__(self) -> tuple[type[FrameCache], tuple[Path]]:
        return FrameCache, (self.path,)

    def points(
        self, index: int | Sequence[int] | Tensor, subsampling: int | Sequence[int] | Tensor = 0
    ) -> OrientedPoints:
        """What `prepare` gave for shapes and subsamplings of them: two numbers, or two batches that broadcast."""
        rows = self._rows[np.asarray(index), np.asarray(subsampling)]
        return OrientedPoints(**{field.name: _tensor(rows[field.name]) for field in fields(OrientedPoints)})


def _tensor(array: NDArray[np.generic]) -> Tensor:
    """A copy of its own, aligned and writable."""
    return torch.from_numpy(np.array(array, order="C"))


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
    """The frames of a split, from `folder` where they are there and whole, otherwise built there now.

    A build that was interrupted or killed goes on where it was. Processes that build in one folder wait for each
    other; one that finds its cache whole does not. The number of workers does not change the result.

    Args:
        config: of `prepare`.
        subsamplings: S. A mesh gives `config.points` new points for each; a cloud of more points gives a random
            `config.points` of them.
        keep: the share of a cloud's points in each subsampling where it has no more than `config.points`, without
            which all subsamplings would be the same.
        thinnest: of the first subsampling's points, how many the last one has: 1 for as many, less for a share of them
            that each one between approaches by the same factor.
        views: share of the subsamplings that are views by one camera (`sample_view`): the last ones, and never all.
        seed: each subsampling's generator follows from it, from the shape's place in the split, and from s.

    Raises:
        ValueError: for a shape that cannot be read or prepared.
        OSError: where the cache cannot be written, for want of space or otherwise. What was built stays, to go on from.
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
    with _said_in_one_sentence(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        if is_whole(path, layout):  # nobody waits for another cache that is being built
            return FrameCache(path)
        leave_unguarded_script()  # which would wait for the lock of its parent, and its parent for it
        with alone_in(path.parent, wait=True):
            if not is_whole(path, layout):
                path.unlink(missing_ok=True)
                task = Task(config, subsamplings, seen, keep, thinnest, seed, layout.subsampling)
                _build(path, layout, items, task, workers, progress)
        return FrameCache(path)


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
    """Writes the missing records aside, then puts the file in its place in one step."""
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
                # A killed process loses what it holds, not what it has handed to the system.
                file.flush()
                bar.advance(shown)
        os.fsync(file.fileno())
    part.replace(path)


@contextmanager
def _said_in_one_sentence(path: Path) -> Iterator[None]:
    advice = "what was built is kept, and running it again goes on from there"
    try:
        yield
    except ChildProcessError as error:
        raise OSError(f"{path}: {error}; {advice}") from error
    except OSError as error:
        reason = error.strerror.lower() if error.strerror else str(error)
        raise OSError(
            f"{path}: cannot be written ({reason}); free some space or give another folder; {advice}"
        ) from error
