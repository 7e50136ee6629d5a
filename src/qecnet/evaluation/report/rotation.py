"""Table 2: errors of rotation of each class, the published figures beside ours."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from qecnet.evaluation.metrics import EXPECTED_RANDOM_RAE
from qecnet.evaluation.protocol import Protocol
from qecnet.evaluation.published import ROTATION
from qecnet.evaluation.report.classification import classes_in_order
from qecnet.evaluation.report.page import (
    DASH,
    Cell,
    Csv,
    Group,
    Section,
    Value,
    chip,
    dataset_name,
    not_measured,
    number,
    percent,
    two_digits,
    words,
)
from qecnet.evaluation.report.results import (
    COUNTED,
    Errors,
    Groups,
    Run,
    figure,
    unmeasured,
)

COUNTED_NAMES = {
    "canonical": {"correct": "views named right", "all": "every view"},
    "siamese": {"correct": "pairs named right", "all": "every pair"},
    "category": {"correct": "pairs named right", "all": "every pair"},
}
WAYS = ("plain", "symmetric")
NO_POSES = "This network names shapes and has no pose to give: there is no rotation to measure."


def table_2(run: Run, others: Sequence[Run]) -> Section:
    """Published rows, then ours in each mode, over what was named right and over everything."""
    section = Section("rotation", "Rotation (Table 2)")
    measured = [one for one in (run, *others) if one.rotation]
    if not run.model.has_poses:
        section.say(NO_POSES)
    else:
        for protocol in unmeasured(run.rotation):
            section.say(not_measured("rotation", run.name, protocol))
    of_results = [name for one in measured for result in one.rotation.values() for name in result.about.classes]
    classes = classes_in_order(list(dict.fromkeys([*ROTATION[0].per_class, *of_results])))
    section.table(
        "<b>Table 2.</b> Relative angular error (angle/π: 0.09 is 16°) as the mean over test shapes. The paper "
        "counts what was named right; <i>no-sym</i> are its classes without rotational symmetry (chair to monitor). "
        "<i>Canonical</i> is a view's pose against its rotation, <i>siamese</i> the relative pose of two views of a "
        "shape, <i>category</i> that of two shapes of a class, which the paper does not measure. "
        "<i>Symmetric</i> rows take the least error over the turns that leave the class looking the same, and stand "
        f"under the plain ones, never instead. A guess scores {EXPECTED_RANDOM_RAE:.2f}.",
        [["Method", "RAE", *class_columns(classes)]],
        [
            Group("As published, on ModelNet10, over what was named right", _published_rows(classes)),
            *(group for one in measured for group in _measured_groups(one, classes, named=len(measured) > 1)),
        ],
        _csv(measured, classes),
        words=2,
    )
    if measured:
        first, *rest = measured
        _summary(section, [first], "table2-summary.csv")
        if rest:
            inside = Section("", "")
            _summary(inside, rest, "table2-summary-compared.csv")
            section.folded("The same of the runs it is compared with", inside)
    return section


def class_columns(classes: Sequence[str]) -> list[Cell | str]:
    return [
        Cell("avg", kind="gap"),
        "no-sym",
        *(Cell(words(n), kind="" if i else "gap") for i, n in enumerate(classes)),
    ]


def _published_rows(classes: Sequence[str]) -> list[list[Cell | str]]:
    return [
        [
            row.method + ("" if row.rerun else ' <span class="source">quoted</span>'),
            "plain",
            *_figures([row.average, row.no_sym, *(row.per_class.get(name) for name in classes)]),
        ]
        for row in ROTATION
    ]


def _figures(values: Sequence[float | None], kind: str = "") -> list[Cell | str]:
    """Figures of all classes, of those without symmetry, and of each class."""
    return [
        Cell(two_digits(value), kind=f"{kind} gap".strip() if i in (0, 2) else kind) for i, value in enumerate(values)
    ]


def _measured_groups(run: Run, classes: Sequence[str], named: bool) -> Iterator[Group]:
    of_run = f"{words(run.model.name)} ({words(run.name)}), " if named else ""
    for protocol, found in run.rotation.items():
        about = f"{dataset_name(found.about.dataset)}, {found.about.shapes:,} shapes, "
        views = f"{found.rotations} rotations × {found.resamplings} resamplings"
        rows = [
            row
            for mode in found.modes
            for counted in reversed(COUNTED)
            for row in row_pair(f"{mode}, {COUNTED_NAMES[mode][counted]}", found.modes[mode][counted], classes)
        ]
        yield Group(f"Measured here, {of_run}protocol {chip(protocol)}, {about}{views}", rows, ours=True)


def row_pair(
    name: str, groups: Groups, classes: Sequence[str], more: Sequence[Cell | str] = ()
) -> Iterator[list[Cell | str]]:
    """The plain errors, and under them the symmetric ones; `more` stands at the end of the first."""
    errors = [groups.all_classes, groups.no_sym, *(groups.per_class.get(name) for name in classes)]
    for way, title in zip(WAYS, (name, ""), strict=True):
        values = [None if e is None else getattr(e, way).mean for e in errors]
        kind = "" if way == "plain" else "faint"
        rest = list(more) if way == "plain" else [""] * len(more)
        yield [title, Cell(way, kind=kind), *_figures(values, kind), *rest]


def _csv(runs: Sequence[Run], classes: Sequence[str]) -> Csv:
    rows: list[list[Value]] = []
    for row in ROTATION:
        rows.append(["as published" if row.rerun else "quoted", row.method, None, None, None, "correct", "plain"])
        rows[-1] += [row.average, row.no_sym, *(row.per_class.get(name) for name in classes)]
    for run, protocol, mode, counted, groups in _all_groups(runs):
        errors = [groups.all_classes, groups.no_sym, *(groups.per_class.get(name) for name in classes)]
        for way in WAYS:
            about: list[Value] = ["measured here", run.model.name, run.name, protocol, mode, counted, way]
            rows.append(about + [None if e is None else getattr(e, way).mean for e in errors])
    columns = ["source", "method", "run", "protocol", "mode", "counted", "error", "all_classes", "no_sym", *classes]
    return Csv("table2-rotation.csv", columns, rows)


def _all_groups(runs: Sequence[Run]) -> Iterator[tuple[Run, Protocol, str, str, Groups]]:
    for run in runs:
        for protocol, found in run.rotation.items():
            for mode in found.modes:
                for counted in COUNTED:
                    yield run, protocol, mode, counted, found.modes[mode][counted]


_SUMMARY = ("mean", "median", "acc5", "acc15", "acc30")


def _summary(section: Section, runs: Sequence[Run], name: str) -> None:
    """Mean, median and shares below 5°, 15° and 30°: all classes and those without symmetry."""
    head: list[list[Cell | str]] = [
        [
            *(Cell(title, rows=2) for title in ("Counted", "Classes", "Protocol", "Count")),
            Cell("Plain", span=5, kind="gap"),
            Cell("Symmetric", span=5, kind="gap"),
        ],
        [Cell(n, kind="" if i else "gap") for _ in WAYS for i, n in enumerate(("mean", "median", "5°", "15°", "30°"))],
    ]
    groups: dict[str, list[list[Cell | str]]] = {}
    data: list[list[Value]] = []
    for run, protocol, mode, counted, found in _all_groups(runs):
        title = f"{words(run.model.name)} ({words(run.name)}), {mode}"
        for which, errors in (("no-sym", found.no_sym), ("all", found.all_classes)):
            row = [COUNTED_NAMES[mode][counted], which, chip(protocol), number(figure(errors, "count"))]
            groups.setdefault(title, []).append([*row, *_spread(errors)])
            data.append(
                [run.model.name, run.name, mode, protocol, counted, which, figure(errors, "count")]
                + [None if errors is None else getattr(getattr(errors, way), n) for way in WAYS for n in _SUMMARY]
            )
    section.table(
        "Mean and median of the relative angular error, and the percentage of errors below 5°, 15° and 30°.",
        head,
        [Group(title, rows) for title, rows in groups.items()],
        Csv(
            name,
            ["method", "run", "mode", "protocol", "counted", "classes", "count"]
            + [n if way == "plain" else f"symmetric_{n}" for way in WAYS for n in _SUMMARY],
            data,
        ),
        words=3,
    )


def _spread(errors: Errors | None) -> list[Cell | str]:
    if errors is None:
        return [Cell(DASH, kind="" if i % 5 else "gap") for i in range(10)]
    return [
        Cell(two_digits(value) if i < 2 else percent(value), kind="" if i else "gap")
        for way in WAYS
        for i, value in enumerate(getattr(getattr(errors, way), name) for name in _SUMMARY)
    ]
