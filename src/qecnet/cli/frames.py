"""`qec frames`: local reference frames of a file, as numbers, as a coloured PLY and as a picture."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from qecnet.cli._interrupts import import_models
from qecnet.cli._options import MAX_POINTS, Force, Seed, option_parser
from qecnet.cli._output import check_writable
from qecnet.triples import Triple, parse_point

if TYPE_CHECKING:
    from qecnet.geometry import OrientedPoints, PointCloud


def frames(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A mesh or a point cloud.")],
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", metavar="PATH", help="Write the frames: numbers to *.npz, coloured axes to *.ply."
        ),
    ] = None,
    method: Annotated[
        Literal["flare", "shot", "centred"], typer.Option(help="Method that estimates the frames.")
    ] = "flare",
    count: Annotated[int, typer.Option("--frames", min=1, metavar="INTEGER", help="Number of frames.")] = 512,
    sign: Annotated[
        Literal["inward", "outward", "normals"],
        typer.Option(
            help="Direction of the z axes: towards the centre of the shape, away from it, or as the file's normals."
        ),
    ] = "inward",
    viewpoint: Annotated[
        Triple | None,
        typer.Option(
            metavar="X,Y,Z",
            parser=option_parser(parse_point),
            help="Position of the camera, towards which z axes point instead.",
        ),
    ] = None,
    points: Annotated[
        int,
        typer.Option(
            min=1,
            max=MAX_POINTS,
            metavar="INTEGER",
            help="Number of points sampled from a mesh or a larger cloud.",
        ),
    ] = 10_000,
    seed: Seed = 0,
    plot: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Draw the shape with its frames: *.png, *.svg or *.pdf.")
    ] = None,
    force: Force = False,
) -> None:
    """Estimate the local reference frames of a shape.

    Example: qec frames chair.ply -o frames.npz

    Prints how many of the frames are valid: a point without a well-defined frame has none.
    """
    for path, suffixes in ((output, (".npz", ".ply")), (plot, (".png", ".svg", ".pdf"))):
        if path is not None:
            check_writable(path, force, suffixes)
    import_models()
    import torch

    from qecnet.cli._frame_files import draw_frames, write_npz, write_ply
    from qecnet.files import replace_when_done
    from qecnet.formats import read
    from qecnet.geometry import MIN_POINTS, Mesh, PrepareConfig, check_viewpoint, prepare

    generator = torch.Generator().manual_seed(seed)
    shape = read(file)
    cloud = shape.sample(points, generator) if isinstance(shape, Mesh) else shape
    if viewpoint is not None:
        cloud = cloud.seen_from(torch.tensor(viewpoint, dtype=torch.float64))
        # The normals of a mesh are not reliable.
        check_viewpoint(replace(cloud, normals=None) if isinstance(shape, Mesh) else cloud)
    side = sign if viewpoint is None else "camera"
    config = PrepareConfig(points, max(MIN_POINTS, min(count, len(cloud), points)), method=method, sign=side)
    start = time.perf_counter()
    prepared = prepare(cloud, config, generator)
    took = time.perf_counter() - start
    _summarize(cloud, prepared, method, took)
    if output is not None:
        with replace_when_done(output) as aside:
            (write_npz if output.suffix.lower() == ".npz" else write_ply)(aside, prepared)
        typer.echo(f"written to {output}")
    if plot is not None:
        with replace_when_done(plot) as aside:
            draw_frames(aside, cloud, prepared, method)
        typer.echo(f"written to {plot}")


def _summarize(cloud: PointCloud, prepared: OrientedPoints, method: str, took: float) -> None:
    dropped = [f"{n:,} {what}" for n, what in ((cloud.non_finite, "not finite"), (cloud.duplicates, "repeated")) if n]
    valid, total = int(prepared.valid.sum()), len(prepared.valid)
    typer.echo(f"{cloud.name}: {len(cloud):,} points" + (f" (dropped: {', '.join(dropped)})" if dropped else ""))
    typer.echo(f"{valid:,} of {total:,} {method} frames are valid ({valid / total:.1%}), in {1000 * took:.0f} ms")
