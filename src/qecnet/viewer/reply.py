"""What goes back to a page: the answer to its wish, from points and frames of that very moment."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from time import perf_counter
from typing import Any

import torch
from torch import Tensor

from qecnet.datasets import make_shape
from qecnet.geometry import Mesh, PointCloud
from qecnet.models import Alignment, Answer, Model
from qecnet.models.refine import residual
from qecnet.nn import calibrated
from qecnet.viewer.comparison import load_comparison
from qecnet.viewer.inside import layers_of
from qecnet.viewer.observed import Observed, Observer, compared
from qecnet.viewer.subject import Subject, subject_of
from qecnet.viewer.wire import packed
from qecnet.viewer.wish import LARGEST, Given, Made, Source, Spoil, Turned, Wish


class Respondent:
    """The networks, which all tabs share; whoever asks, asks alone."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.observer = Observer(model)
        self.other = load_comparison()


class Tab:
    """What is kept for one tab of a browser: its uploads, and which shapes it has been sent."""

    MOST_UPLOADS = 8
    MOST_KEPT = 8_000_000
    """Points and triangles of all uploads: two of the largest, to be aligned."""

    def __init__(self, respondent: Respondent, first: Mesh | PointCloud | None = None) -> None:
        self._asked = respondent
        self._uploads: dict[int, Mesh | PointCloud] = {} if first is None else {0: first}
        self._subject, self._second = _Remembered(self._make), _Remembered(self._make)
        self._upright: tuple[Subject, str] | None = None

    def add(self, shape: Mesh | PointCloud) -> int:
        """Keeps an upload, and forgets the oldest where there are too many. → its number, which no other tab's has"""
        number = 1 + secrets.randbelow(LARGEST)
        self._uploads[number] = shape
        given = [number for number in self._uploads if number > 0]
        while len(given) > self.MOST_UPLOADS or sum(_size(self._uploads[number]) for number in given) > self.MOST_KEPT:
            del self._uploads[given.pop(0)]
        return number

    def reply(self, wish: Wish) -> bytes:
        """The answer to a wish; of the shapes themselves only what the page has not got yet.

        Raises:
            ValueError: in one sentence, where nothing can be said.
        """
        start = perf_counter()
        subject, is_new = self._subject(wish.shape.source, wish.spoil)
        header: dict[str, Any] = {"number": wish.number}
        arrays: dict[str, Tensor] = {}
        target = None
        if wish.second is not None:
            second, second_is_new = self._second(wish.second.source, Spoil(self._asked.model.config.points))
            target = second.turned(wish.second.turn)
            if second_is_new:
                header["second"], arrays = _shown("second", second)
        cloud = subject.turned(wish.shape.turn)
        observed = self._asked.observer.ask(cloud, target)
        if is_new:
            header["shape"], more = _shown("shape", subject)
            arrays |= more
        arrays |= layers_of(self._asked.model.network, observed, wish.layers)
        header["answer"] = _answer(observed.answer) | _counts(observed, cloud)
        if observed.alignment is not None and target is not None and wish.second is not None:
            header["alignment"] = _alignment(observed.alignment, cloud, target, wish.second)
        if wish.compare:
            header["comparison"] = self._comparison(cloud, observed, subject)
        header["milliseconds"] = round(1000 * (perf_counter() - start), 1)
        data = packed(header, arrays)
        self._subject.sent()
        if wish.second is not None:
            self._second.sent()
        return data

    def _make(self, source: Source, spoil: Spoil) -> Subject:
        if isinstance(source, Made):
            shape: Mesh | PointCloud = make_shape(source.kind, source.seed)
        else:
            shape = self._upload(source)
        return subject_of(shape, spoil, self._asked.model.config)

    def _upload(self, source: Given) -> Mesh | PointCloud:
        shape = self._uploads.get(source.number)
        if shape is None:
            raise ValueError("this file is no longer here (a page keeps its last few uploads); upload it again")
        return shape

    def _comparison(self, cloud: PointCloud, observed: Observed, subject: Subject) -> dict[str, Any]:
        """What the other network says, and what it said of the shape as it came."""
        if self._upright is None or self._upright[0] is not subject:
            self._upright = subject, next(iter(self._other(subject.cloud)))
        scores = self._other(cloud, observed)
        label = next(iter(scores))
        return {"label": label, "confidence": scores[label], "scores": scores, "upright": self._upright[1]}

    def _other(self, cloud: PointCloud, observed: Observed | None = None) -> dict[str, float]:
        """The other network's scores, the highest first; where it reads the same frames, from those of `observed`."""
        other = self._asked.other
        if observed is None or other.config != self._asked.model.config:
            sure = other.predict(cloud).activations
        else:
            sure = calibrated(compared(other.network, observed).activations, other.temperature)[0]
        order = sure.argsort(descending=True, stable=True).tolist()
        return {other.classes[place]: float(sure[place]) for place in order}


class _Remembered:
    """The last subject that was made, and whether the page has it."""

    def __init__(self, make: Callable[[Source, Spoil], Subject]) -> None:
        self._make = make
        self._of: tuple[Source, Spoil] | None = None
        self._subject: Subject | None = None
        self._is_new = True

    def __call__(self, source: Source, spoil: Spoil) -> tuple[Subject, bool]:
        if self._subject is None or self._of != (source, spoil):
            self._subject = self._make(source, spoil)
            self._of, self._is_new = (source, spoil), True
        return self._subject, self._is_new

    def sent(self) -> None:
        self._is_new = self._subject is None


def _size(shape: Mesh | PointCloud) -> int:
    """How many points and triangles it has."""
    return len(shape) if isinstance(shape, PointCloud) else len(shape.vertices) + len(shape.faces)


def _shown(name: str, subject: Subject) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """What the page draws of a shape, in the pose that it came in."""
    arrays = {f"{name}.points": subject.cloud.points}
    if subject.vertices is not None and subject.faces is not None:
        arrays |= {f"{name}.vertices": subject.vertices, f"{name}.faces": subject.faces}
    return {"name": subject.name, "about": subject.about}, arrays


def _answer(answer: Answer) -> dict[str, Any]:
    return {
        "label": answer.label,
        "confidence": answer.confidence,
        "scores": answer.scores,
        "pose": answer.pose.tolist(),
        "symmetry": answer.symmetry,
        "centre": answer.centre.tolist(),
    }


def _counts(observed: Observed, cloud: PointCloud) -> dict[str, int]:
    valid = int((observed.capsules.activations > 0).sum())
    return {"points": len(cloud), "frames": observed.capsules.positions.shape[1], "valid": valid}


def _alignment(found: Alignment, source: PointCloud, target: PointCloud, second: Turned) -> dict[str, Any]:
    """With both residuals: of one centre laid on the other and nothing turned, and after."""
    identity = torch.tensor([1.0, 0, 0, 0], dtype=torch.float64)
    before = residual(identity, found.target.centre - found.source.centre, source, target)
    return {
        "rotation": found.rotation.tolist(),
        "translation": found.translation.tolist(),
        "before": before,
        "after": found.residual,
        "target": {**_answer(found.target), "turn": [*second.turn]},
    }
