"""Model cards: what a set of weights is, how it was trained, how well it does and where its limits are."""

import math
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from qecnet.evaluation.results import CalibrationResult, ClassificationResult, RotationResult, ViewsResult
from qecnet.evaluation.run import EvaluatedRun
from qecnet.evaluation.summary import SummaryTable, format_percent, summarize, summarize_views
from qecnet.models import load
from qecnet.nn import count_parameters

_DATA = {
    "scanned_objects": "Google Scanned Objects (CC-BY 4.0), the half whose names' SHA-256 begins with 0 to 7",
    "modelnet10": "ModelNet10 (Princeton), official split; for research use, see https://modelnet.cs.princeton.edu",
    "modelnet40": "ModelNet40 (Princeton), official split; for research use, see https://modelnet.cs.princeton.edu",
    "shapes": "qecnet's own procedural shapes, free of third-party rights",
}
_SETTINGS = ("epochs", "batch_size", "learning_rate", "schedule", "loss", "method", "subsamplings", "thinnest", "views")
_TABLES = {"Accuracy": ClassificationResult, "Orientation error, angle/π": RotationResult}


def write_card(folder: Path) -> str:
    """Describe the weights of a run in Markdown, from the files in its folder.

    Args:
        folder: of a run of `qec train`, evaluated or not.

    Returns:
        The model card; it is not written.

    Raises:
        ValueError: if the folder holds no weights or a file in it is damaged.
    """
    model, run = load(folder, poses=False), EvaluatedRun(folder)
    environment = Environment(
        loader=PackageLoader("qecnet.evaluation"),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=StrictUndefined,
    )
    environment.filters |= {"percent": format_percent, "count": "{:,}".format, "exp": math.exp}
    return environment.get_template("card.md.jinja").render(
        run=run,
        unlabelled=_list_unlabelled(run),
        DATA=_DATA,
        SETTINGS=_SETTINGS,
        classes=model.classes,
        parameters=count_parameters(model.network),
        points=next((result.points for result in run if result.points is not None), None),
        tables={title: _join_protocols(run, kind) for title, kind in _TABLES.items() if run.results(kind)},
        views=(found := run.result(ViewsResult)) and summarize_views(found).to_markdown(),
        calibration=next(iter(run.results(CalibrationResult).values()), None),
    )


def _list_unlabelled(run: EvaluatedRun) -> list[str]:
    """Datasets that trained only the orientation, in this run and in those that it started from, if these are found."""
    runs = [run]
    for one in runs:  # which grows
        starts = (Path(start) for start in (one.settings.start, one.settings.start_part) if start)
        runs += [
            EvaluatedRun(start)
            for start in starts
            if (start / "settings.json").is_file() and all(start.resolve() != r.folder.resolve() for r in runs)
        ]
    return [*dict.fromkeys(one.settings.unlabelled for one in runs if one.settings.unlabelled)]


def _join_protocols(run: EvaluatedRun, kind: type[ClassificationResult | RotationResult]) -> str:
    """The results of a measurement under all protocols as one table in Markdown."""
    tables = [summarize(found) for found in run.results(kind).values()]
    rows = [row for table in tables for row in table.rows]
    return SummaryTable("", tables[0].head, rows, tables[0].labels).to_markdown()
