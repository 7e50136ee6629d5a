"""Files that are written whole or not at all, and folders that one process locks."""

from __future__ import annotations

import json
import os
import secrets
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qecnet.schema import first_line, system_reason

if TYPE_CHECKING:
    from torch import Tensor


@contextmanager
def replace_when_done(path: Path, mode: int | None = None) -> Iterator[Path]:
    """Let a block write a temporary file, and move it into place in one step when the block has finished.

    If the block fails, nothing is left. The temporary file is in the same folder, under a random name that did not
    exist, so no link is followed.

    Args:
        path: the file to replace or to create.
        mode: its permissions; by default those of the file that is replaced, or those that the umask allows.

    Yields:
        The path of the temporary file, with the extension of `path`.

    Raises:
        OSError: if the file cannot be created or replaced; one sentence that names it.
    """
    if mode is None and path.is_file() and not path.is_symlink():
        mode = path.stat().st_mode
    aside = path.with_name(f".{path.stem[:80]}-{secrets.token_hex(8)}{path.suffix}")
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_NOFOLLOW", 0)
    with name_write_errors(path):
        os.close(os.open(aside, flags, 0o666 if mode is None else 0o600 | stat.S_IMODE(mode)))
    try:
        yield aside
        if mode is not None:
            with suppress(OSError):  # some file systems have no permissions
                aside.chmod(stat.S_IMODE(mode))
        with name_write_errors(path):
            aside.replace(path)
        sync_folder(path.parent)
    finally:
        with suppress(OSError):
            aside.unlink(missing_ok=True)


def find_write_obstacle(folder: Path) -> str:
    """Find out why no file can be created in a folder, before work is done that would be lost.

    Args:
        folder: need not exist; then the nearest folder above it that exists is tried.

    Returns:
        The reason in a few words; empty if a file can be created.
    """
    place = next(one for one in (folder, *folder.parents) if os.path.lexists(one))
    if not place.is_dir():
        return f"{place} is not a folder"
    try:
        tempfile.TemporaryFile(dir=place).close()  # `os.access` lets root write where nothing can be created
    except OSError as error:
        return f"{system_reason(error)} in {place}"
    return ""


def write_whole(path: Path, data: bytes, mode: int | None = None) -> None:
    """Replace a file in one step, once the new content is on the disk; after a failure the old file is unchanged.

    Args:
        path: the file.
        data: its new content.
        mode: its permissions, as of `replace_when_done`.

    Raises:
        OSError: if the file cannot be written; one sentence that names it.
    """
    with replace_when_done(path, mode) as aside, name_write_errors(path), aside.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def name_write_errors(path: Path) -> Iterator[None]:
    """Raise errors of the operating system as one sentence that names the file, not the temporary one."""
    try:
        yield
    except OSError as error:
        reason = system_reason(error)
        raise OSError(f"{path}: cannot be written ({reason}); the previous file, if any, is unchanged") from error


def as_json(value: Mapping[str, Any]) -> bytes:
    """Encode a mapping as indented JSON that ends with a line feed."""
    return (json.dumps(value, indent=2, allow_nan=False) + "\n").encode()


def write_tensors(path: Path, tensors: Mapping[str, Tensor], about: Mapping[str, Any]) -> None:
    """Write a safetensors file, whole or not at all.

    Args:
        path: the file.
        tensors: by name.
        about: stored as JSON in the file's metadata, under `qecnet`.

    Raises:
        OSError: if the file cannot be written; one sentence that names it.
    """
    import safetensors.torch

    contiguous = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    write_whole(path, safetensors.torch.save(contiguous, {"qecnet": json.dumps(about)}))


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read a file of `write_tensors`. Nothing in the file is ever executed.

    The file is opened once, because a newer one, such as a run's next checkpoint, may replace it in the meantime.

    Args:
        path: the file.

    Returns:
        The tensors by name, and what `write_tensors` stored about them.

    Raises:
        FileNotFoundError: if the file does not exist.
        ValueError: if it is damaged or was not written by `write_tensors`.
    """
    import safetensors.torch

    try:
        data = path.read_bytes()
        tensors = safetensors.torch.load(data)
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        about = json.loads(header["__metadata__"]["qecnet"])
        if not isinstance(about, dict):
            raise ValueError("its metadata is not a JSON object")
        return tensors, about
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{path}: does not exist") from error
    except (safetensors.SafetensorError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"{path}: is damaged, or was not written by qecnet ({first_line(error)})") from error


@contextmanager
def alone_in(folder: Path, *, wait: bool) -> Iterator[None]:
    """Lock a folder, for a block, against other processes that call this.

    On systems without such locks (Windows), nothing is locked.

    Args:
        folder: the folder.
        wait: whether to wait until the lock is free.

    Raises:
        BlockingIOError: if another process holds the lock and `wait` is False.
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
            fcntl.flock(handle, fcntl.LOCK_UN)  # also for workers that have inherited the handle
    finally:
        os.close(handle)


def sync_folder(folder: Path) -> None:
    """Make sure that a renaming in the folder is on the disk, on systems that can; on others either file is whole.

    Args:
        folder: the folder of the file that was renamed.
    """
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
