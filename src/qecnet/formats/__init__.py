"""Shape files: reading, writing, and rigid motions of whole files; one module for each format."""

from qecnet.formats.read import ReadError, read, read_cloud
from qecnet.formats.write import write

__all__ = ["ReadError", "read", "read_cloud", "write"]
