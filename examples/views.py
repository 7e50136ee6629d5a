"""Draws views of a shape, one effect of a depth camera after another, each as the camera sees it and from the side.

    python examples/views.py docs/images/views.png [--shape chair] [--seed 0]

The shape is procedural. Needs matplotlib.
"""

import argparse
from dataclasses import replace
from pathlib import Path

import matplotlib
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from qecnet.datasets import View, ViewConfig, make_shape, sample_view

matplotlib.use("Agg")
PLAIN = ViewConfig(noise=0.0, grazing=0.0)
EFFECTS = {
    "every visible point": replace(PLAIN, pixels=0),
    "one point per pixel": replace(PLAIN, pixels=64),
    "depth noise": ViewConfig(pixels=64, noise=0.003, grazing=0.0),
    "grazing pixels lost": ViewConfig(pixels=64, noise=0.0, grazing=0.6),
    "remains of the floor": replace(PLAIN, pixels=64, floor=1.0),
    "three views merged": replace(PLAIN, cameras=(3, 3), pixels=64),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("picture", type=Path)
    parser.add_argument("--shape", default="chair")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()

    mesh = make_shape(given.shape, seed=given.seed)
    figure = Figure(figsize=(15, 5.6), dpi=100, layout="constrained")
    axes = figure.subplots(2, len(EFFECTS))
    for column, (effect, config) in zip(axes.T, EFFECTS.items(), strict=True):
        view = sample_view(mesh, torch.Generator().manual_seed(given.seed), config)
        column[0].set_title(f"{effect}\n{len(view.cloud):,} points, {100 * view.visible:.0f}% visible", fontsize=10)
        for axis, aside in zip(column, (0.0, 60.0), strict=True):
            draw(axis, view, aside)
    axes[0, 0].set_ylabel("from the camera", fontsize=10)
    axes[1, 0].set_ylabel("from the side", fontsize=10)
    figure.savefig(given.picture)


def draw(axis: Axes, view: View, aside: float) -> None:
    """The points, seen from the first camera or, so many degrees around the shape, from its height; paler if far."""
    camera = (view.cameras[0] - view.centre).numpy() / view.radius
    camera[2] *= aside == 0
    angle = np.radians(aside)
    eye = np.array([[np.cos(angle), -np.sin(angle), 0], [np.sin(angle), np.cos(angle), 0], [0, 0, 1]]) @ camera
    eye /= np.linalg.norm(eye)
    right = np.cross([0.0, 0.0, 1.0], eye)
    right /= np.linalg.norm(right)
    points = (view.cloud.points.double() - view.centre).numpy() / view.radius
    x, y, near = points @ right, points @ np.cross(eye, right), points @ eye
    colours = np.array([[0.12, 0.37, 0.66], [0.75, 0.22, 0.17], [0.15, 0.53, 0.18]])[view.seen_by.numpy()]
    pale = 0.6 * (near.max() - near) / np.ptp(near)
    colours = colours + (1 - colours) * pale[:, None]
    order = np.argsort(near)
    axis.scatter(x[order], y[order], s=2, c=colours[order], linewidths=0)
    axis.set(aspect="equal", xlim=(-0.95, 0.95), ylim=(-0.95, 0.95), xticks=[], yticks=[])
    axis.spines[:].set_visible(False)


if __name__ == "__main__":
    main()
