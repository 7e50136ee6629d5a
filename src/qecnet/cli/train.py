"""`qec train`: the training command, with failures in one sentence."""

from __future__ import annotations

import functools
from typing import Any

from qecnet import training
from qecnet.cli._interrupts import quiet_interrupts
from qecnet.cli._output import one_sentence


@functools.wraps(training.train)
def train(**options: Any) -> None:
    with one_sentence():
        with quiet_interrupts():
            import torch  # noqa: F401 (what takes longest of what training imports)
        training.train(**options)
