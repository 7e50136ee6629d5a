"""Points and normals in text, replaced where they are: every other byte stays, and numbers keep their digits."""

import re
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from qecnet.formats._numbers import parse_numbers
from qecnet.formats.motion import XYZ, Float64Array, Motion

Words = NDArray[np.int64]
"""(W, 2), the start and the end of each word in a text; or (N, 3, 2), those of N rows of three numbers."""

_BLOCK = 1 << 16  # words formatted at once
_DIGITS = 7  # significant digits of a shape's size that are always written, as many as float32 has


def find_words(text: bytes, start: int) -> Words:
    """Every word of a text behind `start`. → (W, 2)"""
    blank = np.frombuffer(b" " + text[start:] + b" ", np.uint8) <= ord(" ")
    edges = np.flatnonzero(blank[1:] != blank[:-1]) + start
    return edges.reshape(-1, 2)


def find_triples(text: bytes, keyword: bytes) -> Words:
    """The three words behind each keyword (a regular expression) that begins a line. → (N, 3, 2)"""
    pattern = re.compile(rb"^[ \t]*" + keyword + rb"[ \t]+(\S+)[ \t]+(\S+)[ \t]+(\S+)", re.MULTILINE)
    spans = [line.span(place) for line in pattern.finditer(text) for place in (1, 2, 3)]
    return np.array(spans, np.int64).reshape(-1, 3, 2)


def move_named_words(data: bytes, words: Words, names: list[str], normals: tuple[str, ...], motion: Motion) -> bytes:
    """Move x, y, z and, where there are any, normals in a table of words with a name for each column."""
    rows = words.reshape(-1, len(names), 2)
    points, directions = (rows[:, [names.index(n) for n in group if n in names]] for group in (XYZ, normals))
    return move_words(data, points, directions if directions.shape[1] == 3 else None, motion)


def move_words(data: bytes, points: Words, normals: Words | None, motion: Motion) -> bytes:
    """The text with the numbers at the given places moved."""
    groups = [(points, motion.points(word_values(data, points)))]
    if normals is not None and len(normals):
        groups.append((normals, motion.directions(word_values(data, normals))))
    words = np.concatenate([places.reshape(-1, 2) for places, _ in groups])
    values = np.concatenate([moved.reshape(-1) for _, moved in groups]) + 0.0  # no −0.0
    styles = [style for places, moved in groups for style in [_style(data, places.reshape(-1, 2), moved)] * moved.size]
    order = words[:, 0].argsort(kind="stable")
    starts, ends, ranked = words[order, 0].tolist(), words[order, 1].tolist(), values[order].tolist()
    between = [data[end:start] for end, start in zip([0, *ends[:-1]], starts, strict=True)]
    if b"%" in data:
        between = [piece.replace(b"%", b"%%") for piece in between]
    pieces = []
    for at in range(0, len(between), _BLOCK):
        block = slice(at, at + _BLOCK)
        ordered = [styles[place] for place in order[block].tolist()]
        template = b"".join(chain.from_iterable(zip(between[block], ordered, strict=True)))
        pieces.append(template % tuple(ranked[block]))
    return b"".join([*pieces, data[ends[-1] :]])


def word_values(data: bytes, words: Words) -> Float64Array:
    """The numbers at the given places. (..., 2) → (...)"""
    spans = words.reshape(-1, 2).tolist()
    return parse_numbers(b"\n".join([data[start:end] for start, end in spans])).reshape(words.shape[:-1])


def _style(data: bytes, words: Words, values: Float64Array) -> bytes:
    """A printf format with as many digits as the most precise word, and enough for values (N, 3) to differ."""
    first = int(words[:, 0].min())
    characters = np.frombuffer(data, np.uint8)[first : int(words[:, 1].max())]
    exponents = _inside(np.flatnonzero((characters | 0x20) == ord("e")) + first, words)
    finite = values[np.isfinite(values).all(-1)]
    largest = float(np.abs(finite).max(initial=0.0))
    size = float(np.ptp(finite, axis=0).max()) or largest if len(finite) else 0.0
    needed = significant = 0
    if 0 < size < np.inf:
        needed = _DIGITS - 1 - int(np.floor(np.log10(size)))
        significant = needed + 1 + int(np.floor(np.log10(largest)))
    if len(exponents):
        mantissa = int((exponents[:, 0] - exponents[:, 1]).max())
        return b"%%.%dg" % min(max(mantissa, _DIGITS, significant), 17)
    points = _inside(np.flatnonzero(characters == ord(".")) + first, words)
    decimals = max(int((points[:, 2] - points[:, 0]).max()) - 1 if len(points) else 0, needed)
    return b"%.17g" if decimals > 17 else b"%%.%df" % decimals


def _inside(places: NDArray[np.int64], words: Words) -> NDArray[np.int64]:
    """Of places in a text, those inside words, each with the start and the end of its word. → (K, 3)"""
    ranked = words[words[:, 0].argsort(kind="stable")]
    word = ranked[np.searchsorted(ranked[:, 0], places, side="right") - 1]
    inside = places < word[:, 1]
    return np.column_stack([places, word])[inside]
