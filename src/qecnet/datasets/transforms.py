"""What happens to points on their way into training and tests, each with the generator that decides it.

Points are (..., N, 3), each cloud of a batch with its own chance; where points are left out, one cloud (N, 3).
"""

from __future__ import annotations

import torch
from scipy.spatial import ConvexHull
from torch import Tensor

from qecnet.algebra import random_quaternion, rotate
from qecnet.geometry.sampling import random_points

_SPHERE = 100.0  # `seen_from`'s sphere, in distances of the farthest point: a larger one sees deeper into hollows


def subsample(points: Tensor, generator: torch.Generator, count: int) -> Tensor:
    """`count` of the points of a cloud (N, 3), every subset equally likely. → (count, 3)"""
    return points[random_points(points, count, generator)]


def random_rotation(points: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Each cloud turned about the origin, uniformly over SO(3). → points (..., N, 3), quaternions (..., 4) WXYZ.

    The quaternion turns the given points into the returned ones: `rotate(q, points)`.
    """
    q = random_quaternion(points.shape[:-2], generator, dtype=points.dtype).to(points.device)
    return rotate(q[..., None, :], points), q


def jitter(points: Tensor, generator: torch.Generator, deviation: float = 0.01, limit: float = 0.05) -> Tensor:
    """Normal noise on each coordinate, cut off at `limit`; both in the points' own units. → (..., N, 3)"""
    noise = torch.randn(points.shape, generator=generator, dtype=points.dtype, device=generator.device)
    return points + (deviation * noise).clamp(-limit, limit).to(points.device)


def random_scale(points: Tensor, generator: torch.Generator, low: float = 0.8, high: float = 1.25) -> Tensor:
    """Each cloud times a factor drawn evenly in its logarithm: twice as large is as likely as half. → (..., N, 3)"""
    if not 0 < low <= high:
        raise ValueError(f"low is {low} and high is {high}; a scale is above 0 and low is at most high")
    share = torch.rand(points.shape[:-2], generator=generator, dtype=points.dtype, device=generator.device)
    return points * (low * (high / low) ** share)[..., None, None].to(points.device)


def occlude(points: Tensor, generator: torch.Generator, share: float = 0.25) -> Tensor:
    """A cloud (N, 3) without the `share` of its points that lies beyond a plane of random direction. → (M, 3)

    At least one point stays; those that do keep their order.
    """
    if not 0 <= share < 1:
        raise ValueError(f"share is {share}; the part that is cut off is 0 to below 1")
    depth = points @ _direction(points, generator)
    kept = max(1, len(points) - round(share * len(points)))
    return points[depth.argsort(stable=True)[:kept].sort().values]


def seen_from(points: Tensor, generator: torch.Generator, distance: float = 3.0) -> Tensor:
    """The points of a cloud (N, 3) that are seen from a random side, as a depth camera would see them. → (M, 3)

    Hidden points are found by Katz et al. 2007: flipped over a large sphere about the eye, what is visible lies on the
    convex hull. `distance` is that of the eye from the cloud's middle, in radii of the cloud. A cloud without volume
    hides nothing.
    """
    if not distance > 1:
        raise ValueError(f"distance is {distance}; the eye stands outside the cloud, at more than 1 radius")
    from_middle = (points - points.mean(0)).double()
    if torch.linalg.matrix_rank(from_middle) < 3:
        return points
    radius = from_middle.norm(dim=-1).amax()
    eye = distance * radius * _direction(points, generator).double()
    seen = from_middle - eye
    far = seen.norm(dim=-1, keepdim=True)
    flipped = seen + 2 * (_SPHERE * far.amax() - far) * seen / far
    with_eye = torch.cat([flipped, torch.zeros_like(eye)[None]])
    on_hull = torch.from_numpy(ConvexHull(with_eye.numpy(force=True)).vertices).long().to(points.device)
    return points[on_hull[on_hull < len(points)].sort().values]


def _direction(points: Tensor, generator: torch.Generator) -> Tensor:
    """A unit vector (3,), uniform over the sphere."""
    direction = torch.randn(3, generator=generator, dtype=torch.float64, device=generator.device)
    return torch.nn.functional.normalize(direction, dim=0).to(points)
