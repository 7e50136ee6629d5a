"""Files that a shape's file refers to: which of them may be opened."""

from __future__ import annotations

import stat
from pathlib import Path, PurePath


def find_beside(folder: Path, reference: str, suffixes: set[str]) -> PurePath | None:
    """The path below `folder` that a reference names: a regular file with such a suffix, neither hidden nor a link."""
    name = PurePath(reference.replace("\\", "/"))
    if name.suffix.lower() not in suffixes or name.is_absolute() or "\0" in str(name):
        return None
    if any(part.startswith(".") for part in name.parts):
        return None
    folders = [folder.joinpath(*name.parts[:depth]) for depth in range(1, len(name.parts))]
    if any(path.is_symlink() for path in folders) or not is_regular(folder / name):
        return None
    return name


def is_regular(path: Path) -> bool:
    """Whether a path is a regular file, and not a link to one."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False
