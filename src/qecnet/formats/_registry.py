"""All formats, and which of them a file has: its content decides, and its extension only where the content does not."""

from __future__ import annotations

import numpy as np

from qecnet.formats import arrays, las, obj, off, pcd, ply, scenes, stl, table
from qecnet.formats._format import Format
from qecnet.formats._numbers import blank_comments
from qecnet.formats._parts import Malformed, Parts

# The order in which contents are tried: signatures first, numbers in text last.
FORMATS = (
    arrays.NPY,
    las.FORMAT,
    las.LAZ,
    *scenes.SCENE_FORMATS,
    arrays.NPZ,
    stl.FORMAT,
    ply.FORMAT,
    pcd.FORMAT,
    off.FORMAT,
    obj.FORMAT,
    table.FORMAT,
    table.CSV,
)
BY_SUFFIX = {suffix: form for form in FORMATS for suffix in form.suffixes}
SUFFIXES = tuple(sorted(BY_SUFFIX))
"""The extensions that `read` knows, lower case, with the dot."""

_HEAD = 1 << 16
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def parse(data: bytes, suffix: str) -> Parts:
    """The arrays in a file's bytes; `suffix` is the file's lower-case extension, with the dot."""
    # Damaged bytes make numbers that do not fit: they become NaN or infinite, or change when converted, and are
    # found as such.
    with np.errstate(invalid="ignore", over="ignore"):
        return find_format(data, suffix).parse(data.removeprefix(_BYTE_ORDER_MARK))


def find_format(data: bytes, suffix: str) -> Format:
    """The format of a file's bytes, whatever extension its path has."""
    if not data or data.isspace():
        raise Malformed("is empty; give a file that holds a shape")
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise Malformed("is UTF-16 text; save it as UTF-8 or ASCII")
    form = _by_content(data.removeprefix(_BYTE_ORDER_MARK)) or BY_SUFFIX.get(suffix)
    if form is None:
        known = ", ".join(name[1:].upper() for name in SUFFIXES)
        raise Malformed(f"is not in a format that can be read; save it as one of {known}")
    return form


def _by_content(data: bytes) -> Format | None:
    text = blank_comments(data[:_HEAD]).lstrip()
    return next((form for form in FORMATS if form.matches(data, text)), None)
