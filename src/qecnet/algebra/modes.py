"""Modes of torch, entered only where they change anything: entering takes time and is recorded by exporters."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch


def is_exporting() -> bool:
    """Find out whether a graph is being exported for other runtimes, which should have few and plain operations.

    Returns:
        True inside `torch.export.export` and while tracing.
    """
    return torch.compiler.is_exporting() or bool(torch.jit.is_tracing())  # type: ignore[attr-defined,no-untyped-call]


def full_precision(device: torch.device) -> AbstractContextManager[Any]:
    """Switch off autocast, where it is on, for a block.

    Args:
        device: of the tensors in the block.
    """
    on = torch.is_autocast_enabled(device.type)
    return torch.autocast(device.type, enabled=False) if on else nullcontext()


def grad_where(enabled: bool) -> AbstractContextManager[Any]:
    """Switch gradients on or off for a block; they stay off where the caller has switched them off.

    Args:
        enabled: whether the block should record gradients.
    """
    if enabled or not torch.is_grad_enabled():
        return nullcontext()
    return torch.no_grad()
