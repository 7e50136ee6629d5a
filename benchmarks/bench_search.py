"""Vector search compared: our library, usearch, faiss, sqlite-vec and plain NumPy, on one set of descriptors.

    pip install -c constraints.txt faiss-cpu sqlite-vec pysqlite3-binary
    python -m benchmarks.bench_search [--data modelnet40.zip] [--rows 100000] [--queries 200] [--only library]

Descriptors are those of procedural shapes by the model modelnet40, and with --data those of ModelNet40's test clouds;
they are kept in build/. More of them are made by moving each towards some of its nearest neighbours, as real shapes
vary, with a little noise. Recall@10 is against exact search in float32. Opening includes the first search, of a file in
the page cache, and is the fastest of three processes. Memory is what searching adds to a process that has loaded the
package, mapped pages of the file included; the last column leaves those out. Engines that are not installed are left
out; sqlite-vec takes pysqlite3, because many builds of Python's own sqlite3 cannot load extensions.
"""

from __future__ import annotations

import argparse
import ctypes
import multiprocessing
import struct
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from benchmarks.libraries import (
    WANTED,
    Described,
    Floats,
    build_library,
    describe_shapes,
    find_exactly,
    make_answer,
    recall,
    row_of,
    vary,
)
from benchmarks.measure import megabytes, report

import qecnet
from qecnet.models import read_library

MODEL = "modelnet40"
PROCESSES = 3
BUILD_THREADS = 2
Search = Callable[[Floats], Any]
"""From a query, (D,), to the rows of its nearest, best first."""


@contextmanager
def numpy_exact(descriptors: Floats, folder: Path) -> Iterator[tuple[Path, Callable[[], Search]]]:
    """A matrix of float16 in a file, compared whole."""
    path = folder / "exact.npy"
    np.save(path, descriptors.astype(np.float16))

    def open_file() -> Search:
        matrix = np.load(path).astype(np.float32)
        return lambda query: np.argpartition(-(matrix @ query), WANTED)[:WANTED]

    yield path, open_file


@contextmanager
def usearch_graph(descriptors: Floats, folder: Path) -> Iterator[tuple[Path, Callable[[], Search]]]:
    """HNSW with 16 edges and float16, memory-mapped, unchecked: what our library builds on."""
    from usearch.index import Index

    path, options = folder / "graph.usearch", {"ndim": descriptors.shape[1], "metric": "ip", "dtype": "f16"}
    index = Index(**options, connectivity=16, expansion_add=64)
    index.add(np.arange(len(descriptors), dtype=np.uint64), descriptors, threads=BUILD_THREADS)
    index.save(path)
    del index

    def open_file() -> Search:
        viewed = Index(**options, connectivity=16, expansion_search=128, enable_key_lookups=False)
        viewed.view(path)
        return lambda query: viewed.search(query, WANTED, threads=1).keys.astype(np.int64)

    yield path, open_file


@contextmanager
def faiss_graph(descriptors: Floats, folder: Path) -> Iterator[tuple[Path, Callable[[], Search]]]:
    """The same graph by faiss, memory-mapped where it can be."""
    faiss: Any = import_module("faiss")
    faiss.omp_set_num_threads(BUILD_THREADS)
    path, width = folder / "graph.faiss", descriptors.shape[1]
    index = faiss.IndexHNSWSQ(width, faiss.ScalarQuantizer.QT_fp16, 16, faiss.METRIC_INNER_PRODUCT)
    index.hnsw.efConstruction = 64
    index.train(descriptors[:1000])
    index.add(descriptors)
    faiss.omp_set_num_threads(1)  # torch has the same setting, which names the results file
    faiss.write_index(index, str(path))
    del index

    def open_file() -> Search:
        viewed = faiss.read_index(str(path), faiss.IO_FLAG_MMAP)
        viewed.hnsw.efSearch = 128
        return lambda query: viewed.search(query[None], WANTED)[1][0]

    yield path, open_file


@contextmanager
def sqlite_vec(descriptors: Floats, folder: Path) -> Iterator[tuple[Path, Callable[[], Search]]]:
    """The extension sqlite-vec, which compares all, in float32."""
    sqlite3: Any = import_module("pysqlite3")
    extension: Any = import_module("sqlite_vec")
    path, width = folder / "vectors.sqlite", descriptors.shape[1]

    def connect() -> Any:
        database = sqlite3.connect(path)
        database.enable_load_extension(True)
        extension.load(database)
        return database

    database = connect()
    database.execute(f"CREATE VIRTUAL TABLE v USING vec0(d float[{width}] distance_metric=cosine)")
    rows = ((number, one.tobytes()) for number, one in enumerate(descriptors))
    with database:
        database.executemany("INSERT INTO v (rowid, d) VALUES (?, ?)", rows)
    database.close()

    def open_file() -> Search:
        opened = connect()
        query_text = f"SELECT rowid FROM v WHERE d MATCH ? AND k = {WANTED} ORDER BY distance"
        return lambda query: np.array([n for (n,) in opened.execute(query_text, (struct.pack(f"{width}f", *query),))])

    yield path, open_file


