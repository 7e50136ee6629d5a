"""A scan of one side, at an unknown scale, aligned with the whole shape: how far off are the motion and its scale?

    python -m benchmarks.align_scans --data modelnet10.zip [--model NAME] [--split train] [--per-class 5]

A random half of each shape's points is the whole shape. A camera sees the shape from a random direction
(`qecnet.datasets.sample_view`); the points of its view that come from the other half are the scan, so that the two have
no point in common. The scan is moved, and scaled by 1/3 to 3; the whole is rotated. One row for `qec align --scale` and
one with `--refine` (results/align_scans.csv), all errors up to the symmetry of the class:

- rotation: median error in degrees, and the share within 15°
- scale: median of the relative error
- error: the mean distance of the scan's points from where they belong, in radii of the whole: its median, and the
  shares below 0.05 and 0.1
- milliseconds: median processor time, with the predictions
"""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from benchmarks.candidates import write
from rich.progress import track
from scipy.spatial import cKDTree
from torch import Tensor

import qecnet
from qecnet import DEFAULT_MODEL
from qecnet.algebra import conjugate, random_quaternion, rotate
from qecnet.datasets import Dataset, Item, SymmetryGroup, derive_seed, open_dataset, sample_view, symmetry_of
from qecnet.evaluation import symmetric_distance
from qecnet.geometry import PointCloud
from qecnet.models import Alignment

_LARGEST = 3.0  # scale


class Scene(NamedTuple):
    """A scan and the whole shape, which `rotations` (2, 4) took out of the upright pose, and where the scan belongs.

    `upright` (N, 3) are the scan's points on the upright shape, `centre` (3,) and `radius` those of this shape.
    """

    scan: PointCloud
    whole: PointCloud
    rotations: Tensor
    scale: float
    upright: Tensor
    centre: Tensor
    radius: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="ModelNet10")
    parser.add_argument("--model", default=DEFAULT_MODEL)
    parser.add_argument("--split", default="test", help="choose settings on train, measure on test")
    parser.add_argument("--per-class", type=int, default=5, help="shapes of each class, chosen at random")
    given = parser.parse_args()
    dataset = open_dataset("modelnet10", given.data)
    model = qecnet.load(given.model)
    found: dict[bool, list[list[float]]] = {False: [], True: []}
    for number, item in enumerate(track(choose_of_each(dataset, given.split, given.per_class), "scans")):
        scene = make_scene(item, torch.Generator().manual_seed(derive_seed(number)))
        group = symmetry_of(dataset.classes[item.label])
        for refine, errors in found.items():
            began = time.process_time()
            alignment = model.align(scene.scan, scene.whole, scale=True, refine=refine)
            errors.append([*measure_errors(alignment, scene, group), 1000 * (time.process_time() - began)])
    rows = [
        {"method": f"{given.model}, refined" if refine else given.model, "split": given.split, **summarize_errors(one)}
        for refine, one in found.items()
    ]
    write("align_scans.csv", rows)


def choose_of_each(dataset: Dataset, split: str, count: int) -> list[Item]:
    """The same random shapes of each class every time, at most `count` of each."""
    rng = np.random.default_rng(0)
    chosen: list[Item] = []
    for label in range(len(dataset.classes)):
        items = [item for item in dataset.items(split) if item.label == label]
        chosen += [items[n] for n in sorted(rng.permutation(len(items))[:count])]
    return chosen


def make_scene(item: Item, generator: torch.Generator) -> Scene:
    """A scan of one half of a shape's points, and the other half as the whole shape."""
    cloud = item.load_cloud(generator=generator)
    view = sample_view(cloud, generator)
    is_whole = torch.rand(len(cloud), generator=generator) < 0.5
    nearest = cKDTree(cloud.points.double().numpy()).query(view.cloud.points.double().numpy())[1]
    upright = view.cloud.points[~is_whole[torch.from_numpy(nearest)]].double()
    rotations = random_quaternion(2, generator, dtype=torch.float64)
    scale = _LARGEST ** float(2 * torch.rand((), generator=generator) - 1)
    shift = torch.randn(3, generator=generator, dtype=torch.float64)
    scan = PointCloud(scale * rotate(rotations[0], upright) + shift, name="scan")
    whole = PointCloud(rotate(rotations[1], cloud.points[is_whole].double()), name="whole")
    return Scene(scan, whole, rotations, scale, upright, view.centre, view.radius)


def measure_errors(alignment: Alignment, scene: Scene, group: SymmetryGroup) -> tuple[float, float, float]:
    """The errors of the rotation in degrees, of the scale (relative) and of points in radii of the whole."""
    first, second = scene.rotations
    angle = math.degrees(float(symmetric_distance(alignment.rotation, first, second, group)))
    moved = rotate(conjugate(second), alignment.moved(scene.scan.points)) - scene.centre
    elements = torch.from_numpy(group.elements())
    places = rotate(elements[:, None], scene.upright - scene.centre)
    error = float((moved - places).norm(dim=-1).mean(-1).amin()) / scene.radius
    return angle, abs(alignment.scale * scene.scale - 1), error


def summarize_errors(errors: list[list[float]]) -> dict[str, Any]:
    """Medians and shares of rows of rotation, scale and point errors and milliseconds."""
    angles, scales, distances, milliseconds = np.array(errors).T
    return {
        "scans": len(errors),
        "rotation": f"{np.median(angles):.2f}",
        "within_15": f"{np.mean(angles <= 15):.3f}",
        "scale": f"{np.median(scales):.4f}",
        "error": f"{np.median(distances):.4f}",
        "below_05": f"{np.mean(distances < 0.05):.3f}",
        "below_10": f"{np.mean(distances < 0.1):.3f}",
        "milliseconds": f"{np.median(milliseconds):.0f}",
    }


if __name__ == "__main__":
    main()
