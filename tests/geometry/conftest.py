"""Where shared data is, and clouds to try things on."""

import os
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch


@pytest.fixture(scope="session")
def shared() -> Path:
    folder = Path(os.environ.get("QECNET_SHARED", Path(__file__).parents[2].parent / "shared"))
    if not folder.is_dir():
        pytest.skip(f"no shared data at {folder}; set QECNET_SHARED to the folder with goldens and modelnet")
    return folder


@pytest.fixture(scope="session")
def modelnet(shared):
    """Six ModelNet10 clouds of 10,000 points, one each of six classes, in a fixed random order; (N, 3) float64."""
    draco = pytest.importorskip("DracoPy", reason="ModelNet10 is packed with Draco; pip install DracoPy")
    path = shared / "modelnet" / "modelnet10.zip"
    if not path.is_file():
        pytest.skip(f"no packed ModelNet10 at {path}")
    clouds = []
    with zipfile.ZipFile(path) as pack:
        for name in ("bathtub", "chair", "desk", "monitor", "table", "toilet"):
            member = sorted(m for m in pack.namelist() if m.startswith(f"{name}/test/"))[3]
            points = np.asarray(draco.decode(pack.read(member)).points, np.float64)
            clouds.append(torch.from_numpy(np.random.default_rng(0).permutation(points)))
    return clouds


@pytest.fixture(params=[torch.float32, torch.float64], ids=["float32", "float64"])
def dtype(request):
    return request.param


@pytest.fixture
def bumpy():
    """A closed surface without symmetry: 2,000 points on a bumpy ellipsoid, (N, 3) float64."""
    generator = torch.Generator().manual_seed(3)
    x = torch.nn.functional.normalize(torch.randn(2000, 3, generator=generator, dtype=torch.float64), dim=-1)
    bumps = 0.1 * torch.sin(5 * x[:, :1] + 1) * torch.cos(4 * x[:, 1:2]) + 0.08 * torch.sin(3 * x[:, 2:])
    return x * (1 + bumps) * torch.tensor([1.0, 0.8, 0.6], dtype=torch.float64)
