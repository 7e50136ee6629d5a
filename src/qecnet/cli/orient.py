"""`qec orient`: files as they are, turned upright."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from qecnet.algebra import conjugate, to_matrix
from qecnet.cli._files import count_processes, find_shapes, with_progress
from qecnet.cli._options import DEFAULT_MODEL, Files, ModelName, Seed, Workers
from qecnet.cli._output import angle_about_axis, check_writable, one_sentence, printable
from qecnet.formats import Motion, move_file
from qecnet.models import Answer, Failure, load


def orient(
    files: Files,
    output: Annotated[Path, typer.Option("-o", "--output", help="The file to write; for several, a folder.")],
    model: ModelName = DEFAULT_MODEL,
    force: Annotated[bool, typer.Option("--force", help="Overwrite files that exist.")] = False,
    seed: Seed = 0,
    workers: Workers = None,
) -> None:
    """Turn shapes into their class's canonical, upright pose. Example: qec orient scan.ply -o upright.ply

    Each is turned about its own centre and written in its own format, with all that it has beside points and normals.
    Exit code 1 tells that a file could not be turned; the others are done all the same.
    """
    with one_sentence():
        targets, failures = _targets(files, output, force)
        answers = load(model).predict_many(targets, seed=seed, workers=workers or count_processes(len(targets)))
        for answer in with_progress(answers, "turning", len(targets)):
            failures += [answer] if isinstance(answer, Failure) else _turn(answer, targets[Path(answer.name)])
        for failure in failures:
            typer.echo(f"qec: {printable(failure.error)}", err=True)
        if failures:
            raise typer.Exit(1)


def _targets(arguments: list[str], output: Path, force: bool) -> tuple[dict[Path, Path], list[Failure]]:
    """Where each file goes, and which cannot be written. What is found in a folder keeps its place below it."""
    places: dict[Path, Path] = {}
    failures: list[Failure] = []
    for argument in arguments:
        found, missing = find_shapes([argument])
        failures += missing
        folder = Path(argument)
        places |= {path: path.relative_to(folder) if folder.is_dir() else Path(path.name) for path in found}
    if len(arguments) == 1 and Path(arguments[0]) in places and not output.is_dir():
        targets = dict.fromkeys(places, output)
    else:
        if output.is_file():
            raise ValueError(f"{output}: is a file; name a folder for what may be several shapes")
        targets = {path: output / place for path, place in places.items()}
        for folder in {target.parent for target in targets.values()}:
            folder.mkdir(parents=True, exist_ok=True)
    failures += _refused(targets, force)
    bad = {failure.name for failure in failures}
    return {path: target for path, target in targets.items() if str(path) not in bad}, failures


def _refused(targets: dict[Path, Path], force: bool) -> Iterator[Failure]:
    taken: set[Path] = set()
    for path, target in targets.items():
        try:
            check_writable(target, force, (path.suffix.lower(),))
            if target in taken:
                raise ValueError(f"{path}: would be written to {target}, as another file is; turn it on its own")
            taken.add(target)
        except ValueError as error:
            yield Failure(str(path), str(error))


def _turn(answer: Answer, target: Path) -> list[Failure]:
    """Writes the file, or says why not."""
    upright = conjugate(answer.pose)
    try:
        move_file(answer.name, target, Motion(to_matrix(upright).numpy(), np.zeros(3), answer.centre.numpy()))
    except (ValueError, OSError) as error:
        return [Failure(answer.name, str(error))]
    typer.echo(f"{printable(str(target))}: {answer.label}, turned by {angle_about_axis(upright.tolist())}")
    return []
