"""`qec classify`: what shapes are and which way they are turned, as a table, as JSON or as CSV."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from qecnet.cli._files import Files, ModelName, Workers, angle_about_axis, processes, shape_files, shown, watched
from qecnet.cli._output import LARGEST_SEED, one_sentence
from qecnet.models import DEFAULT, Answer, Failure, load

UNKNOWN = "unknown"


def classify(
    files: Files,
    model: ModelName = DEFAULT,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="One line for each file, below a line of names.")] = False,
    min_confidence: Annotated[
        float, typer.Option(min=0, max=1, help="Whoever is less sure than this is called unknown.")
    ] = 0.0,
    seed: Annotated[int, typer.Option(min=0, max=LARGEST_SEED, help="Of the points that are drawn.")] = 0,
    workers: Workers = None,
) -> None:
    """Say what shapes are and which way they are turned. Example: qec classify scan.ply library/ --json

    The pose turns the class's canonical shape into this one; symmetry says how many turns about the upright axis leave
    such a shape looking the same. The guess is the class even where it is called unknown. Exit code 1 tells that a file
    could not be read; the others are done all the same.
    """
    with one_sentence():
        if as_json and as_csv:
            raise ValueError("--json and --csv were both asked for; choose one of them")
        paths, missing = shape_files(files)
        answers = load(model).predict_many(paths, seed=seed, workers=workers or processes(len(paths)))
        failed: list[Failure] = []
        results = _told(chain(missing, answers), failed)
        streams = as_json or as_csv
        results = watched(results, "classifying", len(paths), silent=streams and sys.stdout.isatty())
        rows = (_row(result, min_confidence) for result in results)
        (_write_json if as_json else _write_csv if as_csv else _print_table)(rows)
        if failed:
            raise typer.Exit(1)


def _told(results: Iterable[Answer | Failure], failed: list[Failure]) -> Iterator[Answer | Failure]:
    """Says on standard error what has failed, and keeps it."""
    for result in results:
        if isinstance(result, Failure):
            failed.append(result)
            typer.echo(f"qec: {shown(result.error)}", err=True)
        yield result


def _row(result: Answer | Failure, min_confidence: float) -> dict[str, Any]:
    if isinstance(result, Failure):
        return {"file": result.name, "error": result.error}
    return {
        "file": result.name,
        "label": result.label if result.confidence >= min_confidence else UNKNOWN,
        "guess": result.label,
        "confidence": result.confidence,
        "second": result.second,
        "pose": result.pose.tolist(),
        "symmetry": result.symmetry,
        "milliseconds": round(result.milliseconds, 1),
        "scores": result.scores,
    }


def _write_json(rows: Iterable[dict[str, Any]]) -> None:
    for row in rows:
        print(json.dumps(row, allow_nan=False), flush=True)


def _write_csv(rows: Iterable[dict[str, Any]]) -> None:
    names = ["file", "label", "guess", "confidence", "second", *"wxyz", "symmetry", "milliseconds", "error"]
    table = csv.DictWriter(sys.stdout, names, extrasaction="ignore", lineterminator="\n")
    table.writeheader()
    for row in rows:
        table.writerow(row | dict(zip("wxyz", row.get("pose", ()), strict=False)) | {"file": shown(row["file"])})
        sys.stdout.flush()


def _print_table(rows: Iterable[dict[str, Any]]) -> None:
    table = Table()
    for heading in ("file", "class", "confidence", "second guess", "orientation", "ms"):
        table.add_column(heading, justify="right" if heading in ("confidence", "ms") else "left", overflow="fold")
    for row in rows:
        if "error" not in row:
            confidence, took = f"{row['confidence']:.2f}", f"{row['milliseconds']:.0f}"
            known = row["label"] == row["guess"]
            label = row["label"] if known else f"{row['label']} ({row['guess']}?)"
            cells = label, confidence, row["second"] or "–", angle_about_axis(row["pose"]), took
            table.add_row(Text(shown(row["file"])), *cells)
    if table.rows:
        Console(width=None if sys.stdout.isatty() else 1000).print(table)
