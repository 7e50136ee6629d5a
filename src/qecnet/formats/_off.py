"""OFF: ModelNet's format. Plain, COFF, NOFF and STOFF, with the header glued to the counts or not."""

from __future__ import annotations

import re

import numpy as np

from qecnet.formats._numbers import numbers, rows, without_comments
from qecnet.formats._parts import Malformed, Parts, fan, whole

_HEADER = re.compile(rb"\s*(?:ST)?C?(N?)OFF\s*(\d{1,18})\s+(\d{1,18})(?:[ \t]+-?\d+)?(?=\s|\Z)", re.IGNORECASE)


def parse(data: bytes) -> Parts:
    data = without_comments(data)
    header = _HEADER.match(data)
    if header is None:
        raise Malformed("does not begin with OFF and the numbers of vertices and faces; write it as a text OFF")
    count, face_count = int(header[2]), int(header[3])
    body = data[header.end() :]
    if not header[1]:
        values = numbers(body)
        faces = values[3 * count :].reshape(-1, 4) if len(values) == 3 * count + 4 * face_count else None
        if faces is not None and (faces[:, 0] == 3).all():
            return Parts(values[: 3 * count].reshape(-1, 3), whole(faces)[:, 1:] if face_count else None)
    return _by_lines(body, count, face_count, with_normals=bool(header[1]))


def _by_lines(body: bytes, count: int, face_count: int, with_normals: bool) -> Parts:
    """Vertices with more columns than three, polygons, and faces with a colour behind their corners."""
    values, lengths = rows(body)
    if len(lengths) != count + face_count or count == 0:
        raise Malformed(
            f"promises {count:,} vertices and {face_count:,} faces in its header and has {len(lengths):,} lines "
            "of them; the file was cut short or its header is wrong"
        )
    columns = lengths[0]
    if columns < (6 if with_normals else 3) or (lengths[:count] != columns).any():
        raise Malformed("has vertices with too few numbers, or not as many as the first; the file is damaged")
    vertices = values[: count * columns].reshape(count, columns)
    if face_count == 0:
        return Parts(vertices[:, :3], normals=vertices[:, 3:6] if with_normals else None)
    values, lengths = values[count * columns :], lengths[count:]
    starts = np.cumsum(lengths) - lengths
    sizes = whole(values[starts])
    if (sizes < 0).any() or (sizes >= lengths).any():
        raise Malformed("has a face with fewer corners than it promises; the file is damaged")
    place = np.arange(len(values)) - np.repeat(starts, lengths)
    corners = values[(place > 0) & (place <= np.repeat(sizes, lengths))]
    return Parts(vertices[:, :3], fan(whole(corners), sizes))
