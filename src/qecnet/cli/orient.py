"""`qec orient`: writes files with their shapes rotated upright."""

from __future__ import annotations

import errno
import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from qecnet.cli import _options as options
from qecnet.cli._bulk import BulkOptions, check_bulk_options, run_bulk
from qecnet.cli._files import count_processes, with_progress
from qecnet.cli._interrupts import import_models
from qecnet.cli._output import angle_about_axis, print_error
from qecnet.cli._placement import Placement, plan_outputs
from qecnet.schema import printable
from qecnet.streams import STANDARD_INPUT

if TYPE_CHECKING:
    from qecnet.bulk import Columns
    from qecnet.models import Answer, Failure

_Y_UP = ((1.0, 0.0, 0.0), (0.0, 0.0, 1.0), (0.0, -1.0, 0.0))
_Y_UP_SUFFIXES = (".glb", ".gltf")  # their standard says so
_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
"""Errors of a disk that every file would get: it is full or read-only."""
_COLUMNS: Columns = {
    "output": "text",
    "label": "text",
    "confidence": "number",
    "rotation": "quaternion",
    "centre": "vector",
}


def _write_columns(answer: Answer, placement: Placement, **writing: Any) -> dict[str, Any] | Failure:
    """Write an answer of a bulk run, in a worker."""
    from qecnet.models import Failure

    row = _write(answer, Path(placement.output_of(answer.name)), **writing)
    return row if isinstance(row, Failure) else {name: row[name] for name in _COLUMNS}


def orient(
    *,
    files: options.FilesOrList = None,
    listed: options.Listed = None,
    output: Annotated[
        str,
        typer.Option(
            "-o",
            "--output",
            metavar="PATH",
            help="File to write, in the format of its extension; or a folder, created if its name ends with /.",
        ),
    ],
    model: options.ModelName = options.ORIENTING_MODEL,
    fast: options.Fast = False,
    up: options.KnownUp = None,
    viewpoint: options.Viewpoint = None,
    output_up: Annotated[
        Literal["y", "z"] | None,
        typer.Option(
            help="Axis that points up in the files that are written. Default: y for glTF and GLB, otherwise z.",
            show_default=False,
        ),
    ] = None,
    min_confidence: Annotated[
        float, typer.Option(min=0, max=1, metavar="NUMBER", help="Do not write files below this confidence, 0 to 1.")
    ] = 0.5,
    force_doubtful: Annotated[
        bool, typer.Option("--force-doubtful", help="Write files below --min-confidence too.")
    ] = False,
    force: options.Force = False,
    skip_existing: Annotated[
        bool, typer.Option("--skip-existing", help="Skip files whose output exists already.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be written; write nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")] = False,
    seed: options.Seed = 0,
    workers: options.Workers = None,
    results: Annotated[
        Path | None, options.results_file("--results", writes="a table with a row for each file")
    ] = None,
    ray: options.RayAddress = None,
    shard: options.ShardOf = None,
    retry_failed: options.RetryFailed = False,
    timeout: options.Timeout = options.TIMEOUT,
) -> None:
    """Rotate shapes upright.

    Example: qec orient scan.ply -o upright.ply

    The default model finds which way is up for shapes of any kind. Models that know classes, such as modelnet10, also
    rotate a shape to face the way that shapes of its class face.

    Each shape is rotated about its own centre. In the same format, everything else in the file stays as it is. Files
    that cannot be oriented, or only with a low confidence, are reported on standard error, and the exit code is 1.
    """
    bulk = BulkOptions(files or [], listed, results, ray, shard, retry_failed, workers, timeout)
    check_bulk_options(bulk, "--results")
    if results is not None and (skip_existing or dry_run or as_json or Path(output).is_file()):
        raise ValueError("--results needs a folder as -o, and no --skip-existing, --dry-run or --json")
    import_models()
    from qecnet.bulk import Work
    from qecnet.models import Answer, Failure, load

    writing: dict[str, Any] = {"output_up": output_up, "min_confidence": 0.0 if force_doubtful else min_confidence}
    if results is not None:
        placement = Placement(output, tuple(name for name in bulk.files if Path(name).is_dir()))
        asked = {"seed": seed, "up": up, "viewpoint": viewpoint}
        write = partial(_write_columns, placement=placement, **writing)
        work = Work[dict[str, Any]](load(model, fast=fast), write, asked)
        # Not the least confidence: what failed by it can be retried with another one.
        settings = {"fast": fast, "output": output, "output_up": output_up}
        _create_folder(Path(output))
        plan = {"output_of": placement.output_of, "overwrite": force, "keep": placement.is_input}
        run_bulk(bulk, "orient", work, _COLUMNS, settings, **plan)
        return
    targets, failures = plan_outputs(bulk.files, listed, output, force, skip_existing)
    processes = 1 if Path(STANDARD_INPUT) in targets else workers or count_processes(len(targets))
    answers = load(model, fast=fast).predict_many(targets, seed=seed, workers=processes, up=up, viewpoint=viewpoint)
    for failure in failures:
        _print_failure(failure, as_json)
    for answer in with_progress(answers, "orienting", len(targets)):
        if isinstance(answer, Answer):
            result = _write(answer, targets[Path(answer.name)], dry_run=dry_run, **writing)
        else:
            result = answer
        if isinstance(result, Failure):
            failures.append(result)
            _print_failure(result, as_json)
        else:
            _print_row(result, as_json)
    if failures:
        raise typer.Exit(1)


