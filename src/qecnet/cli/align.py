"""`qec align`: the rotation and translation from one shape to another, and the first shape after that motion."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from qecnet import DEFAULT_MODEL
from qecnet.cli._interrupts import import_models
from qecnet.cli._options import Force, KnownUp, ModelName, Seed, Viewpoint, option_parser
from qecnet.cli._output import angle_about_axis, check_writable
from qecnet.cli._placement import output_suffixes
from qecnet.schema import printable
from qecnet.triples import Triple, parse_direction

if TYPE_CHECKING:
    from qecnet.formats import Motion
    from qecnet.models import Alignment

_UNLIKE = 4.0  # shapes of one class whose sizes differ by a larger factor probably have different units
_TOO_UNLIKE_TO_REFINE = 1.5  # registration without a scale brings shapes no closer whose sizes differ by more
_DOUBTFUL = 0.5  # confidences below this are reported


def align(
    source: Annotated[Path, typer.Argument(metavar="SOURCE", help="Mesh or point cloud to move.")],
    target: Annotated[
        Path, typer.Argument(metavar="TARGET", help="Shape to align it with: the same object, or another of its class.")
    ],
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="PATH", help="Write the moved source, in the format of the extension."),
    ] = None,
    refine: Annotated[
        bool,
        typer.Option(
            "--refine",
            help="Refine the result by registration; with --scale, this also refines the scale. Without --scale, or if "
            "the scale was rounded to that of two units, it needs the extra qecnet[refine].",
        ),
    ] = False,
    scale: Annotated[
        bool, typer.Option("--scale", help="Estimate a scale too, for shapes of different sizes or units.")
    ] = False,
    transform_only: Annotated[bool, typer.Option("--transform-only", help="Print only the 4 × 4 matrix.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    model: ModelName = DEFAULT_MODEL,
    up: KnownUp = None,
    target_up: Annotated[
        Triple | None,
        typer.Option(
            "--target-up",
            metavar="DIRECTION",
            parser=option_parser(parse_direction),
            help="Known up direction of the target, in its own coordinates, if it differs from that of the source: "
            "an axis (z, -y) or three numbers. Needs --up.",
            show_default=False,
        ),
    ] = None,
    viewpoint: Viewpoint = None,
    force: Force = False,
    seed: Seed = 0,
) -> None:
    """Align one shape with another.

    Example: qec align scan.ply model.obj -o moved.ply

    Prints the rotation and the translation from the source to the target, and the residual: the root mean square
    distance to the nearest points, in the units of the files. With --up, both shapes have that up direction, and the
    rotation is about it; with --target-up as well, it takes the one direction to the other.
    """
    if transform_only and as_json:
        raise ValueError("--transform-only and --json cannot be combined; give one of them")
    if target_up is not None and up is None:
        raise ValueError("--target-up is given without --up; give the up direction of the source, too")
    import_models()
    import numpy as np

    from qecnet.algebra import to_matrix
    from qecnet.formats import Motion, move_file
    from qecnet.models import find_units, load

    if output is not None:
        check_writable(output, force, output_suffixes(source))
    found = load(model).align(
        source, target, refine=refine, scale=scale, seed=seed, up=up, target_up=target_up, viewpoint=viewpoint
    )
    _warn(source, target, found)
    ratio = found.target.radius / found.source.radius
    factor = max(ratio, 1 / ratio)
    if not scale and factor > (_TOO_UNLIKE_TO_REFINE if refine else _UNLIKE):
        units = find_units(ratio)[1]
        times = f"{factor:,.{0 if factor >= 10 else 1}f} times {'smaller' if ratio > 1 else 'larger'}"
        why = f" ({units}?)" if units else ""
        _note(f"{source}: is {times} than the target{why}; --scale corrects this")
    motion = Motion(to_matrix(found.rotation).numpy(), found.translation.numpy(), np.zeros(3), found.scale)
    copied = [] if output is None else move_file(source, output, motion)
    if transform_only:
        typer.echo("\n".join(_numbers(row) for row in motion.matrix.tolist()))
    elif as_json:
        _print_json(found, motion, output, copied)
    else:
        _print(found, scale)
        if copied:
            typer.echo(printable(f"copied      {', '.join(map(str, copied))}"))


def _warn(source: Path, target: Path, found: Alignment) -> None:
    """Report predictions that make the alignment doubtful."""
    first, second = found.source, found.target
    if first.label != second.label:
        _note(f"{source}: is classified as {first.label}, the target as {second.label}; the result may be wrong")
    for path, answer in ((source, first), (target, second)):
        if answer.confidence < _DOUBTFUL:
            _note(f"{path}: has a low confidence ({answer.confidence:.2f}); the result may be wrong")


def _note(text: str) -> None:
    typer.echo(printable(f"note: {text}"), err=True)


def _print_json(found: Alignment, motion: Motion, output: Path | None, copied: list[Path]) -> None:
    shapes = {
        name: {
            "label": answer.label if answer.has_classes else None,
            "confidence": round(answer.confidence, 4),
        }
        for name, answer in (("source", found.source), ("target", found.target))
    }
    row = {
        **shapes,
        "rotation": found.rotation.tolist(),
        "translation": found.translation.tolist(),
        "scale": motion.scale,
        "matrix": motion.matrix.tolist(),
        "residual": found.residual,
        "output": None if output is None else str(output),
        "copied": [str(path) for path in copied],
    }
    typer.echo(json.dumps(row, allow_nan=False))


def _print(found: Alignment, scaled: bool) -> None:
    from qecnet.algebra import to_matrix

    for heading, answer in (("source", found.source), ("target", found.target)):
        label = f"{answer.label}, " if answer.has_classes else ""
        typer.echo(f"{heading:<11} {label}confidence {answer.confidence:.2f}")
    typer.echo(f"quaternion  {_numbers(found.rotation.tolist())}  (w x y z)")
    typer.echo(f"axis-angle  {angle_about_axis(found.rotation.tolist())}")
    for heading, row in zip(("matrix", "", ""), to_matrix(found.rotation).tolist(), strict=True):
        typer.echo(f"{heading:<11} {_numbers(row)}")
    typer.echo(f"translation {_numbers(found.translation.tolist())}")
    if scaled:
        typer.echo(f"scale       {found.scale:.9g}")
    typer.echo(f"residual    {found.residual:.6g}")


def _numbers(values: list[float]) -> str:
    return " ".join(f"{value:.9g}" for value in values)
