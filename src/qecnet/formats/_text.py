"""XYZ, TXT and CSV: one point a line, by white space, commas or semicolons, perhaps below a line of names."""

from __future__ import annotations

from qecnet.formats._numbers import is_number, table, without_comments
from qecnet.formats._parts import Malformed, Parts, from_columns

_SEPARATORS = bytes.maketrans(b",;", b"  ")
_HEAD = 1 << 16
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
    has_header = len(words) == 1 or not any(map(is_number, words))
    names = [word.strip(b"\"'/").decode("latin-1").lower() for word in words] if has_header else []
    body = data[len(first) :] if has_header else data
    _check_commas(body[:_HEAD])
    numbers = table(body.translate(_SEPARATORS))
    if not {"x", "y", "z"} <= set(names):
        return from_columns(numbers)
    if len(names) != numbers.shape[1]:
        raise Malformed(f"names {len(names)} columns and has {numbers.shape[1]}; write it anew")
    normals = next((columns for columns in _NORMALS if set(columns) <= set(names)), None)
    return Parts(
        numbers[:, [names.index(name) for name in "xyz"]],
        normals=None if normals is None else numbers[:, [names.index(name) for name in normals]],
    )


def _check_commas(head: bytes) -> None:
    """Refuses decimal commas (`0,5 1,5 2,5`), which would pass for twice as many numbers."""
    for line in head.split(b"\n") if b"," in head else ():
        words = line.split()
        inside = next((word for word in words if b"," in word.strip(b",")), None)
        if inside and len(words) > 1:
            raise Malformed(
                f"has {inside[:20]!r} among words that white space separates; write decimal points and one separator"
            )
