"""How fast files are read: an OFF of 1 MB against trimesh in the same run, and scans of two million points.

    python benchmarks/bench_read.py

Needs trimesh. Times are the best of many, taken by turns so that whatever else the machine does falls on both.
"""

from __future__ import annotations

import multiprocessing
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
import trimesh
from rich.console import Console
from rich.table import Table

from qecnet.data import read, write
from qecnet.geometry import PointCloud

POINTS = 2_000_000


def best_of(repeats: int, *functions: Callable[[], object]) -> list[float]:
    """The shortest time of each function in seconds."""
    times: list[list[float]] = [[] for _ in functions]
    for _ in range(repeats):
        for function, taken in zip(functions, times, strict=True):
            start = time.perf_counter()
            function()
            taken.append(time.perf_counter() - start)
    return [min(taken) for taken in times]


def off_against_trimesh(folder: Path) -> Table:
    table = Table("MB", "vertices", "digits", "trimesh ms", "qecnet ms", "times as fast", title="A sphere as OFF")
    for rings, digits in ((80, 10), (86, 6), (142, 10)):
        sphere = trimesh.creation.uv_sphere(radius=30.0, count=[rings, rings])
        path = folder / "sphere.off"
        path.write_text(trimesh.exchange.off.export_off(sphere, digits=digits))
        theirs, ours = best_of(25, lambda p=path: trimesh.load_mesh(p, process=False), lambda p=path: read(p))
        table.add_row(
            f"{path.stat().st_size / 1e6:.2f}",
            f"{len(sphere.vertices):,}",
            str(digits),
            f"{theirs * 1e3:.1f}",
            f"{ours * 1e3:.1f}",
            f"{theirs / ours:.1f}",
        )
    return table


def read_alone(path: Path, pipe) -> None:
    """Reads one file in a process of its own and sends the seconds and the megabytes that this took."""
    torch.zeros(1).isfinite()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    read(path)
    seconds = time.perf_counter() - start
    pipe.send((seconds, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024))


def large_scans(folder: Path) -> Table:
    points = torch.randn(POINTS, 3, generator=torch.Generator().manual_seed(0))
    table = Table("file", "MB", "s", "peak MB over the interpreter's", title=f"A scan of {POINTS:,} points")
    spawn = multiprocessing.get_context("spawn")
    for suffix in (".ply", ".pcd", ".npy", ".npz", ".xyz", ".csv"):
        path = folder / f"scan{suffix}"
        write(path, PointCloud(points))
        receive, send = spawn.Pipe(duplex=False)
        process = spawn.Process(target=read_alone, args=(path, send))
        process.start()
        seconds, megabytes = receive.recv()
        process.join()
        table.add_row(suffix, f"{path.stat().st_size / 1e6:.0f}", f"{seconds:.2f}", f"{megabytes:.0f}")
    return table


def main() -> None:
    console = Console()
    with tempfile.TemporaryDirectory() as folder:
        console.print(off_against_trimesh(Path(folder)))
        console.print(large_scans(Path(folder)))


if __name__ == "__main__":
    main()
