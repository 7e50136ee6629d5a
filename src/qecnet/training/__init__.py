"""Training: settings, batches, the loop, checkpoints that lose nothing, several processes."""

from typing import TYPE_CHECKING, Any

from qecnet.training.command import train

if TYPE_CHECKING:
    from qecnet.training.settings import Settings, make_settings

__all__ = ["Settings", "make_settings", "train"]


def __getattr__(name: str) -> Any:
    """Import settings when they are used: the help text of `qec train` needs no torch."""
    if name in __all__:
        from qecnet.training import settings

        return getattr(settings, name)
    raise AttributeError(f"module 'qecnet.training' has no attribute {name!r}")
