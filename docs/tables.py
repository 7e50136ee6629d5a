"""Writes the figures of the README and of the pages anew, from the files in results/ and the published ones.

    python docs/tables.py

A figure stands between a line `<!-- figures: NAME -->` and a line `<!-- end -->`; NAME is a function of `BLOCKS`.
"""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from qecnet import DEFAULT_MODEL
from qecnet.evaluation.metrics import NO_SYM
from qecnet.evaluation.published import CLASSIFICATION, ROBUSTNESS, ROTATION, SINCE

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results"
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
NETWORKS = {
    "features": "capsules with features",
    "paper": "the paper's network, trained here",
    "var": "the paper's “Var.”, trained here",
    "pointnet": "PointNet",
    "pointnet2": "PointNet++",
    "dgcnn": "DGCNN",
    "ppf": "point-pair features",
}
"""What a run's network is called, in the order of the tables."""
DATASETS = {"modelnet10": "ModelNet10", "modelnet40": "ModelNet40"}
MODES = {"canonical": "against upright", "siamese": "one shape twice", "category": "two shapes of a class"}
SPEED = ("features", "product", "viewer")
"""The benchmarks that say how long users wait."""
DASH = "–"


@dataclass(frozen=True)
class Run:
    """A folder of results/ that holds what `qec train` and `qec evaluate` wrote."""

    folder: Path

    @cached_property
    def settings(self) -> dict[str, Any]:
        return _read(self.folder / "settings.json") or {}

    @property
    def kind(self) -> str:
        """Its configuration; without canonicalisation, the paper's is its "Var."."""
        config = str(self.settings["config"])
        return "var" if config == "paper" and not self.settings["canonicalize"] else config

    @property
    def network(self) -> str:
        return NETWORKS.get(self.kind, self.kind)

    @property
    def epochs(self) -> str:
        """Those of the run that it started with first."""
        own = str((_read(self.folder / "result.json") or {})["epoch"])
        start = self.settings.get("start")
        return f"{Run(ROOT / start).epochs} + {own}" if start else own

    def measured(self, what: str, protocol: str = "strict") -> dict[str, Any] | None:
        return _read(self.folder / "evaluation" / f"{what}-{protocol}.json")

    def link(self, text: str) -> str:
        """To the run's card, where it has one."""
        card = self.folder / "CARD.md"
        return f"[{text}](../results/{self.folder.name}/CARD.md)" if card.exists() else text


def runs(dataset: str) -> list[Run]:
    """Those that were measured, ours first."""
    found = [Run(path) for path in sorted(RESULTS.iterdir()) if (path / "evaluation").is_dir()]
    order = [*NETWORKS]
    return sorted(
        (run for run in found if run.settings["dataset"] == dataset),
        key=lambda run: order.index(run.kind) if run.kind in order else len(order),
    )


def shipped(dataset: str, kind: str) -> Run | None:
    """The run of a kind of network that has the shortest name: its best, or its only one."""
    of_it = [run for run in runs(dataset) if run.kind == kind]
    return min(of_it, key=lambda run: len(run.folder.name), default=None)


def headline() -> str:
    """What the model that commands take has shown."""
    run = Run(RESULTS / DEFAULT_MODEL)
    names, poses = run.measured("classification"), run.measured("rotation")
    assert names is not None
    assert poses is not None
    turned = names["ar"]
    of_class = sorted(turned["per_class"].items(), key=lambda row: row[1])
    weakest = " and ".join(f"{kind.replace('_', ' ')}s ({100 * share:.0f}%)" for kind, share in of_class[:2])
    medians = {mode: _degrees(poses["modes"][mode]["all"]["no_sym"]["median"]) for mode in MODES}
    return (
        f"Of the {names['shapes']} test shapes of {DATASETS[names['dataset']]}, each in a random pose, the model that "
        f"ships names **{_percent(turned['accuracy'])}%** right (95% interval {_interval(turned['interval'])}); it is "
        f"weakest on {weakest}. Half of its errors of pose on {_list(NO_SYM)} are below **{medians['canonical']}** "
        f"against upright, {medians['siamese']} between two scans of one shape, and {medians['category']} between two "
        "different shapes of a class."
    )


