"""The frame cache: building it, against preparing shapes one by one; opening it, and reading batches from it.

    python -m benchmarks.bench_cache [--data PATH] [--shapes 60] [--subsamplings 4] [--workers 2]
    python -m benchmarks.bench_cache --formats    # the same records as `.npy` files and a manifest, in the same run

Without a path the shapes are procedural, so that anyone can repeat it. `minutes for ModelNet10` is what its 4,899
shapes would take at this rate, without the workers' start. CPU time is what the work takes of a core that nobody
else uses.

The formats are compared with the files in the page cache. `.npy` files are opened with a checksum for each file, which
finds damage, or with one for each record, as in the frame cache, which also tells where an interrupted build resumes.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
import zlib
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from benchmarks.measure import milliseconds, report, row
from numpy.typing import NDArray
from torch import Tensor

from qecnet.datasets import Dataset, FrameCache, frame_cache, make_furniture, open_dataset
from qecnet.geometry import OrientedPoints, PrepareConfig, prepare

MODELNET10 = 4899
BATCH, BATCHES = 32, 100
Arrays = Mapping[str, NDArray[np.generic]]


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


def checksums(arrays: Arrays, by: str) -> dict[str, int] | list[int]:
    """Of each array, or of each record across all of them."""
    if by == "file":
        return {name: zlib.crc32(array.data) for name, array in arrays.items()}
    found = [*range(len(arrays["valid"]))]
    for array in arrays.values():
        found = [zlib.crc32(record, before) for record, before in zip(array, found, strict=True)]
    return found


def write_arrays(folder: Path, cache: FrameCache, key: str) -> None:
    """Write the records of a cache as one `.npy` file for each field, and a manifest."""
    points = cache.points(torch.arange(len(cache))[:, None], torch.arange(cache.subsamplings))
    arrays = {field.name: getattr(points, field.name).numpy() for field in fields(OrientedPoints)}
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    manifest = {
        "key": key,
        "classes": cache.classes,
        "names": cache.names,
        "labels": cache.labels.tolist(),
        "checksums": {by: checksums(arrays, by) for by in ("file", "record")},
    }
    (folder / "manifest.json").write_text(json.dumps(manifest))


def open_arrays(folder: Path, key: str, by: str) -> Arrays:
    """Map the files of `write_arrays`; a ValueError if they are of other shapes or damaged."""
    manifest = json.loads((folder / "manifest.json").read_text())
    arrays = {
        field.name: np.asarray(np.load(folder / f"{field.name}.npy", mmap_mode="r")) for field in fields(OrientedPoints)
    }
    if manifest["key"] != key or manifest["checksums"][by] != checksums(arrays, by):
        raise ValueError(f"{folder}: holds other records, or is damaged")
    return arrays


def gather(arrays: Arrays, index: Tensor, subsampling: Tensor) -> OrientedPoints:
    """What `FrameCache.points` does, from arrays."""
    at = index.numpy(), subsampling.numpy()
    return OrientedPoints(**{name: torch.from_numpy(array[at]) for name, array in arrays.items()})


def formats(dataset: Dataset, folder: Path, subsamplings: int, workers: int) -> list[dict[str, Any]]:
    """The packed file against `.npy` files; records with candidates, as networks that read them train on."""
    config = PrepareConfig(candidates=True)

    def open_ours() -> FrameCache:
        return frame_cache(dataset, "train", folder, config, subsamplings=subsamplings, workers=workers)

    def open_theirs(by: str) -> Arrays:
        return open_arrays(folder, dataset.fingerprint("train"), by)

    cache = open_ours()
    write_arrays(folder, cache, dataset.fingerprint("train"))
    arrays = open_theirs("record")
    chosen = torch.Generator().manual_seed(0)
    batches = [
        [torch.randint(n, (BATCH,), generator=chosen) for n in (len(cache), subsamplings)] for _ in range(BATCHES)
    ]

    def read_batches(read: Callable[..., OrientedPoints]) -> None:
        for batch in batches:  # none is kept: the allocator's pages would be part of the time
            read(*batch)

    ours = milliseconds(partial(read_batches, cache.points)) / BATCHES
    theirs = milliseconds(partial(read_batches, partial(gather, arrays))) / BATCHES
    size = f"{len(cache)} records, {cache.path.stat().st_size / 1e6:.1f} MB"
    rows = [row(f"gather {BATCH} random clouds of {size}", ours, "ms", ".npy files", theirs)]
    opened = milliseconds(open_ours)
    for by in ("file", "record"):
        theirs = milliseconds(partial(open_theirs, by))
        rows.append(row(f"open and verify {size}", opened, "ms", f".npy files, a checksum for each {by}", theirs))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data")
    parser.add_argument("--shapes", type=int, default=60)
    parser.add_argument("--subsamplings", type=int, default=4)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--formats", action="store_true", help="compare the file with `.npy` files and a manifest")
    args = parser.parse_args()
    torch.set_num_threads(1)
    dataset = some(open_dataset("data", args.data) if args.data else make_furniture(args.shapes), args.shapes)
    if args.formats:
        with tempfile.TemporaryDirectory() as folder:
            report("cache_formats", formats(dataset, Path(folder), args.subsamplings, args.workers))
        return
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
