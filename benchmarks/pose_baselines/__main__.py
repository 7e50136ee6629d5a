"""Measures the pose baselines and writes pose-baselines.json, which `qec report` shows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from qecnet.cli.evaluate import print_summary
from qecnet.datasets import open_dataset
from qecnet.evaluation import write_result
from qecnet.files import alone_in

from .measure import measure_pose_baselines
from .methods import METHODS

app = typer.Typer(add_completion=False)


@app.command()
def main(
    folder: Annotated[Path, typer.Argument(help="Where pose-baselines.json goes, e.g. a run's evaluation folder.")],
    data: Annotated[Path | None, typer.Option(help="The dataset: a folder or a zip file.")] = None,
    dataset: Annotated[str, typer.Option(help="modelnet10, modelnet40, shapes, or a name of yours.")] = "modelnet10",
    method: Annotated[list[str] | None, typer.Option(help="One of the methods; all by default.")] = None,
    pairs: Annotated[int, typer.Option(min=1, help="Pairs of each class, in each of the two tables.")] = 20,
    seed: Annotated[int, typer.Option(min=0, help="Seed of pairs, resampling and rotations.")] = 0,
    workers: Annotated[int | None, typer.Option(min=1, help="Number of processes; one per core by default.")] = None,
) -> None:
    """Align pairs without learning: two samplings of one shape, and two shapes of a class."""
    try:
        found = open_dataset(dataset, data)
        folder.mkdir(parents=True, exist_ok=True)
        part = folder / "pose-baselines.part"
        with alone_in(folder, wait=True):
            methods = tuple(method or METHODS)
            result = measure_pose_baselines(found, "test", methods, pairs, seed, workers=workers, part=part)
            print_summary(write_result(folder, result))
            part.unlink()
    except (ValueError, OSError) as error:
        typer.echo(f"pose_baselines: {error}", err=True)
        raise typer.Exit(1) from error


if __name__ == "__main__":
    app()
