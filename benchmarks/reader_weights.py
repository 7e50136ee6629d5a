"""Fit how much the readers of a network that verifies candidates should count, on training shapes that it held out.

    python -m benchmarks.reader_weights MODEL --data PATH [--scanned-objects FOLDER] [--samplings 3]

Each held-out shape is sampled anew and rotated at random several times, whole and as one camera sees it. Writes two
rows for each choice of readers to results/reader_weights.csv, where rows of other models stay: the weights in use
(`qecnet.nn.joint`), and those that maximise the regularised likelihood of the correct candidate and class. Figures of
the latter are cross-validated over shapes: the accuracy, and the shares of clouds whose up direction is within 10°, and
is so for one of the three likeliest candidates. With scanned objects, two more rows are fitted to up directions only,
of both datasets with equal weight. Of the scanned objects, a tenth is used, which scorer and reader did not learn from;
the reader of projections learned from two thirds of that tenth.
"""

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from benchmarks.candidates import UP
from benchmarks.measure import RESULTS
from benchmarks.upright import replace_rows
from rich.progress import track
from torch import Tensor

import qecnet
from qecnet.algebra import random_quaternion, rotate
from qecnet.datasets import Dataset, derive_seed, open_dataset, sample_view, stratified_split
from qecnet.geometry import OrientedPoints, PointCloud, prepare, sample_points
from qecnet.models import Model
from qecnet.nn import UprightNet
from qecnet.nn.joint import ScoreWeights, join_scores, score_weights
from qecnet.nn.upright import positions_and_normals

FOLDS = 8
SHRINKAGE = 0.003
"""Weight of the squared weights in the loss: for readers that hardly differ, it chooses equal weights."""
SCANNED_SHARE = 0.1
MEASURED = ("accuracy", "up", "first_three")

READERS = ((False, False), (False, True), (True, False), (True, True))
"""Whether projections are read, and whether there is an invariant reader."""


@dataclass(frozen=True, eq=False)
class Readings:
    """What the readers found in N clouds, with up to R candidates each.

    Attributes:
        upright: (N, R, 3), scores of the up direction by scorer, reader and projections.
        classes: (N, R, C, 3), scores of the classes by reader, projections and invariant reader.
        there: (N, R), which candidates exist.
        is_up: (N, R), whose up direction is within 10°.
        labels: (N,), -1 without a class.
        shapes: (N,), the number of the shape.
        is_view: (N,).
    """

    upright: Tensor
    classes: Tensor
    there: Tensor
    is_up: Tensor
    labels: Tensor
    shapes: Tensor
    is_view: Tensor

    def select(self, mask: Tensor) -> "Readings":
        return Readings(*(value[mask] for value in vars(self).values()))

    def join(self, weights: ScoreWeights, readers: tuple[bool, bool]) -> Tensor:
        """Joint log-probabilities by some of the readers, (N, R, C)."""
        projections, invariant = readers
        joint = join_scores(
            self.upright[..., : 2 + projections],
            self.classes[..., [True, projections, invariant]],
            weights,
        )
        joint = joint.masked_fill(~self.there[..., None], -math.inf)
        return joint - joint.flatten(1).logsumexp(1)[:, None, None]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="name of a shipped model, or weights, of the network upright with projections")
    parser.add_argument("--data", type=Path, required=True, help="the dataset that it was trained on")
    parser.add_argument("--scanned-objects", type=Path, help="folder of Google Scanned Objects")
    parser.add_argument("--samplings", type=int, default=3, help="samplings of each shape")
    given = parser.parse_args()
    model = qecnet.load(given.model)
    network = model.network
    if not isinstance(network, UprightNet) or network.projections is None or network.config.merged:
        parser.error(f"{given.model}: has no classes or no reader of projections; give modelnet40 or similar weights")
    held = {"": read_shapes(model, open_dataset(model.setting("dataset"), given.data), given.samplings)}
    path = Path(model.name)
    name = path.parent.name if path.suffix else path.name
    rows = []
    for readers in READERS:
        if network.invariant is not None or not readers[1]:
            rows += describe(name, held, readers)
    if given.scanned_objects:
        scanned = open_dataset("scanned_objects", given.scanned_objects)
        held["scanned_"] = read_shapes(model, scanned, given.samplings, SCANNED_SHARE)
        rows += describe(name, held, (True, False), merged=True)
    replace_rows(RESULTS / "reader_weights.csv", rows)
    for row in rows:
        print(row)


