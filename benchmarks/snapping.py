"""What snapping does to the poses of capsules with features: error of the up direction before and after.

    python -m benchmarks.snapping --modelnet40 FOLDER --modelnet10 modelnet10.zip [--shapes 300]

Shapes of the test split, each rotated at random (strict protocol), 10,000 points. Normals are those of 1,024 farthest
points. "nearest candidate" is the candidate pose whose up direction is nearest to that of the network's pose. One row
for each model and method (results/snapping.csv): the shares with up within 5° and 10° and off by more than 90°, and the
median error.
"""

import argparse
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.candidates import UP, choose, degrees, describe, rotated_cloud, write
from benchmarks.measure import RESULTS
from rich.progress import track

import qecnet
from qecnet.algebra import rotate
from qecnet.datasets import Item, open_dataset
from qecnet.geometry import PointCloud, propose_poses, snap_pose


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--modelnet40", type=Path)
    parser.add_argument("--modelnet10", type=Path)
    parser.add_argument("--shapes", type=int, default=300, help="shapes of each, chosen at random")
    given = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for name in ("modelnet40", "modelnet10"):
        if data := getattr(given, name):
            rows += measure(f"{name}-features", choose(open_dataset(name, data).items("test"), given.shapes))
    write("snapping.csv", rows)


def measure(name: str, items: list[Item]) -> list[dict[str, Any]]:
    model = qecnet.load(RESULTS / name)
    errors: dict[str, list[float]] = defaultdict(list)
    for number, item in enumerate(track(items, name)):
        points, rotation = rotated_cloud(item.load(), number)
        try:
            pose = model.predict(PointCloud(points, name=item.name)).pose.float()
        except ValueError as error:
            print(f"left out: {error}")
            continue
        positions, normals, weights = describe(points)
        proposed, valid = propose_poses(positions, normals, weights)
        ups = rotate(proposed[valid], UP)
        for method, up in (
            ("network", rotate(pose, UP)),
            ("snapped", rotate(snap_pose(pose, normals, weights), UP)),
            ("nearest candidate", ups[(ups @ rotate(pose, UP)).argmax()]),
        ):
            errors[method].append(float(degrees(up, rotate(rotation, UP))))
    rows = []
    for method, values in errors.items():
        angles = np.array(values)
        shares = {
            "within_5": (angles <= 5).mean(),
            "within_10": (angles <= 10).mean(),
            "over_90": (angles > 90).mean(),
        }
        rows.append(
            {
                "model": name,
                "pose": method,
                "shapes": len(values),
                **{key: f"{share:.3f}" for key, share in shares.items()},
                "median_degrees": f"{np.median(angles):.2f}",
            }
        )
    return rows


if __name__ == "__main__":
    main()