def names() -> str:
    """Every network on both datasets, in short."""
    rows = []
    for kind, name in NETWORKS.items():
        of_it = {dataset: shipped(dataset, kind) for dataset in DATASETS}
        if any(of_it.values()):
            rows.append([name, *(cell for run in of_it.values() for cell in _accuracy(run))])
    published = next(row for row in CLASSIFICATION if row.method == "QEC")
    (ten,) = (row.accuracy for row in ROBUSTNESS if row.kind == "patches" and row.level == 1)
    forty = (_percent(published.nr), _percent(published.ar))
    rows.insert(2, ["the paper's network, as published ¹", DASH, _percent(ten), *forty])
    head = ["", *(f"{name}, {pose}" for name in DATASETS.values() for pose in ("upright", "turned"))]
    rows[0][0] = f"**{rows[0][0]}**"
    ours = (shipped(dataset, "features") for dataset in DATASETS)
    found = [
        measured["ar"]["accuracy"] for run in ours if run and (measured := run.measured("classification", "paper"))
    ]
    easier = f" (under the paper's protocol, where they turn along, ours has {' and '.join(map(_percent, found))})"
    return _table(head, rows) + (
        "\n\nShare of the test shapes that are named right, in %; all trained on upright shapes only. Turned shapes "
        f"are resampled, and their frames estimated after the rotation{easier if found else ''}.\n¹ With frames that "
        "are turned along with the points; for ModelNet10 the paper does not say whether shapes are turned.\n\n"
        "Methods that came after the paper [name ModelNet40's turned shapes better](docs/results.md#classification)."
    )


def all_names() -> str:
    """Every run, with protocols and intervals."""
    parts = []
    for dataset, title in DATASETS.items():
        rows = []
        for run in runs(dataset):
            for protocol in ("strict", "paper"):
                if (found := run.measured("classification", protocol)) is not None:
                    cells = [_percent(found[which]["accuracy"]) for which in ("nr", "ar")]
                    interval, classes = _interval(found["ar"]["interval"]), _percent(found["ar"]["mean_class"])
                    about = [run.link(run.network), f"{found['model']['parameters']:,}", run.epochs, protocol]
                    rows.append([*about, str(found["rotations"]), *cells, interval, classes])
        head = ["network", "parameters", "epochs", "protocol", "turned views", "upright (NR/NR)", "turned (NR/AR)"]
        parts.append(f"### {title}\n\n" + _table([*head, "95% interval, turned", "mean class, turned"], rows))
    rows = [[row.method, f"{row.parameters:,}", _percent(row.nr), _percent(row.ar)] for row in CLASSIFICATION]
    head = ["method", "parameters", "upright", "turned"]
    parts.append("### ModelNet40, as the paper publishes it\n\n" + _table(head, rows))
    since = _table(["method", "turned"], [[method, _percent(share)] for method, share in SINCE.items()])
    parts.append(f"### ModelNet40, since the paper, as their authors publish it\n\n{since}")
    return "\n\n".join(parts)


def alignments() -> str:
    """Errors of alignment, ours beside what one would take instead."""
    run = Run(RESULTS / DEFAULT_MODEL)
    poses = run.measured("rotation")
    baselines = _read(run.folder / "evaluation" / "pose-baselines.json")
    assert poses is not None
    of_mode = [poses["modes"][mode]["all"]["no_sym"] for mode in ("siamese", "category")]
    rows = [["**qecnet**", *map(_median_mean, of_mode)]]
    for method in baselines["same_instance"] if baselines else ():
        both = (baselines[which][method]["no_sym"] for which in ("same_instance", "category_level"))
        rows.append([method, *map(_median_mean, both)])
    pairs = f"the others on {baselines['pairs_per_class']} pairs of each class" if baselines else ""
    return _table(["", "one shape, two scans", "two shapes of a class"], rows) + (
        f"\n\nMedian and mean error of rotation over {_list(NO_SYM)} of the test split; ours on every pair, {pairs}. "
        "A guess has a mean of 126°. The two scans of one shape share most of their points, which registration "
        "lives on."
    )


