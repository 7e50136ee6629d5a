"""Solids that furniture is put together from. Each is a loft: a skin over rings of points, closed at both ends.

z is up and a piece's front faces −y. Sizes are in metres, as a user's own coordinates.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Float64Array = NDArray[np.float64]


class Solid(NamedTuple):
    """A closed surface: vertices (V, 3) and triangles (F, 3), counter-clockwise as seen from outside."""

    vertices: Float64Array
    faces: NDArray[np.int64]


def loft(rings: Float64Array, hoop: bool = False) -> Solid:
    """The skin over rings (R, K, 3), each counter-clockwise as seen from where the rings lead to.

    Both ends are closed by a fan about the ring's middle; or, in a hoop, the last ring leads to the first.
    """
    count, around = rings.shape[:2]
    index = np.arange(count * around).reshape(count, around)
    if hoop:
        index = np.concatenate([index, index[:1]])
    onward = np.roll(index, -1, axis=1)
    here, there = (index[:-1], onward[:-1]), (index[1:], onward[1:])
    side = np.stack([here[0], here[1], there[1], here[0], there[1], there[0]], axis=-1).reshape(-1, 3)
    if hoop:
        return Solid(rings.reshape(-1, 3), side)
    vertices = np.concatenate([rings.reshape(-1, 3), rings[[0, -1]].mean(1)])
    first = np.stack([onward[0], index[0], np.full(around, count * around)], axis=-1)
    last = np.stack([index[-1], onward[-1], np.full(around, count * around + 1)], axis=-1)
    return Solid(vertices, np.concatenate([side, first, last]))


def join(solids: Sequence[Solid]) -> Solid:
    """Solids side by side in one surface; where they overlap, both surfaces stay, as in most meshes of furniture."""
    starts = np.cumsum([0, *(len(solid.vertices) for solid in solids)])
    faces = [solid.faces + start for solid, start in zip(solids, starts, strict=False)]
    return Solid(np.concatenate([solid.vertices for solid in solids]), np.concatenate(faces))


def translate(solid: Solid, x: float = 0, y: float = 0, z: float = 0) -> Solid:
    return Solid(solid.vertices + np.array([x, y, z]), solid.faces)


def tilt(solid: Solid, angle: float, at: tuple[float, float, float]) -> Solid:
    """Rotate about the axis through `at` along x: by a positive angle, what is above leans back, to +y."""
    cosine, sine = np.cos(angle), np.sin(angle)
    turn = np.array([[1, 0, 0], [0, cosine, sine], [0, -sine, cosine]])
    return Solid((solid.vertices - at) @ turn.T + at, solid.faces)


def rotate_about_z(solid: Solid, angle: float) -> Solid:
    """Rotate about the z axis."""
    cosine, sine = np.cos(angle), np.sin(angle)
    return Solid(solid.vertices @ np.array([[cosine, sine, 0], [-sine, cosine, 0], [0, 0, 1]]), solid.faces)


def box(x: tuple[float, float], y: tuple[float, float], z: tuple[float, float], top: float = 1) -> Solid:
    """A block between these bounds; `top` scales its upper face about the middle, as in a tapered leg."""
    return loft(np.stack([_rectangle(x, y, z[0], 1), _rectangle(x, y, z[1], top)]))


def cushion(x: tuple[float, float], y: tuple[float, float], z: tuple[float, float], soft: float = 0.04) -> Solid:
    """A block with rounded edges and corners, `soft` their radius."""
    half = np.array([x[1] - x[0], y[1] - y[0], z[1] - z[0]]) / 2
    soft = min(soft, 0.999 * half.min())
    angle = np.linspace(-np.pi / 2, np.pi / 2, 10)
    level = np.where(angle > 0, 1, -1) * (half[2] - soft) + soft * np.sin(angle)
    rings = [
        rounded_rectangle(half[0], half[1], soft, v, soft * (np.cos(a) - 1)) for a, v in zip(angle, level, strict=True)
    ]
    return translate(loft(np.stack(rings)), sum(x) / 2, sum(y) / 2, sum(z) / 2)


def rod(start: Sequence[float], end: Sequence[float], radius: float, radius_at_end: float | None = None) -> Solid:
    """A round bar between two points."""
    return tube(np.array([start, end], np.float64), [radius, radius if radius_at_end is None else radius_at_end])


def tube(path: Float64Array, radii: Sequence[float] | float) -> Solid:
    """A round bar with twelve sides along points (R, 3), of one radius or one for each point."""
    along = np.gradient(path, axis=0)
    along /= np.linalg.norm(along, axis=1, keepdims=True)
    # Any direction that the path never takes is enough: the one it takes least.
    aside = np.eye(3)[np.abs(along).max(0).argmin()]
    u = np.cross(aside, along)
    u /= np.linalg.norm(u, axis=1, keepdims=True)
    v = np.cross(along, u)
    angle = 2 * np.pi * np.arange(12) / 12
    around = np.cos(angle)[:, None] * u[:, None] + np.sin(angle)[:, None] * v[:, None]
    return loft(path[:, None] + np.broadcast_to(radii, len(path))[:, None, None] * around)


def round_corners(path: Float64Array) -> Float64Array:
    """The path with each of its corners rounded."""
    t = np.linspace(0, 1, 5)[:, None]
    pieces = [path[:1]]
    for before, corner, after in zip(path, path[1:], path[2:], strict=False):
        start, end = corner + 0.3 * (before - corner), corner + 0.3 * (after - corner)
        pieces.append((1 - t) ** 2 * start + 2 * t * (1 - t) * corner + t**2 * end)
    return np.concatenate([*pieces, path[-1:]])


def lathe(profile: Sequence[tuple[float, float]]) -> Solid:
    """The profile's (radius, height) rotated about the z axis; from outside the profile goes up."""
    return loft(np.stack([oval(r, r, z, sides=24) for r, z in profile]))


def oval(a: float, b: float, z: float, power: float = 2, sides: int = 32) -> Float64Array:
    """A ring (sides, 3) at height z, |x/a|^power + |y/b|^power = 1: an ellipse at 2, nearly a rectangle at 8."""
    angle = 2 * np.pi * np.arange(sides) / sides
    x, y = np.cos(angle), np.sin(angle)
    size = (np.abs(x) ** power + np.abs(y) ** power) ** (-1 / power)
    return np.stack([a * x * size, b * y * size, np.full(sides, z)], axis=-1)


def rounded_rectangle(a: float, b: float, radius: float, z: float, grow: float = 0) -> Float64Array:
    """A ring (24, 3) at height z: a rectangle of half sizes a and b with round corners, all of it grown outwards."""
    angle = np.linspace(0, np.pi / 2, 6) + np.pi / 2 * np.arange(4)[:, None]
    middle = np.array([[1, 1], [-1, 1], [-1, -1], [1, -1]]) * (np.array([a, b]) - radius)
    edge = (radius + grow) * np.stack([np.cos(angle), np.sin(angle)], axis=-1) + middle[:, None]
    return np.concatenate([edge.reshape(-1, 2), np.full((24, 1), z)], axis=1)


def _rectangle(x: tuple[float, float], y: tuple[float, float], z: float, scale: float) -> Float64Array:
    corners = np.array([[x[0], y[0], z], [x[1], y[0], z], [x[1], y[1], z], [x[0], y[1], z]])
    middle: Float64Array = corners.mean(0)
    return middle + scale * (corners - middle)
