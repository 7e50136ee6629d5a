"""`qec train`: the training command, which can be interrupted while torch is imported."""

from __future__ import annotations

import functools
from typing import Any

from qecnet import training
from qecnet.cli._interrupts import quiet_interrupts


@functools.wraps(training.train)
def train(**options: Any) -> None:
    with quiet_interrupts():
        import torch  # noqa: F401 (what takes longest of what training imports)
    training.train(**options)
