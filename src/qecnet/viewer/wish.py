"""What a page asks for: the whole of what is to be seen, each time, so that no wish depends on the one before."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from qecnet.datasets.shapes import CLASSES

Layer = Literal["frames", "patches", "capsules", "votes"]

LARGEST = 2**31 - 1


@dataclass(frozen=True)
class Made:
    """A piece of procedural furniture, see `qecnet.datasets.make_shape`."""

    kind: str
    seed: int


@dataclass(frozen=True)
class Given:
    """A file that the page's reader uploaded, by its number in that tab; number 0 is the one of the command line."""

    number: int


Source = Made | Given


@dataclass(frozen=True)
class Spoil:
    """What is done to the input; see `qecnet.evaluation.spoiling`. `seed` also draws the points of a mesh."""

    points: int
    noise: float = 0.0
    outliers: float = 0.0
    occlusion: float = 0.0
    seed: int = 0


@dataclass(frozen=True)
class Turned:
    """A shape and the rotation about its middle that it has been given, WXYZ."""

    source: Source
    turn: tuple[float, float, float, float]


@dataclass(frozen=True)
class Wish:
    """All that a page wants to see.

    Attributes:
        number: which the reply repeats, so that the page knows what it answers.
        shape: the one that is looked at, and second: the one that it is aligned to, or None.
        spoil: what is done to the first shape.
        layers: what is shown of the network's inside.
        compare: whether the network that is not equivariant is asked as well.
    """

    number: int
    shape: Turned
    spoil: Spoil
    second: Turned | None = None
    layers: frozenset[Layer] = frozenset()
    compare: bool = False


def read_wish(text: str) -> Wish:
    """What a page sent; anybody may send anything, so everything is checked.

    Raises:
        ValueError: in one sentence.
    """
    try:
        given = json.loads(text)
        second = given.get("second")
        return Wish(
            number=_whole("number", given["number"], 0, 2**53),
            shape=_turned(given["shape"]),
            spoil=_spoil(given["spoil"]),
            second=None if second is None else _turned(second),
            layers=_layers(given.get("layers", [])),
            compare=given.get("compare", False) is True,
        )
    except (KeyError, TypeError, AttributeError, json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"the page asked for something that is not understood ({error}); reload it") from error


def _turned(given: Mapping[str, Any]) -> Turned:
    w, x, y, z = (_number("turn", part, -1.001, 1.001) for part in given["turn"])
    length = math.hypot(w, x, y, z)
    if abs(length - 1) > 1e-3:
        raise ValueError(f"turn has the length {length:.3g}; a rotation is a quaternion of length 1")
    if "upload" in given:
        return Turned(Given(_whole("upload", given["upload"], 0, LARGEST)), (w, x, y, z))
    if given["kind"] not in CLASSES:
        raise ValueError(f"{given['kind']} is no class of shapes; ask for one of {', '.join(CLASSES)}")
    return Turned(Made(given["kind"], _whole("seed", given["seed"], 0, LARGEST)), (w, x, y, z))


def _spoil(given: Mapping[str, Any]) -> Spoil:
    return Spoil(
        points=_whole("points", given["points"], 1, LARGEST),
        noise=_number("noise", given["noise"], 0, 1),
        outliers=_number("outliers", given["outliers"], 0, 1),
        occlusion=_number("occlusion", given["occlusion"], 0, 0.99),
        seed=_whole("seed", given["seed"], 0, LARGEST),
    )


def _layers(given: Any) -> frozenset[Layer]:
    names = frozenset(given)
    if unknown := names - {*get_args(Layer)}:
        raise ValueError(f"{sorted(map(str, unknown))[0]} is no layer; there are {', '.join(get_args(Layer))}")
    return names


def _number(name: str, value: Any, low: float, high: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise ValueError(f"{name} is {value!r}; it must be a number from {low:g} to {high:g}")
    return float(value)


def _whole(name: str, value: Any, low: int, high: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise ValueError(f"{name} is {value!r}; it must be a whole number from {low} to {high}")
    return value
