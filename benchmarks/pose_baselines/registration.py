"""What people align two scans with today: FPFH features, RANSAC or FGR over their matches, then ICP (Open3D).

Rusu et al. 2009; Fischler & Bolles 1981 or Zhou et al. 2016; Besl & McKay 1992, point to plane. These look for the same
surface in both clouds: two samples of one shape have it, two different chairs do not.

Answers repeat bit for bit: Open3D's own random numbers are seeded at each call, and it works on one thread, because the
order in which threads finish changes both the draws of RANSAC and the last digits of ICP.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from torch import Tensor

from qecnet.geometry import PointCloud

from ._shared import Array, extract_rotation, import_package, normalize_points

# Open3D's own recipe, in multiples of the grid that clouds of radius 1 are thinned on for features.
_GRID = 0.05
_NORMALS = 2 * _GRID, 30  # radius, and neighbours at most
_FEATURES = 5 * _GRID, 100
_MATCH = 1.5 * _GRID
_ALIKE = 0.9  # of edges between matched points, the shorter over the longer
_DRAWS, _CONFIDENCE = 100_000, 0.999

Global = Callable[[Any, Any, Any, Any, Any], Any]
Seen = tuple[Array, Array]
"""Points (N, 3), and where normals look to, (3,)."""


def fpfh_ransac(source: PointCloud, target: PointCloud, seed: int = 0) -> Tensor:
    """Estimate the rotation from `source` to `target` by RANSAC over matched features, then ICP. → (4,) WXYZ, float64

    Where the search finds nothing, ICP starts from the identity.

    Raises:
        NoPoseError: for a cloud on a line or of one point.
        ValueError: if Open3D is not installed.
    """
    return _aligned(source, target, seed, ransac)


def fpfh_fgr(source: PointCloud, target: PointCloud, seed: int = 0) -> Tensor:
    """Estimate it as `fpfh_ransac`, by fast global registration (FGR) in place of RANSAC. → (4,) WXYZ, float64"""
    return _aligned(source, target, seed, fgr)


def register_views(source: PointCloud, target: PointCloud, seed: int, search: Global) -> Tensor:
    """Estimate the rotation between two views of one thing, at its true scale, by `ransac` or `fgr`, then ICP.

    Normals look toward the cameras, where these are known. → (4,) WXYZ, float64
    """
    size = source.normalized().scale
    clouds = []
    for cloud in (source, target):
        centre = cloud.points.double().mean(0)
        eye = np.zeros(3) if cloud.viewpoint is None else ((cloud.viewpoint - centre) / size).numpy()
        clouds.append((((cloud.points.double() - centre) / size).numpy(), eye))
    return _register(clouds[0], clouds[1], seed, search)


def _aligned(source: PointCloud, target: PointCloud, seed: int, search: Global) -> Tensor:
    first, second = ((normalize_points(cloud), np.zeros(3)) for cloud in (source, target))
    return _register(first, second, seed, search)


def _register(first: Seen, second: Seen, seed: int, search: Global) -> Tensor:
    o3d = import_package("open3d")
    with _repeatable(o3d, seed):
        a, thin_a, features_a = _described(o3d, *first)
        b, thin_b, features_b = _described(o3d, *second)
        found = search(o3d.pipelines.registration, thin_a, thin_b, features_a, features_b).transformation
        if not np.isfinite(found).all():
            found = np.eye(4)
        to_plane = o3d.pipelines.registration.TransformationEstimationPointToPlane()
        refined = o3d.pipelines.registration.registration_icp(a, b, _GRID, found, to_plane).transformation
    return extract_rotation(refined if np.isfinite(refined).all() else found)


@contextmanager
def _repeatable(o3d: Any, seed: int) -> Iterator[None]:
    before = o3d.utility.get_max_threads()
    o3d.utility.set_max_threads(1)
    o3d.utility.random.seed(seed % 2**31)
    try:
        # Its warnings of too few matches would run through the progress bar.
        with o3d.utility.VerbosityContextManager(o3d.utility.VerbosityLevel.Error):
            yield
    finally:
        o3d.utility.set_max_threads(before)


def _described(o3d: Any, points: Array, eye: Array) -> tuple[Any, Any, Any]:
    """The cloud, a thinned one, both with normals that look to the eye, and the features of the thinned one."""
    cloud = o3d.geometry.PointCloud(o3d.utility.Vector3dVector(points))
    thin = cloud.voxel_down_sample(_GRID)
    for each in (cloud, thin):
        each.estimate_normals(o3d.geometry.KDTreeSearchParamHybrid(*_NORMALS))
        # FPFH reads the normals' signs, and those of a plane fit are arbitrary.
        each.orient_normals_towards_camera_location(eye)
    near = o3d.geometry.KDTreeSearchParamHybrid(*_FEATURES)
    return cloud, thin, o3d.pipelines.registration.compute_fpfh_feature(thin, near)


def ransac(registration: Any, a: Any, b: Any, features_a: Any, features_b: Any) -> Any:
    return registration.registration_ransac_based_on_feature_matching(
        a,
        b,
        features_a,
        features_b,
        mutual_filter=True,
        max_correspondence_distance=_MATCH,
        ransac_n=3,
        checkers=[
            registration.CorrespondenceCheckerBasedOnEdgeLength(_ALIKE),
            registration.CorrespondenceCheckerBasedOnDistance(_MATCH),
        ],
        criteria=registration.RANSACConvergenceCriteria(_DRAWS, _CONFIDENCE),
    )


def fgr(registration: Any, a: Any, b: Any, features_a: Any, features_b: Any) -> Any:
    option = registration.FastGlobalRegistrationOption(maximum_correspondence_distance=_MATCH)
    return registration.registration_fgr_based_on_feature_matching(a, b, features_a, features_b, option)
