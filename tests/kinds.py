"""Values of a known kind, and calls that are recorded."""

from collections.abc import Callable
from typing import Any, TypeVar

from qecnet.geometry import Mesh, PointCloud

T = TypeVar("T")


def present(value: T | None) -> T:
    """A value that is not None."""
    assert value is not None
    return value


def as_mesh(shape: Mesh | PointCloud) -> Mesh:
    """A shape that is a mesh."""
    assert isinstance(shape, Mesh)
    return shape


def as_cloud(shape: Mesh | PointCloud) -> PointCloud:
    """A shape that is a point cloud."""
    assert isinstance(shape, PointCloud)
    return shape


def recording(function: Callable[..., T], calls: list[tuple[Any, ...]]) -> Callable[..., T]:
    """The function, which also appends the arguments of each call."""

    def recorded(*given: Any) -> T:
        calls.append(given)
        return function(*given)

    return recorded
