"""Uploads are parsed in a separate process with limited time and memory; nothing is written to a disk."""

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
from qecnet.schema import printable
from qecnet.viewer.wire import pack, unpack

MAX_UPLOAD_POINTS = 2_000_000
_MAX_MEMORY = 2**31  # a small archive can declare any number of points
_SECONDS = 20.0
_START_SECONDS = 120.0


class UploadReader:
    """Parses one upload after the other in a process, which is killed and restarted when one takes too long."""

    def __init__(self) -> None:
        self._reading = Lock()
        self._closing = Lock()
        self._process: BaseProcess | None = None
        self._pipe: Connection | None = None

    def read(self, name: str, data: bytes) -> Mesh | PointCloud:
        """Parse the content of a file, centred and scaled to fit [-1, 1].

        Args:
            name: the file's name, which decides the format; only its last component is used.
            data: the file's content.

        Raises:
            ValueError: when it cannot be parsed within the limits; one sentence that names the file.
        """
        name = _base_name(name)
        with self._reading:
            try:
                response = self._parse(name, data)
            except TimeoutError:
                self.close()
                raise ValueError(
                    f"{name}: could not be read within {_SECONDS:g} seconds; upload a smaller file"
                ) from None
            except (EOFError, OSError):
                self.close()
                raise ValueError(f"{name}: reading it crashed; upload another file") from None
        header, arrays = unpack(response)
        if "error" in header:
            raise ValueError(header["error"])
        points = torch.from_numpy(arrays["points"].copy()).double()
        if "faces" in arrays:
            return Mesh(points, torch.from_numpy(arrays["faces"].copy()).long(), name)
        return PointCloud(points, name=name)

    def start(self) -> None:
        """Start the process, which takes seconds, ahead of the first upload; `read` retries a failed start."""
        with self._reading:
            try:
                if self._pipe is None:
                    self._start()
            except (EOFError, OSError):
                self.close()

    def close(self) -> None:
        """Kill the process."""
        with self._closing:  # a thread that is waiting for the process notices its end, and closes, too
            process, pipe = self._process, self._pipe
            self._process = self._pipe = None
        if process is not None:
            process.kill()
            process.join()
        if pipe is not None:
            pipe.close()

    def _parse(self, name: str, data: bytes) -> bytes:
        pipe = self._pipe or self._start()
        pipe.send_bytes(name.encode())
        pipe.send_bytes(data)
        if not pipe.poll(_SECONDS):
            raise TimeoutError
        return pipe.recv_bytes()

    def _start(self) -> Connection:
        context = get_context("spawn")
        pipe, theirs = context.Pipe()
        process = context.Process(target=_work, args=(theirs,), daemon=True)
        process.start()
        self._process, self._pipe = process, pipe
        theirs.close()
        if not pipe.poll(_START_SECONDS):
            raise EOFError
        pipe.recv_bytes()
        return pipe


def _work(pipe: Connection) -> None:
    """The process: parses files until the other end of the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)
    _limit_memory()
    try:
        pipe.send_bytes(b"ready")
        while True:
            name = pipe.recv_bytes().decode()
            pipe.send_bytes(_parse(name, pipe.recv_bytes()))
    except (EOFError, OSError):
        return


def _limit_memory() -> None:
    """Limit what this process may allocate from now on; only Linux enforces that."""
    if sys.platform == "linux":
        import resource

        pages = int(Path("/proc/self/statm").read_text().split()[0])
        most = pages * resource.getpagesize() + _MAX_MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _parse(name: str, data: bytes) -> bytes:
    try:
        shape = read_bytes(data, PurePath(name))
        points = shape.vertices if isinstance(shape, Mesh) else shape.points
        size = max(len(points), len(shape.faces) if isinstance(shape, Mesh) else 0)
        if size > MAX_UPLOAD_POINTS:
            raise ValueError(f"has {size:,} points or triangles; the viewer accepts {MAX_UPLOAD_POINTS:,}")
        return pack({}, {"points": _centre(points)} | ({"faces": shape.faces} if isinstance(shape, Mesh) else {}))
    except (ValueError, MemoryError, RuntimeError) as error:
        reason = str(error).removeprefix(f"{name}: ")
        # Torch reports a lack of memory as RuntimeError, and archives report it as damage.
        if not isinstance(error, ValueError) or isinstance(error.__cause__, MemoryError):
            reason = f"takes more than {_MAX_MEMORY // 2**30} GB of memory to read; upload a smaller file"
        return pack({"error": printable(f"{name}: {reason}")})


def _centre(points: Tensor) -> Tensor:
    """Centre and scale positions, so that single precision holds them wherever the shape is."""
    points = _scale(points)
    return _scale(points - points.mean(0))


def _scale(points: Tensor) -> Tensor:
    largest = float(points.abs().max()) if len(points) else 0.0
    return points / largest if largest > 0 else points


def _base_name(name: str) -> str:
    """The last component of a path, printable and not too long."""
    last = PurePath(name.replace("\\", "/")).name
    return printable(last)[-100:] or "upload"
