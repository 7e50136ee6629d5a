"""Shapes from files and into files."""

from qecnet.data.read import ReadError, read, read_cloud
from qecnet.data.write import write

__all__ = ["ReadError", "read", "read_cloud", "write"]
