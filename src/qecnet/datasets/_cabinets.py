"""Furniture to put things on or in: table, desk, dresser, night stand, monitor. z up, front to −y, in metres."""

from __future__ import annotations

import numpy as np

from qecnet.datasets._solids import (
    Solid,
    box,
    cushion,
    join,
    lathe,
    loft,
    oval,
    rod,
    rounded_rectangle,
    tilt,
    translate,
    tube,
)
from qecnet.datasets._supports import drawers, feet, four_legs, star_base


def table(rng: np.random.Generator) -> Solid:
    """A top, square, long, round or oval, on four legs, three, a pedestal, or two trestles."""
    height = rng.uniform(0.38, 0.5) if rng.random() < 0.3 else rng.uniform(0.68, 0.78)
    thick = rng.uniform(0.02, 0.06)
    under = height - thick
    if rng.random() < 0.4:
        a = rng.uniform(0.4, 0.7)
        b = a * (1 if rng.random() < 0.6 else rng.uniform(0.6, 0.8))
        parts = [loft(np.stack([oval(a, b, z) for z in (under, height)]))]
        kind, inside = rng.choice(["pedestal", "three", "four"]), 0.66
    else:
        a, b = rng.uniform(0.5, 1.0), rng.uniform(0.35, 0.5)
        corner = rng.uniform(0.005, 0.12)
        parts = [loft(np.stack([rounded_rectangle(a, b, corner, z) for z in (under, height)]))]
        kind, inside = rng.choice(["four", "trestle", "panels", "pedestal"], p=[0.55, 0.2, 0.15, 0.1]), 0.97
    if kind == "pedestal":
        foot, waist = 0.55 * b, rng.uniform(0.03, 0.09)
        if rng.random() < 0.5:
            steps = [(foot, 0), (foot, 0.02), (1.3 * waist, 0.08), (waist, 0.4 * under), (waist, 0.8 * under)]
            parts.append(lathe([*steps, (2.2 * waist, under)]))
        else:
            parts += star_base(rng, foot + 0.1, under)
    elif kind == "three":
        for angle in np.pi / 6 + 2 * np.pi * np.arange(3) / 3:
            x, y = 0.6 * a * np.cos(angle), 0.6 * b * np.sin(angle)
            parts.append(rod((1.35 * x, 1.35 * y, 0), (x, y, under), 0.018, 0.03))
    elif kind == "four":
        x, y = inside * a, inside * b
        parts += four_legs(rng, x, (-y, y), under, round_legs=rng.random() < 0.5)
        if rng.random() < 0.6:
            apron = under - rng.uniform(0.06, 0.11)
            parts += [
                box((-x + 0.05, x - 0.05), (s * (y - 0.05) - 0.01, s * (y - 0.05) + 0.01), (apron, under))
                for s in (-1, 1)
            ]
            parts += [
                box((s * (x - 0.05) - 0.01, s * (x - 0.05) + 0.01), (-y + 0.05, y - 0.05), (apron, under))
                for s in (-1, 1)
            ]
    else:
        x, y = rng.uniform(0.65, 0.9) * a, 0.85 * b
        for s in (-1, 1):
            if kind == "panels":
                parts.append(box((s * x - 0.025, s * x + 0.025), (-y, y), (0, under)))
            else:
                parts.append(box((s * x - 0.04, s * x + 0.04), (-y, y), (0, 0.05)))
                parts.append(box((s * x - 0.03, s * x + 0.03), (-0.3 * y, 0.3 * y), (0.05, under - 0.04)))
                parts.append(box((s * x - 0.04, s * x + 0.04), (-0.8 * y, 0.8 * y), (under - 0.05, under)))
        level = rng.uniform(0.2, 0.5) * height
        parts.append(box((-x, x), (-0.025, 0.025), (level, level + 0.08)))
    return join(parts)


