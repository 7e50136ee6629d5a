"""A network so small that it answers at once."""

from pathlib import Path

import pytest
import torch

import qecnet
from qecnet.models import Model
from qecnet.nn import QECConfig, QECNet, save_network

SETTINGS = {"points": 400, "frames": 64, "method": "centred"}
SIZES = QECConfig(3, frames=64, patches=8, neighbours=4, capsules=4)


@pytest.fixture
def weights(tmp_path) -> Path:
    torch.manual_seed(0)
    path = tmp_path / "weights.safetensors"
    save_network(path, QECNet(SIZES), ["bed", "chair", "desk"], {"settings": SETTINGS, "temperature": 0.5})
    return path


@pytest.fixture
def small_model(weights) -> Model:
    return qecnet.load(weights)
