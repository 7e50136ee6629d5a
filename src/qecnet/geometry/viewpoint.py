"""Known cameras: whether a cloud can have been seen from there."""

from __future__ import annotations

from torch.nn.functional import normalize

from qecnet.geometry.cloud import PointCloud

_BEHIND = 0.01  # share of points that may be behind a camera
_AWAY = 0.5  # share of normals that may face away from it


def check_viewpoint(cloud: PointCloud) -> None:
    """Check that the cloud's viewpoint can be the position of a camera that saw it from one side.

    Args:
        cloud: its normals are compared with the viewpoint, if it has any.

    Raises:
        ValueError: if the viewpoint is inside the shape, or most normals face away from it.
    """
    if cloud.viewpoint is None:
        return
    place = ", ".join(f"{value + 0.0:g}" for value in cloud.viewpoint.tolist())
    rays = normalize(cloud.points.double() - cloud.viewpoint, dim=-1)
    behind = rays @ normalize(rays.mean(0), dim=0) <= 0
    if behind.double().mean() > _BEHIND:
        raise ValueError(
            f"{cloud.name}: the viewpoint ({place}) is inside the shape; give the camera's position in the shape's "
            "coordinates, or omit it"
        )
    if cloud.normals is None:
        return
    known = cloud.normals.any(-1)
    away = float(((cloud.normals[known].double() * rays[known]).sum(-1) > 0).double().mean()) if known.any() else 0.0
    if away > _AWAY:
        raise ValueError(
            f"{cloud.name}: {100 * away:.0f}% of the normals face away from the viewpoint ({place}); give the camera's "
            "position in the shape's coordinates, or omit it"
        )


def drop_implausible_viewpoint(cloud: PointCloud) -> PointCloud:
    """Drop the viewpoint of a file if `check_viewpoint` refuses it.

    Args:
        cloud: as read from the file.

    Returns:
        The cloud, without the viewpoint if it was refused.
    """
    try:
        check_viewpoint(cloud)
    except ValueError:
        return cloud.seen_from(None)
    return cloud
