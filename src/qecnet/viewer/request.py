"""Requests of a page. Each describes everything that is to be shown, so that none depends on the one before."""

from __future__ import annotations

import json
import math
import reprlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from qecnet.datasets import FURNITURE_CLASSES

Layer = Literal["frames", "patches", "capsules", "votes"]
Rotation = tuple[float, float, float, float]
Place = tuple[float, float, float]
Check = Callable[[str, Any], Any]

_LARGEST = 2**31 - 1
_FARTHEST = 1000.0


@dataclass(frozen=True)
class GalleryShape:
    """A procedural shape, see `qecnet.datasets.make_shape`."""

    kind: str
    seed: int


@dataclass(frozen=True)
class UploadedShape:
    """A file that this page has uploaded; number 0 is the one given on the command line."""

    number: int


Source = GalleryShape | UploadedShape


@dataclass(frozen=True)
class CorruptionLevels:
    """How the input is corrupted; see `qecnet.evaluation.Corruption`. `seed` also samples the points of a mesh."""

    points: int
    noise: float = 0.0
    outliers: float = 0.0
    occlusion: float = 0.0
    seed: int = 0


@dataclass(frozen=True)
class RotatedShape:
    """A shape and the rotation about its centre that the user gave it, WXYZ."""

    source: Source
    rotation: Rotation


@dataclass(frozen=True)
class Request:
    """Everything that a page wants to show.

    Attributes:
        id: repeated in the response.
        shape: the shape to classify, and second: the one to align it to, or None.
        corruption: applied to the first shape.
        layers: what is shown of the network's inner state.
        compare: whether the network that is not equivariant answers as well.
        camera: the place of a camera relative to the centre of the first shape, whose radius is 1: the model is given
            what the camera sees of the shape. None gives it the whole shape.
        model: name of the model; None for the one that the viewer was started with.
    """

    id: int
    shape: RotatedShape
    corruption: CorruptionLevels
    second: RotatedShape | None = None
    layers: frozenset[Layer] = frozenset()
    compare: bool = False
    camera: Place | None = None
    model: str | None = None


def parse_request(text: str) -> Request:
    """Checks a message from a client, which may be anything, against the schema below.

    Raises:
        ValueError: when the message does not match; one sentence.
    """
    try:
        message = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError("the request is not valid JSON; reload the page") from error
    return Request(**_REQUEST("the request", message))


def _integer(low: int, high: int) -> Check:
    def check(name: str, value: Any) -> int:
        if type(value) is not int or not low <= value <= high:
            raise ValueError(f"{name} is {reprlib.repr(value)}; it must be an integer from {low} to {high}")
        return value

    return check


def _number(low: float, high: float) -> Check:
    def check(name: str, value: Any) -> float:
        if type(value) not in (int, float) or not low <= value <= high:
            raise ValueError(f"{name} is {reprlib.repr(value)}; it must be a number from {low:g} to {high:g}")
        return float(value)

    return check


def _one_of(*allowed: Any) -> Check:
    def check(name: str, value: Any) -> Any:
        if not any(type(value) is type(one) and value == one for one in allowed):
            raise ValueError(f"{name} is {reprlib.repr(value)}; it must be one of {', '.join(map(str, allowed))}")
        return value

    return check


def _optional(inner: Check) -> Check:
    return lambda name, value: None if value is None else inner(name, value)


def _record(required: Mapping[str, Check], optional: Mapping[str, Check] | None = None) -> Check:
    """An object with all of the required fields, any of the optional ones, and no others."""
    fields = {**required, **(optional or {})}

    def check(name: str, value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise ValueError(f"{name} is {reprlib.repr(value)}; it must be an object")
        missing, unknown = required.keys() - value.keys(), value.keys() - fields.keys()
        if missing or unknown:
            what = "lacks the" if missing else "has an unknown"
            raise ValueError(f"{name} {what} field {reprlib.repr(min(missing or unknown))}; reload the page")
        return {key: fields[key](key, value[key]) for key in value}

    return check


def _list(inner: Check, most: int) -> Check:
    def check(name: str, value: Any) -> list[Any]:
        if not isinstance(value, list) or len(value) > most:
            raise ValueError(f"{name} is {reprlib.repr(value)}; it must be a list of at most {most}")
        return [inner(name, one) for one in value]

    return check


def _rotation(name: str, value: Any) -> tuple[float, ...]:
    parts = _list(_number(-1.001, 1.001), 4)(name, value)
    length = math.hypot(*parts)
    if len(parts) != 4 or abs(length - 1) > 1e-3:
        raise ValueError(f"{name} is {reprlib.repr(value)}; it must be a quaternion, four numbers of norm 1")
    return tuple(parts)


def _place(name: str, value: Any) -> tuple[float, ...]:
    parts = _list(_number(-_FARTHEST, _FARTHEST), 3)(name, value)
    if len(parts) != 3:
        raise ValueError(f"{name} is {reprlib.repr(value)}; it must be a place, three numbers")
    return tuple(parts)


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{name} is {reprlib.repr(value)}; it must be a text")
    return value


def _shape(name: str, value: Any) -> RotatedShape:
    if isinstance(value, dict) and "upload" in value:
        given = _record({"upload": _integer(0, _LARGEST), "rotation": _rotation})(name, value)
        return RotatedShape(UploadedShape(given["upload"]), given["rotation"])
    kind = _one_of(*FURNITURE_CLASSES)
    given = _record({"kind": kind, "seed": _integer(0, _LARGEST), "rotation": _rotation})(name, value)
    return RotatedShape(GalleryShape(given["kind"], given["seed"]), given["rotation"])


_SHARE = _number(0, 1)
_CORRUPTION = _record(
    {
        "points": _integer(1, _LARGEST),
        "noise": _SHARE,
        "outliers": _SHARE,
        "occlusion": _number(0, 0.99),
        "seed": _integer(0, _LARGEST),
    }
)
_REQUEST = _record(
    {
        "id": _integer(0, 2**53),
        "shape": _shape,
        "corruption": lambda name, value: CorruptionLevels(**_CORRUPTION(name, value)),
    },
    {
        "second": _optional(_shape),
        "layers": lambda name, value: frozenset(_list(_one_of(*get_args(Layer)), 4)(name, value)),
        "compare": _one_of(True, False),
        "camera": _optional(_place),
        "model": _optional(_text),
    },
)
