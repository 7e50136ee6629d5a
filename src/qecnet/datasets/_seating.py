"""Furniture to sit and lie on: chair, sofa, bed. z up, front to −y, in metres."""

from __future__ import annotations

import numpy as np

from qecnet.datasets._solids import Solid, box, cushion, join, loft, rod, round_corners, tilt, tube
from qecnet.datasets._supports import four_legs, star_base


def chair(rng: np.random.Generator) -> Solid:
    """Legs of four kinds, a seat, a leaning back of five kinds, armrests on some."""
    half, depth, height = rng.uniform(0.2, 0.28), rng.uniform(0.38, 0.5), rng.uniform(0.38, 0.5)
    front, back = -depth / 2, depth / 2
    thick = rng.uniform(0.025, 0.09)
    block = cushion if rng.random() < 0.5 else box
    parts = [block((-half, half), (front, back), (height - thick, height))]
    legs = rng.choice(["square", "round", "star", "sled"], p=[0.4, 0.25, 0.2, 0.15])
    if legs == "star":
        parts += star_base(rng, rng.uniform(0.24, 0.34), height - thick)
    elif legs == "sled":
        radius = rng.uniform(0.012, 0.02)
        x, y = half - radius, front + radius
        path = [(back, height - thick), (y, height - thick), (y, radius), (back, radius)]
        parts += [tube(round_corners(np.array([(s * x, *p) for p in path])), radius) for s in (-1, 1)]
        parts.append(rod((-x, back, radius), (x, back, radius), radius))
    else:
        parts += four_legs(rng, half, (front, back), height - thick, round_legs=legs == "round")
    rise, lean = rng.uniform(0.35, 0.65), rng.uniform(0.02, 0.25)
    parts += [tilt(part, lean, (0, back, height)) for part in _back(rng, half, back, height, rise)]
    if rng.random() < 0.4:
        up, wide = height + rng.uniform(0.17, 0.25), rng.uniform(0.035, 0.06)
        for s in (-1, 1):
            across = (s * half - wide / 2, s * half + wide / 2)
            parts.append(box(across, (front + 0.04, back + np.tan(lean) * (up - height)), (up - 0.03, up)))
            parts.append(box((s * half - 0.018, s * half + 0.018), (front + 0.06, front + 0.1), (height - thick, up)))
    return join(parts)


def _back(rng: np.random.Generator, half: float, y: float, low: float, rise: float) -> list[Solid]:
    """The back of a chair, upright: a panel, a cushion, upright or level slats, or a bent board."""
    thick, top = rng.uniform(0.02, 0.04), low + rise
    depth = (y - thick, y)
    kind = rng.choice(["panel", "cushion", "upright", "level", "bent"])
    if kind == "panel":
        return [box((-half, half), depth, (low - 0.02, top))]
    if kind == "cushion":
        gap = rng.uniform(0, 0.15)
        posts = [box((s * half * 0.5 - 0.02, s * half * 0.5 + 0.02), depth, (low - 0.05, top - 0.1)) for s in (-1, 1)]
        return [cushion((-half, half), (y - 0.06 - thick, y - thick), (low + gap, top)), *posts]
    if kind == "bent":
        across = np.linspace(-1, 1, 9)
        bow = rng.uniform(0.04, 0.07) * (across**2 - 1)
        line = np.concatenate([np.stack([half * across, y - bow - thick * s], -1)[::d] for s, d in ((1, 1), (0, -1))])
        start = low + rng.uniform(-0.02, 0.12)
        slices = [np.column_stack([line, np.full(len(line), z)]) for z in (start, top)]
        depth = (y + 0.03, y + 0.05)
        posts = [box((s * half * 0.6 - 0.015, s * half * 0.6 + 0.015), depth, (low - 0.04, top - 0.1)) for s in (-1, 1)]
        posts.append(box((-0.6 * half, 0.6 * half), (y - 0.06, y + 0.05), (low - 0.05, low - 0.03)))
        return [loft(np.stack(slices)), *posts]
    post = rng.uniform(0.03, 0.045)
    sides = [(-half, post - half), (half - post, half)]
    parts = [box(x, depth, (low - 0.03, top)) for x in sides]
    parts.append(box((-half, half), depth, (top - rng.uniform(0.05, 0.12), top)))
    count = int(rng.integers(3, 6))
    if kind == "upright":
        middles = np.linspace(-half, half, count + 2)[1:-1]
        return parts + [box((x - 0.015, x + 0.015), (y - 0.7 * thick, y - 0.2 * thick), (low, top)) for x in middles]
    middles = np.linspace(low, top - 0.1, count + 1)[1:]
    return parts + [box((-half, half), (y - 0.8 * thick, y - 0.2 * thick), (z - 0.05, z)) for z in middles]


