"""Bulk runs: the process pool and Ray on the same files, the memory of each process, and what a file costs.

    python -m benchmarks.bench_bulk [--files 2000] [--workers 2] [--rows 100000]

Clouds are our own shapes with 10,000 points each, as binary PLY. Without the extra qecnet[ray], Ray is left out.
"""

from __future__ import annotations

import argparse
import re
import resource
import subprocess
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow.parquet
from benchmarks.bench_product import QEC, make_files
from benchmarks.measure import report, row

from qecnet.bulk import Journal, Origin, Progress, do_pending, write_results

COLUMNS: Any = {"label": "text", "confidence": "number", "second": "text", "pose": "quaternion", "scores": "scores"}


def classify(folder: Path, results: Path, *options: str) -> tuple[float, dict[str, float]]:
    """Files per second, as the command says, and the peak memory of each kind of process in MB."""
    command: list[str | Path] = [QEC, "classify", folder, "-o", results, *options]
    peaks: dict[str, float] = defaultdict(float)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        while process.poll() is None:
            for kind, memory in _memory_below(process.pid):
                peaks[kind] = max(peaks[kind], memory)
            time.sleep(0.5)
        assert process.stdout is not None
        said = process.stdout.read()
    found = re.search(r"([\d.]+) files/s", said)
    assert process.returncode == 0, said
    assert found, said
    return float(found[1]), dict(peaks)


def _memory_below(root: int) -> Iterator[tuple[str, float]]:
    """The kind of each process below one, and its peak memory in MB."""
    parents: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue  # it has ended
    known = {root}
    for _ in range(4):  # Ray's workers are children of a child
        known |= {child for child, parent in parents.items() if parent in known}
    for number in known:
        try:
            line = Path(f"/proc/{number}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            peak = re.search(r"VmHWM:\s*(\d+)", Path(f"/proc/{number}/status").read_text())
        except OSError:
            continue
        if peak:
            yield _kind(number == root, parents.get(number) == root, line), int(peak[1]) / 1e3


def _kind(is_root: bool, is_child: bool, line: str) -> str:
    for part in ("ray::Worker", "gcs_server", "raylet/raylet", "dashboard", "monitor", "runtime_env", "ray::"):
        if part in line:
            return {"ray::Worker": "worker"}.get(part, "Ray's own processes")
    return "the command itself" if is_root else "worker" if is_child else "Ray's own processes"


def driver_costs(folder: Path, count: int, example: dict[str, Any]) -> list[dict[str, Any]]:
    """What the process that keeps the results does for each file, without any network."""
    files = []
    for number in range(count):
        path = folder / f"{number // 1000:04d}" / f"{number:08d}.ply"
        if number % 1000 == 0:
            path.parent.mkdir()
        path.touch()
        files.append(str(path))

    def work(job: tuple[str, ...]) -> list[Any]:
        return [example] * len(job)

    def share(work: Any, take: Callable[[], Any]) -> Iterator[Any]:
        while (job := take()) is not None:
            yield job, work(job)

    steps: dict[str, float] = {}
    results, start = folder / "r.parquet", time.perf_counter()
    with closing(Journal(folder / "r.journal", Origin("classify", "", "", "", COLUMNS))) as journal:
        journal.plan(files, lambda failure: None)
        steps["planning"] = time.perf_counter() - start
        do_pending(journal, work, share, Progress(count), lambda progress: None, lambda failure: None)
        steps["keeping results"] = time.perf_counter() - start - sum(steps.values())
        write_results(results, (one for _, _, one in journal.rows()), COLUMNS)
        steps["writing Parquet"] = time.perf_counter() - start - sum(steps.values())
    return [
        *(row(f"{name}, per file", 1e6 * seconds / count, "µs") for name, seconds in steps.items()),
        row("journal, per file", (folder / "r.journal").stat().st_size / count, "bytes"),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=2000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rows", type=int, default=100_000)
    options = parser.parse_args()
    workers = ("--workers", str(options.workers))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "shapes").mkdir()
        (folder / "driver").mkdir()
        make_files(folder / "shapes", options.files)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        pool, peaks = classify(folder / "shapes", folder / "pool.parquet", *workers)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cost = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        rows = [
            row(f"{options.files} files, {options.workers} processes", pool, "files/s", aim="≥ 40"),
            row("processor time, per file", 1e3 * cost / options.files, "ms"),
            *(row(f"peak memory, {kind}", memory, "MB") for kind, memory in sorted(peaks.items())),
        ]
        try:
            import ray  # noqa: F401
        except ImportError:
            print("left out: Ray; pip install 'qecnet[ray]'")
        else:
            rate, peaks = classify(folder / "shapes", folder / "ray.parquet", "--ray", "local", *workers)
            assert (folder / "ray.parquet").read_bytes() == (folder / "pool.parquet").read_bytes()
            rows += [
                row(f"{options.files} files, Ray local", rate, "files/s", "process pool", pool),
                row("Ray local, share of the pool's throughput", rate / pool, "", aim="≥ 0.8"),
                *(row(f"peak memory with Ray, {kind}", memory, "MB") for kind, memory in sorted(peaks.items())),
            ]
        # Of real rows: those of the driver's costs are all alike, and compress to nothing.
        rows.append(row("Parquet, per file", (folder / "pool.parquet").stat().st_size / options.files, "bytes"))
        example = pyarrow.parquet.read_table(folder / "pool.parquet").to_pylist()[0]
        kept = {name: example[name] for name in COLUMNS} | {"scores": dict(example["scores"])}
        rows += driver_costs(folder / "driver", options.rows, kept)
    report("bulk", rows)


if __name__ == "__main__":
    main()
