"""Predictions for many test views; all views of one shape are one batch, so they depend on nothing else."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from qecnet.datasets import Dataset, Item
from qecnet.evaluation.protocols import TestView, ViewSampler
from qecnet.evaluation.rows import compute_rows, hash_inputs
from qecnet.files import write_whole
from qecnet.fingerprint import code_hash
from qecnet.geometry import OrientedPoints
from qecnet.models import Model
from qecnet.nn import Network


@dataclass(frozen=True)
class Predictions:
    """Predictions for V views, one row per view, views of one shape next to each other.

    Attributes:
        shape: (V,) the shape's number in its split.
        name: (V,) its name.
        resampling: (V,) which resampling of its points the view shows.
        turn: (V,) which rotation; 0 is upright.
        points: (V,) how many points the view's frames were estimated from.
        rotation: (V, 4) WXYZ float64, what rotated the upright shape into the view.
        label: (V,) the true class, an index into `classes`.
        activations: (V, C) float32, of these classes.
        poses: (V, 2, 4) float32 WXYZ, of the predicted class and of the true one.
        classes: their names.
    """

    shape: NDArray[np.int64]
    name: NDArray[np.str_]
    resampling: NDArray[np.int64]
    turn: NDArray[np.int64]
    points: NDArray[np.int64]
    rotation: NDArray[np.float64]
    label: NDArray[np.int64]
    activations: NDArray[np.float32]
    poses: NDArray[np.float32]
    classes: tuple[str, ...]

    @property
    def predicted(self) -> NDArray[np.int64]:
        """The most activated class. (V,)"""
        return np.asarray(self.activations.argmax(-1))

    @property
    def correct(self) -> NDArray[np.bool_]:
        """Whether the predicted class is the true one. (V,)"""
        return np.asarray(self.predicted == self.label)

    def select(self, chosen: NDArray[np.bool_]) -> Predictions:
        """Keep the chosen rows. `chosen` (V,)"""
        rows = {f.name: getattr(self, f.name)[chosen] for f in fields(self) if f.name != "classes"}
        return Predictions(**rows, classes=self.classes)


@dataclass(frozen=True)
class _Job:
    """What is done with each shape."""

    sampler: ViewSampler
    views: tuple[TestView, ...]
    columns: tuple[int, ...]  # the model's classes that are measured, in the order of the labels


def predict(
    model: Model,
    dataset: Dataset,
    split: str,
    sampler: ViewSampler,
    views: Sequence[TestView],
    into: Path,
    shapes: Sequence[int] | None = None,
    workers: int | None = None,
    progress: bool = True,
) -> Predictions:
    """Predict each view of each shape, or read the predictions from `into` (.npz) if they are there already.

    Only classes that the model and the dataset share take part, with their shapes and their activations. `shapes` are
    numbers of the shapes in the split.
    """
    classes, numbers = choose_common(model, dataset, split, shapes)
    items = dataset.items(split)
    job = _Job(sampler, tuple(views), tuple(model.classes.index(name) for name in classes))
    code = code_hash("qecnet.evaluation", "predict.py", "protocols.py", "corruption.py")
    key = hash_inputs(model, dataset, split, numbers, [asdict(job), classes, code])
    with suppress(ValueError):  # there is no such file, or it is damaged
        stored, found = _read(into)
        if stored == key:
            return found
    row = _row_type(len(classes))
    jobs = [(job, n, classes.index(dataset.classes[items[n].label]), items[n]) for n in numbers]
    part = into.with_name(into.name + ".part")
    label = f"{into.stem}: shapes" if progress else None
    table = compute_rows(_predict_shape, jobs, model.network, row, len(views), part, key, workers, label)
    names = np.array([items[n].name for n in table["shape"]])
    columns = {name: np.ascontiguousarray(table[name]) for name in row.names or ()}
    predictions = Predictions(name=names, classes=classes, **columns)
    write_whole(into, pack_predictions(predictions, key))
    part.unlink()
    return predictions


def choose_common(
    model: Model, dataset: Dataset, split: str, shapes: Sequence[int] | None
) -> tuple[tuple[str, ...], list[int]]:
    """Choose the classes that the model and the dataset share, and their shapes, all of the split by default."""
    classes = tuple(name for name in dataset.classes if name in model.classes)
    if not classes:
        raise ValueError(f"{dataset.name}: shares no class with the weights {model.name} ({model.classes[0]}, …)")
    items = dataset.items(split)
    numbers = range(len(items)) if shapes is None else shapes
    return classes, [n for n in numbers if dataset.classes[items[n].label] in classes]


def read_predictions(path: Path) -> Predictions:
    """Read the predictions that `predict` stored.

    Raises:
        ValueError: if the file is damaged or holds something else.
    """
    return _read(path)[1]


def _read(path: Path) -> tuple[str, Predictions]:
    try:
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as arrays:
            rows: dict[str, Any] = {f.name: arrays[f.name] for f in fields(Predictions)}
            return str(arrays["key"]), Predictions(**rows | {"classes": tuple(rows["classes"].tolist())})
    except (OSError, KeyError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path}: holds no predictions, or is damaged ({error}); measure again") from error


def _row_type(classes: int) -> np.dtype[np.void]:
    return np.dtype(
        [
            ("shape", "<i8"),
            ("resampling", "<i8"),
            ("turn", "<i8"),
            ("points", "<i8"),
            ("rotation", "<f8", 4),
            ("label", "<i8"),
            ("activations", "<f4", classes),
            ("poses", "<f4", (2, 4)),
        ]
    )


def pack_predictions(predictions: Predictions, key: str) -> bytes:
    """Encode predictions as an .npz file; `key` says what they were made from."""
    arrays = {f.name: getattr(predictions, f.name) for f in fields(Predictions)}
    buffer = io.BytesIO()
    np.savez_compressed(buffer, key=np.array(key), **arrays | {"classes": np.array(predictions.classes)})
    return buffer.getvalue()


def _predict_shape(network: Network, job: _Job, number: int, label: int, item: Item) -> bytes:
    """Predict one shape's views in one batch."""
    views, points = job.sampler.prepare(item.load(), number, job.views)
    prediction = network(OrientedPoints.stack(views))
    activations, poses = prediction.activations[:, job.columns], prediction.poses[:, job.columns]
    rows = np.zeros(len(job.views), _row_type(len(job.columns)))
    rows["shape"], rows["label"], rows["points"] = number, label, points
    rows["resampling"] = [view.resampling for view in job.views]
    rows["turn"] = [view.turn for view in job.views]
    rows["rotation"] = [job.sampler.rotation(number, view).numpy() for view in job.views]
    rows["activations"] = activations.numpy()
    each = torch.arange(len(poses))
    rows["poses"] = torch.stack([poses[each, activations.argmax(-1)], poses[:, label]], 1).numpy()
    return rows.tobytes()
