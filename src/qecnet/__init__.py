"""Quaternion equivariant capsule networks: what is this 3D shape, and which way is it turned?"""

__version__ = "0.1.0"