def desk(rng: np.random.Generator) -> Solid:
    """A top with drawers under one side or both and room for knees between, a panel at the back; some with shelves."""
    half, deep, height = rng.uniform(0.55, 0.9), rng.uniform(0.28, 0.4), rng.uniform(0.7, 0.78)
    thick, wide = rng.uniform(0.02, 0.045), rng.uniform(0.3, 0.42)
    under, front = height - thick, -deep + rng.uniform(0.02, 0.06)
    parts = [box((-half, half), (-deep, deep), (under, height))]
    sides = rng.choice(["left", "right", "both"], p=[0.3, 0.3, 0.4])
    for side, x in (("left", (-half + 0.02, -half + 0.02 + wide)), ("right", (half - 0.02 - wide, half - 0.02))):
        if sides in (side, "both"):
            low = rng.choice([0.0, 0.06, 0.3])
            parts.append(box(x, (front, deep - 0.03), (low, under)))
            parts += drawers(rng, x, (low + 0.02, under), front, 2 if low == 0.3 else int(rng.integers(3, 5)), 1)
            if low > 0:
                parts += [
                    rod((a, b, 0), (a, b, low), 0.02)
                    for a in (x[0] + 0.03, x[1] - 0.03)
                    for b in (front + 0.04, deep - 0.07)
                ]
        elif rng.random() < 0.5:
            edge = x[0] if side == "left" else x[1] - 0.03
            parts.append(box((edge, edge + 0.03), (front, deep - 0.03), (0, under)))
        else:
            edge = x[0] + 0.03 if side == "left" else x[1] - 0.03
            parts += [
                box((edge - 0.025, edge + 0.025), (b - 0.025, b + 0.025), (0, under))
                for b in (front + 0.04, deep - 0.07)
            ]
    panel = rng.uniform(0.1, 0.45)
    parts.append(box((-half + 0.04, half - 0.04), (deep - 0.06, deep - 0.04), (panel, under)))
    if rng.random() < 0.4:
        between = (-half + 0.02 + wide * (sides != "right"), half - 0.02 - wide * (sides != "left"))
        parts.append(box(between, (front, 0.5 * deep), (under - 0.1, under)))
        parts += drawers(rng, between, (under - 0.1, under), front, 1, 1)
    if rng.random() < 0.3:
        parts += _hutch(rng, half, deep, height)
    return join(parts)


def _hutch(rng: np.random.Generator, half: float, deep: float, height: float) -> list[Solid]:
    """Open shelves on the back of a desk."""
    rise, shelf = rng.uniform(0.3, 0.55), rng.uniform(0.2, 0.28)
    y = (deep - shelf, deep)
    parts = [box((x - 0.012, x + 0.012), y, (height, height + rise)) for x in (-half + 0.012, 0.0, half - 0.012)]
    parts += [box((-half, half), y, (z - 0.012, z + 0.012)) for z in (height + 0.5 * rise, height + rise)]
    return [*parts, box((-half, half), (deep - 0.012, deep), (height, height + rise))]


def dresser(rng: np.random.Generator) -> Solid:
    """A wide chest of drawers in two or three columns, some with a mirror, or a tall one with a single column."""
    tall = rng.random() < 0.3
    half = rng.uniform(0.38, 0.5) if tall else rng.uniform(0.6, 0.85)
    height = rng.uniform(1.1, 1.4) if tall else rng.uniform(0.75, 0.95)
    deep, lift = rng.uniform(0.2, 0.28), rng.uniform(0.04, 0.15)
    columns = 1 if tall else int(rng.integers(2, 4))
    rows = int(rng.integers(4, 7)) if tall else int(rng.integers(3, 5))
    parts = [box((-half, half), (-deep, deep), (lift, height))]
    parts += drawers(rng, (-half + 0.02, half - 0.02), (lift + 0.02, height - 0.02), -deep, rows, columns)
    parts += feet(rng, half, (-deep, deep), lift)
    over = rng.uniform(0.01, 0.035)
    parts.append(box((-half - over, half + over), (-deep - over, deep), (height, height + rng.uniform(0.02, 0.045))))
    if not tall and rng.random() < 0.3:
        across, rise = rng.uniform(0.5, 0.8) * half, rng.uniform(0.5, 0.8)
        top = height + 0.02
        parts.append(box((-across, across), (deep - 0.05, deep - 0.02), (top, top + rise)))
        parts.append(box((-across + 0.05, across - 0.05), (deep - 0.06, deep - 0.03), (top + 0.05, top + rise - 0.05)))
    return join(parts)


def night_stand(rng: np.random.Generator) -> Solid:
    """A small stand: a box of one to three drawers, one drawer over an open shelf, or a drawer on legs."""
    half, deep, height = rng.uniform(0.2, 0.3), rng.uniform(0.17, 0.25), rng.uniform(0.45, 0.68)
    thick, over = rng.uniform(0.02, 0.035), rng.uniform(0.0, 0.03)
    under = height - thick
    parts = [box((-half - over, half + over), (-deep - over, deep), (under, height))]
    kind = rng.choice(["chest", "shelf", "legs"])
    if kind == "chest":
        lift = rng.uniform(0.03, 0.14)
        parts.append(box((-half, half), (-deep, deep), (lift, under)))
        parts += drawers(rng, (-half, half), (lift + 0.01, under), -deep, int(rng.integers(2, 4)), 1)
        parts += feet(rng, half, (-deep, deep), lift)
        return join(parts)
    drawer = under - rng.uniform(0.14, 0.2)
    parts.append(box((-half, half), (-deep, deep), (drawer, under)))
    parts += drawers(rng, (-half + 0.01, half - 0.01), (drawer, under), -deep, 1, 1)
    if kind == "legs":
        parts += four_legs(rng, half, (-deep, deep), drawer, round_legs=rng.random() < 0.5)
        if rng.random() < 0.5:
            level = rng.uniform(0.1, 0.18)
            parts.append(box((-half + 0.02, half - 0.02), (-deep + 0.02, deep - 0.02), (level, level + 0.02)))
        return join(parts)
    lift = rng.uniform(0.03, 0.1)
    parts += [
        box((s * half - 0.012 * (1 + s), s * half + 0.012 * (1 - s)), (-deep, deep), (lift, drawer)) for s in (-1, 1)
    ]
    parts.append(box((-half, half), (deep - 0.015, deep), (lift, drawer)))
    parts.append(box((-half, half), (-deep, deep), (lift, lift + 0.025)))
    return join(parts + feet(rng, half, (-deep, deep), lift))


