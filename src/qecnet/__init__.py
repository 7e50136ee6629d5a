"""Quaternion equivariant capsule networks: classify a 3D shape in any pose and estimate its orientation.

Example:
    >>> answer = qecnet.load("modelnet10").predict("scan.ply")
    >>> answer.label, answer.confidence, answer.pose

`import qecnet` is fast: torch is imported with the first use of a model.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from qecnet.models import Model, list_models, load

__version__ = "0.3.0"
__all__ = ["DEFAULT_MODEL", "Model", "__version__", "list_models", "load"]

DEFAULT_MODEL = "modelnet10"
"""The model that commands use unless another one is named."""


def __getattr__(name: str) -> Any:
    if name in __all__:
        from qecnet import models

        return getattr(models, name)
    raise AttributeError(f"module 'qecnet' has no attribute {name!r}")
