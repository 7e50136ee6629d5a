"""Logging for TensorBoard, the extra "tensorboard"."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def tensorboard(path: Path) -> Iterator[Callable[[Mapping[str, Any]], None]]:
    """Yield a function that writes rows of the log into event files in the folder `path`."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise ValueError(
            "--tensorboard needs tensorboard, which is not installed; pip install 'qecnet[tensorboard]'"
        ) from error
    with SummaryWriter(str(path)) as writer:

        def write(row: Mapping[str, Any]) -> None:
            for name, value in row.items():
                if isinstance(value, float):
                    writer.add_scalar(name, value, row["epoch"])
            writer.flush()

        yield write
