"""Writes the figures of the README and of the pages, from the files in results/ and the published figures.

    python docs/tables.py

A figure stands between a line `<!-- figures: NAME -->` and a line `<!-- end -->`; NAME is one of `BLOCKS`.
"""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from statistics import fmean, stdev
from types import FunctionType
from typing import Literal, TypeVar

from qecnet import DEFAULT_MODEL
from qecnet.evaluation import (
    MODE_NAMES,
    MODES,
    NO_SYM,
    CalibrationResult,
    ClassificationResult,
    EquivarianceResult,
    EvaluatedRun,
    Result,
    RetrievalResult,
    RobustnessResult,
    RotationErrors,
    RotationResult,
    SummaryTable,
    ViewsResult,
    compare_accuracy,
    compare_errors,
    format_error,
    format_interval,
    format_percent,
    network_title,
    published_figures,
    read_result,
    summarize,
)

R = TypeVar("R", bound=Result)
ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results"
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
DATASETS = {"modelnet10": "ModelNet10", "modelnet40": "ModelNet40"}
KINDS = ("upright", "features", "paper", "var", *published_figures().methods)
"""The kinds of networks in the order of the tables: ours, then the methods that the paper compares with."""
_METHODS = {"flare": "FLARE"}
SPEED = ("features", "product", "viewer")
"""The benchmarks of what users wait for."""
DASH = "–"
NOT_MEASURED = "not measured"
COLUMNS = ("published", "here, paper protocol", "here, strict")


def _format_degrees(value: float | None) -> str:
    """Format a relative angular error, angle/π, in degrees: 4.0° or 27°."""
    return DASH if value is None else f"{180 * value:.1f}°" if value < 0.1 else f"{180 * value:.0f}°"


class Figure(str):
    """A value of a CSV file, which is formatted as a number, or as a dash if there is none."""

    def __format__(self, form: str) -> str:
        return (format(float(self), form) if self else DASH) if form else str(self)


def _list_runs(dataset: str) -> list[EvaluatedRun]:
    """List the runs of results/ that were measured, in the order of `KINDS`."""
    found = [EvaluatedRun(path) for path in sorted(RESULTS.iterdir()) if (path / "evaluation").is_dir()]
    return sorted(
        (run for run in found if run.settings.dataset == dataset),
        key=lambda run: KINDS.index(run.kind) if run.kind in KINDS else len(KINDS),
    )


def _find_shipped(dataset: str, kind: str) -> EvaluatedRun | None:
    """Find the run of a kind of network that has the shortest name: its best, or its only one."""
    of_kind = [run for run in _list_runs(dataset) if run.kind == kind]
    return min(of_kind, key=lambda run: len(run.name), default=None)


def _find_best(dataset: str) -> EvaluatedRun:
    """Find the run of the first kind of network in the order of `_list_runs`."""
    runs = _list_runs(dataset)
    return min((run for run in runs if run.kind == runs[0].kind), key=lambda run: len(run.name))


def _link(run: EvaluatedRun, text: str) -> str:
    """Link to the run's card if it has one."""
    card = run.folder / "CARD.md"
    return f"[{text}](../results/{run.name}/CARD.md)" if card.exists() else text


def _count_epochs(run: EvaluatedRun) -> str:
    """Count the epochs of a run, after those of the run that it (or the part that it trained) started from."""
    own = str(run.outcome.epoch) if run.outcome else DASH
    start = run.settings.start_part or run.settings.start
    if not start:
        return own
    before = ROOT / start
    return f"{_count_epochs(EvaluatedRun(before if before.is_dir() else before.parent))} + {own}"


def headline() -> str:
    """What the default model achieves."""
    run = EvaluatedRun(RESULTS / DEFAULT_MODEL)
    names, poses = _result(run, ClassificationResult), _result(run, RotationResult)
    of_class = sorted((share, kind) for kind, share in names.ar.per_class.items() if share is not None)
    weakest = " and ".join(f"{kind.replace('_', ' ')}s ({100 * share:.0f}%)" for share, kind in of_class[:2])
    medians = [_format_degrees(errors.median) for errors in _no_sym(poses)]
    return (
        f"On the {names.shapes} test shapes of {DATASETS[names.dataset]}, each in a random pose, the default model's "
        f"accuracy is **{format_percent(names.ar.accuracy)}** (95% interval {format_interval(names.ar.interval)}), "
        f"lowest on {weakest}. The median orientation error on {_list(NO_SYM)} is **{medians[0]}** against upright, "
        f"{medians[1]} between two samplings of one shape, and {medians[2]} between two different shapes of a class."
    )


def accuracy() -> str:
    """The networks that were trained to the end, on both datasets, in short."""
    rows = []
    brief = {row["run"] for row in _rows("baselines.csv")}  # comparable with each other only
    for kind in KINDS:
        runs = [_find_shipped(dataset, kind) for dataset in DATASETS]
        runs = [None if run and run.folder.name in brief else run for run in runs]
        if any(runs):
            name = next(run.title for run in runs if run)
            found = [run.result(ClassificationResult) if run else None for run in runs]
            rows.append([name, *(_accuracy(one, pose) for one in found for pose in ("nr", "ar"))])
    published = next(row for row in published_figures().classification if row.method == "QEC")
    (ten,) = (row.accuracy for row in published_figures().robustness if (row.kind, row.level) == ("frames", 1))
    ours = [DASH, format_percent(ten), format_percent(published.nr), format_percent(published.ar)]
    paper = [row[0] for row in rows].index(network_title("paper"))
    rows.insert(paper + 1, ["QEC, as published ¹", *ours])
    head = ("", *(f"{name}, {pose}" for name in DATASETS.values() for pose in ("upright", "rotated")))
    rows[0][0] = f"**{rows[0][0]}**"
    best = [_find_best(dataset) for dataset in DATASETS]
    easier = [format_percent(f.ar.accuracy) for run in best if (f := run.result(ClassificationResult, "paper"))]
    exact = f" (with frames rotated exactly, the first network has {' and '.join(easier)})" if easier else ""
    return _table(head, rows) + (
        "\n\nAccuracy on the test shapes; all networks are trained on upright shapes only. Rotated shapes are "
        f"resampled, and their frames are estimated after the rotation{exact}.\n¹ With frames that are rotated with "
        "the points; for ModelNet10 the paper does not say whether shapes are rotated.\n\n"
        "Methods since the paper [classify ModelNet40's rotated shapes better](docs/results.md#classification). "
        "[Other methods](docs/results.md#the-papers-table-1-modelnet40) were trained here with equal, small budgets."
    )