def all_poses() -> str:
    """Every run's errors of pose, as the paper counts them."""
    rows = []
    for run in runs("modelnet10"):
        for protocol, counted, told in (
            ("strict", "all", "every pair"), ("strict", "correct", "named right"), ("paper", "correct", "named right")
        ):  # fmt: skip
            found = run.measured("rotation", protocol)
            for mode, name in MODES.items() if found else ():
                of_it = found["modes"][mode][counted]
                both = of_it["no_sym"], of_it["all_classes"]
                figures = [f"{both[0]['mean']:.3f}", f"{both[0]['median']:.3f}", f"{both[1]['mean']:.3f}"]
                figures.append(f"{both[1]['symmetric']['mean']:.3f}")
                rows.append([run.link(run.network), name, protocol, told, *figures])
    for row in ROTATION:
        rows.append([f"{row.method}, published", DASH, "paper", "named right", f"{row.no_sym:.2f}", DASH])
        rows[-1] += [f"{row.average:.2f}", DASH]
    head = ["method", "rotation", "protocol", "counted", "no-sym mean", "no-sym median", "all classes"]
    return _table([*head, "all, up to symmetry"], rows)


def robustness() -> str:
    """Of each run that was measured on spoiled input."""
    parts = []
    for run in runs("modelnet10"):
        found = run.measured("robustness")
        if found is not None:
            rows = []
            for level in found["levels"]:
                # A network with features reads no patches: leaving some out damages nothing.
                if run.kind != "features" or level["kind"] != "patches" or level["level"] == 1:
                    error = DASH if level["rae"] is None else f"{level['rae']:.2f}"
                    rows.append([level["kind"], f"{level['level']:g}", _percent(level["accuracy"]), error])
            title = f"### {run.network[0].upper()}{run.network[1:]}, {found['shapes']} test shapes"
            parts.append(f"{title}\n\n" + _table(["damage", "level", "named right, %", "no-sym error, angle/π"], rows))
    return "\n\n".join(parts) or "Not measured yet."


def elsewhere() -> str:
    """Furniture that is not ModelNet's."""
    rows = _rows("elsewhere.csv")
    if not rows:
        return "Not measured yet."
    models, poses = len({row["number"] for row in rows}), len({row["pose"] for row in rows})
    right = sum(row["class"] == row["named"] for row in rows)
    missed = Counter((row["class"], row["named"]) for row in rows if row["class"] != row["named"])
    worst = "; ".join(f"{kind} for {true} {count}×".replace("_", " ") for (true, kind), count in missed.most_common(3))
    return (
        f"Of {models} models of furniture from elsewhere (Sweet Home 3D's catalogues, in Debian's package), each in "
        f"{poses} random poses and sampled anew for each, it names **{_percent(right / len(rows))}%** right; what it "
        f"gives wrongly most often: "
        f"{worst}."
    )


def elsewhere_classes() -> str:
    """The same by class."""
    rows = _rows("elsewhere.csv")
    counts = Counter((row["class"], row["class"] == row["named"]) for row in rows)
    kinds = sorted({row["class"] for row in rows})
    cells = [[k.replace("_", " "), str(counts[k, True] + counts[k, False]), str(counts[k, True])] for k in kinds]
    return _table(["class", "views", "named right"], cells) if rows else "Not measured yet."


def unknown() -> str:
    """What a threshold on confidence keeps and turns away."""
    rows = _rows("unknown.csv")
    if not rows:
        return "Not measured yet."
    head = ["`--min-confidence`", "known shapes kept, %", "of these named right, %", "unknown shapes called unknown, %"]
    cells = [
        [f"{float(row['min_confidence']):g}", *(_percent(float(row[k])) for k in ("kept", "right", "refused"))]
        for row in rows
    ]
    return (
        f"ModelNet40's test split, each shape in a random pose: {rows[0]['known']} shapes of the ten classes that "
        f"`modelnet10` knows, {rows[0]['unknown']} of the thirty others.\n\n" + _table(head, cells)
    )


def densities() -> str:
    """Few points and many, before training on both and after."""
    rows = _rows("densities.csv")
    if not rows:
        return "Not measured yet."
    return "\n\n".join(
        _densities_table([row for row in rows if row["dataset"] == dataset])
        for dataset in dict.fromkeys(row["dataset"] for row in rows)
    )


def _densities_table(rows: list[dict[str, str]]) -> str:
    """Its runs share a dataset, so its columns are numbers of points that its clouds really have."""
    points = list(dict.fromkeys(row["points"] for row in rows))
    cells = []
    for run in dict.fromkeys(row["run"] for row in rows):
        by_points = {row["points"]: row for row in rows if row["run"] == run}
        accuracies = (_percent(float(by_points[count]["right"])) for count in points)
        cells.append([f"`{run}`", *accuracies, *(f"{float(by_points[count]['pose']):.3f}" for count in points)])
    first, *others = (f"{int(count):,}" for count in points)
    head = [name for what in ("accuracy, %", "orientation error") for name in (f"{what}: {first} points", *others)]
    return _table(["run", *head], cells)


