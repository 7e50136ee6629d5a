"""One open page: its shapes, and the responses to its requests."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import Any

from torch import Tensor

from qecnet.datasets import make_shape
from qecnet.geometry import Mesh, PointCloud
from qecnet.models import Alignment, Answer, Model, load, residual
from qecnet.nn import calibrated
from qecnet.viewer.layers import layer_arrays
from qecnet.viewer.observation import Observation, Observer, compare
from qecnet.viewer.request import CorruptionLevels, GalleryShape, Request, RotatedShape, Source
from qecnet.viewer.shape import ViewedShape, view_shape
from qecnet.viewer.uploads import UploadStore
from qecnet.viewer.wire import pack

_BASELINE = Path(__file__).parent / "weights" / "var.safetensors"
"""The paper's "Var.", its network without canonicalisation, trained on upright ModelNet10: results/modelnet10-var."""


class Networks:
    """The model, and the network that is not equivariant to compare it with. All sessions share them."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.observer = Observer(model)
        self.baseline = load(_BASELINE)


class Session:
    """What one open page has uploaded and been sent."""

    def __init__(self, key: str, networks: Networks, store: UploadStore, file: Mesh | PointCloud | None = None) -> None:
        self._key, self._networks, self._store, self._file = key, networks, store, file
        self._first, self._second = _Slot("shape"), _Slot("second")
        self._upright: tuple[ViewedShape, str] | None = None

    def respond(self, request: Request) -> bytes:
        """Returns the response to a request; shapes are included only when the page does not have them yet.

        Raises:
            ValueError: when there is no prediction for this shape; one sentence.
        """
        start = perf_counter()
        model = self._networks.model
        shape = self._view(self._first, request.shape.source, request.corruption)
        slots = [self._first]
        target = None
        if request.second is not None:
            second = self._view(self._second, request.second.source, CorruptionLevels(model.config.points))
            target = second.rotated(request.second.rotation)
            slots.append(self._second)
        cloud = shape.rotated(request.shape.rotation)
        observation = self._networks.observer.observe(cloud, target)
        header: dict[str, Any] = {"id": request.id}
        arrays: dict[str, Tensor] = layer_arrays(model.network, observation, request.layers)
        for slot in slots:
            header |= slot.header
            arrays |= slot.arrays
        header["answer"] = _answer(observation.answer) | _counts(observation, cloud)
        if observation.alignment is not None and target is not None and request.second is not None:
            header["alignment"] = _alignment(observation.alignment, cloud, target, request.second)
        if request.compare:
            header["comparison"] = self._compare(cloud, observation, shape)
        header["milliseconds"] = round(1000 * (perf_counter() - start), 1)
        response = pack(header, arrays)
        for slot in slots:
            slot.clear()
        return response

    def _view(self, slot: _Slot, source: Source, corruption: CorruptionLevels) -> ViewedShape:
        if slot.shape is None or slot.of != (source, corruption):
            slot.put(view_shape(self._load(source), corruption, self._networks.model.config), (source, corruption))
        assert slot.shape is not None
        return slot.shape

    def _load(self, source: Source) -> Mesh | PointCloud:
        if isinstance(source, GalleryShape):
            return make_shape(source.kind, source.seed)
        if source.number == 0 and self._file is not None:
            return self._file
        return self._store.get(self._key, source.number)

    def _compare(self, cloud: PointCloud, observation: Observation, shape: ViewedShape) -> dict[str, Any]:
        """What the baseline predicts for the same points, and for the shape before it was rotated."""
        if self._upright is None or self._upright[0] is not shape:
            self._upright = shape, next(iter(self._baseline_scores(shape.cloud)))
        scores = self._baseline_scores(cloud, observation)
        label = next(iter(scores))
        return {"label": label, "confidence": scores[label], "scores": scores, "upright": self._upright[1]}

    def _baseline_scores(self, cloud: PointCloud, observation: Observation | None = None) -> dict[str, float]:
        """Scores by class, the highest first; from the frames of the observation, if the baseline reads the same."""
        baseline = self._networks.baseline
        if observation is None or baseline.config != self._networks.model.config:
            scores = baseline.predict(cloud).activations
        else:
            scores = calibrated(compare(baseline.network, observation).activations, baseline.temperature)[0]
        order = scores.argsort(descending=True, stable=True).tolist()
        return {baseline.classes[index]: float(scores[index]) for index in order}


class _Slot:
    """A shape that the page shows, and what of it has not been sent yet."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.of: tuple[Source, CorruptionLevels] | None = None
        self.shape: ViewedShape | None = None
        self.header: dict[str, Any] = {}
        self.arrays: dict[str, Tensor] = {}

    def put(self, shape: ViewedShape, of: tuple[Source, CorruptionLevels]) -> None:
        arrays = {"points": shape.cloud.points, **shape.mesh}
        self.arrays = {f"{self._name}.{key}": array for key, array in arrays.items()}
        self.header = {self._name: {"name": shape.name, "size": shape.size}}
        # What is sent once need not be kept.
        self.shape, self.of = ViewedShape(shape.name, shape.size, shape.cloud, {}), of

    def clear(self) -> None:
        self.header, self.arrays = {}, {}


def _answer(answer: Answer) -> dict[str, Any]:
    return {
        "label": answer.label,
        "confidence": answer.confidence,
        "scores": answer.scores,
        "pose": answer.pose.tolist(),
        "symmetry": answer.symmetry,
        "centre": answer.centre.tolist(),
    }


def _counts(observation: Observation, cloud: PointCloud) -> dict[str, int]:
    valid = int(observation.points.valid.sum())
    return {"points": len(cloud), "frames": observation.points.positions.shape[1], "valid": valid}


def _alignment(found: Alignment, source: PointCloud, target: PointCloud, second: RotatedShape) -> dict[str, Any]:
    """With the residual before (one centre moved onto the other, nothing rotated) and after."""
    before = residual(source.points.double() + (found.target.centre - found.source.centre), target)
    return {
        "rotation": found.rotation.tolist(),
        "translation": found.translation.tolist(),
        "before": before,
        "after": found.residual,
        "target": {**_answer(found.target), "rotation": [*second.rotation]},
    }
