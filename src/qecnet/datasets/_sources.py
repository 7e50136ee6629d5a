"""Where shapes are stored: files, members of a zip, rows of an HDF5 file."""

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
from qecnet.geometry import Mesh, PointCloud


@dataclass(frozen=True)
class FileSource:
    """A file in a format that `read` reads, with its size and modification time when the dataset was opened."""

    path: Path
    size: int
    modified: int

    @classmethod
    def from_path(cls, path: Path) -> FileSource:
        status = path.stat()
        return cls(path, status.st_size, status.st_mtime_ns)

    def load(self) -> Mesh | PointCloud:
        return read(self.path)

    @property
    def stamp(self) -> str:
        return f"{self.size}@{self.modified}"


@dataclass(frozen=True)
class ZipSource:
    """A member of a zip, in a format that `read` reads or a Draco cloud."""

    archive: Path
    member: str
    checksum: int

    def load(self) -> Mesh | PointCloud:
        data = _read_member(self.archive, self.member)
        path = PurePosixPath(self.member)
        try:
            if path.suffix.lower() == ".drc":
                return _decode_draco(data, self.member)
            return read_bytes(data, path)
        except ValueError as error:
            reason = str(error).removeprefix(f"{path.name}: ")
            raise ReadError(f"{self.archive}: its member {self.member} {reason}") from error

    @property
    def stamp(self) -> str:
        return f"crc {self.checksum:08x}"


@dataclass(frozen=True)
class Hdf5Source:
    """One row of the arrays in an HDF5 file; `name` is used in error messages."""

    path: Path
    row: int
    name: str
    size: int
    modified: int

    def load(self) -> PointCloud:
        """Load the row of `data` and, if present, `normal`; `points`, if present, says how many points are real."""
        try:
            file = _cached_hdf5(self.path, self.path.stat().st_mtime_ns, os.getpid())
            real = int(file["points"][self.row]) if "points" in file else None
            points = torch.from_numpy(file["data"][self.row, :real].astype(np.float64))
            normals = torch.from_numpy(file["normal"][self.row, :real].astype(np.float64)) if "normal" in file else None
        except (OSError, KeyError) as error:
            raise ReadError(f"{self.path}: row {self.row} cannot be read ({error}); download the file again") from error
        return PointCloud(points, normals, self.name).clean()

    @property
    def stamp(self) -> str:
        return f"{self.row} of {self.size}@{self.modified}"


def _decode_draco(data: bytes, member: str) -> PointCloud:
    """Decode a cloud and shuffle its points, seeded by the member's name.

    Draco sorts points by position. After this shuffle any leading rows are a fair subsample.
    """
    try:
        import DracoPy
    except ImportError as error:
        raise ValueError("is a Draco cloud, which needs DracoPy; pip install 'qecnet[modelnet]'") from error
    try:
        points = np.asarray(DracoPy.decode(data).points, np.float32)
    except Exception as error:  # the decoder raises a different exception for each kind of damage
        raise ValueError(f"cannot be decoded as Draco ({error}); download the file again") from error
    points = np.random.default_rng(zlib.crc32(member.encode())).permutation(points)
    return PointCloud(torch.from_numpy(points), None, PurePosixPath(member).name).clean()


def _read_member(archive: Path, member: str) -> bytes:
    try:
        return _open_zip(archive, archive.stat().st_mtime_ns, os.getpid()).read(member)
    except (OSError, KeyError, RuntimeError, zipfile.BadZipFile, zlib.error, EOFError) as error:
        # A RuntimeError means a password, or a compression method that Python does not support.
        raise ReadError(
            f"{archive}: its member {member} cannot be unpacked ({error}); download the file again"
        ) from error


# Listing thousands of members takes longer than reading one, so files stay open. A forked process shares the position
# in an open file with its parent, so the process is part of the key; so is the time, in case the file was replaced.
@lru_cache(maxsize=8)
def _open_zip(path: Path, modified: int, process: int) -> zipfile.ZipFile:
    return zipfile.ZipFile(path)


@lru_cache(maxsize=32)
def _cached_hdf5(path: Path, modified: int, process: int) -> Any:
    return open_hdf5(path)


def open_hdf5(path: Path) -> Any:
    """Open an HDF5 file for reading, or raise `ReadError`."""
    try:
        import h5py
    except ImportError as error:
        raise ReadError(f"{path}: is an HDF5 file, which needs h5py; pip install 'qecnet[modelnet]'") from error
    try:
        return h5py.File(path, "r")
    except OSError as error:
        raise ReadError(f"{path}: cannot be opened as HDF5 (missing or incomplete); download the file again") from error
