"""The report's tables: the paper's Tables 1, 2 and 3 with published figures next to ours, and further ones."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from qecnet.evaluation.comparison import compare_accuracy, compare_errors
from qecnet.evaluation.published import published_figures
from qecnet.evaluation.report._table import Column, ReportTable, RowGroup, columns_under, data_table
from qecnet.evaluation.results import (
    BINS,
    HISTOGRAM_BINS,
    ClassificationResult,
    EquivarianceResult,
    ErrorGroups,
    PoseBaselinesResult,
    ProtocolName,
    RobustnessResult,
    RotationResult,
    ViewScores,
    ViewsResult,
)
from qecnet.evaluation.run import EvaluatedRun
from qecnet.outcome import Epoch

DATASETS = {"modelnet10": "ModelNet10", "modelnet40": "ModelNet40", "shapes": "procedural shapes"}
KINDS = {
    "frames": ("Frames kept", "%"),
    "points": ("Points kept", ""),
    "noise": ("Noise, σ in radii", ""),
    "outliers": ("Outliers", "%"),
    "occlusion": ("Cut off by a plane", "%"),
    "viewpoint": ("Seen from one side", "radii"),
    "density": ("Uneven density", ""),
}
"""Titles of the corruptions, and the unit of their levels."""

COLUMNS: tuple[ProtocolName, ...] = ("paper", "strict")
"""In the order of tables that begin with what is published."""
PUBLISHED, MEASURED = "As published", "Measured here"

_COUNTED = {"all": "all", "correct": "correctly classified"}
_SUMMARY = (
    *(("mean", "mean", "error"), ("median", "median", "error"), ("< 5°", "acc5", "percent")),
    *(("< 15°", "acc15", "percent"), ("< 30°", "acc30", "percent")),
)
_ERRORS = (
    ("error, no-sym, correct pairs", "rae"),
    ("all pairs", "rae_all"),
    ("all classes, symmetric, all pairs", "rae_symmetric"),
)

Robustness = Mapping[ProtocolName, RobustnessResult]


def name_dataset(name: str) -> str:
    """Name a dataset as people write it."""
    return DATASETS.get(name, name)


def sort_classes(classes: Sequence[str]) -> list[str]:
    """Put the classes of the paper's Table 2 first, in its order, then the others in theirs."""
    known = published_figures().rotation[0].per_class
    return [*(name for name in known if name in classes), *(name for name in classes if name not in known)]


def accuracy_table(runs: Sequence[EvaluatedRun]) -> ReportTable:
    """Table 1: each method as published and as measured here, then all other runs, by dataset."""
    methods, beside = [], set()
    for row in compare_accuracy(runs):
        known, run = row.published, row.run
        name = f"{row.method} [{run.name}]" if run else row.method
        methods.append([name, known and known.parameters, known and known.nr, row.published_ar, *_accuracies(run)])
        beside.add(run and run.name)
    others: dict[str, list[list[Any]]] = {}
    for run in (run for run in runs if run.name not in beside):
        for found in [*run.results(ClassificationResult).values()][:1]:
            title = f"Measured here, on {name_dataset(found.dataset)}: {found.shapes:,} test shapes"
            row_of_run = [f"{run.network} [{run.name}]", None, None, None, *_accuracies(run)]
            others.setdefault(title, []).append(row_of_run)
    published = ("Parameters", "count"), ("NR/NR", "published"), ("NR/AR", "published")
    columns = [Column("Method"), *columns_under(PUBLISHED, *published)]
    columns += columns_under(MEASURED, ("Parameters", "count"))
    for p in COLUMNS:
        columns += columns_under(f"Measured here, {p}", ("NR/NR", "measured"), ("NR/AR", "measured"))
    ours = [RowGroup(title, rows, ours=True) for title, rows in others.items()]
    compared = RowGroup("The paper's methods and some since, on ModelNet40", methods)
    return ReportTable("table1-classification.csv", columns, [compared, *ours])


