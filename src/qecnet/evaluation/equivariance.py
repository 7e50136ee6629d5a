"""How much a rotation changes, and whose doing it is: the network's (rounding alone), the frames', the points'."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from qecnet.datasets import Dataset
from qecnet.evaluation.metrics import angles, relative
from qecnet.evaluation.predict import Model, Predictions, predict
from qecnet.evaluation.protocol import Protocol, Task, View
from qecnet.evaluation.result import described
from qecnet.models.inputs import prepare_config


def measure_equivariance(
    model: Model,
    dataset: Dataset,
    folder: Path,
    *,
    rotations: int = 5,
    shapes: Sequence[int] | None = None,
    seed: int = 0,
    workers: int | None = None,
    progress: bool = True,
) -> dict[str, Any]:
    """Turned views of each test shape against its upright one.

    - network: the same points, frames turned with them. What changes is the network's own error.
    - frames: the same points, frames estimated after the rotation.
    - resampled: points of its own for each view, and frames from these.

    Args:
        shapes: numbers of the test shapes that are measured; all of them by default.
    """
    same = [View(0, turn) for turn in range(rotations + 1)]
    own = [View(turn, turn) for turn in range(rotations + 1)]
    ways: dict[str, tuple[Protocol, list[View]]] = {
        "network": ("paper", same),
        "frames": ("strict", same),
        "resampled": ("strict", own),
    }
    result: dict[str, Any] = {}
    accuracy: dict[str, float] = {}
    for way, (protocol, views) in ways.items():
        task = Task(protocol, prepare_config(model.settings), model.settings["keep"], seed)
        into = folder / f"equivariance-{way}.npz"
        found = predict(model, dataset, "test", task, views, into, shapes=shapes, workers=workers, progress=progress)
        upright = found.turn == 0
        if not result:
            result = described("equivariance", "strict", model, dataset, found, seed) | {"rotations": rotations}
        accuracy |= {"nr": float(found.where(upright).correct.mean()), way: float(found.where(~upright).correct.mean())}
        result[way] = _changed_names(found, len(views)) | _changed_poses(found, len(views), model.has_poses)
    names = {"nr": "nr", "network": "exact_frames", "frames": "reestimated", "resampled": "resampled"}
    return result | {"accuracy": {names[way]: value for way, value in accuracy.items()}}


def _changed_names(found: Predictions, views: int) -> dict[str, float]:
    """Between the first view of each shape, upright, and its others."""
    activations = found.activations.reshape(-1, views, len(found.classes))
    predicted = found.predicted.reshape(-1, views)
    return {
        "activation_max": float(np.abs(activations[:, 1:] - activations[:, :1]).max()),
        "labels_changed": float((predicted[:, 1:] != predicted[:, :1]).mean()),
    }


def _changed_poses(found: Predictions, views: int, has_poses: bool) -> dict[str, float | None]:
    """The same of the true class's pose, beyond the rotation itself; None where there are no poses."""
    if not has_poses:
        return {"pose_degrees_median": None, "pose_degrees_max": None}
    poses = found.poses[:, 1].reshape(-1, views, 4).astype(np.float64)
    upright = np.broadcast_to(poses[:, :1], poses[:, 1:].shape)
    off = np.degrees(angles(relative(upright, poses[:, 1:]), found.rotation.reshape(-1, views, 4)[:, 1:]))
    return {"pose_degrees_median": float(np.median(off)), "pose_degrees_max": float(off.max())}
