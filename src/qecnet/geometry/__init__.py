"""Point clouds and meshes, and what is measured on them: normals, local reference frames, patches."""

from qecnet.geometry.candidates import Candidates, find_axis_ups, find_resting_ups, propose_poses
from qecnet.geometry.cloud import PointCloud
from qecnet.geometry.frames import Frames, flare_frames, local_frames
from qecnet.geometry.mesh import Mesh
from qecnet.geometry.neighbours import nearest_neighbours, radius_neighbours
from qecnet.geometry.normals import fit_normals
from qecnet.geometry.patches import Patches, patches
from qecnet.geometry.prepare import PrepareConfig, Prepared, prepare, prepare_many
from qecnet.geometry.radii import Radii, default_radii
from qecnet.geometry.sampling import farthest_points, random_points, spaced_points
from qecnet.geometry.snapping import snap_pose
from qecnet.geometry.strays import strays

__all__ = [
    "Candidates",
    "Frames",
    "Mesh",
    "Patches",
    "PointCloud",
    "PrepareConfig",
    "Prepared",
    "Radii",
    "default_radii",
    "farthest_points",
    "find_axis_ups",
    "find_resting_ups",
    "fit_normals",
    "flare_frames",
    "local_frames",
    "nearest_neighbours",
    "patches",
    "prepare",
    "prepare_many",
    "propose_poses",
    "radius_neighbours",
    "random_points",
    "snap_pose",
    "spaced_points",
    "strays",
]
