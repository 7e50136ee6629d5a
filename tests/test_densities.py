"""benchmarks/densities.py counts the points that clouds really have."""

import importlib
from pathlib import Path

import torch

from qecnet.datasets import open_dataset
from qecnet.formats import write
from qecnet.geometry import PointCloud, PrepareConfig


def test_points_are_those_of_the_clouds_and_not_those_of_the_settings(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "benchmarks")
    densities = importlib.import_module("densities")
    for number in range(3):
        path = tmp_path / "mug" / "train" / f"{number}.npy"
        path.parent.mkdir(parents=True, exist_ok=True)
        write(path, PointCloud(torch.rand(2048, 3, generator=torch.Generator().manual_seed(number))))
    items = open_dataset("mugs", tmp_path).items("train")
    assert densities.count_points(items, PrepareConfig()) == [1638, 819, 410, 205]
