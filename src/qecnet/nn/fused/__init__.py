"""Routing, canonicalisation and neighbourhoods as compiled operators: several times as fast on a CPU as in PyTorch.

Off unless `use_compiled_operators` switches them on. Results are those of eager mode up to float32 rounding.
"""

import subprocess
import warnings

import torch
from torch import Tensor

from ...algebra import is_exporting
from .build import library, reason
from .canonical import canonical_fused
from .edges import edges_fit, nearest_fused, pool_edges_fused
from .pooling import pool_fused
from .routed import route_fused

__all__ = [
    "canonical_fused",
    "edges_fit",
    "is_fused",
    "nearest_fused",
    "pool_edges_fused",
    "pool_fused",
    "route_fused",
    "use_compiled_operators",
]

_on = False


def use_compiled_operators(on: bool = True) -> bool:
    """Switch compiled operators on, or off with `on=False`: of QEC modules, and of the network `upright`.

    They apply to float32 on a CPU, except to gradients through all iterations (`gradients="all"`). The first call
    compiles them with the system's C++ compiler (`CXX`, c++, g++ or clang++), which takes some seconds, and keeps them
    in the user's cache folder. Where that fails, a warning says why, and networks run in PyTorch instead.

    Returns:
        Whether they are in use now.
    """
    global _on
    _on = False
    if on:
        try:
            library()
            _on = True
        except (OSError, subprocess.SubprocessError) as error:
            warnings.warn(f"operators are not compiled, and networks are slower: {reason(error)}", stacklevel=2)
    return _on


def is_fused(tensor: Tensor, differentiated: bool = False) -> bool:
    """Whether the operators are on and apply; `differentiated` says that every iteration needs its gradient."""
    return (
        _on
        and tensor.device.type == "cpu"
        and tensor.dtype == torch.float32
        and not (differentiated and torch.is_grad_enabled())
        and not is_exporting()
        and not torch.compiler.is_compiling()
    )
