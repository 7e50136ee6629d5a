"""How fast and how strict files are read: ours against trimesh, meshio and pypcd4 in the same run, and large scans.

    python -m benchmarks.bench_read

Needs trimesh, meshio and pypcd4. The readers take turns, so that other work on the machine slows all of them. The
median is the time that a user waits; the best leaves out garbage collection. Strictness is the number of damaged files
of tests/formats/test_bad_files.py that a reader accepts without an error or takes two seconds for.
"""

from __future__ import annotations

import logging
import multiprocessing
import signal
import tempfile
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import meshio
import numpy as np
import pypcd4
import torch
import trimesh
from benchmarks.measure import megabytes, report, row
from tests.formats.test_bad_files import CASES

from qecnet.formats import Motion, move_file, read, write
from qecnet.geometry import PointCloud

POINTS = 2_000_000
_PATIENCE = 2.0  # seconds
READERS: dict[str, dict[str, Callable[[Path], object]]] = {
    "trimesh": dict.fromkeys((".ply", ".stl", ".obj"), lambda path: trimesh.load(path, process=False)),
    "meshio": dict.fromkeys((".ply", ".stl", ".obj"), meshio.read),
    "pypcd4": {".pcd": lambda path: pypcd4.PointCloud.from_path(path).numpy()},
}


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
        theirs, ours = by_turns(41, partial(trimesh.load_mesh, path, process=False), partial(read, path))
        size = f"OFF of {path.stat().st_size / 1e6:.2f} MB, {len(sphere.vertices):,} vertices, {digits} digits"
        for name, place in (("median", 20), ("best", 0)):
            rows.append(row(f"{size}, {name} of 41", ours[place], "ms", "trimesh", theirs[place], "≥ 10"))
    return rows


def others_by_format(folder: Path) -> list[dict[str, Any]]:
    """PLY, STL, OBJ and PCD of 20,000 vertices, in each encoding that the format has."""
    sphere = trimesh.creation.uv_sphere(radius=30.0, count=[142, 142])
    cloud = pypcd4.PointCloud.from_xyz_points(np.asarray(sphere.vertices, np.float32))
    sphere.export(folder / "binary.ply")
    sphere.export(folder / "ascii.ply", encoding="ascii")
    sphere.export(folder / "binary.stl")
    sphere.export(folder / "ascii.stl", file_type="stl_ascii")
    sphere.export(folder / "text.obj")
    for name in ("ascii", "binary", "binary_compressed"):
        cloud.save(folder / f"{name}.pcd", encoding=pypcd4.Encoding(name))
    rows = []
    for path in sorted(folder.glob("*.*")):
        for library, readers in READERS.items():
            if path.suffix in readers:
                load = readers[path.suffix]
                theirs, ours = by_turns(9, partial(load, path), partial(read, path))
                rows.append(
                    row(f"{path.suffix[1:].upper()}, {path.stem}, median of 9", ours[4], "ms", library, theirs[4])
                )
    return rows


def strictness(folder: Path) -> list[dict[str, Any]]:
    """Damaged files that are read without an error, or get no answer in two seconds."""

    def give_up(*_: object) -> None:
        raise TimeoutError

    signal.signal(signal.SIGALRM, give_up)
    rows = []
    for library, readers in READERS.items():
        for suffix, load in readers.items():
            accepted = {"ours": 0, library: 0}
            cases = {name: content for name, (content, _) in CASES.items() if name.endswith(suffix)}
            for name, content in cases.items():
                path = folder / name
                path.write_bytes(content)
                for who, function in (("ours", read), (library, load)):
                    signal.setitimer(signal.ITIMER_REAL, _PATIENCE)
                    try:
                        function(path)
                        accepted[who] += 1
                    except TimeoutError:
                        accepted[who] += 1
                    except (Exception, SystemExit):  # meshio ends the process when it cannot read a file
                        pass
                    finally:
                        signal.setitimer(signal.ITIMER_REAL, 0)
            what = f"damaged {suffix[1:].upper()} files accepted, of {len(cases)}"
            rows += [row(f"{what}, {who}", count, "files") for who, count in accepted.items()]
    return rows


def moved_text(folder: Path) -> list[dict[str, Any]]:
    """A rotated text cloud of 300,000 points: the time, and how much longer the file becomes."""
    points = np.random.default_rng(0).uniform(-5, 5, (300_000, 3))
    np.savetxt(folder / "scan.xyz", points, fmt="%.6f")
    quarter = np.array([[0.8, -0.6, 0.0], [0.6, 0.8, 0.0], [0.0, 0.0, 1.0]])
    motion = Motion(quarter, np.zeros(3), np.zeros(3))
    ((_, middle, _),) = by_turns(3, lambda: move_file(folder / "scan.xyz", folder / "moved.xyz", motion))
    growth = (folder / "moved.xyz").stat().st_size / (folder / "scan.xyz").stat().st_size
    return [
        row("300,000 text points moved, median of 3", middle / 1e3, "s"),
        row("length of that file against the source", growth, "times"),
    ]


def read_alone(path: Path, pipe: Any) -> None:
    """Read one file in a process of its own and send the seconds and the megabytes that this took."""
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
    logging.disable()
    warnings.simplefilter("ignore")
    rows: list[dict[str, Any]] = []
    for measure in (off_against_trimesh, others_by_format, strictness, moved_text, large_scans):
        with tempfile.TemporaryDirectory() as folder:
            rows += measure(Path(folder))
    report("read", rows)


if __name__ == "__main__":
    main()
