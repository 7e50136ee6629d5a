"""The training loop: steps, epochs, validation, and checkpoints from which a run resumes bit for bit."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from types import FrameType

import torch

from qecnet.datasets import training_symmetry
from qecnet.outcome import Epoch, Validation
from qecnet.training.averaging import recalibrate
from qecnet.training.batches import TrainingBatches, checksum, prefetch
from qecnet.training.checkpoint import State, load_checkpoint, save_checkpoint
from qecnet.training.distributed import Processes
from qecnet.training.folder import RunFolder
from qecnet.training.objective import class_prior, learning_rate
from qecnet.training.settings import Settings
from qecnet.training.step import new_state, train_step
from qecnet.training.unlabelled import TrainingFrames
from qecnet.training.validate import held_out, validate

_REDUCING = 32
"""Number of batches that a reduction to a lower rank is fitted to."""


class StoppedError(Exception):
    """A signal stopped the run, and its state is saved."""


@dataclass(frozen=True)
class Watcher:
    """Callbacks: after each step, with the number of steps per epoch, and after each epoch, with its row of the log."""

    step: Callable[[State, int], None]
    epoch: Callable[[Epoch], None]


def train_network(
    settings: Settings,
    cache: TrainingFrames,
    folder: RunFolder,
    processes: Processes,
    watcher: Watcher,
    save_every: float,
) -> State:
    """Train to the last epoch, from the folder's checkpoint if there is one; the caller holds the folder's lock.

    A checkpoint is saved every `save_every` seconds and after each epoch.

    Raises:
        StoppedError: after SIGINT or SIGTERM, once the current step is completed and saved.
        ValueError: if the settings, the frames and the checkpoint do not fit together.
    """
    if settings.batch_size < processes.count:
        raise ValueError(f"batch_size is {settings.batch_size}; {processes.count} processes need one shape each")
    shapes, held = held_out(cache.labels, settings.validation)
    batches = TrainingBatches(cache, shapes, settings)
    origin = {"classes": list(cache.classes), "frames": checksum(cache)}
    resumed = folder.checkpoint.exists()  # then the weights that it started from are not needed
    state = new_state(
        replace(settings, start="", start_part="") if resumed else settings, cache.classes, processes.device
    )
    if resumed:
        load_checkpoint(folder.checkpoint, state, origin)
    if processes.is_first:
        folder.write_settings(settings)
        folder.write_log(state.rows)
    module = processes.wrap(state.network)
    # The last one is for shapes without a class: only their up direction counts.
    turns = torch.tensor([*(training_symmetry(name) for name in cache.classes), 0], device=processes.device)
    prior = class_prior(cache.labels[shapes], len(cache.classes), settings.balance)
    prior = None if prior is None else prior.to(processes.device)
    saved = time.monotonic()
    ahead = prefetch(batches.after(state.epoch, state.step, processes.piece(settings.batch_size)))
    with _stop_signals() as stop, closing(ahead):
        while state.epoch < settings.epochs:
            while state.step < batches.steps:
                begun = time.perf_counter()
                batch = next(ahead).to(processes.device)
                waited = time.perf_counter() - begun
                progress = (state.epoch + state.step / batches.steps) / settings.epochs
                found = train_step(module, state, batch, turns, settings, progress, processes, prior)
                # Processes agree on when to stop: a signal may reach one of them a step later than another.
                *sums, stopping = processes.total(*found.values(), float(stop.is_set()))
                _add(state, dict(zip(found, sums, strict=True)))
                _add(state, {"seconds": time.perf_counter() - begun, "waiting": waited})
                state.step += 1
                watcher.step(state, batches.steps)
                if processes.is_first and (stopping or time.monotonic() - saved >= save_every):
                    save_checkpoint(folder.checkpoint, state, origin)
                    saved = time.monotonic()
                if stopping:
                    raise StoppedError(f"stopped in epoch {state.epoch + 1}, step {state.step} of {batches.steps}")
            if state.average is not None:
                recalibrate(state.average, batches.after(state.epoch, 0, slice(None)), processes.device)
            if state.epoch + 1 == settings.epochs:
                _reduce(state, settings, batches, processes)
            validation = Validation()
            if (state.epoch + 1) % settings.validate_every == 0 or state.epoch + 1 == settings.epochs:
                validation = validate(state.result, cache, held, turns, processes, views=settings.views > 0)
            row = _row(state, settings, validation)
            state.rows.append(row)
            state.epoch, state.step, state.totals = state.epoch + 1, 0, {}
            if processes.is_first:
                save_checkpoint(folder.checkpoint, state, origin)
                folder.write_weights(state.result, cache.classes, settings)
                folder.write_log(state.rows)
            saved = time.monotonic()
            watcher.epoch(row)
    _reduce(state, settings, batches, processes)  # a completed run was resumed
    return state


def _reduce(state: State, settings: Settings, batches: TrainingBatches, processes: Processes) -> None:
    """Reduce the result to the final rank, once, by the first batches of the last epoch."""
    if settings.final_rank and state.reduced is None:
        first = islice(batches.after(settings.epochs - 1, 0, slice(None)), _REDUCING)
        clouds = (batch.to(processes.device).points for batch in first)
        state.reduced = state.result.reduced(clouds, settings.final_rank)


def _add(state: State, values: dict[str, float]) -> None:
    for name, value in values.items():
        state.totals[name] = state.totals.get(name, 0.0) + value


def _row(state: State, settings: Settings, validation: Validation) -> Epoch:
    """Summarise an epoch for the log."""
    totals = state.totals
    shapes, seconds = totals["shapes"], totals["seconds"]
    return Epoch(
        **vars(validation),
        epoch=state.epoch + 1,
        loss=totals["total"] / shapes,
        classification_loss=totals["classification"] / shapes,
        pose_loss=totals["pose"] / shapes,
        train_accuracy=totals["correct"] / max(totals["labelled"], 1),
        protocol="paper",
        learning_rate=learning_rate(settings, state.epoch / settings.epochs),
        seconds=round(seconds, 3),
        shapes_per_second=round(shapes / seconds, 2),
        waiting=round(totals["waiting"] / seconds, 4),
    )


@contextmanager
def _stop_signals() -> Iterator[threading.Event]:
    """Yield an event that the first SIGINT or SIGTERM sets; a second one has its usual effect."""
    stop = threading.Event()
    before = {int(number): signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def ask(number: int, frame: FrameType | None) -> None:
        stop.set()
        signal.signal(number, before[number])

    for number in before:
        signal.signal(number, ask)
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