def all_accuracy() -> str:
    """Every run, with protocols and intervals."""
    parts = []
    measured = ("upright (NR/NR)", "rotated (NR/AR)", "95% interval, rotated", "mean class accuracy, rotated")
    head = ("network", "parameters", "epochs", "protocol", "rotated views", *measured)
    for dataset, title in DATASETS.items():
        rows = []
        for run in _list_runs(dataset):
            for protocol, found in run.results(ClassificationResult).items():
                about = [_link(run, run.network), f"{found.model.parameters:,}", _count_epochs(run), protocol]
                cells = [format_percent(found.nr.accuracy), format_percent(found.ar.accuracy)]
                cells += [format_interval(found.ar.interval), format_percent(found.ar.mean_class)]
                rows.append([*about, str(found.rotations), *cells])
        parts.append(f"### {title}\n\n{_table(head, rows)}")
    since = [[row.method, format_percent(row.ar)] for row in published_figures().since]
    title = "### ModelNet40, since the paper, as published by the methods' authors"
    parts.append(f"{title}\n\n{_table(('method', 'rotated'), since)}")
    return "\n\n".join(parts)


def table_one() -> str:
    """Each method of Table 1 as published and as measured here."""
    rows = []
    for row in compare_accuracy(_list_runs("modelnet40")):
        known = row.published
        cells = [_link(row.run, row.method) if row.run else row.method]
        cells += [format_percent(known.nr if known else None), format_percent(row.published_ar)]
        for found in (row.measured("paper"), row.measured("strict")):
            cells += [_accuracy(found, pose, NOT_MEASURED) for pose in ("nr", "ar")]
        rows.append(cells)
    return _table(("method", *(f"{where}, {pose}" for where in COLUMNS for pose in ("upright", "rotated"))), rows)


def table_two() -> str:
    """Each method of Table 2 as published and as measured here."""
    rows = []
    for row in compare_errors(_list_runs("modelnet10")):
        cells = [row.method, f"{row.published.average:.2f}", f"{row.published.no_sym:.2f}"]
        for found in (row.measured["paper"], row.measured["strict"]):
            errors = (found.all_classes, found.no_sym) if found else (None, None)
            cells += [format_error(one.mean) if one else NOT_MEASURED for one in errors]
        rows.append(cells)
    return _table(("method", *(f"{where}, {kind}" for where in COLUMNS for kind in ("all classes", "no-sym"))), rows)


def budgets() -> str:
    """What training the other methods took."""
    published = {row.method: f"{row.parameters:,}" for row in published_figures().classification}
    rows = _rows("baselines.csv")
    common = Counter(float(row["allowed"]) for row in rows).most_common(1)
    for row in rows:
        name = network_title(row["network"])
        row["network"], row["published"] = Figure(name), Figure(published.get(name, DASH))
        row["dataset"] = Figure(DATASETS.get(row["dataset"], row["dataset"]))
        row["longer"] = Figure(" (longer)" if float(row["allowed"]) > common[0][0] else "")
    return _columns(
        rows,
        {
            "method": "{network}",
            "trained on": "{dataset}",
            "parameters, published": "{published}",
            "parameters, here": "{parameters:,.0f}",
            "processor minutes": "{minutes:.1f} of {allowed:g}{longer}",
            "epochs": "{epochs}",
            "threads": "{threads}",
            "processor ms per shape": "{milliseconds:.1f}",
        },
    )


def learning_curves() -> str:
    """The accuracy of the other methods on held-out shapes, as they were trained."""
    rows = []
    for row in _rows("baselines.csv"):
        log = [epoch for epoch in EvaluatedRun(RESULTS / row["run"]).log if epoch.validation_nr is not None]
        shown = [log[round(n * (len(log) - 1) / 5)] for n in range(6)] if len(log) > 6 else log
        curves = [
            [getattr(epoch, name) for epoch in shown] for name in ("train_accuracy", "validation_nr", "validation_ar")
        ]
        epochs = ", ".join(str(epoch.epoch) for epoch in shown)
        rows.append(
            [network_title(row["network"]), epochs, *(", ".join(map(format_percent, curve)) for curve in curves)]
        )
    return _table(("method", "after epoch", "training shapes", "held out, upright", "held out, rotated"), rows)


def alignments() -> str:
    """Orientation errors of alignment, ours and those of methods without learning."""
    run = EvaluatedRun(RESULTS / DEFAULT_MODEL)
    found = run.pose_baselines
    assert found is not None
    methods: dict[str, list[RotationErrors | None]] = {"**qecnet**": [*_no_sym(_result(run, RotationResult))[1:]]}
    methods |= {name: [of.no_sym, found.category_level[name].no_sym] for name, of in found.same_instance.items()}
    cells = [
        [name, *(f"{_format_degrees(one.median)} / {_format_degrees(one.mean)}" if one else DASH for one in errors)]
        for name, errors in methods.items()
    ]
    return _table(("", *(MODE_NAMES[mode] for mode in MODES[1:])), cells) + (
        f"\n\nMedian / mean orientation error on {_list(NO_SYM)} of the test split; ours on all pairs, the others on "
        f"{found.pairs_per_class} pairs of each class. A random guess has a mean of 126°. The two samplings of one "
        "shape share most of their points, which favours registration."
    )


def all_poses() -> str:
    """Every run's orientation errors."""
    rows = []
    for run in _list_runs("modelnet10"):
        for found in run.results(RotationResult).values():
            table = summarize(found)
            rows += [[_link(run, run.network), *row] for row in table.rows]
    return SummaryTable("", ("method", *table.head), rows, labels=4).to_markdown()


def robustness() -> str:
    """Every run that was measured on corrupted input."""
    parts = []
    for run in _list_runs("modelnet10"):
        if (found := run.result(RobustnessResult)) is not None:
            parts.append(f"### {run.network}, {found.shapes} test shapes\n\n{summarize(found).to_markdown()}")
    return "\n\n".join(parts)


def elsewhere() -> str:
    """Furniture that is not from ModelNet."""
    rows = _rows("elsewhere.csv")
    models, poses = len({row["number"] for row in rows}), len({row["pose"] for row in rows})
    right = sum(row["class"] == row["named"] for row in rows)
    missed = Counter((row["class"], row["named"]) for row in rows if row["class"] != row["named"])
    worst = "; ".join(f"{true} as {kind} {count}×".replace("_", " ") for (true, kind), count in missed.most_common(3))
    return (
        f"On {models} furniture models from another source (Sweet Home 3D's catalogues, in Debian's package), each in "
        f"{poses} random poses and resampled for each, the accuracy is **{format_percent(right / len(rows))}**. The "
        f"most frequent confusions: {worst}."
    )


