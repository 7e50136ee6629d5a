"""What furniture stands on, and the fronts of drawers, for more than one class."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from qecnet.datasets._solids import Solid, box, lathe, rod, rotate_about_z, translate, tube


def four_legs(
    rng: np.random.Generator, half: float, y: tuple[float, float], height: float, round_legs: bool
) -> list[Solid]:
    """Legs at the corners of |x| ≤ half and y, from the floor to `height`: upright and square, or round and splayed."""
    thick = rng.uniform(0.018, 0.035)
    inset = thick + rng.uniform(0, 0.03)
    splay = rng.uniform(0, 0.12) * height
    parts = []
    for s in (-1, 1):
        for at, t in ((y[0] + inset, -1), (y[1] - inset, 1)):
            x = s * (half - inset)
            if round_legs:
                foot = (x + s * splay, at + t * splay, 0)
                parts.append(rod(foot, (x, at, height), rng.uniform(0.5, 1) * thick, thick))
            else:
                parts.append(box((x - thick, x + thick), (at - thick, at + thick), (0, height)))
    if rng.random() < 0.35:
        z, x = rng.uniform(0.2, 0.5) * height, half - inset
        across = 0.0 if not round_legs else splay * (1 - z / height)
        ends = (y[0] + inset - across, y[1] - inset + across)
        parts += [rod((s * (x + across), ends[0], z), (s * (x + across), ends[1], z), 0.4 * thick) for s in (-1, 1)]
    return parts


def star_base(rng: np.random.Generator, reach: float, height: float) -> list[Solid]:
    """A column on four or five arms with castors, or on a round foot."""
    column = rng.uniform(0.02, 0.035)
    parts = [rod((0, 0, 0.05), (0, 0, height), column)]
    if rng.random() < 0.25:
        return [*parts, lathe([(reach, 0), (reach, 0.015), (0.5 * reach, 0.04), (column, 0.08)])]
    arms = int(rng.integers(4, 6))
    for i in range(arms):
        arm = tube(np.array([[0, 0, 0.12], [0, -reach, 0.07]]), [0.03, 0.018])
        castor = rod((-0.015, -reach, 0.035), (0.015, -reach, 0.035), 0.035)
        parts += [rotate_about_z(part, 2 * np.pi * i / arms) for part in (arm, castor)]
    return parts


def drawers(
    rng: np.random.Generator, x: tuple[float, float], z: tuple[float, float], front: float, rows: int, columns: int
) -> list[Solid]:
    """Fronts that stand a little proud of the plane y = front, each with a knob or a bar to pull."""
    proud, gap = rng.uniform(0.012, 0.03), rng.uniform(0.008, 0.02)
    bar = rng.random() < 0.5
    xs, zs = np.linspace(*x, columns + 1), np.linspace(*z, rows + 1)
    parts = []
    for left, right in pairwise(xs):
        for low, high in pairwise(zs):
            parts.append(box((left + gap, right - gap), (front - proud, front), (low + gap, high - gap)))
            middle, level, pull = (left + right) / 2, (low + high) / 2, front - proud - 0.025
            if bar:
                reach = 0.22 * (right - left)
                parts.append(rod((middle - reach, pull, level), (middle + reach, pull, level), 0.009))
                parts += [
                    rod((middle + s * reach * 0.9, front, level), (middle + s * reach * 0.9, pull, level), 0.007)
                    for s in (-1, 1)
                ]
            else:
                places = (middle,) if right - left < 0.5 else (middle - (right - left) / 4, middle + (right - left) / 4)
                parts += [rod((at, front, level), (at, pull, level), 0.01, 0.02) for at in places]
    return parts


def feet(rng: np.random.Generator, half: float, y: tuple[float, float], height: float) -> list[Solid]:
    """Short feet under a cabinet, round and tapered, or a plinth set back."""
    if rng.random() < 0.4:
        return [box((-half + 0.02, half - 0.02), (y[0] + 0.03, y[1]), (0, height))]
    places = [(a, b) for a in (-half + 0.05, half - 0.05) for b in (y[0] + 0.05, y[1] - 0.05)]
    return [translate(rod((0, 0, 0), (0, 0, height), 0.018, 0.032), a, b) for a, b in places]
