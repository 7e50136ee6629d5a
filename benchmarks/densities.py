"""Scans come with few points and with many: how good is a network at each density?

python benchmarks/densities.py ModelNet10.zip results/modelnet10-whole results/modelnet10 --cache FOLDER

The held-out part of the train split, as each run's training left it out, with 8,000 points a shape and with halves of
that down to 1,000; upright, frames as training reads them (protocol "paper"). One row a run and density
(results/densities.csv): the share named right, and the true class's error of pose, δ/π up to symmetry, in the mean.
Rows of other runs stay; those that are given have one dataset, one kind of frames and one held-out share. This is what
runs were chosen by; the test split is not read.
"""

import argparse
import csv
import math
from pathlib import Path
from typing import Any

import torch
from rich.progress import track

from measure import RESULTS
from qecnet.datasets import FrameCache, frame_cache, open_dataset, training_symmetry
from qecnet.geometry import PrepareConfig
from qecnet.nn import Capsules, load_network, upright_distance
from qecnet.training.validate import held_out

POINTS = (8000, 4000, 2000, 1000)
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
    cache = frame_cache(
        open_dataset(name, given.data),
        "train",
        given.cache,
        PrepareConfig(method=method),
        subsamplings=len(POINTS),
        thinnest=POINTS[-1] / POINTS[0],
    )
    rows = [row for run, (network, _, _) in loaded.items() for row in measured(run, name, network, cache, share)]
    write([*(row for row in before() if row["run"] not in loaded), *rows])


def measured(run: str, dataset: str, network: Any, cache: FrameCache, share: float) -> list[dict[str, Any]]:
    _, held = held_out(cache.labels, share)
    turns = torch.tensor([training_symmetry(kind) for kind in cache.classes])
    rows = []
    for which, points in enumerate(POINTS):
        right, pose = 0, 0.0
        for shapes in track(held.split(32), f"{run}, {points} points"):
            prepared, labels = cache.prepared(shapes, torch.full_like(shapes, which)), cache.labels[shapes]
            with torch.inference_mode():
                said = network(Capsules.primary(prepared.points, prepared.poses, prepared.valid), [])
            right += int((said.label == labels).sum())
            pose += float(upright_distance(said.pose_of(labels), turns[labels]).sum()) / math.pi
        values = run, dataset, points, len(held), f"{right / len(held):.4f}", f"{pose / len(held):.4f}"
        print(*values, sep="  ")
        rows.append(dict(zip(FIELDS, values, strict=True)))
    return rows


def before() -> list[dict[str, Any]]:
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