def elsewhere_classes() -> str:
    """The same by class."""
    rows = _rows("elsewhere.csv")
    counts = Counter((row["class"], row["class"] == row["named"]) for row in rows)
    kinds = sorted({row["class"] for row in rows})
    cells = [[k.replace("_", " "), str(counts[k, True] + counts[k, False]), str(counts[k, True])] for k in kinds]
    return _table(("class", "views", "correct"), cells)


def unknown() -> str:
    """What a threshold on confidence keeps and rejects."""
    rows = _rows("unknown.csv")
    columns = {
        "`--min-confidence`": "{min_confidence:g}",
        "known shapes kept": "{kept:.1%}",
        "accuracy on these": "{right:.1%}",
        "unknown shapes labelled unknown": "{refused:.1%}",
    }
    return (
        f"ModelNet40's test split, each shape in a random pose: {rows[0]['known']} shapes of the ten classes that "
        f"`{rows[0]['model']}` knows, {rows[0]['unknown']} of the thirty others.\n\n" + _columns(rows, columns)
    )


def densities() -> str:
    """Few points and many, before training on both and after: a table for each dataset."""
    rows = _rows("densities.csv")
    datasets = dict.fromkeys(row["dataset"] for row in rows)
    return "\n\n".join(_densities_table([row for row in rows if row["dataset"] == name]) for name in datasets)


def _densities_table(rows: list[dict[str, Figure]]) -> str:
    """Runs on one dataset, so that the columns are numbers of points that its clouds really have."""
    points = list(dict.fromkeys(row["points"] for row in rows))
    cells = [
        [f"`{run}`", *(f"{of[n]['right']:.1%}" for n in points), *(f"{of[n]['pose']:.3f}" for n in points)]
        for run, of in _pivot(rows, "run", "points").items()
    ]
    first, *others = (f"{count:,.0f}" for count in points)
    head = [name for what in ("accuracy", "orientation error") for name in (f"{what}: {first} points", *others)]
    return _table(["run", *head], cells)


def upright() -> str:
    """Which way is up, by model and dataset."""
    names = {"modelnet40": "ModelNet40, test split", "scanned_objects": "Google Scanned Objects, test half"}
    rows = _rows("upright.csv")
    parts = ["" if row["part"] == "all" else f", {row['part']}" for row in rows]
    return _columns(
        [row | {"dataset": names[row["dataset"]] + part} for row, part in zip(rows, parts, strict=True)],
        {
            "model": "`{model}`",
            "shapes in random poses": "{dataset}",
            "number": "{shapes}",
            "median": "{median:.1f}°",
            "within 5°": "{within_5:.1%}",
            "within 10°": "{within_10:.1%}",
            "10°, or down if alike": "{within_10_either_way:.1%}",
            "10°, first three": "{first_three:.1%}",
            "off by over 90°": "{off_by_90:.1%}",
            "90% set: pose": "{set_holds_pose:.1%}",
            "90% set: up": "{set_holds_up:.1%}",
            "poses in it": "{set_size:.1f}",
        },
    )


def upright_parts() -> str:
    """What each part of the network that verifies candidates adds."""
    up = {"up within 5°": "{within_5:.1%}", "up within 10°": "{within_10:.1%}", "median": "{median:.1f}°"}
    return _columns(_rows("upright_parts.csv"), {"answer by": "{part}", **up, "accuracy": "{accuracy:.1%}"})


def reader_weights() -> str:
    """Weights of readers in use and fitted, and what they reach on shapes that were held out."""
    figures = {"accuracy": "{whole_accuracy:.1%}", "up": "{whole_up:.1%}"}
    figures |= {"views: accuracy": "{views_accuracy:.1%}", "views: up": "{views_up:.1%}"}
    figures |= {"scanned objects: up": "{scanned_whole_up:.1%}", "first three": "{scanned_whole_first_three:.1%}"}
    columns = {"model": "{model}", "readers": "{readers}", "weights": "{weights}"}
    columns |= {"of up directions": "{of_upright}", "of classes": "{of_classes}"}
    return _columns(_rows("reader_weights.csv"), columns | figures)


def snapping() -> str:
    """What snapping does to the up directions that capsules vote for."""
    columns = {"model": "`{model}`", "up direction of": "{pose}", "shapes": "{shapes}"}
    columns |= {"within 5°": "{within_5:.1%}", "within 10°": "{within_10:.1%}", "off by over 90°": "{over_90:.1%}"}
    poses = {"network": "the votes", "snapped": "the votes, snapped", "nearest candidate": "the nearest candidate"}
    rows = [row | {"pose": poses[row["pose"]]} for row in _rows("snapping.csv")]
    return _columns(rows, columns | {"median": "{median_degrees:.1f}°"})


def vote_candidates() -> str:
    """Whether modes of votes would add the true up direction to the candidates."""
    columns = {"training shapes held out": "{shapes}", "number": "{number}"}
    columns |= {source: f"{{{source}:.1%}}" for source in ("candidates", "votes", "both")}
    columns |= {"candidates a shape": "{mean_candidates}", "votes a shape": "{mean_modes}"}
    return _columns(_rows("vote_candidates.csv"), columns)


def hundred() -> str:
    """The same file in many poses."""
    rows = _rows("hundred_poses.csv")
    columns = {
        "class": "{class}",
        "symmetry": "{symmetry}",
        "accuracy": "{right:.1%}",
        "same class": "{same:.1%}",
        "spread of confidence": "{spread:.3f}",
        "orientation error, median": "{median:.1f}°",
        "orientation error, 95%": "{p95:.1f}°",
        "orientation error, largest": "{largest:.1f}°",
    }
    words = ({"class": row["class"].replace("_", " "), "symmetry": row["symmetry"] or DASH} for row in rows)
    shapes, poses = rows[0]["shapes"], rows[0]["poses"]
    about = f"Model: `{rows[0]['model']}`; shapes of each class: {shapes}; poses of each shape: {poses}."
    return f"{about}\n\n{_columns([row | word for row, word in zip(rows, words, strict=True)], columns)}"


def calibration() -> str:
    """How far confidence is from accuracy."""
    rows = []
    for run in (run for dataset in DATASETS for run in _list_runs(dataset)):
        if (found := run.result(CalibrationResult)) is not None:
            parts = (found.held_out.before, found.held_out.after, found.test.before, found.test.after)
            fitted = [f"{found.temperature:g}", f"{found.temperature_slope:g}", DASH, DASH]
            if found.candidate_sets is not None:
                fitted[2:] = f"{found.orientation_temperature:g}", f"{found.orientation_temperature_slope:g}"
            cells = [*fitted, *(f"{scores.ece:.3f}" for scores in parts)]
            rows.append([_link(run, run.name), *cells])
    temperatures = ("classes: temperature", "slope", "candidates: temperature", "slope")
    return _table(("model", *temperatures, "held out, before", "held out, after", "test, before", "test, after"), rows)


