"""An index of a folder of shapes: descriptors and poses in one file, and search for the most similar shapes."""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from time import monotonic
from typing import Any, NamedTuple

import torch
from torch import Tensor

from qecnet.algebra import canonicalize, conjugate, multiply
from qecnet.files import read_tensors, write_tensors
from qecnet.models.answer import Answer, Failure
from qecnet.models.model import Model
from qecnet.schema import check_names, decode

Stamps = Mapping[str, tuple[int, int]]
"""Each file's size and time of change in nanoseconds, by its path relative to the library's folder."""

_UNIT = 1e-3
"""How far the length of a descriptor or a pose may be from 1."""

_SECONDS = 30.0
"""Time between two saves: an interruption loses no more work than this."""


class Neighbour(NamedTuple):
    """A shape of a library: its file, its class, the product of descriptors (1 for the same shape), and the rotation,
    (4,), WXYZ, from it to the query."""

    file: str
    label: str
    similarity: float
    rotation: Tensor


@dataclass(frozen=True, eq=False)
class Library:
    """The descriptors and poses that a model predicted for N files.

    Attributes:
        model: its name, and key: which weights these were.
        files: N paths, relative to the folder of the library.
        stamps: (N, 2), each file's size and time of change.
        descriptors: (N, D), of length 1; labels: (N,), indices into `classes`; poses: (N, 4), WXYZ, of these classes.
    """

    model: str
    key: str
    classes: tuple[str, ...]
    files: tuple[str, ...]
    stamps: Tensor
    descriptors: Tensor
    labels: Tensor
    poses: Tensor

    def nearest(self, query: Answer, count: int = 10) -> list[Neighbour]:
        """The most similar shapes, best first. Rotations compare the poses for the neighbour's class."""
        similarity, rows = (self.descriptors @ query.descriptor).topk(min(count, len(self.files)))
        labels = self.labels[rows]
        rotations = canonicalize(multiply(query.poses[labels], conjugate(self.poses[rows].double())))
        return [
            Neighbour(self.files[row], self.classes[label], float(value), rotation)
            for row, label, value, rotation in zip(rows.tolist(), labels.tolist(), similarity, rotations, strict=True)
        ]

    def fits(self, model: Model) -> bool:
        """Whether it was made with this model."""
        made = self.key, self.classes, self.descriptors.shape[-1]
        return made == (hash_model(model), model.classes, model.width)

    def unchanged(self, stamps: Stamps) -> Library:
        """The library without files that were removed or changed."""
        known = zip(self.files, map(tuple, self.stamps.tolist()), strict=True)
        kept = [row for row, (name, stamp) in enumerate(known) if stamps.get(name) == stamp]
        rows = torch.tensor(kept, dtype=torch.int64)
        tensors: dict[str, Any] = {name: getattr(self, name)[rows] for name in _TENSORS}
        return replace(self, files=tuple(self.files[row] for row in kept), **tensors)

    def adding(self, answers: Mapping[str, Answer], stamps: Stamps) -> Library:
        """The library with further answers, by file, at its end."""
        if not answers:
            return self
        said = [*answers.values()]
        more = {
            "stamps": torch.tensor([stamps[name] for name in answers], dtype=torch.int64),
            "descriptors": torch.stack([answer.descriptor for answer in said]),
            "labels": torch.stack([answer.activations.argmax() for answer in said]),
            "poses": torch.stack([answer.pose.float() for answer in said]),
        }
        tensors: dict[str, Any] = {name: torch.cat((getattr(self, name), more[name])) for name in _TENSORS}
        return replace(self, files=(*self.files, *answers), **tensors)

    def write(self, path: Path) -> None:
        """Replace the file at `path` in one step, so that concurrent readers see the old or the new one."""
        about = {name: getattr(self, name) for name in ("model", "key", "classes", "files")}
        write_tensors(path, {name: getattr(self, name) for name in _TENSORS}, about)


_TENSORS = ("stamps", "descriptors", "labels", "poses")


