"""`qec orient`: writes files with their shapes rotated upright."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import typer

from qecnet.cli._files import count_processes, find_shapes, with_progress
from qecnet.cli._interrupts import quiet_interrupts
from qecnet.cli._options import ORIENTING_MODEL, Files, Force, KnownUp, ModelName, Seed, Viewpoint, Workers
from qecnet.cli._output import angle_about_axis, one_sentence, printable

if TYPE_CHECKING:
    from qecnet.models import Answer, Failure

_STANDARD_INPUT = "-"
_Y_UP = ((1.0, 0.0, 0.0), (0.0, 0.0, 1.0), (0.0, -1.0, 0.0))
_Y_UP_SUFFIXES = (".glb", ".gltf")  # their standard says so


class _Job(NamedTuple):
    """How to write an answer."""

    target: Path
    output_up: Literal["y", "z"]
    min_confidence: float
    dry_run: bool


def orient(
    files: Files,
    output: Annotated[
        str,
        typer.Option(
            "-o",
            "--output",
            metavar="PATH",
            help="File to write, in the format of its extension; or a folder, created if its name ends with /.",
        ),
    ],
    model: ModelName = ORIENTING_MODEL,
    up: KnownUp = None,
    viewpoint: Viewpoint = None,
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
    force: Force = False,
    skip_existing: Annotated[
        bool, typer.Option("--skip-existing", help="Skip files whose output exists already.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be written; write nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")] = False,
    seed: Seed = 0,
    workers: Workers = None,
) -> None:
    """Rotate shapes upright.

    Example: qec orient scan.ply -o upright.ply

    The default model finds which way is up for shapes of any kind. Models that know classes, such as modelnet10, also
    rotate a shape to face the way that shapes of its class face.

    Each shape is rotated about its own centre. In the same format, everything else in the file stays as it is. Files
    that cannot be oriented, or only with a low confidence, are reported on standard error, and the exit code is 1.
    """
    with one_sentence():
        with quiet_interrupts():
            from qecnet.models import Answer, Failure, load
        targets, failures = _plan(files, output, force, skip_existing)
        processes = 1 if Path(_STANDARD_INPUT) in targets else workers or count_processes(len(targets))
        threshold = 0.0 if force_doubtful else min_confidence
        answers = load(model).predict_many(targets, seed=seed, workers=processes, up=up, viewpoint=viewpoint)
        for failure in failures:
            _print_failure(failure, as_json)
        for answer in with_progress(answers, "orienting", len(targets)):
            if isinstance(answer, Answer):
                target = targets[Path(answer.name)]
                axis = output_up or ("y" if target.suffix.lower() in _Y_UP_SUFFIXES else "z")
                result = _write(answer, _Job(target, axis, threshold, dry_run))
            else:
                result = answer
            if isinstance(result, Failure):
                failures.append(result)
                _print_failure(result, as_json)
            else:
                _print_row(result, as_json)
        if failures:
            raise typer.Exit(1)


def _plan(
    arguments: list[str], output: str, force: bool, skip_existing: bool
) -> tuple[dict[Path, Path], list[Failure]]:
    """Where each file goes, and which cannot be written. A file found in a folder keeps its place below it."""
    out = Path(output)
    places: dict[Path, Path] = {}
    failures: list[Failure] = []
    for argument in arguments:
        found, missing = find_shapes([argument])
        failures += missing
        folder = Path(argument)
        if not folder.is_dir():
            places |= {path: Path(path.name) for path in found}
            continue
        # The output may be a folder inside the input: what was written there before is not input.
        inside = out.resolve().is_relative_to(folder.resolve()) and out.resolve() != folder.resolve()
        own = [path for path in found if inside and path.resolve().is_relative_to(out.resolve())]
        places |= {path: path.relative_to(folder) for path in found if path not in own}
    is_folder = output.endswith(("/", os.sep)) or out.is_dir()
    if len(arguments) == 1 and Path(arguments[0]) in places and not is_folder:
        targets = dict.fromkeys(places, out)
    elif out.is_file():
        raise ValueError(f"{out}: is a file; name a folder for several shapes")
    else:
        targets = {path: out / place for path, place in places.items()}
    if skip_existing:
        kept = {path: target for path, target in targets.items() if not target.exists()}
        if len(kept) < len(targets):
            typer.echo(f"note: {len(targets) - len(kept):,} of {len(targets):,} files exist already", err=True)
        targets = kept
    failures += _check_targets(targets, force)
    bad = {failure.name for failure in failures}
    return {path: target for path, target in targets.items() if str(path) not in bad}, failures


def _check_targets(targets: dict[Path, Path], force: bool) -> Iterator[Failure]:
    """Finds, before any work is done, outputs that cannot be written."""
    from qecnet.formats import SUFFIXES
    from qecnet.models import Failure

    taken: set[Path] = set()
    for path, target in targets.items():
        error = None
        if str(path) == _STANDARD_INPUT and target.name == _STANDARD_INPUT:
            error = f"{path}: has no name; name the output file"
        elif target.suffix.lower() not in (path.suffix.lower(), *SUFFIXES):
            error = f"{target}: cannot write this type of file; name it *{path.suffix.lower()}"
        elif target.is_dir():
            error = f"{target}: is a folder; give the name of a file"
        elif target.exists() and not force:
            error = f"{target}: exists already; name another file, or overwrite it with --force"
        elif target in taken:
            error = f"{path}: would be written to {target}, as another file is; orient it separately"
        taken.add(target)
        if error is not None:
            yield Failure(str(path), error)


def _write(answer: Answer, job: _Job) -> dict[str, Any] | Failure:
    """Writes the file, and describes it; or says why not."""
    import numpy as np

    from qecnet.algebra import conjugate, from_matrix, multiply, to_matrix
    from qecnet.formats import Motion, move_file
    from qecnet.models import Failure

    confidence = answer.up_confidence
    known = f"{answer.label} with" if len(answer.classes) > 1 else "upright with"
    if confidence < job.min_confidence:
        return Failure(
            answer.name,
            f"{answer.name}: {known} confidence {confidence:.2f}, below {job.min_confidence:g}, was not written; lower "
            "--min-confidence or give --force-doubtful",
        )
    rotation = conjugate(answer.pose)
    if job.output_up == "y":
        rotation = multiply(from_matrix(rotation.new_tensor(_Y_UP)), rotation)
    motion = Motion(to_matrix(rotation).numpy(), np.zeros(3), answer.centre.numpy())
    copied: list[Path] = []
    if not job.dry_run:
        try:
            job.target.parent.mkdir(parents=True, exist_ok=True)
            copied = move_file(answer.name, job.target, motion)
        except (ValueError, OSError) as error:
            return Failure(answer.name, str(error))
    return {
        "file": answer.name,
        "output": str(job.target),
        "label": answer.label if len(answer.classes) > 1 else None,
        "confidence": round(confidence, 4),
        "rotation": [round(value, 6) for value in rotation.tolist()],
        "written": not job.dry_run,
        "copied": [str(path) for path in copied],
    }


def _print_failure(failure: Failure, as_json: bool) -> None:
    typer.echo(f"qec: {printable(failure.error)}", err=True)
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
