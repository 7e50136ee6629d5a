"""Two partial scans of one thing: how often registration and a model find the rotation between them.

    python -m benchmarks.pose_baselines.partial --dataset modelnet10 --data modelnet10.zip [--pairs 150]

Two cameras look at a test shape from random directions (`qecnet.datasets.sample_view`), and each view is rotated at
random. The overlap is the share of the first view's points that have a point of the second within 0.05 radii. Success
is a rotation within 15° of the true one, up to the class's symmetry. Registration gets both views at their true scale,
with normals that look toward the cameras. One row for each method and range of overlap (results/partial_scans.csv).
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from benchmarks.candidates import choose, write
from rich.progress import track
from scipy.spatial import cKDTree
from torch import Tensor

import qecnet
from qecnet import DEFAULT_MODEL
from qecnet.algebra import random_quaternion, rotate
from qecnet.datasets import derive_seed, open_dataset, sample_view, symmetry_of
from qecnet.evaluation import symmetric_distance
from qecnet.geometry import PointCloud
from qecnet.models import Model

from .registration import fgr, ransac, register_views

OVERLAPS = (0.0, 0.25, 0.5, 0.75, 1.0)
_NEAR = 0.05
_UP = torch.tensor([0.0, 0.0, 1.0], dtype=torch.float64)

Aligner = Callable[[PointCloud, PointCloud, int], Tensor]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", default="modelnet10")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--pairs", type=int, default=150, help="pairs, of test shapes that are chosen at random")
    given = parser.parse_args()
    dataset = open_dataset(given.dataset, given.data)
    model = qecnet.load(DEFAULT_MODEL)
    found: dict[tuple[str, str], list[tuple[bool, float]]] = defaultdict(list)
    for number, item in enumerate(track(choose(dataset.items("test"), given.pairs), "pairs")):
        generator = torch.Generator().manual_seed(derive_seed(number))
        shape = item.load()
        views = [sample_view(shape, generator) for _ in range(2)]
        q = random_quaternion(2, generator, dtype=torch.float64)
        overlap = measure_overlap(views[0].cloud, views[1].cloud, views[0].radius)
        source, target = (view.cloud.rotated(one) for view, one in zip(views, q, strict=True))
        group = symmetry_of(dataset.classes[item.label])
        for name, align in list_methods(model, q).items():
            began = time.process_time()
            predicted = align(source, target, number)
            seconds = time.process_time() - began
            success = bool(symmetric_distance(predicted, q[0], q[1], group) <= np.deg2rad(15))
            for part in ("all", name_overlap(overlap)):
                found[name, part].append((success, seconds))
    parts = ["all", *(name_overlap(high) for high in OVERLAPS[1:])]
    rows = []
    for name in list_methods(model, q):
        for part in parts:
            if some := found[name, part]:
                success, seconds = np.array(some).T
                rows.append(
                    {
                        "method": name,
                        "overlap": part,
                        "pairs": len(some),
                        "within_15": f"{success.mean():.3f}",
                        "milliseconds": f"{1000 * np.median(seconds):.0f}",
                    }
                )
    write("partial_scans.csv", rows)


def list_methods(model: Model, q: Tensor) -> dict[str, Aligner]:
    """The methods by name; `q` (2, 4) rotated the views, which decides where up is, for the one that is told."""
    up, target_up = rotate(q, _UP)
    return {
        "FPFH + RANSAC + ICP": partial(register_views, search=ransac),
        "FPFH + FGR + ICP": partial(register_views, search=fgr),
        model.name: lambda a, b, seed: model.align(a, b, seed=seed).rotation,
        f"{model.name}, known up": lambda a, b, seed: model.align(a, b, seed=seed, up=up, target_up=target_up).rotation,
    }


def measure_overlap(source: PointCloud, target: PointCloud, radius: float) -> float:
    """The share of the source's points that have a point of the target near them, before any rotation."""
    distances = cKDTree(target.points.double().numpy()).query(source.points.double().numpy())[0]
    return float((distances <= _NEAR * radius).mean())


def name_overlap(overlap: float) -> str:
    """The range that an overlap belongs to."""
    for low, high in pairwise(OVERLAPS):
        if overlap <= high:
            return f"{100 * low:.0f}-{100 * high:.0f}%"
    raise ValueError(f"overlap is {overlap}; it is a share, 0 to 1")


if __name__ == "__main__":
    main()
