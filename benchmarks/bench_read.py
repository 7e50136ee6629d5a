"""How fast files are read: an OFF of 1 MB against trimesh in the same run, and scans of two million points.

    python benchmarks/bench_read.py

Needs trimesh. Both read by turns, so that whatever else the machine does falls on both. The median is what a user
waits for; the best leaves out what the many small objects of a line-by-line reader cost the garbage collector.
"""

from __future__ import annotations

import multiprocessing
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


def by_turns(repeats: int, *functions: Callable[[], object]) -> list[list[float]]:
    """Each function's times in milliseconds, sorted."""
    times: list[list[float]] = [[] for _ in functions]
    for _ in range(repeats):
        for function, taken in zip(functions, times, strict=True):
            start = time.perf_counter()
            function()
            taken.append(1e3 * (time.perf_counter() - start))
    return [sorted(taken) for taken in times]


def off_against_trimesh(folder: Path) -> Table:
    table = Table(
        "MB", "vertices", "digits", "of 41", "trimesh ms", "qecnet ms", "times as fast", title="A sphere as OFF"
    )
    for rings, digits in ((82, 10), (88, 6), (142, 10)):
        sphere = trimesh.creation.uv_sphere(radius=30.0, count=[rings, rings])
        path = folder / "sphere.off"
        path.write_text(trimesh.exchange.off.export_off(sphere, digits=digits))
        theirs, ours = by_turns(41, lambda p=path: trimesh.load_mesh(p, process=False), lambda p=path: read(p))
        for name, place in (("median", 20), ("best", 0)):
            their, our = theirs[place], ours[place]
            size = f"{path.stat().st_size / 1e6:.2f}", f"{len(sphere.vertices):,}", str(digits)
            table.add_row(*size, name, f"{their:.1f}", f"{our:.1f}", f"{their / our:.1f}")
    return table


def megabytes(field: str) -> float:
    """A memory figure of this process as Linux keeps it: `VmRSS` is now, `VmHWM` the peak."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(field))
    return int(line.split()[1]) / 1024


def read_alone(path: Path, pipe) -> None:
    """Reads one file in a process of its own and sends the seconds and the megabytes that this took."""
    before = megabytes("VmRSS")
    start = time.perf_counter()
    read(path)
    pipe.send((time.perf_counter() - start, megabytes("VmHWM") - before))


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
        seconds, peak = receive.recv()
        process.join()
        table.add_row(suffix, f"{path.stat().st_size / 1e6:.0f}", f"{seconds:.2f}", f"{peak:.0f}")
    return table


def main() -> None:
    console = Console()
    with tempfile.TemporaryDirectory() as folder:
        console.print(off_against_trimesh(Path(folder)))
        console.print(large_scans(Path(folder)))


if __name__ == "__main__":
    main()
