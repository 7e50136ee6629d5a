"""Search in our library of a million shapes with filters, and opening it when nothing of it is in memory.

    python -m benchmarks.bench_search_filters [--data modelnet40.zip] [--rows 1000000] [--queries 200]

Descriptors are made as in bench_search. A shape has the class of the shape that it was varied from, and a confidence
drawn at random between 0 and 1. Recall@10 is against exact search in float32 among the shapes that match. Opening
includes the first search, in a new process that has imported the package. Where files are not in the page cache, the
system was asked to drop them before (`posix_fadvise`); what was then read from the disk says whether it did.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import re
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import torch
from benchmarks.bench_search import MODEL, PROCESSES
from benchmarks.libraries import (
    BUILD,
    WANTED,
    Described,
    Floats,
    Rows,
    build_library,
    describe_shapes,
    find_exactly,
    make_answer,
    recall,
    row_of,
    vary,
)
from benchmarks.measure import report

import qecnet
from qecnet.models import read_library


class Filter(NamedTuple):
    """A class for each query, (Q,), or none, and the least confidence."""

    name: str
    classes: Rows | None = None
    confidence: float = 0.0


def list_filters(shapes: Described, queries: Described) -> list[Filter]:
    """Filters that most shapes near a query match, and that few do."""
    present, counts = np.unique(shapes.classes, return_counts=True)
    own, rarest = queries.classes, np.full_like(queries.classes, present[counts.argmin()])
    return [
        Filter("none"),
        Filter("class of the query", own),
        Filter("class of another query", np.roll(own, 1)),
        Filter("rarest class", rarest),
        Filter("confidence 0.7", confidence=0.7),
        Filter("confidence 0.99", confidence=0.99),
        Filter("class of the query, confidence 0.7", own, 0.7),
        Filter("class of the query, confidence 0.99", own, 0.99),
    ]


def measure_filter(
    model: qecnet.Model, path: Path, one: Filter, shapes: Described, confidences: Floats, queries: Described
) -> dict[str, Any]:
    """Recall and time with one filter."""

    def matches(rows: slice) -> Any:
        sure = confidences[None, rows] >= one.confidence
        return sure if one.classes is None else sure & (shapes.classes[None, rows] == one.classes[:, None])

    found, times = [], []
    with read_library(path) as library:
        library.nearest(make_answer(model, queries.descriptors[0]))
        for number, query in enumerate(queries.descriptors):
            label = None if one.classes is None else model.classes[int(one.classes[number])]
            start = time.perf_counter()
            near = library.nearest(make_answer(model, query), WANTED, label=label, min_confidence=one.confidence)
            times.append(time.perf_counter() - start)
            found.append({row_of(neighbour.file) for neighbour in near})
    matching = np.bincount(shapes.classes[confidences >= one.confidence], minlength=len(model.classes))
    share = matching.sum() if one.classes is None else matching[one.classes].mean()
    return {
        "filter": one.name,
        "rows": len(confidences),
        "share that matches": float(share / len(confidences)),
        "recall@10": recall(found, find_exactly(shapes.descriptors, queries.descriptors, matches)),
        "ms per query": 1e3 * median(times),
        "slowest, ms": 1e3 * max(times),
    }


def open_alone(path: Path, query: Floats, drop: bool, results: Any) -> None:
    """In a new process: the time to open a library and to search it once, and what was read from the disk."""
    model = qecnet.load(MODEL)
    torch.set_num_threads(1)
    import usearch.index  # noqa: F401

    for file in path.iterdir() if drop else ():
        handle = os.open(file, os.O_RDONLY)
        os.fsync(handle)
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(handle)
    before, start = megabytes_read(), time.perf_counter()
    with read_library(path) as library:
        library.nearest(make_answer(model, query))
        results.put((time.perf_counter() - start, megabytes_read() - before))


def megabytes_read() -> float:
    """What this process has read from the disk so far, as Linux counts it; pages in memory do not count."""
    found = re.search(r"^read_bytes: (\d+)", Path("/proc/self/io").read_text(), re.MULTILINE)
    assert found
    return int(found[1]) / 1e6


def measure_opening(path: Path, queries: Floats) -> list[dict[str, Any]]:
    """Opening with files in the page cache and without, some processes each."""
    context = multiprocessing.get_context("spawn")
    rows = []
    for drop in (False, True):
        found = []
        for query in queries[:PROCESSES]:
            results = context.Queue()
            process = context.Process(target=open_alone, args=(path, query, drop, results))
            process.start()
            found.append(results.get())
            process.join()
        seconds, read = zip(*found, strict=True)
        rows.append(
            {
                "files": "dropped from the page cache" if drop else "in the page cache",
                "open and first search, s": median(seconds),
                "slowest, s": max(seconds),
                "read from the disk, MB": median(read),
            }
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="ModelNet40, a folder or zip.")
    parser.add_argument("--rows", type=int, default=1_000_000, help="Number of descriptors.")
    parser.add_argument("--queries", type=int, default=200, help="Number of queries.")
    options = parser.parse_args()
    torch.set_num_threads(1)
    model = qecnet.load(MODEL)
    real = describe_shapes(model, options.data)
    shapes, queries = vary(real, options.rows), vary(real, options.queries, seed=1)
    confidences = np.random.default_rng(2).random(options.rows, np.float32)
    with tempfile.TemporaryDirectory(dir=BUILD) as folder:  # on a disk, which a folder for temporary files need not be
        path = Path(folder) / "library"
        build_library(model, path, shapes, confidences)
        print(f"{options.rows} rows built", flush=True)
        report("search_opening", measure_opening(path, queries.descriptors))
        filters = list_filters(shapes, queries)
        report("search_filters", [measure_filter(model, path, one, shapes, confidences, queries) for one in filters])


if __name__ == "__main__":
    main()
