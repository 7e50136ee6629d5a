"""A trained network with all that it takes to ask it: names, poses, alignments and descriptors."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Iterator, Sequence
from itertools import islice
from time import perf_counter
from typing import TypeVar, overload

import torch
from torch import Tensor
from torch.nn.functional import normalize

from qecnet.algebra import canonicalize, rotate
from qecnet.geometry import PrepareConfig
from qecnet.models.answer import Alignment, Answer, Failure, relative_pose
from qecnet.models.inputs import Shape, as_cloud, network_inputs
from qecnet.models.refine import refined, residual
from qecnet.models.view import PackedView, View, packed_view, view_of
from qecnet.nn import Prediction, QECNet, calibrated
from qecnet.workers import in_order, one_thread

T = TypeVar("T")
_BATCH = 16


class Model:
    """A network that has learned `classes`, the frames that it reads, and the temperature that calibrates it.

    The same seed gives the same answer; it draws the points of meshes, and of clouds that have more than
    `config.points`.
    """

    def __init__(
        self, name: str, network: QECNet, classes: tuple[str, ...], config: PrepareConfig, temperature: float = 1.0
    ) -> None:
        self.name = name
        self.network = network.eval()
        self.classes = classes
        self.config = config
        self.temperature = temperature

    def __repr__(self) -> str:
        return f"Model({self.name}: {len(self.classes)} classes)"

    def to(self, device: torch.device | str) -> Model:
        """Moves the network; frames are always estimated by the processor."""
        self.network.to(device)
        return self

    @overload
    def predict(self, shape: list[Shape], *, seed: int = 0) -> list[Answer]: ...

    @overload
    def predict(self, shape: Shape, *, seed: int = 0) -> Answer: ...

    def predict(self, shape: Shape | list[Shape], *, seed: int = 0) -> Answer | list[Answer]:
        """What a shape is and which way it is turned; of a list of shapes, a list of answers.

        Raises:
            ValueError: for a shape that cannot be read, or has no surface. `predict_many` goes on instead.
        """
        if not isinstance(shape, list):
            return self._answers([view_of(shape, self.config, seed)])[0]
        views = (view_of(one, self.config, seed) for one in shape)
        return [answer for batch in _batches(views) for answer in self._answers(batch)]

    def predict_many(
        self, paths: Iterable[str | os.PathLike[str]], *, seed: int = 0, workers: int = 1
    ) -> Iterator[Answer | Failure]:
        """`predict` for any number of files, in order, as they are done; a file that is bad gives a `Failure`.

        `workers` processes read files and estimate frames; how many they are changes no answer.
        """
        views = in_order(packed_view, ((os.fspath(path), self.config, seed) for path in paths), workers)
        return self._answered(views)

    def _answered(self, views: Generator[PackedView | Failure]) -> Iterator[Answer | Failure]:
        try:
            for batch in _batches(views):
                with one_thread():
                    answers = iter(self._answers([view.unpacked() for view in batch if isinstance(view, PackedView)]))
                yield from (next(answers) if isinstance(view, PackedView) else view for view in batch)
        finally:
            views.close()

    def align(self, source: Shape, target: Shape, *, refine: bool = False, seed: int = 0) -> Alignment:
        """What brings one shape onto another: the rotation between their poses, and then one centre onto the other.

        The two may be scans of one thing, or two things of a class. `refine` follows the nearest points from there,
        which takes the extra `qecnet[refine]`.
        """
        before, after = (as_cloud(shape, self.config, seed) for shape in (source, target))
        first, second = self.predict([before, after])
        rotation = relative_pose(first, second)
        translation = second.centre - rotate(rotation, first.centre)
        distance = residual(rotation, translation, before, after)
        found = Alignment(rotation, translation, distance, first, second)
        return refined(found, before, after) if refine else found

    def embed(self, shapes: Sequence[Shape], *, seed: int = 0) -> Tensor:
        """Descriptors that no rotation changes, each of length 1; those of like shapes have a large product. → (N, D)

        What the last look of a network with features knows of a shape; of the paper's network, the activations.
        """
        answers = self.predict([*shapes], seed=seed)
        return torch.stack([answer.descriptor for answer in answers])

    @property
    def width(self) -> int:
        """D, how many numbers a descriptor has."""
        features = self.network.config.features
        return len(self.classes) if features is None else features.summary

    def _answers(self, views: Sequence[View]) -> list[Answer]:
        if not views:
            return []
        start = perf_counter()
        prediction = self._prediction(views)
        descriptors = prediction.ballots[-1].summary if prediction.ballots else prediction.activations
        activations = calibrated(prediction.activations.cpu(), self.temperature)
        poses = canonicalize(normalize(prediction.poses.cpu().double(), dim=-1))
        descriptors = normalize(descriptors.cpu(), dim=-1)
        share = 1000 * (perf_counter() - start) / len(views)
        return [
            Answer(view.name, self.classes, a, p, d, view.prepared.centre, view.milliseconds + share)
            for view, a, p, d in zip(views, activations, poses, descriptors, strict=True)
        ]

    def _prediction(self, views: Sequence[View]) -> Prediction:
        device = next(self.network.parameters()).device
        with torch.inference_mode():
            prediction: Prediction = self.network(*network_inputs([view.prepared for view in views], device))
        return prediction


def _batches(views: Iterable[T]) -> Iterator[list[T]]:
    views = iter(views)
    while batch := list(islice(views, _BATCH)):
        yield batch
