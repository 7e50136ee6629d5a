"""Standard input as a path, and standard error, which libraries write to directly, bypassing Python."""

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

STANDARD_INPUT = "-"
"""The path that stands for it."""

_STDERR = 2  # the descriptor, which libraries write to, not Python's `sys.stderr`
_lock = threading.Lock()


@contextmanager
def discard_stderr() -> Iterator[None]:
    """Discard what is written to standard error inside the block, by this process's libraries as well.

    If standard error is closed or no descriptor is left, nothing is discarded.
    """
    with _lock, ExitStack() as stack:
        try:
            nowhere = stack.enter_context(open(os.devnull, "wb"))
            stderr = os.dup(_STDERR)
        except OSError:
            yield
            return
        if sys.stderr is not None:
            sys.stderr.flush()
        stack.callback(os.close, stderr)
        stack.callback(os.dup2, stderr, _STDERR)
        os.dup2(nowhere.fileno(), _STDERR)
        yield