def sofa(rng: np.random.Generator) -> Solid:
    """A base, one to four seats with back cushions, arms that are square, soft or rolled; some with a long corner."""
    seats = int(rng.integers(2, 5))
    half, depth = seats * rng.uniform(0.3, 0.36), rng.uniform(0.75, 1.0)
    front, back, seat = -depth / 2, depth / 2, rng.uniform(0.36, 0.46)
    feet, top, arm = rng.uniform(0.02, 0.12), rng.uniform(0.72, 0.95), rng.uniform(0.12, 0.25)
    behind, soft = rng.uniform(0.16, 0.24), rng.uniform(0.03, 0.06)
    parts = [box((-half, half), (front + 0.02, back), (feet, seat - 0.12))]
    parts.append(tilt(cushion((-half, half), (back - behind, back), (feet, top), soft), 0.08, (0, back, feet)))
    width = 2 * half / seats
    lean = rng.uniform(0.1, 0.3)
    for i in range(seats):
        x = (i * width - half + 0.006, (i + 1) * width - half - 0.006)
        parts.append(cushion(x, (front, back - behind), (seat - 0.14, seat), soft))
        pillow = cushion(x, (back - behind - 0.14, back - behind + 0.02), (seat, top + rng.uniform(-0.05, 0.04)), 0.06)
        parts.append(tilt(pillow, lean, (0, back - behind, seat)))
    height, kind = rng.uniform(0.55, 0.66), rng.choice(["square", "soft", "rolled"])
    for s in (-1, 1):
        x = (half, half + arm) if s > 0 else (-half - arm, -half)
        parts.append((cushion if kind == "soft" else box)(x, (front, back), (feet, height)))
        if kind == "rolled":
            middle = sum(x) / 2 + s * 0.02
            parts.append(rod((middle, front - 0.01, height), (middle, back, height), 0.55 * arm))
    if rng.random() < 0.25:
        long = rng.uniform(0.5, 0.8)
        parts.append(box((half - width, half + arm), (front - long, front), (feet, seat - 0.12)))
        parts.append(cushion((half - width, half + arm), (front - long, front), (seat - 0.14, seat), soft))
    for at in (-half - arm / 2, half + arm / 2):
        parts += [rod((at, y, 0), (at, y, feet), 0.025, 0.04) for y in (front + 0.06, back - 0.06)]
    return join(parts)


def bed(rng: np.random.Generator) -> Solid:
    """A frame on legs or to the floor, a mattress, pillows, a headboard; some with a blanket, a footboard, posts."""
    half, length = rng.uniform(0.45, 1.0), rng.uniform(1.9, 2.15)
    foot, head, base = -length / 2, length / 2, rng.uniform(0.2, 0.4)
    mattress = base + rng.uniform(0.15, 0.28)
    clear = rng.uniform(0.0, 0.15)
    parts = [box((-half - 0.02, half + 0.02), (foot - 0.02, head), (clear, base))]
    parts.append(cushion((-half, half), (foot, head), (base - 0.02, mattress), 0.06))
    if rng.random() < 0.7:
        upto = head - rng.uniform(0.5, 0.8)
        parts.append(cushion((-half - 0.03, half + 0.03), (foot - 0.02, upto), (base + 0.03, mattress + 0.04), 0.05))
    count = 1 if half < 0.6 else 2
    for middle in (np.arange(count) + 0.5) / count * 2 * half - half:
        wide = 0.8 * half / count
        pillow = cushion((middle - wide, middle + wide), (head - 0.45, head - 0.06), (mattress, mattress + 0.13), 0.065)
        parts.append(tilt(pillow, -0.2, (0, head - 0.3, mattress)))
    high, board = rng.uniform(0.85, 1.3), rng.uniform(0.04, 0.1)
    kind = rng.choice(["board", "arch", "rails"])
    parts += _board(half + 0.03, (head, head + board), high, kind, rng)
    if rng.random() < 0.45:
        low = rng.uniform(base + 0.1, mattress + 0.25)
        parts += _board(half + 0.03, (foot - 0.02 - board, foot - 0.02), low, kind, rng)
    if clear > 0.04 or rng.random() < 0.3:
        x, post = half - 0.03, rng.uniform(0.03, 0.05)
        tall = 2.0 if rng.random() < 0.15 else clear
        corners = [(a, b) for a in (-x, x) for b in (foot + 0.05, head - 0.05)]
        parts += [box((a - post, a + post), (b - post, b + post), (0, tall)) for a, b in corners if tall > 0.02]
        if tall > 1:
            rails = [((-x, b), (x, b)) for b in (foot + 0.05, head - 0.05)]
            rails += [((a, foot + 0.05), (a, head - 0.05)) for a in (-x, x)]
            parts += [rod((*a, tall), (*b, tall), post) for a, b in rails]
    return join(parts)


def _board(half: float, y: tuple[float, float], high: float, kind: str, rng: np.random.Generator) -> list[Solid]:
    """A head- or footboard from the floor up: plain, arched, or rails between posts."""
    if kind == "board":
        return [box((-half, half), y, (0, high))]
    if kind == "arch":
        angle = np.linspace(0, np.pi, 13)
        rise = min(0.25, 0.4 * high)
        edge = np.stack([half * np.cos(angle), high - rise + rise * np.sin(angle)], -1)
        edge = np.concatenate([[[half, 0.0]], edge, [[-half, 0.0]]])
        return [loft(np.stack([np.column_stack([edge[:, 0], np.full(len(edge), at), edge[:, 1]]) for at in y[::-1]]))]
    middle, count = sum(y) / 2, int(rng.integers(5, 10))
    bars = [rod((x, middle, 0.2), (x, middle, high - 0.03), 0.012) for x in np.linspace(-half, half, count + 2)[1:-1]]
    posts = [rod((x, middle, 0), (x, middle, high + 0.06), 0.03) for x in (-half, half)]
    levels = [rod((-half, middle, z), (half, middle, z), 0.022) for z in (0.25, high - 0.03)]
    return bars + posts + levels
