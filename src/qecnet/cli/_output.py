"""What commands print and write: errors in one sentence, tables row by row, and checks of output files."""

import codecs
import math
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from shutil import get_terminal_size
from typing import TextIO

import typer

from qecnet.schema import printable

_ASCII = {"°": " deg", "–": "-", "×": "x", "…": "...", "→": "->"}


@contextmanager
def one_sentence() -> Iterator[None]:
    """Turn errors that users can fix (bad input, unwritable output) into one sentence on stderr and exit code 1."""
    try:
        yield
    except BrokenPipeError:
        raise
    except (ValueError, OSError) as error:
        print_error(str(error))
        raise typer.Exit(1) from error


def print_error(sentence: str) -> None:
    """Print why something could not be done on standard error."""
    typer.echo(f"qec: {printable(sentence)}", err=True)


def use_plain_characters(*streams: TextIO) -> None:
    """Make streams that cannot encode a character write a readable substitute, such as `deg` for `°`."""
    codecs.register_error("qec-plain", _substitute)
    for stream in streams:
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="qec-plain")


def _substitute(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    return "".join(_ASCII.get(c, "?") for c in error.object[error.start : error.end]), error.end


def discard_output() -> None:
    """Discard the rest of standard output, so that Python does not report a closed pipe when it exits."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def angle_about_axis(pose: Sequence[float]) -> str:
    """A unit quaternion, WXYZ, for people to read: `90° about (0.00, 0.00, 1.00)`."""
    w, *axis = pose if pose[0] >= 0 else [-value for value in pose]
    sine = math.hypot(*axis)
    x, y, z = (value / sine for value in axis) if sine > 1e-9 else (0.0, 0.0, 1.0)
    return f"{math.degrees(2 * math.atan2(sine, w)):.0f}° about ({x:.2f}, {y:.2f}, {z:.2f})"


def print_table(columns: dict[str, int], rows: Iterable[tuple[str, ...]], first_width: int) -> None:
    """Print each row as soon as it is available; a column's width is negative where it is aligned to the right.

    Args:
        columns: headings and widths of all columns but the first.
        rows: the cells, as many as there are columns, plus the first.
        first_width: of the first column, which is called "file". Where the terminal is too narrow for it, it gets a
            line of its own, so that no path is broken.
    """
    first_width = max(first_width, len("file"))
    rest = sum(abs(width) + 2 for width in columns.values())
    apart = sys.stdout.isatty() and first_width + rest > get_terminal_size().columns
    heading: tuple[str, ...] | None = ("file", *columns)
    for row in rows:
        for first, *cells in filter(None, (heading, row)):
            line = "  ".join(
                text.rjust(-width) if width < 0 else text.ljust(width)
                for text, width in zip(cells, columns.values(), strict=True)
            )
            start = f"{printable(first)}\n" if apart else printable(first).ljust(first_width)
            print(f"{start}  {printable(line)}".rstrip(), flush=True)
        heading = None


def check_writable(path: Path, force: bool, suffixes: Sequence[str]) -> None:
    """Refuse an output that exists or cannot be written, before any work is done."""
    if not path.parent.is_dir():
        raise ValueError(f"{path}: there is no folder {path.parent}; create it first")
    from qecnet.files import find_write_obstacle

    if error := refuse_output(path, force, suffixes, find_write_obstacle(path.parent)):
        raise ValueError(error)


def refuse_output(path: Path, force: bool, suffixes: Sequence[str], obstacle: str) -> str:
    """The sentence for an output file that cannot be written; empty if it can. `obstacle` is that of its folder."""
    if path.suffix.lower() not in suffixes:
        *most, last = (f"*{suffix}" for suffix in suffixes)
        names = f"{', '.join(most)} or {last}" if most else last
        return f"{path}: cannot write this type of file; name it {names}"
    if path.is_dir():
        return f"{path}: is a folder; give the name of a file"
    if path.exists() and not force:
        return f"{path}: exists already; name another file, or overwrite it with --force"
    return f"{path}: cannot be written ({obstacle}); choose another folder" if obstacle else ""


def count_of(count: int, noun: str) -> str:
    """A count with its noun: `1 file`, `2,000 files`."""
    return f"{count:,} {noun if count == 1 else f'{noun}s'}"
