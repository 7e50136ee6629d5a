"""Which format a file has: its content says, and its extension only where the content does not."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from qecnet.formats import _numpy, _obj, _off, _pcd, _ply, _stl, _text
from qecnet.formats._numbers import without_comments
from qecnet.formats._parts import Malformed, Parts

_PARSERS: dict[str, Callable[[bytes], Parts]] = {
    ".off": _off.parse,
    ".obj": _obj.parse,
    ".ply": _ply.parse,
    ".stl": _stl.parse,
    ".pcd": _pcd.parse,
    ".xyz": _text.parse,
    ".txt": _text.parse,
    ".csv": _text.parse,
    ".npy": _numpy.parse_npy,
    ".npz": _numpy.parse_npz,
}
_FIRST_WORDS = [
    (re.compile(rb"ply\s"), ".ply"),
    (re.compile(rb"(VERSION|FIELDS)[ \t]"), ".pcd"),
    (re.compile(rb"(ST)?C?N?OFF[\s\d]", re.IGNORECASE), ".off"),
    (re.compile(rb"(v|vn|vt|f|o|g|s|mtllib|usemtl)[ \t]"), ".obj"),
    (re.compile(rb"solid\s", re.IGNORECASE), ".stl"),
]
_HEAD = 1 << 16


def parse(data: bytes, suffix: str) -> Parts:
    """The arrays in a file's bytes; `suffix` is its lower-case extension, with the dot."""
    if not data or data.isspace():
        raise Malformed("is empty; give a file with a shape in it")
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise Malformed("is UTF-16 text; save it as UTF-8 or ASCII")
    data = data.removeprefix(b"\xef\xbb\xbf")
    kind = kind_of(data, suffix)
    if kind not in _PARSERS:
        known = ", ".join(name[1:].upper() for name in _PARSERS)
        raise Malformed(f"is of no format that is read here; save it as one of {known}")
    # Damaged bytes make numbers that do not fit; they become NaN, infinite or unlike themselves, and are found as such.
    with np.errstate(invalid="ignore", over="ignore"):
        return _PARSERS[kind](data)


def kind_of(data: bytes, suffix: str) -> str:
    """The extension of the format that a file's bytes have, whatever extension its path has."""
    return _by_content(data) or suffix


def _by_content(data: bytes) -> str | None:
    if data.startswith(b"\x93NUMPY"):
        return ".npy"
    if data.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return ".npz"
    if _stl.is_binary(data):
        return ".stl"
    head = data[:_HEAD]
    text = without_comments(head).lstrip()
    for words, kind in _FIRST_WORDS:
        if words.match(text):
            return kind
    return ".xyz" if _text.looks_like(head) else None
