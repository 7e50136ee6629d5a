"""The frame cache: building it, against preparing shapes one by one; opening it, and reading batches from it.

    python -m benchmarks.bench_cache [--data PATH] [--shapes 60] [--subsamplings 4] [--workers 2]

Without a path the shapes are procedural, so that anyone can repeat it. `minutes for ModelNet10` is what its 4,899
shapes would take at this rate, without the workers' start. CPU time is what the work takes of a core that nobody
else uses.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from dataclasses import replace

import torch
from benchmarks.measure import milliseconds, report

from qecnet.datasets import Dataset, frame_cache, make_furniture, open_dataset
from qecnet.geometry import prepare

MODELNET10 = 4899


def some(dataset: Dataset, count: int) -> Dataset:
    """Shapes evenly spread over the training split."""
    items = dataset.items("train")
    return replace(dataset, splits={"train": items[:: max(1, len(items) // count)][:count]})


def cpu_seconds() -> float:
    """Of this process and of the children that have ended."""
    usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in usage)


def build(dataset: Dataset, folder: str, subsamplings: int, workers: int) -> tuple[float, float]:
    """Wall and CPU seconds."""
    start, cpu = time.perf_counter(), cpu_seconds()
    frame_cache(dataset, "train", folder, subsamplings=subsamplings, workers=workers)
    return time.perf_counter() - start, cpu_seconds() - cpu


def one_by_one(dataset: Dataset, subsamplings: int) -> float:
    """CPU seconds for the same number of clouds, loaded each time and prepared in this process."""
    cpu = cpu_seconds()
    for item in dataset.items("train"):
        for s in range(subsamplings):
            prepare(item.load_cloud(generator=s))
    return cpu_seconds() - cpu


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data")
    parser.add_argument("--shapes", type=int, default=60)
    parser.add_argument("--subsamplings", type=int, default=4)
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(1)
    dataset = some(open_dataset("data", args.data) if args.data else make_furniture(args.shapes), args.shapes)
    with tempfile.TemporaryDirectory() as folder:
        # One shape for each worker, to know what starting takes.
        start, start_cpu = build(some(dataset, args.workers), folder, 1, args.workers)
        wall, cpu = build(dataset, folder, args.subsamplings, args.workers)
        count = len(dataset.items("train")) * args.subsamplings
        each, each_cpu = (wall - start) / count, (cpu - start_cpu) / count
        plain = one_by_one(some(dataset, 10), args.subsamplings) / (10 * args.subsamplings)
        cache = frame_cache(dataset, "train", folder, subsamplings=args.subsamplings)
        batch = torch.arange(16) % len(cache), torch.arange(16) % args.subsamplings
        opened = milliseconds(
            lambda: frame_cache(dataset, "train", folder, subsamplings=args.subsamplings), seconds=0.5
        )
        read = milliseconds(lambda: cache.points(*batch), seconds=0.5) / 16
        size = cache.path.stat().st_size
    whole = MODELNET10 * args.subsamplings
    report(
        "cache",
        [
            {
                "dataset": dataset.name,
                "subsamplings": count,
                "ms each, wall": 1e3 * each,
                "ms each, CPU": 1e3 * each_cpu,
                "ms each, one by one, CPU": 1e3 * plain,
                "minutes for ModelNet10, wall": each * whole / 60,
                "minutes for ModelNet10, CPU / workers": each_cpu * whole / 60 / args.workers,
                "ms to read one": read,
                "KB each": size / count / 1e3,
                "MB/s opened and verified": size / opened / 1e3,
            }
        ],
    )


if __name__ == "__main__":
    main()
