"""Points and directions as text, such as 0,0,1.5 and -y, in commands and in Python."""

import math
from typing import NamedTuple


class Triple(NamedTuple):
    """A point or a direction. Typer reads a plain tuple from three arguments, and this from one, such as 0,0,1."""

    x: float
    y: float
    z: float


def parse_point(text: str) -> Triple:
    """Parse three finite numbers, separated by commas.

    Args:
        text: such as 0,0,1.5.

    Returns:
        The numbers.

    Raises:
        ValueError: if it is anything else; one sentence.
    """
    return _parse_numbers(text, f"{text!r} is not three numbers separated by commas, such as 0,0,1")


def parse_direction(text: str) -> Triple:
    """Parse an axis, or three finite numbers that are not all 0.

    Args:
        text: such as z, -y or 0.1,0,1; axes may be upper-case and have a plus sign.

    Returns:
        The direction, of any length.

    Raises:
        ValueError: if it is anything else; one sentence.
    """
    sign, axis = (-1.0, text[1:]) if text.startswith("-") else (1.0, text.removeprefix("+"))
    if axis.lower() in ("x", "y", "z"):
        return Triple(*(sign * (axis.lower() == name) for name in "xyz"))
    direction = _parse_numbers(
        text, f"{text!r} is neither an axis, such as z or -y, nor three numbers separated by commas, such as 0.1,0,1"
    )
    if not any(direction):
        raise ValueError(f"{text!r} has no direction; give an axis, such as z, or three numbers that are not all 0")
    return direction


def _parse_numbers(text: str, refusal: str) -> Triple:
    try:
        x, y, z = (float(word) for word in text.split(","))
    except ValueError:
        raise ValueError(refusal) from None
    if not all(map(math.isfinite, (x, y, z))):
        raise ValueError(f"{text!r} has a number that is not finite")
    return Triple(x, y, z)