def _accuracies(run: EvaluatedRun | None) -> list[Any]:
    """The parameters of a run and its accuracies under each protocol; None is what was not measured."""
    found = run.results(ClassificationResult) if run else {}
    parameters = next((one.model.parameters for one in found.values()), None)
    return [parameters, *((one := found.get(p)) and getattr(one, which) for p in COLUMNS for which in ("nr", "ar"))]


def compared_errors_table(runs: Sequence[EvaluatedRun]) -> ReportTable:
    """Table 2 in short: each method's mean errors as published and as measured here."""
    rows = []
    for row in compare_errors(runs):
        cells: list[Any] = [row.method, row.published.average, row.published.no_sym]
        for errors in (row.measured[p] for p in COLUMNS):
            cells += [one and one.mean for one in ((errors.all_classes, errors.no_sym) if errors else (None, None))]
        rows.append(cells)
    columns = [Column("Method"), *columns_under(PUBLISHED, ("avg", "error"), ("no-sym", "error"))]
    for p in COLUMNS:
        columns += columns_under(f"Measured here, {p}", ("avg", "measured error"), ("no-sym", "measured error"))
    return ReportTable("table2-compared.csv", columns, [RowGroup("", rows)])


def class_table(found: Mapping[ProtocolName, ClassificationResult]) -> ReportTable:
    """The accuracy of each class."""
    any_of = next(iter(found.values()))
    scores = [one for result in found.values() for one in (result.nr, result.ar)]
    shapes = {name: sum(any_of.nr.confusion[i]) for i, name in enumerate(any_of.classes)}
    rows = [[name, shapes[name], *(one.per_class[name] for one in scores)] for name in sort_classes(any_of.classes)]
    overall: list[list[Any]] = [
        ["mean of the classes", None, *(one.mean_class for one in scores)],
        ["all shapes", any_of.shapes, *(one.accuracy for one in scores)],
    ]
    columns = [Column("Class"), Column("Shapes", "count")]
    for p in found:
        columns += columns_under(p, ("NR/NR", "percent"), ("NR/AR", "percent"))
    return ReportTable("classes.csv", columns, [RowGroup("", rows), RowGroup("", overall)])


def confusion_table(found: ClassificationResult) -> ReportTable:
    """Counts behind the two confusion matrices, classes in the report's order."""
    order = sort_classes(found.classes)
    index = [found.classes.index(name) for name in order]
    rows = [
        [title, found.classes[i], *(of.confusion[i][j] for j in index)]
        for title, of in (("upright (NR/NR)", found.nr), ("rotated (NR/AR)", found.ar))
        for i in index
    ]
    return data_table(f"confusion-{found.protocol}.csv", ["test", "truth", *order], rows)


def rotation_table(runs: Sequence[EvaluatedRun]) -> ReportTable:
    """Table 2: published rows, then ours in each mode, over all and over the correctly classified."""
    published = published_figures().rotation
    measured = [(run, found) for run in runs for found in run.results(RotationResult).values()]
    known = [*published[0].per_class, *(name for _, found in measured for name in found.classes)]
    classes = sort_classes([*dict.fromkeys(known)])
    rows = [[row.method, "plain", row.average, row.no_sym, *map(row.per_class.get, classes)] for row in published]
    groups = [RowGroup("As published, on ModelNet10, over correctly classified shapes", rows)]
    for run, found in measured:
        named = f"{run.network} [{run.name}], " if len({run.name for run, _ in measured}) > 1 else ""
        views = f"{found.shapes:,} shapes, {found.rotations} rotations × {found.resamplings} resamplings"
        title = f"Measured here, {named}{name_dataset(found.dataset)}, {views}"
        ours = [
            row
            for mode, counted, errors in found.modes
            for row in _error_rows(f"{mode}, {_COUNTED[counted]}", errors, classes)
        ]
        groups.append(RowGroup(title, ours, found.protocol, ours=True))
    return ReportTable("table2-rotation.csv", _class_columns(classes), groups, words=2)


