"""Bulk runs: the process pool and Ray on the same files, the memory of each process, and what a file costs.

    python -m benchmarks.bench_bulk [--files 2000] [--others 1000] [--workers 2] [--rows 100000] [--also NAME]

Clouds are our own shapes with 10,000 points each, as binary PLY. `qec classify` reads all of them, with the default
model and with those of --also; `qec orient` and `qec index` read some of them, each with its default model. What the
process that keeps the results does for each file is measured without any network, on --rows empty files. Without the
extra qecnet[ray], Ray is left out.
"""

from __future__ import annotations

import argparse
import re
import resource
import shutil
import subprocess
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet
import torch
from benchmarks.bench_product import QEC, make_files
from benchmarks.libraries import make_answer
from benchmarks.measure import report, row

import qecnet
from qecnet.bulk import Journal, Origin, Progress, do_pending, write_results
from qecnet.models import Hashed, edit_library

COLUMNS: Any = {"label": "text", "confidence": "number", "second": "text", "pose": "quaternion", "scores": "scores"}


class Run(NamedTuple):
    """Files per second, as the command says; the processor time of all its processes; and the peak memory of each kind
    of process in MB."""

    rate: float
    seconds: float
    peaks: dict[str, float]


def run(*command: str | Path) -> Run:
    """Run a command of bulk work on files that are all good."""
    peaks: dict[str, float] = defaultdict(float)
    before = _seconds_of_children()
    with subprocess.Popen([QEC, *command], stdout=subprocess.PIPE, text=True) as process:
        while process.poll() is None:
            for kind, memory in _memory_below(process.pid):
                peaks[kind] = max(peaks[kind], memory)
            time.sleep(0.5)
        assert process.stdout is not None
        said = process.stdout.read()
    found = re.search(r"([\d.]+) files/s", said)
    assert process.returncode == 0, said
    assert found, said
    return Run(float(found[1]), _seconds_of_children() - before, dict(peaks))


def _seconds_of_children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


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


