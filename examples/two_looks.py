"""Draws how capsules with features predict a pose: the input, two looks with their votes, and the result.

    python examples/two_looks.py results/modelnet10-features/weights.safetensors two_looks.png [--shape chair]

The shape is procedural, in a random pose; no network was trained on it. Needs matplotlib.
"""

import argparse
from pathlib import Path

import matplotlib
import numpy as np
import torch
from matplotlib.figure import Figure
from mpl_toolkits.mplot3d import Axes3D
from torch import Tensor

from qecnet.algebra import conjugate, random_quaternion, rotate, to_matrix
from qecnet.datasets import make_shape
from qecnet.geometry import OrientedPoints, PointCloud, PrepareConfig, prepare
from qecnet.nn import Ballot, load_network
from qecnet.nn.principal import principal_frames

matplotlib.use("Agg")
AXES = ("#c0392b", "#27862f", "#1f5fa8")
INK = "#444444"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("weights", type=Path)
    parser.add_argument("picture", type=Path)
    parser.add_argument("--shape", default="chair")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()

    network, classes, _ = load_network(given.weights)
    generator = torch.Generator().manual_seed(given.seed)
    cloud = make_shape(given.shape, seed=given.seed).sample(10_000, generator)
    rotation = random_quaternion((), generator, dtype=cloud.points.dtype)
    rotated = PointCloud(rotate(rotation, cloud.points), name=cloud.name)
    prepared = prepare(rotated, PrepareConfig(method="centred"), generator)
    with torch.inference_mode():
        said = network(OrientedPoints.stack([prepared]))
    label = int(said.label)

    figure = Figure(figsize=(14, 3.9), facecolor="white")
    panels = [figure.add_subplot(1, 4, number + 1, projection="3d") for number in range(4)]
    every = (rotated.points - prepared.centre) / prepared.scale
    draw_cloud(panels[0], every[:3000])
    for frame, place in list(zip(prepared.frames, prepared.positions, strict=True))[:64]:
        draw_axes(panels[0], frame, place, 0.12, 0.7)
    panels[0].set_title("input: local reference frames")
    frames = principal_frames(prepared.positions)
    draw_votes(panels[1], said.ballots[0], label, frames)
    panels[1].set_title("first look: from four principal frames")
    draw_votes(panels[2], said.ballots[-1], label, said.ballots[0].best_pose())
    panels[2].set_title("second look: from the first pose")
    draw_cloud(panels[3], rotate(conjugate(said.pose), every[:3000].float()))
    draw_axes(panels[3], torch.eye(4)[0], torch.zeros(3), 1.0, 1.5)
    panels[3].set_title(f"rotated by the predicted pose: {classes[label]}, {float(said.confidence):.0%}")
    figure.subplots_adjust(left=0, right=1, bottom=0, top=0.9, wspace=0)
    figure.savefig(given.picture, dpi=110)


def draw_cloud(panel: Axes3D, points: Tensor) -> None:
    x, y, z = points.T.numpy()
    panel.scatter(x, y, z, s=4, c=z, cmap="Greys", vmin=-2.5, vmax=0.8, alpha=0.7, linewidths=0)
    tidy(panel)


def draw_axes(panel: Axes3D, pose: Tensor, place: Tensor, length: float, width: float) -> None:
    for axis, colour in zip(to_matrix(pose).T, AXES, strict=True):
        ends = torch.stack((place, place + length * axis)).T.numpy()
        panel.plot(*ends, color=colour, linewidth=width)


def draw_votes(panel: Axes3D, ballot: Ballot, label: int, frames: Tensor) -> None:
    """Draw the three axes of each vote for a class on the sphere; the size is its weight."""
    u, v = np.mgrid[0 : 2 * np.pi : 25j, 0 : np.pi : 13j]
    panel.plot_wireframe(
        np.cos(u) * np.sin(v), np.sin(u) * np.sin(v), np.cos(v), color="#dddddd", linewidth=0.4, zorder=0
    )
    votes, trust = ballot.votes[0, label], ballot.trust[0, label]
    for index, colour in enumerate(AXES):
        x, y, z = to_matrix(votes)[..., index].T.numpy()
        panel.scatter(x, y, z, s=600 * trust.numpy(), color=colour, alpha=0.55, linewidths=0)
    for frame in frames:
        draw_axes(panel, frame, torch.zeros(3), 0.5, 0.8)
    draw_axes(panel, ballot.poses[0, label], torch.zeros(3), 1.25, 2.2)
    tidy(panel)


def tidy(panel: Axes3D) -> None:
    panel.set(xlim=(-1, 1), ylim=(-1, 1), zlim=(-1, 1))
    panel.set_box_aspect((1, 1, 1), zoom=1.35)
    panel.set_axis_off()
    panel.view_init(20, -60)
    panel.title.set_color(INK)
    panel.title.set_fontsize(11)


if __name__ == "__main__":
    main()
