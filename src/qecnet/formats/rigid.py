"""A rigid motion of points and normals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Rigid:
    """`x → rotation (x − about) + about + translation`; rotation (3, 3), about and translation (3,), float64."""

    rotation: Array
    translation: Array
    about: Array

    def points(self, points: Array) -> Array:
        """(N, 3) → (N, 3)"""
        return self.directions(points - self.about) + (self.about + self.translation)

    def directions(self, directions: Array) -> Array:
        """Normals turn and stay where they are. (N, 3) → (N, 3)"""
        turned: Array = directions @ self.rotation.T
        return turned
