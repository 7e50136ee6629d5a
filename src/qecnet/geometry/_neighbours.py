"""Neighbour search within a radius, shared by the estimators."""

from __future__ import annotations

from scipy.spatial import cKDTree

from qecnet.geometry._support import Array, search_tree


def check_radius(radius: float) -> None:
    """Refuse a radius that is not a positive number."""
    if not 0 < radius < float("inf"):
        raise ValueError(f"radius is {radius}; neighbours are searched within a finite distance above 0")


def pairs_within(tree: cKDTree, queries: Array, radius: float) -> tuple[Array, Array, Array]:
    """Query row, point index and distance (P,) of every pair at most `radius` apart, in unspecified order."""
    pairs = search_tree(queries).sparse_distance_matrix(tree, radius, output_type="ndarray")
    return pairs["i"], pairs["j"], pairs["v"]
