"""Numbers out of text, many times faster than one Python float at a time, and as exact."""

import re
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qecnet.formats._parts import Malformed

_BLOCK = 1 << 16  # bytes worked on at once, so that the intermediate arrays stay in the cache
_TENS = 10.0 ** np.arange(23)  # all powers of ten that float64 holds exactly


def parse_numbers(text: bytes) -> NDArray[np.float64]:
    """All numbers of a text, in order, separated by white space."""
    return np.concatenate([_values(block) for block in _blocks(text)] or [np.empty(0)])


def parse_rows(text: bytes) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """All numbers of a text, and how many of them are on each line that is not blank."""
    values, counts = [np.empty(0)], [np.empty(0, np.int64)]
    for block in _blocks(text):
        ends = np.flatnonzero(_is_end(block))
        breaks = np.flatnonzero(np.frombuffer(block, np.uint8) == ord("\n"))
        values.append(_values(block))
        counts.append(np.diff(np.searchsorted(ends, breaks), prepend=0, append=len(ends)))
    count = np.concatenate(counts)
    return np.concatenate(values), count[count > 0]


def parse_table(text: bytes) -> NDArray[np.float64]:
    """The numbers of a text as (lines, columns)."""
    values, counts = parse_rows(text)
    if len(counts) == 0:
        raise Malformed("holds no numbers; a cloud needs at least one line of them")
    if (counts != counts[0]).any():
        line = int((counts != counts[0]).argmax())
        raise Malformed(
            f"has {counts[line]} numbers on line {line + 1} of its data and {counts[0]} on the first; "
            "every line needs the same number of columns"
        )
    return values.reshape(len(counts), counts[0])


def blank_comments(text: bytes) -> bytes:
    """The text with ``#`` and all that follows it on a line blanked, and every line ended by a line feed.

    Each remaining byte keeps its place.
    """
    if b"#" in text:
        text = re.sub(rb"#[^\r\n]*", lambda comment: b" " * len(comment[0]), text)
    return text.replace(b"\r", b"\n") if b"\n" not in text else text


def is_number(word: bytes) -> bool:
    """Whether one word is a number in any language; Python alone accepts `1_000`."""
    try:
        float(word)
    except ValueError:
        return False
    return b"_" not in word


def _blocks(text: bytes) -> Iterator[bytes]:
    """The text in pieces that end with a line (or with the text), each between two spaces."""
    start = 0
    while start < len(text):
        end = text.find(b"\n", start + _BLOCK) + 1 or len(text)
        yield b" " + text[start:end] + b" "
        start = end


def _is_end(block: bytes) -> NDArray[np.bool_]:
    """Whether each character of the block is the last of a word."""
    blank = np.frombuffer(block, np.uint8) <= ord(" ")
    return blank[1:] > blank[:-1]


def _values(block: bytes) -> NDArray[np.float64]:
    if block.isspace():
        return np.empty(0)
    values = _decimals(block)
    return _floats(block) if values is None else values


def _floats(block: bytes) -> NDArray[np.float64]:
    """The slow way: any number that C reads, such as `1e-5` and `nan`."""
    try:
        values = _read_words(block, np.float64)
    except ValueError:
        values = np.empty(0)
    # One word can pass for two numbers (`1-2`).
    if len(values) != np.count_nonzero(_is_end(block)):
        word = next((w for w in block.split() if not is_number(w)), b"")
        raise Malformed(f"has {word[:20]!r} in place of a number; the file is damaged or of another format")
    return values


def _read_words(block: bytes, dtype: type[np.generic]) -> NDArray[Any]:
    """NumPy's values of words; a ValueError for an invalid word, where older NumPy warns and returns some number."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)
        try:
            return np.fromstring(block, dtype, sep=" ")
        except DeprecationWarning as error:
            raise ValueError(str(error)) from error


def _decimals(block: bytes) -> NDArray[np.float64] | None:
    """The values of a block of plain decimals such as `-12.5`, or None if it holds anything else.

    Without their point, the digits are an integer, which C parses many times faster than a float. An integer below 2^53
    over a power of ten up to 10^22 is one division of two exact numbers, so the result is rounded correctly.
    """
    characters = np.frombuffer(block, np.uint8)
    # A last word `-` would pass for 0.
    if characters.max() > ord("9") or b"+" in block or block.rstrip().endswith((b"-", b"-.")):
        return None
    try:
        digits: NDArray[np.int64] = _read_words(block.replace(b".", b""), np.int64)
    except ValueError:
        return None
    is_end = _is_end(block)
    if len(digits) != np.count_nonzero(is_end) or digits.max() >= 2**53 or digits.min() <= -(2**53):
        return None
    if b"." not in block:
        return digits.astype(np.float64)
    points, ends = np.flatnonzero(characters == ord(".")), np.flatnonzero(is_end)
    # With a point in every word there is no need to search for the word of each.
    word = slice(None) if len(points) == len(ends) else np.searchsorted(ends, points)
    end = ends[word]
    behind = end - points
    if (points[1:] <= end[:-1]).any() or behind.min() < 0 or behind.max() >= len(_TENS):
        return None
    # Without its point, `.-5` would pass for a number, and a word `.` would vanish.
    if (characters[points + 1] == ord("-")).any() or (characters[points[behind == 0] - 1] < ord("0")).any():
        return None
    places = np.zeros(len(ends), np.int64)
    places[word] = behind
    return digits / _TENS[places]
