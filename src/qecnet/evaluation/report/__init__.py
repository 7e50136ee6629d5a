"""`qec report`: one page for a run, with all of its measurements next to the published figures."""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

import qecnet
from qecnet.datasets import open_dataset
from qecnet.evaluation.metrics import EXPECTED_RANDOM_RAE, NO_SYM
from qecnet.evaluation.predict import Predictions
from qecnet.evaluation.published import published_figures
from qecnet.evaluation.report import _charts, _gallery, _tables
from qecnet.evaluation.report._table import CELL_FORMATS, ReportTable
from qecnet.evaluation.results import (
    BINS,
    PROTOCOLS,
    ModelResult,
    PoseBaselinesResult,
    ProtocolName,
    RotationResult,
    read_result,
)
from qecnet.evaluation.run import EvaluatedRun

__all__ = ["Report", "build_report", "render_page"]


@dataclass(frozen=True)
class Report:
    """A report.

    Attributes:
        page: HTML, one file that needs no other.
        tables: the CSV files behind its tables and figures, by name.
    """

    page: bytes
    tables: Mapping[str, bytes]


def build_report(folder: Path, compare: Sequence[Path] = (), data: Path | None = None) -> Report:
    """Build the report of a run; writes nothing.

    Args:
        folder: of a run of `qec train`, with results of `qec evaluate` in its folder `evaluation`.
        compare: folders of other runs to show next to it, or folders that hold a pose-baselines.json.
        data: the dataset, for the gallery.

    Returns:
        The page and its tables.

    Raises:
        ValueError: if a folder is not one of a run, nothing has been measured, or a file is damaged.
    """
    run = _read_run(folder)
    others, baselines = _read_compared(run, compare)
    named = _first_predictions(run, "classification", "rotation")
    posed = _first_predictions(run, "rotation") if run.has_poses else None
    failures = _gallery.failure_tables(named[1], posed and posed[1]) if named else []
    files = {table.name: table.to_csv() for table in failures}
    dataset, shapes = next(iter(run)).dataset, None
    if named and (data is not None or dataset == "shapes"):
        shapes = open_dataset(dataset, data, per_class=run.settings.per_class)

    def keep(table: ReportTable) -> str:
        """Encode a table that the page links to; it also becomes a file."""
        files[table.name] = table.to_csv()
        return b64encode(files[table.name]).decode()

    environment = _environment()
    environment.filters["csv"] = keep
    page = environment.get_template("report.html.jinja").render(
        run=run,
        runs=[run, *others],
        with_errors=[one for one in (run, *others) if one.results(RotationResult)],
        baselines=baselines,
        **{kind.measurement: run.results(kind) for kind in ModelResult.__subclasses__()},
        pointing=_first_predictions(run, "rotation", "classification") if run.has_poses else None,
        named=named,
        posed=posed,
        pictures=_gallery.CloudPictures(shapes) if shapes else None,
    )
    return Report(page.encode(), files)


def render_page(title: str, header: str, sections: Sequence[tuple[str, str, str]]) -> str:
    """Render a page in the style of the report, with its script for point clouds.

    Args:
        title: plain text.
        header: HTML before the sections.
        sections: key, title (plain text) and content (HTML) of each.

    Returns:
        The HTML page.
    """
    marked = [(key, name, Markup(content)) for key, name, content in sections]
    return _environment().get_template("page.html.jinja").render(title=title, header=Markup(header), sections=marked)


def _environment() -> Environment:
    found = Environment(
        loader=PackageLoader(__name__), autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined
    )
    found.filters |= CELL_FORMATS | {"dataset": _tables.name_dataset}
    found.globals |= {"tables": _tables, "charts": _charts, "gallery": _gallery, "published": published_figures()}
    found.globals |= {"PROTOCOLS": PROTOCOLS, "BINS": BINS, "NO_SYM": NO_SYM, "RANDOM": EXPECTED_RANDOM_RAE}
    found.globals |= {"DASH": "–", "version": qecnet.__version__}
    return found


def _read_run(folder: Path) -> EvaluatedRun:
    run = EvaluatedRun(folder)
    if not list(run):
        raise ValueError(
            f"{folder}: nothing has been measured yet; "
            f"begin with qec evaluate classification {folder} --data PATH --protocol strict"
        )
    return run


def _read_compared(run: EvaluatedRun, compare: Sequence[Path]) -> tuple[list[EvaluatedRun], PoseBaselinesResult | None]:
    """Read the other runs, and the first pose baselines that there are, the run's own before others."""
    runs, found = [], [run.pose_baselines]
    for other in compare:
        alone = read_result(other, PoseBaselinesResult)
        if alone is None or (other / "settings.json").exists():
            runs.append(_read_run(other))
            found.append(runs[-1].pose_baselines)
        found.append(alone)
    return runs, next((one for one in found if one is not None), None)


def _first_predictions(run: EvaluatedRun, *kinds: str) -> tuple[ProtocolName, Predictions] | None:
    stored = ((p, run.predictions(kind, p)) for kind in kinds for p in PROTOCOLS)
    return next(((p, found) for p, found in stored if found is not None), None)
