"""Published figures, and the paper's Tables 1 and 2 next to what was measured here.

Published are Tables 1, 2 and 3 of the paper, and accuracies of methods since then. They are data, in published.json
next to this module, because the report of an installed package shows them too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from qecnet.evaluation.results import (
    PROTOCOLS,
    ClassificationResult,
    ErrorGroups,
    PoseBaselinesResult,
    ProtocolName,
    RotationResult,
)
from qecnet.evaluation.run import NETWORKS, EvaluatedRun
from qecnet.schema import decode_file


@dataclass(frozen=True)
class PublishedAccuracy:
    """A column of Table 1: accuracy on ModelNet40, trained upright; tested upright (`nr`) and rotated (`ar`).

    Attributes:
        parameters: as rounded in the paper.
        nr: None where the paper has a dash.
    """

    method: str
    parameters: int
    nr: float | None
    ar: float


@dataclass(frozen=True)
class LaterAccuracy:
    """A method since the paper: accuracy on rotated ModelNet40 from points without normals, by its authors."""

    method: str
    ar: float


@dataclass(frozen=True)
class PublishedErrors:
    """A row of Table 2: the mean relative angular error on ModelNet10, over correctly classified shapes.

    Attributes:
        per_class: in the paper's order, first the classes that it takes to be without symmetry.
    """

    method: str
    average: float
    no_sym: float
    per_class: Mapping[str, float]


@dataclass(frozen=True)
class PublishedRobustness:
    """A column of Table 3, on ModelNet10, with the same corruption in the words of `Corruption`.

    Attributes:
        name: the paper's heading.
        rae: the mean relative angular error of classes without symmetry.
    """

    name: str
    kind: str
    level: float
    accuracy: float
    rae: float


@dataclass(frozen=True)
class PublishedFigures:
    """All of them, with the paper that they are from; `since` are from the methods' own publications."""

    source: str
    classification: tuple[PublishedAccuracy, ...]
    since: tuple[LaterAccuracy, ...]
    rotation: tuple[PublishedErrors, ...]
    robustness: tuple[PublishedRobustness, ...]


@cache
def published_figures() -> PublishedFigures:
    """Read the published figures from the package's data."""
    return decode_file(Path(__file__).with_name("published.json"), PublishedFigures)


_TABLE_1 = {"QEC": "paper", "QEC, no canonicalisation": "var"} | {name: kind for kind, name in NETWORKS.items()}
"""Which configuration is a method of Table 1."""
_TABLE_2 = {
    "PointNetLK": ("pointnetlk", "same_instance"),
    "IT-Net": ("it_net", "canonical"),
    "QEC, canonical": ("paper", "canonical"),
    "QEC, siamese": ("paper", "siamese"),
}
"""Which configuration is a method of Table 2, and where its errors are: pairs of one shape, or a mode of rotation."""
_WITHOUT_LEARNING = {"Mean LRF": "mean LRF", "PCA, resampled": "PCA", "PCA, resampled and rotated": "PCA"}
"""Methods of Table 2 that align pairs. Their poses rotate with the cloud, including the signs of PCA's axes, so the two
protocols agree, and PCA's two rows are one."""
_SINCE = ("TFN", "RIConv++", "Vector Neurons")
"""Methods that are run here and have no column in Table 1."""


@dataclass(frozen=True)
class ComparedAccuracy:
    """A method of Table 1, or one since; None is what was not published or not measured."""

    method: str
    published: PublishedAccuracy | None
    published_ar: float | None
    run: EvaluatedRun | None

    def measured(self, protocol: ProtocolName) -> ClassificationResult | None:
        """Get what was measured here under a protocol."""
        return self.run.result(ClassificationResult, protocol) if self.run else None


@dataclass(frozen=True)
class ComparedErrors:
    """A method of Table 2, and its errors by protocol.

    Under "paper" these are of correctly classified shapes, as published; under "strict" of all shapes. Both are
    the same for methods that align pairs of clouds by their points alone: they classify nothing and read no frames.
    """

    method: str
    published: PublishedErrors
    measured: Mapping[ProtocolName, ErrorGroups | None]


def compare_accuracy(runs: Sequence[EvaluatedRun]) -> Iterator[ComparedAccuracy]:
    """Compare runs on ModelNet40 with the methods of Table 1, and with later methods that are run here.

    Args:
        runs: any runs; of two with one configuration, the first is taken.

    Yields:
        A row for each method.
    """
    figures = published_figures()
    of_kind = {run.kind: run for run in reversed(runs) if run.settings.dataset == "modelnet40"}
    for row in figures.classification:
        yield ComparedAccuracy(row.method, row, row.ar, of_kind.get(_TABLE_1.get(row.method, "")))
    for method in _SINCE:
        since = next((row.ar for row in figures.since if row.method.startswith(f"{method} (")), None)
        yield ComparedAccuracy(method, None, since, of_kind.get(_TABLE_1[method]))


def compare_errors(runs: Sequence[EvaluatedRun]) -> Iterator[ComparedErrors]:
    """Compare runs on ModelNet10 with the methods of Table 2.

    Args:
        runs: any runs; of two with one configuration, the first is taken.

    Yields:
        A row for each method.
    """
    runs = [run for run in runs if run.settings.dataset == "modelnet10"]
    of_kind = {run.kind: run for run in reversed(runs)}
    pairs = next((found for run in runs if (found := run.pose_baselines) and "PCA" in found.same_instance), None)
    for row in published_figures().rotation:
        kind, where = _TABLE_2.get(row.method, ("", ""))
        run = of_kind.get(kind)
        measured: dict[ProtocolName, ErrorGroups | None]
        if where == "same_instance":
            measured = dict.fromkeys(PROTOCOLS, _of_pairs(run.pose_baselines if run else None, row.method))
        elif where:
            measured = {p: _of_mode(run, p, where) for p in PROTOCOLS}
        else:
            measured = dict.fromkeys(PROTOCOLS, _of_pairs(pairs, _WITHOUT_LEARNING.get(row.method, "")))
        yield ComparedErrors(row.method, row, measured)


def _of_pairs(found: PoseBaselinesResult | None, method: str) -> ErrorGroups | None:
    return found.same_instance.get(method) if found else None


def _of_mode(run: EvaluatedRun | None, protocol: ProtocolName, mode: str) -> ErrorGroups | None:
    found = run.result(RotationResult, protocol) if run else None
    if found is None:
        return None
    counted = "correct" if protocol == "paper" else "all"
    return next(errors for *which, errors in found.modes if which == [mode, counted])
