"""Responses as bytes: a header in JSON, followed by arrays as they are in memory. The page has `unpack` in wire.js."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor


def pack(header: Mapping[str, Any], arrays: Mapping[str, Tensor] | None = None) -> bytes:
    """Return the header's length (4 bytes, little-endian), the header, and the arrays, each at a multiple of 4.

    The header gives the type of each array (f4 or u4), its shape and its offset from the end of the header.
    """
    layout: dict[str, dict[str, Any]] = {}
    parts: list[bytes] = []
    offset = 0
    for name, tensor in (arrays or {}).items():
        kind, array = _as_array(tensor)
        layout[name] = {"type": kind, "shape": [*array.shape], "offset": offset}
        parts.append(array.tobytes())
        offset += len(parts[-1])
    text = json.dumps({**header, "arrays": layout}, allow_nan=False).encode()
    text += b" " * (-len(text) % 4)
    return b"".join((len(text).to_bytes(4, "little"), text, *parts))


def unpack(data: bytes) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the header and the arrays that `pack` packed."""
    end = 4 + int.from_bytes(data[:4], "little")
    header = json.loads(data[4:end])
    arrays = {}
    for name, at in header.pop("arrays").items():
        count = int(np.prod(at["shape"]))
        arrays[name] = np.frombuffer(data, f"<{at['type']}", count, end + at["offset"]).reshape(at["shape"])
    return header, arrays


def _as_array(tensor: Tensor) -> tuple[str, NDArray[Any]]:
    if tensor.is_floating_point():
        return "f4", np.ascontiguousarray(tensor.float().numpy(), dtype="<f4")
    return "u4", np.ascontiguousarray(tensor.int().numpy(), dtype="<u4")
