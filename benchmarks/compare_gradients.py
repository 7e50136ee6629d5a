"""Which routing iterations should carry gradients? Small trainings on procedural shapes, both ways, several seeds.

python -m benchmarks.compare_gradients        # writes results/gradients.csv

The test shapes are other pieces of furniture than the training ones; both are upright, frames are centred ones.
"""

import csv
import statistics
import time
from typing import Any

import torch
from benchmarks.measure import RESULTS
from rich.progress import track
from torch import Tensor

from qecnet.datasets import make_furniture
from qecnet.geometry import OrientedPoints, PrepareConfig, prepare
from qecnet.nn import Gradients, QECConfig, QECNet, spread_loss

FRAMES = PrepareConfig(points=2000, frames=256, method="centred")
EPOCHS, BATCH, SEEDS, PER_CLASS = 12, 8, 3, 30


def load(split: str) -> tuple[OrientedPoints, Tensor]:
    items = make_furniture(PER_CLASS, seed=0).items(split)
    prepared = []
    for number, item in enumerate(track(items, f"frames of {split}")):
        generator = torch.Generator().manual_seed(number)
        prepared.append(prepare(item.load_cloud(FRAMES.points, generator=generator), FRAMES, generator))
    return OrientedPoints.stack(prepared), torch.tensor([item.label for item in items])


def train(gradients: Gradients, seed: int, data: dict[str, tuple[OrientedPoints, Tensor]]) -> dict[str, Any]:
    torch.manual_seed(seed)
    network = QECNet(QECConfig(classes=10, frames=256, patches=32, capsules=32, gradients=gradients)).eval()
    optimizer = torch.optim.Adam(network.parameters(), 5e-3)
    generator = torch.Generator().manual_seed(seed)
    points, labels = data["train"]
    start = time.perf_counter()
    for _ in range(EPOCHS):
        for index in torch.randperm(len(labels), generator=generator).split(BATCH):
            optimizer.zero_grad()
            spread_loss(network(points.select(index)).activations, labels[index], margin=0.5).backward()
            optimizer.step()
    seconds = time.perf_counter() - start
    points, labels = data["test"]
    with torch.inference_mode():
        correct = network(points).label == labels
    return {
        "gradients": gradients,
        "seed": seed,
        "epochs": EPOCHS,
        "test accuracy %": round(100 * float(correct.float().mean()), 1),
        "seconds an epoch": round(seconds / EPOCHS, 2),
    }


def main() -> None:
    data = {split: load(split) for split in ("train", "test")}
    rows = [train(gradients, seed, data) for gradients in ("last", "all") for seed in range(SEEDS)]
    with (RESULTS / "gradients.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    for gradients in ("last", "all"):
        found = [row for row in rows if row["gradients"] == gradients]
        accuracy = [row["test accuracy %"] for row in found]
        seconds = statistics.mean(row["seconds an epoch"] for row in found)
        spread = statistics.stdev(accuracy)
        print(f"{gradients}: {statistics.mean(accuracy):.1f} ± {spread:.1f} % after {EPOCHS} epochs of {seconds:.1f} s")


if __name__ == "__main__":
    main()
