"""JSON from files, asked for by name and type: what is missing or of another kind is one sentence with its place."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn


@dataclass(frozen=True)
class Record:
    """A JSON object; `path` and `place` say where it stands."""

    values: dict[str, Any]
    path: Path
    place: str = ""

    @staticmethod
    def read(path: Path) -> Record:
        """The object that a JSON file holds."""
        return _parsed(_text(path), path, "")

    @staticmethod
    def read_lines(path: Path) -> list[Record]:
        """The objects of a file with one on each line."""
        lines = enumerate(_text(path).splitlines(), start=1)
        return [_parsed(line, path, f"line {number}: ") for number, line in lines if line.strip()]

    def text(self, name: str) -> str:
        value = self._get(name)
        return value if isinstance(value, str) else self._fail(name, "no text")

    def texts(self, name: str) -> tuple[str, ...]:
        values = self._list(name)
        return tuple(values) if all(isinstance(v, str) for v in values) else self._fail(name, "no list of texts")

    def number(self, name: str) -> float:
        value: float = self._get(name)
        return value if _is_number(value) else self._fail(name, "no number")

    def integer(self, name: str) -> int:
        value = self._get(name)
        return value if type(value) is int else self._fail(name, "no whole number")

    def number_or_none(self, name: str) -> float | None:
        """None also where the name is not there at all."""
        return None if self.values.get(name) is None else self.number(name)

    def numbers(self, name: str, length: int) -> tuple[float, ...]:
        values = self._list(name)
        if len(values) != length or not all(_is_number(v) for v in values):
            self._fail(name, f"no list of {length} numbers")
        return tuple(values)

    def record(self, name: str) -> Record:
        return self._record(name, self._get(name))

    def record_or_none(self, name: str) -> Record | None:
        """None also where the name is not there at all."""
        return None if self.values.get(name) is None else self.record(name)

    def records(self, name: str) -> list[Record]:
        return [self._record(f"{name}[{i}]", value) for i, value in enumerate(self._list(name))]

    def counts(self, name: str, size: int) -> tuple[tuple[int, ...], ...]:
        """A square of whole numbers, from 0."""
        rows = self._list(name)
        square = len(rows) == size and all(isinstance(row, list) and len(row) == size for row in rows)
        if not square or any(type(n) is not int or n < 0 for row in rows for n in row):
            self._fail(name, f"no square of {size} × {size} counts")
        return tuple(tuple(row) for row in rows)

    def __iter__(self) -> Iterator[str]:
        return iter(self.values)

    def _record(self, name: str, value: Any) -> Record:
        if not isinstance(value, dict):
            self._fail(name, "no object")
        return Record(value, self.path, f"{self.place}{name}.")

    def _list(self, name: str) -> list[Any]:
        value = self._get(name)
        return value if isinstance(value, list) else self._fail(name, "no list")

    def _get(self, name: str) -> Any:
        return self.values[name] if name in self.values else self._fail(name, "not there")

    def _fail(self, name: str, what: str) -> NoReturn:
        raise ValueError(f"{self.path}: is damaged, or of another version of qec ({self.place}{name} is {what})")


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: is damaged (it is not text)") from error
    except OSError as error:
        raise ValueError(f"{path}: cannot be read ({(error.strerror or str(error)).lower()})") from error


def _parsed(text: str, path: Path, place: str) -> Record:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: is damaged ({place}it is not JSON: {error})") from error
    if not isinstance(value, dict):
        raise ValueError(f"{path}: is damaged ({place}it is no JSON object)")
    return Record(value, path, place)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
