"""Views of a shape as a depth camera sees it: one side, in perspective, with the errors of real cameras.

A depth buffer finds hidden points, so a cloud needs to be dense: its cells are as wide as a few points, and what lies
less than a cell behind the first surface counts as seen. A mesh is sampled first.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from qecnet.geometry import MIN_POINTS, Mesh, PointCloud

Array = NDArray[Any]

_BOXES = 24  # across the shape, to estimate the area of its surface
_FINEST = 512  # cells across the image, at most
_FILLED = 3.0  # points of the nearest surface in a cell
_STEEPEST = 4.0  # cells that a surface may fall behind within one cell
_TRIALS = 8


@dataclass(frozen=True)
class ViewConfig:
    """Settings of cameras; lengths are in radii of the shape, about the middle of its bounding box.

    Attributes:
        cameras: least and largest number of cameras whose views are merged.
        distance: least and largest distance of a camera; more than 1, so that it is outside.
        pixels: camera pixels across the shape, each of which gives at most one point; 0 keeps every visible point.
        surface: number of points to sample from a mesh.
        noise: standard deviation of depth at distance 1; it grows with the square of the distance.
        grazing: cosine between surface and ray below which pixels are lost, the more the smaller it is; 0 loses none.
        floor: probability that a piece of the floor below the shape (z is up) is seen by a camera above it.
    """

    cameras: tuple[int, int] = (1, 1)
    distance: tuple[float, float] = (2.5, 4.0)
    pixels: int = 128
    surface: int = 40_000
    noise: float = 0.0005
    grazing: float = 0.2
    floor: float = 0.0

    def __post_init__(self) -> None:
        if not 1 <= self.cameras[0] <= self.cameras[1]:
            raise ValueError(f"cameras is {self.cameras}; give the smallest and the largest number, at least 1")
        if not 1 < self.distance[0] <= self.distance[1] < float("inf"):
            raise ValueError(
                f"distance is {self.distance}; a camera within 1 radius is inside the shape: give larger distances"
            )
        for name, least, most in (("pixels", 0, 4096), ("surface", MIN_POINTS, 10_000_000), ("noise", 0, 1)):
            if not least <= getattr(self, name) <= most:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be {least} to {most:,}")
        for name in ("grazing", "floor"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be 0 to 1")


TRAINING_CAMERA = ViewConfig(floor=0.1)
"""The views that networks are trained and calibrated on."""


@dataclass(frozen=True, eq=False)
class View:
    """What cameras saw of a shape, in the shape's own coordinates.

    Attributes:
        cloud: the visible points, without normals; with a single camera, `cloud.viewpoint` is its position.
        cameras: (V, 3) float64, positions of the cameras.
        seen_by: (N,) int64, which camera saw each point.
        visible: share of the shape's surface that any of them sees, 0 to 1.
        centre, radius: (3,) float64 and a number: the middle of the whole shape's bounding box, and the distance of its
            farthest point from there.
    """

    cloud: PointCloud
    cameras: Tensor
    seen_by: Tensor
    visible: float
    centre: Tensor
    radius: float


def sample_view(shape: Mesh | PointCloud, generator: torch.Generator, config: ViewConfig | None = None) -> View:
    """See a shape from random sides; a direction from which fewer than nine points are seen is replaced by another.

    Args:
        shape: a mesh, or a dense cloud: 10,000 points give coarse views, 40,000 good ones.
        generator: decides everything that is random.
        config: of the cameras.

    Returns:
        The visible points, with the position of the camera.

    Raises:
        ValueError: if all points of the shape are the same, or cameras hardly see it from any side.
    """
    config = config or ViewConfig()
    rng = np.random.default_rng(int(torch.randint(2**62, (), generator=generator)))
    scene = _make_scene(shape, generator, config)
    cameras, parts = [], []
    for _ in range(int(rng.integers(config.cameras[0], config.cameras[1] + 1))):
        for _ in range(_TRIALS):
            camera = _random_direction(rng) * rng.uniform(*config.distance)
            seen, points = _see(scene.surface, camera, rng, config)
            if len(points) >= MIN_POINTS:
                break
        else:
            raise ValueError(
                f"{shape.name}: cameras see fewer than {MIN_POINTS} points of it; give more points or pixels"
            )
        cameras.append(camera)
        parts.append((seen, points))
    return _merge(scene, np.array(cameras), parts)


def sample_view_from(
    shape: Mesh | PointCloud, camera: Tensor, generator: torch.Generator, config: ViewConfig | None = None
) -> View:
    """See a shape from a given position.

    Args:
        shape: as for `sample_view`.
        camera: (3,), the position of the camera, in the shape's coordinates.
        generator: decides everything that is random.
        config: of the camera; its number and distance do not matter.

    Returns:
        The visible points, with the position of the camera.

    Raises:
        ValueError: if all points of the shape are the same, or the camera is inside its sphere or hardly sees it.
    """
    config = config or ViewConfig()
    rng = np.random.default_rng(int(torch.randint(2**62, (), generator=generator)))
    scene = _make_scene(shape, generator, config)
    place = (camera.double().numpy(force=True) - scene.centre) / scene.radius
    if not 1 < np.square(place).sum() < float("inf"):
        raise ValueError(f"{shape.name}: the camera is inside the sphere around the shape; move it away")
    seen, points = _see(scene.surface, place, rng, config)
    if len(points) < MIN_POINTS:
        raise ValueError(f"{shape.name}: the camera sees fewer than {MIN_POINTS} points of it; move it")
    return _merge(scene, place[None], [(seen, points)])


class _Scene(NamedTuple):
    """The points of a whole shape, and the same (N, 3) float32 at radius 1 about the middle of their bounding box."""

    whole: PointCloud
    surface: Array
    centre: Array
    radius: float


def _make_scene(shape: Mesh | PointCloud, generator: torch.Generator, config: ViewConfig) -> _Scene:
    whole = shape.sample(config.surface, generator) if isinstance(shape, Mesh) else shape
    world = whole.points.double().numpy(force=True)
    low, high = world.min(0), world.max(0)
    centre = (low + high) / 2
    radius = float(np.sqrt(np.square(world - centre).sum(1).max()))
    if not 0 < radius < float("inf"):
        raise ValueError(
            f"{shape.name}: its points are all equal or not finite, so a camera sees nothing; give another shape"
        )
    return _Scene(whole, ((world - centre) / radius).astype(np.float32), centre, radius)


def _merge(scene: _Scene, cameras: Array, parts: list[tuple[Array, Array]]) -> View:
    """The view of cameras (V, 3) at radius 1, from what each saw of the surface (N,) and the points it measured."""
    whole, _, centre, radius = scene
    seen, measured = zip(*parts, strict=True)
    seen_by = np.repeat(np.arange(len(parts)), [len(points) for points in measured])
    points = np.concatenate(measured).astype(np.float64) * radius + centre
    places = torch.from_numpy(cameras * radius + centre)
    cloud = replace(
        whole,
        points=torch.from_numpy(points).to(whole.points.dtype),
        normals=None,
        viewpoint=places[0] if len(places) == 1 else None,
    )
    visible = float(np.any(seen, axis=0).mean())
    return View(cloud, places, torch.from_numpy(seen_by), visible, torch.from_numpy(centre), radius)


def _see(surface: Array, camera: Array, rng: np.random.Generator, config: ViewConfig) -> tuple[Array, Array]:
    """Which of the surface's points (N, 3) at radius 1 a camera sees, (N,), and the points (M, 3) that it measures."""
    floor = _floor_remains(surface, camera, rng) if rng.random() < config.floor else surface[:0]
    points = np.concatenate([surface, floor]) if len(floor) else surface
    edge = 1 / float(np.sqrt(np.square(camera).sum() - 1))  # tangent of the angle at which the unit sphere is seen
    rays, depth, image = _project(points, camera.astype(np.float32), edge)
    seen, cosine = _in_front(depth, image, surface, edge)
    kept = np.flatnonzero(seen)
    if config.pixels:
        kept = kept[_nearest_of_each(_cells(image[kept], config.pixels), depth[kept], config.pixels)]
    if config.grazing:
        kept = kept[rng.random(len(kept)) * config.grazing < cosine[kept]]
    # In units of a ray's length: what is added to a ray of length d has the deviation noise × d².
    error = config.noise * depth[kept] * rng.standard_normal(len(kept))
    return seen[: len(surface)], points[kept] + rays[kept] * error.astype(np.float32)[:, None]


