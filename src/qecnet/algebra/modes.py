"""Modes of torch, entered only where they change anything: entering takes time, and exporters write it down."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch


def is_exporting() -> bool:
    """Whether a graph for other runtimes is being written: it should be of few and plain operations."""
    return torch.compiler.is_exporting() or bool(torch.jit.is_tracing())  # type: ignore[attr-defined,no-untyped-call]


def full_precision(device: torch.device) -> AbstractContextManager[Any]:
    """Without autocast, where it is on."""
    on = torch.is_autocast_enabled(device.type)
    return torch.autocast(device.type, enabled=False) if on else nullcontext()


def grad_where(enabled: bool) -> AbstractContextManager[Any]:
    """Gradients where they are wanted, unless the caller has switched them off altogether."""
    if enabled or not torch.is_grad_enabled():
        return nullcontext()
    return torch.no_grad()
