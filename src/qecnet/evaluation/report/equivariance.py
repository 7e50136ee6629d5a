"""What a rotation changes, and whose doing it is: the network's, the frames' or the points'."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qecnet.evaluation.report.drawing import BLUE, INK, MUTED, panel
from qecnet.evaluation.report.page import DASH, Cell, Csv, Group, Section, dataset_name, not_measured, percent, small
from qecnet.evaluation.report.results import ACCURACIES, STAGES, Equivariance, Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_STAGES = {
    "network": "network: frames turned with the points (as under <i>paper</i>)",
    "frames": "frames: estimated again after the rotation, from the same points",
    "resampled": "points: sampled anew as well (as under <i>strict</i>)",
}
_ACCURACIES = {
    "nr": "upright",
    "exact_frames": "turned, frames with it",
    "reestimated": "frames estimated again",
    "resampled": "points sampled anew",
}


def exactness(run: Run) -> Section:
    """Errors of the three stages, and the accuracy that is left after each."""
    section = Section("equivariance", "Equivariance")
    if not run.equivariance:
        section.say(not_measured("equivariance", run.name))
        return section
    found = next(iter(run.equivariance.values()))
    of_poses = ("pose, max °", "pose, median °") if run.model.has_poses else ()
    columns = (*of_poses, "activation, max", "labels changed", "accuracy")
    upright = ["nothing: the shape stands upright", *[DASH] * (len(columns) - 1), percent(found.accuracy["nr"])]
    rows: list[list[Cell | str]] = [[*upright]]
    for stage, after in zip(STAGES, ACCURACIES[1:], strict=True):
        change = found.stages[stage]
        poses = [_degrees(change.pose_degrees_max), _degrees(change.pose_degrees_median)] if of_poses else []
        shares = [percent(change.labels_changed), percent(found.accuracy[after])]
        rows.append([_STAGES[stage], *poses, small(change.activation_max), *shares])
    section.table(
        "By how much predictions of turned shapes depart from those of the upright ones, turned exactly: the angle "
        "between poses, the largest difference of an activation, the percentage of views that get another name, and "
        f"the accuracy that is left, in percent. {dataset_name(found.about.dataset)}, {found.about.shapes:,} shapes. "
        "The stages add up from top to bottom; the last is what users live with.",
        [["What is new in the turned view", *columns]],
        [Group("", rows)],
        _csv(found),
    )
    section.figure(
        "Where accuracy is lost under rotation: between the first two bars it is the network's doing, between the next "
        "two the frames', and then that of the points that they are estimated from.",
        [panel(4.6, 1.7, "Accuracy after each stage", _bars, found)],
    )
    return section


def _degrees(value: float | None) -> str:
    return DASH if value is None else f"{value:.1f}" if value >= 0.1 else small(value)


def _bars(axes: Axes, found: Equivariance) -> None:
    names = [name for name in ACCURACIES if found.accuracy[name] is not None]
    values = [100 * (found.accuracy[name] or 0) for name in names]
    axes.barh(range(len(names)), values, height=0.62, color=[MUTED, *[BLUE] * (len(names) - 1)], alpha=0.8)
    for place, value in enumerate(values):
        axes.text(value + 1, place, f"{value:.1f}", va="center", color=INK)
    axes.set_yticks(range(len(names)), [_ACCURACIES[name] for name in names])
    axes.set(xlim=(0, 108), ylim=(len(names) - 0.5, -0.5), xlabel="accuracy, %")
    axes.tick_params(axis="y", length=0)


def _csv(found: Equivariance) -> Csv:
    accuracies = [found.accuracy[name] for name in ACCURACIES]
    fields = ("pose_degrees_max", "pose_degrees_median", "activation_max", "labels_changed")
    return Csv(
        "equivariance.csv",
        ["stage", *fields, "accuracy"],
        [
            ["upright", *[None] * len(fields), accuracies[0]],
            *(
                [stage, *(getattr(found.stages[stage], name) for name in fields), accuracy]
                for stage, accuracy in zip(STAGES, accuracies[1:], strict=True)
            ),
        ],
    )
