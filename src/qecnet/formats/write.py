"""Shapes into files, for other programs and for `read`."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qecnet.geometry.cloud import PointCloud
from qecnet.geometry.mesh import Mesh


def write(path: str | os.PathLike[str], shape: Mesh | PointCloud) -> None:
    """Writes a mesh as PLY or OFF, or a cloud as PLY, PCD, XYZ, TXT, CSV, NPY or NPZ, by the path's extension.

    Points go out as they are, in the dtype that they have; text carries all of their digits. `restore` first what is
    to be in the user's own coordinates. The file is written aside and put in place in one step, so that no reader ever
    sees half of it.
    """
    path = Path(path)
    kind, encoders = ("mesh", _MESH) if isinstance(shape, Mesh) else ("cloud", _CLOUD)
    if path.suffix.lower() not in encoders:
        known = ", ".join(encoders)
        raise ValueError(f"{path}: a {kind} is not written as {path.suffix or 'this'}; use one of {known}")
    data = encoders[path.suffix.lower()](shape)
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        aside.write_bytes(data)
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)


def _columns(cloud: PointCloud) -> NDArray[Any]:
    """(N, 3) points, or (N, 6) with normals."""
    points = cloud.points.numpy(force=True)
    return (
        points if cloud.normals is None else np.hstack([points, cloud.normals.numpy(force=True).astype(points.dtype)])
    )


def _little(table: NDArray[Any]) -> bytes:
    return np.ascontiguousarray(table, table.dtype.newbyteorder("<")).tobytes()


def _text(table: NDArray[Any], separator: str) -> str:
    # The shortest digits that read back as the same number, which for float32 are fewer than for its float64 twin.
    return "".join(separator.join(map(str, row)) + "\n" for row in table)


def _cloud_ply(cloud: PointCloud) -> bytes:
    table = _columns(cloud)
    return _ply_header(table, ("x", "y", "z", "nx", "ny", "nz")) + b"end_header\n" + _little(table)


def _mesh_ply(mesh: Mesh) -> bytes:
    vertices = mesh.vertices.numpy(force=True)
    faces = np.empty(len(mesh.faces), [("corners", "u1"), ("at", "<i4", 3)])
    faces["corners"], faces["at"] = 3, mesh.faces.numpy(force=True)
    lists = f"element face {len(faces)}\nproperty list uchar int vertex_indices\nend_header\n"
    return _ply_header(vertices, ("x", "y", "z")) + lists.encode() + _little(vertices) + faces.tobytes()


def _ply_header(table: NDArray[Any], names: tuple[str, ...]) -> bytes:
    kind = {4: "float", 8: "double"}[table.itemsize]
    lines = [f"property {kind} {name}" for name, _ in zip(names, table.T, strict=False)]
    return "\n".join(["ply", "format binary_little_endian 1.0", f"element vertex {len(table)}", *lines, ""]).encode()


def _mesh_off(mesh: Mesh) -> bytes:
    vertices, faces = mesh.vertices.numpy(force=True), mesh.faces.numpy(force=True)
    corners = np.full((len(faces), 1), 3)
    return (
        f"OFF\n{len(vertices)} {len(faces)} 0\n" + _text(vertices, " ") + _text(np.hstack([corners, faces]), " ")
    ).encode()


def _cloud_pcd(cloud: PointCloud) -> bytes:
    table = _columns(cloud)
    names = ("x", "y", "z", "normal_x", "normal_y", "normal_z")[: table.shape[1]]
    every = {"SIZE": table.itemsize, "TYPE": "F", "COUNT": 1}
    lines = [
        "# .PCD v0.7 - Point Cloud Data file format",
        "VERSION 0.7",
        f"FIELDS {' '.join(names)}",
        *(f"{key} {' '.join([str(value)] * len(names))}" for key, value in every.items()),
        f"WIDTH {len(table)}",
        "HEIGHT 1",
        "VIEWPOINT 0 0 0 1 0 0 0",
        f"POINTS {len(table)}",
        "DATA binary\n",
    ]
    return "\n".join(lines).encode() + _little(table)


def _cloud_npz(cloud: PointCloud) -> bytes:
    arrays = {"points": cloud.points.numpy(force=True)}
    if cloud.normals is not None:
        arrays["normals"] = cloud.normals.numpy(force=True)
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, **arrays)
    return file.getvalue()


def _cloud_npy(cloud: PointCloud) -> bytes:
    file = io.BytesIO()
    np.save(file, _columns(cloud), allow_pickle=False)
    return file.getvalue()


def _spaced(cloud: PointCloud) -> bytes:
    return _text(_columns(cloud), " ").encode()


_MESH: dict[str, Callable[[Any], bytes]] = {".ply": _mesh_ply, ".off": _mesh_off}
_CLOUD: dict[str, Callable[[Any], bytes]] = {
    ".ply": _cloud_ply,
    ".pcd": _cloud_pcd,
    ".xyz": _spaced,
    ".txt": _spaced,
    ".csv": lambda cloud: _text(_columns(cloud), ",").encode(),
    ".npy": _cloud_npy,
    ".npz": _cloud_npz,
}
