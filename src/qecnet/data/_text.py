"""XYZ, TXT and CSV: one point a line, by white space, commas or semicolons, perhaps below a line of names."""

from __future__ import annotations

from qecnet.data._numbers import is_number, table, without_comments
from qecnet.data._parts import Malformed, Parts, from_columns

_SEPARATORS = bytes.maketrans(b",;", b"  ")
_NORMALS = ("nx", "ny", "nz"), ("normal_x", "normal_y", "normal_z")


def looks_like(head: bytes) -> bool:
    """Whether the first or the second line holds three numbers or more and nothing else."""
    lines = without_comments(head).translate(_SEPARATORS).split(b"\n")
    words = [line.split() for line in lines if line.strip()][:2]
    return any(len(line) >= 3 and all(map(is_number, line)) for line in words)


def parse(data: bytes) -> Parts:
    data = without_comments(data).lstrip()
    first = data.split(b"\n", 1)[0]
    if b"," in data and b";" in data:
        raise Malformed("has both commas and semicolons; write decimal points and one separator")
    words = first.translate(_SEPARATORS).split()
    # A single number on the first line is how some scanners give the number of points.
    has_header = len(words) == 1 or not all(map(is_number, words))
    names = [word.strip(b"\"'/").decode("latin-1").lower() for word in words] if has_header else []
    numbers = table((data[len(first) :] if has_header else data).translate(_SEPARATORS))
    if not {"x", "y", "z"} <= set(names):
        return from_columns(numbers)
    if len(names) != numbers.shape[1]:
        raise Malformed(f"names {len(names)} columns and has {numbers.shape[1]}; write it anew")
    normals = next((columns for columns in _NORMALS if set(columns) <= set(names)), None)
    return Parts(
        numbers[:, [names.index(name) for name in "xyz"]],
        normals=None if normals is None else numbers[:, [names.index(name) for name in normals]],
    )
