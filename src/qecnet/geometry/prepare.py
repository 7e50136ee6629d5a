"""From any cloud to what the network reads: oriented points and patches, for one cloud or for many."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Literal

import numpy as np
import torch
from rich.progress import track
from torch import Tensor

from qecnet.geometry.cloud import PointCloud
from qecnet.geometry.frames import Method, local_frames
from qecnet.geometry.normals import Sign
from qecnet.geometry.patches import patches
from qecnet.geometry.radii import Radii
from qecnet.geometry.sampling import farthest_points, random_points
from qecnet.geometry.strays import strays
from qecnet.workers import in_order


@dataclass(frozen=True)
class PrepareConfig:
    """What `prepare` does; the defaults are the paper's.

    Attributes:
        points: at most this many, drawn at random, describe the shape; a scan of millions is thinned by this rule.
        frames: places that get a frame, by farthest point sampling.
        patches, neighbours: the first layer's pooling.
        method, radii: of the frames; radii for a cloud of radius 1, or None for `default_radii`.
        sign: the side that normals look to: "inward", "outward", "normals" for that of the cloud's own normals, or a
            viewpoint in the user's coordinates.
    """

    points: int = 10_000
    frames: int = 512
    patches: int = 64
    neighbours: int = 9
    method: Method = "flare"
    radii: Radii | None = None
    sign: Literal["inward", "outward", "normals"] | tuple[float, float, float] = "inward"

    def __post_init__(self) -> None:
        for name in ("points", "frames"):
            if getattr(self, name) < self.neighbours:
                raise ValueError(
                    f"{name} is {getattr(self, name)} and neighbours is {self.neighbours}; "
                    f"a patch needs at least as many {name} as it has neighbours"
                )
        if isinstance(self.sign, tuple) and not np.isfinite(self.sign).all():
            raise ValueError(f"the viewpoint is {self.sign}; give three finite coordinates")


@dataclass(frozen=True, eq=False)
class Prepared:
    """One cloud, ready for the network, at zero mean and largest radius 1.

    Attributes:
        points: (N, 3) float32 positions of the frames.
        poses: (N, 4) quaternions, WXYZ, frame to world.
        valid: (N,) which frames there are; the rest has the identity, and what exceeds a small cloud the origin.
        centres: (P,) indices of the patches' centres.
        neighbours: (P, K) indices of each patch's frames, and mask: (P, K) which of them are there.
        centre: (3,) float64 and scale: () float64; the user's coordinates are ``points * scale + centre``.
    """

    points: Tensor
    poses: Tensor
    valid: Tensor
    centres: Tensor
    neighbours: Tensor
    mask: Tensor
    centre: Tensor
    scale: Tensor

    def restore(self, points: Tensor) -> Tensor:
        """Puts (..., 3) points given in these coordinates back into the user's own; float64."""
        return points.double() * self.scale + self.centre


def prepare(
    cloud: PointCloud, config: PrepareConfig | None = None, generator: torch.Generator | None = None
) -> Prepared:
    """Cleans, thins and centres a cloud, estimates its frames and pools them into patches.

    Points that stand alone (see `strays`) are left out: farthest point sampling would choose them before all others.
    A random subset is drawn from `generator` only when the cloud has more than `config.points`. A cloud with fewer
    points than frames is filled up with invalid ones.

    Raises:
        ValueError: when a patch needs more points than the cloud has, or a large cloud comes without a generator.
    """
    config = config or PrepareConfig()
    cloud = cloud.clean()
    if len(cloud) < config.neighbours:
        raise ValueError(
            f"{cloud.name}: cloud has {len(cloud)} distinct points; a patch needs at least {config.neighbours}"
        )
    if len(cloud) > config.points:
        if generator is None:
            raise ValueError(
                f"{cloud.name}: cloud has {len(cloud)} points, more than the {config.points} to keep; give a generator"
            )
        cloud = _only(cloud, random_points(cloud.points, config.points, generator))
    whole, cloud = cloud, cloud.normalized()
    at = farthest_points(cloud.points, min(config.frames, len(cloud)))
    stray = strays(whole.points, at)  # in full precision: far ones make a dot of the rest
    if stray.any():
        cloud = _only(whole, ~stray).normalized()
        at = farthest_points(cloud.points, min(config.frames, len(cloud)))
    count = len(at)
    quaternions, found = local_frames(cloud.points, at, config.method, config.radii, _sign(cloud, config))

    points = torch.zeros(config.frames, 3)
    poses = torch.tensor([1.0, 0, 0, 0]).repeat(config.frames, 1)
    valid = torch.zeros(config.frames, dtype=torch.bool)
    points[:count], poses[:count], valid[:count] = cloud.points[at], quaternions, found
    pooled = patches(points, valid, config.patches, config.neighbours)
    return Prepared(points, poses, valid, *pooled, cloud.centre, torch.tensor(cloud.scale, dtype=torch.float64))


