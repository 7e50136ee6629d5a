"""Furniture of the bathroom: toilet and bathtub. z up, front to −y, in metres."""

from __future__ import annotations

import numpy as np

from qecnet.datasets._solids import (
    Solid,
    box,
    join,
    lathe,
    loft,
    oval,
    rod,
    round_corners,
    rounded_rectangle,
    tilt,
    translate,
    tube,
)


def toilet(rng: np.random.Generator) -> Solid:
    """A bowl on a foot, its seat, a lid up or down, and a tank behind it, on some high up with a pipe to it."""
    a, b, rim = rng.uniform(0.17, 0.21), rng.uniform(0.22, 0.28), rng.uniform(0.36, 0.44)
    power, waist = rng.uniform(2.0, 2.8), rng.uniform(0.5, 0.7)
    foot = rng.uniform(0.7, 0.95)
    # Each ring's size, its height, and how far behind the middle it is: up the outside, then down into the bowl.
    outside = [(foot, 0, 0.06), (foot * 0.95, 0.04, 0.06), (waist, 0.35, 0.05), (0.75, 0.6, 0.02), (0.97, 0.85, 0)]
    rim_and_inside = [(1, 0.97, 0), (1, 1, 0), (0.8, 1, 0), (0.76, 0.9, 0), (0.5, 0.6, 0.02), (0.25, 0.45, 0.04)]
    rings = [oval(a * s, b * s, rim * z, power) + np.array([0, shift, 0]) for s, z, shift in outside + rim_and_inside]
    parts = [loft(np.stack(rings))]
    seat = [(0.74, 0.0), (1.04, 0.0), (1.06, 0.012), (1.04, 0.025), (0.74, 0.025), (0.72, 0.012)]
    parts.append(loft(np.stack([oval(a * s, b * s, rim + 0.005 + z, power) for s, z in seat]), hoop=True))
    lid = translate(loft(np.stack([oval(1.03 * a, 1.03 * b, z, power) for z in (0, 0.018)])), z=rim + 0.035)
    behind = b * 0.92
    if rng.random() < 0.55:
        lid = tilt(lid, np.pi / 2 + rng.uniform(0.02, 0.12), (0, behind, rim + 0.03))
        lid = translate(lid, y=-0.005)
    parts.append(lid)
    wide, deep, tall = rng.uniform(0.17, 0.25), rng.uniform(0.15, 0.21), rng.uniform(0.3, 0.42)
    start = behind + 0.05
    parts.append(box((-0.6 * a, 0.6 * a), (0.3 * b, start + 0.8 * deep), (0, rim - 0.02), top=1.15))
    lift = rng.uniform(0.5, 0.8) if rng.random() < 0.2 else 0.0
    low = rim + lift
    if lift:
        parts.append(rod((0, start + deep / 2, rim - 0.05), (0, start + deep / 2, low), 0.025))
    tank = [rounded_rectangle(wide * s, deep / 2 * s, 0.03, z) for s, z in ((0.88, low - 0.03), (1, low + tall))]
    cover = [rounded_rectangle(wide + 0.012, deep / 2 + 0.012, 0.03, low + tall + z) for z in (0, 0.035)]
    parts += [translate(loft(np.stack(ring)), y=start + deep / 2) for ring in (tank, cover)]
    if rng.random() < 0.5:
        button = [(0.025, 0.0), (0.025, 0.015)]
        parts.append(translate(lathe(button), y=start + deep / 2, z=low + tall + 0.033))
    else:
        lever = (start - 0.02, low + 0.85 * tall)
        parts.append(rod((0.8 * wide, *lever), (0.45 * wide, *lever), 0.01))
    return join(parts)


def bathtub(rng: np.random.Generator) -> Solid:
    """A hollow tub: built in with an apron, oval and freestanding, or on feet with one raised end; taps on some."""
    half, wide, high = rng.uniform(0.7, 0.95), rng.uniform(0.33, 0.45), rng.uniform(0.45, 0.65)
    kind = rng.choice(["built in", "oval", "feet"])
    clear = rng.uniform(0.08, 0.15) if kind == "feet" else 0.0
    power = {"built in": 12.0, "oval": rng.uniform(2.0, 3.0), "feet": rng.uniform(2.2, 3.5)}[kind]
    low = 1.0 if kind == "built in" else rng.uniform(0.7, 0.85)
    edge, inner = rng.uniform(0.04, 0.09), min(power, rng.uniform(2.2, 4.5))
    outside = [(low, 0.0), ((low + 1) / 2, 0.3), (0.97 + 0.03 * (low == 1), 0.75), (1.0, 0.95), (1.0, 1.0)]
    rings = [oval(half * s, wide * s, clear + (high - clear) * z, power, sides=48) for s, z in outside]
    a, b = half - edge, wide - edge
    floor = min(low, 0.9)
    hollow = [(1.0, 1.0), (0.97, 0.9), (0.5 + 0.45 * floor, 0.5), (0.92 * floor, 0.2), (0.8 * floor, 0.13)]
    rings += [oval(a * s, b * s, clear + (high - clear) * z, inner, sides=48) for s, z in hollow]
    tub = np.stack(rings)
    if kind == "feet" and rng.random() < 0.7:
        rise = rng.uniform(0.1, 0.25) * np.clip(tub[..., 0] / half, 0, 1) ** 2
        tub[..., 2] += rise * (tub[..., 2] - clear) / (high - clear)
    parts = [loft(tub)]
    if kind == "feet":
        for x, y in ((s * 0.55 * half, t * 0.5 * wide) for s in (-1, 1) for t in (-1, 1)):
            parts.append(rod((1.15 * x, 1.3 * y, 0), (x, y, clear + 0.12), 0.025, 0.05))
    if rng.random() < 0.6:
        spout = np.array(
            [[-half + 0.03, 0, high - 0.01], [-half + 0.03, 0, high + 0.16], [-half + 0.17, 0, high + 0.12]]
        )
        parts.append(tube(round_corners(spout), 0.018))
        parts += [rod((-half + 0.03, y, high - 0.01), (-half + 0.03, y, high + 0.07), 0.022) for y in (-0.1, 0.1)]
    return join(parts)
