"""How often the candidate poses of a shape contain its true up direction, without any learning.

    python -m benchmarks.candidates --modelnet40 FOLDER --scanned-objects FOLDER [--shapes 300]

Each shape is sampled at 10,000 points, rotated at random and described by 1,024 farthest points with normals.
ModelNet40 is its test split (meshes in the official layout). Google Scanned Objects are the names whose SHA-256 begins
with 8 to f (NAME/model.obj, z up). One row for each source of candidates (results/candidates.csv): the shares of shapes
with a candidate within 5° and 10° of up, the median angle of the nearest one, the share whose first candidate is within
10°, and the mean number of candidates. Shapes without one within 10° are printed.
"""

import argparse
import csv
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from benchmarks.measure import RESULTS
from rich.progress import track
from torch import Tensor

from qecnet.algebra import random_quaternion, rotate
from qecnet.datasets import derive_seed, open_dataset
from qecnet.geometry import (
    Mesh,
    PointCloud,
    default_radii,
    farthest_points,
    find_axis_ups,
    find_resting_ups,
    fit_normals,
    propose_poses,
)

UP = torch.tensor([0.0, 0.0, 1.0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--modelnet40", type=Path, help="folder of meshes, CLASS/test/NAME")
    parser.add_argument("--scanned-objects", type=Path, help="folder with NAME/model.obj")
    parser.add_argument("--shapes", type=int, default=300, help="shapes of each, chosen at random")
    given = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for name, title in (
        ("modelnet40", "ModelNet40, test"),
        ("scanned_objects", "Google Scanned Objects, test half"),
    ):
        if getattr(given, name):
            items = open_dataset(name, getattr(given, name)).items("test")
            rows += measure(title, [(item.name, item.load) for item in choose(items, given.shapes)])
    write("candidates.csv", rows)


def choose(items: Sequence[Any], count: int) -> list[Any]:
    """At most `count` of the items, the same ones every time, in their own order."""
    chosen = np.random.default_rng(0).permutation(len(items))[:count]
    return [items[i] for i in sorted(chosen)]


def rotated_cloud(shape: Mesh | PointCloud, number: int) -> tuple[Tensor, Tensor]:
    """10,000 points of a shape (N, 3), rotated at random, and the rotation (4,)."""
    generator = torch.Generator().manual_seed(derive_seed(number))
    cloud = shape.sample(10_000, generator) if isinstance(shape, Mesh) else shape
    rotation = random_quaternion((), generator, dtype=torch.float64)
    points = PointCloud(rotate(rotation, cloud.points.double())).clean().normalized().points
    return points, rotation.float()


def describe(points: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """1,024 farthest points with their normals, and 0 as the weight of normals that could not be fitted."""
    at = farthest_points(points, min(1024, len(points)))
    normals, valid = fit_normals(points, at, radius=default_radii(points).normals)
    return points[at], normals, valid.to(normals)


def degrees(ups: Tensor, up: Tensor) -> Tensor:
    """(C,) angles between up directions (C, 3) and the true one (3,)."""
    return (ups @ up).clamp(-1, 1).acos().rad2deg()


def measure(dataset: str, shapes: Sequence[tuple[str, Any]]) -> list[dict[str, Any]]:
    found: dict[str, list[tuple[float, float, int]]] = defaultdict(list)
    for number, (name, load) in enumerate(track(shapes, dataset)):
        points, rotation = rotated_cloud(load(), number)
        positions, normals, weights = describe(points)
        poses, valid = propose_poses(positions, normals, weights)
        for source, ups in (
            ("resting faces", find_resting_ups(positions)),
            ("axes", find_axis_ups(positions, normals, weights)),
            ("both", rotate(poses[valid], UP)),
        ):
            angles = degrees(ups, rotate(rotation, UP))
            found[source].append((float(angles.min()), float(angles[0]), len(angles)))
        if found["both"][-1][0] > 10:
            print(f"{name}: the nearest candidate is {found['both'][-1][0]:.0f}° from up")
    rows = []
    for source, values in found.items():
        nearest, first, count = np.array(values).T
        rows.append(
            {
                "dataset": dataset,
                "candidates": source,
                "shapes": len(values),
                "within_5": f"{(nearest <= 5).mean():.3f}",
                "within_10": f"{(nearest <= 10).mean():.3f}",
                "median_degrees": f"{np.median(nearest):.2f}",
                "first_within_10": f"{(first <= 10).mean():.3f}",
                "mean_count": f"{count.mean():.1f}",
            }
        )
    return rows


def write(name: str, rows: Sequence[dict[str, Any]]) -> None:
    """Write rows to a file in results/, and print them."""
    with (RESULTS / name).open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        table.writeheader()
        table.writerows(rows)
    for row in rows:
        print(*row.values(), sep="  ")


if __name__ == "__main__":
    main()
