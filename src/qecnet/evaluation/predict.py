"""Predictions for many test views; all views of one shape are one batch, so they depend on nothing else."""

from __future__ import annotations

import io
import zipfile
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from qecnet.datasets import Item
from qecnet.evaluation.protocols import TestView, ViewSampler
from qecnet.geometry import OrientedPoints
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
        partiality: (V,) float32, see `qecnet.nn.Prediction.partiality`; zeros in files of earlier versions.
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
    partiality: NDArray[np.float32]
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
class ViewJob:
    """What is done with each shape."""

    sampler: ViewSampler
    views: tuple[TestView, ...]
    columns: tuple[int, ...]  # the model's classes that are measured, in the order of the labels


def read_predictions(path: Path) -> tuple[str, Predictions]:
    """Read what `pack_predictions` encoded: the key and the predictions.

    Raises:
        ValueError: if the file is damaged or holds something else.
    """
    try:
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as arrays:
            stored: dict[str, Any] = {"partiality": np.zeros(len(arrays["shape"]), np.float32), **arrays}
            rows = {f.name: stored[f.name] for f in fields(Predictions)}
            return str(arrays["key"]), Predictions(**rows | {"classes": tuple(rows["classes"].tolist())})
    except (OSError, KeyError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path}: holds no predictions, or is damaged ({error}); measure again") from error


def prediction_row(classes: int) -> np.dtype[np.void]:
    """The type of a row of `predict_shape`."""
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
            ("partiality", "<f4"),
        ]
    )


def pack_predictions(predictions: Predictions, key: str) -> bytes:
    """Encode predictions as an .npz file; `key` says what they were made from."""
    arrays = {f.name: getattr(predictions, f.name) for f in fields(Predictions)}
    buffer = io.BytesIO()
    np.savez_compressed(buffer, key=np.array(key), **arrays | {"classes": np.array(predictions.classes)})
    return buffer.getvalue()


def predict_shape(network: Network, job: ViewJob, number: int, label: int, item: Item) -> bytes:
    """Predict one shape's views in one batch."""
    views, points = job.sampler.prepare(item.load(), number, job.views)
    prediction = network(OrientedPoints.stack(views))
    activations, poses = prediction.activations[:, job.columns], prediction.poses[:, job.columns]
    rows = np.zeros(len(job.views), prediction_row(len(job.columns)))
    rows["shape"], rows["label"], rows["points"] = number, label, points
    rows["resampling"] = [view.resampling for view in job.views]
    rows["turn"] = [view.turn for view in job.views]
    rows["rotation"] = [job.sampler.rotation(number, view).numpy() for view in job.views]
    rows["activations"], rows["partiality"] = activations.numpy(), prediction.partiality.numpy()
    each = torch.arange(len(poses))
    rows["poses"] = torch.stack([poses[each, activations.argmax(-1)], poses[:, label]], 1).numpy()
    return rows.tobytes()
