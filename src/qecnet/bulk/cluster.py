"""Work shared out on a Ray cluster: one actor per core, which gets the model once and does one job after another.

Ray's actors rather than Ray Data: a job that kills its process must not affect others, and Ray Data ends the whole run
when a block has failed too often.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from time import monotonic
from typing import Any, TypeVar

import torch

from qecnet import __version__
from qecnet.bulk.connection import connect, last_line
from qecnet.bulk.work import Do, FileBatch
from qecnet.compiled import is_compiled
from qecnet.models import Failure
from qecnet.workers import Lost

T = TypeVar("T")
_START_SECONDS = 600.0
"""How long a cluster may be without any worker before the run ends."""
_LOOK_SECONDS = 2.0
"""How often to look whether machines have joined or left."""
_LOSSES = (
    "RayActorError",
    "OutOfMemoryError",  # of an actor that Ray killed to save its machine, too
    "WorkerCrashedError",
    "NodeDiedError",
    "RaySystemError",
    "ObjectLostError",
)
"""What Ray raises when a worker, its machine or its answer is lost."""


def share_on_ray(
    work: Do[T],
    take: Callable[[], FileBatch | None],
    address: str,
    workers: int | None = None,
    timeout: float | None = None,
) -> Iterator[tuple[FileBatch, list[T | Failure] | Lost]]:
    """Share out jobs on a cluster, on as many cores as it has at the time: machines may join and leave.

    Args:
        work: what to do with each job; sent to the cluster once.
        take: returns the next job, or None if there is none now.
        address: `host:port` of a cluster that this machine belongs to, `auto` for the one that runs here, or `local`
            to start one on this machine alone.
        workers: the number of cores of `local`; by default, all.
        timeout: seconds that a job may take.

    Yields:
        Each job and its results, or why it has none: its worker or its machine died, or it took too long.

    Raises:
        ValueError: Ray is not installed, the address does not answer, or no worker can start; one sentence.
        OSError: the cluster itself failed; one sentence.
    """
    ray = connect(address, workers)
    try:
        yield from _Actors(ray, work, timeout).share(take)
    except ray.exceptions.RayError as error:
        remedy = "finished work is kept; run the same command again to continue"
        raise OSError(f"{address}: the Ray cluster failed ({last_line(error)}); {remedy}") from error
    finally:
        ray.shutdown()


class Worker:
    """What runs on a core of the cluster."""

    def __init__(self, work: Do[Any], folder: str) -> None:
        torch.set_num_threads(1)
        with suppress(OSError):  # a node that does not have the folder can still do files with absolute paths
            os.chdir(folder)
        self.work = work

    def versions(self) -> str:
        """What answers depend on besides the model; the worker is ready when it has returned this."""
        return _versions()

    def do(self, job: FileBatch) -> list[Any]:
        """Do a job."""
        return self.work(job)


class _Actors:
    """The workers of a run: those that start, that are idle, and that do a job."""

    def __init__(self, ray: Any, work: Do[Any], timeout: float | None) -> None:
        self.ray, self.timeout = ray, timeout
        self.losses = tuple(getattr(ray.exceptions, name) for name in _LOSSES)
        self.given = ray.put(work)
        self.kind = ray.remote(num_cpus=1, max_restarts=0, max_task_retries=0)(Worker)
        self.starting: dict[Any, Any] = {}
        self.idle: list[Any] = []
        self.busy: dict[Any, tuple[Any, FileBatch, float]] = {}
        self.looked = -_LOOK_SECONDS
        self.alive = monotonic()

    def share(self, take: Callable[[], FileBatch | None]) -> Iterator[tuple[FileBatch, list[Any] | Lost]]:
        while True:
            self._fill()
            while self.idle and (job := take()) is not None:
                actor = self.idle.pop()
                self.busy[actor.do.remote(job)] = actor, job, monotonic()
            if self.idle and not self.busy:
                return
            done, _ = self.ray.wait([*self.busy, *self.starting], num_returns=1, timeout=_LOOK_SECONDS)
            for reference in done:
                if reference in self.starting:
                    self._welcome(reference)
                else:
                    yield self._finish(reference)
            yield from self._end_late()
            if self.busy or self.idle:
                self.alive = monotonic()
            elif monotonic() - self.alive > _START_SECONDS:
                raise ValueError(
                    f"no worker of the Ray cluster could start within {_START_SECONDS:.0f} seconds; it has no free core"
                )

    def _fill(self) -> None:
        """Start workers on cores that have none."""
        if monotonic() - self.looked < _LOOK_SECONDS:
            return
        self.looked = monotonic()
        cores = int(self.ray.cluster_resources().get("CPU", 0))
        for _ in range(cores - len(self.starting) - len(self.idle) - len(self.busy)):
            actor = self.kind.remote(self.given, os.getcwd())
            self.starting[actor.versions.remote()] = actor

    def _welcome(self, reference: Any) -> None:
        """Take a worker that has started; one that died is replaced."""
        actor = self.starting.pop(reference)
        try:
            versions = self.ray.get(reference)
        except self.ray.exceptions.ActorDiedError as error:
            if getattr(error, "cause", None) is None and "creation task" not in str(error):
                return
            raise ValueError(
                f"a worker of the Ray cluster cannot start ({last_line(error)}); install the same qecnet on all nodes"
            ) from error
        except self.losses:
            return
        if versions != _versions():
            raise ValueError(
                f"a node of the Ray cluster has {versions}, this machine {_versions()}; install the same on all nodes"
            )
        self.idle.append(actor)

    def _end_late(self) -> Iterator[tuple[FileBatch, Lost]]:
        """End workers whose job takes too long."""
        for reference, (actor, job, since) in [*self.busy.items()]:
            if self.timeout is not None and monotonic() - since > self.timeout:
                if self.ray.wait([reference], timeout=0)[0]:  # done while the results before it were kept
                    continue
                del self.busy[reference]
                self.ray.kill(actor)
                yield job, Lost.LATE

    def _finish(self, reference: Any) -> tuple[FileBatch, list[Any] | Lost]:
        actor, job, _ = self.busy.pop(reference)
        try:
            results: list[Any] = self.ray.get(reference)
        except self.losses:
            with suppress(Exception):
                self.ray.kill(actor)  # one that cannot be reached may still be there
            return job, Lost.DIED
        except self.ray.exceptions.RayTaskError as error:
            raise error.cause from error
        self.idle.append(actor)
        return job, results


def _versions() -> str:
    operators = "compiled" if is_compiled() else "no compiled"
    return f"qecnet {__version__} with torch {torch.__version__} and {operators} operators"
