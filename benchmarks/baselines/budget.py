"""Trains and measures baselines, each for the same processor time; stopped, it goes on where it was.

    python -m benchmarks.baselines.budget --minutes 30 --modelnet10 ModelNet10.zip --modelnet40 ModelNet40
    python -m benchmarks.baselines.budget --only vector_neurons --minutes 90 --modelnet40 ModelNet40

Networks that classify are trained on ModelNet40 and measured as in Table 1, those that estimate orientations on
ModelNet10 and as in Table 2, both under the paper's protocol and the strict one. Of each, the settings, the log, the
learning curve and the results go to results/, and results/baselines.csv lists what each took.

Minutes are of processor time, summed over threads, so that other work on the machine takes nothing from a method.
"""

from __future__ import annotations

import csv
import json
import shutil
import time
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from benchmarks.baselines import BASELINES, ORIENTATION
from benchmarks.measure import RESULTS, milliseconds
from benchmarks.pose_baselines.learned import measure_learned

from qecnet.datasets import Dataset, FrameCache, frame_cache, open_dataset
from qecnet.evaluation import (
    PROTOCOLS,
    ClassificationResult,
    Measurement,
    PoseBaselinesResult,
    RotationResult,
    measure_classification,
    measure_rotation,
    read_result,
    write_result,
)
from qecnet.geometry import OrientedPoints
from qecnet.models import load
from qecnet.training import Settings, make_settings, train
from qecnet.training.batches import TrainingBatches
from qecnet.training.distributed import Processes
from qecnet.training.settings import parse_setting
from qecnet.training.step import new_state, train_step
from qecnet.training.validate import held_out

TABLE = "baselines.csv"
BUDGET = "budget.json"
KEPT = ("settings.json", "result.json", "log.jsonl", "curves.png")
SUBSAMPLINGS = 2
PROBE = 20.0
"""Seconds of processor time that tell how many epochs fit into the budget."""

app = typer.Typer(add_completion=False)


@dataclass(frozen=True)
class Cost:
    """What a trained baseline took; a row of results/baselines.csv.

    Attributes:
        run: the folder's name in results/.
        network: its registered name.
        dataset: that it was trained on.
        parameters: of the network as trained.
        allowed: minutes of processor time that the training was given.
        minutes: that its epochs take, by the speed of its first steps. It trains for at least one epoch.
        epochs: that it was trained for.
        threads: of torch.
        milliseconds: of processor time for each shape of a batch of 16, the network alone.
    """

    run: str
    network: str
    dataset: str
    parameters: int
    allowed: float
    minutes: float
    epochs: int
    threads: int
    milliseconds: float


@app.command()
def main(
    minutes: Annotated[float, typer.Option(min=0.01, help="Processor minutes to train each network, e.g. 30.")] = 30.0,
    modelnet10: Annotated[Path | None, typer.Option(help="ModelNet10: a folder or a zip file.")] = None,
    modelnet40: Annotated[Path | None, typer.Option(help="ModelNet40: a folder or a zip file, of meshes.")] = None,
    only: Annotated[list[str] | None, typer.Option(help="Only this network; may be repeated, e.g. riconv.")] = None,
    dataset: Annotated[str | None, typer.Option(help="shapes, for a quick trial that needs no files.")] = None,
    out: Annotated[Path, typer.Option(help="Folder of the runs, with weights and checkpoints.")] = Path("runs"),
    results: Annotated[Path, typer.Option(help="Folder that results are copied to.")] = RESULTS,
    cache: Annotated[Path, typer.Option(help="Folder of sampled clouds, shared by all runs.")] = Path("runs/clouds"),
    workers: Annotated[int, typer.Option(min=1, help="Processes that prepare clouds, e.g. 2.")] = 2,
    per_class: Annotated[int | None, typer.Option(min=1, help="Measure only this many test shapes per class.")] = None,
    change: Annotated[list[str] | None, typer.Option("--set", help="Change a setting, e.g. batch_size=16.")] = None,
) -> None:
    """Train and measure baselines, one after the other; what is finished already is not done again."""
    names = only or [*BASELINES, *ORIENTATION]
    if unknown := [name for name in names if name not in BASELINES and name not in ORIENTATION]:
        raise typer.BadParameter(f"{unknown[0]} is not a baseline; these are {', '.join((*BASELINES, *ORIENTATION))}")
    for name in names:
        source = dataset or ("modelnet10" if name in ORIENTATION else "modelnet40")
        data = {"modelnet10": modelnet10, "modelnet40": modelnet40}.get(source)
        if data is None and source != "shapes":
            typer.echo(f"{name}: skipped; give --{source}")
            continue
        run = out / f"{source}-{name.replace('_', '-')}"
        try:
            train_within(run, name, source, data, minutes, cache, workers, change or [])
            shapes = open_dataset(source, data, per_class=json.loads((run / "settings.json").read_text())["per_class"])
            measure_all(run, name, shapes, workers, per_class)
            cost = measure_cost(run, name, source)
            keep_results(run, results, cost)
        except (OSError, RuntimeError, ValueError) as error:  # the others are trained all the same
            typer.echo(f"{name}: {error}", err=True)
            continue
        typer.echo(
            f"{name}: {cost.parameters:,} parameters, {cost.minutes:.1f} of {cost.allowed:g} minutes in {cost.epochs} "
            f"epochs on {cost.threads} threads, {cost.milliseconds:.1f} ms per shape"
        )


