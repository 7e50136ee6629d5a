"""The demo as a page that needs no other file: every shape can be turned with the mouse."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from html import escape

import torch
from picture import STILL, Part, pair_parts
from trial import LIMIT, Pair, Scan, Seen, words

from qecnet.algebra import conjugate
from qecnet.evaluation.report.page import Section, document

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
    """HTML; `told` says in a sentence what came of it."""
    clouds = _Clouds()
    different, twice = ([pair for pair in pairs if pair.differ is differ] for differ in (True, False))
    sections = [
        _section(
            "shapes", "What is it, and which way is it turned?",
            "Left: points from the surface, in a pose that the network is not told. Right: the same points, turned "
            "back by the pose that it found; the name is its answer, too.",
            [_shape_card(one, clouds) for one in seen],
        ),
        _section(
            "different", "Two different shapes of one kind, brought onto each other",
            "Left: two shapes, each in a pose of its own. Right: the orange one turned by the rotation between "
            "their two poses; both are then shown with the blue one upright.",
            [_pair_card(pair, clouds) for pair in different],
        ),
        _section(
            "twice", "One shape, scanned twice",
            "The same with two scans of one shape: new points of a mesh, or another eight tenths of a cloud's.",
            [_pair_card(pair, clouds) for pair in twice],
        ),
    ]  # fmt: skip
    measured = Section("measured", "How the angles are measured")
    measured.say(
        "<b>Pose off by</b>: another scan of the shape, unturned, gets a pose as well; turned as the shape was, it "
        "should be the pose that was found. Of a desk, which looks much the same after half a turn, half a turn does "
        "not count; nor do the declared symmetries of other classes. <b>Leans by</b>: the angle between the shape's "
        "own upward direction and the vertical, once it is turned back. <b>Off by</b>, of two shapes: the angle to the "
        f"true rotation; our own shapes all face the same way before they are turned. More than {LIMIT:.0f}° is marked."
    )
    measured.say(
        "The shapes are drawn by qecnet's own code from a seed; the network has never seen one of them. It was "
        "trained on upright shapes only."
    )
    measured.html.append(clouds.script())
    head = (
        f"{_STYLE}<h1>A shape in any pose goes in.<br>Its name and its orientation come out.</h1>"
        f'<p class="lead">{told}</p>'
        "<noscript><p>Shapes are drawn by a script inside this page, and scripts are switched off here.</p></noscript>"
        '<p class="note">Drag a shape to turn it.</p>'
    )
    return document("qecnet: what is this shape, and which way is it turned?", head, [*sections, measured], script=True)


class _Clouds:
    """The points of the scans that are drawn, each kept once."""

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


def _section(key: str, title: str, note: str, cards: Sequence[str]) -> Section:
    section = Section(key, title)
    section.note(note)
    section.html.append(f'<div class="pairs">{"".join(cards)}</div>')
    return section


def _shape_card(one: Seen, clouds: _Clouds) -> str:
    scan, label = one.scan, words(one.answer.label)
    colour = "wrong" if one.name_is_wrong or one.pose_is_wrong else "blue"
    name = f"<b>{escape(label)}</b>, {one.answer.confidence:.0%} sure"
    if one.name_is_wrong:
        name += f' <span class="wrong">✗ it is a {escape(words(scan.kind or ""))}</span>'
    elif scan.kind is None:
        name += f' <span class="faint">{escape(scan.name)}</span>'
    pose = f"pose off by {one.error:.1f}°" + ("" if one.lean is None else f", leans by {one.lean:.1f}°")
    return _card(
        clouds.canvas(f"{scan.name}, as it came in", [(scan, STILL, "scan")]),
        clouds.canvas(f"{scan.name}, brought upright", [(scan, conjugate(one.answer.pose), colour)]),
        ("a scan, in any pose", "brought upright by the pose found"),
        f"{name}<br>{_marked(pose, one.pose_is_wrong)}",
        colour == "wrong",
    )


def _pair_card(pair: Pair, clouds: _Clouds) -> str:
    before, after = pair_parts(pair, "orange", "blue")
    off = "no one knows the answer" if pair.error is None else f"off by {pair.error:.1f}°"
    return _card(
        clouds.canvas(f"{pair.what}, as they came in", before),
        clouds.canvas(f"{pair.what}, aligned", after),
        ("two scans", "turned by the rotation found"),
        f"<b>{escape(pair.what)}</b><br>{_marked(off, pair.is_wrong)}", pair.is_wrong,
    )  # fmt: skip


def _card(before: str, after: str, labels: tuple[str, str], text: str, bad: bool) -> str:
    small = "".join(f"<small>{label}</small>" for label in labels)
    return f"<div{' class=bad' if bad else ''}>{small}{before}{after}<p>{text}</p></div>"


def _marked(text: str, wrong: bool) -> str:
    return f'<span class="wrong">✗ {text}</span>' if wrong else f'<span class="faint">{text}</span>'
