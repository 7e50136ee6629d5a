"""10,000 points in memory to 512 FLARE frames: time, against a plain per-point loop, and memory;
the same for a scan of two million points.

    python -m benchmarks.bench_frames [--many 300]

The shape is procedural, so that anyone can repeat it. Times are the fastest of a second. With fpsample installed
(pip install -c constraints.txt fpsample), farthest points are compared with its exact function, which chooses the same.
"""

from __future__ import annotations

import argparse
import time
from collections import deque
from functools import partial
from importlib import import_module
from importlib.util import find_spec

import numpy as np
import torch
from benchmarks.measure import megabytes, milliseconds, report, row

from qecnet.geometry import (
    PointCloud,
    Radii,
    default_radii,
    farthest_points,
    fit_normals,
    local_frames,
    prepare,
)
from qecnet.workers import in_order


def furniture(seed: int, count: int = 10_000) -> torch.Tensor:
    """(count, 3) float32 points at radius 1 on a random pile of boxes: flat faces, edges and thin legs."""
    rng = np.random.default_rng(seed)
    sizes, middles = rng.uniform(0.05, 0.6, (8, 3)), rng.uniform(-0.5, 0.5, (8, 3))
    areas = (sizes[:, [1, 2, 0]] * sizes[:, [2, 0, 1]]).ravel()
    face = rng.choice(24, count, p=areas / areas.sum())
    points = rng.uniform(-1, 1, (count, 3))
    points[np.arange(count), face % 3] = rng.choice([-1, 1], count)
    points = points * sizes[face // 3] + middles[face // 3]
    points -= points.mean(0)
    return torch.from_numpy(points / np.linalg.norm(points, axis=1).max()).float()


def frames_plain(points: np.ndarray, at: np.ndarray, radii: Radii) -> np.ndarray:
    """FLARE's x and z (M, 2, 3), point by point, each step as it is written down; zero where there is no frame."""
    centre, normals = points.mean(0), {}

    def plane(near: np.ndarray) -> np.ndarray:
        normal: np.ndarray = np.linalg.eigh(np.cov(points[near].T))[1][:, 0]
        return normal

    def distances_from(i: np.intp) -> np.ndarray:
        distances: np.ndarray = np.linalg.norm(points - points[i], axis=1)
        return distances

    frames = np.zeros((len(at), 2, 3))
    for place, i in enumerate(at):
        distances = distances_from(i)
        near = np.flatnonzero(distances <= radii.z_axis)
        ring = np.flatnonzero((distances > radii.margin * radii.tangent) & (distances <= radii.tangent))
        if len(near) < 6 or len(ring) == 0:
            continue
        for j in near:
            if j not in normals:
                normal = plane(np.flatnonzero(distances_from(j) <= radii.normals))
                normals[j] = normal * np.sign(normal @ (centre - points[j]))
        z = plane(near)
        z *= np.sign(z @ np.mean([normals[j] for j in near], axis=0))
        heights = (points[ring] - points[i]) @ z
        x = points[ring[heights.argmax()]] - points[i] - heights.max() * z
        frames[place] = x / np.linalg.norm(x), z
    return frames


def to_frames(points: torch.Tensor) -> None:
    at = farthest_points(points, 512)
    local_frames(points, at)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--many", type=int, default=300, help="clouds for the run with two workers")
    arguments = parser.parse_args()

    clouds = [furniture(seed) for seed in range(5)]
    points = clouds[0]
    at = farthest_points(points, 512)
    before = megabytes("VmHWM")
    to_frames(points)
    memory = megabytes("VmHWM") - before
    whole = float(np.median([milliseconds(partial(to_frames, p)) for p in clouds]))
    frames = milliseconds(lambda: local_frames(points, at))
    start = time.perf_counter()
    frames_plain(points.double().numpy(), at.numpy(), default_radii(points))
    plain = 1000 * (time.perf_counter() - start)
    rows = [
        row("10,000 points to 512 FLARE frames and 64 patches", whole, aim="≤ 40"),
        row("512 FLARE frames, normals included", frames, "ms", "plain loop in NumPy", plain, "≥ 10"),
        row("peak memory of the first, over the interpreter", memory, "MB", aim="< 300"),
    ]
    ours = milliseconds(lambda: farthest_points(points, 512))
    if find_spec("fpsample") is None:
        rows.append(row("part: 512 farthest points", ours))
    else:
        fps_sampling = import_module("fpsample").fps_sampling
        theirs = partial(fps_sampling, points.numpy(), 512, start_idx=int(at[0]))
        assert (theirs() == at.numpy()).all()
        rows.append(row("part: 512 farthest points", ours, "ms", "fpsample", milliseconds(theirs)))
    for name, work in (
        ("default radii", lambda: default_radii(points)),
        ("normals at all points within 0.15", lambda: fit_normals(points, radius=0.15)),
        ("512 SHOT frames", lambda: local_frames(points, at, "shot")),
        ("512 centred frames", lambda: local_frames(points, at, "centred")),
    ):
        rows.append(row(f"part: {name}", milliseconds(work)))

    scan = PointCloud(furniture(9, 2_000_000).double())
    start = time.perf_counter()
    prepare(scan, generator=torch.Generator().manual_seed(0))
    rows.append(row("a scan of 2,000,000 points prepared", time.perf_counter() - start, "s"))
    rows.append(row("peak memory with the making of that scan", megabytes("VmHWM") - before, "MB", aim="< 2000"))

    start = time.perf_counter()
    jobs = ((PointCloud(clouds[i % 5]),) for i in range(arguments.many))
    deque(in_order(prepare, jobs, workers=2), maxlen=0)
    rate = arguments.many / (time.perf_counter() - start)
    rows.append(row(f"prepare by two workers, {arguments.many} clouds, start included", rate, "shapes/s"))
    rows.append(row("ModelNet10's 4,899 shapes at that rate", 4899 / rate, "s", aim="< 300"))
    report("frames", rows)


if __name__ == "__main__":
    main()
