"""Read, write and move shape files; one module for each format."""

from qecnet.formats.motion import Motion
from qecnet.formats.move import move_file
from qecnet.formats.read import SUFFIXES, ReadError, read, read_bytes, read_cloud
from qecnet.formats.write import OUTPUT_SUFFIXES, write

__all__ = [
    "OUTPUT_SUFFIXES",
    "SUFFIXES",
    "Motion",
    "ReadError",
    "move_file",
    "read",
    "read_bytes",
    "read_cloud",
    "write",
]
