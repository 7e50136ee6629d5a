"""How errors of rotation are distributed: the appendix's cumulative histograms, plain and up to symmetry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from qecnet.evaluation.metrics import BINS
from qecnet.evaluation.protocol import Protocol
from qecnet.evaluation.report.drawing import BLUE, GREEN, MUTED, VERMILLION, panel
from qecnet.evaluation.report.page import Csv, Section, Value, chip, legend, not_measured
from qecnet.evaluation.report.results import COUNTED, HISTOGRAM, Groups, Rotation, Run
from qecnet.evaluation.report.rotation import COUNTED_NAMES, NO_POSES, WAYS

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def distributions(run: Run) -> Section:
    """Histograms and cumulative curves, of the first protocol in sight and of the others folded."""
    section = Section("errors", "How errors are distributed")
    if not run.model.has_poses:
        section.say(NO_POSES)
        return section
    if not run.rotation:
        section.say(not_measured("rotation", run.name, "strict"))
        return section
    (protocol, first), *rest = run.rotation.items()
    _draw(section, protocol, first)
    for other, found in rest:
        inside = Section("", "")
        _draw(inside, other, found)
        section.folded(f"The same under the protocol {other}", inside)
    return section


def _draw(section: Section, protocol: Protocol, found: Rotation) -> None:
    panels = []
    for mode in found.modes:
        groups = found.modes[mode]["all"]
        of_all = f"{mode}, {COUNTED_NAMES[mode]['all']}"
        if groups.all_classes is not None:
            label = f"errors of {of_all}, protocol {protocol}"
            panels += [
                panel(5.6, 2.7, f"Histogram of {label}", _histogram, groups, of_all),
                panel(5.6, 2.7, f"Cumulative {label}", _cumulative, groups, of_all),
            ]
    section.figure(
        f"Errors of rotation under the protocol {chip(protocol)}, nothing left out. Histograms have bins of 5° over "
        "all classes; curves give the share of errors below an angle, with dots at "
        f"{', '.join(map(str, BINS[:-1]))} and {BINS[-1]}°.",
        panels,
        _distribution_csv(protocol, found),
        legend(
            ("block blue", "all classes, plain"),
            ("green", "all classes, symmetric"),
            ("vermillion", "no-sym, plain"),
            ("grey dotted", "a guess at random"),
        ),
    )


def _guess(degrees: NDArray[Any]) -> NDArray[Any]:
    """The percentage of uniform random rotations whose angle is below."""
    radians = np.radians(degrees)
    return np.asarray(100 * (radians - np.sin(radians)) / np.pi)


def _histogram(axes: Axes, groups: Groups, title: str) -> None:
    assert groups.all_classes is not None
    edges = np.linspace(0, 180, HISTOGRAM + 1)
    plain, symmetric = (100 * np.array(getattr(groups.all_classes, way).histogram) for way in WAYS)
    axes.bar(edges[:-1], plain, width=5, align="edge", color=BLUE, alpha=0.75, linewidth=0)
    axes.stairs(symmetric, edges, color=GREEN, linewidth=1.4)
    axes.plot(edges[:-1] + 2.5, np.diff(_guess(edges)), ":", color=MUTED, linewidth=1.2)
    axes.set(xlim=(0, 180), ylim=(0, None), xlabel="error, degrees", ylabel="% of errors", title=title)
    axes.set_xticks(range(0, 181, 30))


def _cumulative(axes: Axes, groups: Groups, title: str) -> None:
    """From the histogram's bins, whose bounds hold all of BINS."""
    edges = np.linspace(0, 180, HISTOGRAM + 1)
    axes.plot(edges, _guess(edges), ":", color=MUTED, linewidth=1.2)
    for errors, way, colour in (
        (groups.all_classes, "plain", BLUE),
        (groups.all_classes, "symmetric", GREEN),
        (groups.no_sym, "plain", VERMILLION),
    ):
        if errors is not None:
            spread = getattr(errors, way)
            axes.plot(edges, 100 * np.cumsum([0, *spread.histogram]), color=colour)
            axes.plot(BINS, 100 * np.array(spread.cumulative), "o", color=colour, markersize=3)
    axes.set(xlim=(0, 180), ylim=(0, 101), xlabel="error below, degrees", ylabel="% of errors", title=title)
    axes.set_xticks(range(0, 181, 30))
    axes.grid(True)


def _distribution_csv(protocol: Protocol, found: Rotation) -> Csv:
    rows: list[list[Value]] = []
    for mode in found.modes:
        for counted in COUNTED:
            groups = found.modes[mode][counted]
            named = {"all": groups.all_classes, "no-sym": groups.no_sym, **groups.per_class}
            rows += [
                [mode, counted, which, way, *getattr(errors, way).cumulative, *getattr(errors, way).histogram]
                for which, errors in named.items()
                if errors is not None
                for way in WAYS
            ]
    below = [f"below_{degrees}" for degrees in BINS]
    bins = [f"{5 * n}_to_{5 * n + 5}" for n in range(HISTOGRAM)]
    return Csv(f"errors-{protocol}.csv", ["mode", "counted", "classes", "error", *below, *bins], rows)
