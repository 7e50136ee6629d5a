"""`qec evaluate`: the paper's tables for any run, under both protocols."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from qecnet.cli._interrupts import import_models
from qecnet.cli._options import Seed

if TYPE_CHECKING:
    from qecnet.datasets import Dataset
    from qecnet.evaluation import Measurement, Result

_HELP = """Measure a trained model.

Example: qec evaluate classification runs/x --data PATH
"""
app = typer.Typer(help=_HELP, add_completion=False, no_args_is_help=True, rich_markup_mode=None)

ProtocolOption = Annotated[
    Literal["both", "paper", "strict"],
    typer.Option(
        help="strict: estimate frames after the rotation, as in practice. paper: rotate frames with the points, as in "
        "the authors' release."
    ),
]
RotationsOption = Annotated[
    int, typer.Option(min=1, metavar="INTEGER", help="Number of random rotations of each shape, e.g. 3.")
]


def _common(
    run: Annotated[
        Path, typer.Argument(metavar="RUN", help="Folder of a run of qec train; results are written to RUN/evaluation.")
    ],
    data: Annotated[Path | None, typer.Option(metavar="PATH", help="Dataset: a folder or a zip file.")] = None,
    dataset: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Name of the dataset if it is not the run's own, e.g. modelnet40."),
    ] = None,
    seed: Seed = 0,
    workers: Annotated[
        int | None,
        typer.Option(min=1, metavar="INTEGER", help="Number of processes. Default: one per core.", show_default=False),
    ] = None,
    per_class: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="INTEGER", help="Measure only this many test shapes of each class, for a quick look."
        ),
    ] = None,
) -> Measurement:
    """Build a measurement from the options that every command has."""
    if not run.is_dir():
        raise ValueError(f"{run}: there is no such folder; give the folder of a run of qec train")
    import_models()
    from qecnet.datasets import open_dataset
    from qecnet.evaluation import Measurement
    from qecnet.models import load

    model = load(run, poses=False)
    found = open_dataset(dataset or model.setting("dataset"), data, per_class=model.setting("per_class"))
    for note in found.notes:
        typer.echo(f"note: {note}", err=True)
    folder = run / "evaluation"
    folder.mkdir(exist_ok=True)
    common, apart = {*model.classes} & {*found.classes}, sorted({*model.classes} ^ {*found.classes})
    if common and apart:
        typer.echo(f"note: only the classes in common are measured, not {', '.join(apart)}", err=True)
    shapes = None if per_class is None else _first_shapes(found, per_class)
    return Measurement(model, found, folder, shapes=shapes, seed=seed, workers=workers)


def _command(measure: Callable[..., None]) -> Callable[..., None]:
    """Register a command that takes a measurement; its options are the common ones and the function's own."""
    types = {"Measurement": object}  # the class would import torch
    common, own = (inspect.signature(one, eval_str=True, locals=types) for one in (_common, measure))

    def command(**given: Any) -> None:
        from qecnet.files import alone_in

        measurement = _common(**{name: given.pop(name) for name in common.parameters})
        with alone_in(measurement.folder, wait=True):
            measure(measurement, **given)

    command.__doc__ = measure.__doc__
    parameters = [*common.parameters.values(), *list(own.parameters.values())[1:]]
    keyword_only = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in parameters]
    command.__signature__ = inspect.Signature(keyword_only)  # type: ignore[attr-defined]
    command.__annotations__ = {one.name: one.annotation for one in parameters}
    app.command(measure.__name__.removeprefix("_"))(command)
    return measure


@_command
def classification(measurement: Measurement, protocol: ProtocolOption = "both", rotations: RotationsOption = 5) -> None:
    """Measure accuracy, upright and rotated (Table 1).

    Example: qec evaluate classification runs/x --data PATH
    """
    _run("classification", measurement, protocol, rotations=rotations)


@_command
def rotation(
    measurement: Measurement,
    protocol: ProtocolOption = "both",
    rotations: Annotated[
        int, typer.Option(min=1, metavar="INTEGER", help="Number of rotations of each resampling, e.g. 3.")
    ] = 5,
    resamplings: Annotated[
        int, typer.Option(min=2, metavar="INTEGER", help="Number of resamplings of each shape, e.g. 3.")
    ] = 5,
) -> None:
    """Measure the orientation error (Table 2).

    Example: qec evaluate rotation runs/x --data PATH
    """
    _run("rotation", measurement, protocol, rotations=rotations, resamplings=resamplings)


