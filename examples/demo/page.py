"""The demo as one self-contained page, where every shape can be rotated with the mouse."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from html import escape

import torch
from picture import STILL, Part, pair_parts
from trial import LIMIT, Pair, Scan, Seen, words

from qecnet.algebra import conjugate
from qecnet.evaluation import render_page

_STYLE = """<style>
:root { --scan: #9a9a94; --orange: #e08a00; --wrong: #c8351f; }
@media (prefers-color-scheme: dark) { :root { --scan: #a3a39c; --orange: #f0a830; --wrong: #ff7a64; } }
.lead { font-size: 1.2rem; max-width: 40em; }
.pairs > div > small { font: .72rem/1 var(--sans); color: var(--muted); }
.pairs b { font-size: .95rem; }
.wrong { color: var(--wrong); font-weight: 600; }
.pairs > div.bad canvas { border-color: var(--wrong); }
</style>"""
_POINTS = 3000
_STEPS, _NORMAL_STEPS = 32_000, 127
"""Whole numbers for a radius, as the script has them."""


def page(seen: Sequence[Seen], pairs: Sequence[Pair], told: str) -> str:
    """Render the page; `told` is the sentence below its title."""
    clouds = _Clouds()
    different, twice = ([pair for pair in pairs if pair.differ is differ] for differ in (True, False))
    sections = [
        _section(
            "shapes", "What is it, and how is it oriented?",
            "Left: points sampled from a shape in a random pose. Right: the same points, rotated upright by the "
            "predicted pose, with the predicted class.",
            [_shape_card(one, clouds) for one in seen],
        ),
        _section(
            "different", "Two different shapes of a class, aligned",
            "Left: two shapes, each in a random pose. Right: the orange one rotated by the predicted rotation "
            "between them; the blue one is shown upright.",
            [_pair_card(pair, clouds) for pair in different],
        ),
        _section(
            "twice", "One shape, scanned twice",
            "Two scans of the same shape: resampled points of a mesh, or another random 80% of a cloud.",
            [_pair_card(pair, clouds) for pair in twice],
        ),
    ]  # fmt: skip
    measured = (
        "<p><b>Pose error</b>: the angle between the predicted pose and that predicted for another, unrotated scan of "
        "the shape, rotated in the same way, up to the symmetry of the class: half a turn of a desk, which looks much "
        "the same, is no error. <b>Tilt</b>: the angle between the shape's up direction and the vertical after the "
        "scan is rotated by the predicted pose. <b>Rotation error</b> of two shapes: the angle to the true rotation; "
        f"all shapes of a class face the same way before they are rotated. Errors above "
        f"{LIMIT:.0f}° are marked.</p><p>The shapes are procedural, and the network has never seen them. It was "
        "trained on upright shapes only.</p>"
    )
    sections.append(("measured", "How the angles are measured", measured + clouds.script()))
    head = (
        f"{_STYLE}<h1>A shape in any pose goes in.<br>Its class and its orientation come out.</h1>"
        f'<p class="lead">{told}</p>'
        "<noscript><p>The shapes are drawn by a script in this page; enable JavaScript to see them.</p></noscript>"
        '<p class="note">Drag a shape to rotate it.</p>'
    )
    return render_page("qecnet: what is this shape, and how is it oriented?", head, sections)


class _Clouds:
    """The points of all scans on the page, each stored once."""

    def __init__(self) -> None:
        self.scans: list[Scan] = []

    def canvas(self, label: str, parts: Sequence[Part]) -> str:
        drawn = [[self._place(scan), *(round(x, 5) for x in q.tolist()), colour] for scan, q, colour in parts]
        return f"<canvas role='img' aria-label='{escape(label, quote=True)}' data-parts='{json.dumps(drawn)}'></canvas>"

    def script(self) -> str:
        encoded = json.dumps([_encoded(scan) for scan in self.scans])
        return f'<script type="application/json" id="clouds" data-shaded data-turn="-2.18">{encoded}</script>'

    def _place(self, scan: Scan) -> int:
        if scan not in self.scans:
            self.scans.append(scan)
        return self.scans.index(scan)


def _encoded(scan: Scan) -> str:
    points, normals = scan.surface(_POINTS)
    numbers = (_STEPS * points).round().to(torch.int16).numpy().astype("<i2").tobytes()
    return base64.b64encode(numbers + (_NORMAL_STEPS * normals).round().to(torch.int8).numpy().tobytes()).decode()


def _section(key: str, title: str, note: str, cards: Sequence[str]) -> tuple[str, str, str]:
    return key, title, f'<p class="note">{note}</p><div class="pairs">{"".join(cards)}</div>'


def _shape_card(one: Seen, clouds: _Clouds) -> str:
    scan, label = one.scan, words(one.answer.label)
    colour = "wrong" if one.label_is_wrong or one.pose_is_wrong else "blue"
    name = f"<b>{escape(label)}</b>, confidence {one.answer.confidence:.0%}"
    if one.label_is_wrong:
        name += f' <span class="wrong">✗ correct: {escape(words(scan.kind or ""))}</span>'
    elif scan.kind is None:
        name += f' <span class="faint">{escape(scan.name)}</span>'
    pose = f"pose error {one.error:.1f}°" + ("" if one.tilt is None else f", tilt {one.tilt:.1f}°")
    return _card(
        clouds.canvas(f"{scan.name}, input", [(scan, STILL, "scan")]),
        clouds.canvas(f"{scan.name}, rotated upright", [(scan, conjugate(one.answer.pose), colour)]),
        ("input, in a random pose", "rotated by the predicted pose"),
        f"{name}<br>{_marked(pose, one.pose_is_wrong)}",
        colour == "wrong",
    )


def _pair_card(pair: Pair, clouds: _Clouds) -> str:
    before, after = pair_parts(pair, "orange", "blue")
    error = "true rotation unknown" if pair.error is None else f"rotation error {pair.error:.1f}°"
    return _card(
        clouds.canvas(f"{pair.what}, input", before),
        clouds.canvas(f"{pair.what}, aligned", after),
        ("two scans", "aligned by the predicted rotation"),
        f"<b>{escape(pair.what)}</b><br>{_marked(error, pair.is_wrong)}", pair.is_wrong,
    )  # fmt: skip


def _card(before: str, after: str, labels: tuple[str, str], text: str, bad: bool) -> str:
    small = "".join(f"<small>{label}</small>" for label in labels)
    return f"<div{' class=bad' if bad else ''}>{small}{before}{after}<p>{text}</p></div>"


def _marked(text: str, wrong: bool) -> str:
    return f'<span class="wrong">✗ {text}</span>' if wrong else f'<span class="faint">{text}</span>'
