"""Requests of a page. Each describes everything that is to be shown, so that none depends on the one before."""

import json
import math
import reprlib
from dataclasses import dataclass
from typing import Any, Literal

from qecnet.datasets import FURNITURE_CLASSES
from qecnet.schema import decode_value

Layer = Literal["frames", "patches", "capsules", "votes"]
Rotation = tuple[float, float, float, float]
Place = tuple[float, float, float]
ShapeSource = tuple[str | None, int, int | None]
"""Kind, seed and upload of a `RequestedShape`."""

_LARGEST = 2**31 - 1
_FARTHEST = 1000


@dataclass(frozen=True)
class RequestedShape:
    """A shape and the rotation about its centre that the user gave it.

    Attributes:
        rotation: quaternion, WXYZ.
        kind: class of a procedural shape (`qecnet.datasets.make_shape`); None for an upload.
        seed: of the procedural shape.
        upload: number of a file that this page has uploaded; 0 is the one given on the command line.
    """

    rotation: Rotation
    kind: str | None = None
    seed: int = 0
    upload: int | None = None

    def __post_init__(self) -> None:
        if abs(math.hypot(*self.rotation) - 1) > 1e-3:
            _refuse("rotation", self.rotation, "a quaternion, four numbers of norm 1")
        _check_range(self, "seed", 0, _LARGEST)
        if self.upload is None and self.kind not in FURNITURE_CLASSES:
            _refuse("kind", self.kind, f"one of {', '.join(FURNITURE_CLASSES)}")
        if self.upload is not None:
            _check_range(self, "upload", 0, _LARGEST)

    @property
    def source(self) -> ShapeSource:
        """The shape without its rotation."""
        return self.kind, self.seed, self.upload


@dataclass(frozen=True)
class CorruptionLevels:
    """How the input is corrupted; see `qecnet.evaluation.Corruption`. `seed` also samples the points of a mesh."""

    points: int
    noise: float = 0.0
    outliers: float = 0.0
    occlusion: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        _check_range(self, "points", 1, _LARGEST)
        _check_range(self, "noise", 0, 1)
        _check_range(self, "outliers", 0, 1)
        _check_range(self, "occlusion", 0, 0.99)
        _check_range(self, "seed", 0, _LARGEST)


@dataclass(frozen=True)
class Request:
    """Everything that a page wants to show.

    Attributes:
        id: repeated in the response.
        shape: the shape to classify.
        second: the one to align it with, or None.
        corruption: applied to the first shape.
        layers: what is shown of the network's inner state.
        compare: whether the network that is not equivariant answers as well.
        camera: the position of a camera relative to the centre of the first shape, whose radius is 1: the model is
            given what the camera sees of the shape. None gives it the whole shape.
        model: name of the model; None for the one that the viewer was started with.
    """

    id: int
    shape: RequestedShape
    corruption: CorruptionLevels
    second: RequestedShape | None = None
    layers: tuple[Layer, ...] = ()
    compare: bool = False
    camera: Place | None = None
    model: str | None = None

    def __post_init__(self) -> None:
        _check_range(self, "id", 0, 2**53)
        if self.camera is not None and max(map(abs, self.camera)) > _FARTHEST:
            _refuse("camera", self.camera, f"at most {_FARTHEST} radii from the shape along each axis")


def parse_request(text: str) -> Request:
    """Parse a message from a client, which may be anything.

    Args:
        text: the message, JSON with the fields of `Request`; other fields are ignored.

    Returns:
        The request, with all values in their ranges.

    Raises:
        ValueError: if the message is not a request; one sentence.
    """
    try:
        message = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError("the request is not valid JSON; reload the page") from error
    request: Request = decode_value(message, Request, "request")
    return request


def _check_range(values: Any, name: str, low: float, high: float) -> None:
    value = getattr(values, name)
    if not low <= value <= high:
        _refuse(name, value, f"from {low} to {high}")


def _refuse(name: str, value: Any, rule: str) -> None:
    raise ValueError(f"{name} is {reprlib.repr(value)}; it must be {rule}")
