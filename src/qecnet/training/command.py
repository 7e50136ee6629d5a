"""The command `qec train`, also run as `python -m qecnet.training`."""

from __future__ import annotations

import os
from contextlib import ExitStack
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from qecnet.training.checkpoint import State
    from qecnet.training.distributed import Processes
    from qecnet.training.folder import RunFolder
    from qecnet.training.settings import Settings
    from qecnet.training.unlabelled import TrainingFrames

STOPPED = 130
"""Exit code of a run that a signal stopped, as in shells after Ctrl-C."""


def train(
    out: Annotated[
        Path,
        typer.Option(
            metavar="FOLDER", help="Folder for the settings, checkpoint, log, weights and curves, e.g. runs/chairs."
        ),
    ],
    dataset: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="modelnet10, modelnet40, shapes (needs no --data), or a name for your own folder. "
            "Default: modelnet10.",
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH", help="Folder or zip file of the dataset, e.g. ModelNet10.zip; not needed for shapes."
        ),
    ] = None,
    unlabelled_data: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Folder of the dataset in the setting unlabelled, e.g. scanned_objects."),
    ] = None,
    config: Annotated[
        str | None, typer.Option(metavar="NAME", help="Network: features, paper or upright. Default: paper.")
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Weights to start from: a model's name, a file, or a run's folder, e.g. modelnet40."
        ),
    ] = None,
    settings: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="TOML or JSON file of settings, e.g. run.toml; options on the command line take precedence.",
        ),
    ] = None,
    epochs: Annotated[
        int | None,
        typer.Option(metavar="INTEGER", help="Number of training epochs, e.g. 100. Default: that of the network."),
    ] = None,
    change: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Change a setting, e.g. batch_size=16; may be repeated."),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the run in --out, with the settings it was started with.")
    ] = False,
    cache: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Folder of computed frames, shared by all runs. Default: ~/.cache/qecnet."),
    ] = None,
    workers: Annotated[
        int,
        typer.Option(
            min=1,
            metavar="INTEGER",
            help="Number of processes that compute frames. Default: one per core.",
            show_default=False,
        ),
    ] = os.cpu_count() or 1,
    save_minutes: Annotated[
        float,
        typer.Option(
            min=0, metavar="MINUTES", help="Minutes between checkpoints within an epoch, e.g. 5; 0 saves every step."
        ),
    ] = 5.0,
) -> None:
    """Train a network to classify shapes and estimate their orientation.

    Example: qec train --dataset shapes --config features --out runs/x

    The test split is not used. Ctrl-C saves a checkpoint; --resume continues from there.
    """
    from rich.console import Console

    from qecnet.datasets import frame_cache, open_dataset
    from qecnet.models import weights_file
    from qecnet.nn import parts_left_out
    from qecnet.training.display import display
    from qecnet.training.distributed import processes
    from qecnet.training.folder import RunFolder
    from qecnet.training.loop import StoppedError, train_network
    from qecnet.training.settings import make_settings, parse_setting, read_settings
    from qecnet.training.step import initial_network
    from qecnet.training.unlabelled import JoinedFrames

    named: dict[str, Any] = {"dataset": dataset, "config": config, "start": start, "epochs": epochs}
    given: dict[str, Any] = read_settings(settings) if settings else {}
    given |= {name: value for name, value in named.items() if value is not None}
    given |= dict(parse_setting(text) for text in change or ())
    folder = RunFolder(out)
    chosen = folder.resumed_settings(given) if resume else make_settings(given)
    if not resume:
        folder.check_unused()
    if chosen.unlabelled not in ("", "shapes") and unlabelled_data is None:
        raise ValueError(f"unlabelled is {chosen.unlabelled!r}; give its folder with --unlabelled-data")
    shapes = open_dataset(chosen.dataset, data, per_class=chosen.per_class)
    for note in shapes.notes:
        typer.echo(f"note: {note}", err=True)
    if not resume and chosen.only and not chosen.start:
        raise ValueError(f"only is {chosen.only!r}; give the weights of the other parts with --start")
    if not resume and chosen.start:
        # Refuses unsuitable weights before frames are computed for minutes.
        network = initial_network(chosen, shapes.classes)
        for part in parts_left_out(network, weights_file(chosen.start)):
            typer.echo(f"note: {chosen.start}: its part {part} is left out; to keep it, --set {part}=true", err=True)
    further = open_dataset(chosen.unlabelled, unlabelled_data) if chosen.unlabelled else None
    compute = partial(
        frame_cache,
        split="train",
        folder=cache or _cache_folder(),
        config=chosen.prepare_config(),
        subsamplings=chosen.subsamplings,
        keep=chosen.keep,
        thinnest=chosen.thinnest,
        views=chosen.views,
        workers=workers,
    )
    frames = compute(shapes) if further is None else JoinedFrames(compute(shapes), compute(further))
    with processes() as among, ExitStack() as stack:
        console = Console(quiet=not among.is_first)
        if among.is_first:
            stack.enter_context(folder.claimed())
            if not resume:  # another run may have started and ended there while frames were computed
                folder.check_unused()
        watcher = stack.enter_context(display(console, chosen.epochs))
        try:
            state = train_network(chosen, frames, folder, among, watcher, 60 * save_minutes)
        except StoppedError as stopped:
            console.print(f"{stopped}; saved in {out}; continue with --resume", highlight=False, soft_wrap=True)
            raise typer.Exit(STOPPED) from stopped
        if among.is_first:
            _finish(folder, chosen, state, frames, among, console)


def _cache_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "qecnet"


def _finish(
    folder: RunFolder, settings: Settings, state: State, frames: TrainingFrames, among: Processes, console: Console
) -> None:
    """Write the final weights with their calibration, the last epoch's figures and the curves."""
    from qecnet.nn import count_parameters
    from qecnet.outcome import TrainingOutcome
    from qecnet.training.display import draw_curves
    from qecnet.training.validate import calibrate, held_out

    held = held_out(frames.labels, settings.validation)[1]
    views, seen = settings.views > 0, bool(settings.start)
    calibration = calibrate(state.result, frames, held, among.device, views=views, seen=seen)
    folder.write_weights(state.result, frames.classes, settings, calibration)
    last = vars(state.rows[-1])
    folder.write_result(
        TrainingOutcome(
            **{field.name: last[field.name] for field in fields(TrainingOutcome) if field.name in last},
            dataset=settings.dataset,
            config=settings.config,
            seed=settings.seed,
            shapes=len(frames),
            parameters=count_parameters(state.result),
            processes=among.count,
            training_seconds=round(sum(row.seconds for row in state.rows)),
        )
    )
    if not draw_curves(state.rows, folder.curves):
        console.print("curves.png is drawn with matplotlib, which is not installed; pip install 'qecnet[plot]'")
    console.print(f"written to {folder.path}", highlight=False, soft_wrap=True)
