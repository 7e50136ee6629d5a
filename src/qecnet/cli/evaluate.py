"""`qec evaluate`: the paper's tables for any run, under both protocols."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.table import Table

from qecnet.cli._options import Seed
from qecnet.cli._output import one_sentence
from qecnet.datasets import Dataset, open_dataset
from qecnet.evaluation.calibration import measure_calibration, write_temperature
from qecnet.evaluation.classification import measure_classification
from qecnet.evaluation.equivariance import measure_equivariance
from qecnet.evaluation.pose_baselines import METHODS, measure_pose_baselines
from qecnet.evaluation.predict import Model
from qecnet.evaluation.robustness import measure_robustness
from qecnet.evaluation.rotation import measure_rotation
from qecnet.files import alone_in, as_json, write_whole

app = typer.Typer(help="Measure a trained model.", no_args_is_help=True, rich_markup_mode=None)

Run = Annotated[Path, typer.Argument(help="The folder of a run of qec train; results go to RUN/evaluation.")]
Data = Annotated[Path | None, typer.Option(help="Where the dataset is: a folder or a zip.")]
Named = Annotated[str | None, typer.Option("--dataset", help="Its name, where it is not the one of the run.")]
Protocols = Annotated[
    Literal["both", "paper", "strict"],
    typer.Option(help="strict: frames estimated after the rotation, every pair; paper: as the authors' release."),
]
PerClass = Annotated[
    int | None,
    typer.Option(min=1, help="Only so many test shapes of each class: a quick look, no result."),
]
Workers = Annotated[int | None, typer.Option(min=1, help="Processes; by default one for each core.")]


@dataclass(frozen=True)
class _Subject:
    """What is measured, on what (numbers of test shapes, or None for all), and where the figures go."""

    model: Model
    dataset: Dataset
    folder: Path
    shapes: list[int] | None
    seed: int
    workers: int | None

    def write(self, name: str, result: dict[str, Any]) -> dict[str, Any]:
        write_whole(self.folder / f"{name}.json", as_json(result))
        return result


def _subject(
    run: Path, data: Path | None, dataset: str | None, seed: int, workers: int | None, per_class: int | None
) -> _Subject:
    model = Model.load(run)
    found = _opened(dataset or model.settings["dataset"], data, model.settings["per_class"])
    shapes = None if per_class is None else _first(found, per_class)
    folder = run / "evaluation"
    folder.mkdir(exist_ok=True)
    if apart := sorted({*model.classes} ^ {*found.classes}):
        typer.echo(f"note: only common classes are measured; left out: {', '.join(apart)}", err=True)
    return _Subject(model, found, folder, shapes, seed, workers)


def _opened(name: str, data: Path | None, per_class: int = 100) -> Dataset:
    found = open_dataset(name, data, per_class=per_class)
    for note in found.notes:
        typer.echo(f"note: {note}", err=True)
    return found


def _first(dataset: Dataset, per_class: int) -> list[int]:
    """Numbers of the first `per_class` test shapes of each class."""
    seen: Counter[int] = Counter()
    kept = []
    for number, item in enumerate(dataset.items("test")):
        seen[item.label] += 1
        if seen[item.label] <= per_class:
            kept.append(number)
    return kept


def _measured(
    subject: _Subject,
    what: str,
    measure: Callable[..., dict[str, Any]],
    protocols: str,
    show: Callable[[dict[str, Any]], None],
    **options: Any,
) -> None:
    for protocol in ("paper", "strict") if protocols == "both" else (protocols,):
        result = measure(
            subject.model,
            subject.dataset,
            subject.folder,
            protocol,
            shapes=subject.shapes,
            seed=subject.seed,
            workers=subject.workers,
            **options,
        )
        show(subject.write(f"{what}-{protocol}", result))


@app.command()
def classification(
    run: Run,
    data: Data = None,
    dataset: Named = None,
    protocol: Protocols = "both",
    rotations: Annotated[int, typer.Option(min=1, help="Turned views of each shape.")] = 5,
    seed: Seed = 0,
    workers: Workers = None,
    per_class: PerClass = None,
) -> None:
    """Table 1: accuracy upright (NR/NR) and turned (NR/AR). Example: qec evaluate classification runs/x --data PATH"""
    with one_sentence():
        subject = _subject(run, data, dataset, seed, workers, per_class)
        with alone_in(subject.folder, wait=True):
            _measured(subject, "classification", measure_classification, protocol, _show_names, rotations=rotations)


@app.command()
def rotation(
    run: Run,
    data: Data = None,
    dataset: Named = None,
    protocol: Protocols = "both",
    rotations: Annotated[int, typer.Option(min=1, help="Rotations of each resampling.")] = 5,
    resamplings: Annotated[int, typer.Option(min=2, help="Resamplings of each shape.")] = 5,
    seed: Seed = 0,
    workers: Workers = None,
    per_class: PerClass = None,
) -> None:
    """Table 2: relative angular error of the pose. Example: qec evaluate rotation runs/x --data PATH"""
    with one_sentence():
        subject = _subject(run, data, dataset, seed, workers, per_class)
        sizes = {"rotations": rotations, "resamplings": resamplings}
        with alone_in(subject.folder, wait=True):
            _measured(subject, "rotation", measure_rotation, protocol, _show_poses, **sizes)


@app.command()
def robustness(
    run: Run,
    data: Data = None,
    dataset: Named = None,
    protocol: Protocols = "strict",
    seed: Seed = 0,
    workers: Workers = None,
    per_class: PerClass = None,
) -> None:
    """Table 3 and further: spoiled input. Example: qec evaluate robustness runs/x --data PATH"""
    with one_sentence():
        subject = _subject(run, data, dataset, seed, workers, per_class)
        with alone_in(subject.folder, wait=True):
            _measured(subject, "robustness", measure_robustness, protocol, _show_levels)


@app.command()
def equivariance(
    run: Run,
    data: Data = None,
    dataset: Named = None,
    rotations: Annotated[int, typer.Option(min=1, help="Turned views of each shape.")] = 5,
    seed: Seed = 0,
    workers: Workers = None,
    per_class: PerClass = None,
) -> None:
    """What a rotation changes, and whose doing it is. Example: qec evaluate equivariance runs/x --data PATH"""
    with one_sentence():
        subject = _subject(run, data, dataset, seed, workers, per_class)
        with alone_in(subject.folder, wait=True):
            result = measure_equivariance(
                subject.model,
                subject.dataset,
                subject.folder,
                rotations=rotations,
                shapes=subject.shapes,
                seed=seed,
                workers=workers,
            )
            _show_changes(subject.write("equivariance-strict", result))


@app.command()
def calibration(
    run: Run,
    data: Data = None,
    protocol: Annotated[Literal["paper", "strict"], typer.Option(help="How views are made.")] = "strict",
    rotations: Annotated[int, typer.Option(min=1, help="Turned views of each shape.")] = 5,
    seed: Seed = 0,
    workers: Workers = None,
    per_class: PerClass = None,
) -> None:
    """Make a model as sure as it is right, and say how far it is from that. Example: qec evaluate calibration runs/x

    The temperature is fitted on the train split's held-out part, and written into the run's weights.safetensors.
    """
    with one_sentence():
        subject = _subject(run, data, None, seed, workers, per_class)
        with alone_in(subject.folder, wait=True):
            result = measure_calibration(
                subject.model,
                subject.dataset,
                subject.folder,
                protocol,
                rotations=rotations,
                shapes=subject.shapes,
                seed=seed,
                workers=workers,
            )
            write_temperature(subject.model.path, result["temperature"])
            _show_calibration(subject.write("calibration", result))


@app.command("pose-baselines")
def pose_baselines(
    folder: Annotated[Path, typer.Argument(help="Where pose-baselines.json goes; a run's evaluation folder will do.")],
    data: Data = None,
    dataset: Annotated[
        str, typer.Option(help="modelnet10, modelnet40, shapes, or a name for your own folder.")
    ] = "modelnet10",
    method: Annotated[
        list[str] | None, typer.Option(help="One of the methods; as often as needed, all by default.")
    ] = None,
    pairs: Annotated[int, typer.Option(min=1, help="Of each class, in each of the two tables.")] = 20,
    seed: Seed = 0,
    workers: Workers = None,
) -> None:
    """Align pairs without learning: one shape twice, and two of a class. Example: qec evaluate pose-baselines out"""
    with one_sentence():
        found = _opened(dataset, data)
        methods = tuple(method or METHODS)
        folder.mkdir(parents=True, exist_ok=True)
        part = folder / "pose-baselines.part"
        with alone_in(folder, wait=True):
            result = measure_pose_baselines(found, "test", methods, pairs, seed, workers, part=part)
            write_whole(folder / "pose-baselines.json", as_json(result))
            part.unlink()
        _show_alignments(result)


def _show_alignments(result: dict[str, Any]) -> None:
    table = Table(title=f"pairs aligned without learning, RAE ({result['protocol']} protocol)")
    for heading in ("pairs of", "method", "no-sym", "median", "all classes", "up to symmetry", "seconds"):
        table.add_column(heading, justify="left" if heading in ("pairs of", "method") else "right")
    for name, told in (("same_instance", "one shape"), ("category_level", "two of a class")):
        for method, found in result[name].items():
            apart, every = found["no_sym"], found["all_classes"]
            cells = [_error(apart), _error(apart, "median"), _error(every), _error(every and every["symmetric"])]
            table.add_row(told, method, *cells, _number(found["seconds"]))
    Console().print(table)


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f}"


def _error(row: dict[str, Any] | None, name: str = "mean") -> str:
    return _number(None if row is None else row[name])


def _number(value: float | None, form: str = ".3f") -> str:
    return "–" if value is None else format(value, form)


def _show_names(result: dict[str, Any]) -> None:
    table = Table(title=f"accuracy, % ({result['protocol']} protocol, {result['shapes']} shapes)")
    for heading in ("", "overall", "95% interval", "mean class"):
        table.add_column(heading, justify="left" if not heading else "right")
    for name, which in (("NR/NR", "nr"), ("NR/AR", "ar")):
        found = result[which]
        low, high = found["interval"]
        interval = f"{_percent(low)} – {_percent(high)}"
        table.add_row(name, _percent(found["accuracy"]), interval, _percent(found["mean_class"]))
    Console().print(table)


def _show_calibration(result: dict[str, Any]) -> None:
    table = Table(title=f"calibration ({result['protocol']} protocol), temperature {result['temperature']:g}")
    for heading in ("shapes", "accuracy, %", "confidence, %", "ECE, %", "NLL"):
        table.add_column(heading, justify="left" if heading == "shapes" else "right", no_wrap=True)
    for part, told in (("held_out", "held out"), ("test", "test")):
        for when in ("before", "after"):
            row = result[part][when]
            shares = (_percent(row[name]) for name in ("accuracy", "confidence", "ece"))
            table.add_row(f"{told}, {when}", *shares, _number(row["nll"]))
    Console().print(table)


def _show_poses(result: dict[str, Any]) -> None:
    table = Table(title=f"relative angular error δ/π ({result['protocol']} protocol, {result['shapes']} shapes)")
    headings = ("mode", "over", "no-sym", "median", "up to symmetry", "all classes", "up to symmetry ")
    for heading in headings:
        table.add_column(heading, justify="left" if heading in ("mode", "over") else "right")
    for mode, found in result["modes"].items():
        for over, groups in found.items():
            apart, every = groups["no_sym"], groups["all_classes"]
            cells = [_error(apart), _error(apart, "median"), _error(apart and apart["symmetric"])]
            table.add_row(mode, over, *cells, _error(every), _error(every and every["symmetric"]))
    Console().print(table)


def _show_levels(result: dict[str, Any]) -> None:
    table = Table(title=f"spoiled input ({result['protocol']} protocol, {result['shapes']} shapes)")
    for heading in ("kind", "level", "accuracy, %", "RAE no-sym, named right", "RAE no-sym, all"):
        table.add_column(heading, justify="left" if heading == "kind" else "right")
    for row in result["levels"]:
        errors = (_number(row[name]) for name in ("rae", "rae_all"))
        table.add_row(row["kind"], f"{row['level']:g}", _percent(row["accuracy"]), *errors)
    Console().print(table)


def _show_changes(result: dict[str, Any]) -> None:
    table = Table(title=f"what a rotation changes ({result['shapes']} shapes)")
    for heading in ("changed", "pose, median °", "pose, largest °", "activation", "other name, %", "accuracy, %"):
        table.add_column(heading, justify="left" if heading == "changed" else "right")
    ways = (
        ("network", "nothing: frames turned too", "exact_frames"),
        ("frames", "frames estimated anew", "reestimated"),
    )
    for way, told, name in (*ways, ("resampled", "points and frames", "resampled")):
        row = result[way]
        table.add_row(
            told,
            _number(row["pose_degrees_median"], ".4f"),
            _number(row["pose_degrees_max"], ".3f"),
            f"{row['activation_max']:.1e}",
            _percent(row["labels_changed"]),
            _percent(result["accuracy"][name]),
        )
    Console().print(table)
    typer.echo(f"accuracy upright: {_percent(result['accuracy']['nr'])} %")
