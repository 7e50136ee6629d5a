"""Pictures of shapes: pairs before and after they are aligned, and the twenty worst failures of each kind."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qecnet.algebra import multiply
from qecnet.datasets import Dataset, open_dataset
from qecnet.evaluation.metrics import relative, rotations
from qecnet.evaluation.predict import Predictions
from qecnet.evaluation.protocol import Protocol
from qecnet.evaluation.report.page import Csv, Section, Value, chip, command, no_predictions, words
from qecnet.evaluation.report.pairing import Pairs, same_class, same_shape, typical, worst_names, worst_poses
from qecnet.evaluation.report.results import PROTOCOLS, Run
from qecnet.evaluation.symmetry import IDENTITY

_POINTS = 1400
_WORST = 20
_STEPS = 32_000  # whole numbers for a radius: points are kept as 16 bits

Part = tuple[int, NDArray[Any], str]
"""A shape's number, the rotation that it is drawn with (4,), WXYZ, and its colour."""


class Clouds:
    """The points of the shapes that are drawn, each kept once."""

    def __init__(self, dataset: Dataset, measured: Sequence[Predictions]) -> None:
        self.items = dataset.items("test")
        self.names = {n: name for found in measured for n, name in zip(found.shape.tolist(), found.name, strict=True)}
        self.places: dict[int, int] = {}
        self.encoded: list[str] = []

    def place(self, shape: int) -> int:
        """Where in the page's list the shape's points are."""
        if shape not in self.places:
            self.places[shape] = len(self.encoded)
            self.encoded.append(base64.b64encode(self._points(shape).tobytes()).decode())
        return self.places[shape]

    def canvas(self, label: str, parts: Sequence[Part]) -> str:
        """A picture that the page's script draws."""
        drawn = [[self.place(shape), *np.round(q, 5).tolist(), colour] for shape, q, colour in parts]
        return f"<canvas role='img' aria-label='{escape(label)}' data-parts='{json.dumps(drawn)}'></canvas>"

    def script(self) -> str:
        return f'<script type="application/json" id="clouds" data-turn="-0.96">{json.dumps(self.encoded)}</script>'

    def _points(self, shape: int) -> NDArray[np.int16]:
        if shape >= len(self.items) or self.items[shape].name != self.names[shape]:
            raise ValueError(
                f"--data: its test split is not the one that was measured ({self.names[shape]} is not in its place); "
                "give the same dataset"
            )
        cloud = self.items[shape].load_cloud(_POINTS).normalized()
        kept = np.random.default_rng(0).permutation(len(cloud))[:_POINTS]
        return np.round(_STEPS * cloud.points.numpy()[kept]).astype("<i2")


def gallery(run: Run, data: Path | None) -> Section:
    """Drawn where the shapes are at hand; the failures are written as tables in any case."""
    section = Section("gallery", "Gallery")
    named = _predictions(run, ("classification", "rotation"))
    turned = _predictions(run, ("rotation",)) if run.model.has_poses else None
    if named is None:
        section.say(no_predictions("rotation" if run.model.has_poses else "classification", run.name))
        return section
    section.tables.append(_names_csv(named[1]))
    if turned is not None:
        section.tables.append(_poses_csv(turned[1]))
    dataset = _dataset(run, data)
    if dataset is None:
        section.say(
            "Shapes are drawn from the dataset, which is not part of the run; "
            f"{command(f'qec report {run.name} --data PATH --force')} adds the pictures."
        )
        return section
    clouds = Clouds(dataset, [found for _, found in filter(None, (named, turned))])
    section.say(
        "<noscript>The pictures are drawn by a script inside this page, and scripts are switched off here.</noscript>"
        "Drag a picture to turn it."
    )
    if turned is not None:
        _aligned(section, *turned, clouds)
    elif run.model.has_poses:
        section.say(f"Pairs are missing. {no_predictions('rotation', run.name)}")
    _failed_names(section, *named, clouds)
    if turned is not None:
        _failed_poses(section, *turned, clouds)
    section.html.append(clouds.script())
    return section


def _predictions(run: Run, kinds: Sequence[str]) -> tuple[Protocol, Predictions] | None:
    for what in kinds:
        for protocol in PROTOCOLS:
            if (found := run.predictions(what, protocol)) is not None:
                return protocol, found
    return None


def _dataset(run: Run, data: Path | None) -> Dataset | None:
    name = run.measured[0].dataset
    return None if data is None and name != "shapes" else open_dataset(name, data, per_class=run.model.per_class)


def _aligned(section: Section, protocol: Protocol, found: Predictions, clouds: Clouds) -> None:
    for title, told, among in (
        ("Two shapes of one class", "two different test shapes of a class", same_class(found)),
        ("Two samplings of one shape", "two views of a test shape, each with its own points,", same_shape(found)),
    ):
        chosen = typical(found, among)
        section.html.append(f"<h3>{title}</h3>")
        section.note(
            f"Left: {told} as they come in, protocol {chip(protocol)}. Right: the second (orange) turned by the "
            "relative pose of their capsules, both then shown with the first (blue) upright. Of each class, the pair "
            "of median error: neither the best nor the worst."
        )
        cards = [_pair_card(found, clouds, chosen, i, after_only=False) for i in range(len(chosen.first))]
        section.html.append(f'<div class="pairs">{"".join(cards)}</div>')


