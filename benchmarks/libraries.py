"""Libraries of many descriptors, varied from those of a few shapes, for the benchmarks of search."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from qecnet.datasets import open_dataset
from qecnet.models import Answer, Model, Stamp, edit_library, hash_model

BUILD = Path(__file__).parents[1] / "build"
WANTED = 10
Floats = NDArray[np.float32]
Rows = NDArray[np.int64]


class Described(NamedTuple):
    """Descriptors (N, D) of length 1, and the numbers of their shapes' classes (N,)."""

    descriptors: Floats
    classes: Rows


def describe_shapes(model: Model, data: Path | None) -> Described:
    """Descriptors of procedural shapes and of ModelNet40's test clouds, if given; kept in build/.

    Without ModelNet40 there are more procedural shapes.
    """
    path = BUILD / f"descriptors-{hash_model(model)[:12]}{'' if data is None else '-modelnet40'}.npz"
    if not path.exists():
        datasets = [open_dataset("shapes", per_class=100 if data else 500)]
        datasets += [open_dataset("modelnet40", data)] if data else []
        answers = []
        for item in (item for dataset in datasets for item in dataset.items("test")):
            try:
                answers.append(model.predict(item.load_cloud(2048)))
            except ValueError:  # a cloud without a surface
                continue
        descriptors = np.stack([answer.descriptor.numpy() for answer in answers])
        classes = np.array([model.classes.index(answer.label) for answer in answers])
        BUILD.mkdir(exist_ok=True)
        np.savez(path, descriptors=descriptors, classes=classes)
    with np.load(path) as stored:
        return Described(stored["descriptors"].astype(np.float32), stored["classes"])


def vary(shapes: Described, count: int, seed: int = 0) -> Described:
    """Make more descriptors: each lies between one of a shape and its nearest ones, as real shapes vary."""
    random = np.random.default_rng(seed)
    real = shapes.descriptors
    near = np.argsort(-(real @ real.T), axis=1)[:, 1:9]
    made, classes = np.empty((count, real.shape[1]), np.float32), np.empty(count, np.int64)
    for start in range(0, count, 10_000):
        base = random.integers(0, len(real), min(10_000, count - start))
        weights = random.dirichlet(np.ones(9), len(base)).astype(np.float32)
        mixed = weights[:, :1] * real[base] + np.einsum("nk,nkd->nd", weights[:, 1:], real[near[base]])
        mixed += 0.003 * random.standard_normal(mixed.shape, np.float32)
        made[start : start + len(base)] = mixed / np.linalg.norm(mixed, axis=1, keepdims=True)
        classes[start : start + len(base)] = shapes.classes[base]
    return Described(made, classes)


def find_exactly(
    descriptors: Floats, queries: Floats, matches: Callable[[slice], NDArray[np.bool_]] | None = None
) -> list[set[int]]:
    """The rows of the nearest descriptors by definition, for each query, a block of rows at a time.

    Args:
        descriptors: (N, D).
        queries: (Q, D).
        matches: for some rows, (Q, M) or (1, M): whether they match the filter of each query.
    """
    best = np.full((len(queries), WANTED), -np.inf, np.float32)
    rows = np.zeros((len(queries), WANTED), np.int64)
    for start in range(0, len(descriptors), 50_000):
        block = slice(start, min(start + 50_000, len(descriptors)))
        similarity = queries @ descriptors[block].T
        if matches is not None:
            similarity = np.where(matches(block), similarity, -np.inf)
        both = np.concatenate((best, similarity), axis=1)
        numbers = np.concatenate((rows, np.broadcast_to(np.arange(block.start, block.stop), similarity.shape)), 1)
        order = np.argpartition(-both, WANTED, axis=1)[:, :WANTED]
        best, rows = np.take_along_axis(both, order, 1), np.take_along_axis(numbers, order, 1)
    return [{*row[found > -np.inf].tolist()} for row, found in zip(rows, best, strict=True)]


def recall(found: list[set[int]], expected: list[set[int]]) -> float:
    """The mean share of the expected rows that were found."""
    shares = [len(one & two) / len(two) for one, two in zip(found, expected, strict=True) if two]
    return float(np.mean(shares))


def make_answer(model: Model, descriptor: Floats, number: int = 0, confidence: float = 1.0) -> Answer:
    """What the model might predict: class `number` with that confidence, upright."""
    activations = torch.zeros(len(model.classes))
    activations[number] = float(confidence)
    poses = torch.tensor([1.0, 0, 0, 0], dtype=torch.float64).expand(len(model.classes), 4)
    return Answer("", model.classes, activations, poses, torch.from_numpy(descriptor), torch.zeros(3), 1.0, 0.0)


def build_library(model: Model, path: Path, shapes: Described, confidences: Floats | None = None) -> None:
    """Write a library whose files are named by their rows; confidences, (N,), are 1 by default."""
    sure = np.ones(len(shapes.classes), np.float32) if confidences is None else confidences
    with edit_library(path, model) as library:
        for start in range(0, len(sure), 10_000):
            library.add(
                (f"{row}.ply", Stamp(0, 0), make_answer(model, shapes.descriptors[row], shapes.classes[row], sure[row]))
                for row in range(start, min(start + 10_000, len(sure)))
            )
        library.finish()


def row_of(file: str) -> int:
    """The row of a file of `build_library`."""
    return int(file.removesuffix(".ply"))
