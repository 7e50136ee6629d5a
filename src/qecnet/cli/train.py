"""`qec train`: trains a network."""

from qecnet.training import train

__all__ = ["train"]
