"""Working through many votes in pieces that stay in the processor's cache: memory traffic is what votes cost."""

import math
import threading

import torch
from torch import Tensor

_VOTES_A_PIECE = 2**17
_kept = threading.local()


def flat(x: Tensor, keep: int) -> Tensor:
    """All but the last `keep` axes made one: (..., *last) → (N, *last); a view wherever memory allows."""
    return x.reshape(math.prod(x.shape[: x.dim() - keep]), *x.shape[x.dim() - keep :])


def pieces(votes: Tensor) -> list[slice]:
    """Slices of the first axis of (N, M, L, 4) or (N, M, 4, L) that hold about two megabytes each; one on a GPU."""
    if votes.device.type != "cpu" or torch.compiler.is_compiling():
        return [slice(None)]
    count, each = votes.shape[0], max(votes.shape[1:].numel() // 4, 1)
    size = max(_VOTES_A_PIECE // each, 1)
    return [slice(start, start + size) for start in range(0, count, size)]


def scratch(shape: tuple[int, ...], like: Tensor) -> Tensor:
    """Memory for a piece's intermediate result, the same each time: fresh memory costs more than the arithmetic.

    Whatever asks next overwrites it, so it must never leave the loop over the pieces.
    """
    if like.device.type != "cpu" or torch.compiler.is_compiling():
        return torch.empty(shape, dtype=like.dtype, device=like.device)
    size = math.prod(shape)
    buffer: Tensor | None = getattr(_kept, str(like.dtype), None)
    if buffer is None or buffer.numel() < size:
        with torch.inference_mode(False):
            buffer = torch.empty(size, dtype=like.dtype)
        setattr(_kept, str(like.dtype), buffer)
    return buffer[:size].view(shape)
