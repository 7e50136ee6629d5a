"""`qec train`: the training command, with failures in one sentence."""

from __future__ import annotations

import functools
from typing import Any

from qecnet.cli._output import one_sentence
from qecnet.training import command


@functools.wraps(command.train)
def train(**options: Any) -> None:
    with one_sentence():
        command.train(**options)
