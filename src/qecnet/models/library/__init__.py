"""A library of shapes in a folder, searched by descriptor: rows in SQLite, a large library's descriptors in usearch."""

from qecnet.models.library.catalogue import Changes, Stamp
from qecnet.models.library.shape_library import Library, Neighbour, edit_library, read_library
from qecnet.models.library.update import extend

__all__ = ["Changes", "Library", "Neighbour", "Stamp", "edit_library", "extend", "read_library"]