def speed() -> str:
    """How long users wait, on the machines where that was measured."""
    rows = []
    for path in sorted(path for what in SPEED for path in RESULTS.glob(f"bench_{what}_*.csv")):
        for row in _rows(path.name):
            beside = f"{row['reference']}: {row['of it']:,.3g}" if row["reference"] else ""
            rows.append([row["what"], f"{row['ours']:,.3g} {row['unit']}", row["aim"], beside])
    return _table(("what", "measured", "target", "for comparison, in the same run"), rows)


def startup() -> str:
    """Processor time of a cold start, with torch and without."""
    return _columns(_rows("startup.csv"), {"a new process": "{what}", "processor time": "{processor_seconds} s"})


def bulk() -> str:
    """What a file costs in a bulk run."""
    rows = _measured("bulk")
    return _table(("", "measured", "target"), [(r["what"], f"{_round(r['ours'])} {r['unit']}", r["aim"]) for r in rows])


def ten_million() -> str:
    """What ten million files take with each command, by `bulk`."""
    cost: dict[str, float] = {row["what"]: float(row["ours"]) for row in _measured("bulk")}
    for row in _measured("search_library"):  # a larger graph takes longer for each shape
        built = 1e6 * float(row["build, CPU s"]) / float(row["rows"])
        cost[_KEPT] = max(cost.get(_KEPT, 0.0), built)
    files, rows = 1e7, []
    for command, (processor, driver, written) in _PLANS.items():
        if processor not in cost:
            continue
        core_hours = files * cost[processor] / 3.6e6
        driver_hours = files * sum(cost[what] for what in driver) / 3.6e9
        hours = (f"{max(core_hours / cores, driver_hours):,.1f}" for cores in _CLUSTERS)
        size = f"{_round(files * sum(cost[what] for what in written) / 1e9)} GB"
        limit = _round(core_hours / driver_hours, 2)
        rows.append([f"`qec {command}`", f"{cost[processor]:.0f} ms", f"{core_hours:,.0f}", *hours, limit, size])
    clusters = (f"hours on {cores:,} cores" for cores in _CLUSTERS)
    return _table(("", "processor time, per file", "core-hours", *clusters, "most cores", "writes"), rows)


_CLUSTERS = (16, 64, 256)
_JOURNAL = ("planning, per file", "keeping results, per file")
_KEPT = "qec index: keeping results, per file"
_PLANS = {
    "classify": ("processor time, per file", _JOURNAL, ("journal, per file", "Parquet, per file")),
    "orient": (
        "qec orient: processor time, per file",
        _JOURNAL,
        ("journal, per file", "qec orient: Parquet, per file", "qec orient: files written, per file"),
    ),
    "index": (
        "qec index: processor time, per file",
        ("qec index: planning, per file", _KEPT),
        ("qec index: library, per file",),
    ),
}
"""For each command: its processor time, what one process does for each file, and what is written; names of `bulk`."""


def retrieval() -> str:
    """How well descriptors find shapes of the same class: of each model that was measured, and without learning."""
    found = [(run, result) for run in _list_runs("modelnet40") if (result := run.result(RetrievalResult)) is not None]
    methods = [(_link(run, f"model `{run.name}`"), result.methods["model"]) for run, result in found]
    methods += [one for _, result in found[:1] for one in result.methods.items() if one[0] != "model"]
    rows = [
        [
            name,
            *(f"{value:.3f}" for value in (scores.map_micro, scores.map_macro)),
            *map(format_percent, (scores.nearest_micro, scores.nearest_macro)),
        ]
        for name, scores in methods
    ]
    head = ("mAP, micro", "mAP, macro", "nearest neighbour, micro", "nearest neighbour, macro")
    return _table(("descriptors", *head), rows)


def search() -> str:
    """Libraries for vector search, and our index, on one set of descriptors."""
    compared = [row for row in _measured("search") if row["engine"] != "library"]
    rows = (*compared, *_measured("search_million"), *_measured("search_library"))
    columns = {"": "{engine}", "shapes": "{rows:,.0f}", "recall@10": "{recall@10:.4f}"}
    columns |= {name: f"{{{name}:,.3g}}" for name in ("ms per query", "open, s")}
    costs = ("bytes per shape", "memory added, MB", "not mapped, MB", "build, CPU s")
    columns |= {name: f"{{{name}:,.0f}}" for name in costs}
    return _columns([row | {"engine": _ENGINES.get(row["engine"], row["engine"])} for row in rows], columns)


_ENGINES = {
    "NumPy, exact": "NumPy, exact, float16",
    "sqlite-vec": "sqlite-vec, exact",
    "faiss HNSW": "faiss, HNSW",
    "usearch": "usearch, HNSW",
    "library": "**our index**",
}


def search_filters() -> str:
    """Search with filters in our index of a million shapes."""
    columns = {"filter": "{filter}", "shapes that match": "{share that matches:.2%}", "recall@10": "{recall@10:.4f}"}
    columns |= {name: f"{{{name}:,.1f}}" for name in ("ms per query", "slowest, ms")}
    return _columns(_measured("search_filters"), columns)


def search_opening() -> str:
    """Opening our index of a million shapes, with its files in memory and without."""
    names = ("open and first search, s", "slowest, s", "read from the disk, MB")
    return _columns(_measured("search_opening"), {"files": "{files}"} | {name: f"{{{name}:,.3g}}" for name in names})


def _measured(benchmark: str, threads: int | None = None) -> list[dict[str, Figure]]:
    """The rows of a benchmark, on the first machine of those that it ran on; their names have no underscore."""
    machines = f"*-{threads}-threads" if threads else "*"
    names = (path.name for path in sorted(RESULTS.glob(f"bench_{benchmark}_{machines}.csv")))
    return next((_rows(name) for name in names if name.count("_") == benchmark.count("_") + 2), [])


