"""The same file in a hundred random poses: is the answer the same, and does the pose turn with it?

    python -m benchmarks.hundred_poses [--model NAME] [--shapes 3] [--poses 100] [--workers N] [--out FILE]

Shapes are our own procedural ones, written as meshes, turned and written again; each file goes the way of a user's.
One row a class, over all of its shapes, and one over the classes without symmetry:

- right: the share of poses that are named right; same: the share that are called what the shape is called most often
- spread: the largest confidence less the smallest, of the shape where that is most
- median, p95, largest: by how many degrees the pose turned otherwise than the file did, from the file as it was made,
  up to the class's declared symmetry
"""

from __future__ import annotations

import argparse
import csv
import os
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from benchmarks.measure import RESULTS
from rich.console import Console
from rich.table import Table

import qecnet
from qecnet import DEFAULT_MODEL
from qecnet.algebra import conjugate, multiply, random_quaternion, rotate
from qecnet.datasets import FURNITURE_CLASSES, derive_seed, make_shape, symmetry_of
from qecnet.evaluation import IDENTITY, NO_SYM, symmetric_distance
from qecnet.formats import write
from qecnet.models import Answer


def answers_of(model: qecnet.Model, kind: str, number: int, turns: torch.Tensor, workers: int) -> list[Answer]:
    """Of a shape's file as it was made, and of a file for each turn."""
    mesh = make_shape(kind, derive_seed(8, number))
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"{n:04d}.off" for n in range(len(turns) + 1)]
        write(paths[0], mesh)
        for path, turn in zip(paths[1:], turns, strict=True):
            write(path, replace(mesh, vertices=rotate(turn, mesh.vertices)))
        found = [*model.predict_many(paths, workers=workers)]
    failed = [one.error for one in found if not isinstance(one, Answer)]
    assert not failed, failed[0]
    return [one for one in found if isinstance(one, Answer)]


def measured(model: qecnet.Model, kind: str, number: int, poses: int, workers: int) -> dict[str, Any]:
    """Of one shape: counts, spread and errors in degrees."""
    turns = random_quaternion(poses, derive_seed(100, FURNITURE_CLASSES.index(kind), number), dtype=torch.float64)
    first, *answers = answers_of(model, kind, number, turns, workers)
    labels = Counter(answer.label for answer in answers)
    sure = [answer.confidence for answer in answers]
    between = multiply(torch.stack([answer.pose for answer in answers]), conjugate(first.pose).expand(poses, 4))
    errors = symmetric_distance(between.numpy(), IDENTITY, turns.numpy(), symmetry_of(kind))
    return {
        "right": labels[kind],
        "same": labels.most_common(1)[0][1],
        "spread": max(sure) - min(sure),
        "errors": np.rad2deg(errors),
    }


def summary(name: str, found: Sequence[dict[str, Any]], poses: int) -> dict[str, Any]:
    """One line of the table, over shapes."""
    errors = np.concatenate([one["errors"] for one in found])
    median, high, largest = np.percentile(errors, (50, 95, 100))
    return {
        "class": name,
        "symmetry": "" if name not in FURNITURE_CLASSES else symmetry_of(name).order or "any",
        "shapes": len(found),
        "poses": poses,
        "right": sum(one["right"] for one in found) / len(errors),
        "same": sum(one["same"] for one in found) / len(errors),
        "spread": max(one["spread"] for one in found),
        "median": float(median),
        "p95": float(high),
        "largest": float(largest),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=DEFAULT_MODEL)
    parser.add_argument("--shapes", type=int, default=3, help="of each class")
    parser.add_argument("--poses", type=int, default=100)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", type=Path, default=RESULTS / "hundred_poses.csv")
    options = parser.parse_args()
    model = qecnet.load(options.model)
    found = {
        kind: [measured(model, kind, n, options.poses, options.workers) for n in range(options.shapes)]
        for kind in FURNITURE_CLASSES
    }
    rows = [summary(kind, of_kind, options.poses) for kind, of_kind in found.items()]
    for name, kinds in (("no-sym", NO_SYM), ("all", FURNITURE_CLASSES)):
        rows.append(summary(name, [one for kind in kinds for one in found[kind]], options.poses))
    rows = [{"model": options.model, **row} for row in rows]
    table = Table(title=f"the same file in {options.poses} poses, {options.model}")
    for heading in rows[0]:
        table.add_column(heading)
    with options.out.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        for row in rows:
            shown = {name: f"{value:.4g}" if isinstance(value, float) else value for name, value in row.items()}
            writer.writerow(shown)
            table.add_row(*map(str, shown.values()))
    Console(width=140).print(table)
    print(f"written to {options.out}")


if __name__ == "__main__":
    main()
