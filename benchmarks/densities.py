"""Accuracy and orientation error of a network on clouds of different densities.

python -m benchmarks.densities ModelNet10.zip results/modelnet10-whole results/modelnet10-features --cache FOLDER

Reads the held-out part of the train split at full density and thinned to a half, a quarter and an eighth; upright, with
frames as in training (the paper's protocol). Writes one row for each run and density to results/densities.csv: the
median number of points that the clouds really have, the accuracy ("right"), and the mean orientation error of the true
class up to symmetry, as angle/π ("pose"). Rows of other runs stay. The given runs must share the dataset, the kind of
frames and the held-out share. Runs were chosen by this; the test split is not read.
"""

import argparse
import csv
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from benchmarks.measure import RESULTS
from rich.progress import track
from torch import Tensor

from qecnet.datasets import FrameCache, Item, frame_cache, open_dataset, training_symmetry
from qecnet.geometry import PrepareConfig, sample_points
from qecnet.nn import load_network, upright_distance
from qecnet.training.validate import held_out

DENSITIES = 4
THINNEST = 1 / 8
KEEP = 0.8
FIELDS = ("run", "dataset", "points", "shapes", "right", "pose")
FILE = RESULTS / "densities.csv"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--cache", type=Path, required=True)
    given = parser.parse_args()
    loaded = {run.name: load_network(run / "weights.safetensors") for run in given.runs}
    ((name, method, share),) = {
        tuple(about["settings"][setting] for setting in ("dataset", "method", "validation"))
        for _, _, about in loaded.values()
    }
    dataset, config = open_dataset(name, given.data), PrepareConfig(method=method)
    cache = frame_cache(dataset, "train", given.cache, config, subsamplings=DENSITIES, keep=KEEP, thinnest=THINNEST)
    _, held = held_out(cache.labels, share)
    points = count_points([dataset.items("train")[number] for number in held.tolist()], config)
    rows = [row for run, (network, _, _) in loaded.items() for row in measure(run, name, network, cache, held, points)]
    write([*(row for row in read_rows() if row["run"] not in loaded), *rows])


def count_points(items: Sequence[Item], config: PrepareConfig) -> list[int]:
    """The median number of points of the shapes at each density, as the cache samples them."""
    counts = []
    for item in items:
        shape, generator = item.load(), torch.Generator().manual_seed(0)
        shares = (THINNEST ** (density / (DENSITIES - 1)) for density in range(DENSITIES))
        counts.append([len(sample_points(shape, config.points, generator, KEEP, thinned)) for thinned in shares])
    return [round(count) for count in np.median(counts, axis=0)]


def measure(
    run: str, dataset: str, network: Any, cache: FrameCache, held: Tensor, points: Sequence[int]
) -> list[dict[str, Any]]:
    """One row for each density."""
    turns = torch.tensor([training_symmetry(kind) for kind in cache.classes])
    rows = []
    for density, count in enumerate(points):
        right, pose = 0, 0.0
        for shapes in track(held.split(32), f"{run}, {count} points"):
            given, labels = cache.points(shapes, torch.full_like(shapes, density)), cache.labels[shapes]
            with torch.inference_mode():
                said = network(given)
            right += int((said.label == labels).sum())
            pose += float(upright_distance(said.pose_of(labels), turns[labels]).sum()) / math.pi
        values = run, dataset, count, len(held), f"{right / len(held):.4f}", f"{pose / len(held):.4f}"
        print(*values, sep="  ")
        rows.append(dict(zip(FIELDS, values, strict=True)))
    return rows


def read_rows() -> list[dict[str, Any]]:
    if not FILE.exists():
        return []
    with FILE.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def write(rows: list[dict[str, Any]]) -> None:
    with FILE.open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, FIELDS, lineterminator="\n")
        table.writeheader()
        table.writerows(rows)


if __name__ == "__main__":
    main()
