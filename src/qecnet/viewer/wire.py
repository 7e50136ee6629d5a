"""Replies as bytes: a header in JSON, and arrays behind it as they are in memory."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor


def packed(header: Mapping[str, Any], arrays: Mapping[str, Tensor]) -> bytes:
    """The header's length (4 bytes, little-endian), the header, and the arrays, each at a multiple of 4.

    The header tells of each array its type (f4 or u4), its shape and where it begins, counted from the header's end.
    """
    places: dict[str, dict[str, Any]] = {}
    parts: list[bytes] = []
    at = 0
    for name, tensor in arrays.items():
        kind, array = _plain(tensor)
        places[name] = {"type": kind, "shape": [*array.shape], "at": at}
        parts.append(array.tobytes())
        at += len(parts[-1])
    text = json.dumps({**header, "arrays": places}, allow_nan=False).encode()
    text += b" " * (-len(text) % 4)
    return b"".join((len(text).to_bytes(4, "little"), text, *parts))


def unpacked(data: bytes) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """What `packed` packed; the page has this function in JavaScript."""
    end = 4 + int.from_bytes(data[:4], "little")
    header = json.loads(data[4:end])
    arrays = {}
    for name, place in header.pop("arrays").items():
        count = int(np.prod(place["shape"]))
        arrays[name] = np.frombuffer(data, f"<{place['type']}", count, end + place["at"]).reshape(place["shape"])
    return header, arrays


def _plain(tensor: Tensor) -> tuple[str, NDArray[Any]]:
    if tensor.is_floating_point():
        return "f4", np.ascontiguousarray(tensor.float().numpy(), dtype="<f4")
    return "u4", np.ascontiguousarray(tensor.int().numpy(), dtype="<u4")
