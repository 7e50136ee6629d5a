"""Every law of the algebra is tested in float32 and in float64."""

import pytest
import torch
from torch import Tensor

from qecnet.algebra import from_rotvec, random_quaternion


@pytest.fixture(params=[torch.float32, torch.float64], ids=["float32", "float64"])
def dtype(request: pytest.FixtureRequest) -> torch.dtype:
    return request.param


@pytest.fixture
def tolerance(dtype: torch.dtype) -> float:
    return {torch.float32: 5e-6, torch.float64: 1e-13}[dtype]


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


@pytest.fixture
def rotations(dtype: torch.dtype, generator: torch.Generator) -> Tensor:
    """Random rotations and hard ones: identity, tiny, quarter, half and nearly half turns, minus identity."""
    turns = torch.eye(3, dtype=torch.float64) * torch.pi
    hard = torch.cat([from_rotvec(turns * s) for s in (0, 1e-9, 1e-4, 0.5, 1 - 1e-6, 1, -1, 2)])
    drawn = random_quaternion(64, generator, dtype=torch.float64)
    return torch.cat((hard, drawn, torch.eye(4, dtype=torch.float64), -torch.eye(4, dtype=torch.float64))).to(dtype)
