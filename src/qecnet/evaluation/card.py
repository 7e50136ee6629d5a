"""Model cards: what a set of weights is, how it was trained, how well it does and where its limits are."""

from __future__ import annotations

from pathlib import Path

from qecnet.evaluation.results import PROTOCOLS, CalibrationResult, ClassificationResult, RotationResult
from qecnet.evaluation.run import EvaluatedRun, RunSettings
from qecnet.evaluation.summary import SummaryTable, format_percent, summarize
from qecnet.models import load
from qecnet.nn import count_parameters

_DATA = {
    "scanned_objects": "Google Scanned Objects (CC-BY 4.0), the half whose names' SHA-256 begins with 0 to 7",
    "modelnet10": "ModelNet10 (Princeton), official split; for research use, see https://modelnet.cs.princeton.edu",
    "modelnet40": "ModelNet40 (Princeton), official split; for research use, see https://modelnet.cs.princeton.edu",
    "shapes": "qecnet's own procedural shapes, free of third-party rights",
}
_SHOWN = ("epochs", "batch_size", "learning_rate", "schedule", "loss", "method", "subsamplings", "thinnest", "views")


def write_card(folder: Path) -> str:
    """Describe the weights of a run in Markdown, from the files in its folder.

    Args:
        folder: of a run of `qec train`, evaluated or not.

    Returns:
        The model card; it is not written.

    Raises:
        ValueError: if the folder holds no weights or a file in it is damaged.
    """
    model = load(folder, poses=False)
    run = EvaluatedRun(folder)
    settings = run.settings
    lines = [
        f"# Weights: {settings.config} on {settings.dataset}, seed {settings.seed}",
        "",
        f"- **Network**: `{settings.config}`, {count_parameters(model.network):,} parameters, {settings.frames} local "
        f"reference frames per shape, {len(model.classes)} classes.",
        f"- **Data**: {_DATA.get(settings.dataset, settings.dataset)}. Trained on upright shapes only. {_points(run)}",
        *([f"- **Orientation only**: {_DATA[settings.unlabelled]}."] if settings.unlabelled in _DATA else []),
        "- **Trained with**: `qec train --settings settings.json --data PATH --out RUN`",
        f"- **Settings**: {', '.join(f'{name} {getattr(settings, name)}' for name in _SHOWN)}; settings.json and the "
        "weights file have all of them.",
        f"- **Pose supervision**: {_supervision(settings)}.",
    ]
    if settings.start:
        lines.append(
            f"- **Started from** the weights of `{settings.start}`, and so has seen their training shapes too. "
            "Validation is clean if both held out the same shapes, as runs on one dataset do."
        )
    if run.outcome is not None and run.outcome.epoch is not None:
        last = run.outcome
        lines.append(
            f"- **Last epoch** ({last.epoch}): training accuracy {format_percent(last.train_accuracy)}; validation "
            f"accuracy upright {format_percent(last.validation_nr)}, rotated {format_percent(last.validation_ar)} "
            f"({last.protocol} protocol, on a held-out part of the training split)."
        )
    lines += ["", "## Measured on the test split", "", _measured(run), ""]
    lines += [
        "",
        "**strict**: each view is resampled and rotated on its own, and its frames are estimated after the rotation. "
        "**paper**: frames are rotated with the points. *Counted* says whether all views and pairs are averaged or "
        "only the correctly classified ones, as in the paper. *No-sym* are the classes without rotational symmetry.",
        "",
        "## Limits",
        "",
        f"Knows only these classes: {', '.join(model.classes)}. A shape of another class is still given one of them. "
        "Symmetric shapes have no single orientation: their pose is only meaningful up to the symmetry.",
        "",
    ]
    return "\n".join(lines)


def _points(run: EvaluatedRun) -> str:
    """Say how many points a view has: the settings give the most, and smaller clouds have fewer."""
    settings = run.settings
    counted = next((result.points for result in run if result.points is not None), None)
    measured = "" if counted is None else f"; test views have {counted:,} (median)"
    return (
        f"At most {settings.points:,} points per shape, of which a resampling of a smaller stored cloud keeps "
        f"{100 * settings.keep:g}%{measured}."
    )


def _supervision(settings: RunSettings) -> str:
    parts = []
    if settings.aligned > 0:
        parts.append("towards the upright pose of the training shapes, up to the class's declared symmetry")
    if settings.siamese > 0:
        parts.append("for the same pose of two resamplings of a shape")
    return f"trained {' and '.join(parts)}" if parts else "none"


def _measured(run: EvaluatedRun) -> str:
    parts = []
    for title, kind in (("Accuracy", ClassificationResult), ("Orientation error, angle/π", RotationResult)):
        tables = [summarize(found) for protocol in PROTOCOLS if (found := run.result(kind, protocol)) is not None]
        if tables:
            first = tables[0]
            rows = [row for table in tables for row in table.rows]
            parts.append(f"{title}:\n\n{SummaryTable('', first.head, rows, first.labels).to_markdown()}")
    if (found := next(iter(run.results(CalibrationResult).values()), None)) is not None:
        before, after, held = (
            format_percent(scores.ece) for scores in (found.test.before, found.test.after, found.held_out.after)
        )
        parts.append(
            f"**Confidence** is calibrated by a temperature of {found.temperature:g}, fitted on a held-out part of "
            f"the training shapes. Expected calibration error ({found.bins} bins, {found.protocol} protocol): {after} "
            f"on the test split ({before} without calibration), {held} on the held-out part."
        )
    return "\n\n".join(parts) or "Nothing yet; run `qec evaluate classification RUN --data PATH`."
