"""One open page: its shapes, and the responses to its requests."""

from __future__ import annotations

import reprlib
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any

from torch import Tensor

from qecnet.datasets import make_shape
from qecnet.geometry import Mesh, PointCloud, PrepareConfig
from qecnet.models import Alignment, Answer, Model, list_models, load, residual
from qecnet.viewer.observation import Observation, Observer, layer_arrays
from qecnet.viewer.request import CorruptionLevels, Place, Request, RequestedShape, ShapeSource
from qecnet.viewer.shape import ViewedShape, sample_surface, see_surface, to_tensor, view_shape
from qecnet.viewer.uploads import UploadStore
from qecnet.viewer.wire import pack

_BASELINE = Path(__file__).parent / "weights" / "var.safetensors"
"""The paper's "Var.", its network without canonicalisation, trained on upright ModelNet10: results/modelnet10-var."""
VOTING_MODEL = "modelnet10-features"
"""A model with patches and votes, which the page offers where the one that is chosen has none."""
_MOST_CANDIDATES, _LEAST_PROBABILITY = 8, 0.01
_Of = tuple[ShapeSource, CorruptionLevels, PrepareConfig]


class ModelPool:
    """The models, and the network that is not equivariant to compare them with. All sessions share them.

    Attributes:
        model: the one that the viewer was started with.
        names: that one first, then the others that ship.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self.names = (model.name, *(name for name in list_models() if name != model.name))
        self.baseline = load(_BASELINE)
        self._observers = {model.name: Observer(model)}

    def observer(self, name: str | None) -> Observer:
        """Return the observer of a model, which is loaded on first use; None is the first model.

        Raises:
            ValueError: when there is no such model; one sentence.
        """
        name = name or self.model.name
        if name not in self.names:
            raise ValueError(f"the model is {reprlib.repr(name)}; it must be one of {', '.join(self.names)}")
        if name not in self._observers:
            self._observers[name] = Observer(load(name))
        return self._observers[name]


class Session:
    """What one open page has uploaded and been sent."""

    def __init__(self, key: str, pool: ModelPool, store: UploadStore, file: Mesh | PointCloud | None = None) -> None:
        self._key, self._pool, self._store, self._file = key, pool, store, file
        self._first, self._second = _Slot("shape"), _Slot("second")
        self._upright: tuple[ViewedShape, str] | None = None
        self._surface: tuple[ViewedShape, PointCloud] | None = None

    def respond(self, request: Request) -> bytes:
        """Return the response to a request; shapes are included only when the page does not have them yet.

        Raises:
            ValueError: when there is no prediction for this shape; one sentence.
        """
        start = perf_counter()
        observer = self._pool.observer(request.model)
        model = observer.model
        shape = self._view(self._first, request.shape.source, request.corruption, model)
        slots = [self._first]
        target = None
        if request.second is not None:
            second = self._view(self._second, request.second.source, CorruptionLevels(model.config.points), model)
            target = second.cloud.rotated(to_tensor(request.second.rotation))
            slots.append(self._second)
        seen, visible = (None, 1.0) if request.camera is None else self._see(request, request.camera, shape)
        cloud = (shape.cloud if seen is None else seen).rotated(to_tensor(request.shape.rotation))
        observation = observer.observe(cloud, target)
        header: dict[str, Any] = {"id": request.id, "model": model.name}
        arrays: dict[str, Tensor] = layer_arrays(model.network, observation, request.layers)
        if seen is not None:
            trained = bool(model.settings.get("views"))
            header["view"] = {"camera": request.camera, "visible": visible, "trained": trained}
            arrays["view.points"] = seen.points
        for slot in slots:
            header |= slot.header
            arrays |= slot.arrays
        header["answer"] = _answer(observation.answer) | _counts(observation, cloud)
        if observation.alignment is not None and target is not None and request.second is not None:
            header["alignment"] = _alignment(observation.alignment, cloud, target, request.second)
        if request.compare:
            header["comparison"] = self._compare(cloud, observation, shape, model)
        header["milliseconds"] = round(1000 * (perf_counter() - start), 1)
        response = pack(header, arrays)
        for slot in slots:
            slot.clear()
        return response

    def _view(self, slot: _Slot, source: ShapeSource, corruption: CorruptionLevels, model: Model) -> ViewedShape:
        of = source, corruption, model.config
        if slot.shape is None or slot.of != of:
            slot.put(view_shape(self._load(source), corruption, model.config), of)
        assert slot.shape is not None
        return slot.shape

    def _see(self, request: Request, camera: Place, shape: ViewedShape) -> tuple[PointCloud, float]:
        """What a camera sees of the first shape; the points of its surface are kept for the next position."""
        if self._surface is None or self._surface[0] is not shape:
            self._surface = shape, sample_surface(self._load(request.shape.source), shape)
        return see_surface(self._surface[1], camera, request.shape.rotation, request.corruption)

    def _load(self, source: ShapeSource) -> Mesh | PointCloud:
        kind, seed, upload = source
        if upload is None:
            assert kind is not None
            return make_shape(kind, seed)
        return self._file if upload == 0 and self._file is not None else self._store.get(self._key, upload)

    def _compare(self, cloud: PointCloud, observation: Observation, shape: ViewedShape, model: Model) -> dict[str, Any]:
        """What the baseline predicts for the same points, and for the shape before it was rotated."""
        if self._upright is None or self._upright[0] is not shape:
            self._upright = shape, next(iter(self._baseline_scores(shape.cloud)))
        is_same = model.config == self._pool.baseline.config
        scores = self._baseline_scores(cloud, observation if is_same else None)
        label = next(iter(scores))
        return {"label": label, "confidence": scores[label], "scores": scores, "upright": self._upright[1]}

    def _baseline_scores(self, cloud: PointCloud, observation: Observation | None = None) -> dict[str, float]:
        """Scores by class, the highest first; from the frames of an observation, if it is given."""
        baseline = self._pool.baseline
        if observation is None:
            scores = baseline.predict(cloud).activations
        else:
            scores = baseline.calibration.apply(baseline.predict_points(observation.points)).activations[0]
        order = scores.argsort(descending=True, stable=True).tolist()
        return {baseline.classes[index]: float(scores[index]) for index in order}


class _Slot:
    """A shape that the page shows, and the arrays that have not been sent yet."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.of: _Of | None = None
        self.shape: ViewedShape | None = None
        self.header: dict[str, Any] = {}
        self.arrays: dict[str, Tensor] = {}

    def put(self, shape: ViewedShape, of: _Of) -> None:
        arrays = {"points": shape.cloud.points, **shape.mesh}
        self.arrays = {f"{self._name}.{key}": array for key, array in arrays.items()}
        self.header = {self._name: {"name": shape.name, "size": shape.size}}
        # What has been sent need not be kept.
        self.shape, self.of = replace(shape, mesh={}), of

    def clear(self) -> None:
        self.header, self.arrays = {}, {}


def _answer(answer: Answer) -> dict[str, Any]:
    shown = [one.describe() for one in answer.verified[:_MOST_CANDIDATES] if one.probability >= _LEAST_PROBABILITY]
    return {**answer.describe(), "label": answer.label, "up_confidence": answer.up_confidence, "candidates": shown}


def _counts(observation: Observation, cloud: PointCloud) -> dict[str, int]:
    valid = int(observation.points.valid.sum())
    return {"points": len(cloud), "frames": observation.points.positions.shape[1], "valid": valid}


def _alignment(found: Alignment, source: PointCloud, target: PointCloud, second: RequestedShape) -> dict[str, Any]:
    """With the residual before (one centre moved onto the other, nothing rotated) and after."""
    before = residual(source.points.double() + (found.target.centre - found.source.centre), target)
    return {
        "rotation": found.rotation.tolist(),
        "translation": found.translation.tolist(),
        "before": before,
        "after": found.residual,
        "target": {**_answer(found.target), "rotation": [*second.rotation]},
    }
