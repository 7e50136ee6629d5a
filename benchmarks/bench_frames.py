"""10,000 points in memory to 512 FLARE frames and 64 patches: time, against a plain per-point loop, and memory;
the same for a scan of two million points.

    python benchmarks/bench_frames.py [--many 300]

The shape is procedural, so that anyone can repeat it. Times are medians over shapes and repeats.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable

import numpy as np
import torch

from qecnet.geometry import (
    PointCloud,
    Radii,
    default_radii,
    farthest_points,
    fit_normals,
    local_frames,
    patches,
    prepare,
    prepare_many,
)


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
        return np.linalg.eigh(np.cov(points[near].T))[1][:, 0]

    def distances_from(i: int) -> np.ndarray:
        return np.linalg.norm(points - points[i], axis=1)

    frames = np.zeros((len(at), 2, 3))
    for row, i in enumerate(at):
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
        frames[row] = x / np.linalg.norm(x), z
    return frames


def milliseconds(work: Callable[[], object], repeats: int) -> float:
    work()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return 1000 * float(np.median(times))


def peak_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def to_patches(points: torch.Tensor) -> None:
    at = farthest_points(points, 512)
    frames = local_frames(points, at)
    patches(points[at], frames.valid)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--many", type=int, default=300, help="clouds for the run with two workers")
    arguments = parser.parse_args()

    clouds = [furniture(seed) for seed in range(5)]
    before = peak_megabytes()
    to_patches(clouds[0])
    print(f"peak memory over the interpreter: {peak_megabytes() - before:.0f} MB")

    whole = np.median([milliseconds(lambda p=p: to_patches(p), 9) for p in clouds])
    print(f"10,000 points to 512 frames and 64 patches: {whole:.1f} ms on {torch.get_num_threads()} threads")
    points = clouds[0]
    at = farthest_points(points, 512)
    for name, work in (
        ("  farthest points, 512", lambda: farthest_points(points, 512)),
        ("  default radii", lambda: default_radii(points)),
        ("  normals at all points within 0.15", lambda: fit_normals(points, radius=0.15)),
        ("  FLARE frames, normals included", lambda: local_frames(points, at)),
        ("  SHOT frames", lambda: local_frames(points, at, "shot")),
        ("  centred frames", lambda: local_frames(points, at, "centred")),
        ("  patches", lambda: patches(points[at])),
    ):
        print(f"{name}: {milliseconds(work, 9):.1f} ms")

    frames = milliseconds(lambda: local_frames(points, at), 9)
    start = time.perf_counter()
    frames_plain(points.double().numpy(), at.numpy(), default_radii(points))
    plain = 1000 * (time.perf_counter() - start)
    print(f"plain loop over points in NumPy: {plain:.0f} ms, {plain / frames:.0f} times the frames above")

    scan = PointCloud(furniture(9, 2_000_000).double())
    start = time.perf_counter()
    prepare(scan, generator=torch.Generator().manual_seed(0))
    took = time.perf_counter() - start
    print(f"a scan of 2,000,000 points prepared: {took:.2f} s")
    print(f"peak memory over the interpreter, with the making of that scan: {peak_megabytes() - before:.0f} MB")

    start = time.perf_counter()
    prepare_many([PointCloud(clouds[i % 5]) for i in range(arguments.many)], workers=2, progress=False)
    took = time.perf_counter() - start
    rate = arguments.many / took
    print(f"prepare_many, two workers, their start included: {rate:.1f} shapes/s, 4,899 shapes in {4899 / rate:.0f} s")


if __name__ == "__main__":
    main()
