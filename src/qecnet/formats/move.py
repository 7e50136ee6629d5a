"""Rigid motions of whole files: points and normals move, and everything else, materials among it, stays."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path, PurePath

from qecnet.files import write_whole
from qecnet.formats import _formats, _move_binary, _move_text, _stl
from qecnet.formats.read import _load, _read_error
from qecnet.formats.rigid import Rigid

_LIBRARY = re.compile(rb"^[ \t]*mtllib[ \t]+([^\r\n]+)", re.MULTILINE)
_TEXTURE = re.compile(rb"^[ \t]*(?:map_\w+|bump|disp|decal|refl|norm)[ \t]+(?:[^\r\n]*[ \t])?(\S+)", re.MULTILINE)


def move_file(source: str | os.PathLike[str], target: str | os.PathLike[str], motion: Rigid) -> None:
    """Writes a file like `source`, in the same format, with its points and normals moved; whole or not at all.

    An OBJ's material libraries, and the pictures that they name, are copied beside the target where they are not there.
    """
    source, target = Path(source), Path(target)
    data = _load(source)
    try:
        moved = moved_bytes(data, source.suffix.lower(), motion)
    except ValueError as error:
        raise _read_error(source, error) from error
    write_whole(target, moved)
    if _formats.kind_of(data, source.suffix.lower()) == ".obj":
        _copy_materials(data, source.parent, target.parent)


def moved_bytes(data: bytes, suffix: str, motion: Rigid) -> bytes:
    """The content of a file of this extension after a motion."""
    _formats.parse(data, suffix)  # what cannot be read is not moved, either
    data = data.removeprefix(b"\xef\xbb\xbf")
    kind = _formats.kind_of(data, suffix)
    return _MOVERS[kind](data, motion)


def _stl_of(data: bytes, motion: Rigid) -> bytes:
    return (_move_text.stl if _stl.is_text(data) else _move_binary.stl)(data, motion)


def _ply_of(data: bytes, motion: Rigid) -> bytes:
    text = re.search(rb"^format[ \t]+ascii", data[:4096], re.MULTILINE)
    return (_move_text.ply if text else _move_binary.ply)(data, motion)


def _pcd_of(data: bytes, motion: Rigid) -> bytes:
    text = re.search(rb"^DATA[ \t]+ascii", data, re.MULTILINE)
    return (_move_text.pcd if text else _move_binary.pcd)(data, motion)


_MOVERS: dict[str, Callable[[bytes, Rigid], bytes]] = {
    ".off": _move_text.off,
    ".obj": _move_text.obj,
    ".ply": _ply_of,
    ".stl": _stl_of,
    ".pcd": _pcd_of,
    ".xyz": _move_text.table,
    ".txt": _move_text.table,
    ".csv": _move_text.table,
    ".npy": _move_binary.npy,
    ".npz": _move_binary.npz,
}


def _copy_materials(data: bytes, source: Path, target: Path) -> None:
    for library in _named(_LIBRARY, data):
        if _copied(library, source, target):
            for texture in _named(_TEXTURE, (source / library).read_bytes()):
                _copied(texture, source, target)


def _named(pattern: re.Pattern[bytes], data: bytes) -> list[PurePath]:
    return [PurePath(os.fsdecode(name.strip())) for name in pattern.findall(data)]


def _copied(name: PurePath, source: Path, target: Path) -> bool:
    """Copies a file that is named relative to `source`; what lies elsewhere is found from anywhere, or not ours."""
    if name.is_absolute() or ".." in name.parts or not (source / name).is_file():
        return False
    if not (target / name).exists():
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / name, target / name)
    return True
