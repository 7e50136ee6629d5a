"""Point clouds and meshes, normals, local reference frames, and `prepare`, which gives networks what they read."""

from qecnet.geometry.candidates import MOST_CANDIDATES, Candidates, find_axis_ups, find_resting_ups, propose_poses
from qecnet.geometry.cloud import PointCloud
from qecnet.geometry.frames import Frames, Method, local_frames
from qecnet.geometry.mesh import Mesh
from qecnet.geometry.normals import fit_normals
from qecnet.geometry.prepare import OrientedPoints, PrepareConfig, PrepareMethod, prepare
from qecnet.geometry.radii import Radii, default_radii
from qecnet.geometry.sampling import MIN_POINTS, farthest_points, find_strays, random_points, sample_points
from qecnet.geometry.snapping import snap_pose
from qecnet.geometry.viewpoint import check_viewpoint, drop_implausible_viewpoint

__all__ = [
    "MIN_POINTS",
    "MOST_CANDIDATES",
    "Candidates",
    "Frames",
    "Mesh",
    "Method",
    "OrientedPoints",
    "PointCloud",
    "PrepareConfig",
    "PrepareMethod",
    "Radii",
    "check_viewpoint",
    "default_radii",
    "drop_implausible_viewpoint",
    "farthest_points",
    "find_axis_ups",
    "find_resting_ups",
    "find_strays",
    "fit_normals",
    "local_frames",
    "prepare",
    "propose_poses",
    "random_points",
    "sample_points",
    "snap_pose",
]
