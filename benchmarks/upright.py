"""How often a model finds which way is up, on shapes in random poses: first candidate, first three, candidate sets.

    python -m benchmarks.upright MODEL... --modelnet40 FOLDER --scanned-objects FOLDER [--shapes N]

Strict protocol: each shape is sampled at 10,000 points and rotated at random before anything is estimated. ModelNet40
is its test split; Google Scanned Objects are the names whose SHA-256 begins with 8 to f (NAME/model.obj, z up). Boxes
among them (`qecnet.evaluation.is_box`) are also counted apart, as the shape of a box does not show its up. One row
for each model and dataset (results/upright.csv): accuracy; the share of shapes whose up is within 5° and 10°, within
10° of up, or of down if the shape looks the same upside down (`qecnet.evaluation.looks_same_upside_down`), and within
10° for one of the first three up directions (`Answer.ups`); the median angle; the share off by more than 90°; and of
the smallest candidate sets with 90% of the probability, how often they hold the dataset's pose
(`qecnet.nn.right_poses`) and a right up, and their mean size. The same for candidate sets with other shares of the
probability is in results/upright_reliability.csv, and a plot of it for the first model in
docs/images/upright_reliability.png. Rows of other models stay in the files.
"""

import argparse
import csv
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import torch
from benchmarks.candidates import UP, choose, degrees, rotated_cloud
from benchmarks.measure import RESULTS
from rich.progress import track
from torch import Tensor

import qecnet
from qecnet.algebra import rotate, to_matrix
from qecnet.datasets import Item, open_dataset
from qecnet.evaluation import is_box, looks_same_upside_down
from qecnet.models import Candidate, Model
from qecnet.nn import right_poses

