"""The network to compare with: PointNet, which sees absolute coordinates, trained on upright ModelNet10 shapes only.

It was taken because people know it, and because it names upright shapes well. It is another architecture, not the
paper's "Var.", which is the paper's network without canonicalisation: what differs is more than equivariance. Its run
is in results/modelnet10-pointnet-viewer.
"""

from __future__ import annotations

from pathlib import Path

from qecnet.nn import Network, load_network

_WEIGHTS = Path(__file__).parent / "weights" / "pointnet.safetensors"


def load_comparison() -> tuple[Network, list[str]]:
    """The network and the names of its classes."""
    network, classes, _ = load_network(_WEIGHTS)
    return network, classes