def _create_folder(folder: Path) -> None:
    """Create the folder of a bulk run, or raise an OSError of one sentence if files cannot be written there."""
    from qecnet.files import find_write_obstacle, name_write_errors

    if obstacle := find_write_obstacle(folder):
        raise OSError(f"{folder}: cannot be written ({obstacle}); name another folder with -o")
    with name_write_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)


def _write(
    answer: Answer, target: Path, *, output_up: str | None, min_confidence: float, dry_run: bool = False
) -> dict[str, Any] | Failure:
    """Write the file that was oriented and describe it, or say why not."""
    import numpy as np

    from qecnet.algebra import conjugate, from_matrix, multiply, to_matrix
    from qecnet.bulk import CannotWrite
    from qecnet.files import name_write_errors
    from qecnet.formats import Motion, move_file
    from qecnet.models import Failure

    confidence = answer.up_confidence
    known = "upright with" if answer.verified else f"{answer.label} with"
    if confidence < min_confidence:
        return Failure(
            answer.name,
            f"{answer.name}: {known} confidence {confidence:.2f}, below {min_confidence:g}, was not written; lower "
            "--min-confidence or give --force-doubtful",
        )
    rotation = conjugate(answer.pose)
    if (output_up or ("y" if target.suffix.lower() in _Y_UP_SUFFIXES else "z")) == "y":
        rotation = multiply(from_matrix(rotation.new_tensor(_Y_UP)), rotation)
    motion = Motion(to_matrix(rotation).numpy(), np.zeros(3), answer.centre.numpy())
    copied: list[Path] = []
    if not dry_run:
        try:
            with name_write_errors(target):
                target.parent.mkdir(parents=True, exist_ok=True)
            copied = move_file(answer.name, target, motion)
        except (ValueError, OSError) as error:
            if getattr(error.__cause__, "errno", None) in _DISK:
                raise CannotWrite(str(error)) from error
            return Failure(answer.name, str(error))
    return {
        "file": answer.name,
        "output": str(target),
        "label": answer.label if answer.has_classes else None,
        "confidence": round(confidence, 4),
        "rotation": [round(value, 6) for value in rotation.tolist()],
        "centre": answer.centre.tolist(),
        "written": not dry_run,
        "candidates": [candidate.describe() for candidate in answer.likely_candidates()],
        "copied": [str(path) for path in copied],
    }


def _print_failure(failure: Failure, as_json: bool) -> None:
    print_error(failure.error)
    if as_json:
        typer.echo(json.dumps({"file": failure.name, "error": failure.error}))


def _print_row(row: dict[str, Any], as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(row, allow_nan=False))
        return
    would = "" if row["written"] else "would be written: "
    copied = "; copied " + ", ".join(row["copied"]) if row["copied"] else ""
    label = f"{row['label']}, " if row["label"] else ""
    line = f"{label}confidence {row['confidence']:.2f}, rotated by {angle_about_axis(row['rotation'])}{copied}"
    typer.echo(printable(f"{row['output']}: {would}{line}"))