def _project(points: Array, camera: Array, edge: float) -> tuple[Array, Array, Array]:
    """Rays (N, 3) to points, their lengths (N,), and image coordinates (N, 2), −1 to 1 across the unit sphere."""
    axis = -camera / np.sqrt(np.square(camera).sum())
    right = np.cross(axis, np.eye(3, dtype=np.float32)[np.abs(axis).argmin()])
    right /= np.sqrt(np.square(right).sum())
    basis = np.stack([right / edge, np.cross(axis, right) / edge, axis], axis=1).astype(np.float32)
    rays = points - camera
    image = rays @ basis
    return rays, np.sqrt(np.einsum("ij,ij->i", rays, rays)), image[:, :2] / image[:, 2:]


def _cells(image: Array, side: int) -> Array:
    """(N,) the cell of each point (N, 2), of side × side; floor outside the unit sphere's image is at its edge."""
    column = np.clip(((image + 1) * np.float32(side / 2)).astype(np.int32), 0, side - 1)
    return column[:, 0] * side + column[:, 1]


def _in_front(depth: Array, image: Array, surface: Array, edge: float) -> tuple[Array, Array]:
    """(N,) which points are in front, and the cosine between the surface there and the ray.

    The cells of the depth buffer are as small as the surface's points fill them with few holes.
    """
    nearest = float(depth.min()) * edge
    side = int(np.clip(2 * nearest / np.sqrt(_FILLED * _area(surface) / len(surface)), 4, _FINEST))
    cell = _cells(image, side)
    front = _front(cell, depth, side).reshape(side, side)
    width = 2 * edge / side * np.where(np.isfinite(front), front, 0)
    for _ in range(2):
        front = _close_holes(front, 3 * width)
    along, across = (_fall(front, axis, width) for axis in (0, 1))
    # Within a cell, the depth of a tilted surface changes as much as from cell to cell.
    limit = front + 0.5 * width + np.minimum(along + across, _STEEPEST * width)
    cosine = width / np.sqrt(width**2 + along**2 + across**2 + 1e-12)
    return depth <= limit.ravel()[cell], cosine.ravel()[cell]