LEVELS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
PLOT = Path(__file__).parents[1] / "docs" / "images" / "upright_reliability.png"
_DATASETS = {"modelnet40": "ModelNet40, test split", "scanned_objects": "Google Scanned Objects, test half"}
_HELD = {"pose": "-", "up": ":"}  # what a candidate set is asked for, and how that is drawn
_SHARES = (
    "accuracy",
    "within_5",
    "within_10",
    "within_10_either_way",
    "first_three",
    "off_by_90",
    "set_holds_pose",
    "set_holds_up",
    "set_size",
    "milliseconds",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", help="names of shipped models, or weights")
    parser.add_argument("--modelnet40", type=Path, help="folder of meshes, CLASS/test/NAME")
    parser.add_argument("--scanned-objects", type=Path, help="folder with NAME/model.obj")
    parser.add_argument(
        "--shapes", type=int, default=10**9, help="shapes of each dataset, chosen at random; default all"
    )
    parser.add_argument("--out", type=Path, default=RESULTS / "upright.csv", help="where to write the rows")
    given = parser.parse_args()
    rows, reliability = [], []
    for name in given.models:
        model = qecnet.load(name)
        for dataset in _DATASETS:
            if folder := getattr(given, dataset):
                items = choose(open_dataset(dataset, folder).items("test"), given.shapes)
                numbered = enumerate(track(items, dataset, transient=True))
                found = [measure_one(model, item, number) for number, item in numbered]
                rows += summarize(model, dataset, items, found)
                for what in _HELD:
                    before = torch.tensor([one[f"before_{what}"] for one in found])
                    held = {f"{level}": f"{(before < level).float().mean():.4f}" for level in LEVELS}
                    about = {"model": Path(name).name, "dataset": dataset, "holds": what, "shapes": len(items)}
                    reliability.append({**about, **held})
    replace_rows(given.out, rows)
    replace_rows(given.out.with_name(f"{given.out.stem}_reliability.csv"), reliability)
    plot_reliability(reliability, PLOT)


def replace_rows(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows in front of those of other models that the file has."""
    found: list[Mapping[str, Any]] = []
    if path.exists():
        with path.open(newline="", encoding="utf-8") as file:
            found = [*csv.DictReader(file)]
    measured = {row["model"] for row in rows}
    write_rows(path, [*rows, *(row for row in found if row["model"] not in measured)])


def write_rows(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows with the same fields as CSV."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def plot_reliability(rows: list[dict[str, Any]], path: Path) -> None:
    """Of the first model, the share of shapes whose candidate set is right, against the set's probability."""
    figure, panel = plt.subplots(figsize=(5, 4), layout="constrained")
    panel.plot((0, 1), (0, 1), color="grey", linewidth=1, linestyle=":", label="perfectly calibrated")
    for row in rows:
        if row["model"] != rows[0]["model"]:
            continue
        label = f"{row['model']}, {_DATASETS[row['dataset']]}" if row["holds"] == "pose" else None
        held, colour = [float(row[f"{level}"]) for level in LEVELS], f"C{[*_DATASETS].index(row['dataset'])}"
        panel.plot(LEVELS, held, _HELD[row["holds"]], color=colour, marker="o", markersize=4, label=label)
    panel.plot((), (), _HELD["pose"], color="black", label="the set holds the dataset's pose")
    panel.plot((), (), _HELD["up"], color="black", label="the set holds a right up (10°)")
    panel.set(xlabel="probability of the candidate set", ylabel="share of shapes")
    panel.set(xlim=(0, 1), ylim=(0, 1.01))
    panel.legend(loc="lower right", fontsize=8)
    figure.savefig(path, dpi=130)


def summarize(model: Model, dataset: str, items: list[Item], found: list[dict[str, float]]) -> list[dict[str, Any]]:
    """Rows for all shapes of a dataset and, of scanned objects, for boxes and the rest apart."""
    parts = {"all": [True] * len(items)}
    if dataset == "scanned_objects":
        boxes = [is_box(item.load()) for item in items]
        parts |= {"boxes": boxes, "not boxes": [not box for box in boxes]}
    rows = []
    for part, chosen in parts.items():
        some = [one for one, keep in zip(found, chosen, strict=True) if keep]
        if some:
            means = {key: mean([one[key] for one in some]) for key in some[0] if key in _SHARES}
            median = f"{torch.tensor([one['angle'] for one in some]).median():.2f}"
            rows.append(
                {
                    "model": Path(model.name).name,
                    "dataset": dataset,
                    "part": part,
                    "shapes": len(some),
                    "median": median,
                    **means,
                }
            )
            print(rows[-1])
    return rows


def mean(values: list[float]) -> str:
    """Of those that say anything; empty where none does."""
    found = torch.tensor(values).nanmean()
    return "" if found.isnan() else f"{found:.4f}"


def measure_one(model: Model, item: Item, number: int) -> dict[str, float]:
    """What an answer for one shape in a random pose is worth."""
    shape = item.load()
    points, rotation = rotated_cloud(shape, number)
    try:
        answer = model.predict(points)
    except ValueError as error:
        print(f"{item.name}: no answer ({error})")
        return {**dict.fromkeys(_SHARES, 0.0), "off_by_90": 1.0, "angle": 180.0, "before_pose": 1.0, "before_up": 1.0}
    up = rotate(rotation.double(), UP.double())
    angle = off(answer.pose, up)
    held, candidates = answer.likely_candidates(), answer.candidates
    poses, is_open = (
        torch.stack([one.pose for one in candidates]),
        torch.tensor([one.any_azimuth for one in candidates]),
    )
    right = right_poses(poses, rotation.double(), is_open).tolist()
    right_up = [off(one.pose, up) < 10 for one in candidates]
    return {
        "accuracy": float(answer.label == label) if (label := label_of(model, item)) else math.nan,
        "within_5": float(angle < 5),
        "within_10": float(angle < 10),
        "within_10_either_way": float(angle < 10 or (angle > 170 and looks_same_upside_down(shape))),
        "first_three": float(any(degrees(one.direction, up) < 10 for one in answer.ups[:3])),
        "off_by_90": float(angle > 90),
        "set_holds_pose": float(any(right[: len(held)])),
        "set_holds_up": float(any(right_up[: len(held)])),
        "set_size": float(len(held)),
        "milliseconds": answer.milliseconds,
        "angle": angle,
        "before_pose": before_right(candidates, right),
        "before_up": before_right(candidates, right_up),
    }


def before_right(candidates: Sequence[Candidate], right: Sequence[bool]) -> float:
    """The probability of all candidates before the first one that is right; 1 where none is."""
    total = 0.0
    for candidate, is_right in zip(candidates, right, strict=True):
        if is_right:
            return total
        total += candidate.probability
    return 1.0


def label_of(model: Model, item: Item) -> str:
    """The class of a shape of ModelNet40, from its name; none where the model does not know it."""
    return next((name for name in model.classes if item.name.startswith(f"{name}_") or f"/{name}_" in item.name), "")


def off(pose: Tensor, up: Tensor) -> float:
    """Degrees between a pose's z axis and an up direction."""
    return float(degrees(to_matrix(pose)[:, 2], up))


if __name__ == "__main__":
    main()
