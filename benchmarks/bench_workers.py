"""Worker processes: `in_order`, which is `concurrent.futures`, against torch's DataLoader, in the same run.

    python -m benchmarks.bench_workers [--shapes 200] [--workers 2] [--repeats 3]

Both prepare the same procedural shapes and return their `OrientedPoints` one by one, in order; checksums of these are
compared. Each keeps at most about four shapes per worker in advance. Processes are forked, as `in_order` does where
that is safe, or spawned, as it does elsewhere; the DataLoader is told to do the same. `whole run` includes starting and
ending the processes; `second half` is the time from the middle result to the last one. The two take turns, and the best
of the repetitions counts.
"""

from __future__ import annotations

import argparse
import sys
import time
import zlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple
from unittest.mock import patch

import torch
from benchmarks.measure import report, row
from torch.utils.data import DataLoader
from torch.utils.data import Dataset as MapDataset

from qecnet.datasets import Item, make_furniture
from qecnet.geometry import OrientedPoints, prepare
from qecnet.workers import in_order

AHEAD = 4  # per worker
WAYS = ("fork", "spawn") if sys.platform == "linux" else ("spawn",)


class Run(NamedTuple):
    """Seconds of a run and of its second half, and a checksum of each result."""

    whole: float
    half: float
    results: list[int]


class PreparedShapes(MapDataset[OrientedPoints]):
    def __init__(self, items: Sequence[Item]) -> None:
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, number: int) -> OrientedPoints:
        return prepare_item(self.items[number])


def prepare_item(item: Item) -> OrientedPoints:
    return prepare(item.load_cloud())


def with_futures(items: Sequence[Item], workers: int, way: str) -> Iterable[OrientedPoints]:
    with patch("qecnet.workers._way_to_start", lambda: way):
        yield from in_order(prepare_item, ((item,) for item in items), workers)


def with_loader(items: Sequence[Item], workers: int, way: str) -> Iterable[OrientedPoints]:
    shapes = PreparedShapes(items)
    return DataLoader(shapes, batch_size=None, num_workers=workers, prefetch_factor=AHEAD, multiprocessing_context=way)


def run(results: Callable[[], Iterable[OrientedPoints]], count: int) -> Run:
    """Use up the results."""
    times, found = [time.perf_counter()], []
    for points in results():
        found.append(zlib.crc32(points.frames.numpy().data, zlib.crc32(points.positions.numpy().data)))
        times.append(time.perf_counter())
    return Run(time.perf_counter() - times[0], times[count] - times[count // 2], found)


def compare(items: Sequence[Item], workers: int, repeats: int, way: str) -> list[dict[str, Any]]:
    ours, theirs = [], []
    for _ in range(repeats):
        ours.append(run(lambda: with_futures(items, workers, way), len(items)))
        theirs.append(run(lambda: with_loader(items, workers, way), len(items)))
        assert ours[-1].results == theirs[-1].results == ours[0].results
    what = f"{len(items)} shapes, {workers} workers, {way}"
    whole, half = ([min(getattr(one, part) for one in runs) for runs in (ours, theirs)] for part in ("whole", "half"))
    return [
        row(f"{what}: whole run", whole[0], "s", "torch's DataLoader", whole[1]),
        row(f"{what}: second half", half[0], "s", "torch's DataLoader", half[1]),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shapes", type=int, default=200)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    torch.set_num_threads(1)
    items = make_furniture(max(2, args.shapes)).items("train")
    items = items[:: max(1, len(items) // args.shapes)][: args.shapes]
    report("workers", [line for way in WAYS for line in compare(items, args.workers, args.repeats, way)])


if __name__ == "__main__":
    main()
