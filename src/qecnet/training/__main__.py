"""`python -m qecnet.training`, for torchrun: the same as `qec train`."""

import functools
import os
import sys
from typing import Any

import typer

from qecnet.training import train


@functools.wraps(train)
def main(**options: Any) -> None:
    try:
        train(**options)
    except (ValueError, OSError) as error:
        sys.exit(f"qec: {error}")


def leave(code: str | int | None) -> None:
    """End the process at once: gloo's threads may outlive the interpreter and abort a completed run."""
    if isinstance(code, str):
        print(code, file=sys.stderr)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else int(code is not None))


if __name__ == "__main__":
    try:
        typer.run(main)
    except SystemExit as end:
        if int(os.environ.get("WORLD_SIZE", 1)) == 1:
            raise
        leave(end.code)