def summary_table(runs: Sequence[EvaluatedRun], name: str) -> ReportTable:
    """Mean, median and shares below 5°, 15° and 30°: all classes and those without symmetry."""
    groups: dict[str, list[list[Any]]] = {}
    results = ((run, found) for run in runs for found in run.results(RotationResult).values())
    for run, found in results:
        for mode, counted, part in found.modes:
            for which, errors in (("no-sym", part.no_sym), ("all", part.all_classes)):
                row: list[Any] = [_COUNTED[counted], which, found.protocol, errors and errors.count]
                for one in (errors, errors and errors.symmetric):
                    row += [one and getattr(one, figure) for _, figure, _ in _SUMMARY]
                groups.setdefault(f"{run.network} [{run.name}], {mode}", []).append(row)
    columns = [Column("Counted"), Column("Classes"), Column("Protocol", "chip"), Column("Count", "count")]
    for over in ("Plain", "Symmetric"):
        columns += columns_under(over, *((title, form) for title, _, form in _SUMMARY))
    return ReportTable(name, columns, [RowGroup(title, rows) for title, rows in groups.items()], words=3)


def alignment_table(run: EvaluatedRun, found: PoseBaselinesResult, mode: str) -> ReportTable:
    """Tables 2a and 2b: methods that align two clouds, and this network on the same task."""
    task, methods = {
        "siamese": ("same-instance", found.same_instance),
        "category": ("category-level", found.category_level),
    }[mode]
    classes = sort_classes([*dict.fromkeys(name for one in methods.values() for name in one.per_class)])
    rows = [
        [*row, one.all_classes and one.all_classes.count, one.no_answer, one.seconds]
        for method, one in methods.items()
        for row in _error_rows(method, one, classes)
    ]
    groups = [RowGroup(MEASURED, rows)]
    if (ours := run.result(RotationResult, found.protocol)) is not None:
        part: ErrorGroups = getattr(ours.modes, mode).all
        pairs = part.all_classes and part.all_classes.count
        own = [[*row, pairs, None, None] for row in _error_rows(f"this network, {mode}", part, classes)]
        groups.append(RowGroup(f"Measured here, {run.name}, all pairs", own, ours=True))
    counts = columns_under("", ("pairs", "count"), ("no answer", "count"), ("seconds", "seconds"))
    return ReportTable(f"pose-baselines-{task}.csv", [*_class_columns(classes), *counts], groups, words=2)


def _class_columns(classes: Sequence[str]) -> list[Column]:
    of_classes = columns_under("", *((name.replace("_", " "), "error") for name in classes))
    return [Column("Method"), Column("Error"), *columns_under("", ("avg", "error"), ("no-sym", "error")), *of_classes]


def _error_rows(name: str, groups: ErrorGroups, classes: Sequence[str]) -> Iterator[list[Any]]:
    """The plain errors, and under them the symmetric ones."""
    errors = [groups.all_classes, groups.no_sym, *(groups.per_class.get(one) for one in classes)]
    yield [name, "plain", *(e and e.mean for e in errors)]
    yield [name, "symmetric", *(e and e.symmetric.mean for e in errors)]


def error_data(found: RotationResult) -> ReportTable:
    """The numbers behind the charts of errors."""
    rows = []
    for mode, counted, part in found.modes:
        for which, errors in {"all": part.all_classes, "no-sym": part.no_sym, **part.per_class}.items():
            if errors is not None:
                for way, one in (("plain", errors), ("symmetric", errors.symmetric)):
                    rows.append([mode, counted, which, way, *one.cumulative, *one.histogram])
    bins = [*(f"below_{degrees}" for degrees in BINS), *(f"{5 * n}_to_{5 * n + 5}" for n in range(HISTOGRAM_BINS))]
    return data_table(f"errors-{found.protocol}.csv", ["mode", "counted", "classes", "error", *bins], rows)


def training_data(log: Sequence[Epoch]) -> ReportTable:
    """The numbers behind the charts of the training."""
    return data_table("training.csv", [*vars(log[0])], [[*vars(epoch).values()] for epoch in log])


def name_level(kind: str, level: float) -> str:
    """Write a level of a corruption with its unit."""
    unit = KINDS[kind][1]
    if unit == "%":
        return f"{100 * level:g}%"
    return f"{level:,.0f}" if level >= 100 else f"{level:g} {unit}".strip()


