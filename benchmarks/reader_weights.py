"""How a network that verifies candidates should weigh its readers, on training shapes that it held out.

    python -m benchmarks.reader_weights MODEL --data PATH [--samplings 3]

Each held-out shape is sampled anew and rotated at random several times, whole and as one camera sees it. One row for
each choice that the network has readers for (results/reader_weights.csv; rows of other weights stay): how many
candidates are read; the weights of the class scores of the reader, of projections and of the invariant reader, and of
how clearly a class is recognised from a candidate. Then, for whole shapes and for views: the accuracy, and the shares
of clouds whose up direction is within 10°, and is so for one of the three likeliest candidates.
"""

import argparse
import math
from pathlib import Path
from typing import Any

import torch
from benchmarks.candidates import UP
from benchmarks.measure import RESULTS
from benchmarks.upright import replace_rows
from rich.progress import track
from torch import Tensor

import qecnet
from qecnet.algebra import random_quaternion, rotate, to_matrix
from qecnet.datasets import derive_seed, open_dataset, sample_view, stratified_split
from qecnet.geometry import OrientedPoints, PointCloud, prepare, sample_points
from qecnet.models import Model
from qecnet.nn import UprightNet

CHOICES = (
    (3, 0.3, 0.6, 0.6, 1.0),
    (3, 0.3, 0.6, 0.6, 2.0),
    (6, 0.3, 0.6, 0.6, 0.0),
    (6, 0.3, 0.6, 0.6, 1.0),
    (6, 0.3, 0.6, 0.6, 2.0),
    (6, 0.3, 0.6, 0.6, 3.0),
    (10, 0.3, 0.6, 0.6, 2.0),
    (6, 1.0, 1.0, 1.0, 1.0),
    (6, 0.6, 0.6, 0.6, 2.0),
    (6, 0.0, 0.6, 0.6, 2.0),
    (6, 0.3, 0.8, 0.4, 2.0),
    (6, 0.3, 0.4, 0.8, 2.0),
    (6, 0.3, 0.0, 0.6, 2.0),
    (3, 0.3, 0.6, 0.0, 2.0),
    (6, 0.3, 0.6, 0.0, 0.0),
    (6, 0.3, 0.6, 0.0, 1.0),
    (6, 0.3, 0.6, 0.0, 2.0),
    (6, 0.3, 0.6, 0.0, 3.0),
    (6, 0.0, 0.6, 0.0, 2.0),
    (6, 0.6, 0.6, 0.0, 2.0),
    (6, 0.3, 1.0, 0.0, 2.0),
)
"""Candidates that are read; weights of the classes by reader, projections and invariant reader, and of recognition."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="name of a shipped model, or weights, of the network upright with projections")
    parser.add_argument("--data", type=Path, required=True, help="the dataset that it was trained on")
    parser.add_argument("--samplings", type=int, default=3, help="samplings of each shape")
    given = parser.parse_args()
    model = qecnet.load(given.model)
    items = open_dataset(model.setting("dataset"), given.data).items("train")
    held = stratified_split([item.label for item in items], model.setting("validation"), seed=0)[1]
    found: dict[tuple[int, str], list[Tensor]] = {}
    for number in track(held):
        shape, generator = items[number].load(), torch.Generator().manual_seed(derive_seed(number))
        for _ in range(given.samplings):
            clouds = sample_points(shape, model.config.points, generator), sample_view(shape, generator).cloud
            for kind, cloud in zip(("whole", "views"), clouds, strict=True):
                for row, result in enumerate(measure(model, cloud, items[number].label, generator)):
                    found.setdefault((row, kind), []).append(result)
    network = model.network
    assert isinstance(network, UprightNet)
    there = [row for row, choice in enumerate(CHOICES) if network.invariant is not None or not choice[3]]
    path = Path(model.name)
    name = path.parent.name if path.suffix else path.name
    replace_rows(RESULTS / "reader_weights.csv", [describe(name, row, found) for row in there])


def describe(model: str, row: int, found: dict[tuple[int, str], list[Tensor]]) -> dict[str, Any]:
    """A row of the table."""
    names = "read", "reader", "projections", "invariant", "recognition"
    choice = dict(zip(names, CHOICES[row], strict=True))
    shares: dict[str, Any] = {}
    for kind in ("whole", "views"):
        means = torch.stack(found[row, kind]).double().mean(0).tolist()
        for name, mean in zip(("accuracy", "up", "first_three"), means, strict=True):
            shares[f"{kind}_{name}"] = f"{mean:.4f}"
    return {"model": model, "clouds": len(found[row, "whole"]), **choice, **shares}


def measure(model: Model, cloud: PointCloud, label: int, generator: torch.Generator) -> Tensor:
    """For each choice, whether class, up direction and one of three up directions are right. (choices, 3)"""
    q = random_quaternion((), generator, dtype=torch.float64)
    points = OrientedPoints.stack([prepare(PointCloud(cloud.points.double()).rotated(q), model.config)])
    network = model.network
    assert isinstance(network, UprightNet)
    assert network.projections is not None
    positions, normals = points.positions, to_matrix(points.frames)[..., 2] * points.valid[..., None]
    poses = points.candidates[0][points.candidates[0].any(-1)]
    with torch.inference_mode():
        scored = network.scorer.read_one(positions, normals, poses)
        order, most = network.rank(scored.upright, max(read for read, *_ in CHOICES))
        poses, shares = poses[order], scored.upright.softmax(0)[order]
        reading = network.reader.read_one(positions, normals, poses[:most])
        facing = network.face(poses[:most], reading.harmonics, normals[0])
        further_upright, projected, *_ = network.read_projections(positions, normals, *facing)
        invariant = 0.0 if network.invariant is None else network.invariant(positions, normals)
    upright = 0.5 * (reading.upright + scored.upright[order[:most]] + further_upright)
    is_up = rotate(poses, UP) @ rotate(q.float(), UP) > math.cos(math.radians(10))
    results = []
    for read, of_reader, of_projections, of_invariant, recognition in CHOICES:
        seen = (of_reader * reading.scores + of_projections * projected)[:read]
        among = (upright[:read] + recognition * seen.log_softmax(-1).amax(-1)).softmax(0)
        joint = among[:, None] * (seen + of_invariant * invariant).softmax(-1)
        chosen = int(joint.sum(0).argmax())
        likely = torch.cat((among * shares[: len(among)].sum(), shares[len(among) :])).topk(min(3, len(shares))).indices
        results.append(
            torch.tensor([chosen == label, bool(is_up[joint[:, chosen].argmax()]), bool(is_up[likely].any())])
        )
    return torch.stack(results)


if __name__ == "__main__":
    main()
