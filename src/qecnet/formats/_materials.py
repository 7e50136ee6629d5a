"""Files that a shape's file refers to: which of them may be opened; and copies of an OBJ's materials and images."""

import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePath

from qecnet.files import write_whole

_LIBRARY = re.compile(rb"^[ \t]*mtllib[ \t]+([^\r\n]*\S)", re.MULTILINE)
_TEXTURE = re.compile(rb"^[ \t]*(?:map_\w+|bump|disp|decal|refl|norm)[ \t]+([^\r\n]*\S)", re.MULTILINE)
_WORD = re.compile(rb"\S+")
_LIBRARIES = {".mtl"}
_IMAGES = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tga", ".tif", ".tiff", ".webp", ".exr", ".hdr", ".dds"}
_MOST_WORDS = 32  # of one line that are tried as the beginning of a file's name


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


class MaterialCopy:
    """Copies of the materials of one OBJ, planned when it is made and written by `write`.

    Attributes:
        obj: the OBJ's content, with references to materials that had to be renamed rewritten.
        written: the files that `write` has written.
    """

    def __init__(self, obj: bytes, folder: Path, target: Path) -> None:
        self.written: list[Path] = []
        self._target = target
        self._planned: dict[Path, bytes] = {}
        self.obj = _rewrite(obj, self._libraries(obj, folder))

    @contextmanager
    def write(self) -> Iterator[None]:
        """Write the copies; if one of them or the block fails, none is left."""
        try:
            for path, data in self._planned.items():
                path.parent.mkdir(parents=True, exist_ok=True)
                write_whole(path, data)
                self.written.append(path)
            yield
        except BaseException:
            for path in self.written:
                with suppress(OSError):
                    path.unlink()
            raise

    def _libraries(self, obj: bytes, folder: Path) -> Iterator[tuple[int, int, bytes]]:
        for line in _LIBRARY.finditer(obj):
            # One name with spaces, or several names.
            whole = [line.span(1)] if _find_file(folder, line[1], _LIBRARIES) else []
            for start, end in whole or [word.span() for word in _WORD.finditer(obj, *line.span(1))]:
                name = _find_file(folder, obj[start:end], _LIBRARIES)
                if name is not None:
                    data = (folder / name).read_bytes()
                    data = _rewrite(data, self._textures(data, folder, name.parent))
                    yield start, end, self._place(name, data)

    def _textures(self, library: bytes, folder: Path, beside: PurePath) -> Iterator[tuple[int, int, bytes]]:
        for line in _TEXTURE.finditer(library):
            end = line.end(1)
            # Options such as `-s 1 1 1` stand before a name, which may have spaces: the longest that exists is meant.
            for word in [*_WORD.finditer(library, *line.span(1))][:_MOST_WORDS]:
                found = _find_file(folder / beside, library[word.start() : end], _IMAGES)
                name = beside / found if found else _find_file(folder, library[word.start() : end], _IMAGES)
                if name is not None:
                    placed = self._place(name, (folder / name).read_bytes())
                    if placed != os.fsencode(name.as_posix()):
                        yield word.start(), end, placed
                    break

    def _place(self, name: PurePath, data: bytes) -> bytes:
        """Plan a copy, and return its name relative to the target's folder."""
        folder = self._target.parent
        for candidate in (name, name.with_name(f"{self._target.stem}-{name.name}")):
            path = folder / candidate
            known = self._planned.get(path)
            if known is None and is_regular(path):
                known = path.read_bytes()
                if known == data:
                    return os.fsencode(candidate.as_posix())
            if known in (None, data) and not path.is_symlink():
                break
        self._planned[folder / candidate] = data
        return os.fsencode(candidate.as_posix())


def _find_file(folder: Path, reference: bytes, suffixes: set[str]) -> PurePath | None:
    return find_beside(folder, os.fsdecode(reference), suffixes)


def _rewrite(data: bytes, edits: Iterator[tuple[int, int, bytes]]) -> bytes:
    """The text with the bytes from each start to its end replaced."""
    pieces, at = [], 0
    for start, end, text in edits:
        pieces += [data[at:start], text]
        at = end
    return b"".join([*pieces, data[at:]])
