"""Quaternion equivariant capsule networks: what is this 3D shape, and which way is it turned?

`qecnet.load("modelnet10").predict("scan.ply")` says it. Nothing heavy is imported before it is asked for.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from qecnet.models import Model, list_models, load

__version__ = "0.1.0"
__all__ = ["Model", "__version__", "list_models", "load"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from qecnet import models

        return getattr(models, name)
    raise AttributeError(f"module 'qecnet' has no attribute {name!r}")
