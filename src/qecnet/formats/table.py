"""XYZ, TXT and CSV: one point per line, columns by white space, commas or semicolons, with or without column names."""

import re
from functools import partial
from typing import NamedTuple

from qecnet.formats._format import Format, cloud_table, encode_rows
from qecnet.formats._numbers import blank_comments, is_number, parse_table
from qecnet.formats._parts import Malformed, Parts, find_normals, parts_from_table
from qecnet.formats._rewriting import find_words, move_named_words, move_words, word_values
from qecnet.formats.motion import XYZ, Motion
from qecnet.geometry import PointCloud

_SEPARATORS = bytes.maketrans(b",;\"'", b"    ")
_HEAD = 1 << 16
_NORMALS = ("nx", "ny", "nz"), ("normal_x", "normal_y", "normal_z")
_QUOTED_COMMA = re.compile(rb"\"[^\"\n,]*[0-9],[0-9][^\"\n,]*\"")


class _Columns(NamedTuple):
    text: bytes  # numbers and white space only, each where it is in the file
    start: int  # where the numbers begin
    names: list[str]  # of the columns if x, y and z are among them, or nothing

    @property
    def normals(self) -> tuple[str, ...]:
        return next((names for names in _NORMALS if {*names} <= {*self.names}), ())


def _matches(data: bytes, text: bytes) -> bool:
    """Whether the first or the second line holds three numbers or more and nothing else."""
    lines = text.translate(_SEPARATORS).split(b"\n")
    words = [line.split() for line in lines if line.strip()][:2]
    return any(len(line) >= 3 and all(map(is_number, line)) for line in words)


def _parse(data: bytes) -> Parts:
    columns = _columns(data)
    numbers = parse_table(columns.text[columns.start :])
    if not columns.names:
        return parts_from_table(numbers)
    if len(columns.names) != numbers.shape[1]:
        raise Malformed(f"names {len(columns.names)} columns and has {numbers.shape[1]}; correct the first line")
    points, normals = (numbers[:, [columns.names.index(name) for name in names]] for names in (XYZ, columns.normals))
    return Parts(points, normals=normals if columns.normals else None)


def _columns(data: bytes) -> _Columns:
    text = blank_comments(data)
    start = len(text) - len(text.lstrip())
    first = text[start:].split(b"\n", 1)[0]
    words = first.translate(_SEPARATORS).split()
    names: list[str] = []
    # Some scanners give the number of points as the only word on the first line.
    if len(words) == 1 or not any(map(is_number, words)):
        names = [word.strip(b"/").decode("latin-1").lower() for word in words]
        start += len(first)
    body = text[start:]
    if b"," in body and b";" in body:
        raise Malformed("has both commas and semicolons; write decimal points and one separator")
    if word := _decimal_comma(body[:_HEAD]):
        raise Malformed(f"has {word[:20]!r}, which looks like a decimal comma; write decimal points and one separator")
    return _Columns(text.translate(_SEPARATORS), start, names if {*XYZ} <= {*names} else [])


def _decimal_comma(head: bytes) -> bytes | None:
    """A word of `0,5 1,5` or `"0,5"`, which would pass for two numbers."""
    if b"," not in head:
        return None
    if quoted := _QUOTED_COMMA.search(head):
        return quoted[0]
    lines = (line.split() for line in head.split(b"\n"))
    return next((word for words in lines if len(words) > 1 for word in words if b"," in word.strip(b",")), None)


def _move(data: bytes, motion: Motion) -> bytes:
    columns = _columns(data)
    words = find_words(columns.text, columns.start)
    if columns.names:
        return move_named_words(data, words, columns.names, columns.normals, motion)
    count = len(columns.text[columns.start :].lstrip().split(b"\n", 1)[0].split())
    rows = words.reshape(-1, count, 2)
    normals = find_normals(word_values(columns.text, rows)) if count > 5 else None
    return move_words(data, rows[:, :3], None if normals is None else rows[:, normals], motion)


def _encode(cloud: PointCloud, separator: str) -> bytes:
    return encode_rows(cloud_table(cloud), separator)


FORMAT = Format((".xyz", ".txt"), _matches, _parse, _move, encode_cloud=partial(_encode, separator=" "))
CSV = Format((".csv",), _matches, _parse, _move, encode_cloud=partial(_encode, separator=","))
