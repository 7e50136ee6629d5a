"""Dataclasses from JSON, checked against their type hints: the first mismatch is one sentence that names its place."""

from __future__ import annotations

import json
import math
import types
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")


def decode_file(path: Path, kind: type[T]) -> T:
    """Read a dataclass from a JSON file.

    Raises:
        ValueError: if the file cannot be read, is not a JSON object, or does not match the fields of `kind`.
    """
    return decode(parse_object(_read_text(path), path), kind, path)


def decode_lines(path: Path, kind: type[T]) -> tuple[T, ...]:
    """Read a dataclass from each line of a JSON Lines file."""
    lines = [line for line in _read_text(path).splitlines() if line.strip()]
    return tuple(decode(parse_object(line, path), kind, path) for line in lines)


def parse_object(text: str, path: Path) -> dict[str, Any]:
    """Parse a JSON object; `path` is named in errors."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: is damaged (not JSON: {error}); write it again") from error
    if not isinstance(value, dict):
        raise ValueError(f"{path}: is damaged (not a JSON object); write it again")
    return value


def decode(value: Mapping[str, Any], kind: type[T], path: Path) -> T:
    """Build a dataclass from a parsed JSON object; unknown names are ignored, missing ones take their defaults."""
    try:
        found: T = _decoded(value, kind, "")
    except _MismatchError as error:
        raise ValueError(f"{path}: is damaged, or from another version of qecnet ({error})") from error
    return found


class _MismatchError(Exception):
    """A value that does not have the type of its field."""


_SIMPLE = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}


def _decoded(value: Any, hint: Any, place: str) -> Any:
    origin, arguments = get_origin(hint), get_args(hint)
    if is_dataclass(hint):
        return _object(value, hint, place)
    if origin in (Union, types.UnionType):
        (inner,) = (one for one in arguments if one is not type(None))
        return None if value is None else _decoded(value, inner, place)
    if origin is Literal:
        return value if value in arguments else _fail(place, f"is not one of {', '.join(arguments)}")
    if origin is tuple:
        return _list(value, arguments, place)
    if origin is not None:  # a mapping from text
        if not isinstance(value, dict):
            _fail(place, "is not an object")
        return {name: _decoded(one, arguments[1], _join(place, name)) for name, one in value.items()}
    number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not (number if hint is float else type(value) is hint):
        _fail(place, f"is not {_SIMPLE[hint]}")
    return value


def _object(value: Any, kind: Any, place: str) -> Any:
    if not isinstance(value, dict):
        _fail(place, "is not an object")
    hints, given = _hints(kind), {}
    for field in fields(kind):
        where = _join(place, field.name)
        if field.name in value:
            given[field.name] = _decoded(value[field.name], hints[field.name], where)
        elif field.default is MISSING:
            _fail(where, "is missing")
    try:
        return kind(**given)
    except ValueError as error:
        raise _MismatchError(_join(place, str(error))) from error


def _list(value: Any, hints: tuple[Any, ...], place: str) -> tuple[Any, ...]:
    if not isinstance(value, list):
        _fail(place, "is not a list")
    if hints[1:] == (...,):
        hints = hints[:1] * len(value)
    if len(value) != len(hints):
        _fail(place, f"is not a list of {len(hints)} values")
    return tuple(_decoded(one, hint, f"{place}[{i}]") for i, (one, hint) in enumerate(zip(value, hints, strict=True)))


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _join(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name


def _fail(place: str, problem: str) -> Any:
    raise _MismatchError(f"{place} {problem}")


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: is damaged (not text); write it again") from error
    except OSError as error:
        raise ValueError(f"{path}: cannot be read ({(error.strerror or str(error)).lower()})") from error
