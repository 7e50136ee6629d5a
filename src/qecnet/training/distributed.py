"""One process or several: `torchrun --nproc-per-node N -m qecnet.training ...`, gloo on CPUs, NCCL on GPUs."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import nn


class ProcessLostError(OSError):
    """Another process of the run has ended, and the rest cannot go on."""


@dataclass(frozen=True)
class Processes:
    """This process among those of the run: its number `rank` of `count`, and the device that it works on."""

    rank: int
    count: int
    device: torch.device

    @property
    def is_first(self) -> bool:
        """The one that writes and speaks."""
        return self.rank == 0

    def piece(self, size: int) -> slice:
        """This process's part of `size` things; parts differ by one at most, the larger ones first."""
        each, rest = divmod(size, self.count)
        first = self.rank * each + min(self.rank, rest)
        return slice(first, first + each + (self.rank < rest))

    def total(self, *values: float) -> list[float]:
        """Each value summed over all processes, in float64."""
        if self.count == 1:
            return list(values)
        sums = torch.tensor(values, dtype=torch.float64, device=self.device)
        dist.all_reduce(sums)
        return sums.tolist()

    def wrap(self, module: nn.Module) -> nn.Module:
        """The module with gradients that are the mean of all processes'.

        Batch normalisation, which baselines have, is over each process's own piece: more processes, other numbers.
        """
        return module if self.count == 1 else nn.parallel.DistributedDataParallel(module)


@contextmanager
def processes() -> Iterator[Processes]:
    """Joins the processes that torchrun started; alone where it did not."""
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
    # torchrun asks all processes to end as soon as one has: the others notice by themselves, and live to say so.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        yield Processes(rank, count, device)
        dist.destroy_process_group()
    except RuntimeError as error:
        if not _is_about_a_peer(error):
            raise
        raise ProcessLostError(
            f"process {rank} of {count}: another process of this run has ended; see its message, "
            "then go on from the last checkpoint with --resume"
        ) from error


def _is_about_a_peer(error: RuntimeError) -> bool:
    """gloo raises a plain RuntimeError with the words of the socket; other back ends have a class for it."""
    words = ("connection", "peer", "gloo", "socket", "timed out")
    return isinstance(error, dist.DistError) or any(word in str(error).lower() for word in words)
