"""Dataclasses from JSON, checked against their type hints: the first mismatch is one sentence that names its place."""

import json
import reprlib
import sys
import types
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")
_LONGEST_NAME, _LONGEST_REASON = 200, 300


def decode_file(path: Path, kind: type[T]) -> T:
    """Read a dataclass from a JSON file.

    Args:
        path: the file.
        kind: the dataclass.

    Returns:
        An instance of it.

    Raises:
        ValueError: if the file cannot be read, is not a JSON object, or does not match the fields of `kind`.
    """
    return decode(read_object(path), kind, path)


def decode_lines(path: Path, kind: type[T]) -> tuple[T, ...]:
    """Read a dataclass from each line of a JSON Lines file; arguments and errors are those of `decode_file`."""
    lines = [line for line in _read_text(path).splitlines() if line.strip()]
    return tuple(decode(parse_object(line, path), kind, path) for line in lines)


def read_object(path: Path) -> dict[str, Any]:
    """Read a JSON object from a file; a ValueError if it cannot be read, or is none."""
    return parse_object(_read_text(path), path)


def parse_object(text: str, path: Path) -> dict[str, Any]:
    """Parse a JSON object; `path` is named in errors."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: is damaged (not JSON: {first_line(error)}); write it again") from error
    if not isinstance(value, dict):
        raise ValueError(f"{path}: is damaged (not a JSON object); write it again")
    return value


def decode(value: Any, kind: type[T], path: Path, place: str = "") -> T:
    """Build a dataclass from parsed JSON; unknown names are ignored, missing ones take their defaults.

    Args:
        value: what `json` read.
        kind: the dataclass; its own `__post_init__` checks ranges.
        path: the file, which errors name.
        place: where in the file the value is, which errors name too.

    Returns:
        An instance of the dataclass.

    Raises:
        ValueError: if the value does not match the fields of `kind`; one sentence.
    """
    try:
        found: T = decode_value(value, kind, place)
    except ValueError as error:
        raise ValueError(f"{path}: is damaged, or from another version of qecnet ({first_line(error)})") from error
    return found


def printable(text: str) -> str:
    """Replace control characters by `?`, so that text from a file cannot move the terminal's cursor."""
    return "".join(c if c.isprintable() else "?" for c in text)


def first_line(error: Exception) -> str:
    """Get the message of an error as a part of a sentence: its first line, printable and not too long."""
    return printable(next(iter(str(error).splitlines()), type(error).__name__)[:_LONGEST_REASON])


def system_reason(error: Exception) -> str:
    """Get what the operating system said as a part of a sentence, such as "no such file or directory"."""
    return (getattr(error, "strerror", None) or str(error)).lower()


@contextmanager
def needing_extra(what: str, extra: str) -> Iterator[None]:
    """Raise an import error in a block as one sentence, which begins with what needs which library."""
    try:
        yield
    except ImportError as error:
        reason = first_line(error)
        raise ValueError(f"{what}, which cannot be imported ({reason}); pip install 'qecnet[{extra}]'") from error


def check_names(what: str, names: Sequence[str]) -> None:
    """Raise a ValueError unless names are distinct and fit on a line of a terminal."""
    for name in names:
        if not 0 < len(name) <= _LONGEST_NAME or not name.isprintable():
            raise ValueError(f"{what} contains a name that is empty, too long or contains control characters")
    if len({*names}) < len(names):
        raise ValueError(f"{what} contains a name twice")


_SIMPLE = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}


def decode_value(value: Any, hint: Any, place: str) -> Any:
    """Convert parsed JSON or TOML to a type.

    Args:
        value: what was parsed.
        hint: a dataclass, text, a number, a choice, a tuple or a mapping of these.
        place: the name of the value, for errors.

    Returns:
        The value as that type.

    Raises:
        ValueError: if it does not match; one sentence with the place, the value and the rule.
    """
    origin, arguments = get_origin(hint), get_args(hint)
    if is_dataclass(hint):
        return _object(value, hint, place)
    if origin in (Union, types.UnionType):
        (inner,) = (one for one in arguments if one is not type(None))
        return None if value is None else decode_value(value, inner, place)
    if origin is Literal:
        return value if value in arguments else _fail(place, value, f"one of {', '.join(arguments)}")
    if origin is tuple:
        return _list(value, arguments, place)
    if origin is not None:  # a mapping from text
        if not isinstance(value, dict):
            _fail(place, value, "an object")
        return {name: decode_value(one, arguments[1], _join(place, name)) for name, one in value.items()}
    if not (_is_number(value) if hint is float else type(value) is hint):
        _fail(place, value, _SIMPLE[hint])
    return hint(value)


def _object(value: Any, kind: Any, place: str) -> Any:
    if not isinstance(value, dict):
        _fail(place, value, "an object")
    hints, given = _hints(kind), {}
    for field in fields(kind):
        where = _join(place, field.name)
        if field.name in value:
            given[field.name] = decode_value(value[field.name], hints[field.name], where)
        elif field.default is MISSING:
            raise ValueError(f"{where} is missing")
    try:
        return kind(**given)
    except ValueError as error:
        raise ValueError(_join(place, str(error))) from error


def _list(value: Any, hints: tuple[Any, ...], place: str) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        _fail(place, value, "a list")
    if hints[1:] == (...,):
        hints = hints[:1] * len(value)
    if len(value) != len(hints):
        _fail(place, value, f"a list of {len(hints)} values")
    return tuple(
        decode_value(one, hint, f"{place}[{i}]") for i, (one, hint) in enumerate(zip(value, hints, strict=True))
    )


def _is_number(value: Any) -> bool:
    """Whether a value is a number that a float can hold; NaN is not, nor is an integer of 400 digits."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _join(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name


def _fail(place: str, value: Any, rule: str) -> Any:
    raise ValueError(f"{place} is {reprlib.repr(value)}; it must be {rule}")


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: is damaged (not text); write it again") from error
    except OSError as error:
        raise ValueError(f"{path}: cannot be read ({system_reason(error)})") from error
