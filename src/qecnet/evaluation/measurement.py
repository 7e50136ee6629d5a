"""What every measurement needs: the model, the shapes, the protocol, and where predictions are stored."""

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from qecnet.datasets import Dataset
from qecnet.evaluation.corruption import Corruption
from qecnet.evaluation.predict import (
    Predictions,
    ViewJob,
    pack_predictions,
    predict_shape,
    prediction_row,
    read_predictions,
)
from qecnet.evaluation.protocols import TestView, ViewSampler
from qecnet.evaluation.results import MeasuredModel, ProtocolName
from qecnet.evaluation.rows import hash_inputs, map_shapes, open_unfinished
from qecnet.files import write_whole
from qecnet.fingerprint import code_hash
from qecnet.models import Model
from qecnet.nn import count_parameters


class CountedViews(NamedTuple):
    """The classes of views, the number of each view's shape in its split, and the number of its points."""

    classes: tuple[str, ...]
    shape: NDArray[np.int64]
    points: NDArray[np.int64]


@dataclass(frozen=True)
class Measurement:
    """The arguments of every `measure_*` function.

    Attributes:
        model: the trained model.
        dataset: where the test shapes come from.
        folder: where predictions are stored, so that an interrupted measurement resumes.
        protocol: how views are made, "strict" or "paper".
        shapes: numbers of the test shapes to measure; all of them by default.
        seed: of resampling and rotations.
        workers: processes; one per core by default.
        progress: whether to show progress bars.
    """

    model: Model
    dataset: Dataset
    folder: Path
    protocol: ProtocolName = "strict"
    shapes: Sequence[int] | None = None
    seed: int = 0
    workers: int | None = None
    progress: bool = True

    def predict(
        self,
        name: str,
        views: Sequence[TestView],
        *,
        protocol: ProtocolName | None = None,
        corruption: Corruption | None = None,
        train_shapes: Sequence[int] | None = None,
    ) -> Predictions:
        """Predict views of the test shapes, or of chosen training shapes.

        Args:
            name: the stem of the file that stores the predictions.
            views: which views of each shape.
            protocol: in place of the measurement's own.
            corruption: what is done to each view.
            train_shapes: numbers of training shapes to use in place of the test shapes.

        Returns:
            The predictions, a row for each view.
        """
        model, dataset = self.model, self.dataset
        split, shapes = ("test", self.shapes) if train_shapes is None else ("train", train_shapes)
        classes, numbers = self.choose_common(split, shapes)
        sampler = ViewSampler(protocol or self.protocol, model.config, model.setting("keep"), self.seed, corruption)
        job = ViewJob(sampler, tuple(views), tuple(model.classes.index(one) for one in classes))
        code = code_hash("qecnet.evaluation", "measurement.py", "predict.py", "protocols.py", "corruption.py")
        key = hash_inputs(model, dataset, split, numbers, [asdict(job), classes, code])
        into = self.folder / f"{name}.npz"
        with suppress(ValueError):  # there is no such file, or it is damaged
            stored, found = read_predictions(into)
            if stored == key:
                return found
        items, row = dataset.items(split), prediction_row(len(classes))
        jobs = [(job, n, classes.index(dataset.classes[items[n].label]), items[n]) for n in numbers]
        table = self.compute_rows(name, key, row, len(views), predict_shape, model.network, jobs)
        names = np.array([items[n].name for n in table["shape"]])
        columns = {name: np.ascontiguousarray(table[name]) for name in row.names or ()}
        predictions = Predictions(name=names, classes=classes, **columns)
        write_whole(into, pack_predictions(predictions, key))
        into.with_suffix(".rows").unlink()
        return predictions

    def choose_common(self, split: str, shapes: Sequence[int] | None) -> tuple[tuple[str, ...], list[int]]:
        """Choose the classes that the model and the dataset share, and their shapes.

        Args:
            split: the part of the dataset.
            shapes: numbers of shapes in the split to choose from; None for all.

        Returns:
            The classes, and the numbers of the shapes.

        Raises:
            ValueError: if they share no class.
        """
        model, dataset = self.model, self.dataset
        classes = tuple(name for name in dataset.classes if name in model.classes)
        if not classes:
            raise ValueError(
                f"{dataset.name}: shares no class with the weights {model.name} ({model.classes[0]}, …); "
                "give another dataset"
            )
        items = dataset.items(split)
        numbers = range(len(items)) if shapes is None else shapes
        return classes, [n for n in numbers if dataset.classes[items[n].label] in classes]

    def compute_rows(
        self,
        name: str,
        key: str,
        row: np.dtype[np.void],
        each: int,
        function: Callable[..., bytes],
        model: Any,
        jobs: Sequence[tuple[Any, ...]],
    ) -> NDArray[np.void]:
        """Compute the rows of each job and store them as they arrive; a run that was stopped resumes after the last.

        Args:
            name: the stem of the file that stores them, NAME.rows.
            key: what they are made from, see `open_unfinished`.
            row: the type of a row.
            each: the number of rows of each job.
            function: as for `map_shapes`; returns the bytes of `each` rows.
            model: as for `map_shapes`.
            jobs: as for `map_shapes`.

        Returns:
            (jobs × each,), the rows of all jobs in order.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        size = row.itemsize * each
        with open_unfinished(self.folder / f"{name}.rows", key) as (file, start):
            done = min((file.seek(0, os.SEEK_END) - start) // size, len(jobs))
            file.truncate(start + done * size)
            label = f"{name}: shapes after {done}" if done else f"{name}: shapes"
            for rows in map_shapes(function, jobs[done:], model, self.workers, label if self.progress else None):
                file.write(rows)
                file.flush()
            file.seek(start)
            return np.frombuffer(file.read(), row)

    def predict_test_views(self, rotations: int) -> Predictions:
        """Predict one upright and several rotated views of each test shape, each resampled on its own.

        Args:
            rotations: number of rotated views.

        Returns:
            The predictions, a row for each view.
        """
        views = [TestView(n, n) for n in range(rotations + 1)]
        return self.predict(f"classification-{self.protocol}", views)

    def describe(self, found: Predictions | CountedViews, protocol: ProtocolName | None = None) -> dict[str, Any]:
        """Collect the fields that every `ModelResult` has.

        Args:
            found: what was predicted.
            protocol: in place of the measurement's own.

        Returns:
            The fields by name.
        """
        return {
            "protocol": protocol or self.protocol,
            "dataset": self.dataset.name,
            "split": "test",
            "classes": found.classes,
            "missing": tuple(sorted({*self.model.classes, *self.dataset.classes} - set(found.classes))),
            "shapes": len(np.unique(found.shape)),
            "points": int(np.median(found.points)),
            "model": MeasuredModel(count_parameters(self.model.network), self.model.has_poses),
            "seed": self.seed,
        }
