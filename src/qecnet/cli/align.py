"""`qec align`: what brings one shape onto another, and the first one where it comes to lie."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from qecnet.algebra import to_matrix
from qecnet.cli._options import DEFAULT_MODEL, ModelName, Seed
from qecnet.cli._output import angle_about_axis, check_writable, one_sentence
from qecnet.formats import Motion, move_file
from qecnet.models import Alignment, load


def align(
    source: Annotated[Path, typer.Argument(help="The shape that moves.")],
    target: Annotated[
        Path, typer.Argument(help="The shape that it is brought onto; another one of its class will do.")
    ],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Write the source as it comes to lie, in its own format.")
    ] = None,
    refine: Annotated[bool, typer.Option("--refine", help="Follow the nearest points from there (GICP).")] = False,
    transform_only: Annotated[
        bool, typer.Option("--transform-only", help="Print the motion as a 4 × 4 matrix and nothing else.")
    ] = False,
    model: ModelName = DEFAULT_MODEL,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the output if it exists.")] = False,
    seed: Seed = 0,
) -> None:
    """Find the motion from one shape to another. Example: qec align scan.ply model.obj -o moved.ply"""
    with one_sentence():
        if output is not None:
            check_writable(output, force, (source.suffix.lower(),))
        found = load(model).align(source, target, refine=refine, seed=seed)
        if output is not None:
            rotation = to_matrix(found.rotation).numpy()
            move_file(source, output, Motion(rotation, found.translation.numpy(), np.zeros(3)))
        if transform_only:
            typer.echo("\n".join(_numbers(row) for row in found.matrix.tolist()))
        else:
            _print(found)


def _print(found: Alignment) -> None:
    typer.echo(f"source      {found.source.label}, confidence {found.source.confidence:.2f}")
    typer.echo(f"target      {found.target.label}, confidence {found.target.confidence:.2f}")
    typer.echo(f"quaternion  {_numbers(found.rotation.tolist())}  (w x y z)")
    typer.echo(f"axis-angle  {angle_about_axis(found.rotation.tolist())}")
    for heading, row in zip(("matrix", "", ""), to_matrix(found.rotation).tolist(), strict=True):
        typer.echo(f"{heading:<11} {_numbers(row)}")
    typer.echo(f"translation {_numbers(found.translation.tolist())}")
    typer.echo(f"residual    {found.residual:.6g}")


def _numbers(values: list[float]) -> str:
    return " ".join(f"{value:.9g}" for value in values)
