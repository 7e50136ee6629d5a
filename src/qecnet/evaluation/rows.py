"""Results of many shapes: computed in processes, stored as they arrive, the same for any number of workers.

The unit of work is one shape, so neither the number of workers nor an interruption changes a figure.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import torch
from rich.console import Console
from rich.progress import track

from qecnet.datasets import Dataset
from qecnet.fingerprint import code_hash
from qecnet.models import Model, hash_model
from qecnet.workers import in_order

T = TypeVar("T")


def hash_inputs(model: Model, dataset: Dataset, split: str, shapes: Sequence[int], about: Any) -> str:
    """Hash everything that changes a figure, as the key of `open_unfinished`.

    Args:
        model: the model, without its calibration.
        dataset: where the shapes come from.
        split: the part of the dataset.
        shapes: numbers of the shapes in the split.
        about: what else changes a figure, for `json`; hashes of the code that only this measurement runs, too.

    Returns:
        SHA-256, in hexadecimal.
    """
    code = [
        *(code_hash(f"qecnet.{room}", "**/*.py") for room in ("algebra", "geometry", "nn")),
        code_hash("qecnet.compiled", "*.cpp", "*.h"),
        code_hash("qecnet.datasets", "dataset.py", "transforms.py", "camera_views.py"),
        code_hash("qecnet.models", "inputs.py"),
    ]
    inputs = [hash_model(model), dataset.fingerprint(split), [*shapes], code, about]
    return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()


@contextmanager
def open_unfinished(path: Path, key: str) -> Iterator[tuple[BinaryIO, int]]:
    """Open a file of results that are stored as they arrive, to read and to append to.

    Args:
        path: the file; its first line is the key.
        key: what the results were made from; content under another key is discarded.

    Yields:
        The file, and where its results start.
    """
    line = key.encode() + b"\n"
    with path.open("a+b") as file:
        file.seek(0)
        if file.read(len(line)) != line:
            file.truncate(0)
            file.write(line)
        yield file, len(line)


def map_shapes(
    function: Callable[..., T], jobs: Sequence[tuple[Any, ...]], model: Any, workers: int | None, label: str | None
) -> Iterable[T]:
    """Compute `function(model, *job)` for each job in processes, one per core by default; results are in order.

    Args:
        function: of a module, so that processes can import it; called in inference mode.
        jobs: arguments of each call.
        model: a network or a model, sent to each process once.
        workers: number of processes.
        label: of a progress bar on standard error; None for no bar.
    """
    count = min(workers or os.cpu_count() or 1, max(1, len(jobs)))
    results = in_order(_call, ((function, *job) for job in jobs), count, _start, (model,))
    silent, console = label is None or not jobs, Console(stderr=True)
    return track(results, label or "", len(jobs), console=console, disable=silent, transient=True)


_model: Any
"""Of this process, see `_start`."""


def _start(model: Any) -> None:
    global _model
    _model = model


@torch.inference_mode()
def _call(function: Callable[..., T], *job: Any) -> T:
    return function(_model, *job)
