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
from typing import Any

import torch
import trimesh

from measure import megabytes, report, row
from qecnet.formats import read, write
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


def off_against_trimesh(folder: Path) -> list[dict[str, Any]]:
    rows = []
    for rings, digits in ((82, 10), (88, 6), (142, 10)):
        sphere = trimesh.creation.uv_sphere(radius=30.0, count=[rings, rings])
        path = folder / "sphere.off"
        path.write_text(trimesh.exchange.off.export_off(sphere, digits=digits))
        theirs, ours = by_turns(41, lambda p=path: trimesh.load_mesh(p, process=False), lambda p=path: read(p))
        size = f"OFF of {path.stat().st_size / 1e6:.2f} MB, {len(sphere.vertices):,} vertices, {digits} digits"
        for name, place in (("median", 20), ("best", 0)):
            rows.append(row(f"{size}, {name} of 41", ours[place], "ms", "trimesh", theirs[place], "≥ 10"))
    return rows


def read_alone(path: Path, pipe: Any) -> None:
    """Reads one file in a process of its own and sends the seconds and the megabytes that this took."""
    before = megabytes("VmRSS")
    start = time.perf_counter()
    read(path)
    pipe.send((time.perf_counter() - start, megabytes("VmHWM") - before))


def large_scans(folder: Path) -> list[dict[str, Any]]:
    points = torch.randn(POINTS, 3, generator=torch.Generator().manual_seed(0))
    rows = []
    spawn = multiprocessing.get_context("spawn")
    for suffix in (".ply", ".pcd", ".npy", ".npz", ".xyz", ".csv"):
        path = folder / f"scan{suffix}"
        write(path, PointCloud(points))
        receive, send = spawn.Pipe(duplex=False)
        process = spawn.Process(target=read_alone, args=(path, send))
        process.start()
        seconds, peak = receive.recv()
        process.join()
        rows.append(row(f"{POINTS:,} points from {suffix}", seconds, "s"))
        rows.append(row(f"peak memory of that, over the interpreter, {suffix}", peak, "MB", aim="< 2000"))
    return rows


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        report("read", [*off_against_trimesh(Path(folder)), *large_scans(Path(folder))])


if __name__ == "__main__":
    main()
