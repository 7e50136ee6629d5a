"""`qec report`: one page for a run, with all that has been measured of it beside what the paper has published."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

import qecnet
from qecnet.evaluation.published import SOURCE
from qecnet.evaluation.report import head
from qecnet.evaluation.report.alignment import alignment_tables
from qecnet.evaluation.report.classification import confusion, table_1
from qecnet.evaluation.report.distributions import distributions
from qecnet.evaluation.report.drawing import check_matplotlib
from qecnet.evaluation.report.equivariance import exactness
from qecnet.evaluation.report.gallery import gallery
from qecnet.evaluation.report.page import document
from qecnet.evaluation.report.results import PoseBaselines, Run, read_pose_baselines, read_run
from qecnet.evaluation.report.robustness import table_3
from qecnet.evaluation.report.rotation import table_2
from qecnet.evaluation.report.spheres import sphere_plot
from qecnet.evaluation.report.training import training_curves

__all__ = ["Report", "build_report"]

_POSE_BASELINES = "pose-baselines.json"


@dataclass(frozen=True)
class Report:
    """The page, and the tables behind it by the names of their CSV files."""

    page: bytes
    tables: Mapping[str, bytes]


def build_report(folder: Path, compare: Sequence[Path] = (), data: Path | None = None) -> Report:
    """Reads a run's folder and makes its report; writes nothing.

    Args:
        folder: of a run of `qec train`, with results of `qec evaluate` in its folder `evaluation`.
        compare: folders of other runs, whose results stand beside it; or folders that hold a pose-baselines.json.
        data: where the dataset is, for the gallery.

    Raises:
        ValueError: where a folder is not one of a run, nothing has been measured, or a file is damaged.
    """
    check_matplotlib()
    run = read_run(folder)
    others, baselines = _compared(folder, compare)
    rotation = table_2(run, others)
    if baselines is not None:
        alignment_tables(rotation, run, baselines)
    sections = [
        table_1(run, others),
        rotation,
        table_3(run),
        confusion(run),
        distributions(run),
        sphere_plot(run),
        exactness(run),
        training_curves(run),
        gallery(run, data),
    ]
    drawn = any("<canvas" in piece for piece in sections[-1].html)
    sections[-1].html.append(
        f"<footer>Written by qec report, qecnet {escape(qecnet.__version__)}. Published figures: {escape(SOURCE)}. "
        "Each table's and figure's data are behind the CSV links, and in the run's folder <i>evaluation</i>.</footer>"
    )
    page = document(head.title(run), head.top(run), sections, script=drawn)
    tables = {table.name: table.encoded() for section in sections for table in section.tables}
    return Report(page.encode(), tables)


def _compared(folder: Path, compare: Sequence[Path]) -> tuple[list[Run], PoseBaselines | None]:
    """The other runs; and the first table of pose baselines, that of the run itself before others."""
    runs, paths = [], [folder / "evaluation" / _POSE_BASELINES]
    for other in compare:
        own = other / _POSE_BASELINES
        paths += [other / "evaluation" / _POSE_BASELINES, own]
        if not own.exists() or (other / "settings.json").exists():
            runs.append(read_run(other))
    there = next((path for path in paths if path.exists()), None)
    return runs, None if there is None else read_pose_baselines(there)
