"""The most confident wrong up directions, as a picture to look at, and all wrong ones as a table.

    python -m benchmarks.upright_failures [MODEL] --modelnet40 FOLDER --scanned-objects FOLDER [--shapes N]

Shapes and poses are those of `benchmarks.upright`. An up direction is wrong if it is off by more than 10°. The picture
(docs/images/upright_failures.png) shows the 40 wrong ones with the highest confidence, each shape upright by the
model, with an arrow along its true up. The table (results/upright_failures.csv) has a row for each wrong one, the most
confident first. Needs qecnet[plot].
"""

import argparse
import csv
from pathlib import Path
from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import torch
from benchmarks.candidates import UP, choose, rotated_cloud
from benchmarks.measure import RESULTS
from benchmarks.upright import off
from matplotlib.axes import Axes
from PIL import Image
from rich.progress import track

import qecnet
from qecnet.algebra import conjugate, rotate
from qecnet.datasets import Item, open_dataset
from qecnet.models import Model

_WRONG = 10.0  # degrees
_ROWS, _COLUMNS = 5, 8
_POINTS = 1500  # drawn of each shape
_TITLES = {"modelnet40": "ModelNet40", "scanned_objects": "scanned"}
PICTURE = Path(__file__).parents[1] / "docs" / "images" / "upright_failures.png"


class Wrong(NamedTuple):
    """A shape whose up direction is wrong.

    Attributes:
        confidence: the probability that the up direction is right within 10°.
        degrees: how far off it is.
        points: (N, 3), upright by the model, and up: (3,), the true one there.
    """

    dataset: str
    name: str
    confidence: float
    degrees: float
    points: torch.Tensor
    up: torch.Tensor


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", default="upright", help="name of a shipped model, or weights")
    parser.add_argument("--modelnet40", type=Path, help="folder of meshes, CLASS/test/NAME")
    parser.add_argument("--scanned-objects", type=Path, help="folder with NAME/model.obj")
    parser.add_argument("--shapes", type=int, default=10**9, help="shapes of each dataset, chosen at random")
    given = parser.parse_args()
    model, found = qecnet.load(given.model), []
    for dataset in _TITLES:
        if folder := getattr(given, dataset):
            items = choose(open_dataset(dataset, folder).items("test"), given.shapes)
            wrong = find_wrong(model, dataset, items)
            kinds = [sum(low <= one.degrees < high for one in wrong) for low, high in ((170, 181), (80, 100))]
            print(f"{dataset}: {len(wrong)} of {len(items)} wrong; {kinds[0]} upside down, {kinds[1]} on a side")
            found += wrong
    found.sort(key=lambda one: (-one.confidence, -one.degrees))
    with (RESULTS / "upright_failures.csv").open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(("dataset", "name", "confidence", "degrees"))
        table.writerows((one.dataset, one.name, f"{one.confidence:.4f}", f"{one.degrees:.1f}") for one in found)
    draw(found[: _ROWS * _COLUMNS], PICTURE)


def find_wrong(model: Model, dataset: str, items: list[Item]) -> list[Wrong]:
    """The shapes of a dataset whose up direction is wrong."""
    found = []
    for number, item in enumerate(track(items, dataset, transient=True)):
        points, rotation = rotated_cloud(item.load(), number)
        answer = model.predict(points)
        up = rotate(rotation.double(), UP.double())
        if (degrees := off(answer.pose, up)) > _WRONG:
            back = conjugate(answer.pose)
            some = rotate(back, points[:: max(1, len(points) // _POINTS)].double())
            found.append(Wrong(dataset, item.name, answer.up_confidence, degrees, some, rotate(back, up)))
    return found


def draw(wrong: list[Wrong], path: Path) -> None:
    """Write the picture, with few enough colours to be small."""
    figure, grid = plt.subplots(_ROWS, _COLUMNS, figsize=(1.5 * _COLUMNS, 1.75 * _ROWS), dpi=100)
    for axes in grid.flat:
        axes.set_axis_off()
    for axes, one in zip(grid.flat, wrong, strict=False):
        draw_one(axes, one)
    figure.tight_layout(pad=0.3, h_pad=0.6)
    figure.savefig(path)
    plt.close(figure)
    Image.open(path).convert("RGB").quantize(48).save(path, optimize=True)


def draw_one(axes: Axes, one: Wrong) -> None:
    """A shape as seen from the front, the right and above, and its true up."""
    ahead = np.array([-0.5, 0.78, -0.37]) / np.linalg.norm([-0.5, 0.78, -0.37])
    right = np.cross(ahead, [0, 0, 1])
    right /= np.linalg.norm(right)
    image = np.stack([right, np.cross(right, ahead)], axis=1)
    points = one.points.numpy()
    points = points[np.argsort(-points @ ahead)]  # the nearest are drawn last
    x, y = (points @ image).T
    axes.scatter(x, y, s=1.6, c=points[:, 2], cmap="viridis", linewidths=0)
    axes.annotate(
        "", 1.1 * one.up.numpy() @ image, (0, 0), arrowprops={"arrowstyle": "-|>", "color": "crimson", "lw": 1.6}
    )
    axes.set(xlim=(-1.15, 1.15), ylim=(-1.15, 1.15), aspect="equal")
    name = one.name.rpartition("/")[2].removesuffix(".off").removesuffix(".ply").replace("_", " ")
    name = name if len(name) <= 22 else f"{name[:21]}…"
    axes.set_title(f"{name}\n{one.confidence:.2f}, off by {one.degrees:.0f}°", fontsize=6.5, pad=1)


if __name__ == "__main__":
    main()