def monitor(rng: np.random.Generator) -> Solid:
    """A screen set into its frame, flat, curved or with a tube behind it, on a neck and a foot, or on two feet."""
    half = rng.uniform(0.22, 0.42)
    high = 2 * half / rng.choice([4 / 3, 16 / 10, 16 / 9, 21 / 9], p=[0.25, 0.3, 0.35, 0.1])
    frame, thick = rng.uniform(0.012, 0.035), rng.uniform(0.02, 0.05)
    low = rng.uniform(0.07, 0.16)
    kind = rng.choice(["flat", "curved", "tube"], p=[0.68, 0.14, 0.18])
    bend = rng.uniform(0.03, 0.07) if kind == "curved" else 0.0
    parts = [_screen(half, low, high, frame, thick, bend)]
    if kind == "tube":
        behind = rng.uniform(0.2, 0.32)
        rings = [
            _upright(half * s, high / 2 * s, y) for s, y in ((0.5, behind + 0.03), (0.55, behind), (0.95, 0.08), (1, 0))
        ]
        parts.append(translate(loft(np.stack(rings)), z=low + high / 2, y=thick))
        parts.append(lathe([(0.16, 0), (0.16, 0.015), (0.08, 0.04), (0.06, low + 0.02)]))
        return translate(join(parts), y=-behind / 3)
    parts.append(
        cushion((-0.5 * half, 0.5 * half), (thick - 0.01, thick + 0.035), (low + 0.25 * high, low + 0.75 * high), 0.02)
    )
    parts = [tilt(part, rng.uniform(0, 0.12), (0, thick, low + high / 2)) for part in parts]
    foot = rng.choice(["round", "plate", "v", "pair"], p=[0.3, 0.35, 0.2, 0.15])
    neck, y = rng.uniform(0.02, 0.05), thick + 0.035
    if foot == "pair":
        for s in (-1, 1):
            top, x = (s * 0.6 * half, thick / 2, low + 0.02), s * 0.65 * half
            parts += [rod(top, (x, thick / 2 + t * 0.12, 0.01), 0.012) for t in (-1, 1)]
        return join(parts)
    parts.append(box((-neck, neck), (y - 0.005, y + 0.025), (0.01, low + 0.45 * high)))
    if foot == "round":
        reach = rng.uniform(0.1, 0.14)
        parts.append(
            translate(
                loft(np.stack([oval(1.3 * reach * s, reach * s, z) for s, z in ((1, 0), (1, 0.01), (0.9, 0.02))])),
                y=y - 0.02,
            )
        )
    elif foot == "plate":
        wide, deep = rng.uniform(0.3, 0.55) * half, rng.uniform(0.08, 0.12)
        parts.append(
            translate(loft(np.stack([rounded_rectangle(wide, deep, 0.02, z) for z in (0, 0.015)])), y=y - 0.02)
        )
    else:
        wide = rng.uniform(0.4, 0.7) * half
        parts += [tube(np.array([[0, y, 0.02], [s * wide, y - 0.18, 0.012]]), [0.02, 0.012]) for s in (-1, 1)]
    return join(parts)


def _screen(half: float, low: float, high: float, frame: float, thick: float, bend: float) -> Solid:
    """A panel whose front is a frame around a screen set back a little; `bend` brings its sides forward."""
    a, b, set_back = half - frame - 0.002, high / 2 - frame - 0.002, min(0.3 * thick, 0.01)
    rings = [_upright(half + grow, high / 2 + grow, y) for grow, y in ((0, thick), (0, 0), (-frame, 0))]
    # The screen narrows to an upright line in steps: one fan about its middle would not follow the bend.
    rings += [_upright(a * share, b, set_back) for share in (1, 0.75, 0.5, 0.25, 0)]
    solid = np.stack(rings)
    solid[..., 1] -= bend * (solid[..., 0] / half) ** 2
    return translate(loft(solid), z=low + high / 2)


def _upright(a: float, b: float, y: float) -> np.ndarray:
    """A rectangular ring (32, 3) in the plane y, counter-clockwise as seen from −y, its long sides in many steps."""
    across = np.linspace(-1, 1, 9)[:-1]
    one = np.ones(8)
    x, z = np.concatenate([across, one, -across, -one]), np.concatenate([-one, across, one, -across])
    return np.stack([a * x, np.full(32, y), b * z], axis=-1)
