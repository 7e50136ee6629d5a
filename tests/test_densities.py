"""benchmarks/densities.py counts the points that clouds really have."""

import torch
from benchmarks.densities import count_points

from qecnet.datasets import open_dataset
from qecnet.formats import write
from qecnet.geometry import PointCloud, PrepareConfig


def test_points_count_the_clouds_not_the_settings(tmp_path):
    for number in range(3):
        path = tmp_path / "mug" / "train" / f"{number}.npy"
        path.parent.mkdir(parents=True, exist_ok=True)
        write(path, PointCloud(torch.rand(2048, 3, generator=torch.Generator().manual_seed(number))))
    items = open_dataset("mugs", tmp_path).items("train")
    assert count_points(items, PrepareConfig()) == [1638, 819, 410, 205]
