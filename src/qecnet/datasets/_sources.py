"""Where shapes are kept: plain files, members of a zip, rows of an HDF5 file."""

from __future__ import annotations

import os
import zipfile
import zlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import torch

from qecnet.formats import ReadError, read, read_bytes
from qecnet.geometry.cloud import PointCloud
from qecnet.geometry.mesh import Mesh


@dataclass(frozen=True)
class FileSource:
    """A file that `read` understands, with the size and the time that it had when the dataset was opened."""

    path: Path
    size: int
    modified: int

    def load(self) -> Mesh | PointCloud:
        return read(self.path)

    @property
    def stamp(self) -> str:
        return f"{self.size}@{self.modified}"


@dataclass(frozen=True)
class ZipSource:
    """A member of a zip, in one of `read`'s formats, or a Draco cloud."""

    archive: Path
    member: str
    checksum: int

    def load(self) -> Mesh | PointCloud:
        data = _member(self.archive, self.member)
        path = PurePosixPath(self.member)
        try:
            if path.suffix.lower() == ".drc":
                return _draco(data, self.member)
            return read_bytes(data, path)
        except ValueError as error:
            reason = str(error).removeprefix(f"{path.name}: ")
            raise ReadError(f"{self.archive}: its member {self.member} {reason}") from error

    @property
    def stamp(self) -> str:
        return f"crc {self.checksum:08x}"


@dataclass(frozen=True)
class Hdf5Source:
    """One row of the arrays in an HDF5 file; `name` is what error messages call it."""

    path: Path
    row: int
    name: str
    size: int
    modified: int

    def load(self) -> PointCloud:
        """Of the arrays `data` and, where there are any, `normal`: the rows that `points` says are real, or all."""
        try:
            file = _hdf5(self.path, self.path.stat().st_mtime_ns, os.getpid())
            real = int(file["points"][self.row]) if "points" in file else None
            points = torch.from_numpy(file["data"][self.row, :real].astype(np.float64))
            normals = torch.from_numpy(file["normal"][self.row, :real].astype(np.float64)) if "normal" in file else None
        except (OSError, KeyError) as error:
            raise ReadError(f"{self.path}: row {self.row} cannot be read ({error}); get the file again") from error
        return PointCloud(points, normals, self.name).clean()

    @property
    def stamp(self) -> str:
        return f"{self.row} of {self.size}@{self.modified}"


def _draco(data: bytes, member: str) -> PointCloud:
    """A cloud of the shared packs, its points shuffled by a rule that depends on the member's name alone.

    Draco keeps points sorted by place. Shuffled as the packs' own `unpack.py` shuffles them, any leading rows are a
    fair subsample, and the zip gives the same rows as the HDF5 files made from it.
    """
    try:
        import DracoPy
    except ImportError as error:
        raise ValueError("is a Draco cloud, and DracoPy is not installed; pip install 'qecnet[modelnet]'") from error
    try:
        points = np.asarray(DracoPy.decode(data).points, np.float32)
    except Exception as error:  # the decoder has an exception of its own for each kind of damage
        raise ValueError(f"cannot be decoded as Draco ({error}); get the file again") from error
    points = np.random.default_rng(zlib.crc32(member.encode())).permutation(points)
    return PointCloud(torch.from_numpy(points), None, PurePosixPath(member).name).clean()


def _member(archive: Path, member: str) -> bytes:
    try:
        return _zip(archive, archive.stat().st_mtime_ns, os.getpid()).read(member)
    except (OSError, KeyError, RuntimeError, zipfile.BadZipFile, zlib.error, EOFError) as error:
        # A RuntimeError is a password, or a way of packing that Python does not know.
        raise ReadError(f"{archive}: its member {member} cannot be unpacked ({error}); get the file again") from error


# Listing thousands of members takes longer than reading one, so files stay open. A forked process shares the place in
# an open file with its parent, and each would read the other's bytes: the process is part of the key. So is the time,
# for a file that was replaced.
@lru_cache(maxsize=8)
def _zip(path: Path, modified: int, process: int) -> zipfile.ZipFile:
    return zipfile.ZipFile(path)


@lru_cache(maxsize=32)
def _hdf5(path: Path, modified: int, process: int) -> Any:
    return open_hdf5(path)


def open_hdf5(path: Path) -> Any:
    """An HDF5 file opened for reading, or one sentence."""
    try:
        import h5py
    except ImportError as error:
        raise ReadError(f"{path}: is read with h5py, which is not installed; pip install 'qecnet[modelnet]'") from error
    try:
        return h5py.File(path, "r")
    except OSError as error:
        raise ReadError(f"{path}: cannot be opened as HDF5 (cut short or not there); get the file again") from error