def read_library(path: Path) -> Library:
    """Read what `Library.write` wrote.

    Raises:
        ValueError: for a file that is damaged, or no index; one sentence that names it.
    """
    tensors, about = read_tensors(path)
    if missing := [name for name in _TENSORS if name not in tensors]:
        raise ValueError(f"{path}: is not an index of shapes (it has no {missing[0]}); create one with qec index")
    names = decode(about, _Names, path)
    library = Library(names.model, names.key, names.classes, names.files, *(tensors[name] for name in _TENSORS))
    try:
        _check_tensors(library)
    except ValueError as error:
        raise ValueError(f"{path}: is damaged ({error}); create it again with qec index --force") from error
    return library


@dataclass(frozen=True)
class _Names:
    """What an index says beside its tensors."""

    model: str
    key: str
    classes: tuple[str, ...]
    files: tuple[str, ...]

    def __post_init__(self) -> None:
        check_names("classes", self.classes)
        check_names("model", [self.model])
        if len({*self.files}) < len(self.files):
            raise ValueError("files has a path twice")
        for file in self.files:
            if not file or "\0" in file or PurePosixPath(file).is_absolute() or ".." in PurePosixPath(file).parts:
                raise ValueError("files has a path that does not lead into the folder of the library")


def _check_tensors(library: Library) -> None:
    """Raise a ValueError unless there is one finite row for each file, and labels are indices of classes."""
    count, width = len(library.files), library.descriptors.shape[-1] if library.descriptors.dim() == 2 else -1
    expected = {
        "stamps": ((count, 2), torch.int64),
        "descriptors": ((count, width), torch.float32),
        "labels": ((count,), torch.int64),
        "poses": ((count, 4), torch.float32),
    }
    for name, (shape, dtype) in expected.items():
        tensor: Tensor = getattr(library, name)
        if tuple(tensor.shape) != shape or tensor.dtype != dtype:
            raise ValueError(f"{name} has shape {tuple(tensor.shape)} and type {tensor.dtype}, for {count} files")
        if not tensor.isfinite().all():
            raise ValueError(f"{name} has values that are not finite")
    if ((library.labels < 0) | (library.labels >= len(library.classes))).any():
        raise ValueError(f"labels has values that are not indices of its {len(library.classes)} classes")
    for name in ("descriptors", "poses"):
        if ((getattr(library, name).double().norm(dim=-1) - 1).abs() > _UNIT).any():
            raise ValueError(f"{name} has a row that is not of length 1")


def empty_library(model: Model) -> Library:
    """A library without files."""
    stamps = torch.zeros(0, 2, dtype=torch.int64)
    descriptors, poses = torch.zeros(0, model.width), torch.zeros(0, 4)
    return Library(model.name, hash_model(model), model.classes, (), stamps, descriptors, stamps[:, 0], poses)


def hash_model(model: Model) -> str:
    """Hash what predictions depend on besides the shape: weights, classes and how shapes are prepared."""
    about = hashlib.sha256(repr((model.classes, model.config, model.network.config)).encode())
    for name, tensor in sorted(model.network.state_dict().items()):
        about.update(name.encode() + tensor.cpu().numpy().tobytes())
    return about.hexdigest()


def stamps_of(folder: Path, files: Iterable[Path]) -> Stamps:
    """The size and modification time of files below a folder."""
    found = ((path.relative_to(folder).as_posix(), path.stat()) for path in files)
    return {name: (status.st_size, status.st_mtime_ns) for name, status in found}


def extend(
    library: Library, model: Model, folder: Path, stamps: Stamps, path: Path, workers: int = 1
) -> Generator[Answer | Failure]:
    """Predict the files that a library does not have yet, and write the extended library to `path`.

    It is written about twice a minute, at the end, and when the generator is closed or interrupted.
    """
    known = {*library.files}
    missing = [name for name in stamps if name not in known]
    found: dict[str, Answer] = {}
    saved = monotonic()
    results = model.predict_many([folder / name for name in missing], workers=workers)
    try:
        for name, result in zip(missing, results, strict=True):
            if isinstance(result, Answer):
                found[name] = result
            yield result
            if monotonic() - saved > _SECONDS:
                library, found, saved = library.adding(found, stamps), {}, monotonic()
                library.write(path)
    finally:
        library.adding(found, stamps).write(path)
