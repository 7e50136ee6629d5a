"""Uploads are read by a process of their own, which may take its time but not ours: nothing touches the disk."""

from __future__ import annotations

import signal
import sys
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path, PurePath
from threading import Lock

import torch
from torch import Tensor

from qecnet.formats import read_bytes
from qecnet.geometry import Mesh, PointCloud
from qecnet.viewer.wire import packed, unpacked

MOST_BYTES = 64 * 2**20
MOST_POINTS = 2_000_000
MOST_MEMORY = 2**31
"""Bytes that reading may take; a few of an archive can promise any number of points."""
SECONDS = 20.0
_STARTING = 120.0


class Reader:
    """Reads one upload after the other, by a process that is ended when one takes too long, and then begun anew."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self._seconds = seconds
        self._alone = Lock()
        self._ending = Lock()
        self._process: BaseProcess | None = None
        self._line: Connection | None = None

    def read(self, name: str, data: bytes) -> Mesh | PointCloud:
        """The shape in a file that was called `name`.

        Raises:
            ValueError: in one sentence that names it.
        """
        name = _plain(name)
        if len(data) > MOST_BYTES:
            raise ValueError(f"{name}: is larger than {MOST_BYTES // 2**20} MB; give a smaller file")
        with self._alone:
            try:
                reply = self._asked(name, data)
            except TimeoutError:
                self.close()
                raise ValueError(
                    f"{name}: could not be read within {self._seconds:g} seconds; give a smaller file"
                ) from None
            except (EOFError, OSError):
                self.close()
                raise ValueError(f"{name}: could not be read, and broke what tried to; give another file") from None
        header, arrays = unpacked(reply)
        if "trouble" in header:
            raise ValueError(header["trouble"])
        points = torch.from_numpy(arrays["points"].copy()).double()
        if "faces" in arrays:
            return Mesh(points, torch.from_numpy(arrays["faces"].copy()).long(), name)
        return PointCloud(points, name=name)

    def start(self) -> None:
        """Begins the process, which takes seconds, before there is anything to read; what fails will be tried again."""
        with self._alone:
            try:
                if self._line is None:
                    self._start()
            except (EOFError, OSError):
                self.close()

    def close(self) -> None:
        """Ends the process, whatever it does."""
        with self._ending:  # whoever waits for an answer meanwhile finds the process gone, and closes, too
            process, line = self._process, self._line
            self._process = self._line = None
        if process is not None:
            process.kill()
            process.join()
        if line is not None:
            line.close()

    def _asked(self, name: str, data: bytes) -> bytes:
        line = self._line or self._start()
        line.send_bytes(name.encode())
        line.send_bytes(data)
        if not line.poll(self._seconds):
            raise TimeoutError
        return line.recv_bytes()

    def _start(self) -> Connection:
        context = get_context("spawn")
        line, theirs = context.Pipe()
        process = context.Process(target=_work, args=(theirs,), daemon=True)
        process.start()
        self._process, self._line = process, line
        theirs.close()
        if not line.poll(_STARTING):
            raise EOFError
        line.recv_bytes()
        return line


def _work(line: Connection) -> None:
    """What the process does, until nobody is left to tell."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)
    _limit_memory()
    try:
        line.send_bytes(b"ready")
        while True:
            name = line.recv_bytes().decode()
            line.send_bytes(_read(name, line.recv_bytes()))
    except (EOFError, OSError):
        return


def _limit_memory() -> None:
    """Of this process, beyond what it has; only Linux tells, and keeps to it."""
    if sys.platform == "linux":
        import resource

        pages = int(Path("/proc/self/statm").read_text().split()[0])
        most = pages * resource.getpagesize() + MOST_MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _read(name: str, data: bytes) -> bytes:
    try:
        shape = read_bytes(data, PurePath(name))
        points = shape.vertices if isinstance(shape, Mesh) else shape.points
        size = max(len(points), len(shape.faces) if isinstance(shape, Mesh) else 0)
        if size > MOST_POINTS:
            raise ValueError(f"has {size:,} points or triangles; this page takes {MOST_POINTS:,}")
        arrays = {"points": _near(points)} | ({"faces": shape.faces} if isinstance(shape, Mesh) else {})
        return packed({}, arrays)
    except (ValueError, MemoryError, RuntimeError) as error:
        reason = str(error).removeprefix(f"{name}: ")
        # Torch's lack of memory is a RuntimeError, and an archive's is taken for damage.
        if not isinstance(error, ValueError) or isinstance(error.__cause__, MemoryError):
            reason = f"takes more than {MOST_MEMORY // 2**30} GB of memory to read; give a smaller file"
        return packed({"trouble": _printable(f"{name}: {reason}")}, {})


def _near(points: Tensor) -> Tensor:
    """Around the origin and of size 1: positions cross in single precision, wherever the shape stands, of any size."""
    points = _of_size_one(points)
    return _of_size_one(points - points.mean(0))


def _of_size_one(points: Tensor) -> Tensor:
    largest = float(points.abs().max()) if len(points) else 0.0
    return points / largest if largest > 0 else points


def _plain(name: str) -> str:
    """The last part of a name, for people to read: no path, nothing that moves a cursor, and not too long."""
    last = PurePath(name.replace("\\", "/")).name
    return _printable(last)[-100:] or "upload"


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text)
