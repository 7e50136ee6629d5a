"""`qec report`: one page for a run, with everything that has been measured of it beside the published figures."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

import qecnet
from qecnet.datasets import open_dataset
from qecnet.evaluation.metrics import EXPECTED_RANDOM_RAE, NO_SYM
from qecnet.evaluation.predict import Predictions
from qecnet.evaluation.published import published_figures
from qecnet.evaluation.report import _charts, _gallery, _tables
from qecnet.evaluation.report._table import CELL_FORMATS, ReportTable, data_table
from qecnet.evaluation.results import (
    BINS,
    MODES,
    PROTOCOLS,
    ClassificationResult,
    EquivarianceResult,
    PoseBaselinesResult,
    ProtocolName,
    RobustnessResult,
    RotationResult,
    read_result,
)
from qecnet.evaluation.run import Epoch, EvaluatedRun

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
        compare: folders of other runs to show beside it, or folders that hold a pose-baselines.json.
        data: the dataset, for the gallery.

    Returns:
        The page and its tables.

    Raises:
        ValueError: if a folder is not one of a run, nothing has been measured, or a file is damaged.
    """
    run = _read_run(folder)
    others, baselines = _read_compared(run, compare)
    made = _Tables()
    context: dict[str, Any] = {
        "run": run,
        "results": list(run),
        "outcome": run.outcome,
        "published": published_figures(),
        "version": qecnet.__version__,
        **_tabulate(run, others, baselines, made),
        **_draw(run, made),
        **_picture(run, data, made),
    }
    page = _environment().get_template("report.html.jinja").render(context)
    return Report(page.encode(), {name: table.to_csv() for name, table in made.items()})


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


class _Tables(dict[str, ReportTable]):
    def keep(self, table: ReportTable) -> ReportTable:
        self[table.name] = table
        return table


def _environment() -> Environment:
    found = Environment(
        loader=PackageLoader(__name__), autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined
    )
    found.filters |= CELL_FORMATS | {"dataset": _tables.name_dataset, "base64": lambda data: b64encode(data).decode()}
    found.globals |= {"PROTOCOLS": PROTOCOLS, "BINS": BINS, "RANDOM": EXPECTED_RANDOM_RAE, "DASH": "–"}
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


def _tabulate(
    run: EvaluatedRun, others: Sequence[EvaluatedRun], baselines: PoseBaselinesResult | None, made: _Tables
) -> dict[str, Any]:
    names, changes = run.results(ClassificationResult), run.results(EquivarianceResult)
    levels = run.results(RobustnessResult)
    posed = [one for one in (run, *others) if one.results(RotationResult)]
    tasks = (("same_instance", "siamese"), ("category_level", "category")) if baselines else ()
    change = next(iter(changes.values()), None)
    return {
        "classification": names,
        "rotation": run.results(RotationResult),
        "robustness": levels,
        "equivariance": change,
        "baselines": baselines,
        "accuracy_table": made.keep(_tables.accuracy_table([run, *others])),
        "compared_errors_table": made.keep(_tables.compared_errors_table([run, *others])),
        "rotation_table": made.keep(_tables.rotation_table([run, *others])),
        "summary_table": made.keep(_tables.summary_table(posed[:1], "table2-summary.csv")) if posed else None,
        "compared_table": made.keep(_tables.summary_table(posed[1:], "table2-summary-compared.csv"))
        if posed[1:]
        else None,
        "alignment_tables": [made.keep(_tables.alignment_table(run, baselines, *t)) for t in tasks if baselines],
        "robustness_table": made.keep(_tables.robustness_table(levels)),
        "level_table": made.keep(_tables.level_table(levels)) if levels else None,
        "confusion_tables": {p: made.keep(_tables.confusion_table(one)) for p, one in names.items()},
        "class_table": made.keep(_tables.class_table(names)) if names else None,
        "equivariance_table": made.keep(_tables.equivariance_table(change)) if change else None,
    }


def _draw(run: EvaluatedRun, made: _Tables) -> dict[str, Any]:
    """Draw the charts, and keep the tables behind them."""
    levels = {p: found.levels for p, found in run.results(RobustnessResult).items()}
    kinds = {row.kind: None for rows in levels.values() for row in rows}
    rotation = run.results(RotationResult)
    intervals = {}
    for protocol in rotation:
        if (found := run.predictions("rotation", protocol)) is not None:
            intervals[protocol] = _gallery.error_interval(found, NO_SYM, protocol == "paper")
    keys = [field.name for field in fields(Epoch)]
    log = data_table("training.csv", keys, [[getattr(epoch, key) for key in keys] for epoch in run.log])
    posed = _first_predictions(run, ("rotation", "classification")) if run.has_poses else None
    spheres, directions = _gallery.pose_spheres(posed[1]) if posed else ([], None)
    return {
        "error_intervals": intervals,
        "robustness_charts": [
            _charts.robustness_charts(levels, kind, _tables.KINDS[kind][0], _tables.name_level) for kind in kinds
        ],
        "error_charts": {
            protocol: [c for m in MODES for c in _charts.error_charts(getattr(found.modes, m).all, f"{m}, all")]
            for protocol, found in rotation.items()
        },
        "error_data": {protocol: made.keep(_tables.error_data(found)) for protocol, found in rotation.items()},
        "training_charts": _charts.training_charts(run.log) if run.log else [],
        "training_data": made.keep(log) if run.log else None,
        "spheres": spheres,
        "sphere_grid": _gallery.sphere_grid(),
        "sphere_pole": _gallery.POLE,
        "sphere_protocol": posed[0] if posed else None,
        "sphere_data": made.keep(directions) if directions else None,
    }


def _picture(run: EvaluatedRun, data: Path | None, made: _Tables) -> dict[str, Any]:
    """Choose what the gallery shows; it is drawn if the shapes are available."""
    named = _first_predictions(run, ("classification", "rotation"))
    posed = _first_predictions(run, ("rotation",)) if run.has_poses else None
    gallery: dict[str, Any] = {"named": named, "posed": posed, "pictures": None, "cards": {}}
    if named is None:
        return {"gallery": gallery}
    for table in _gallery.failure_tables(named[1], posed and posed[1]):
        made.keep(table)
    name = next(iter(run)).dataset
    if data is None and name != "shapes":
        return {"gallery": gallery}
    pictures = gallery["pictures"] = _gallery.CloudPictures(open_dataset(name, data, per_class=run.settings.per_class))
    gallery["cards"]["classes"] = pictures.classes(named[1])
    if posed is not None:
        found, siamese = posed[1], _gallery.pair_same_shape(posed[1])
        category = _gallery.choose_typical(found, _gallery.pair_same_class(found))
        worst = _gallery.choose_worst_poses(found, siamese, _gallery.WORST)
        gallery["cards"]["category"] = pictures.pairs(found, category, before=True)
        gallery["cards"]["siamese"] = pictures.pairs(found, _gallery.choose_typical(found, siamese), before=True)
        gallery["cards"]["poses"] = pictures.pairs(found, worst, before=False)
    return {"gallery": gallery}


def _first_predictions(run: EvaluatedRun, kinds: Sequence[str]) -> tuple[ProtocolName, Predictions] | None:
    for kind in kinds:
        for protocol in PROTOCOLS:
            if (found := run.predictions(kind, protocol)) is not None:
                return protocol, found
    return None
