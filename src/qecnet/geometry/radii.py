"""Radii of the neighbourhoods of frames: the release's, widened where a cloud is too sparse for them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from qecnet.geometry._neighbours import check_radius
from qecnet.geometry._support import Centred, centre_cloud, check_cloud


@dataclass(frozen=True)
class Radii:
    """Support radii in the cloud's own units; the defaults are the release's, for a cloud of radius 1.

    Attributes:
        normals: plane fits of the normals, which give z its sign (FLARE) or are z (centred).
        z_axis: FLARE's own plane fit.
        tangent: FLARE's ring ends here; SHOT's support.
        margin: FLARE's ring begins beyond ``margin * tangent``.
    """

    normals: float = 0.15
    z_axis: float = 0.06
    tangent: float = 0.12
    margin: float = 0.85

    def __post_init__(self) -> None:
        for radius in (self.normals, self.z_axis, self.tangent):
            check_radius(radius)
        if not 0 <= self.margin < 1:
            raise ValueError(
                f"margin is {self.margin}; the ring begins at this share of the tangent radius, from 0 to below 1"
            )

    def scaled(self, factor: float) -> Radii:
        """Scale the radii.

        Args:
            factor: how many times as large the cloud is.

        Returns:
            The radii for such a cloud.
        """
        return Radii(self.normals * factor, self.z_axis * factor, self.tangent * factor, self.margin)


# Neighbours that each radius should hold on a surface. Twice FLARE's fewest for a plane; six in the ring, so that it
# is empty for one place in 400 of a random sample; the ring is 1 − 0.85² of the disc.
_WANTED = {"normals": 12, "z_axis": 12, "tangent": 6 / (1 - 0.85**2)}
_REACH = 12
_STEP = 1.05


def default_radii(points: Tensor) -> Radii:
    """Choose radii for a cloud: the release's times the cloud's radius, each widened to contain enough points.

    Outliers are left out of the cloud's radius: points farther from the centroid than three times the 99th percentile
    of the distances.

    The spacing is the median distance to the 12th neighbour, or to the farthest in a cloud of 12 points or fewer, of up
    to 512 points evenly spread over the distances from the centroid, a choice that does not depend on rotation or on
    the order of the points. Widening goes in steps of 5%, so that rounding does not change the radii.

    Args:
        points: (N, 3).

    Returns:
        The radii, in the units of the cloud.
    """
    check_cloud(points)
    return radii_of(centre_cloud(points))


def radii_of(cloud: Centred) -> Radii:
    """`default_radii` of a cloud that has been centred, in the user's units."""
    reach = cloud.median_reach(max(1, min(_REACH, len(cloud.points) - 1)))
    release = Radii()
    wide = {
        name: _widen(getattr(release, name), reach * float(np.sqrt(wanted / _REACH)))
        for name, wanted in _WANTED.items()
    }
    return Radii(**wide).scaled(cloud.radius)


def _widen(radius: float, needed: float) -> float:
    """`radius`, in as many steps of 5% as reach `needed`."""
    return radius * _STEP ** int(np.ceil(np.log(max(needed / radius, 1)) / np.log(_STEP) - 1e-6))
