"""Table 1: how often shapes are named right, the published figures beside ours; who is taken for whom."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from qecnet.evaluation.protocol import Protocol
from qecnet.evaluation.published import CLASSIFICATION, ROTATION_CLASSES
from qecnet.evaluation.report.drawing import BLUE, INK, MUTED, ON_BLUE, RULE, panel
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
    not_measured,
    number,
    percent,
    words,
)
from qecnet.evaluation.report.results import PROTOCOLS, Accuracy, Classification, Run, figure, unmeasured

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_WITH_FIGURES = 12
"""Classes of a confusion matrix whose cells are wide enough for a number."""


def classes_in_order(classes: Sequence[str]) -> list[str]:
    """Those of the paper's Table 2 in its order, then the others in theirs."""
    return [name for name in ROTATION_CLASSES if name in classes] + [n for n in classes if n not in ROTATION_CLASSES]


def table_1(run: Run, others: Sequence[Run]) -> Section:
    """Published rows, then a row for each run."""
    section = Section("classification", "Classification (Table 1)")
    for protocol in unmeasured(run.classification):
        section.say(not_measured("classification", run.name, protocol))
    section.table(
        "<b>Table 1.</b> Test shapes named right, in percent, by networks that were never shown a rotation: upright "
        "(NR/NR), and turned uniformly over SO(3) (NR/AR). Under each figure of ours, its 95% interval over shapes. "
        f"{chip('strict')} estimates frames after the rotation, {chip('paper')} turns them along with the points; "
        "published figures come with protocols of their own, and on ModelNet40.",
        [
            [
                Cell("Method", rows=2),
                Cell("Parameters", rows=2),
                Cell("NR/NR", span=2, kind="gap"),
                Cell("NR/AR", span=2, kind="gap"),
            ],
            [Cell(chip(p), kind="gap" if i == 0 else "") for _ in "NA" for i, p in enumerate(PROTOCOLS)],
        ],
        [Group("As published, on ModelNet40", _published_rows()), *_measured_groups([run, *others])],
        _csv([run, *others]),
    )
    section.note(
        "For ModelNet10 the paper gives 87.8% in its Table 3, without saying whether the shapes were turned. "
        "<i>Quoted</i> rows are of methods that nobody has run here."
    )
    return section


def confusion(run: Run) -> Section:
    """Heat maps, and the accuracy of each class."""
    section = Section("confusion", "Confusion and classes")
    if not run.classification:
        section.say(not_measured("classification", run.name, "strict"))
        return section
    first, *rest = run.classification.items()
    _draw(section, *first)
    for protocol, found in rest:
        inside = Section("", "")
        _draw(inside, protocol, found)
        section.folded(f"The same under the protocol {protocol}", inside)
    _per_class(section, run)
    return section


def _published_rows() -> list[list[Cell | str]]:
    return [
        [
            row.method + ("" if row.rerun else ' <span class="source">quoted</span>'),
            f"{row.parameters / 1e6:.1f}M",
            *(Cell(DASH if v is None else f"{100 * v:.2f}", span=2, kind="middle") for v in (row.nr, row.ar)),
        ]
        for row in CLASSIFICATION
    ]


def _measured_groups(runs: Sequence[Run]) -> list[Group]:
    """A group for each dataset and number of shapes, in the order in which they come up."""
    groups: dict[str, list[Run]] = {}
    for run in runs:
        for found in list(run.classification.values())[:1]:
            title = f"Measured here, on {dataset_name(found.about.dataset)}: {found.about.shapes:,} test shapes"
            groups.setdefault(title, []).append(run)
    return [Group(title, [_measured_row(run) for run in of_one], ours=True) for title, of_one in groups.items()]


def _measured_row(run: Run) -> list[Cell | str]:
    found = next(iter(run.classification.values()))
    figures = [
        Cell(DASH) if found is None else Cell(percent(found.accuracy) + between(found.interval))
        for which in ("nr", "ar")
        for found in (_of(run, protocol, which) for protocol in PROTOCOLS)
    ]
    return [
        f'{words(run.model.name)} <span class="source">{words(run.name)}</span>',
        number(found.about.parameters),
        *figures,
    ]


def _of(run: Run, protocol: Protocol, which: str) -> Accuracy | None:
    found = run.classification.get(protocol)
    return None if found is None else found.nr if which == "nr" else found.ar


def _csv(runs: Sequence[Run]) -> Csv:
    columns = ["source", "method", "run", "dataset", "parameters", "protocol", "test"]
    rows: list[list[Value]] = [
        ["as published" if row.rerun else "quoted", row.method, None, "modelnet40", row.parameters, None, which, value]
        for row in CLASSIFICATION
        for which, value in (("NR/NR", row.nr), ("NR/AR", row.ar))
    ]
    for run in runs:
        for protocol, found in run.classification.items():
            about: list[Value] = [
                "measured here",
                run.model.name,
                run.name,
                found.about.dataset,
                found.about.parameters,
                protocol,
            ]
            for which, accuracy in (("NR/NR", found.nr), ("NR/AR", found.ar)):
                if accuracy is not None:
                    rows.append([*about, which, accuracy.accuracy, *accuracy.interval, accuracy.mean_class])
    width = len(columns) + 4
    padded = [[*row, *[None] * (width - len(row))] for row in rows]
    return Csv("table1-classification.csv", [*columns, "accuracy", "low", "high", "mean_class"], padded)