@contextmanager
def our_library(descriptors: Floats, folder: Path) -> Iterator[tuple[Path, Callable[[], Search]]]:
    """Our library: rows in SQLite and checked files; exact below 100,000 shapes."""
    model, path = qecnet.load(MODEL), folder / "library"
    build_library(model, path, Described(descriptors, np.arange(len(descriptors)) % len(model.classes)))

    def open_file() -> Search:
        opened = read_library(path)
        return lambda query: np.array([row_of(one.file) for one in opened.nearest(make_answer(model, query), WANTED)])

    yield path, open_file


ENGINES = {
    "NumPy, exact": numpy_exact,
    "sqlite-vec": sqlite_vec,
    "faiss HNSW": faiss_graph,
    "usearch": usearch_graph,
    "library": our_library,
}


def size_of(path: Path) -> int:
    """Bytes of a file or of a folder's files."""
    return sum(file.stat().st_size for file in path.iterdir()) if path.is_dir() else path.stat().st_size


def search_alone(open_file: Callable[[], Search], queries: Floats, results: Any) -> None:
    """In a process of its own: time to open, milliseconds of each query, rows, and memory."""
    torch.set_num_threads(1)
    ctypes.CDLL(None).malloc_trim(0)  # memory that building left free would hide what searching takes
    before, own = megabytes("VmRSS"), megabytes("RssAnon")
    start, worked = time.perf_counter(), time.process_time()
    search = open_file()
    search(queries[0])
    opened, opened_cpu, times, rows = time.perf_counter() - start, time.process_time() - worked, [], []
    worked = time.process_time()
    for query in queries:
        start = time.perf_counter()
        rows.append(search(query))
        times.append(time.perf_counter() - start)
    cpu = (time.process_time() - worked) / len(queries)
    results.put(
        (opened, times, opened_cpu, cpu, np.stack(rows), megabytes("VmRSS") - before, megabytes("RssAnon") - own)
    )


def measure(name: str, descriptors: Floats, queries: Floats, expected: list[set[int]]) -> dict[str, Any]:
    """One engine on one set of descriptors."""
    with tempfile.TemporaryDirectory() as folder:
        start = time.process_time()
        with ENGINES[name](descriptors, Path(folder)) as (path, open_file):
            built = time.process_time() - start
            print(f"{name}: {len(descriptors)} rows built", flush=True)
            context = multiprocessing.get_context("fork")
            results = context.Queue()
            found = []
            for _ in range(PROCESSES):
                process = context.Process(target=search_alone, args=(open_file, queries, results))
                process.start()
                found.append(results.get())
                process.join()
            bytes_each = size_of(path) / len(descriptors)
    opened, times, opened_cpu, cpu, rows, added, private = min(found, key=lambda one: float(one[0]))
    return {
        "engine": name,
        "rows": len(descriptors),
        "recall@10": recall([{*row.tolist()} for row in rows], expected),
        "ms per query": 1e3 * median(times),
        "CPU ms per query": 1e3 * cpu,
        "bytes per shape": bytes_each,
        "open, s": opened,
        "open, CPU s": opened_cpu,
        "build, CPU s": built,
        "memory added, MB": added,
        "not mapped, MB": private,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="ModelNet40, a folder or zip.")
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 100_000], help="Numbers of descriptors.")
    parser.add_argument("--queries", type=int, default=200, help="Number of queries.")
    parser.add_argument("--only", nargs="+", choices=ENGINES, default=[*ENGINES], help="Engines.")
    parser.add_argument("--name", default="search", help="Of the results file.")
    options = parser.parse_args()
    torch.set_num_threads(1)
    shapes = describe_shapes(qecnet.load(MODEL), options.data)
    print(f"{len(shapes.classes)} descriptors of shapes")
    queries = vary(shapes, options.queries, seed=1).descriptors
    rows = []
    for count in options.rows:
        descriptors = vary(shapes, count).descriptors
        expected = find_exactly(descriptors, queries)
        for name in options.only:
            try:
                rows.append(measure(name, descriptors, queries, expected))
            except ImportError as error:
                print(f"{name}: left out ({error})")
                continue
            print({key: f"{value:.4g}" if isinstance(value, float) else value for key, value in rows[-1].items()})
    report(options.name, rows)


if __name__ == "__main__":
    main()
