"""Table 3 and further: names and poses of spoiled inputs, as tables and as curves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from qecnet.evaluation.metrics import EXPECTED_RANDOM_RAE
from qecnet.evaluation.protocol import Protocol
from qecnet.evaluation.published import ROBUSTNESS
from qecnet.evaluation.report.drawing import BLUE, INK, MUTED, VERMILLION, panel
from qecnet.evaluation.report.page import (
    DASH,
    Cell,
    Csv,
    Group,
    Section,
    Value,
    between,
    chip,
    dataset_name,
    legend,
    not_measured,
    percent,
    two_digits,
    words,
)
from qecnet.evaluation.report.results import Level, Robustness, Run, figure, unmeasured

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_KINDS = {
    "patches": ("Patches kept", "%"),
    "points": ("Points kept", ""),
    "noise": ("Noise, σ in radii", ""),
    "outliers": ("Outliers", "%"),
    "occlusion": ("Cut off by a plane", "%"),
    "viewpoint": ("Seen from one side", "radii"),
    "density": ("Uneven density", ""),
}
"""Titles of the kinds of damage, and the unit of their levels."""

_COLOURS = {"strict": BLUE, "paper": VERMILLION}


def table_3(run: Run) -> Section:
    """The paper's six columns, published and ours; every other kind of damage; curves."""
    section = Section("robustness", "Robustness (Table 3)")
    for protocol in unmeasured(run.robustness):
        section.say(not_measured("robustness", run.name, protocol))
    of_protocol = {protocol: _levels(run, found) for protocol, found in run.robustness.items()}
    _papers_columns(section, run, of_protocol)
    if of_protocol:
        _draw(section, run, of_protocol)
        _all_levels(section, of_protocol)
    return section


def _levels(run: Run, found: Robustness) -> tuple[Level, ...]:
    """Without errors of rotation, where the network has no pose to give."""
    if run.model.has_poses:
        return found.levels
    return tuple(replace(level, rae=None, rae_all=None, rae_symmetric=None) for level in found.levels)


def _papers_columns(section: Section, run: Run, of_protocol: dict[Protocol, tuple[Level, ...]]) -> None:
    published: list[list[Cell | str]] = [
        ["accuracy", *(f"{100 * row.accuracy:.1f}" for row in ROBUSTNESS)],
        ["RAE, no-sym, named right", *(two_digits(row.rae) for row in ROBUSTNESS)],
    ]
    groups = [Group("As published, on ModelNet10", published)]
    for protocol, levels in of_protocol.items():
        about = run.robustness[protocol].about
        found = [_find(levels, row.kind, row.level) for row in ROBUSTNESS]
        accuracies = [DASH if f is None else percent(f.accuracy) + between(f.interval) for f in found]
        errors: list[list[Cell | str]] = [
            [title, *(two_digits(figure(f, name)) for f in found)]
            for title, name in (
                ("RAE, no-sym, named right", "rae"),
                ("RAE, no-sym, every pair", "rae_all"),
                ("RAE, symmetric, all classes, every pair", "rae_symmetric"),
            )
        ]
        title = f"Measured here, protocol {chip(protocol)}, {dataset_name(about.dataset)}, {about.shapes:,} shapes"
        groups.append(Group(title, [["accuracy", *accuracies], *errors], ours=True))
    section.table(
        "<b>Table 3.</b> Accuracy in percent and relative angular error of siamese pairs, when only a part of the "
        "patches is kept (LRF-10K) and when frames are estimated from 2,000 or 1,000 points. Under each accuracy "
        "of ours, its 95% interval.",
        [["", *(row.name for row in ROBUSTNESS)]],
        groups,
        _csv(of_protocol),
    )


def _find(levels: Sequence[Level], kind: str, level: float) -> Level | None:
    return next((one for one in levels if one.kind == kind and abs(one.level - level) < 1e-6), None)


def _level_name(kind: str, level: float) -> str:
    unit = _KINDS.get(kind, (kind, ""))[1]
    if unit == "%":
        return f"{100 * level:g}%"
    return f"{level:,.0f}" if level >= 100 else f"{level:g}" + (f" {unit}" if unit else "")


def _all_levels(section: Section, of_protocol: dict[Protocol, tuple[Level, ...]]) -> None:
    figures = ("accuracy", "RAE, named right", "RAE, every pair", "RAE, symmetric")
    head: list[list[Cell | str]] = [
        [Cell("Level", rows=2), *(Cell(chip(protocol), span=4, kind="gap") for protocol in of_protocol)],
        [Cell(name, kind="" if i else "gap") for _ in of_protocol for i, name in enumerate(figures)],
    ]
    groups = []
    for kind, levels in _by_kind(of_protocol).items():
        rows: list[list[Cell | str]] = []
        for level in levels:
            row: list[Cell | str] = [_level_name(kind, level)]
            for all_levels in of_protocol.values():
                found = _find(all_levels, kind, level)
                row.append(Cell(percent(figure(found, "accuracy")), kind="gap"))
                row += [two_digits(figure(found, name)) for name in ("rae", "rae_all", "rae_symmetric")]
            rows.append(row)
        groups.append(Group(words(_KINDS.get(kind, (kind, ""))[0]), rows))
    inside = Section("", "")
    inside.table(
        "Every level that was measured: accuracy in percent, and relative angular errors as in Table 3.",
        head,
        groups,
        Csv("robustness.csv", _COLUMNS, _rows(of_protocol)),
    )
    section.folded("All levels as a table", inside)


