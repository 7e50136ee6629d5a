"""A trained network with everything that predictions need: classes, poses, alignments and descriptors."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from time import perf_counter
from typing import Any, TypeVar, overload

import torch
from numpy.typing import ArrayLike
from torch import Tensor
from torch.nn.functional import normalize

from qecnet.algebra import canonicalize
from qecnet.geometry import OrientedPoints, PrepareConfig
from qecnet.models.alignment import align_answers
from qecnet.models.answer import Alignment, Answer, Candidate, Failure
from qecnet.models.directions import parse_up, parse_viewpoint
from qecnet.models.inputs import Shape, check_list, prepare_file, prepare_shape, sample_shape
from qecnet.nn import Calibration, Network, Prediction
from qecnet.workers import in_order, one_thread

T = TypeVar("T")
Prepared = tuple[str, OrientedPoints, float]
"""What `prepare_shape` returns."""
BATCH = 16
"""Number of shapes that the network reads at once; larger batches are not faster."""
_UNLIKELY = 1e-4  # candidates below this are left out


class Model:
    """A trained network, usually from `load`.

    The same seed gives the same answer. It is used to sample points from meshes, and from clouds with more than
    `config.points` points.

    Attributes:
        name: as given to `load`.
        network: in evaluation mode.
        classes: C names.
        config: how shapes are prepared for the network.
        calibration: of the confidence and of the probabilities of candidate orientations.
        settings: of its training, as far as the weights file has them.
    """

    def __init__(
        self,
        name: str,
        network: Network,
        classes: tuple[str, ...],
        config: PrepareConfig,
        calibration: Calibration | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        self.name = name
        self.network = network.eval()
        self.classes = classes
        self.config = config
        self.calibration = calibration or Calibration()
        self.settings = settings or {}

    def __repr__(self) -> str:
        return f"Model({self.name}: {len(self.classes)} classes)"

    def to(self, device: torch.device | str) -> Model:
        """Move the network to a device; frames are always estimated on the CPU.

        Args:
            device: for example "cuda".

        Returns:
            This model.
        """
        self.network.to(device)
        return self

    @overload
    def predict(
        self, shape: list[Shape], *, seed: int = 0, up: ArrayLike | None = None, viewpoint: ArrayLike | None = None
    ) -> list[Answer]: ...

    @overload
    def predict(
        self, shape: Shape, *, seed: int = 0, up: ArrayLike | None = None, viewpoint: ArrayLike | None = None
    ) -> Answer: ...

    def predict(
        self,
        shape: Shape | list[Shape],
        *,
        seed: int = 0,
        up: ArrayLike | None = None,
        viewpoint: ArrayLike | None = None,
    ) -> Answer | list[Answer]:
        """Predict the class and the orientation of a shape, or of each shape in a list.

        Args:
            shape: a shape, or a list of shapes.
            seed: of the sampling of points.
            up: (3,), the known up direction in the shape's coordinates, such as the opposite of gravity, or an axis,
                such as "z" or "-y"; poses are then rotations that map the z axis to it.
            viewpoint: (3,), the position of the camera that saw the shape from one side, in the shape's coordinates; by
                default the one in the file, if its format (PCD) has one.

        Returns:
            An answer, or a list of answers.

        Raises:
            ValueError: if a shape cannot be read, has no surface or cannot have been seen from the viewpoint, if an
                answer is not finite, or if `up` or `viewpoint` is not three numbers. For a file without an answer,
                `predict_many` returns a `Failure` instead.
        """
        known, camera = parse_up(up), parse_viewpoint(viewpoint)
        if not isinstance(shape, list):
            return _require(self._answers([prepare_shape(shape, self.config, seed, camera)], known)[0])
        check_list(shape)
        prepared = (prepare_shape(one, self.config, seed, camera) for one in shape)
        return [_require(answer) for batch in _batches(prepared) for answer in self._answers(batch, known)]

    def predict_many(
        self,
        paths: Iterable[str | os.PathLike[str]],
        *,
        seed: int = 0,
        workers: int = 1,
        up: ArrayLike | None = None,
        viewpoint: ArrayLike | None = None,
    ) -> Iterator[Answer | Failure]:
        """Predict any number of files.

        Args:
            paths: the files.
            workers: number of processes that read files and estimate frames; it does not change the answers.
            seed, up, viewpoint: as in `predict`, for all files.

        Yields:
            The answer for each file, in order, as soon as it is available; a `Failure` for a file without one.
        """
        known, camera = parse_up(up), parse_viewpoint(viewpoint)
        jobs = ((os.fspath(path), self.config, seed, camera) for path in paths)
        prepared = in_order(prepare_file, jobs, workers)
        return self._answer_each(prepared, known)

    def _answer_each(self, prepared: Generator[Prepared | Failure], up: Tensor | None) -> Iterator[Answer | Failure]:
        try:
            for batch in _batches(prepared):
                yield from self._answer_batch(batch, up, 0)
        finally:
            prepared.close()

    def predict_batch(
        self,
        paths: Sequence[str],
        *,
        seed: int = 0,
        up: ArrayLike | None = None,
        viewpoint: ArrayLike | None = None,
    ) -> list[Answer | Failure]:
        """Predict at most `BATCH` files in this process, on one thread.

        An answer is the same, bit for bit, whatever the other files are. Sums over batches of other sizes differ in the
        last bits, so a network that reads a batch at once always gets `BATCH` shapes, the last one repeated if
        necessary.

        Args:
            paths: the files.
            seed, up, viewpoint: as in `predict`, for all files.

        Returns:
            The answer for each file, in order; a `Failure` for a file without one.
        """
        known, camera = parse_up(up), parse_viewpoint(viewpoint)
        size = 0 if self.network.reads_alone else BATCH
        return self._answer_batch([prepare_file(path, self.config, seed, camera) for path in paths], known, size)

    def _answer_batch(
        self, prepared: Sequence[Prepared | Failure], up: Tensor | None, size: int
    ) -> list[Answer | Failure]:
        """Answers in the order of what was prepared, from one batch of at least `size` shapes."""
        good = [one for one in prepared if not isinstance(one, Failure)]
        with one_thread():
            answers = iter(self._answers([*good, *good[-1:] * (size - len(good))], up))
        return [one if isinstance(one, Failure) else next(answers) for one in prepared]

    def align(
        self,
        source: Shape,
        target: Shape,
        *,
        refine: bool = False,
        scale: bool = False,
        seed: int = 0,
        up: ArrayLike | None = None,
        target_up: ArrayLike | None = None,
        viewpoint: ArrayLike | None = None,
    ) -> Alignment:
        """Align one shape with another: by the rotation between their poses, then by their centres.

        The two may be scans of the same object, or two objects of one class.

        Args:
            source: the shape to move.
            target: the shape to align it with.
            refine: whether to refine the result by registration; without `scale` by GICP, which needs the extra
                `qecnet[refine]`. With `scale`, other likely orientations are tried, and the scale is refined, unless
                it is that of two common units.
            scale: whether to estimate a scale too, see `find_units`.
            seed: of the sampling of points.
            up: the known up direction of the source in its own coordinates, as in `predict`; the rotation then takes
                it to that of the target.
            target_up: the known up direction of the target in its own coordinates; by default the same as `up`.
            viewpoint: (3,), the position of the camera that saw the source from one side, as in `predict`.

        Returns:
            The motion from source to target, and the predictions for both.

        Raises:
            ValueError: as in `predict`, or if a radius, or the ratio of both, is above 1e150 or below 1e-150, or for
                `target_up` without `up`.
        """
        source_up, there = parse_up(up), parse_up(target_up, "target_up")
        if source_up is None and there is not None:
            raise ValueError("target_up is given without up; give the up direction of the source, too")
        there = source_up if there is None else there
        before = sample_shape(source, self.config, seed, parse_viewpoint(viewpoint))
        after = sample_shape(target, self.config, seed)
        prepared = [prepare_shape(cloud, self.config, seed) for cloud in (before, after)]
        ups = None if source_up is None or there is None else torch.stack((source_up, there))
        first, second = map(_require, self._answers(prepared, ups))
        return align_answers(first, second, before, after, there, refine=refine, scale=scale)

    def embed(self, shapes: Sequence[Shape], *, seed: int = 0) -> Tensor:
        """Compute descriptors, which are invariant to rotation: similar shapes have a large inner product.

        Args:
            shapes: N shapes.
            seed: of the sampling of points.

        Returns:
            (N, D), each of length 1.

        Raises:
            ValueError: as in `predict`.
        """
        answers = self.predict([*shapes], seed=seed)
        return torch.stack([answer.descriptor for answer in answers])

    @property
    def has_poses(self) -> bool:
        """Whether the network predicts poses; some baselines only classify."""
        return self.network.has_poses

    def without_classes(self) -> Model:
        """Copy the model with one class for all shapes, as `upright` is one of `modelnet40`.

        Returns:
            A model that predicts orientations only.

        Raises:
            ValueError: if the network predicts no orientations without classes.
        """
        network = self.network.without_classes()
        return Model(self.name, network, ("object",), self.config, self.calibration, self.settings)

    def setting(self, name: str) -> Any:
        """Get a setting of the training.

        Args:
            name: of a field of `RunSettings`.

        Returns:
            Its value.

        Raises:
            ValueError: if the weights file does not have it.
        """
        try:
            return self.settings[name]
        except KeyError:
            raise ValueError(
                f"{self.name}: does not record how its network was trained ({name}); give weights that qec train wrote"
            ) from None

    @property
    def width(self) -> int:
        """D, the number of values in a descriptor."""
        return self.network.descriptor_size

    def _answers(self, prepared: Sequence[Prepared], up: Tensor | None) -> list[Answer | Failure]:
        if not prepared:
            return []
        start = perf_counter()
        clouds = OrientedPoints.stack([points for _, points, _ in prepared])
        prediction = self.calibration.apply(self.predict_points(clouds, up))
        activations = prediction.activations.cpu()
        poses = canonicalize(normalize(prediction.poses.cpu().double(), dim=-1))
        descriptors = normalize(prediction.descriptor.cpu(), dim=-1)
        verified = _candidates(prediction)
        wholes = _wholes([points for _, points, _ in prepared], prediction)
        share = 1000 * (perf_counter() - start) / len(prepared)
        return [
            Answer(name, self.classes, a, p, d, w[:3], float(w[3]), milliseconds + share, found)
            if all(tensor.isfinite().all() for tensor in (a, p, d, w))
            else Failure(name, f"{name}: the model {self.name} gives values that are not finite; train it again")
            for (name, _, milliseconds), a, p, d, w, found in zip(
                prepared, activations, poses, descriptors, wholes, verified, strict=True
            )
        ]

    def predict_points(self, points: OrientedPoints, up: Tensor | None = None) -> Prediction:
        """Run the network on a batch of prepared clouds, in inference mode.

        Args:
            points: B clouds.
            up: (3,) or (B, 3), the known up direction of all or of each.

        Returns:
            The prediction for each cloud.
        """
        with torch.inference_mode():
            prediction: Prediction = self.network(points.to(next(self.network.parameters()).device), up)
        return prediction


def hash_model(model: Model) -> str:
    """Hash what predictions depend on besides the shape: weights, classes and how shapes are prepared.

    Args:
        model: the model.

    Returns:
        SHA-256, in hexadecimal.
    """
    about = hashlib.sha256(repr((model.classes, model.config, model.network.config)).encode())
    for name, tensor in sorted(model.network.state_dict().items()):
        about.update(name.encode() + tensor.cpu().numpy().tobytes())
    return about.hexdigest()


def _wholes(clouds: Sequence[OrientedPoints], prediction: Prediction) -> Tensor:
    """Compute the centre and radius of each whole shape, in its own coordinates. → (clouds, 4), float64"""
    centre, radius = (torch.stack([getattr(points, name) for points in clouds]) for name in ("centre", "scale"))
    if prediction.whole is not None:
        centre = centre + radius[:, None] * prediction.whole.offset.cpu().double()
        radius = radius * prediction.whole.growth.cpu().double().exp()
    return torch.cat((centre, radius[:, None]), -1)


def _candidates(prediction: Prediction) -> list[tuple[Candidate, ...]]:
    """List the candidate orientations of each cloud; none if the network has none."""
    if (found := prediction.orientations) is None:
        return [()] * len(prediction.activations)
    poses = canonicalize(normalize(found.poses.cpu().double(), dim=-1))
    columns = zip(poses, found.probabilities.tolist(), found.any_azimuth.tolist(), strict=True)
    return [tuple(Candidate(*one) for one in zip(*each, strict=True) if one[1] > _UNLIKELY) for each in columns]


def _require(result: Answer | Failure) -> Answer:
    if isinstance(result, Failure):
        raise ValueError(result.error)
    return result


def _batches(items: Iterable[T]) -> Iterator[list[T]]:
    items = iter(items)
    while batch := list(islice(items, BATCH)):
        yield batch
