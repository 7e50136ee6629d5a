"""Ctrl-C while modules are imported ends the command without a traceback."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread


@contextmanager
def quiet_interrupts() -> Iterator[None]:
    """Let an interrupt end the process at once, as it does a program that handles none."""
    if current_thread() is not main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def import_models() -> None:
    """Import what takes longest of what commands import; those that check their options call this afterwards."""
    with quiet_interrupts():
        import qecnet.models  # noqa: F401
