"""Work distributed to processes: results in order or as they are done, and no process left running."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor
from contextlib import contextmanager, suppress
from enum import Enum
from itertools import islice
from multiprocessing import current_process, get_context, parent_process
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from multiprocessing.synchronize import Event
from threading import Thread, active_count
from time import monotonic
from typing import Any, TypeVar

import torch

T = TypeVar("T")
Job = TypeVar("Job")
_CANNOT_START = (
    "no worker process could start; in a script, put the code that needs several workers below "
    'if __name__ == "__main__", or use one worker; otherwise, there may be too little memory'
)
_DIED = "a worker process died; there may be too little memory: use fewer workers"
_STARTS = 3
"""How often in a row a process may die before it is ready, in a run in which others were."""
_PATIENCE = 10.0
"""Seconds that a worker gets to finish its job when the run is stopped."""
_LOOK = 0.5
"""Seconds between two looks at how long jobs have taken."""

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
"""As malloc.h numbers them."""


class Lost(Enum):
    """Why a job has no result: its process died, or was killed because it took too long."""

    DIED = "died"
    LATE = "late"


def in_order(
    function: Callable[..., T],
    jobs: Iterable[tuple[Any, ...]],
    workers: int,
    start: Callable[..., None] | None = None,
    given: tuple[Any, ...] = (),
) -> Generator[T]:
    """Compute `function(*job)` for each job, in order, each on one thread; close the generator to stop.

    Jobs are taken as workers become free. Processes start now, before the caller starts a thread to show progress.

    Args:
        function: of a module, so that processes can import it.
        jobs: the arguments of each call.
        workers: number of processes; one worker is this process itself.
        start: called once in each process, before its first job.
        given: the arguments of `start`.

    Yields:
        The results.

    Raises:
        ChildProcessError: a process died; one sentence.
    """
    results: Generator[Any] = _in_order(function, iter(jobs), workers, start, given)
    next(results)
    return results


def _in_order(
    function: Callable[..., T],
    jobs: Iterator[tuple[Any, ...]],
    workers: int,
    start: Callable[..., None] | None,
    given: tuple[Any, ...],
) -> Generator[T | None]:
    """`in_order`, after a first None for which the workers have begun."""
    if workers == 1:
        yield None
        with one_thread():
            if start is not None:
                start(*given)
            for job in jobs:
                yield function(*job)
        return
    leave_unguarded_script()
    context = get_context(_way_to_start())
    begun = context.Event()
    pool = ProcessPoolExecutor(workers, context, initializer=_start, initargs=(begun, start, given))
    waiting: deque[Future[T]] = deque()
    try:
        for job in islice(jobs, 1):
            with _interrupts_held():
                waiting.append(pool.submit(function, *job))
        yield None
        for job in jobs:
            with _interrupts_held():
                waiting.append(pool.submit(function, *job))
            if len(waiting) > 4 * workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    except BrokenExecutor:
        raise ChildProcessError(_DIED if begun.is_set() else _CANNOT_START) from None
    finally:
        # On early exit, cancel jobs that have not started.
        pool.shutdown(cancel_futures=True)


def as_done(
    function: Callable[[Job], T], take: Callable[[], Job | None], workers: int, timeout: float | None = None
) -> Generator[tuple[Job, T | Lost]]:
    """Compute `function(job)` in processes that may die; results are yielded as soon as they are available.

    Args:
        function: sent to each process once, when that process starts.
        take: returns the next job, or None if there is none now; it is called again after each result.
        workers: the number of processes. Even a single one is not this process, which must survive.
        timeout: seconds that a job may take.

    Yields:
        Each job and its result, or why there is none. Another process takes the place of one that was lost.

    Raises:
        ChildProcessError: if no process becomes ready for a job; one sentence.
    """
    leave_unguarded_script()
    idle: list[_Seat] = []
    busy: dict[Connection, tuple[_Seat, Job]] = {}
    starts = 1  # that may fail before the run ends

    def begin(job: Job) -> None:
        seat = idle.pop() if idle else _Seat(function)
        busy[seat.pipe] = seat, job
        seat.give(job)

    try:
        while True:
            while len(busy) < workers and (job := take()) is not None:
                begin(job)
            if not busy:
                return
            for pipe in wait([*busy], None if timeout is None else _LOOK):
                assert isinstance(pipe, Connection)
                seat, job = busy[pipe]
                try:
                    kind, value = pipe.recv()
                except (EOFError, OSError):
                    del busy[pipe]
                    seat.leave(0)
                    if seat.ready:
                        yield job, Lost.DIED
                        continue
                    starts -= 1
                    if not starts:
                        raise ChildProcessError(_CANNOT_START) from None
                    begin(job)
                    continue
                if kind == "ready":
                    seat.ready, seat.since, starts = True, monotonic(), _STARTS
                    continue
                del busy[pipe]
                idle.append(seat)
                if kind == "error":
                    raise value
                yield job, value
            for pipe, (seat, job) in [*busy.items()]:
                if timeout is not None and seat.ready and monotonic() - seat.since > timeout and not pipe.poll():
                    del busy[pipe]
                    seat.leave(0)
                    yield job, Lost.LATE
    finally:
        seats = [*idle, *(seat for seat, _ in busy.values())]
        for seat in seats:
            seat.give(None)
        for seat in seats:
            seat.leave(_PATIENCE)


class _Seat:
    """A worker process that does one job at a time."""

    def __init__(self, function: Callable[..., Any]) -> None:
        context: Any = get_context(_way_to_start())
        self.pipe, theirs = context.Pipe()
        self.ready, self.since = False, 0.0
        with _interrupts_held():
            self.process: BaseProcess = context.Process(target=_serve, args=(theirs, function), daemon=True)
            self.process.start()
        theirs.close()  # so that its death ends what is read from it

    def give(self, job: Any) -> None:
        self.since = monotonic()
        with suppress(OSError):  # it has died, which is noticed when its result is read
            self.pipe.send(job)

    def leave(self, patience: float) -> None:
        self.process.join(patience)
        self.process.kill()
        self.process.join()
        self.pipe.close()


def _serve(pipe: Connection, function: Callable[[Any], Any]) -> None:
    _settle()
    pipe.send(("ready", None))
    while (job := pipe.recv()) is not None:
        try:
            done = "result", function(job)
        except Exception as error:
            done = "error", error
        pipe.send(done)


def leave_unguarded_script() -> None:
    """End this process if it is a worker that has not started yet, and so runs its parent's script a second time.

    It would start workers of its own, or wait for what its parent has locked. The parent raises the error.
    """
    if getattr(current_process(), "_inheriting", False):  # as multiprocessing itself checks
        sys.exit(1)


@contextmanager
def one_thread() -> Iterator[None]:
    """Run torch on one thread: another number of threads changes the order of sums, and busy cores make them wait."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Delay Ctrl-C until the end of the block; processes that start in it ignore it and leave it to their parent."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _way_to_start() -> str:
    """Fork if that is safe: a fork has torch at once, while a new process imports it for seconds.

    A fork has none of its parent's threads, and what one of them had locked stays locked, so the parent must have no
    other thread. Threads of torch and BLAS are idle at that time, and workers need none, like those of torch's
    DataLoader. Python 3.12 and newer warn about forks while any threads exist.
    """
    good = sys.platform == "linux" and sys.version_info < (3, 12) and active_count() == 1
    return "fork" if good else "spawn"


def _start(begun: Event, start: Callable[..., None] | None, given: tuple[Any, ...]) -> None:
    begun.set()
    _settle()
    if start is not None:
        start(*given)


def _settle() -> None:
    """Make this process a worker: on one thread, ignoring Ctrl-C, and ended with its parent."""
    torch.set_num_threads(1)
    _keep_freed_memory()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # where signals cannot be held
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # a fork would do what its parent does
    Thread(target=_end_with_parent, daemon=True).start()


def _keep_freed_memory() -> None:
    """Reuse memory for the next file; releasing and allocating it again took a twentieth of the time."""
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):  # other C libraries than GNU's
            allocator = ctypes.CDLL(None)
            allocator.mallopt(_M_MMAP_THRESHOLD, 1 << 25)
            allocator.mallopt(_M_TRIM_THRESHOLD, 1 << 27)


def _end_with_parent() -> None:
    """End this worker when its parent is killed; it would wait for jobs forever."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
