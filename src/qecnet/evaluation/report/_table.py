"""A table of the report: formatted cells on the page, all digits in its CSV file."""

import csv
import io
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from markupsafe import Markup

from qecnet.evaluation.results import Accuracy, CorruptionScores, ProtocolName
from qecnet.evaluation.summary import DASH


@dataclass(frozen=True)
class Column:
    """A column: its title, a name of `CELL_FORMATS` for its cells, and the heading over several columns."""

    title: str
    form: str = "text"
    over: str = ""
    gap: bool = False

    @property
    def key(self) -> str:
        """Its name in the CSV file."""
        return re.sub(r"\W+", "_", f"{self.over} {self.title}".lower()).strip("_")


@dataclass(frozen=True)
class RowGroup:
    """Rows under a heading; `ours` are set off, and a chip shows their protocol."""

    title: str
    rows: Sequence[Sequence[Any]]
    protocol: ProtocolName | None = None
    ours: bool = False


@dataclass(frozen=True)
class ReportTable:
    """Columns and rows; `name` is that of its CSV file, and the first `words` columns are words."""

    name: str
    columns: Sequence[Column]
    groups: Sequence[RowGroup]
    words: int = 1

    @property
    def headings(self) -> list[tuple[str, int]]:
        """The headings over columns with the number of columns of each; none if no column has one."""
        spans = [(over, len([*same])) for over, same in groupby(column.over for column in self.columns)]
        return spans if len(spans) > 1 else []

    def cells(self, row: Sequence[Any], above: Sequence[Any] | None) -> Iterable[tuple[str | Markup, str]]:
        """Format a row: text and CSS classes of each cell; a label is not repeated from the row above."""
        faint = "faint" if "symmetric" in row[:2] else ""
        for place, (column, value) in enumerate(zip(self.columns, row, strict=True)):
            text = CELL_FORMATS[column.form](value)
            if place == 0 and above is not None and above[0] == value:
                text = ""
            yield text, f"{faint} {'gap' if column.gap else ''} {'words' if place < self.words else ''}".strip()

    def to_csv(self) -> bytes:
        """Encode the table as CSV: all digits, shares as 0..1, nothing where there is no value."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        keys = [k for c in self.columns for k in ([c.key, f"{c.key}_low", f"{c.key}_high"][: _width(c)])]
        writer.writerow(["group", "protocol", *keys])
        for group in self.groups:
            for row in group.rows:
                writer.writerow([group.title, group.protocol, *self._flat(row)])
        return text.getvalue().encode()

    def _flat(self, row: Sequence[Any]) -> Iterable[Any]:
        for column, value in zip(self.columns, row, strict=True):
            if isinstance(value, Accuracy | CorruptionScores):
                yield from (value.accuracy, *value.interval)
            else:
                yield from (value, *[None] * (_width(column) - 1))


def columns_under(over: str, *columns: tuple[str, str]) -> list[Column]:
    """Make columns of titles and forms under one heading, with a gap before the first."""
    return [Column(title, form, over, gap=place == 0) for place, (title, form) in enumerate(columns)]


def data_table(name: str, keys: Sequence[str], rows: Sequence[Sequence[Any]]) -> ReportTable:
    """Make the table behind a figure, which is only written as CSV."""
    return ReportTable(name, [Column(key) for key in keys], [RowGroup("", rows)])


def _width(column: Column) -> int:
    return 3 if column.form in ("interval", "measured") else 1


def _power(value: float) -> str | Markup:
    """Format 0.04, or a power of ten where that would be mostly zeros."""
    if value == 0 or abs(value) >= 0.001:
        return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2g}"
    digits, _, power = f"{value:.1e}".partition("e")
    return Markup("{}·10<sup>{}</sup>").format(digits.replace("-", "−"), str(int(power)).replace("-", "−"))


def _interval(value: Accuracy | CorruptionScores) -> str | Markup:
    low, high = (f"{100 * bound:.1f}" for bound in value.interval)
    return Markup('{:.1f}<small class="interval">{} to {}</small>').format(100 * value.accuracy, low, high)


def _optional(form: Callable[[Any], str | Markup], missing: str = DASH) -> Callable[[Any], str | Markup]:
    return lambda value: missing if value is None else form(value)


_FORMS: dict[str, Callable[[Any], str | Markup]] = {
    "text": lambda value: str(value).replace("_", " "),
    "percent": lambda share: f"{100 * share:.1f}",
    "published": lambda share: f"{100 * share:.2f}",
    "error": lambda error: f"{error:.2f}",
    "count": lambda number: f"{number:,}" if isinstance(number, int) else str(number),
    "degrees": lambda degrees: f"{degrees:.1f}",
    "seconds": lambda seconds: f"{seconds:.3f}",
    "power": _power,
    "interval": _interval,
    "chip": lambda protocol: Markup('<span class="chip {0}">{0}</span>').format(protocol),
}
CELL_FORMATS = {name: _optional(form) for name, form in _FORMS.items()} | {
    "measured": _optional(_interval, "not measured"),
    "measured error": _optional(_FORMS["error"], "not measured"),
}
"""How cells are shown, by name; they are also the filters of the templates."""