def _failed_names(section: Section, protocol: Protocol, found: Predictions, clouds: Clouds) -> None:
    rows = worst_names(found, _WORST)
    section.html.append("<h3>The worst names</h3>")
    section.note(
        f"The {len(rows)} test shapes that were named wrong by the widest margin of activation, protocol "
        f"{chip(protocol)}, drawn upright."
    )
    cards = [_name_card(found, clouds, row) for row in rows]
    section.html.append(f'<div class="shapes">{"".join(cards)}</div>')


def _failed_poses(section: Section, protocol: Protocol, found: Predictions, clouds: Clouds) -> None:
    chosen = worst_poses(found, same_shape(found), _WORST)
    section.html.append("<h3>The worst poses</h3>")
    section.note(
        f"The {len(chosen.first)} test shapes with the largest error between two of their views, up to "
        f"symmetry, both named right, protocol {chip(protocol)}: the second view (orange) where the estimated rotation "
        "puts it on the first (blue, upright)."
    )
    cards = [_pair_card(found, clouds, chosen, i, after_only=True) for i in range(len(chosen.first))]
    section.html.append(f'<div class="shapes">{"".join(cards)}</div>')


def _name_card(found: Predictions, clouds: Clouds, row: int) -> str:
    truth, said = (words(found.classes[label]) for label in (found.label[row], found.predicted[row]))
    of_said, of_truth = (found.activations[row, label] for label in (found.predicted[row], found.label[row]))
    name = str(found.name[row])
    picture = clouds.canvas(f"{name}, named wrong", [(int(found.shape[row]), IDENTITY, "blue")])
    return (
        f"<div>{picture}<p><b>{said}</b>, not {truth}<br>"
        f'<span class="faint">{of_said:.2f} against {of_truth:.2f}, {escape(name)}</span></p></div>'
    )


def _pair_card(found: Predictions, clouds: Clouds, chosen: Pairs, i: int, after_only: bool) -> str:
    """The second view is turned by `pose₁ ∘ pose₂⁻¹`; then both by the inverse of the first view's rotation."""
    first, second = int(chosen.first[i]), int(chosen.second[i])
    poses = found.poses[:, 0].astype(np.float64)
    onto_first = _compose(relative(poses[second], poses[first]), found.rotation[second])
    upright = relative(found.rotation[first], IDENTITY)
    shapes_ = int(found.shape[first]), int(found.shape[second])
    name = " and ".join(dict.fromkeys(str(found.name[row]) for row in (first, second)))
    after = [(shapes_[0], IDENTITY, "blue"), (shapes_[1], _compose(upright, onto_first), "vermillion")]
    before = [(shape, found.rotation[row], c) for shape, row, c in zip(shapes_, (first, second), _COLOURS, strict=True)]
    pictures = clouds.canvas(f"{name}, aligned", after)
    if not after_only:
        pictures = clouds.canvas(f"{name}, before", before) + pictures
    plain, symmetric = (np.degrees(e[i]) for e in (chosen.plain, chosen.symmetric))
    return (
        f"<div>{pictures}<p><b>{words(found.classes[found.label[first]])}</b> {plain:.0f}°, symmetric {symmetric:.0f}°"
        f'<br><span class="faint">{escape(name)}</span></p></div>'
    )


_COLOURS = ("blue", "vermillion")


def _compose(p: NDArray[Any], q: NDArray[Any]) -> NDArray[Any]:
    """p ∘ q. (4,), (4,), WXYZ → (4,)"""
    return np.asarray(multiply(rotations("p", p), rotations("q", q)).numpy())


def _names_csv(found: Predictions) -> Csv:
    rows: list[list[Value]] = [
        [str(found.name[row]), found.classes[found.label[row]], found.classes[found.predicted[row]]]
        + [float(found.activations[row, label]) for label in (found.predicted[row], found.label[row])]
        for row in worst_names(found, _WORST)
    ]
    return Csv("failures-names.csv", ["shape", "truth", "named", "activation", "activation_of_truth"], rows)


def _poses_csv(found: Predictions) -> Csv:
    chosen = worst_poses(found, same_shape(found), _WORST)
    rows: list[list[Value]] = [
        [str(found.name[row]), found.classes[found.label[row]], float(plain), float(symmetric)]
        for row, plain, symmetric in zip(
            chosen.first, np.degrees(chosen.plain), np.degrees(chosen.symmetric), strict=True
        )
    ]
    return Csv("failures-poses.csv", ["shape", "class", "degrees", "symmetric_degrees"], rows)