def _only(cloud: PointCloud, which: Tensor) -> PointCloud:
    normals = None if cloud.normals is None else cloud.normals[which]
    return replace(cloud, points=cloud.points[which], normals=normals)


def _sign(cloud: PointCloud, config: PrepareConfig) -> Sign:
    """The configured sign rule for a cloud that has been normalised."""
    if config.sign == "normals":
        if cloud.normals is None:
            raise ValueError(f'{cloud.name}: has no normals to take signs from; use the sign "inward" or "outward"')
        return cloud.normals
    if isinstance(config.sign, tuple):
        return (torch.tensor(config.sign, dtype=torch.float64) - cloud.centre) / cloud.scale
    return config.sign


def prepare_many(
    clouds: Sequence[PointCloud] | Iterable[PointCloud],
    config: PrepareConfig | None = None,
    seed: int = 0,
    workers: int = 2,
    progress: bool = True,
) -> list[Prepared]:
    """`prepare` for each cloud, in order, by several processes.

    Each cloud has its own generator, seeded with `seed` and its place in the sequence: the result does not depend on
    the number of workers. Clouds are taken as workers get free, so an iterable may read them one by one.
    """
    if workers < 1:
        raise ValueError(f"{workers} workers were asked for; one or more can prepare clouds")
    config = config or PrepareConfig()
    total = len(clouds) if isinstance(clouds, Sequence) else None
    results = in_order(_one, ((index, *_parts(cloud), config, seed) for index, cloud in enumerate(clouds)), workers)
    return [_unpacked(r) for r in track(results, "preparing clouds", total=total, disable=not progress, transient=True)]


# Tensors would cross between processes as open files, of which there may be too many: arrays go instead.
Arrays = tuple[np.ndarray, ...]


def _parts(cloud: PointCloud) -> tuple[np.ndarray, np.ndarray | None, np.ndarray, float, str]:
    normals = None if cloud.normals is None else cloud.normals.numpy(force=True)
    return cloud.points.numpy(force=True), normals, cloud.centre.numpy(force=True), cloud.scale, cloud.name


def _one(
    index: int,
    points: np.ndarray,
    normals: np.ndarray | None,
    centre: np.ndarray,
    scale: float,
    name: str,
    config: PrepareConfig,
    seed: int,
) -> Arrays:
    generator = torch.Generator().manual_seed(int(np.random.SeedSequence([seed, index]).generate_state(1)[0]))
    known = None if normals is None else torch.from_numpy(normals)
    cloud = PointCloud(torch.from_numpy(points), known, name, torch.from_numpy(centre), scale)
    prepared = prepare(cloud, config, generator)
    return tuple(getattr(prepared, field.name).numpy() for field in fields(Prepared))


def _unpacked(arrays: Arrays) -> Prepared:
    return Prepared(*(torch.from_numpy(np.asarray(a)) for a in arrays))
