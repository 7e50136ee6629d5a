"""What a network says of many views: by every core, kept as it comes, the same for any number of workers.

The unit of work is one shape with all its views, in one batch: so neither the number of workers nor an interruption
changes a figure. Results are appended to a file as shapes are done; a run that was stopped goes on behind the last
whole shape.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import zipfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track

from qecnet.datasets import Dataset, Item
from qecnet.evaluation.protocol import Task, View
from qecnet.evaluation.unfinished import unfinished
from qecnet.files import write_whole
from qecnet.fingerprint import code_hash
from qecnet.models.inputs import network_inputs
from qecnet.nn import Network, load_network
from qecnet.nn.baselines import Baseline
from qecnet.workers import in_order


@dataclass(frozen=True)
class Predictions:
    """One row a view, views of one shape next to each other.

    Attributes:
        shape: (V,) the shape's number in its split, and name: (V,) its name.
        resampling, turn: (V,) which view it was.
        rotation: (V, 4) WXYZ float64, what the upright shape was turned by.
        label: (V,) the true class, an index into `classes`.
        activations: (V, C) float32, of these classes.
        poses: (V, 2, 4) float32 WXYZ, of the predicted class and of the true one.
        classes: their names.
    """

    shape: NDArray[np.int64]
    name: NDArray[np.str_]
    resampling: NDArray[np.int64]
    turn: NDArray[np.int64]
    rotation: NDArray[np.float64]
    label: NDArray[np.int64]
    activations: NDArray[np.float32]
    poses: NDArray[np.float32]
    classes: tuple[str, ...]

    @property
    def predicted(self) -> NDArray[np.int64]:
        """(V,) the most activated class."""
        return np.asarray(self.activations.argmax(-1))

    @property
    def correct(self) -> NDArray[np.bool_]:
        """(V,)"""
        return np.asarray(self.predicted == self.label)

    def where(self, chosen: NDArray[np.bool_]) -> Predictions:
        """The rows that are chosen."""
        rows = {f.name: getattr(self, f.name)[chosen] for f in fields(self) if f.name != "classes"}
        return Predictions(**rows, classes=self.classes)


_SETTINGS = ("dataset", "per_class", "points", "keep", "frames", "patches", "neighbours", "method")
"""What has to be known of a training to show the network shapes as it knows them."""


@dataclass(frozen=True)
class Model:
    """A trained network, as its file has it, with what it was trained on."""

    path: Path
    network: Network
    classes: tuple[str, ...]
    settings: dict[str, Any]

    @staticmethod
    def load(path: Path) -> Model:
        """From a weights file, or from the folder of a run."""
        file = path / "weights.safetensors" if path.is_dir() else path
        if not file.exists():
            raise ValueError(f"{path}: holds no weights (weights.safetensors); train there first with qec train")
        network, classes, about = load_network(file)
        settings = dict(about.get("settings", {}))
        if missing := [name for name in _SETTINGS if name not in settings]:
            raise ValueError(
                f"{file}: does not say how its network was trained ({missing[0]}); give weights that qec train wrote"
            )
        return Model(file, network, tuple(classes), settings)

    @property
    def has_poses(self) -> bool:
        """Whether it says which way shapes are turned; baselines only name them."""
        return not isinstance(self.network, Baseline)


@dataclass(frozen=True)
class _Work:
    """What is done with each shape."""

    task: Task
    views: tuple[View, ...]
    columns: tuple[int, ...]  # the model's classes that are asked for, in the order of the labels


def predict(
    model: Model,
    dataset: Dataset,
    split: str,
    task: Task,
    views: Sequence[View],
    into: Path,
    *,
    shapes: Sequence[int] | None = None,
    workers: int | None = None,
    progress: bool = True,
) -> Predictions:
    """The model's predictions for each view of each shape, from the file `into` (.npz) where they are there already.

    Only classes that the model and the dataset share take part, with their shapes and their activations.

    Args:
        shapes: numbers of the shapes in the split; all of them by default.
    """
    classes = tuple(name for name in dataset.classes if name in model.classes)
    if not classes:
        raise ValueError(f"{dataset.name}: has no class that the weights {model.path} are for ({model.classes[0]}, …)")
    place = {dataset.classes.index(name): label for label, name in enumerate(classes)}
    items = dataset.items(split)
    numbers = [n for n in (range(len(items)) if shapes is None else shapes) if items[n].label in place]
    columns = tuple(model.classes.index(name) for name in classes)
    work = _Work(task, tuple(views), columns)
    key = _key(model, dataset, split, work, numbers, classes)
    if (found := _finished(into, key)) is not None:
        return found
    row = _row_type(len(classes))
    part = into.with_name(into.name + ".part")
    size = row.itemsize * len(work.views)
    into.parent.mkdir(parents=True, exist_ok=True)
    with unfinished(part, key) as (file, start):
        done = (file.seek(0, os.SEEK_END) - start) // size
        file.truncate(start + done * size)
        todo = [(work, n, place[items[n].label], items[n]) for n in numbers[done:]]
        count = min(workers or os.cpu_count() or 1, max(1, len(todo)))
        results = in_order(_rows, todo, count, _start, (model.path,))
        told = f"{into.stem}: shapes" + (f" after {done}" if done else "")
        console, silent = Console(stderr=True), not progress or not todo
        for said in track(results, told, len(todo), console=console, disable=silent, transient=True):
            file.write(said)
            file.flush()
        file.seek(start)
        rows = np.frombuffer(file.read(), row)
    names = np.array([items[n].name for n in rows["shape"]])
    columns_of = {name: np.ascontiguousarray(rows[name]) for name in row.names or ()}
    predictions = Predictions(name=names, classes=classes, **columns_of)
    write_whole(into, _packed(predictions, key))
    part.unlink()
    return predictions


def read_predictions(path: Path) -> Predictions:
    """What `predict` kept."""
    return _predictions(_arrays(path))


def _predictions(arrays: dict[str, Any]) -> Predictions:
    rows = {f.name: arrays[f.name] for f in fields(Predictions)}
    return Predictions(**rows | {"classes": tuple(arrays["classes"].tolist())})


def _arrays(path: Path) -> dict[str, NDArray[Any]]:
    try:
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as arrays:
            return {name: arrays[name] for name in ("key", *(f.name for f in fields(Predictions)))}
    except (OSError, KeyError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path}: holds no predictions, or is damaged ({error})") from error


def _row_type(classes: int) -> np.dtype[np.void]:
    return np.dtype(
        [
            ("shape", "<i8"),
            ("resampling", "<i8"),
            ("turn", "<i8"),
            ("rotation", "<f8", 4),
            ("label", "<i8"),
            ("activations", "<f4", classes),
            ("poses", "<f4", (2, 4)),
        ]
    )


def _key(
    model: Model, dataset: Dataset, split: str, work: _Work, numbers: Sequence[int], classes: Sequence[str]
) -> str:
    """Of everything that changes a figure."""
    about = {
        "weights": _weights_hash(model),
        "dataset": dataset.fingerprint(split),
        "task": asdict(work.task),
        "views": [asdict(view) for view in work.views],
        "shapes": list(numbers),
        "classes": list(classes),
        "code": [
            *(code_hash(f"qecnet.{room}", "*.py") for room in ("algebra", "geometry", "nn", "nn.baselines")),
            code_hash("qecnet.datasets", "drawn.py", "transforms.py"),
            code_hash("qecnet.evaluation", "predict.py", "protocol.py", "spoiling.py"),
            code_hash("qecnet.models", "inputs.py"),
        ],
    }
    return hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()


def _weights_hash(model: Model) -> str:
    """Of the network; what else its file says, such as a temperature, changes no activation."""
    found = hashlib.sha256(repr(model.network.config).encode())
    for name, tensor in sorted(model.network.state_dict().items()):
        found.update(name.encode() + tensor.numpy().tobytes())
    return found.hexdigest()


def _finished(path: Path, key: str) -> Predictions | None:
    if not path.exists():
        return None
    try:
        arrays = _arrays(path)
    except ValueError:
        return None
    return _predictions(arrays) if str(arrays["key"]) == key else None


def _packed(predictions: Predictions, key: str) -> bytes:
    arrays = {f.name: getattr(predictions, f.name) for f in fields(Predictions)}
    buffer = io.BytesIO()
    np.savez_compressed(buffer, key=np.array(key), **arrays | {"classes": np.array(predictions.classes)})
    return buffer.getvalue()


_network: Network
"""Of this process, see `_start`."""


def _start(weights: Path) -> None:
    global _network
    _network = load_network(weights)[0]


@torch.inference_mode()
def _rows(work: _Work, number: int, label: int, item: Item) -> bytes:
    """One shape's views, through the network in one batch."""
    stored = item.load()
    said = _network(*network_inputs(work.task.prepared(stored, number, work.views)))
    activations, poses = said.activations[:, work.columns], said.poses[:, work.columns]
    rows = np.zeros(len(work.views), _row_type(len(work.columns)))
    rows["shape"], rows["label"] = number, label
    rows["resampling"] = [view.resampling for view in work.views]
    rows["turn"] = [view.turn for view in work.views]
    rows["rotation"] = [work.task.rotation(number, view).numpy() for view in work.views]
    rows["activations"] = activations.numpy()
    each = torch.arange(len(poses))
    rows["poses"] = torch.stack([poses[each, activations.argmax(-1)], poses[:, label]], 1).numpy()
    return rows.tobytes()
