"""The network to compare with: the paper's "Var.", its network without canonicalisation, trained on upright shapes of
ModelNet10 only. Its kernels see coordinates as they are. Its run is in results/modelnet10-var.
"""

from __future__ import annotations

from pathlib import Path

from qecnet.models import Model, load

_WEIGHTS = Path(__file__).parent / "weights" / "var.safetensors"


def load_comparison() -> Model:
    return load(_WEIGHTS)
