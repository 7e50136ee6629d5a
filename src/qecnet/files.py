"""Files that are written whole or not at all, and folders that one process has to itself."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
from torch import Tensor


def write_whole(path: Path, data: bytes) -> None:
    """Replaces a file in one step, once the new content has reached the disk; what fails leaves the old one."""
    aside = path.with_name(f".{path.name}.part")
    try:
        with aside.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
        _sync_folder(path.parent)
    except OSError as error:
        with suppress(OSError):
            aside.unlink()
        reason = (error.strerror or str(error)).lower()
        raise OSError(f"{path}: cannot be written ({reason}); what was saved before is whole") from error


def as_json(value: Mapping[str, Any]) -> bytes:
    """For people to read, too."""
    return (json.dumps(value, indent=2, allow_nan=False) + "\n").encode()


def write_tensors(path: Path, tensors: Mapping[str, Tensor], about: Mapping[str, Any]) -> None:
    """A safetensors file, put in place whole, with `about` as JSON in its header, under `qecnet`."""
    contiguous = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    write_whole(path, safetensors.torch.save(contiguous, {"qecnet": json.dumps(about)}))


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """What `write_tensors` wrote. Nothing in the file is ever executed.

    The file is opened once: it may be replaced by a newer one while it is read, as a run's checkpoint is.
    """
    try:
        data = path.read_bytes()
        tensors = safetensors.torch.load(data)
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        return tensors, json.loads(header["__metadata__"]["qecnet"])
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{path}: is not there") from error
    except (safetensors.SafetensorError, KeyError, ValueError) as error:
        raise ValueError(f"{path}: is damaged, or was not written by qecnet ({error})") from error


@contextmanager
def alone_in(folder: Path, *, wait: bool) -> Iterator[None]:
    """Keeps other processes that ask for it out of a folder; waits until they have left, or raises BlockingIOError.

    Where a system has no such locks, one has to see to it oneself.
    """
    try:
        import fcntl
    except ImportError:
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        try:
            yield
        finally:
            fcntl.flock(handle, fcntl.LOCK_UN)  # for workers, too, that have the handle as well
    finally:
        os.close(handle)


def _sync_folder(folder: Path) -> None:
    """Makes a renaming in the folder reach the disk, where systems do that; elsewhere either file is whole."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
