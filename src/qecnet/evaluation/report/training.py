"""How the training went, from the run's log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import TYPE_CHECKING

from qecnet.evaluation.report.drawing import BLUE, GREEN, INK, PINK, VERMILLION, panel
from qecnet.evaluation.report.page import Csv, Section, chip
from qecnet.evaluation.report.results import Epoch, Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Series = tuple[str, str, str]
"""A figure of each epoch, its title and its colour."""

_ACCURACIES: tuple[Series, ...] = (
    ("train_accuracy", "trained on", INK),
    ("validation_nr", "held out, upright (NR)", GREEN),
    ("validation_ar", "held out, turned (AR)", BLUE),
)
_LOSSES: tuple[Series, ...] = (
    ("loss", "all of the loss", INK),
    ("classification_loss", "classification", PINK),
    ("pose_loss", "pose", VERMILLION),
)


def training_curves(run: Run) -> Section:
    """Losses and accuracies over epochs."""
    section = Section("training", "Training")
    if not run.log:
        section.say("This run has no log (log.jsonl), so there are no curves to draw; qec train writes one each epoch.")
        return section
    losses = _LOSSES if any(row.pose_loss for row in run.log) else _LOSSES[:1]
    size = (5.6, 2.7)
    names = [field.name for field in fields(Epoch)]
    section.figure(
        "Loss and accuracy over epochs. Validation shapes are held out of the train split and never trained on; their "
        f"turned views (AR) are made under the protocol {chip('paper')}. The test split plays no part here.",
        [
            panel(*size, "Loss over epochs", _lines, run.log, losses, 1, "loss"),
            panel(*size, "Accuracy over epochs", _lines, run.log, _ACCURACIES, 100, "accuracy, %"),
        ],
        Csv("training.csv", names, [[getattr(row, name) for name in names] for row in run.log]),
    )
    return section


def _lines(axes: Axes, log: Sequence[Epoch], series: Sequence[Series], scale: float, label: str) -> None:
    for name, told, colour in series:
        points = [(row.epoch, scale * value) for row in log if (value := getattr(row, name)) is not None]
        style = "o" if len(points) == 1 else "--" if name == "validation_ar" else "-"  # it may lie on that of NR
        axes.plot([x for x, _ in points], [y for _, y in points], style, color=colour, linewidth=1.3, label=told)
    axes.set(xlabel="epoch", ylabel=label)
    axes.set_ylim(0, 101 if scale == 100 else None)
    axes.grid(True)
    if len(series) > 1:
        axes.legend(frameon=False, fontsize=7.5)
