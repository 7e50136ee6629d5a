"""Charts of the report: series in their own units, placed on an SVG that the template draws."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from qecnet.evaluation.metrics import EXPECTED_RANDOM_RAE
from qecnet.evaluation.published import published_figures
from qecnet.evaluation.report._tables import KINDS, name_level
from qecnet.evaluation.results import (
    BINS,
    HISTOGRAM_BINS,
    ErrorGroups,
    ProtocolName,
    RobustnessResult,
)
from qecnet.outcome import Epoch

Points = Sequence[tuple[float, float]] | NDArray[Any]


@dataclass(frozen=True)
class Series:
    """Points with a colour of the style sheet; `form` is line, dashed, dotted, dots, rings, diamonds, bars, spans.

    The points of bars are left ends of bins of 5°, those of spans come in pairs, low and high.
    """

    form: str
    colour: str
    points: Points


@dataclass(frozen=True)
class ReportChart:
    """Series over a range of x and of y, with ticks."""

    title: str
    x_label: str
    y_label: str
    x_range: tuple[float, float]
    y_range: tuple[float, float]
    series: Sequence[Series]
    x_ticks: Sequence[tuple[float, str]]
    width: int = 560
    height: int = 270
    left: ClassVar[int] = 46

    @property
    def base(self) -> int:
        """Where the x axis is, in pixels."""
        return self.height - (38 if self.x_label else 20)

    @property
    def y_ticks(self) -> list[tuple[float, str]]:
        return list_ticks(*self.y_range, 5 if self.height > 200 else 3)

    def x(self, value: float) -> float:
        """Place a value on the x axis, in pixels."""
        low, high = self.x_range
        return round(self.left + (float(value) - low) / (high - low) * (self.width - self.left - 10), 1)

    def y(self, value: float) -> float:
        """Place a value on the y axis, in pixels; what is beyond the range lies on its bound."""
        low, high = self.y_range
        return round(self.base - (min(max(float(value), low), high) - low) / (high - low) * (self.base - 24), 1)

    def path(self, points: Points) -> str:
        """Write a line through points as the commands of an SVG path."""
        return "M" + "L".join(f"{self.x(x)} {self.y(y)}" for x, y in points) if len(points) else ""


def list_ticks(low: float, high: float, count: int = 5) -> list[tuple[float, str]]:
    """Place about `count` ticks at round numbers."""
    rough = (high - low) / count
    power = 10 ** math.floor(math.log10(rough))
    step = power * min((1, 2, 5, 10), key=lambda n: abs(n * power - rough))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [(n * step, f"{n * step:g}") for n in range(first, last + 1)]


_EDGES = np.linspace(0, 180, HISTOGRAM_BINS + 1)
_DEGREES = [(float(n), str(n)) for n in range(0, 181, 30)]
_RANDOM = 100 * (np.radians(_EDGES) - np.sin(np.radians(_EDGES))) / np.pi
"""The percentage of uniformly random rotations whose angle is below each edge."""


def error_charts(groups: ErrorGroups, title: str) -> list[ReportChart]:
    """Draw a histogram of errors and their cumulative curves."""
    if groups.all_classes is None:
        return []
    plain, symmetric = groups.all_classes, groups.all_classes.symmetric
    shares, up_to, guess = 100 * np.array(plain.histogram), 100 * np.array(symmetric.histogram), np.diff(_RANDOM)
    histogram = [
        Series("bars", "blue", np.stack((_EDGES[:-1], shares), 1)),
        Series("line", "green", np.stack((np.repeat(_EDGES, 2)[1:-1], np.repeat(up_to, 2)), 1)),
        Series("dotted", "grey", np.stack((_EDGES[:-1] + 2.5, guess), 1)),
    ]
    curves = [Series("dotted", "grey", np.stack((_EDGES, _RANDOM), 1))]
    for errors, colour in ((plain, "blue"), (symmetric, "green"), (groups.no_sym, "vermillion")):
        if errors is not None:
            total = 100 * np.cumsum([0, *errors.histogram])
            curves.append(Series("line", colour, np.stack((_EDGES, total), 1)))
            curves.append(Series("dots", colour, np.stack((BINS, 100 * np.array(errors.cumulative)), 1)))
    y_label, x_range, top = "% of errors", (0.0, 180.0), float(max(*shares, *up_to, *guess))
    return [
        ReportChart(title, "error, degrees", y_label, x_range, (0, 1.05 * top), histogram, _DEGREES),
        ReportChart(title, "error below, degrees", y_label, x_range, (0, 101), curves, _DEGREES),
    ]


_LOSSES = (("loss", "line", "ink"), ("classification_loss", "line", "pink"), ("pose_loss", "line", "vermillion"))
_ACCURACIES = (
    *(("train_accuracy", "line", "ink"), ("validation_nr", "line", "green")),
    ("validation_ar", "dashed", "blue"),  # dashed: it may lie on the upright one
)


def training_charts(log: Sequence[Epoch]) -> list[ReportChart]:
    """Draw loss and accuracy over epochs."""
    first, last = log[0].epoch, max(log[-1].epoch, log[0].epoch + 1)
    ticks = [(x, text) for x, text in list_ticks(first, last) if x == int(x)]
    charts = []
    for label, scale, chosen in (("loss", 1, _LOSSES), ("accuracy, %", 100, _ACCURACIES)):
        series = []
        for name, form, colour in chosen:
            points = [(e.epoch, scale * value) for e in log if (value := getattr(e, name)) is not None]
            series.append(Series("dots" if len(points) == 1 else form, colour, points))
        top = 101 if scale == 100 else 1.05 * max(y for one in series for _, y in one.points) or 1
        charts.append(ReportChart("", "epoch", label, (first, last), (0, top), series, ticks))
    return charts


_FALLING = ("frames", "points")
"""Kinds whose lower levels are worse."""


def robustness_charts(results: Mapping[ProtocolName, RobustnessResult]) -> list[list[ReportChart]]:
    """Draw accuracy and error for each kind of corruption, from its mildest level to the worst."""
    kinds = dict.fromkeys(one.kind for found in results.values() for one in found.levels)
    return [_level_charts(results, kind) for kind in kinds]


def _level_charts(results: Mapping[ProtocolName, RobustnessResult], kind: str) -> list[ReportChart]:
    """Begin with the uncorrupted input."""
    levels = {one.level for found in results.values() for one in found.levels if one.kind == kind}
    values = sorted(levels, reverse=kind in _FALLING)
    places = [("frames", 1.0), *((kind, level) for level in values if (kind, level) != ("frames", 1.0))]
    guess = [(-0.35, EXPECTED_RANDOM_RAE), (len(places), EXPECTED_RANDOM_RAE)]
    accuracy, errors = [], [Series("dotted", "grey", guess)]
    for protocol, result in results.items():
        colour, shift = ("blue", -0.06) if protocol == "strict" else ("vermillion", 0.06)
        found = [(i + shift, result.by_level[place]) for i, place in enumerate(places) if place in result.by_level]
        accuracy.append(Series("spans", colour, [(x, 100 * bound) for x, one in found for bound in one.interval]))
        for form in ("line", "dots"):
            accuracy.append(Series(form, colour, [(x, 100 * one.accuracy) for x, one in found]))
        for name, forms in (("rae", ("line", "dots")), ("rae_all", ("dashed", "rings"))):
            points = [(x, getattr(one, name)) for x, one in found if getattr(one, name) is not None]
            errors += [Series(form, colour, points) for form in forms]
    published = [row for row in published_figures().robustness if (row.kind, row.level) in places]
    at_paper = [(float(places.index((row.kind, row.level))), row) for row in published]
    accuracy.append(Series("diamonds", "grey", [(x, 100 * row.accuracy) for x, row in at_paper]))
    errors.append(Series("diamonds", "grey", [(x, row.rae) for x, row in at_paper]))
    ticks = [(float(i), name_level(*place) if i else "none") for i, place in enumerate(places)]
    x_range = (-0.35, len(places) - 0.65)
    return [
        ReportChart(KINDS[kind][0], "", "accuracy, %", x_range, (0, 102), accuracy, (), 270, 170),
        ReportChart("", "", "error, angle/π", x_range, (0, 0.75), errors, ticks, 270, 160),
    ]
