"""The page: pieces of HTML, each table with the CSV behind it, and how they are put together into one file."""

from __future__ import annotations

import base64
import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape
from importlib.resources import files

DASH = "–"

Value = str | int | float | None


@dataclass(frozen=True)
class Csv:
    """A table as data: all digits, shares as 0..1, nothing where there is no value."""

    name: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Value]]

    def encoded(self) -> bytes:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows(self.rows)
        return text.getvalue().encode()


@dataclass(frozen=True)
class Cell:
    """HTML in a table, over `span` columns or `rows` rows."""

    html: str
    span: int = 1
    rows: int = 1
    kind: str = ""


@dataclass(frozen=True)
class Group:
    """Rows of a table under a heading of their own; rows with `ours` are set off."""

    title: str
    rows: Sequence[Sequence[Cell | str]]
    ours: bool = False


@dataclass
class Section:
    """A part of the page, with the tables to be written beside it."""

    key: str
    title: str
    html: list[str] = field(default_factory=list)
    tables: list[Csv] = field(default_factory=list)

    def say(self, text: str) -> None:
        """A paragraph; the text is HTML."""
        self.html.append(f"<p>{text}</p>")

    def note(self, text: str) -> None:
        """A paragraph in small letters, like a caption; the text is HTML."""
        self.html.append(f'<p class="note">{text}</p>')

    def table(
        self,
        caption: str,
        head: Sequence[Sequence[Cell | str]],
        groups: Sequence[Group],
        data: Csv,
        *,
        words: int = 1,
    ) -> None:
        """A table with a caption (HTML); the first `words` columns are words and not figures."""
        body = "".join(_group(group, words) for group in groups if group.rows)
        self.html.append(
            f'<figure class="table"><figcaption>{caption} {self._download(data)}</figcaption>'
            f'<div class="scroll" tabindex="0"><table><thead>{_head(head, words)}</thead>{body}</table></div></figure>'
        )

    def figure(
        self, caption: str, panels: Iterable[str], data: Csv | None = None, legend: str = "", small: bool = False
    ) -> None:
        """Panels side by side, as many as fit, with a legend and a caption (HTML); `small` ones in even columns."""
        download = "" if data is None else f" {self._download(data)}"
        self.html.append(
            f'<figure class="drawing">{legend}<div class="panels{" small" if small else ""}">{"".join(panels)}</div>'
            f"<figcaption>{caption}{download}</figcaption></figure>"
        )

    def folded(self, title: str, inside: Section) -> None:
        """What is there for those who open it."""
        self.html.append(f"<details><summary>{escape(title)}</summary>{''.join(inside.html)}</details>")
        self.tables += inside.tables

    def _download(self, data: Csv) -> str:
        self.tables.append(data)
        content = base64.b64encode(data.encoded()).decode()
        return f'<a class="csv" download="{escape(data.name)}" href="data:text/csv;base64,{content}">CSV</a>'


def percent(share: float | None) -> str:
    """87.1, for a share of 0..1."""
    return DASH if share is None else f"{100 * share:.1f}"


def two_digits(value: float | None) -> str:
    """0.09: as the paper gives its errors."""
    return DASH if value is None else f"{value:.2f}"


def number(value: float | None, form: str = ",") -> str:
    return DASH if value is None else format(value, form)


def small(value: float | None) -> str:
    """0.04, or a power of ten where that would be mostly zeros."""
    if value is None or value == 0 or abs(value) >= 0.001:
        return DASH if value is None else f"{value:.2g}"
    digits, _, power = f"{value:.1e}".partition("e")
    return f"{digits}·10<sup>{int(power)}</sup>".replace("-", "−")


def between(interval: Sequence[float], form: str = ".1f", scale: float = 100, told: str = "") -> str:
    """An interval, small, on a line of its own."""
    low, high = (format(scale * bound, form) for bound in interval)
    return f'<small class="interval">{told}{low} to {high}</small>'


def words(name: str) -> str:
    """A class or a kind as people write it."""
    return escape(name.replace("_", " "))


def dataset_name(name: str) -> str:
    return escape(
        {"modelnet10": "ModelNet10", "modelnet40": "ModelNet40", "shapes": "generated furniture"}.get(name, name)
    )


def chip(protocol: str) -> str:
    """The name of a protocol, as a mark."""
    return f'<span class="chip {escape(protocol)}">{escape(protocol)}</span>'


def not_measured(what: str, run: str, protocol: str | None = None) -> str:
    """A sentence on what is not there, and the command that measures it."""
    under, option = (f" under the protocol {chip(protocol)}", f" --protocol {protocol}") if protocol else ("", "")
    return (
        f"This has not been measured{under}; {command(f'qec evaluate {what} {run} --data PATH{option}')} measures it."
    )


def no_predictions(what: str, run: str) -> str:
    """A sentence on pictures that are drawn from what was said of each view, where that was not kept."""
    again = command(f"qec evaluate {what} {run} --data PATH --protocol strict")
    return f"This is drawn from predictions of single views, and the run's folder has none; {again} makes them."


def command(text: str) -> str:
    """What to type; lines break between its words only."""
    return f"<code>{' '.join(f'<span>{escape(word)}</span>' for word in text.split(' '))}</code>"


def legend(*entries: tuple[str, str]) -> str:
    """What lines and marks mean: pairs of a CSS class (colour and form) and a text."""
    return '<p class="legend">' + "".join(f'<span><i class="{k}"></i>{escape(t)}</span>' for k, t in entries) + "</p>"


def document(title: str, head: str, sections: Sequence[Section], script: bool) -> str:
    """The whole page: one file that needs no other."""
    own = files(__package__)
    style = own.joinpath("style.css").read_text(encoding="utf-8")
    contents = "".join(f'<li><a href="#{s.key}">{escape(s.title)}</a></li>' for s in sections)
    body = "".join(f'<section id="{s.key}"><h2>{escape(s.title)}</h2>{"".join(s.html)}</section>' for s in sections)
    drawn = f"<script>{own.joinpath('clouds.js').read_text(encoding='utf-8')}</script>" if script else ""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{style}</style></head><body><main>"
        f"<header>{head}<nav><ol>{contents}</ol></nav></header>{body}</main>{drawn}</body></html>\n"
    )


def _head(rows: Sequence[Sequence[Cell | str]], words: int) -> str:
    html = []
    for number, row in enumerate(rows):
        cells = [_cell(cell, "th", "words" if number == 0 and i < words else "") for i, cell in enumerate(row)]
        html.append(f"<tr>{''.join(cells)}</tr>")
    return "".join(html)


def _group(group: Group, words: int) -> str:
    width = sum(cell.span if isinstance(cell, Cell) else 1 for cell in group.rows[0])
    title = f'<tr class="title"><th colspan="{width}" scope="rowgroup"><span>{group.title}</span></th></tr>'
    rows = "".join(
        "<tr>"
        + "".join(_cell(c, "td" if i else "th", "words" if i < words else "") for i, c in enumerate(row))
        + "</tr>"
        for row in group.rows
    )
    return f"<tbody{' class=ours' if group.ours else ''}>{title if group.title else ''}{rows}</tbody>"


def _cell(cell: Cell | str, tag: str, kind: str) -> str:
    if isinstance(cell, str):
        cell = Cell(cell)
    classes = f"{kind} {cell.kind}".strip()
    attributes = f' class="{classes}"' if classes else ""
    attributes += f' colspan="{cell.span}"' if cell.span > 1 else ""
    attributes += f' rowspan="{cell.rows}"' if cell.rows > 1 else ""
    return f"<{tag}{attributes}>{cell.html}</{tag}>"
