"""Numbers out of text, many times faster than one Python float at a time, and as exact."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from qecnet.data._parts import Malformed

_BLOCK = 1 << 16  # bytes worked on at once: what it takes beside the result stays in the cache
_TENS = 10.0 ** np.arange(23)  # all that float64 holds exactly


def numbers(text: bytes) -> NDArray[np.float64]:
    """All numbers of a text, in order; anything between two of them is white space."""
    return np.concatenate([_values(block) for block in _blocks(text)] or [np.empty(0)])


def rows(text: bytes) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """All numbers of a text, and how many of them stand on each line that is not blank."""
    values, counts = [np.empty(0)], [np.empty(0, np.int64)]
    for block in _blocks(text):
        ends = _word_ends(block)
        breaks = np.flatnonzero(np.frombuffer(block, np.uint8) == ord("\n"))
        values.append(_values(block))
        counts.append(np.diff(np.searchsorted(ends, breaks), prepend=0, append=len(ends)))
    count = np.concatenate(counts)
    return np.concatenate(values), count[count > 0]


def table(text: bytes) -> NDArray[np.float64]:
    """The numbers of a text as (lines, columns)."""
    values, counts = rows(text)
    if len(counts) == 0:
        raise Malformed("holds no numbers; a cloud needs at least one line of them")
    if (counts != counts[0]).any():
        line = int((counts != counts[0]).argmax())
        raise Malformed(
            f"has {counts[line]} numbers on line {line + 1} of its data and {counts[0]} on the first; "
            "each line needs as many"
        )
    return values.reshape(len(counts), counts[0])


def without_comments(text: bytes) -> bytes:
    """The text with ``#`` and all that follows it on a line taken out, and every line ended by a line feed."""
    if b"#" in text:
        text = re.sub(rb"#[^\r\n]*", b"", text)
    return text.replace(b"\r", b"\n") if b"\n" not in text else text


def _blocks(text: bytes) -> Iterator[bytes]:
    """The text in pieces that end with a line (or with the text), each between two spaces."""
    start = 0
    while start < len(text):
        end = text.find(b"\n", start + _BLOCK) + 1 or len(text)
        yield b" " + text[start:end] + b" "
        start = end


def _word_ends(block: bytes) -> NDArray[np.int64]:
    """Where in the block each word has its last character."""
    blank = np.frombuffer(block, np.uint8) <= ord(" ")
    return np.flatnonzero(blank[1:] > blank[:-1])


def _values(block: bytes) -> NDArray[np.float64]:
    values = _decimals(block)
    return _floats(block) if values is None else values


def _floats(block: bytes) -> NDArray[np.float64]:
    """The long way: any number that C reads, `1e-5` and `nan` among them."""
    words = len(_word_ends(block))
    try:
        values = np.fromstring(block, sep=" ") if words else np.empty(0)
    except ValueError:
        values = np.empty(0)
    # One word can pass for two numbers (`1-2`), and older NumPy stops at the first bad word with a warning alone.
    if len(values) != words:
        word = next((w for w in block.split() if not _is_number(w)), b"")
        raise Malformed(f"has {word[:20]!r} where a number belongs; the file is damaged or of another kind")
    return values


def _decimals(block: bytes) -> NDArray[np.float64] | None:
    """The values of a block of plain decimals such as `-12.5`, or None where anything else is in it.

    The digits without their point are an integer, which C reads many times faster than it reads a float. Below 2^53,
    and over a power of ten up to 10^22, it makes one division of two exact numbers, which rounds as it should.
    """
    characters = np.frombuffer(block, np.uint8)
    if characters.max() > ord("9") or b"+" in block:
        return None
    signs, points = np.flatnonzero(characters == ord("-")), np.flatnonzero(characters == ord("."))
    # A sign opens a word and a point touches a digit; C would take a lone `-` for 0, and `.-5` is no number at all.
    lone = characters[points - 1] < ord("0")
    if (characters[signs - 1] > ord(" ")).any() or (characters[points[lone] + 1] < ord("0")).any():
        return None
    if (characters[signs + 1] <= ord(" ")).any():
        return None
    try:
        digits = np.fromstring(block.replace(b".", b""), np.int64, sep=" ")
    except ValueError:
        return None
    ends = _word_ends(block)
    if len(digits) != len(ends) or digits.max() >= 2**53 or digits.min() <= -(2**53):
        return None
    # With a point in every word there is no need to search for the word of each.
    word = np.arange(len(ends)) if len(points) == len(ends) else np.searchsorted(ends, points)
    places = np.zeros(len(ends), np.int64)
    places[word] = ends[word] - points
    if (word[1:] == word[:-1]).any() or places.min() < 0 or places.max() >= len(_TENS):
        return None
    return digits / _TENS[places]


def _is_number(word: bytes) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True
