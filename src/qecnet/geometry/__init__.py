"""Point clouds and meshes, and what is measured on them."""

from qecnet.geometry.cloud import PointCloud
from qecnet.geometry.mesh import Mesh

__all__ = ["Mesh", "PointCloud"]
