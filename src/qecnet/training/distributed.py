"""One process or several: `torchrun --nproc-per-node N -m qecnet.training ...`, gloo on CPUs, NCCL on GPUs."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import nn


class ProcessLostError(OSError):
    """Another process of the run has ended, so that this one cannot continue."""


@dataclass(frozen=True)
class Processes:
    """This process among those of the run: its `rank` of `count`, and its device."""

    rank: int
    count: int
    device: torch.device

    @property
    def is_first(self) -> bool:
        """Whether this process writes files and output."""
        return self.rank == 0

    def piece(self, size: int) -> slice:
        """Get this process's part of `size` items; parts differ by at most one, larger ones first."""
        each, rest = divmod(size, self.count)
        first = self.rank * each + min(self.rank, rest)
        return slice(first, first + each + (self.rank < rest))

    def total(self, *values: float) -> list[float]:
        """Sum each value over all processes, in float64."""
        if self.count == 1:
            return list(values)
        sums = torch.tensor(values, dtype=torch.float64, device=self.device)
        dist.all_reduce(sums)
        return sums.tolist()

    def wrap(self, module: nn.Module) -> nn.Module:
        """Wrap a module so that gradients are averaged over processes.

        Batch normalisation, which baselines use, sees only the process's own part, so that results depend on `count`.
        """
        return module if self.count == 1 else nn.parallel.DistributedDataParallel(module)


@contextmanager
def processes() -> Iterator[Processes]:
    """Join the processes that torchrun started, or be the only one."""
    count, rank, local = (
        int(os.environ.get(name, default)) for name, default in (("WORLD_SIZE", 1), ("RANK", 0), ("LOCAL_RANK", 0))
    )
    device = torch.device("cuda", local) if torch.cuda.is_available() else torch.device("cpu")
    if count == 1:
        yield Processes(rank, count, device)
        return
    if device.type == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    # torchrun terminates all processes as soon as one has ended; the others notice it themselves and report it.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        yield Processes(rank, count, device)
        dist.destroy_process_group()
    except RuntimeError as error:
        if not _is_about_a_peer(error):
            raise
        raise ProcessLostError(
            f"process {rank} of {count}: another process of this run has ended; see its message, "
            "then continue from the last checkpoint with --resume"
        ) from error


def _is_about_a_peer(error: RuntimeError) -> bool:
    """Whether a peer was lost: gloo raises a plain RuntimeError with the socket's message, others have a class."""
    words = ("connection", "peer", "gloo", "socket", "timed out")
    return isinstance(error, dist.DistError) or any(word in str(error).lower() for word in words)