@_command
def robustness(measurement: Measurement, protocol: ProtocolOption = "strict") -> None:
    """Measure robustness to corrupted input (Table 3).

    Example: qec evaluate robustness runs/x --data PATH

    Prints accuracy and orientation error for each kind and level of corruption.
    """
    _run("robustness", measurement, protocol)


@_command
def retrieval(measurement: Measurement) -> None:
    """Measure retrieval of shapes of the same class.

    Example: qec evaluate retrieval runs/x --data PATH

    Each test shape is seen in one random pose and searched for among all others. Two kinds of descriptors without
    learning are measured on the same views: occupied cells along the principal axes, and point pair features.
    """
    _run("retrieval", measurement, "strict")


@_command
def views(measurement: Measurement) -> None:
    """Measure accuracy on views of one side.

    Example: qec evaluate views runs/x --data PATH --per-class 10

    Prints accuracy and orientation error on whole shapes and on what one camera sees of them. The result for a dataset
    other than the run's own is written to a folder of that name, such as RUN/evaluation/scanned_objects.
    """
    if measurement.dataset.name != measurement.model.setting("dataset"):
        measurement = replace(measurement, folder=measurement.folder / measurement.dataset.name)
        measurement.folder.mkdir(exist_ok=True)
    _run("views", measurement, "strict")


@_command
def equivariance(measurement: Measurement, rotations: RotationsOption = 5) -> None:
    """Measure the effect of a rotation on predictions.

    Example: qec evaluate equivariance runs/x --data PATH

    Measured in three steps: frames rotated with the points, frames estimated again, points resampled as well.
    """
    _run("equivariance", measurement, "strict", rotations=rotations)


@_command
def calibration(
    measurement: Measurement,
    rotations: RotationsOption = 5,
    unlabelled_data: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Folder of the dataset in the run's setting unlabelled, e.g. scanned_objects."
        ),
    ] = None,
) -> None:
    """Calibrate the confidence of a model.

    Example: qec evaluate calibration runs/x --data PATH

    Temperatures of classes and orientations, and how they grow with the missing part of a shape, are fitted on the
    held-out part of the training split, as at the end of training, and written to the run's weights.safetensors.
    Prints the calibration error before and after.
    """
    from qecnet.datasets import open_dataset
    from qecnet.evaluation import measure_calibration, write_calibration, write_result
    from qecnet.models import weights_file
    from qecnet.nn import Calibration

    name = measurement.model.settings.get("unlabelled")
    if name not in (None, "", "shapes") and unlabelled_data is None:
        raise ValueError(f"{measurement.model.name}: was also trained on {name}; give it with --unlabelled-data")
    unlabelled = open_dataset(name, unlabelled_data) if name else None
    found = measure_calibration(measurement, rotations, unlabelled)
    calibration = Calibration(**{field.name: getattr(found, field.name) for field in fields(Calibration)})
    write_calibration(weights_file(measurement.model.name), calibration)
    print_summary(write_result(measurement.folder, found))


def print_summary(result: Result) -> None:
    """Print a result as a table."""
    from rich.console import Console
    from rich.table import Table

    from qecnet.evaluation import summarize

    found = summarize(result)
    table = Table(title=found.title)
    for place, name in enumerate(found.head):
        table.add_column(name, justify="left" if place < found.labels else "right")
    for row in found.rows:
        table.add_row(*row)
    Console().print(table)


def _run(name: str, measurement: Measurement, protocols: str, **options: int) -> None:
    from qecnet import evaluation

    measure = getattr(evaluation, f"measure_{name}")
    for protocol in ("paper", "strict"):
        if protocols in ("both", protocol):
            result = measure(replace(measurement, protocol=protocol), **options)
            print_summary(evaluation.write_result(measurement.folder, result))


def _first_shapes(dataset: Dataset, per_class: int) -> list[int]:
    """Number the first `per_class` test shapes of each class."""
    labels = [item.label for item in dataset.items("test")]
    return [number for number, label in enumerate(labels) if labels[:number].count(label) < per_class]
