"""Training: settings, batches, the loop, checkpoints that lose nothing, several processes."""

from qecnet.training.command import train
from qecnet.training.settings import Settings, make_settings

__all__ = ["Settings", "make_settings", "train"]
