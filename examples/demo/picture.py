"""The demo as one picture: each shape in its input pose and rotated upright; pairs before and after alignment."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from torch import Tensor
from trial import LIMIT, POINTS, Pair, Scan, Seen, words

from qecnet.algebra import conjugate, multiply, rotate

matplotlib.use("Agg")
INK, MUTED, GREY, BLUE, ORANGE, WRONG = "#1a1a19", "#6b6b66", "#9a9a94", "#0072b2", "#e08a00", "#c8351f"
COLUMNS = 5
STILL = torch.tensor([1.0, 0.0, 0.0, 0.0], dtype=torch.float64)
_EYE = -2.18, 0.38  # azimuth and elevation, in radians
_LIGHT = np.array([-0.36, 0.72, 0.6])  # to the picture's right, up, and towards the eye
_WIDTH, _PANEL, _LEFT = 1.9, 1.5, 1.15  # inches
_BAND = 2 * _PANEL + 0.75

Part = tuple[Scan, Tensor, str]
"""A scan, the rotation (4,), WXYZ, that it is drawn with, and its colour."""


def picture(seen: Sequence[Seen], pairs: Sequence[Pair], told: str) -> Figure:
    """`told` is the sentence below the title."""
    bands = [seen[i : i + COLUMNS] for i in range(0, len(seen), COLUMNS)]
    height = 1.1 + (len(bands) + 1) * _BAND + 0.45
    figure = Figure(figsize=(_LEFT + COLUMNS * _WIDTH + 0.1, height), facecolor="white")
    _write(figure, 0.2, 0.4, "What is this shape, and how is it oriented?", size=18, weight="bold")
    _write(figure, 0.2, 0.78, told, size=10.5, colour=MUTED)
    top = 1.1
    for band in bands:
        _labels(figure, top, "input, in a\nrandom pose", "rotated by\nthe predicted\npose")
        for column, one in enumerate(band):
            colour = WRONG if one.label_is_wrong or one.pose_is_wrong else BLUE
            upright = (one.scan, conjugate(one.answer.pose), colour)
            _before_and_after(figure, column, top, [(one.scan, STILL, GREY)], [upright])
            _caption(figure, column, top, (_name(one), one.label_is_wrong), (_pose(one), one.pose_is_wrong))
        top += _BAND
    heading = "Two different shapes of a class, aligned"
    _write(figure, 0.2, top + 0.12, heading, size=13, weight="bold")
    top += 0.4
    _labels(figure, top, "two scans,\neach in a\nrandom pose", "aligned by\nthe predicted\nrotation")
    for column, pair in enumerate(pairs[:COLUMNS]):
        _before_and_after(figure, column, top, *pair_parts(pair, ORANGE, BLUE))
        error = "" if pair.error is None else f"{'✗ ' * pair.is_wrong}rotation error {pair.error:.0f}°"
        _caption(figure, column, top, (pair.what, False), (error, pair.is_wrong))
    return figure


def pair_parts(pair: Pair, source: str, target: str) -> tuple[list[Part], list[Part]]:
    """The two scans as given; and the source aligned with the target, both shown with the target upright."""
    upright = conjugate(pair.target.rotation)
    aligned = multiply(upright, pair.rotation)
    before = [(pair.source, STILL, source), (pair.target, STILL, target)]
    return before, [(pair.source, aligned, source), (pair.target, upright, target)]


def _name(one: Seen) -> str:
    said = f"{words(one.answer.label)}, {one.answer.confidence:.0%}"
    return f"{said}  ✗ correct: {words(one.scan.kind or '')}" if one.label_is_wrong else said


def _pose(one: Seen) -> str:
    tilted = one.tilt is not None and one.tilt > max(one.error, LIMIT)
    return f"✗ tilt {one.tilt:.0f}°" if tilted else f"{'✗ ' * one.pose_is_wrong}pose error {one.error:.0f}°"


def _before_and_after(figure: Figure, column: int, top: float, before: Sequence[Part], after: Sequence[Part]) -> None:
    """Draw one above the other, at the largest scale that fits both."""
    views = [_project(parts) for parts in (before, after)]
    size = max(np.abs(places[:, :2] / (_WIDTH, _PANEL)).max() for places, _ in views)
    for row, (places, colours) in enumerate(views):
        panel = _panel(figure, _LEFT + column * _WIDTH, top + row * _PANEL, _WIDTH, _PANEL)
        panel.scatter(places[:, 0], places[:, 1], s=3.6, marker="s", c=colours, linewidths=0)
        panel.set(xlim=(-1.1 * size * _WIDTH, 1.1 * size * _WIDTH), ylim=(-1.1 * size * _PANEL, 1.1 * size * _PANEL))


def _project(parts: Sequence[Part]) -> tuple[np.ndarray, np.ndarray]:
    """Project points into the picture, far ones first, and shade them by their normals."""
    ct, st, cp, sp = *_cos_sin(_EYE[0]), *_cos_sin(_EYE[1])
    camera = np.array([[-st, ct, 0], [-sp * ct, -sp * st, cp], [cp * ct, cp * st, sp]])
    places, colours = [], []
    for scan, rotation, colour in parts:
        points, normals = (rotate(rotation.float(), rows).numpy() @ camera.T for rows in scan.surface(POINTS))
        shade = 0.5 + 0.68 * np.abs(normals @ _LIGHT)[:, None]
        base = np.array(to_rgb(colour))
        places.append(points)
        colours.append(np.where(shade <= 1, base * shade, base + (1 - base) * (shade - 1)).clip(0, 1))
    every = np.concatenate(places)
    order = every[:, 2].argsort()
    return every[order], np.concatenate(colours)[order]


def _cos_sin(angle: float) -> tuple[float, float]:
    return float(np.cos(angle)), float(np.sin(angle))


def _caption(figure: Figure, column: int, top: float, first: tuple[str, bool], second: tuple[str, bool]) -> None:
    x, y = _LEFT + (column + 0.5) * _WIDTH, top + 2 * _PANEL + 0.16
    for (text, wrong), plain, weight, below in ((first, INK, "bold", 0), (second, MUTED, "normal", 0.2)):
        _write(figure, x, y + below, text, size=9, colour=WRONG if wrong else plain, weight=weight, align="center")


def _labels(figure: Figure, top: float, *texts: str) -> None:
    for row, text in enumerate(texts):
        _write(figure, 0.2, top + (row + 0.5) * _PANEL, text, size=9, colour=MUTED)


def _panel(figure: Figure, x: float, y: float, width: float, height: float) -> Axes:
    """Places are inches from the picture's upper left corner."""
    wide, tall = figure.get_size_inches()
    panel = figure.add_axes((x / wide, 1 - (y + height) / tall, width / wide, height / tall))
    panel.set_axis_off()
    return panel


def _write(
    figure: Figure,
    x: float,
    y: float,
    text: str,
    *,
    size: float,
    colour: str = INK,
    weight: str = "normal",
    align: str = "left",
) -> None:
    wide, tall = figure.get_size_inches()
    figure.text(x / wide, 1 - y / tall, text, size=size, color=colour, weight=weight, ha=align, va="center")
