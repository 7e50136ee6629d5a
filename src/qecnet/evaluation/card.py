"""A card for a set of weights, from the files of its run: what they are, where they come from, what they can't do."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from qecnet.evaluation.predict import Model
from qecnet.nn import QECConfig, QECNet, count_parameters

_DEFAULTS = ("epochs", "batch_size", "learning_rate", "schedule", "loss", "method", "points", "keep", "subsamplings")
_DATA = {
    "modelnet10": "ModelNet10 (Princeton), official split; for research use, see https://modelnet.cs.princeton.edu",
    "modelnet40": "ModelNet40 (Princeton), official split; for research use, see https://modelnet.cs.princeton.edu",
    "shapes": "qecnet's own procedural shapes; no rights of others",
}


def card(run: Path) -> str:
    """Markdown, from the run's weights, settings and results; what was not measured is said to be missing."""
    model = Model.load(run)
    settings = model.settings
    lines = [
        f"# Weights: {settings['config']} on {settings['dataset']}, seed {settings['seed']}",
        "",
        f"- **Network**: {_network(model)}, {count_parameters(model.network):,} parameters, "
        f"{len(model.classes)} classes.",
        f"- **Data**: {_DATA.get(settings['dataset'], settings['dataset'])}. Upright shapes only, never a turned one.",
        "- **Trained with**: `qec train --settings settings.json --data PATH --out RUN`",
        f"- **Settings**: {', '.join(f'{name} {settings[name]}' for name in _DEFAULTS)}, "
        f"thinnest {settings.get('thinnest', 1.0)}; "
        "all of them stand in settings.json and in the file itself.",
        f"- **Poses**: {_supervision(settings)}.",
    ]
    if start := settings.get("start"):
        lines.append(
            f"- **Started with** the weights of `{start}`. What these were trained on they have seen, too: validation "
            "is clean where the two held out the same shapes, as runs on one dataset do."
        )
    result = _read(run / "result.json")
    if result:
        lines.append(
            f"- **Last epoch** ({result['epoch']}): train {_percent(result['train_accuracy'])}, validation "
            f"NR {_percent(result['validation_nr'])}, AR {_percent(result['validation_ar'])} ({result['protocol']} "
            "protocol, a part of the train split that was not trained on)."
        )
    lines += ["", "## Measured on the test split", ""]
    measured = [*_names(run), *_poses(run), *_confidence(run)]
    lines += measured or ["Nothing yet: `qec evaluate classification RUN --data PATH` does it."]
    lines += [
        "",
        "**paper**: frames are turned with the points, pairs named right. **strict**: each view resampled and turned "
        "on its own, frames estimated after the rotation, every pair. RAE is the angle of the error over π.",
        "",
        "## Limits",
        "",
        "Knows these classes and no others: " + ", ".join(model.classes) + ". A shape of another kind still gets "
        "one of these names. Symmetric shapes have no single orientation, and the pose of theirs turns freely.",
        "",
    ]
    return "\n".join(lines)


def _network(model: Model) -> str:
    if isinstance(model.network, QECNet):
        config: QECConfig = model.network.config
        if config.features is not None:
            sizes = ", ".join(f"{n.patches} × {n.neighbours}" for n in config.features.neighbourhoods)
            looks = config.features.looks
            return f"QECNet with features, {config.points} frames, readings of {sizes}, {looks} look{'s'[: looks > 1]}"
        level = config.levels[0]
        return (
            f"QECNet, {config.points} frames, {level.patches} patches of {level.neighbours}, {level.capsules} capsules"
            + ("" if config.canonicalize else ", without canonicalisation")
        )
    return f"the baseline {model.network.config.kind}"


def _supervision(settings: Mapping[str, Any]) -> str:
    """What training told of poses; settings of before there was such a loss do not name it."""
    told = []
    if settings.get("aligned", 0) > 0:
        told.append("towards upright, in which the train split's shapes stand, up to the class's declared symmetry")
    if settings.get("siamese", 0) > 0:
        told.append("two subsamplings of a shape alike")
    return f"trained {' and '.join(told)}" if told else "trained without a loss on poses"


def _names(run: Path) -> list[str]:
    lines = []
    for protocol in ("paper", "strict"):
        found = _read(run / "evaluation" / f"classification-{protocol}.json")
        for name, which in (("NR/NR", "nr"), ("NR/AR", "ar")):
            if found:
                of = found[which]
                interval = " – ".join(_percent(bound) for bound in of["interval"])
                cells = name, protocol, _percent(of["accuracy"]), interval, _percent(of["mean_class"])
                lines.append(f"| {' | '.join(cells)} |")
    head = ["| accuracy | protocol | overall | 95% interval | mean class |", "|---|---|---|---|---|"]
    return [*head, *lines, ""] if lines else []


def _poses(run: Path) -> list[str]:
    lines = []
    for protocol in ("paper", "strict"):
        found = _read(run / "evaluation" / f"rotation-{protocol}.json")
        for mode, groups in found["modes"].items() if found else ():
            row = groups["correct" if protocol == "paper" else "all"]["no_sym"]
            every = groups["correct" if protocol == "paper" else "all"]["all_classes"]
            cells = ["–"] * 4
            if row and every:
                values = row["mean"], row["median"], every["mean"], every["symmetric"]["mean"]
                cells = [f"{value:.3f}" for value in values]
            lines.append(f"| {mode} | {protocol} | {' | '.join(cells)} |")
    head = [
        "| pose, RAE | protocol | no-sym mean | no-sym median | all classes | all, up to symmetry |",
        "|---|---|---|---|---|---|",
    ]
    return [*head, *lines] if lines else []


def _confidence(run: Path) -> list[str]:
    found = _read(run / "evaluation" / "calibration.json")
    if found is None:
        return []
    before, after = (_percent(found["test"][when]["ece"]) for when in ("before", "after"))
    held = _percent(found["held_out"]["after"]["ece"])
    return [
        "",
        f"**Confidence** is calibrated by a temperature of {found['temperature']:g}, fitted on a held-out part of the "
        f"train split. Expected calibration error ({found['bins']} bins, {found['protocol']} protocol): {after} on the "
        f"test split, where it would be {before} without; {held} on the held-out part.",
    ]


def _read(path: Path) -> dict[str, Any] | None:
    if not path.exists():
        return None
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path}: is damaged ({error})") from error
    return found


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f}%"