def _by_kind(of_protocol: dict[Protocol, tuple[Level, ...]]) -> dict[str, list[float]]:
    """The levels of each kind, in the order in which they were measured."""
    kinds: dict[str, list[float]] = {}
    for levels in of_protocol.values():
        for one in levels:
            if one.level not in kinds.setdefault(one.kind, []):
                kinds[one.kind].append(one.level)
    return kinds


_COLUMNS = ["source", "protocol", "kind", "level", "accuracy", "low", "high", "rae", "rae_all", "rae_symmetric"]


def _rows(of_protocol: dict[Protocol, tuple[Level, ...]]) -> list[list[Value]]:
    rows: list[list[Value]] = []
    for protocol, levels in of_protocol.items():
        for one in levels:
            rows.append(["measured here", protocol, one.kind, one.level, one.accuracy, *one.interval])
            rows[-1] += [one.rae, one.rae_all, one.rae_symmetric]
    return rows


def _csv(of_protocol: dict[Protocol, tuple[Level, ...]]) -> Csv:
    published: list[list[Value]] = [
        ["as published", None, row.kind, row.level, row.accuracy, None, None, row.rae, None, None] for row in ROBUSTNESS
    ]
    of_table = {(row.kind, row.level) for row in ROBUSTNESS}
    ours = [row for row in _rows(of_protocol) if (row[2], row[3]) in of_table]
    return Csv("table3-robustness.csv", _COLUMNS, published + ours)


def _draw(section: Section, run: Run, of_protocol: dict[Protocol, tuple[Level, ...]]) -> None:
    panels = []
    for kind, levels in _by_kind(of_protocol).items():
        title = _KINDS.get(kind, (kind, ""))[0]
        label = f"Accuracy and error against: {title}"
        panels.append(panel(2.7, 3.2, label, _curves, of_protocol, kind, levels, title, rows=2))
    present = []
    for protocol in of_protocol:
        colour = "blue" if protocol == "strict" else "vermillion"
        present.append((f"disc {colour}", f"protocol {protocol}, {run.robustness[protocol].about.shapes:,} shapes"))
    section.figure(
        "Accuracy (above) and relative angular error of siamese pairs of classes without symmetry (below), as the "
        "input gets worse from left to right; <i>none</i> is the unspoiled input. Bars are 95% intervals.",
        panels,
        legend=legend(
            *present,
            ("ring grey", "every pair, not only those named right"),
            ("diamond grey", "as published"),
            ("grey dotted", "a guess at random"),
        ),
    )


def _curves(
    above: Axes,
    below: Axes,
    of_protocol: dict[Protocol, tuple[Level, ...]],
    kind: str,
    levels: list[float],
    title: str,
) -> None:
    """From the mildest level to the worst; the unspoiled one, all patches, comes first."""
    falling = kind in ("patches", "points")
    spoiled = [("patches", 1.0), *((kind, n) for n in sorted(levels, reverse=falling) if (kind, n) != ("patches", 1.0))]
    for shift, (protocol, all_levels) in zip((-0.06, 0.06), of_protocol.items(), strict=False):
        found = [(i + shift, one) for i, at in enumerate(spoiled) if (one := _find(all_levels, *at)) is not None]
        colour = _COLOURS[protocol]
        for place, one in found:
            above.plot([place] * 2, [100 * bound for bound in one.interval], color=colour, linewidth=1)
        above.plot([i for i, _ in found], [100 * one.accuracy for _, one in found], "o-", color=colour)
        for name, style, face in (("rae", "o-", colour), ("rae_all", "o--", "none")):
            points = [(i, getattr(one, name)) for i, one in found if getattr(one, name) is not None]
            below.plot(
                [i for i, _ in points], [y for _, y in points], style, color=colour, markerfacecolor=face, linewidth=1.2
            )
    published = [(spoiled.index((r.kind, r.level)), r) for r in ROBUSTNESS if (r.kind, r.level) in spoiled]
    for i, row in published:
        for axes, value in ((above, 100 * row.accuracy), (below, row.rae)):
            axes.plot([i], [value], "D", color=MUTED, markerfacecolor="none", markersize=5)
    below.axhline(EXPECTED_RANDOM_RAE, linestyle=":", color=MUTED, linewidth=1)
    above.set_title(title)
    above.set(ylim=(0, 102), ylabel="accuracy, %")
    below.set(ylim=(0, 0.75), ylabel="RAE", xlim=(-0.35, len(spoiled) - 0.65))
    names = ["none", *(_level_name(*at) for at in spoiled[1:])]
    below.set_xticks(range(len(spoiled)), names, color=INK)
    for axes in (above, below):
        axes.grid(True, axis="y")
