"""The paper's Tables 1 and 2, with what was measured here next to the published figures."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from qecnet.evaluation.published import PublishedAccuracy, PublishedErrors, published_figures
from qecnet.evaluation.results import (
    MODES,
    PROTOCOLS,
    ClassificationResult,
    ErrorGroups,
    ProtocolName,
    RotationResult,
)
from qecnet.evaluation.run import EvaluatedRun


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
        yield ComparedAccuracy(row.method, row, row.ar, of_kind.get(row.kind))
    in_tables = {row.method for row in figures.classification} | {row.method for row in figures.rotation}
    for kind, method in figures.methods.items():
        if method in in_tables:
            continue
        since = next((row.ar for row in figures.since if row.method.startswith(f"{method} (")), None)
        yield ComparedAccuracy(method, None, since, of_kind.get(kind))


def compare_errors(runs: Sequence[EvaluatedRun]) -> Iterator[ComparedErrors]:
    """Compare runs on ModelNet10 with the methods of Table 2.

    Args:
        runs: any runs; of two with one configuration, the first is taken.

    Yields:
        A row for each method.
    """
    runs = [run for run in runs if run.settings.dataset == "modelnet10"]
    of_kind: dict[str, EvaluatedRun | None] = {run.kind: run for run in reversed(runs)}
    unlearned = (run for run in runs if run.pose_baselines and "PCA" in run.pose_baselines.same_instance)
    of_kind[""] = next(unlearned, None)
    for row in published_figures().rotation:
        run = of_kind.get(row.kind)
        yield ComparedErrors(row.method, row, {p: _errors_of(run, row.errors, p) for p in PROTOCOLS})


def _errors_of(run: EvaluatedRun | None, which: str, protocol: ProtocolName) -> ErrorGroups | None:
    if run is None:
        return None
    if which not in MODES:
        return run.pose_baselines.same_instance.get(which) if run.pose_baselines else None
    found = run.result(RotationResult, protocol)
    return getattr(getattr(found.modes, which), "correct" if protocol == "paper" else "all") if found else None
