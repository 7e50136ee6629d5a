"""Routing, canonicalisation, neighbourhoods and projections as compiled operators: faster on a CPU than PyTorch.

Results are those of PyTorch up to float32 rounding. `qecnet.compiled` switches them on and off.
"""

import torch
from torch import Tensor

from ...algebra import is_exporting
from ...compiled import is_compiled
from .canonical import canonical_fused
from .clouds import draw_projections_fused, edges_fit, nearest_fused, pool_edges_fused, pool_fused
from .routed import route_fused

__all__ = [
    "canonical_fused",
    "draw_projections_fused",
    "edges_fit",
    "is_fused",
    "nearest_fused",
    "pool_edges_fused",
    "pool_fused",
    "route_fused",
]


def is_fused(*tensors: Tensor, differentiated: bool = False) -> bool:
    """Whether the operators are on and apply; `differentiated` says that every iteration needs its gradient."""
    return (
        all(x.device.type == "cpu" and x.dtype == torch.float32 and x.numel() > 0 for x in tensors)
        and not (differentiated and torch.is_grad_enabled())
        and not is_exporting()
        and not torch.compiler.is_compiling()
        and is_compiled()
    )
