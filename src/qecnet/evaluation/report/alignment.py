"""Tables 2a and 2b: methods that align two clouds, run here, and this network on the same task."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from qecnet.evaluation.report.classification import classes_in_order
from qecnet.evaluation.report.page import Cell, Csv, Group, Section, Value, chip, number, words
from qecnet.evaluation.report.results import Groups, PoseBaselines, Run, figure
from qecnet.evaluation.report.rotation import WAYS, class_columns, row_pair

_TABLES = (
    ("2a", "two samplings of one shape", "same_instance", "siamese"),
    ("2b", "two shapes of one class", "category_level", "category"),
)
"""Number, title, the baselines' name for the task, and the network's mode."""


def alignment_tables(section: Section, run: Run, found: PoseBaselines) -> None:
    """Two tables, one for what registration can do and one for where it has nothing to hold on to."""
    for numbered, title, task, mode in _TABLES:
        rows = [(method.method, method.groups, method.seconds, method.no_answer) for method in getattr(found, task)]
        classes = classes_in_order(list(dict.fromkeys(name for _, groups, *_ in rows for name in groups.per_class)))
        ours = _ours(run, found, mode)
        section.table(
            f"<b>Table {numbered}.</b> Relative angular error of methods that align two clouds, under the protocol "
            f"{chip(found.protocol)} on <b>{title}</b>; how many pairs there were, for how many of them a method had "
            "no answer (they count as not turned at all), and the mean processor seconds that a pair takes.",
            [["Method", "RAE", *class_columns(classes), Cell("pairs", kind="gap"), "no answer", "seconds"]],
            [
                Group("Measured here", [cells for row in rows for cells in _cells(*row, classes)]),
                Group(
                    f"Measured here, {words(run.name)}, every pair",
                    [c for row in ours for c in _cells(*row, classes)],
                    ours=True,
                ),
            ],
            Csv(
                f"pose-baselines-{task.replace('_', '-')}.csv",
                ["method", "protocol", "error", "all_classes", "no_sym", *classes, "pairs", "no_answer", "seconds"],
                [data for row in (*rows, *ours) for data in _data(*row, classes, found.protocol)],
            ),
            words=2,
        )
    section.note(
        f"A view of a stored cloud keeps {100 * found.keep:g}% of its points, so two samplings of one shape have most "
        "of theirs in common, and registration finds these very points; two scans share none, and a mesh is sampled "
        "anew. The signs of PCA's axes turn with the cloud here: the paper's two rows, resampled (PCA-S) and rotated "
        "as well (PCA-SR), are one."
    )


def _ours(run: Run, found: PoseBaselines, mode: str) -> list[tuple[str, Groups, None, None]]:
    """The network's row, where its rotation was measured under the same protocol."""
    measured = run.rotation.get(found.protocol)
    if measured is None or mode not in measured.modes:
        return []
    return [(f"this network, {mode}", measured.modes[mode]["all"], None, None)]


def _cells(
    name: str, groups: Groups, seconds: float | None, no_answer: int | None, classes: Sequence[str]
) -> Iterator[list[Cell | str]]:
    pairs = Cell(number(figure(groups.all_classes, "count")), kind="gap")
    return row_pair(words(name), groups, classes, [pairs, number(no_answer), number(seconds, ".3f")])


def _data(
    name: str, groups: Groups, seconds: float | None, no_answer: int | None, classes: Sequence[str], protocol: str
) -> Iterator[list[Value]]:
    errors = [groups.all_classes, groups.no_sym, *(groups.per_class.get(one) for one in classes)]
    for way in WAYS:
        means = [None if one is None else getattr(one, way).mean for one in errors]
        yield [name, protocol, way, *means, figure(groups.all_classes, "count"), no_answer, seconds]
