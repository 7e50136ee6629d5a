"""Working through many votes in pieces that stay in the processor's cache: memory traffic is what votes cost."""

import torch
from torch import Tensor

_VOTES_A_PIECE = 2**17


def pieces(votes: Tensor) -> list[slice]:
    """Slices of the first axis of (N, M, L, 4) or (N, M, 4, L) that hold about two megabytes each; one on a GPU."""
    count, each = votes.shape[0], max(votes[0].numel() // 4, 1) if votes.shape[0] else 1
    size = count if votes.device.type != "cpu" or torch.compiler.is_compiling() else max(_VOTES_A_PIECE // each, 1)
    return [slice(start, start + size) for start in range(0, count, max(size, 1))]
