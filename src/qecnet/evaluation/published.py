"""Published figures: Tables 1, 2 and 3 of the paper, and accuracies of methods since then.

They are data, in published.json next to this module, because the report of an installed package shows them too.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from qecnet.schema import decode_file


@dataclass(frozen=True)
class PublishedAccuracy:
    """A column of Table 1: accuracy on ModelNet40, trained upright; tested upright (`nr`) and rotated (`ar`).

    Attributes:
        kind: `EvaluatedRun.kind` of runs of the method here.
        parameters: as rounded in the paper.
        nr: None where the paper has a dash.
    """

    method: str
    kind: str
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
        kind: `EvaluatedRun.kind` of runs of the method here; empty for methods that learn nothing. Their poses rotate
            with the cloud, including the signs of PCA's axes, so the two protocols agree, and PCA's two rows are one.
        errors: where the method's errors are in such a run: a mode of rotation, or a method of alignment.
        per_class: in the paper's order, first the classes that it takes to be without symmetry.
    """

    method: str
    kind: str
    errors: str
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
    """All published figures.

    Attributes:
        source: the paper that all but `since` are from.
        methods: names in tables of the methods that are run here, by the name of their configuration.
        since: from the methods' own publications.
    """

    source: str
    methods: Mapping[str, str]
    classification: tuple[PublishedAccuracy, ...]
    since: tuple[LaterAccuracy, ...]
    rotation: tuple[PublishedErrors, ...]
    robustness: tuple[PublishedRobustness, ...]


@cache
def published_figures() -> PublishedFigures:
    """Read the published figures from the package's data.

    Returns:
        All figures; the file is read once.
    """
    return decode_file(Path(__file__).with_name("published.json"), PublishedFigures)