def hundred() -> str:
    """The same file in many poses."""
    rows = _rows("hundred_poses.csv")
    head = ["class", "symmetry", "named right, %", "same name, %", "spread of confidence"]
    head += [f"pose off by, {which}" for which in ("median", "95%", "largest")]
    cells = [
        [row["class"].replace("_", " "), row["symmetry"] or DASH]
        + [_percent(float(row[which])) for which in ("right", "same")]
        + [f"{float(row['spread']):.3f}", *(f"{float(row[which]):.1f}°" for which in ("median", "p95", "largest"))]
        for row in rows
    ]
    if not rows:
        return "Not measured yet."
    shapes, poses = rows[0]["shapes"], rows[0]["poses"]
    return f"Shapes of each class: {shapes}; poses of each shape: {poses}.\n\n" + _table(head, cells)


def calibration() -> str:
    """How far confidence is from the share that is right."""
    rows = []
    for run in (run for dataset in DATASETS for run in runs(dataset)):
        if found := _read(run.folder / "evaluation" / "calibration.json"):
            errors = (found[part][when]["ece"] for part in ("held_out", "test") for when in ("before", "after"))
            rows.append([run.link(run.folder.name), f"{found['temperature']:g}", *(f"{error:.3f}" for error in errors)])
    head = ["model", "temperature", "held-out, before", "held-out, after", "test, before", "test, after"]
    return _table(head, rows) if rows else "Not measured yet."


def speed() -> str:
    """How long users wait, on the machines where that was measured."""
    rows = []
    for path in sorted(path for what in SPEED for path in RESULTS.glob(f"bench_{what}_*.csv")):
        for row in _rows(path.name):
            measured, of_it = (f"{float(row[k]):,.3g}" if row[k] else "" for k in ("ours", "of it"))
            beside = f"{row['reference']}: {of_it}" if row["reference"] else ""
            rows.append([row["what"], f"{measured} {row['unit']}", row["aim"], beside])
    head = ["what", "measured", "aim", "beside it, in the same run"]
    return _table(head, rows) if rows else "Not measured yet."


