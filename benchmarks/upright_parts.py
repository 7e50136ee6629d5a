"""What each part of the network that verifies candidates adds: an ablation of trained weights.

    python -m benchmarks.upright_parts MODEL --modelnet40 FOLDER [--shapes 600]

Test shapes of ModelNet40 in random poses (strict protocol), as in benchmarks.upright. One row for each part
(results/upright_parts.csv): the share of shapes whose up direction is within 5° and 10°, its median error, and the
accuracy of models with classes.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import torch
from benchmarks.candidates import UP, choose, rotated_cloud
from benchmarks.measure import RESULTS
from benchmarks.upright import label_of, off, write_rows
from rich.progress import track
from torch import Tensor

import qecnet
from qecnet.algebra import rotate
from qecnet.datasets import Item, open_dataset
from qecnet.geometry import OrientedPoints, PointCloud, prepare
from qecnet.models import Model
from qecnet.nn import UprightNet
from qecnet.nn.joint import join_scores, score_weights
from qecnet.nn.upright import positions_and_normals

PARTS = (
    ("and a reader of the best", False, False),
    ("and a reader of projections", True, False),
    ("and an invariant reader", True, True),
)
"""Names of rows, and whether projections and an invariant reader are read."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="name of a shipped model, or weights, of the network upright")
    parser.add_argument("--modelnet40", type=Path, required=True, help="folder of meshes, CLASS/test/NAME")
    parser.add_argument("--shapes", type=int, default=600, help="shapes, chosen at random")
    parser.add_argument("--out", type=Path, default=RESULTS / "upright_parts.csv", help="where to write the rows")
    given = parser.parse_args()
    model = qecnet.load(given.model)
    items = choose(open_dataset("modelnet40", given.modelnet40).items("test"), given.shapes)
    found: dict[str, list[tuple[float, float]]] = {}
    for number, item in enumerate(track(items, transient=True)):
        for part, angle, correct in measure(model, item, number):
            found.setdefault(part, []).append((angle, correct))
    rows = [row(model.name, part, torch.tensor(values)) for part, values in found.items()]
    write_rows(given.out, rows)
    for one in rows:
        print(one)


def row(model: str, part: str, values: Tensor) -> dict[str, str]:
    """Of (N, 2) angles in degrees and whether the class is right, not a number where there is none."""
    angles, correct = values.T
    shares = {"within_5": (angles < 5).float().mean(), "within_10": (angles < 10).float().mean()}
    shares |= {"median": angles.nanmedian(), "accuracy": correct.nanmean()}
    text = {name: "" if value.isnan() else f"{value:.4f}" for name, value in shares.items()}
    return {"model": model, "part": part, "shapes": str(len(values)), **text}


def measure(model: Model, item: Item, number: int) -> Iterator[tuple[str, float, float]]:
    """For each part, the error of the up direction in degrees, and whether the class is right."""
    points, rotation = rotated_cloud(item.load(), number)
    up, label = rotate(rotation.double(), UP.double()), label_of(model, item)

    def correct(scores: Tensor) -> float:
        return float(model.classes[int(scores.argmax())] == label) if label else torch.nan

    cloud = OrientedPoints.stack([prepare(PointCloud(points), model.config)])
    network = model.network
    assert isinstance(network, UprightNet)
    poses = cloud.candidates[0][cloud.candidates[0].any(-1)]
    positions, normals = positions_and_normals(cloud)
    with torch.inference_mode():
        light = network.scorer.read_one(positions, normals, poses)
        found = network.read_candidates(positions, normals, poses)
    answer, told = model.predict(points), model.predict(points, up=up)
    yield "the steadiest resting face", off(poses[0].double(), up), torch.nan
    best = light.upright.argmax()
    yield "a scorer of candidates", off(poses[best].double(), up), correct(light.scores[best])
    projections, invariant = network.config.projections, network.config.invariant
    for name, of_projections, of_invariant in PARTS:
        if (projections or not of_projections) and (invariant or not of_invariant):
            classes = found.classes[..., [True, *(of_projections,) * projections, *(of_invariant,) * invariant]]
            joint = join_scores(
                found.upright[:, : 2 + of_projections], classes, score_weights(of_projections, of_invariant)
            )
            joint = joint.flatten().softmax(0).view(joint.shape)
            first = found.poses[joint.sum(1).argmax()]
            yield name, off(first.double(), up), correct(joint.sum(0))
    yield "with snapped poses", off(answer.pose, up), correct(answer.activations)
    yield "with the true up direction", off(told.pose, up), correct(told.activations)


if __name__ == "__main__":
    main()
