"""A library of shapes in a folder, searched by descriptor: rows in SQLite, a large library's graph in usearch."""

from qecnet.models.library.access import edit_library, merge_libraries, read_library
from qecnet.models.library.records import Changes, Hashed, Stamp, hash_answer, read_stamp
from qecnet.models.library.shape_library import Library, Neighbour

__all__ = [
    "Changes",
    "Hashed",
    "Library",
    "Neighbour",
    "Stamp",
    "edit_library",
    "hash_answer",
    "merge_libraries",
    "read_library",
    "read_stamp",
]
