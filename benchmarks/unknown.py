"""Shapes of classes that a model never saw: does its confidence tell them from those that it knows?

    python -m benchmarks.unknown MODELNET40 [--shapes N]

The default model is asked about the test split of ModelNet40, each shape in a random pose: the ten classes that it
knows, and the thirty that it does not. One row a value of `--min-confidence` (results/unknown.csv): the shares of known
shapes that are kept, of those kept that are named right, and of unknown shapes that are called unknown.
"""

import argparse
import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
from benchmarks.candidates import choose
from benchmarks.measure import RESULTS
from rich.progress import track

import qecnet
from qecnet import DEFAULT_MODEL
from qecnet.algebra import random_quaternion, rotate
from qecnet.datasets import derive_seed, open_dataset

THRESHOLDS = (0.0, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.99)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="ModelNet40")
    parser.add_argument("--shapes", type=int, default=10**9, help="shapes, chosen at random; default all")
    given = parser.parse_args()
    model = qecnet.load(DEFAULT_MODEL)
    dataset = open_dataset("modelnet40", given.data)
    known, right, sure = [], [], []
    for number, item in enumerate(track(choose(dataset.items("test"), given.shapes))):
        cloud, kind = item.load_cloud(), dataset.classes[item.label]
        turn = random_quaternion((), derive_seed(number)).to(cloud.points)
        try:
            answer = model.predict(replace(cloud, points=rotate(turn, cloud.points), normals=None))
        except ValueError as error:  # of which nothing can be said: neither named nor called unknown
            print(f"left out: {error}")
            continue
        known.append(kind in model.classes)
        right.append(answer.label == kind)
        sure.append(answer.confidence)
    write(model.name, np.array(known), np.array(right), np.array(sure))


def write(model: str, known: np.ndarray, right: np.ndarray, sure: np.ndarray) -> None:
    with (RESULTS / "unknown.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["model", "min_confidence", "known", "kept", "right", "unknown", "refused"])
        for threshold in THRESHOLDS:
            kept = sure >= threshold
            shares = (kept[known].mean(), right[known & kept].mean(), (~kept[~known]).mean())
            kept_share, right_share, refused = (f"{share:.4f}" for share in shares)
            line = [model, threshold, known.sum(), kept_share, right_share, (~known).sum(), refused]
            writer.writerow(line)
            print(*line, sep="  ")


if __name__ == "__main__":
    main()
