"""Arrays as the text and the bytes that several formats write."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from qecnet.geometry import PointCloud


def cloud_table(cloud: PointCloud) -> NDArray[Any]:
    """(N, 3) points, or (N, 6) with normals, in the dtype of the points."""
    points = cloud.points.numpy(force=True)
    if cloud.normals is None:
        return points
    return np.hstack([points, cloud.normals.numpy(force=True).astype(points.dtype)])


def encode_little_endian(table: NDArray[Any]) -> bytes:
    return np.ascontiguousarray(table, table.dtype.newbyteorder("<")).tobytes()


def encode_rows(table: NDArray[Any], separator: str = " ", prefix: str = "") -> bytes:
    """One line of text for each row, with the shortest digits that read back as the same number."""
    # str of a NumPy scalar: float32 takes fewer digits than the float64 of the same value.
    return "".join(prefix + separator.join(map(str, row)) + "\n" for row in table).encode()