def train_within(
    run: Path, name: str, dataset: str, data: Path | None, minutes: float, cache: Path, workers: int, change: list[str]
) -> None:
    """Train for the whole epochs that fit into the minutes, at least one, or go on with a run that was stopped."""
    if (run / "result.json").exists():
        return
    if not (run / "settings.json").exists():
        settings = settings_of(name, dataset, 1, change)
        clouds = frame_cache(
            open_dataset(dataset, data, per_class=settings.per_class),
            "train",
            cache,
            settings.prepare_config(),
            subsamplings=settings.subsamplings,
            keep=settings.keep,
            thinnest=settings.thinnest,
            workers=workers,
        )
        each = time_epoch(settings, clouds)
        epochs = max(1, int(minutes / each))
        run.mkdir(parents=True, exist_ok=True)
        (run / BUDGET).write_text(json.dumps({"allowed": minutes, "minutes": each * epochs}) + "\n")
        changes = [*change, f"subsamplings={SUBSAMPLINGS}", f"validate_every={max(1, epochs // 20)}"]
        given: dict[str, Any] = {"dataset": dataset, "data": data, "config": name, "epochs": epochs, "change": changes}
        train(run, cache=cache, workers=workers, **given)
    else:
        train(run, data=data, resume=True, cache=cache, workers=workers)


def settings_of(name: str, dataset: str, epochs: int, change: list[str]) -> Settings:
    """The settings of a run, as `qec train --set` reads them."""
    given = {"config": name, "dataset": dataset, "epochs": epochs, "subsamplings": SUBSAMPLINGS}
    return make_settings(given | dict(map(parse_setting, change)))


def time_epoch(settings: Settings, clouds: FrameCache) -> float:
    """Train a copy for some seconds of processor time, and find the minutes that an epoch takes."""
    alone = Processes(0, 1, torch.device("cpu"))
    state = new_state(settings, clouds.classes, alone.device)
    kept, _ = held_out(clouds.labels, settings.validation)
    batches = TrainingBatches(clouds, kept, settings)
    turns = torch.ones(len(clouds.classes) + 1, dtype=torch.long)  # the last is for shapes without a class
    steps, spent, begun = 0, 0.0, time.process_time()
    for batch in batches.after(0, 0, slice(None)):
        start = time.process_time()
        train_step(state.network, state, batch, turns, settings, 0.0, alone)
        if time.process_time() - begun > PROBE / 4 or steps:  # the first steps warm up
            steps, spent = steps + 1, spent + time.process_time() - start
        if spent > PROBE:
            break
    seconds = (spent or time.process_time() - begun) / max(steps, 1)
    return seconds * batches.steps / 60


def measure_all(run: Path, name: str, dataset: Dataset, workers: int, per_class: int | None) -> None:
    """Measure what the tables show of a run and has not been measured yet, under both protocols."""
    folder = run / "evaluation"
    folder.mkdir(exist_ok=True)
    shapes = None
    if per_class is not None:
        labels = [item.label for item in dataset.items("test")]
        shapes = [n for n, label in enumerate(labels) if labels[:n].count(label) < per_class]
    model = load(run, poses=False)
    for protocol in PROTOCOLS:
        given = Measurement(model, dataset, folder, protocol, shapes, workers=workers)
        if read_result(folder, ClassificationResult, protocol) is None:
            write_result(folder, measure_classification(given, rotations=1))
        if model.has_poses and read_result(folder, RotationResult, protocol) is None:
            write_result(folder, measure_rotation(given, rotations=2, resamplings=2))
    if name == "pointnetlk" and read_result(folder, PoseBaselinesResult) is None:
        write_result(folder, measure_learned(model, dataset, pairs_per_class=per_class or 20))


def measure_cost(run: Path, name: str, dataset: str) -> Cost:
    """Time the trained network on random clouds, and read from the run what its training took."""
    found = json.loads((run / "result.json").read_text())
    model = load(run, poses=False)
    points = torch.randn(16, model.config.frames, 3, generator=torch.Generator().manual_seed(0))
    points = points / points.norm(dim=-1).amax(1)[:, None, None]
    clouds = OrientedPoints.from_frames(points, torch.eye(4)[0].expand(*points.shape[:2], 4))
    with torch.inference_mode():
        each = milliseconds(lambda: model.network(clouds), clock=time.process_time) / 16
    budget = json.loads((run / BUDGET).read_text())
    return Cost(
        run.name,
        name,
        dataset,
        found["parameters"],
        budget["allowed"],
        round(budget["minutes"], 2),
        found["epoch"],
        torch.get_num_threads(),
        round(each, 3),
    )


def keep_results(run: Path, results: Path, cost: Cost) -> None:
    """Copy what tables and docs read of a run, and put its row into the table; weights stay where they are."""
    kept = results / run.name
    (kept / "evaluation").mkdir(parents=True, exist_ok=True)
    for name in KEPT:
        if (run / name).exists():
            shutil.copy(run / name, kept / name)
    for path in (run / "evaluation").glob("*.json"):
        shutil.copy(path, kept / "evaluation" / path.name)
    table = results / TABLE
    rows = [row for row in read_costs(table) if row["run"] != run.name]
    rows.append({name: str(value) for name, value in asdict(cost).items()})
    with table.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Cost)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(sorted(rows, key=lambda row: row["run"]))


def read_costs(table: Path) -> list[dict[str, str]]:
    """The rows of results/baselines.csv; none where it has not been written."""
    if not table.exists():
        return []
    with table.open(newline="", encoding="utf-8") as file:
        return [*csv.DictReader(file)]


if __name__ == "__main__":
    app()