def limits() -> str:
    """Where the accuracy of capsules with features is lost: learning, frames, or grossly wrong poses."""
    run = EvaluatedRun(RESULTS / "modelnet10-features")
    names, changes, learned = _result(run, ClassificationResult), _result(run, EquivarianceResult), run.outcome
    off, shares = _no_sym(_result(run, RotationResult))[0], changes.accuracy
    assert learned is not None
    far = [sum(off.histogram[-degrees // 5 :]) for degrees in (90, 20)]
    return "\n".join(
        (
            f"- **Learning.** After the last epoch the training accuracy is {format_percent(learned.train_accuracy)}; "
            f"it is {format_percent(learned.validation_ar)} on the held-out tenth, and on the test split "
            f"{format_percent(names.nr.accuracy)} upright and {format_percent(names.ar.accuracy)} rotated.",
            f"- **Frames.** For the same points, rotated, accuracy is {format_percent(shares.exact_frames)} with exact "
            f"frames, {format_percent(shares.reestimated)} with frames estimated again, and "
            f"{format_percent(shares.resampled)} with resampled points as well; upright it is "
            f"{format_percent(shares.nr)}. The network itself changes no pose by more than "
            f"{changes.network.pose_degrees_max:.2g}°; the median change is {changes.frames.pose_degrees_median:.2g}° "
            f"with new frames and {changes.resampled.pose_degrees_median:.2g}° with resampled points.",
            f"- **Large errors.** On the classes without symmetry {format_percent(off.acc15)} of the poses are within "
            f"15° of the truth; {format_percent(far[0])} are off by more than 90°, and {format_percent(far[1])} by "
            "more than 160°. These make up most of the mean error.",
        )
    )


def ablation() -> str:
    """What each idea of the network with features contributes."""
    columns = {"variant": "{variant}", "parameters": "{parameters:,.0f}", "accuracy": "{validation_ar:.1%}"}
    return _columns(_rows("ablation.csv"), columns | {"orientation error, angle/π": "{validation_pose:.3f}"})


def aims() -> str:
    """Targets and what was reached."""
    ten, forty = _find_best("modelnet10"), _find_best("modelnet40")
    rows = []
    for name, run, aim in (("ModelNet10, rotated", ten, 0.94), ("ModelNet40, rotated", forty, 0.905)):
        share = _result(run, ClassificationResult).ar.accuracy
        rows.append([f"{name}: accuracy", f"≥ {format_percent(aim)}", *_against(share, aim, format_percent, more=True)])
    size = _result(forty, ClassificationResult).model.parameters
    rows.append(["`modelnet40`: parameters", "≤ 1,500,000", *_against(size, 1.5e6, _count, more=False)])
    poses = _result(ten, RotationResult)
    for mode, classes, aim in (
        ("siamese", "no_sym", 0.04),
        ("category", "no_sym", 0.06),
        ("siamese", "all_classes", 0.06),
        ("canonical", "all_classes", 0.06),
        ("category", "all_classes", 0.06),
    ):
        of_mode = getattr(getattr(poses.modes, mode).all, classes)
        mean = (of_mode if classes == "no_sym" else of_mode.symmetric).mean
        told = "no-sym" if classes == "no_sym" else "all classes up to symmetry"
        cells = _against(mean, aim, format_error, more=False)
        rows.append([f"{MODE_NAMES[mode]}, {told}: mean orientation error, angle/π", f"≤ {aim:.2f}", *cells])
    degrees = {"canonical": 5.0, "siamese": 1.5, "category": 3.0}
    for mode, errors in zip(MODES, _no_sym(poses), strict=True):
        cells = _against(errors.median, degrees[mode] / 180, _format_degrees, more=False)
        rows.append([f"{MODE_NAMES[mode]}, no-sym: median orientation error", f"≤ {degrees[mode]:g}°", *cells])
    cells = _against(sum(_no_sym(poses)[0].histogram[-18:]), 0.02, format_percent, more=False)
    rows.append(["against upright, no-sym: off by more than 90°", f"≤ {format_percent(0.02)}", *cells])
    for what, share, aim in _share_aims(ten):
        rows.append([what, f"≥ {format_percent(aim)}", *_against(share, aim, format_percent, more=True)])
    lost = "ModelNet10, whole shapes: accuracy lost by training on views, too (two short runs)"
    rows.append([lost, "≤ 0.5%", *_against(_lost_by_views(), 0.005, format_percent, more=False)])
    demo = [(row["what"], int(row["right"]), int(row["of"])) for row in _rows("demo.csv")]
    right = ", ".join(f"{found} of {total} {what}" for what, found, total in demo)
    reached = "yes" if all(found == total for _, found, total in demo) else "no"
    rows.append(["`make demo`", "all correct", right, reached])
    for what, held in _held_by_sets():
        reached = "yes" if abs(held - 0.9) <= 0.02 else "no"
        rows.append([f"{what}: the 90% set holds the pose", "90 ± 2%", format_percent(held), reached])
    for what, time, most in _time_aims():
        rows.append([what, f"≤ {most:.3g} ms", *_against(time, most, _milliseconds, more=False)])
    return _table(("strict protocol, last epoch", "target", "measured", "reached"), rows)


def _held_by_sets() -> Iterator[tuple[str, float]]:
    """How often sets of candidates with 90% of the probability hold the pose, where that was measured."""
    yield "`upright`, ModelNet40", float(_upright_row("modelnet40")["set_holds_pose"])
    yield "`upright`, scanned objects", float(_upright_row("scanned_objects")["set_holds_pose"])
    if (found := _scanned_objects()) and (held := found.groups["views"].set_holds_pose) is not None:
        yield "`upright`, views of scanned objects", held
    for name in DATASETS:
        groups = _result(EvaluatedRun(RESULTS / name), ViewsResult).groups
        for part, of in (("whole shapes", groups["whole"]), ("views", groups["views"])):
            if of.set_holds_pose is not None:
                yield f"{DATASETS[name]}, {part}", of.set_holds_pose


def _time_aims() -> Iterator[tuple[str, float, float]]:
    """Milliseconds on the machines of the benchmarks, and how many there should be at most."""
    (row,) = (row for row in _measured("candidates") if row["what"] == "hull and candidate poses")
    yield "hull and candidate poses, one thread", float(row["ours"]), 15
    (row,) = (row for row in _measured("views") if row["what"] == "file to answer, a view")
    yield "file to answer, a view, one thread: no slower than the whole shape", float(row["ours"]), float(row["of it"])
    named = (("file to answer, 10,000 points, warm", "file to answer", 80), ("the same, --fast", "with `--fast`", 45))
    times: dict[str, float] = {row["what"]: float(row["ours"]) for row in _measured("product")}
    for row_name, what, most in named:
        yield f"{what}, 10,000 points, warm, two threads", times[row_name], most


def _count(value: float | None) -> str:
    return DASH if value is None else f"{value:,.0f}"


def _milliseconds(value: float | None) -> str:
    return DASH if value is None else f"{value:.1f} ms"


def _lost_by_views() -> float:
    """How much less accurate one of two runs that differ only in views is on whole test shapes in random poses."""
    without, with_views = (
        _result(EvaluatedRun(RESULTS / f"trials/modelnet10-{name}-views-seed0"), ClassificationResult)
        for name in ("without", "with")
    )
    return without.ar.accuracy - with_views.ar.accuracy


def _share_aims(ten: EvaluatedRun) -> Iterator[tuple[str, float, float]]:
    """Shares that should be large, with the target: views, corrupted input, up directions, other furniture."""
    for name, accuracy, up in (("modelnet10", 0.85, 0.8), ("modelnet40", 0.75, 0.8)):
        scores = _result(EvaluatedRun(RESULTS / name), ViewsResult).groups["views"]
        yield f"{DATASETS[name]}, views: accuracy", scores.accuracy or 0.0, accuracy
        yield f"{DATASETS[name]}, views: up within 10°", scores.up10, up
    levels = _result(ten, RobustnessResult).by_level
    for what, level, aim in (
        ("uneven density (level 4)", ("density", 4.0), 0.85),
        ("500 points", ("points", 500.0), 0.88),
    ):
        yield f"ModelNet10, {what}: accuracy", levels[level].accuracy, aim
    for dataset, column, what, aim in (
        ("modelnet40", "within_10", "ModelNet40: up within 10°", 0.88),
        ("modelnet40", "within_10_either_way", "ModelNet40: up within 10°, or down if it looks the same", 0.92),
        ("scanned_objects", "within_10", "scanned objects: up within 10°", 0.65),
        ("scanned_objects", "first_three", "scanned objects: up among the first three", 0.9),
    ):
        yield f"`upright`, {what}", float(_upright_row(dataset)[column]), aim
    rows = _rows("elsewhere.csv")
    right = sum(row["class"] == row["named"] for row in rows)
    yield "furniture from another source: accuracy", right / len(rows), 0.99


def _upright_row(dataset: str) -> dict[str, Figure]:
    """The row of the model `upright` for all shapes of a dataset."""
    about = {"model": "upright", "dataset": dataset, "part": "all"}
    return next(row for row in _rows("upright.csv") if about.items() <= row.items())


def views() -> str:
    """Whole shapes against views of one side, for both datasets: classes and place, then orientations."""
    found = {name: _result(EvaluatedRun(RESULTS / name), ViewsResult) for name in DATASETS}
    parts = []
    for columns in (_OF_CLASSES, _OF_ORIENTATIONS):
        cells = [
            [f"`{name}`", kind, f"{of.views:,}", *(show(getattr(of, field)) for field, show in columns.values())]
            for name, result in found.items()
            for kind, of in result.groups.items()
        ]
        parts.append(_table(("model", "input", "number", *columns), cells))
    return "\n\n".join(parts)


_OF_CLASSES: dict[str, tuple[str, Callable[[float], str]]] = {
    "accuracy": ("accuracy", format_percent),
    "mean confidence": ("confidence", format_percent),
    "ECE": ("ece", format_percent),
    "accuracy, known up": ("accuracy_known_up", format_percent),
    "centre error, radii": ("centre", "{:.2f}".format),
    "size error": ("size", format_percent),
}
_OF_ORIENTATIONS: dict[str, tuple[str, Callable[[float], str]]] = {
    "up within 10°": ("up10", format_percent),
    "10°, first three": ("first_three", format_percent),
    "median up error": ("up_degrees", "{:.1f}°".format),
    "orientation within 15°": ("pose15", format_percent),
    "median orientation error": ("pose_degrees", "{:.1f}°".format),
    "orientation within 15°, known up": ("pose15_known_up", format_percent),
    "90% set: pose": ("set_holds_pose", format_percent),
    "poses in it": ("set_size", "{:.1f}".format),
}


def _scanned_objects() -> ViewsResult | None:
    """Scanned objects, whole and as views, by `modelnet40` without its classes, which is `upright`."""
    return read_result(RESULTS / "modelnet40" / "evaluation" / "scanned_objects", ViewsResult)


def scanned_views() -> str:
    """The up direction of scanned objects by category, whole and as views."""
    found = _scanned_objects()
    assert found is not None
    kinds = {"all": (found.groups["whole"], found.groups["views"])}
    kinds |= {kind: (found.whole_by_kind[kind], of) for kind, of in found.views_by_kind.items()}
    names = {
        "up10": "up within 10°",
        "first_three": "up among the first three",
        "confidence": "mean confidence",
        "set_holds_pose": "90% set: pose",
    }
    cells = [
        [kind, str(whole.views), *(format_percent(getattr(of, name)) for name in names for of in (whole, view))]
        for kind, (whole, view) in kinds.items()
    ]
    head = (f"{name}, {of}" for name in names.values() for of in ("whole", "views"))
    return _table(("category", "objects", *head), cells)


def view_effects() -> str:
    """Views with one effect of depth cameras at a time."""
    columns = {
        "view": "{view}",
        "surface visible": "{visible:.0%}",
        "accuracy": "{accuracy:.1%}",
        "up within 10°": "{up10:.1%}",
        "orientation within 15°": "{pose15:.1%}",
        "90% set: pose": "{set_holds_pose:.1%}",
    }
    return _columns(_rows("view_effects.csv"), columns)


def view_frames() -> str:
    """How repeatable frames are on views, by the rule of sign and the centre."""
    frames = {"frames as on the whole": "{as_the_whole:.1%}", "frames as on another view": "{as_another_view:.1%}"}
    columns = {"normals, centre": "{normals, centre}", **frames, "accuracy": "{accuracy:.1%}"}
    return _columns(_rows("view_frames.csv"), columns | {"up within 10°": "{up_within_10:.1%}"})


def partial_scans() -> str:
    """Success on two partial scans of one object, by their overlap."""
    rows = _rows("partial_scans.csv")
    counts = {row["overlap"]: row["pairs"] for row in rows}
    cells = [
        [method, *(f"{of[part]['within_15']:.1%}" for part in counts), of["all"]["milliseconds"]]
        for method, of in _pivot(rows, "method", "overlap").items()
    ]
    return _table(("method", *(f"{part} ({pairs})" for part, pairs in counts.items()), "ms"), cells)


def align_scans() -> str:
    """Views of one side aligned with the whole shape, with and without refinement."""
    rows = _rows("align_scans.csv")
    columns = {
        "method": "{method}",
        "rotation": "{rotation:.1f}°",
        "rotation within 15°": "{within_15:.0%}",
        "scale error": "{scale:.1%}",
        "point error, radii": "{error:.3f}",
        "below 0.05": "{below_05:.0%}",
        "below 0.1": "{below_10:.0%}",
        "ms": "{milliseconds:.0f}",
    }
    return _columns(rows, columns)


def _list_replications() -> list[EvaluatedRun]:
    """List the training runs of the paper's network."""
    folders = [*sorted((RESULTS / "replication").iterdir()), *(RESULTS / f"{name}-paper" for name in DATASETS)]
    return [*map(EvaluatedRun, folders)]


def replication_seeds() -> str:
    """Recipes that were run with several seeds: means and standard deviations."""
    recipes: dict[str, list[EvaluatedRun]] = {}
    for run in _list_replications():
        same = asdict(replace(run.settings, seed=0, validate_every=1))  # validation changes no weights
        recipes.setdefault(json.dumps(same), []).append(run)
    rows = []
    for runs in recipes.values():
        if len(runs) == 1:
            continue
        runs.sort(key=lambda run: run.settings.seed)
        figures: dict[str, list[float | None]] = {
            "training": [run.outcome.train_accuracy if run.outcome else None for run in runs],
            "held out": [run.outcome.validation_ar if run.outcome else None for run in runs],
        }
        for protocol in ("paper", "strict"):
            tested = [run.result(ClassificationResult, protocol) for run in runs]
            figures[f"test, {protocol}"] = [found.ar.accuracy if found else None for found in tested]
        for mode in ("siamese", "canonical"):
            figures |= {f"{mode}, {p}": [_mean_error(run, mode, p) for run in runs] for p in ("paper", "strict")}
        names = ", ".join(_link_folder(run, str(run.settings.seed)) for run in runs)
        how = runs[0].settings
        recipe = f"{_METHODS.get(how.method, how.method)} frames, {how.patches} patches, {how.epochs} epochs"
        rows.append([recipe, names, *map(_mean_and_deviation, figures, figures.values())])
    return _table(("recipe", "seeds", *figures), rows)


def _mean_and_deviation(name: str, values: Sequence[float | None]) -> str:
    """Mean ± standard deviation (of a sample) in percent, or of errors as angle/π; a dash where one is missing."""
    given = [value for value in values if value is not None]
    if len(given) < len(values):
        return DASH
    mean, deviation = fmean(given), stdev(given)
    if name.startswith(("siamese", "canonical")):
        return f"{mean:.3f} ± {deviation:.3f}"
    return f"{100 * mean:.1f} ± {100 * deviation:.1f}%"


def replication_runs() -> str:
    """Each training run of the paper's network: what it changed, and what came of it."""
    rows = []
    for run in _list_replications():
        how, outcome = run.settings, run.outcome
        loss = f"{how.loss.replace('_', '-')}{', siamese' if how.siamese else ''}"
        loss += f", balance {how.balance:g}" if how.balance else ""
        changed = [f"frames dropped {how.dropped:g}"] if how.dropped else []
        changed += [f"stretch {how.stretch:g}"] if how.stretch > 1 else []
        rate = f"{how.learning_rate:g}, {'one cycle' if how.schedule == 'onecycle' else 'constant'}"
        tested = [run.result(ClassificationResult, protocol) for protocol in ("paper", "strict")]
        rows.append(
            [
                _link_folder(run),
                _METHODS.get(how.method, how.method),
                how.origin,
                str(how.patches),
                "as released" if how.weighting == "linear" else "as printed",
                how.nonlinearity,
                loss,
                rate,
                ", ".join(changed) or "none",
                _count_epochs(run),
                str(how.subsamplings or DASH),
                format_percent(outcome.train_accuracy if outcome else None),
                format_percent(outcome.validation_ar if outcome else None),
                *(_accuracy(found) for found in tested),
            ]
        )
    about = ("frames", "relative to", "patches", "routing weight", "non-linearity", "loss", "learning rate")
    figures = ("training", "held out", "test, paper protocol", "test, strict")
    return _table(("run", *about, "augmentation", "epochs", "subsamples", *figures), rows)


def _list_trials(config: str) -> list[EvaluatedRun]:
    """List the training runs of a network that were made to choose its settings."""
    runs = map(EvaluatedRun, sorted((RESULTS / "trials").iterdir()))
    return [run for run in runs if run.settings.config == config]


def paper_trials() -> str:
    """Short runs of the paper's network on ModelNet10 that differ from the first in one or two settings."""
    runs = _list_trials("paper")
    first = vars(runs[0].settings)
    rows = []
    for run in runs:
        changed = [f"{name} {value}" for name, value in vars(run.settings).items() if value != first[name]]
        last = run.log[-1]
        figures = (last.train_accuracy, last.validation_ar, last.validation_class_mean)
        rows.append([_link_folder(run), ", ".join(changed) or DASH, *map(format_percent, figures)])
    return _table(("run", "changed", "training", "held out", "held out, class mean"), rows)


def upright_trials() -> str:
    """Training runs of the network that verifies candidates on ModelNet40, with the last row of each log."""
    rows = []
    trials = [run for run in _list_trials("upright") if run.settings.dataset == "modelnet40"]
    for run in (*trials, EvaluatedRun(RESULTS / "modelnet40")):
        last = run.log[-1]
        figures = (last.train_accuracy, last.validation_ar, last.validation_class_mean, last.validation_views)
        rows.append(
            [
                _link_folder(run),
                run.settings.only or "all",
                _count_epochs(run),
                str(run.settings.subsamplings),
                format_percent(run.settings.validation),
                *map(format_percent, figures),
                format_error(last.validation_pose),
            ]
        )
    head = ("run", "trained parts", "epochs", "subsamples", "held out", "training", "accuracy", "class mean", "views")
    return _table((*head, "orientation error"), rows)


def upright_steps() -> str:
    """What each reader of `modelnet10` added, on the test split."""
    steps = {
        "scorer and reader": RESULTS / "trials" / "modelnet10-readers-seed0",
        "and projections": RESULTS / "trials" / "modelnet10-projections-seed0",
        "and an invariant reader": RESULTS / "trials" / "modelnet10-all-readers-seed0",
        "projections trained again": RESULTS / "modelnet10",
    }
    rows = []
    for name, folder in steps.items():
        run = EvaluatedRun(folder)
        seen, names = _result(run, ViewsResult).groups["views"], _result(run, ClassificationResult)
        furniture = _rows((RESULTS if folder.parent == RESULTS else folder) / "elsewhere.csv")
        right = fmean(row["named"] == row["class"] for row in furniture)
        figures = (names.ar.accuracy, seen.accuracy, seen.up10, right)
        rows.append([_link_folder(run, name), *map(format_percent, figures)])
    return _table(("parts", "whole, rotated", "views", "views, up within 10°", "furniture from another source"), rows)


def _link_folder(run: EvaluatedRun, text: str = "") -> str:
    return f"[{text or run.name}](../results/{run.folder.relative_to(RESULTS).as_posix()})"


def _mean_error(run: EvaluatedRun, mode: str, protocol: Literal["paper", "strict"]) -> float | None:
    """The mean orientation error of classes without symmetry; under the protocol "paper", of correct pairs only."""
    if (found := run.result(RotationResult, protocol)) is None:
        return None
    errors = getattr(getattr(found.modes, mode), "correct" if protocol == "paper" else "all").no_sym
    return errors.mean if errors else None


def reproduced() -> str:
    """The paper's figures for its own network, and those of the weights that ship."""
    published = published_figures()
    (names,) = (row for row in published.classification if row.method == "QEC")
    errors = {row.method: row.no_sym for row in published.rotation}
    ten, forty = (EvaluatedRun(RESULTS / f"{name}-paper") for name in DATASETS)

    def accuracies(run: EvaluatedRun, pose: str) -> list[str]:
        found = [run.result(ClassificationResult, protocol) for protocol in ("paper", "strict")]
        return [_accuracy(result, pose) for result in found]

    def mean_errors(mode: str) -> list[str]:
        return [format_error(_mean_error(ten, mode, protocol)) for protocol in ("paper", "strict")]

    (whole,) = (row for row in published.robustness if (row.kind, row.level) == ("frames", 1))
    rows = [
        ["ModelNet10, accuracy (Table 3)", format_percent(whole.accuracy), *accuracies(ten, "ar")],
        ["ModelNet40, accuracy, upright (Table 1)", format_percent(names.nr), *accuracies(forty, "nr")],
        ["ModelNet40, accuracy, rotated (Table 1)", format_percent(names.ar), *accuracies(forty, "ar")],
        ["canonical, no-sym (Table 2)", format_error(errors["QEC, canonical"]), *mean_errors("canonical")],
        ["siamese, no-sym (Table 2)", format_error(errors["QEC, siamese"]), *mean_errors("siamese")],
    ]
    levels = [ten.result(RobustnessResult, protocol) for protocol in ("paper", "strict")]
    for row in published.robustness:
        ours = [result.by_level.get((row.kind, row.level)) if result else None for result in levels]
        for what, field, form in (("accuracy", "accuracy", format_percent), ("error, no-sym", "rae", format_error)):
            cells = (form(getattr(one, field) if one else None) for one in (row, *ours))
            rows.append([f"{row.name}, {what} (Table 3)", *cells])
    return _table(("figure", "published", "reproduced, paper protocol", "reproduced, strict"), rows)


def network_speed() -> str:
    """The paper's network on two cores: with compiled operators, without them, and as plain formulas."""
    found = _measured("network", threads=2)
    plain = {row["what"]: row["of it"] for row in found if row["reference"] != "eager"}
    rows = []
    for row in found:
        if row["reference"] != "eager":
            continue
        fused, *slower = (f"{_round(value)} ms" for value in (row["ours"], row["of it"], plain[row["what"]]))
        reached = DASH
        if row["aim"]:
            reached = "yes" if float(row["ours"]) <= float(row["aim"].split()[1]) else "no"
        rows.append([row["what"].removesuffix(", fused"), fused, row["aim"] or DASH, reached, *slower])
    return _table(("", "compiled operators", "goal", "reached", "without them", "plain formulas"), rows)


def network_parts() -> str:
    """What a training step of the paper's network spends its time on."""
    found = _measured("network_parts")
    classes = dict.fromkeys(row["classes"] for row in found)
    rows = [
        [part, *(f"{of[n]['ms a shape']:.2f} ms ({of[n]['share']:.1%})" for n in classes)]
        for part, of in _pivot(found, "part", "classes").items()
    ]
    whole = (sum(float(row["ms a shape"]) for row in found if row["classes"] == n) for n in classes)
    rows.append(["all", *(f"{milliseconds:.2f} ms" for milliseconds in whole)])
    return _table(("a shape in a training step", *(f"{n} classes" for n in classes)), rows)


BLOCKS: dict[str, Callable[[], str]] = {
    name.replace("_", "-"): found
    for name, found in [*globals().items()]
    if isinstance(found, FunctionType) and found.__module__ == __name__ and not name.startswith("_")
}
"""The public functions above: `all-poses` is `all_poses`."""
_BLOCK = re.compile(r"(<!-- figures: (?P<name>[a-z-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def fill(page: Path) -> str:
    """Fill in the page's text every figure as the results have it now."""

    def replace_block(block: re.Match[str]) -> str:
        text = BLOCKS[block["name"]]()
        if page.parent == ROOT:
            text = text.replace("](../results/", "](results/")
        return f"{block[1]}\n{text}\n\n{block[3]}"

    return _BLOCK.sub(replace_block, page.read_text(encoding="utf-8"))


def _against(value: float, aim: float, form: Callable[[float | None], str], *, more: bool) -> tuple[str, str]:
    return form(value), "yes" if (value >= aim if more else value <= aim) else "no"


def _accuracy(found: ClassificationResult | None, pose: str = "ar", missing: str = DASH) -> str:
    return format_percent(getattr(found, pose).accuracy) if found else missing


def _result(run: EvaluatedRun, kind: type[R]) -> R:
    """A result under the strict protocol that a page cannot do without."""
    found = run.result(kind)
    if found is None:
        raise ValueError(f"{run.folder}: {kind.measurement} has not been measured; run make measure")
    return found


def _no_sym(poses: RotationResult) -> list[RotationErrors]:
    """The errors of each mode over all pairs of the classes without symmetry."""
    return [getattr(poses.modes, mode).all.no_sym for mode in MODES]


def _list(kinds: Sequence[str]) -> str:
    plural = [f"{kind}s" for kind in kinds]
    return f"{', '.join(plural[:-1])} and {plural[-1]}"


def _table(head: Iterable[str], rows: Sequence[Sequence[str]]) -> str:
    return SummaryTable("", tuple(head), rows).to_markdown()


def _columns(rows: Iterable[Mapping[str, str]], columns: Mapping[str, str]) -> str:
    """A table of the rows of a CSV file: what each column has, by heading, such as "{median:.1f}°"."""
    return _table(columns, [[cell.format_map(row) for cell in columns.values()] for row in rows])


def _pivot(rows: Iterable[dict[str, Figure]], by: str, then: str) -> dict[str, dict[str, dict[str, Figure]]]:
    """The rows of a CSV file by their values in two columns."""
    found: dict[str, dict[str, dict[str, Figure]]] = {}
    for row in rows:
        found.setdefault(row[by], {})[row[then]] = row
    return found


def _round(value: float | str, digits: int = 3) -> str:
    """A number with that many digits that count, and commas."""
    return f"{float(f'{float(value):.{digits}g}'):,g}"


def _rows(name: str | Path) -> list[dict[str, Figure]]:
    """Read a table, by default of results/."""
    with (RESULTS / name).open(encoding="utf-8", newline="") as file:
        return [{key: Figure(value) for key, value in row.items()} for row in csv.DictReader(file)]


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(fill(page), encoding="utf-8")