def _area(surface: Array) -> float:
    """The area of a surface in the unit sphere, from the number of boxes that its points (N, 3) are in."""
    box = np.clip(((surface + 1) * np.float32(_BOXES / 2)).astype(np.int32), 0, _BOXES - 1)
    occupied = np.count_nonzero(np.bincount((box[:, 0] * _BOXES + box[:, 1]) * _BOXES + box[:, 2]))
    return float(occupied * (2 / _BOXES) ** 2 / 1.5)  # a plane in any direction meets 1.5 boxes on each box's area


def _front(cell: Array, depth: Array, side: int) -> Array:
    """(side²,) depth of the nearest point of each cell; infinite where there is none."""
    front = np.full(side * side, np.inf, np.float32)
    np.minimum.at(front, cell, depth)
    return front


def _close_holes(front: Array, gap: Array) -> Array:
    """Bring cells forward if six of their eight neighbours are well in front: the front surface has no point there."""
    padded = np.pad(front, 1, constant_values=np.inf)
    shifts = [(i, j) for i in range(3) for j in range(3) if (i, j) != (1, 1)]
    around = np.stack([padded[i : i + len(front), j : j + len(front)] for i, j in shifts])
    sixth = np.partition(around, 5, axis=0)[5]
    return np.where(front > sixth + gap, sixth, front)


def _fall(front: Array, axis: int, width: Array) -> Array:
    """How much depth changes from cell to cell along an axis; 0 where there is no neighbour.

    It is the mean of both sides, or the lesser one if the other side is an edge.
    """
    front, width = np.moveaxis(front, axis, 0), np.moveaxis(width, axis, 0)
    steps = np.full((len(front) + 1, front.shape[1]), np.inf, np.float32)
    with np.errstate(invalid="ignore"):
        steps[1:-1] = np.abs(np.diff(front, axis=0))
    steps[np.isnan(steps)] = np.inf
    one, two = steps[1:], steps[:-1]
    least = np.minimum(one, two)
    is_smooth = np.maximum(one, two) <= 3 * least + width
    fall = np.where(is_smooth, (one + two) / 2, least)
    return np.moveaxis(np.where(np.isfinite(fall), fall, 0), 0, axis)


def _nearest_of_each(cell: Array, depth: Array, side: int) -> Array:
    """Indices, ascending, of the nearest point of each cell."""
    nearest = np.flatnonzero(depth == _front(cell, depth, side)[cell])
    chosen = np.zeros(side * side, np.int64)
    chosen[cell[nearest]] = nearest  # of several at the same depth, one
    return np.asarray(nearest[chosen[cell[nearest]] == nearest])


def _floor_remains(surface: Array, camera: Array, rng: np.random.Generator) -> Array:
    """(F, 3) points of a round piece of the floor under the shape; none where the camera is not above it."""
    low = surface[:, 2].min()
    if camera[2] <= low + 0.2:
        return surface[:0]
    foot = surface[rng.choice(np.flatnonzero(surface[:, 2] <= low + 0.1))]
    size = rng.uniform(0.2, 0.6)
    count = int(len(surface) * size**2 / 4)  # about as dense as a sphere's surface
    angle, reach = 2 * np.pi * rng.random(count), size * np.sqrt(rng.random(count))
    offsets = np.stack([reach * np.cos(angle), reach * np.sin(angle), np.zeros(count)], axis=1)
    return np.asarray(offsets + np.array([foot[0], foot[1], low]), np.float32)


def _random_direction(rng: np.random.Generator) -> Array:
    direction = rng.standard_normal(3)
    return np.asarray(direction / np.linalg.norm(direction))
