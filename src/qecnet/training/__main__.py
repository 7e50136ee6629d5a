"""`python -m qecnet.training`, for torchrun: the same as `qec train`."""

import functools
import sys
from typing import Any

import typer

from qecnet.training.command import train


@functools.wraps(train)
def main(**options: Any) -> None:
    try:
        train(**options)
    except (ValueError, OSError) as error:
        sys.exit(f"qec: {error}")


if __name__ == "__main__":
    typer.run(main)
