"""`qec classify`: classes and orientations of shapes, as a table, as JSON or as CSV."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from qecnet import DEFAULT_MODEL
from qecnet.cli import _options as options
from qecnet.cli._bulk import BulkOptions, check_bulk_options, run_bulk
from qecnet.cli._files import count_processes, find_shapes, with_progress
from qecnet.cli._interrupts import import_models
from qecnet.cli._output import angle_about_axis, print_error, print_table
from qecnet.schema import printable

if TYPE_CHECKING:
    from qecnet.bulk import Columns
    from qecnet.models import Answer, Failure

UNKNOWN = "unknown"
_COLUMNS: Columns = {
    "label": "text",
    "guess": "text",
    "confidence": "number",
    "second": "text",
    "pose": "quaternion",
    "symmetry": "text",
    "scores": "scores",
    "up": "vector",
    "centre": "vector",
    "radius": "length",
}


def classify(
    files: options.FilesOrList = None,
    listed: options.Listed = None,
    output: Annotated[Path | None, options.results_file("-o", "--output", writes="the results")] = None,
    model: options.ModelName = DEFAULT_MODEL,
    fast: options.Fast = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV: a header, then one line per file.")] = False,
    min_confidence: Annotated[
        float,
        typer.Option(
            min=0, max=1, metavar="NUMBER", help='Label predictions below this confidence, 0 to 1, "unknown".'
        ),
    ] = 0.0,
    up: options.KnownUp = None,
    viewpoint: options.Viewpoint = None,
    seed: options.Seed = 0,
    workers: options.Workers = None,
    ray: options.RayAddress = None,
    shard: options.ShardOf = None,
    retry_failed: options.RetryFailed = False,
    timeout: options.Timeout = options.TIMEOUT,
) -> None:
    """Classify shapes and estimate their orientation.

    Example: qec classify scan.ply meshes/ --json

    The orientation is the rotation from the canonical pose of the class to the shape. A model without classes
    (upright) prints which way is up instead. A file that cannot be read is reported on standard error, the others are
    classified, and the exit code is 1.
    """
    if as_json and as_csv:
        raise ValueError("--json and --csv cannot be combined; give one of them")
    if output and (as_json or as_csv):
        raise ValueError("--json and --csv print results and -o writes them to a file; give one of them")
    bulk = BulkOptions(files or [], listed, output, ray, shard, retry_failed, workers, timeout)
    check_bulk_options(bulk, "-o")
    import_models()
    from qecnet.bulk import Work, print_csv, print_json
    from qecnet.models import load

    if output is not None:
        asked = {"seed": seed, "up": up, "viewpoint": viewpoint}
        work = Work(load(model, fast=fast), partial(_describe, min_confidence=min_confidence), asked)
        run_bulk(bulk, "classify", work, _COLUMNS, {"fast": fast, "min_confidence": min_confidence})
        return
    paths, missing = find_shapes(files or [], listed)
    loaded = load(model, fast=fast)
    answers = loaded.predict_many(
        paths, seed=seed, workers=workers or count_processes(len(paths)), up=up, viewpoint=viewpoint
    )
    failed: list[Failure] = []
    results = _report_failures(chain(missing, answers), failed)
    results = with_progress(results, "classifying", len(paths), silent=sys.stdout.isatty())
    rows = (_make_row(result, min_confidence) for result in results)
    if as_json:
        print_json(rows, sys.stdout, flush=True)
    elif as_csv:
        rows = (row | {"file": printable(row["file"])} for row in rows)
        print_csv(rows, {**_COLUMNS, "milliseconds": "number"}, sys.stdout, flush=True)
    else:
        label = max(map(len, loaded.classes))
        answer = {
            "class": label + (len(" (?)") + len(UNKNOWN) if min_confidence else 0),
            "confidence": -10,
            "second guess": max(label, 12),
        }
        if len(loaded.classes) == 1:
            answer = {"up": len("(-0.00, -0.00, -0.00)"), "confidence": -10}
        columns = {**answer, "orientation": 32, "ms": -5}
        print_table(columns, _make_cells(rows), max(map(len, map(str, paths)), default=0))
    if failed:
        raise typer.Exit(1)


def _report_failures(results: Iterable[Answer | Failure], failed: list[Failure]) -> Iterator[Answer | Failure]:
    """Print failures on standard error and collect them."""
    for result in results:
        if result.error is not None:
            failed.append(result)
            print_error(result.error)
        yield result


def _make_row(result: Answer | Failure, min_confidence: float) -> dict[str, Any]:
    if result.error is not None:
        return {"file": result.name, "error": result.error}
    found = result.describe()
    guess = found.pop("label")
    label = guess if result.confidence >= min_confidence else UNKNOWN
    time = round(result.milliseconds, 1)
    return {"file": result.name, "label": label, "guess": guess, **found, "milliseconds": time}


def _describe(answer: Answer, min_confidence: float) -> dict[str, Any]:
    """Describe an answer without what changes from run to run, such as its time."""
    row = _make_row(answer, min_confidence)
    return {name: row[name] for name in _COLUMNS}


def _make_cells(rows: Iterable[dict[str, Any]]) -> Iterator[tuple[str, ...]]:
    for row in rows:
        if "error" in row:
            continue
        confidence = f"{row['confidence']:.2f}"
        numbers = angle_about_axis(row["pose"]), f"{row['milliseconds']:.0f}"
        if row["guess"] is None:
            up = ", ".join(f"{value:.2f}".replace("-0.00", "0.00") for value in row["up"])
            yield row["file"], row["label"] or f"({up})", confidence, *numbers
        else:
            label = row["label"] if row["label"] == row["guess"] else f"{row['label']} ({row['guess']}?)"
            yield row["file"], label, confidence, row["second"] or "–", *numbers
