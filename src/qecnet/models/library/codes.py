"""Descriptors as 96 bytes each for the graph, whose distances are coarse; the best are then compared exactly."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from qecnet.models.library.records import Floats

_MOST = 96
"""Bytes of a code, unless descriptors are shorter: their variance lies in fewer directions than they have values."""
_LARGEST = 127
_SANE = 1e9


class Codes:
    """A linear map to small integers: principal axes, rotated at random so that all have similar variances.

    Attributes:
        width: K, the number of bytes of a code.
    """

    def __init__(self, table: Floats) -> None:
        """Take a map, (D + 1, K), float32: a matrix, and the image of the mean in the last row."""
        self._table = table
        self.width = table.shape[1]

    @classmethod
    def fit(cls, descriptors: Floats) -> Codes:
        """Find the map for descriptors like these, (N, D)."""
        mean = descriptors.mean(0, dtype=np.float64)
        centred = descriptors - mean
        _, axes = np.linalg.eigh(centred.T @ centred)  # ascending
        axes = axes[:, -_MOST:]
        width = axes.shape[1]
        rotation, _ = np.linalg.qr(np.random.default_rng(0).standard_normal((width, width)))
        axes = axes @ rotation
        axes *= _LARGEST / max(float(np.abs(centred @ axes).max()), 1e-6)
        return cls(np.vstack((axes, mean @ axes)).astype("<f4"))

    @classmethod
    def from_bytes(cls, data: bytes, width: int) -> Codes:
        """Read a result of `to_bytes` for descriptors of this width.

        Raises:
            ValueError: if it is not one.
        """
        shape = width + 1, min(width, _MOST)
        if len(data) != 4 * shape[0] * shape[1]:
            raise ValueError("its codes have the wrong width")
        table = np.frombuffer(data, "<f4").reshape(shape)
        if not (np.abs(table) < _SANE).all():
            raise ValueError("its codes are not finite")
        return cls(table)

    def to_bytes(self) -> bytes:
        """The map, to store it."""
        return self._table.tobytes()

    def encode(self, descriptors: Floats) -> NDArray[np.int8]:
        """(..., D) → (..., K)"""
        values = np.rint(descriptors @ self._table[:-1] - self._table[-1])
        return np.asarray(values.clip(-_LARGEST, _LARGEST), np.int8)
