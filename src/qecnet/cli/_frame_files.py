"""Local reference frames as numbers (NPZ), as coloured axes (PLY) and as a picture."""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from qecnet.algebra import to_matrix
from qecnet.geometry import OrientedPoints, PointCloud
from qecnet.schema import needing_extra

AXIS_LENGTH = 0.05  # of a cloud of radius 1: neighbouring frames of 512 do not touch


def write_npz(path: Path, prepared: OrientedPoints) -> None:
    """Positions in the user's coordinates, quaternions (WXYZ, frame to world), valid."""
    np.savez_compressed(
        path,
        points=prepared.restore(prepared.positions).numpy(),
        quaternions=prepared.frames.numpy(),
        valid=prepared.valid.numpy(),
    )


def _axes(prepared: OrientedPoints) -> tuple[Tensor, Tensor]:
    """Positions (V, 3) of the valid frames, and the tips (V, 3, 3) of their x, y and z, at radius 1."""
    origins = prepared.positions[prepared.valid].double()
    columns = to_matrix(prepared.frames[prepared.valid].double())
    return origins, origins[:, None] + AXIS_LENGTH * columns.transpose(1, 2)


def write_ply(path: Path, prepared: OrientedPoints) -> None:
    """Edges from each valid frame's position along its axes, x red, y green, z blue, in the user's coordinates."""
    origins, tips = _axes(prepared)
    ends = torch.stack([origins[:, None].expand_as(tips), tips], dim=2).reshape(-1, 3)
    colours = np.repeat(np.tile(255 * np.eye(3, dtype=np.uint8), (len(origins), 1)), 2, axis=0)
    vertices = np.empty(len(ends), [("xyz", "<f8", 3), ("rgb", "u1", 3)])
    vertices["xyz"], vertices["rgb"] = prepared.restore(ends).numpy(), colours
    edges = np.empty(len(ends) // 2, [("ends", "<i4", 2), ("rgb", "u1", 3)])
    edges["ends"], edges["rgb"] = np.arange(len(ends)).reshape(-1, 2), colours[::2]
    colour = "".join(f"property uchar {c}\n" for c in ("red", "green", "blue"))
    header = (
        "ply\nformat binary_little_endian 1.0\ncomment local reference frames by qec: x red, y green, z blue\n"
        f"element vertex {len(vertices)}\n"
        + "".join(f"property double {a}\n" for a in "xyz")
        + colour
        + f"element edge {len(edges)}\nproperty int vertex1\nproperty int vertex2\n{colour}end_header\n"
    )
    path.write_bytes(header.encode() + vertices.tobytes() + edges.tobytes())


def draw_frames(path: Path, cloud: PointCloud, prepared: OrientedPoints, method: str) -> None:
    """The cloud in grey with its frames, from two opposite sides; what is farther from the eye is paler."""
    with needing_extra("--plot draws with matplotlib", "plot"):
        from matplotlib.figure import Figure
        from mpl_toolkits.mplot3d.art3d import Line3DCollection
    surface = ((cloud.points.double() - prepared.centre) / prepared.scale)[:: max(1, len(cloud) // 8000)].numpy()
    origins, tips = (part.numpy() for part in _axes(prepared))
    invalid = prepared.positions[~prepared.valid].numpy()
    low, high = surface.min(0), surface.max(0)
    middle, half = (low + high) / 2, (high - low).max() / 2 + AXIS_LENGTH
    figure = Figure(figsize=(15, 8), layout="constrained")
    figure.suptitle(
        f"{cloud.name}: {len(origins)} of {len(prepared.valid)} {method} frames are valid\n"
        "x red, y green, z blue" + (", black crosses: no frame" if len(invalid) else "")
    )
    for place, (elevation, azimuth) in enumerate(((22, -55), (22, 125))):
        turn, tilt = np.radians(azimuth), np.radians(elevation)
        eye = np.array([np.cos(turn) * np.cos(tilt), np.sin(turn) * np.cos(tilt), np.sin(tilt)])
        axes = figure.add_subplot(1, 2, place + 1, projection="3d", computed_zorder=False)
        axes.scatter(*surface.T, s=3, c=_paler((0.6, 0.6, 0.6), surface @ eye), linewidths=0, depthshade=False)
        axes.scatter(*invalid.T, s=16, c="black", marker="x", linewidths=0.9, depthshade=False, zorder=2)
        for column, colour in enumerate(((0.84, 0.1, 0.1), (0.1, 0.6, 0.1), (0.1, 0.3, 0.85))):
            segments = np.stack([origins, tips[:, column]], axis=1)
            colours = _paler(colour, origins @ eye)
            axes.add_collection(Line3DCollection(segments, colors=colours, linewidths=1.5, zorder=1))
        axes.set(**{f"{a}lim": (m - half, m + half) for a, m in zip("xyz", middle, strict=True)})
        axes.set_box_aspect((1, 1, 1), zoom=1.3)
        axes.view_init(elev=elevation, azim=azimuth)
        axes.set_axis_off()
    figure.savefig(path, dpi=110)


def _paler(colour: tuple[float, float, float], depth: np.ndarray) -> np.ndarray:
    """RGBA (M, 4), from opaque at the greatest depth value (nearest to the eye) to faint at the least."""
    share = (depth - depth.min(initial=np.inf)) / max(float(np.ptp(depth)) if len(depth) else 0.0, 1e-9)
    return np.column_stack([np.tile(colour, (len(depth), 1)), 0.15 + 0.85 * np.clip(share, 0, 1) ** 1.5])