def bytes_in(folder: Path) -> int:
    """The size of all files below a folder."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def make_empty(folder: Path, count: int) -> list[Path]:
    """Empty files, a thousand in each folder."""
    files = [folder / f"{number // 1000:04d}" / f"{number:08d}.ply" for number in range(count)]
    for number, path in enumerate(files):
        if number % 1000 == 0:
            path.parent.mkdir(parents=True)
        path.touch()
    return files


def keep_rows(folder: Path, files: list[Path], example: dict[str, Any]) -> list[dict[str, Any]]:
    """What the process that keeps the results of `qec classify` does for each file."""

    def work(job: tuple[str, ...]) -> list[Any]:
        return [example] * len(job)

    def share(work: Any, take: Callable[[], Any]) -> Iterator[Any]:
        while (job := take()) is not None:
            yield job, work(job)

    steps: dict[str, float] = {}
    results, start = folder / "r.parquet", time.perf_counter()
    with closing(Journal(folder / "r.journal", Origin("classify", "", "", "{}", COLUMNS))) as journal:
        journal.plan(map(str, files), lambda failure: None)
        steps["planning"] = time.perf_counter() - start
        do_pending(journal, work, share, Progress(len(files)), lambda progress: None, lambda failure: None)
        steps["keeping results"] = time.perf_counter() - start - sum(steps.values())
        write_results(results, (one for _, _, one in journal.rows()), COLUMNS)
        steps["writing Parquet"] = time.perf_counter() - start - sum(steps.values())
    return [
        *(row(f"{name}, per file", 1e6 * seconds / len(files), "µs") for name, seconds in steps.items()),
        row("journal, per file", (folder / "r.journal").stat().st_size / len(files), "bytes"),
    ]


def keep_library(folder: Path, files: list[Path]) -> list[dict[str, Any]]:
    """What the process that keeps the results of `qec index` does for each file, the graph included."""
    model = qecnet.load(qecnet.DEFAULT_MODEL)
    descriptors = torch.nn.functional.normalize(torch.randn(1000, model.width, generator=torch.Generator()), dim=-1)
    answers = [make_answer(model, descriptor) for descriptor in descriptors.numpy()]
    start = time.perf_counter()
    with edit_library(folder / "index", model) as library:
        library.update(folder, files)
        planned = time.perf_counter() - start
        missing = [str(path) for path in library.missing(folder)]
        jobs = (
            [
                Hashed(replace(answers[n % 1000], name=missing[n]), bytes(16))
                for n in range(at, min(at + 16, len(files)))
            ]
            for at in range(0, len(missing), 16)
        )
        for _ in library.extend(folder, jobs):
            pass
    kept = time.perf_counter() - start - planned
    return [
        row("qec index: planning, per file", 1e6 * planned / len(files), "µs"),
        row("qec index: keeping results, per file", 1e6 * kept / len(files), "µs"),
        row("qec index: library, per file", bytes_in(folder / "index") / len(files), "bytes"),
    ]


def measure_others(folder: Path, files: list[Path], workers: tuple[str, str]) -> list[dict[str, Any]]:
    """What a file costs in `qec orient` and `qec index`."""
    some = folder / "some"
    some.mkdir()
    for file in files:
        shutil.copy(file, some)
    orient = run(
        "orient", some, "-o", folder / "upright", "--results", folder / "o.parquet", "--force-doubtful", *workers
    )
    index = run("index", some, *workers)
    return [
        row("qec orient: processor time, per file", 1e3 * orient.seconds / len(files), "ms"),
        row("qec orient: files written, per file", bytes_in(folder / "upright") / len(files), "bytes"),
        row("qec orient: Parquet, per file", (folder / "o.parquet").stat().st_size / len(files), "bytes"),
        row("qec index: processor time, per file", 1e3 * index.seconds / len(files), "ms"),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=2000, help="Number of files for qec classify.")
    parser.add_argument("--others", type=int, default=1000, help="Number of files for qec orient and qec index.")
    parser.add_argument("--workers", type=int, default=2, help="Number of processes.")
    parser.add_argument("--rows", type=int, default=100_000, help="Number of empty files.")
    parser.add_argument("--also", nargs="*", default=[], metavar="NAME", help="Further models for qec classify.")
    options = parser.parse_args()
    workers = ("--workers", str(options.workers))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shapes, table = folder / "shapes", folder / "pool.parquet"
        shapes.mkdir()
        files = make_files(shapes, options.files)
        pool = run("classify", shapes, "-o", table, *workers)
        rows = [
            row(f"{options.files} files, {options.workers} processes", pool.rate, "files/s", aim="≥ 40"),
            row("processor time, per file", 1e3 * pool.seconds / options.files, "ms"),
            *(row(f"peak memory, {kind}", memory, "MB") for kind, memory in sorted(pool.peaks.items())),
        ]
        try:
            import ray  # noqa: F401
        except ImportError:
            print("left out: Ray; pip install 'qecnet[ray]'")
        else:
            local = run("classify", shapes, "-o", folder / "ray.parquet", "--ray", "local", *workers)
            assert (folder / "ray.parquet").read_bytes() == table.read_bytes()
            rows += [
                row(f"{options.files} files, Ray local", local.rate, "files/s", "process pool", pool.rate),
                row("Ray local, share of the pool's throughput", local.rate / pool.rate, "", aim="≥ 0.8"),
                *(row(f"peak memory with Ray, {kind}", memory, "MB") for kind, memory in sorted(local.peaks.items())),
            ]
        for model in options.also:
            other = run("classify", shapes, "-o", folder / f"{model}.parquet", "--model", model, *workers)
            rows.append(row(f"{options.files} files, {options.workers} processes, {model}", other.rate, "files/s"))
        # Of real rows: those of the driver's costs are all alike, and compress to nothing.
        rows.append(row("Parquet, per file", table.stat().st_size / options.files, "bytes"))
        example = pyarrow.parquet.read_table(table).to_pylist()[0]
        kept = {name: example[name] for name in COLUMNS} | {"scores": dict(example["scores"])}
        empty = make_empty(folder / "empty", options.rows)
        rows += keep_rows(folder, empty, kept)
        rows += measure_others(folder, files[: options.others], workers)
        rows += keep_library(folder / "empty", empty)
    report("bulk", rows)


if __name__ == "__main__":
    main()
