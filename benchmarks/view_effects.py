"""How what a depth camera does to a scan changes predictions: noise, sparse pixels, the floor, several cameras.

    python -m benchmarks.view_effects --data modelnet10.zip [--model NAME] [--shapes 200]

Test shapes of ModelNet10, chosen at random, each in a random pose. All rows (results/view_effects.csv) show a shape
from the same first camera and in the same pose; only the named setting of `qecnet.datasets.ViewConfig` differs:

- visible: the mean share of the surface that cameras see
- accuracy, and the share of views whose up direction is within 10°
- pose15: the share whose orientation is within 15°, up to the symmetry of the class
- set_holds_pose: how often the smallest set of candidates with 90% of the probability holds the pose
"""

import argparse
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from benchmarks.candidates import UP, choose, write
from rich.progress import track
from torch import Tensor

import qecnet
from qecnet import DEFAULT_MODEL
from qecnet.algebra import random_quaternion, rotate
from qecnet.datasets import ViewConfig, derive_seed, open_dataset, sample_view, symmetry_of
from qecnet.evaluation import symmetric_distance
from qecnet.geometry import PointCloud
from qecnet.models import Model
from qecnet.nn import right_poses

EFFECTS = {
    "as trained on, without a floor": ViewConfig(),
    "no noise, no lost pixels": ViewConfig(noise=0, grazing=0),
    "depth noise × 4": ViewConfig(noise=0.002),
    "depth noise × 16": ViewConfig(noise=0.008),
    "64 pixels across": ViewConfig(pixels=64),
    "32 pixels across": ViewConfig(pixels=32),
    "a piece of the floor": ViewConfig(floor=1),
    "two cameras": ViewConfig(cameras=(2, 2)),
    "three cameras": ViewConfig(cameras=(3, 3)),
}
_IDENTITY = torch.tensor([1.0, 0, 0, 0], dtype=torch.float64)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="ModelNet10")
    parser.add_argument("--model", default=DEFAULT_MODEL)
    parser.add_argument("--shapes", type=int, default=200, help="shapes, chosen at random")
    given = parser.parse_args()
    model, dataset = qecnet.load(given.model), open_dataset("modelnet10", given.data)
    found: dict[str, list[dict[str, float]]] = defaultdict(list)
    for number, item in enumerate(track(choose(dataset.items("test"), given.shapes))):
        shape, label = item.load(), dataset.classes[item.label]
        q = random_quaternion((), derive_seed(number, 1), dtype=torch.float64)
        for effect, config in EFFECTS.items():
            view = sample_view(shape, torch.Generator().manual_seed(derive_seed(number)), config)
            cloud = replace(view.cloud, normals=None).rotated(q)
            found[effect].append({"visible": view.visible, **measure(model, cloud, q, label)})
    rows: list[dict[str, Any]] = []
    for effect, values in found.items():
        means = {name: sum(one[name] for one in values) / len(values) for name in values[0]}
        rows.append(
            {"model": given.model, "view": effect, "shapes": len(values)}
            | {name: f"{mean:.4f}" for name, mean in means.items()}
        )
    write("view_effects.csv", rows)


def measure(model: Model, cloud: PointCloud, rotation: Tensor, label: str) -> dict[str, float]:
    """What the prediction for a rotated view is worth."""
    answer = model.predict(cloud)
    held = answer.likely_candidates()
    poses, is_open = torch.stack([one.pose for one in held]), torch.tensor([one.any_azimuth for one in held])
    angle = symmetric_distance(answer.pose, _IDENTITY, rotation, symmetry_of(label))
    up = float((rotate(answer.pose, UP.double()) @ rotate(rotation, UP.double())).clamp(-1, 1).arccos().rad2deg())
    return {
        "accuracy": float(answer.label == label),
        "up10": float(up <= 10),
        "pose15": float(torch.as_tensor(angle).rad2deg() <= 15),
        "set_holds_pose": float(right_poses(poses, rotation, is_open).any()),
    }


if __name__ == "__main__":
    main()
