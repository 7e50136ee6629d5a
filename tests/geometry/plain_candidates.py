"""Snapping and resting faces, each step as it is written down: what the tuned versions are compared with."""

import numpy as np
import torch
from scipy.spatial import ConvexHull

from qecnet.algebra import from_matrix, to_matrix

TILT = np.radians(6.0)


def resting_plain(points, most=8):
    """Up directions of solid (N, 3) points at zero mean and radius 1, steadiest first, and how steady they are."""
    hull = ConvexHull(points)
    normals, corners = hull.equations[:, :3], points[hull.vertices]
    principal = np.linalg.eigh(points.T @ points)[1]
    areas = [np.linalg.norm(np.cross(b - a, c - a)) for a, b, c in points[hull.simplices]]
    near = [[i for i, n in enumerate(normals) if n @ normal > np.cos(np.radians(4))] for normal in normals]
    taken: set[int] = set()
    found: list[tuple[float, np.ndarray]] = []
    for face in sorted(range(len(areas)), key=lambda i: -sum(areas[j] for j in near[i])):
        if face in taken or len(found) == 64:
            continue
        same = [i for i in near[face] if i not in taken]
        taken.update(same)
        down = sum(areas[i] * normals[i] for i in same)
        down /= np.linalg.norm(down)
        across = principal[:, 2] if abs(down @ principal[:, 2]) < 0.9 else principal[:, 1]
        x = np.cross(down, across)
        x /= np.linalg.norm(x)
        height, rises = max(corners @ down), []
        for angle in np.arange(32) * np.pi / 16:
            sideways = np.cos(angle) * x + np.sin(angle) * np.cross(down, x)
            tilted = np.cos(TILT) * down + np.sin(TILT) * sideways
            rises.append((max(corners @ tilted) - height * np.cos(TILT)) / np.sin(TILT))
        found.append((min(rises) / max(height, 0.05), -down))
    found.sort(key=lambda pair: -pair[0])
    return np.array([up for _, up in found[:most]]), np.array([steady for steady, _ in found[:most]])


def snap_plain(pose, normals, weights, steps=60):
    """The iteration as it is written down: the rotation nearest to the objective's gradient, again and again."""
    rotation = to_matrix(pose)
    for _ in range(steps):
        cosines = normals @ rotation
        gradient = normals.mT @ (weights[:, None] * cosines**3)
        u, _, v = torch.linalg.svd(gradient)
        u[:, 2] *= torch.linalg.det(u @ v).sign()
        rotation = u @ v
    return from_matrix(rotation)