def describe(
    model: str, held: dict[str, Readings], readers: tuple[bool, bool], merged: bool = False
) -> list[dict[str, Any]]:
    """Two rows of the table: of the weights in use, and of fitted ones."""
    names = ("reader", *("projections",) * readers[0], *("invariant",) * readers[1])
    rows = []
    for kind in ("in use", "fitted"):
        weights = fit([*held.values()], readers, merged) if kind == "fitted" else score_weights(*readers)
        row: dict[str, Any] = {
            "model": model,
            "readers": " + ".join(names),
            "fitted_to": "up directions" if merged else "classes and up directions",
            "weights": kind,
            "of_upright": " ".join(f"{value:.2f}" for value in weights.upright),
            "of_classes": " ".join(f"{value:.2f}" for value in weights.classes),
            "clouds": len(held[""].labels) // 2,
        }
        for source in ("", "scanned_"):
            row |= {f"{source}{one}_{what}": "" for one in ("whole", "views") for what in MEASURED}
        measured = {source: measure(readings, weights, readers) for source, readings in held.items()}
        for fold in range(FOLDS) if kind == "fitted" else ():
            others = fit([one.select(one.shapes % FOLDS != fold) for one in held.values()], readers, merged)
            for source, readings in held.items():
                here = readings.shapes % FOLDS == fold
                measured[source][here] = measure(readings.select(here), others, readers)
        for source, readings in held.items():
            for one, is_view in (("whole", False), ("views", True)):
                means = measured[source][readings.is_view == is_view].mean(0).tolist()
                row |= {f"{source}{one}_{what}": f"{mean:.4f}" for what, mean in zip(MEASURED, means, strict=True)}
                if merged:
                    row[f"{source}{one}_accuracy"] = ""
        rows.append(row)
    return rows


def measure(readings: Readings, weights: ScoreWeights, readers: tuple[bool, bool]) -> Tensor:
    """For each cloud, whether the class, the up direction, and one of three up directions are right. (N, 3)"""
    joint = readings.join(weights, readers)
    is_right = joint.logsumexp(1).argmax(1) == readings.labels
    best = joint.logsumexp(2).topk(3, 1).indices
    is_up = readings.is_up.gather(1, best)
    return torch.stack((is_right, is_up[:, 0], is_up.any(1)), 1).double()


def fit(held: Sequence[Readings], readers: tuple[bool, bool], merged: bool) -> ScoreWeights:
    """Find the weights of the greatest likelihood: of up directions, and if not merged equally of classes."""
    counts = [len(values) for values in score_weights(*readers)]
    weights = torch.full((sum(counts),), 0.5, requires_grad=True)
    optimizer = torch.optim.LBFGS([weights], max_iter=100, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimizer.zero_grad()
        given = ScoreWeights(*weights.split(counts))
        value = SHRINKAGE * weights.square().sum()
        for one in held:
            value = value - log_likelihood(one, given, readers, merged) / len(held)
        value.backward()
        return value

    optimizer.step(loss)
    return ScoreWeights(*(tuple(part.tolist()) for part in weights.detach().split(counts)))


def log_likelihood(readings: Readings, weights: ScoreWeights, readers: tuple[bool, bool], merged: bool) -> Tensor:
    """Mean log-likelihood; clouds without a correct candidate say nothing about up directions."""
    joint = readings.join(weights, readers)
    known = readings.is_up.any(1)
    if merged:
        return joint.masked_fill(~readings.is_up[..., None], -math.inf)[known].flatten(1).logsumexp(1).mean()
    of_class = joint[torch.arange(len(joint)), :, readings.labels]
    of_both = of_class.masked_fill(~readings.is_up, -math.inf)[known].logsumexp(1).sum() / len(joint)
    return 0.5 * (of_class.logsumexp(1).mean() + of_both)


def read_shapes(model: Model, dataset: Dataset, samplings: int, share: float = 0.0) -> Readings:
    """Read the shapes that training held out, or a share of those of an unlabelled dataset."""
    items = dataset.items("train")
    # As in training, where shapes without a class follow those of all classes.
    labels = [len(model.classes) if share else item.label for item in items]
    held = stratified_split(labels, share or model.setting("validation"), seed=0)[1]
    found = []
    for place, number in enumerate(track(held, transient=True)):
        shape, generator = items[number].load(), torch.Generator().manual_seed(derive_seed(number))
        for _ in range(samplings):
            clouds = sample_points(shape, model.config.points, generator), sample_view(shape, generator).cloud
            for is_view, cloud in enumerate(clouds):
                readings = read(model, cloud, generator)
                label = -1 if share else items[number].label
                found.append((*readings, torch.tensor(label), torch.tensor(place), torch.tensor(bool(is_view))))
    return Readings(*(torch.stack(values) for values in zip(*found, strict=True)))


def read(model: Model, cloud: PointCloud, generator: torch.Generator) -> tuple[Tensor, ...]:
    """Read a cloud in a random pose: the first four fields of `Readings`, of one cloud."""
    q = random_quaternion((), generator, dtype=torch.float64)
    points = OrientedPoints.stack([prepare(PointCloud(cloud.points.double()).rotated(q), model.config)])
    network = model.network
    assert isinstance(network, UprightNet)
    poses = points.candidates[0][points.candidates[0].any(-1)]
    with torch.inference_mode():
        found = network.read_candidates(*positions_and_normals(points), poses)
    count, most = len(found.upright), network.config.read
    is_up = rotate(found.poses[:count], UP) @ rotate(q.float(), UP) > math.cos(math.radians(10))
    upright = torch.zeros(most, 3)
    classes = torch.zeros(most, len(model.classes), 3)
    upright[:count] = found.upright
    classes[:count, :, : found.classes.shape[-1]] = found.classes
    there = torch.arange(most) < count
    return upright, classes, there, torch.nn.functional.pad(is_up, (0, most - count))


if __name__ == "__main__":
    main()