def limits() -> str:
    """Where what is missing is lost: learning, frames, or poses that are the wrong way round."""
    run = Run(RESULTS / DEFAULT_MODEL)
    names, poses, turned = run.measured("classification"), run.measured("rotation"), run.measured("equivariance")
    learned = _read(run.folder / "result.json")
    if names is None or poses is None or turned is None or learned is None:
        return "Not measured yet."
    off = poses["modes"]["canonical"]["all"]["no_sym"]
    far = [sum(off["histogram"][-degrees // 5 :]) for degrees in (90, 20)]
    right = turned["accuracy"]
    return "\n".join(
        (
            f"- **Learning.** In its last epoch it names {_percent(learned['train_accuracy'])}% of the training shapes "
            f"right; of the held-out tenth {_percent(learned['validation_ar'])}%, of the test split "
            f"{_percent(names['nr']['accuracy'])}% upright and {_percent(names['ar']['accuracy'])}% turned.",
            f"- **Frames.** The same points, turned: {_percent(right['exact_frames'])}% with frames that turn along, "
            f"{_percent(right['reestimated'])}% with frames estimated anew, {_percent(right['resampled'])}% with new "
            f"points, too; upright it was {_percent(right['nr'])}%. The network itself changes no pose by more "
            f"than {turned['network']['pose_degrees_max']:.2g}°, new frames half of them by more than "
            f"{turned['frames']['pose_degrees_median']:.2g}°, new points by more than "
            f"{turned['resampled']['pose_degrees_median']:.2g}°.",
            f"- **Wrong way round.** On the classes without symmetry {_percent(off['acc15'])}% of the poses are within "
            f"15° of upright; {_percent(far[0])}% are off by more than 90°, and {_percent(far[1])}% by more than 160°. "
            "These make most of the mean error.",
        )
    )


def ablation() -> str:
    """What each idea of the network with features brings."""
    rows = _rows("ablation.csv")
    head = ["variant", "parameters", "named right, %", "error of pose, angle/π"]
    cells = []
    for row in rows:
        named, pose = _percent(float(row["validation_ar"])), f"{float(row['validation_pose']):.3f}"
        cells.append([row["variant"], f"{int(row['parameters']):,}", named, pose])
    return _table(head, cells) if rows else "Not measured yet."


def aims() -> str:
    """What was aimed for, and what came of it."""
    ten, forty = shipped("modelnet10", "features"), shipped("modelnet40", "features")
    rows = []
    for name, run, aim in (("ModelNet10, turned", ten, 94.0), ("ModelNet40, turned", forty, 91.0)):
        found = run and run.measured("classification")
        share = 100 * found["ar"]["accuracy"] if found else None
        rows.append([f"{name}: named right, %", f"≥ {aim:.1f}", *_against(share, aim, ".1f", larger=True)])
    poses = ten and ten.measured("rotation")
    for name, mode, classes, aim in (
        ("one shape twice, no-sym: mean error, angle/π", "siamese", "no_sym", 0.05),
        ("two shapes of a class, no-sym: mean error, angle/π", "category", "no_sym", 0.08),
        ("one shape twice, all classes up to symmetry: mean error, angle/π", "siamese", "all_classes", 0.08),
    ):
        of_it = poses and poses["modes"][mode]["all"][classes]
        mean = of_it and (of_it if classes == "no_sym" else of_it["symmetric"])["mean"]
        rows.append([name, f"≤ {aim:.2f}", *_against(mean, aim, ".3f", larger=False)])
    for mode, name in MODES.items():
        median = poses and 180 * poses["modes"][mode]["all"]["no_sym"]["median"]
        rows.append([f"{name}, no-sym: median error, degrees", "< 5", *_against(median, 5, ".1f", larger=False)])
    return _table(["strict protocol, last epoch", "aim", "measured", "reached"], rows)


BLOCKS: dict[str, Callable[[], str]] = {
    "headline": headline,
    "names": names,
    "all-names": all_names,
    "alignments": alignments,
    "all-poses": all_poses,
    "robustness": robustness,
    "aims": aims,
    "elsewhere": elsewhere,
    "elsewhere-classes": elsewhere_classes,
    "unknown": unknown,
    "densities": densities,
    "hundred": hundred,
    "calibration": calibration,
    "speed": speed,
    "limits": limits,
    "ablation": ablation,
}
_BLOCK = re.compile(r"(<!-- figures: (?P<name>[a-z-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def filled(page: Path) -> str:
    """The page's text with every figure as the results have it now."""

    def of_results(block: re.Match[str]) -> str:
        text = BLOCKS[block["name"]]()
        if page.parent == ROOT:
            text = text.replace("](../results/", "](results/")
        return f"{block[1]}\n{text}\n\n{block[3]}"

    return _BLOCK.sub(of_results, page.read_text(encoding="utf-8"))


def _accuracy(run: Run | None) -> tuple[str, str]:
    found = run and run.measured("classification")
    return (_percent(found["nr"]["accuracy"]), _percent(found["ar"]["accuracy"])) if found else (DASH, DASH)


def _against(value: float | None, aim: float, form: str, *, larger: bool) -> Iterator[str]:
    yield DASH if value is None else format(value, form)
    yield "" if value is None else "yes" if (value >= aim if larger else value <= aim) else "no"


def _median_mean(found: dict[str, Any]) -> str:
    return f"{_degrees(found['median'])} / {_degrees(found['mean'])}"


def _degrees(share: float) -> str:
    return f"{180 * share:.1f}°" if share < 0.1 else f"{180 * share:.0f}°"


def _percent(share: float | None) -> str:
    return DASH if share is None else f"{100 * share:.1f}"


def _interval(ends: Sequence[float]) -> str:
    return f"{_percent(ends[0])} – {_percent(ends[1])}"


def _list(kinds: Sequence[str]) -> str:
    plural = [f"{kind}s" for kind in kinds]
    return f"{', '.join(plural[:-1])} and {plural[-1]}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def _rows(name: str) -> list[dict[str, str]]:
    """Of a table in results/; none where it was not made."""
    if not (path := RESULTS / name).exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return [*csv.DictReader(file)]


def _read(path: Path) -> dict[str, Any] | None:
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(filled(page), encoding="utf-8")