def robustness_table(found: Robustness) -> ReportTable:
    """Table 3: the paper's six levels, published and ours."""
    published = published_figures().robustness
    rows = [[row.name, row.accuracy, row.rae, *_level_cells(found, row.kind, row.level)] for row in published]
    columns = columns_under(PUBLISHED, ("accuracy, %", "percent"), ("error, no-sym, correct pairs", "error"))
    return ReportTable(
        "table3-robustness.csv", [Column("Level"), *columns, *_level_columns(found)], [RowGroup("", rows)]
    )


def level_table(found: Robustness) -> ReportTable:
    """Every level of every corruption."""
    rows: dict[str, dict[float, list[Any]]] = {}
    for one in (one for result in found.values() for one in result.levels):
        cells = [name_level(one.kind, one.level), *_level_cells(found, one.kind, one.level)]
        rows.setdefault(one.kind, {})[one.level] = cells
    groups = [RowGroup(KINDS[kind][0], [*of_kind.values()]) for kind, of_kind in rows.items()]
    return ReportTable("robustness.csv", [Column("Level"), *_level_columns(found)], groups)


def _level_columns(found: Robustness) -> Iterator[Column]:
    errors = [(title, "error") for title, _ in _ERRORS]
    for protocol in found:
        about = ("points per view", "count"), ("accuracy, %", "interval")
        yield from columns_under(f"Measured here, {protocol}", *about, *errors)


def _level_cells(found: Robustness, kind: str, level: float) -> Iterator[Any]:
    for result in found.values():
        one = result.by_level.get((kind, level))
        yield from (one and one.points, one, *(one and getattr(one, name) for _, name in _ERRORS))


def view_table(found: ViewsResult) -> ReportTable:
    """Views of one side and whole shapes, all of them and by class."""

    def cells(name: str, of: ViewScores) -> list[Any]:
        sets, known_up = (of.set_holds_pose, of.set_size), (of.accuracy_known_up, of.pose15_known_up)
        return [name, of.views, of.accuracy, of.ece, of.up10, of.pose15, of.pose_degrees, *sets, *known_up]

    groups = [RowGroup("All shapes", [cells(*one) for one in found.groups.items()], found.protocol, ours=True)]
    for title, kinds in (("Whole", found.whole_by_kind), ("Views", found.views_by_kind)):
        groups.append(RowGroup(f"{title}, by class", [cells(*one) for one in kinds.items()]))
    accuracy, orientation = ("accuracy, %", "percent"), ("orientation within 15°, %", "percent")
    any_pose = accuracy, ("calibration error, %", "percent"), ("up within 10°, %", "percent"), orientation
    columns = [
        Column("Input"),
        Column("Number", "count"),
        *columns_under("Any pose", *any_pose, ("median °", "degrees")),
    ]
    columns += columns_under("90% set of candidates", ("holds the pose, %", "percent"), ("poses", "degrees"))
    columns += columns_under("Up direction known", accuracy, orientation)
    return ReportTable("views.csv", columns, groups)


def equivariance_table(found: EquivarianceResult) -> ReportTable:
    """What changes with each stage of a rotated view."""
    rows: list[list[Any]] = [["nothing: upright", None, None, None, None, found.accuracy.nr]]
    for name, change, accuracy in (
        ("the network: frames rotated with the points", found.network, found.accuracy.exact_frames),
        ("the frames: estimated again after the rotation", found.frames, found.accuracy.reestimated),
        ("the points: resampled as well", found.resampled, found.accuracy.resampled),
    ):
        degrees = [change.pose_degrees_max, change.pose_degrees_median]
        rows.append([name, *degrees, change.activation_max, change.labels_changed, accuracy])
    columns = [Column("What changes in the rotated view"), Column("pose, max °", "power")]
    columns += [Column("pose, median °", "power"), Column("activation, max", "power")]
    columns += [Column("class changed, %", "percent"), Column("accuracy, %", "percent")]
    return ReportTable("equivariance.csv", columns, [RowGroup("", rows)])
