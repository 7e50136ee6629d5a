"""Results as small tables of text, the same in the terminal, on model cards and in the documentation."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import singledispatch

from qecnet.evaluation.results import (
    CalibrationResult,
    ClassificationResult,
    EquivarianceResult,
    ErrorGroups,
    ModelResult,
    PoseBaselinesResult,
    Result,
    RetrievalResult,
    RobustnessResult,
    RotationResult,
    ViewScores,
    ViewsResult,
)

DASH = "–"

MODE_NAMES = {
    "canonical": "against upright",
    "siamese": "one shape, two samplings",
    "category": "two shapes of a class",
}
"""What the rotation modes compare."""

ERROR_HEAD = ("no-sym mean", "no-sym median", "all classes", "all, up to symmetry")


@dataclass(frozen=True)
class SummaryTable:
    """A table of text.

    Attributes:
        title: above the table.
        head: the headings of the columns.
        rows: the cells of each row, as many as there are headings.
        labels: number of columns, from the first on, that are words; the others are figures.
    """

    title: str
    head: tuple[str, ...]
    rows: Sequence[Sequence[str]]
    labels: int = 1

    def to_markdown(self) -> str:
        """Format the table as Markdown.

        Returns:
            Its lines, without the title.
        """
        rule = ["---"] * self.labels + ["---:"] * (len(self.head) - self.labels)
        return "\n".join(f"| {' | '.join(cells)} |" for cells in (self.head, rule, *self.rows))


def format_percent(share: float | None) -> str:
    """Format a share as 91.3%.

    Args:
        share: from 0 to 1, or None for a dash.

    Returns:
        The text.
    """
    return DASH if share is None else f"{100 * share:.1f}%"


def format_interval(interval: tuple[float, float]) -> str:
    """Format an interval of shares as 89.6 – 92.9%.

    Args:
        interval: its two ends, from 0 to 1.

    Returns:
        The text.
    """
    return f"{100 * interval[0]:.1f} – {format_percent(interval[1])}"


def format_error(value: float | None) -> str:
    """Format a relative angular error.

    Args:
        value: angle/π, or None for a dash.

    Returns:
        The text.
    """
    return DASH if value is None else f"{value:.3f}"


def error_cells(groups: ErrorGroups) -> list[str]:
    """Format the figures of `ERROR_HEAD`."""
    no_sym, every = groups.no_sym, groups.all_classes
    means: list[float | None] = [None, None] if no_sym is None else [no_sym.mean, no_sym.median]
    means += [None, None] if every is None else [every.mean, every.symmetric.mean]
    return [format_error(mean) for mean in means]


@singledispatch
def summarize(result: Result) -> SummaryTable:
    """Summarize a result as one table.

    Args:
        result: what a `measure_*` function returned.

    Returns:
        The table.
    """
    raise TypeError(f"{type(result).__name__} is not a result; give one that a measure_* function returned")


def _describe(result: ModelResult) -> str:
    points = "" if result.points is None else f", {result.points:,} points per view"
    return f"({result.protocol} protocol, {result.shapes:,} shapes{points})"


@summarize.register
def _(result: ClassificationResult) -> SummaryTable:
    rows = []
    for name, of in (("upright (NR/NR)", result.nr), ("rotated (NR/AR)", result.ar)):
        accuracy, mean = format_percent(of.accuracy), format_percent(of.mean_class)
        rows.append([name, result.protocol, accuracy, format_interval(of.interval), mean])
    head = ("test views", "protocol", "accuracy", "95% interval", "mean class accuracy")
    return SummaryTable(f"Accuracy {_describe(result)}", head, rows, labels=2)


@summarize.register
def _(result: RotationResult) -> SummaryTable:
    rows = [
        [MODE_NAMES[mode], result.protocol, counted, *error_cells(errors)]
        for chosen in ("all", "correct")
        for mode, counted, errors in result.modes
        if counted == chosen
    ]
    head = ("rotation", "protocol", "counted", *ERROR_HEAD)
    return SummaryTable(f"Orientation error, angle/π {_describe(result)}", head, rows, labels=3)


@summarize.register
def _(result: RobustnessResult) -> SummaryTable:
    rows = [
        [
            *(row.kind, f"{row.level:g}", DASH if row.points is None else f"{row.points:,}"),
            *(format_percent(row.accuracy), format_error(row.rae), format_error(row.rae_all)),
        ]
        for row in result.levels
    ]
    errors = ("no-sym error, correct pairs", "no-sym error, all pairs")
    head = ("corruption", "level", "points per view", "accuracy", *errors)
    return SummaryTable(f"Corrupted input {_describe(result)}", head, rows)


@summarize.register
def _(result: EquivarianceResult) -> SummaryTable:
    rows = [["nothing: upright", *[DASH] * 4, format_percent(result.accuracy.nr)]]
    for name, change, accuracy in (
        ("rotation, exact frames", result.network, result.accuracy.exact_frames),
        ("frames estimated again", result.frames, result.accuracy.reestimated),
        ("points resampled as well", result.resampled, result.accuracy.resampled),
    ):
        degrees = (change.pose_degrees_median, change.pose_degrees_max)
        figures = [DASH if angle is None else f"{angle:.3g}°" for angle in degrees]
        figures += [f"{change.activation_max:.1e}", format_percent(change.labels_changed), format_percent(accuracy)]
        rows.append([name, *figures])
    head = ("what changes", "pose, median", "pose, largest", "activation, largest", "class changed", "accuracy")
    return SummaryTable(f"Changes under rotation {_describe(result)}", head, rows)


@summarize.register
def _(result: RetrievalResult) -> SummaryTable:
    rows = []
    for name, of in result.methods.items():
        nearest = map(format_percent, (of.nearest_micro, of.nearest_macro))
        rows.append([name, format_error(of.map_micro), format_error(of.map_macro), *nearest])
    head = ("descriptors", "mAP, micro", "mAP, macro", "nearest neighbour, micro", "nearest neighbour, macro")
    return SummaryTable(f"Retrieval {_describe(result)}", head, rows)


@summarize.register
def _(result: CalibrationResult) -> SummaryTable:
    rows = [
        [f"{name}, {when}", *map(format_percent, (of.accuracy, of.confidence, of.ece)), f"{of.nll:.3f}"]
        for name, part in (("held out", result.held_out), ("test", result.test))
        for when, of in (("before", part.before), ("after", part.after))
    ]
    title = f"Calibration ({result.protocol} protocol), temperature {_temperature(result)}"
    if result.candidate_sets:
        shares = ", ".join(f"{kind} {format_percent(share)}" for kind, share in result.candidate_sets.items())
        title += f", of orientations {_temperature(result, 'orientation_')}; right pose in 90% sets, held out: {shares}"
    return SummaryTable(title, ("shapes", "accuracy", "confidence", "ECE", "NLL"), rows)


def _temperature(result: CalibrationResult, of: str = "") -> str:
    """A temperature of classes or orientations, with its slope if it has one."""
    value, slope = (getattr(result, f"{of}temperature{name}") for name in ("", "_slope"))
    return f"{value:g}" + (f" (slope {slope:g} in partiality)" if slope else "")


@summarize.register
def _(result: PoseBaselinesResult) -> SummaryTable:
    rows = [
        [MODE_NAMES[mode], method, *error_cells(found), DASH if found.seconds is None else f"{found.seconds:.3f}"]
        for mode, table in (("siamese", result.same_instance), ("category", result.category_level))
        for method, found in table.items()
    ]
    head = ("pairs", "method", *ERROR_HEAD, "seconds")
    title = f"Orientation error without learning, angle/π ({result.protocol} protocol)"
    return SummaryTable(title, head, rows, labels=2)


def summarize_views(result: ViewsResult) -> SummaryTable:
    """Summarize views of one side by the visible share, for model cards."""
    return _summarize_views(result, result.groups)


@summarize.register
def _(result: ViewsResult) -> SummaryTable:
    scores = {**result.groups}
    for kind, whole in result.whole_by_kind.items():
        scores[f"{kind}, whole"] = whole
        if kind in result.views_by_kind:
            scores[f"{kind}, views"] = result.views_by_kind[kind]
    return _summarize_views(result, scores)


def _summarize_views(result: ViewsResult, scores: Mapping[str, ViewScores]) -> SummaryTable:
    title = f"Views of one side, {result.dataset} {_describe(result)}"
    title += f", without {result.no_answer:,} that have no answer" if result.no_answer else ""
    head = ("input", "number", "accuracy", "up within 10°", "orientation within 15°", "median error", "90% set: pose")
    rows = [
        [
            *(name, f"{of.views:,}", *map(format_percent, (of.accuracy, of.up10, of.pose15))),
            *(f"{of.pose_degrees:.1f}°", format_percent(of.set_holds_pose)),
        ]
        for name, of in scores.items()
    ]
    return SummaryTable(title, head, rows)