def _draw(section: Section, protocol: Protocol, found: Classification) -> None:
    order = classes_in_order(found.about.classes)
    index = [found.about.classes.index(name) for name in order]
    names = [name.replace("_", " ") for name in order]
    panels = []
    rows: list[list[Value]] = []
    for title, accuracy in (("upright (NR/NR)", found.nr), ("turned (NR/AR)", found.ar)):
        if accuracy is not None:
            counts = [[accuracy.confusion[i][j] for j in index] for i in index]
            size = 5.2 if len(names) <= _MOST_WITH_FIGURES else 7.5
            label = f"Confusion matrix, {title}, protocol {protocol}"
            panels.append(panel(size, size * 0.93, label, _matrix, counts, names, title))
            rows += [[title, truth, *row] for truth, row in zip(order, counts, strict=True)]
    section.figure(
        f"Confusion under the protocol {chip(protocol)}: of the views of each true class (row), the percentage that "
        f"was named as each class (column). Overall {percent(found.nr.accuracy)}% upright and "
        f"{percent(figure(found.ar, 'accuracy'))}% turned.",
        panels,
        Csv(f"confusion-{protocol}.csv", ["test", "truth", *order], rows),
    )


def _matrix(axes: Axes, counts: list[list[int]], names: list[str], title: str) -> None:
    from matplotlib.patches import Rectangle

    size = len(names)
    for i, row in enumerate(counts):
        for j, n in enumerate(row):
            share = n / max(1, sum(row))
            if n:
                axes.add_patch(Rectangle((j, i), 1, 1, facecolor=BLUE, alpha=0.06 + 0.94 * share, linewidth=0))
            if n and size <= _MOST_WITH_FIGURES:
                colour = ON_BLUE if share > 0.45 else INK
                text = f"{100 * share:.0f}" if share >= 0.005 else "<1"
                axes.text(j + 0.5, i + 0.52, text, ha="center", va="center", color=colour, fontsize=7.5)
    middles = [n + 0.5 for n in range(size)]
    small = 7.5 if size <= _MOST_WITH_FIGURES else 6
    axes.set_xticks(middles, names, rotation=45, ha="right", rotation_mode="anchor", fontsize=small)
    axes.set_yticks(middles, names, fontsize=small)
    axes.tick_params(length=0)
    axes.set(xlim=(0, size), ylim=(size, 0), aspect="equal", title=title)
    axes.set_xlabel("named", color=MUTED)
    axes.set_ylabel("truth", color=MUTED)
    for side in axes.spines.values():
        side.set(visible=True, color=RULE)


def _per_class(section: Section, run: Run) -> None:
    measured = run.classification
    head: list[list[Cell | str]] = [
        [
            Cell("Class", rows=2),
            Cell("Shapes", rows=2),
            *(Cell(chip(protocol), span=2, kind="gap") for protocol in measured),
        ],
        [Cell(which, kind="gap" if which == "NR/NR" else "") for _ in measured for which in ("NR/NR", "NR/AR")],
    ]
    columns = [(protocol, which) for protocol in measured for which in ("nr", "ar")]
    found = [_of(run, protocol, which) for protocol, which in columns]
    any_result = next(iter(measured.values()))
    classes = any_result.about.classes
    shapes = {name: sum(any_result.nr.confusion[i]) for i, name in enumerate(classes)}
    order = classes_in_order(classes)
    by_class = [(n, shapes[n], [None if one is None else one.per_class[n] for one in found]) for n in order]
    overall = [figure(one, "accuracy") for one in found]
    mean = [figure(one, "mean_class") for one in found]
    section.table(
        "Accuracy of each class, in percent, of upright (NR/NR) and of turned views (NR/AR).",
        head,
        [
            Group("", [[words(name), number(count), *map(percent, values)] for name, count, values in by_class]),
            Group(
                "",
                [
                    ["mean of the classes", "", *map(percent, mean)],
                    ["all shapes", number(any_result.about.shapes), *map(percent, overall)],
                ],
            ),
        ],
        Csv(
            "classes.csv",
            ["class", "shapes", *(f"{which}_{protocol}" for protocol, which in columns)],
            [
                *([name, count, *values] for name, count, values in by_class),
                ["mean of the classes", None, *mean],
                ["all shapes", any_result.about.shapes, *overall],
            ],
        ),
    )
    if any_result.about.missing:
        section.say(
            "Left out, because only the network or only the dataset knows them: "
            + ", ".join(words(name) for name in any_result.about.missing)
            + "."
        )
