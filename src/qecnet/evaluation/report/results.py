"""What a run's folder has to tell: how it was trained, and all that `qec evaluate` has measured of it so far.

Everything is read and checked here, once; the rest of the report can trust it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar, get_args

from qecnet.evaluation.metrics import BINS
from qecnet.evaluation.predict import Predictions, read_predictions
from qecnet.evaluation.protocol import Protocol
from qecnet.evaluation.report.record import Record
from qecnet.nn.baselines import BASELINES

PROTOCOLS: tuple[Protocol, ...] = tuple(reversed(get_args(Protocol)))
"""Strict first: it is the one that users live with."""

HISTOGRAM = 36
"""Bins of 5°, from 0° to 180°."""

MODES = ("canonical", "siamese", "category")
"""Against the truth, between two views of one shape, and, where it was measured, between two shapes of one class."""

COUNTED = ("correct", "all")
STAGES = ("network", "frames", "resampled")
ACCURACIES = ("nr", "exact_frames", "reestimated", "resampled")

_NAMES = {
    "paper": "QEC (ours)",
    "release": "QEC, sizes of the release (ours)",
    "features": "QEC with features (ours)",
    "pointnet": "PointNet",
    "pointnet2": "PointNet++",
    "dgcnn": "DGCNN",
    "ppf": "PPF",
}


@dataclass(frozen=True)
class Model:
    """How a run was trained, from its settings.json, by the names there."""

    dataset: str
    per_class: int
    config: str
    method: str
    points: int
    frames: int
    epochs: int
    batch_size: int
    learning_rate: float
    loss: str
    siamese: float
    aligned: float
    validation: float
    seed: int

    @property
    def has_poses(self) -> bool:
        return self.config not in BASELINES

    @property
    def name(self) -> str:
        name = _NAMES.get(self.config, self.config)
        return f"{name}, siamese loss" if self.siamese > 0 else name


@dataclass(frozen=True)
class About:
    """What each result says of itself."""

    protocol: Protocol
    dataset: str
    classes: tuple[str, ...]
    missing: tuple[str, ...]
    shapes: int
    parameters: int


@dataclass(frozen=True)
class Accuracy:
    """Of NR or of AR views; shares 0..1, None where a class has no shape."""

    accuracy: float
    interval: tuple[float, ...]
    mean_class: float
    per_class: Mapping[str, float | None]
    confusion: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Classification:
    about: About
    rotations: int
    nr: Accuracy
    ar: Accuracy | None


@dataclass(frozen=True)
class Spread:
    """How errors of rotation spread: mean and median of angle/π, shares below 5°, 15°, 30°, `BINS`, bins of 5°."""

    mean: float
    median: float
    acc5: float
    acc15: float
    acc30: float
    cumulative: tuple[float, ...]
    histogram: tuple[float, ...]


@dataclass(frozen=True)
class Errors:
    """Of `count` views or pairs, plain and up to the class's symmetry."""

    count: int
    plain: Spread
    symmetric: Spread


@dataclass(frozen=True)
class Groups:
    """None where there was nothing to count."""

    all_classes: Errors | None
    no_sym: Errors | None
    per_class: Mapping[str, Errors | None]


@dataclass(frozen=True)
class Rotation:
    """`modes` by mode and by what was counted: `modes["siamese"]["all"]`."""

    about: About
    rotations: int
    resamplings: int
    modes: Mapping[str, Mapping[str, Groups]]


@dataclass(frozen=True)
class Level:
    """A dose of one kind of damage, and what it does; see `Spoiling` for the kinds."""

    kind: str
    level: float
    accuracy: float
    interval: tuple[float, ...]
    rae: float | None
    rae_all: float | None
    rae_symmetric: float | None


@dataclass(frozen=True)
class Robustness:
    about: About
    levels: tuple[Level, ...]


@dataclass(frozen=True)
class Change:
    """By how much a prediction departs from the one that turns exactly with the shape."""

    pose_degrees_max: float | None
    pose_degrees_median: float | None
    activation_max: float | None
    labels_changed: float | None


@dataclass(frozen=True)
class Equivariance:
    """`stages` and `accuracy` by the names of STAGES and ACCURACIES."""

    about: About
    stages: Mapping[str, Change]
    accuracy: Mapping[str, float | None]


@dataclass(frozen=True)
class PoseBaseline:
    """A method that estimates the rotation between two clouds, its seconds a pair, and how often it had no answer."""

    method: str
    groups: Groups
    seconds: float | None
    no_answer: int


@dataclass(frozen=True)
class PoseBaselines:
    """Two clouds of one shape, and clouds of two shapes of one class; `keep` is a view's share of a stored cloud."""

    protocol: Protocol
    keep: float
    same_instance: tuple[PoseBaseline, ...]
    category_level: tuple[PoseBaseline, ...]


@dataclass(frozen=True)
class Epoch:
    """A line of the log; None is what was not measured in this epoch."""

    epoch: int
    loss: float
    classification_loss: float | None
    pose_loss: float | None
    train_accuracy: float | None
    validation_nr: float | None
    validation_ar: float | None


@dataclass(frozen=True)
class Training:
    """What result.json says at the end of a training."""

    parameters: int
    shapes: int
    seconds: float


@dataclass(frozen=True)
class Run:
    """A run's folder, read; results by their protocol."""

    folder: Path
    model: Model
    training: Training | None
    log: tuple[Epoch, ...]
    classification: Mapping[Protocol, Classification]
    rotation: Mapping[Protocol, Rotation]
    robustness: Mapping[Protocol, Robustness]
    equivariance: Mapping[Protocol, Equivariance]

    @property
    def name(self) -> str:
        """The folder's name, without where on this machine it is."""
        return self.folder.resolve().name

    @property
    def measured(self) -> list[About]:
        """Of every result that there is."""
        kinds = (self.classification, self.rotation, self.robustness, self.equivariance)
        return [result.about for kind in kinds for result in kind.values()]

    def predictions(self, what: str, protocol: Protocol) -> Predictions | None:
        """One row a view; None where the file is not there."""
        path = self.folder / "evaluation" / f"{what}-{protocol}.npz"
        return read_predictions(path) if path.exists() else None


Result = TypeVar("Result")


def unmeasured(found: Mapping[Protocol, object]) -> list[Protocol]:
    """Protocols that are still to be measured; strict alone where none has been."""
    return [protocol for protocol in PROTOCOLS if protocol not in found] if found else [PROTOCOLS[0]]


def figure(of: object | None, name: str) -> Any:
    """A figure of a result by its name; None where there is no such result."""
    return None if of is None else getattr(of, name)


def read_run(folder: Path) -> Run:
    """A folder of `qec train`, with what has been evaluated.

    Raises:
        ValueError: where it is no such folder, a file in it is damaged, or nothing has been evaluated.
    """
    if not folder.is_dir():
        raise ValueError(f"{folder}: there is no such folder; give the folder of a run of qec train")
    if not (folder / "settings.json").exists():
        raise ValueError(f"{folder}: is not the folder of a run (it has no settings.json); give one of qec train")
    result, log = folder / "result.json", folder / "log.jsonl"
    run = Run(
        folder,
        _model(Record.read(folder / "settings.json")),
        _training(Record.read(result)) if result.exists() else None,
        tuple(_epoch(line) for line in Record.read_lines(log)) if log.exists() else (),
        _results(folder, "classification", _classification),
        _results(folder, "rotation", _rotation),
        _results(folder, "robustness", _robustness),
        _results(folder, "equivariance", _equivariance),
    )
    if not run.measured:
        raise ValueError(
            f"{folder}: nothing has been measured yet; "
            f"begin with qec evaluate classification {folder} --data PATH --protocol strict"
        )
    return run


def read_pose_baselines(path: Path) -> PoseBaselines:
    """What other ways to estimate a rotation scored on the same shapes."""
    record = Record.read(path)
    tables = {
        name: tuple(
            PoseBaseline(method, _groups(row), row.number_or_none("seconds"), row.integer("no_answer"))
            for method in table
            for row in [table.record(method)]
        )
        for name in ("same_instance", "category_level")
        for table in [record.record(name)]
    }
    protocol = next((name for name in PROTOCOLS if name == record.text("protocol")), None)
    if protocol is None:
        raise ValueError(f"{path}: has the protocol {record.text('protocol')}; there are {', '.join(PROTOCOLS)}")
    return PoseBaselines(protocol, record.number("keep"), **tables)


def _results(folder: Path, what: str, parse: Callable[[Record, About], Result]) -> dict[Protocol, Result]:
    found = {}
    for protocol in PROTOCOLS:
        path = folder / "evaluation" / f"{what}-{protocol}.json"
        if path.exists():
            record = Record.read(path)
            if (record.text("what"), record.text("protocol")) != (what, protocol):
                raise ValueError(f"{path}: is a result of {record.text('what')}, {record.text('protocol')}; rename it")
            found[protocol] = parse(record, _about(record, protocol))
    return found


def _model(r: Record) -> Model:
    read = {"str": r.text, "int": r.integer, "float": r.number}
    names = {field.name: str(field.type) for field in fields(Model)}
    values: dict[str, Any] = {name: read[kind](name) for name, kind in names.items() if name != "aligned"}
    return Model(**values, aligned=r.number_or_none("aligned") or 0.0)  # runs of before it was there do not name it


def _training(r: Record) -> Training:
    return Training(r.integer("parameters"), r.integer("shapes"), r.number("training_seconds"))


def _epoch(r: Record) -> Epoch:
    others = ("classification_loss", "pose_loss", "train_accuracy", "validation_nr", "validation_ar")
    return Epoch(r.integer("epoch"), r.number("loss"), *(r.number_or_none(name) for name in others))


def _about(r: Record, protocol: Protocol) -> About:
    return About(
        protocol,
        r.text("dataset"),
        r.texts("classes"),
        r.texts("missing"),
        r.integer("shapes"),
        r.record("model").integer("parameters"),
    )


def _classification(r: Record, about: About) -> Classification:
    turned = r.record_or_none("ar")
    return Classification(
        about,
        r.integer("rotations"),
        _accuracy(r.record("nr"), about),
        None if turned is None else _accuracy(turned, about),
    )


def _accuracy(r: Record, about: About) -> Accuracy:
    per_class = r.record("per_class")
    return Accuracy(
        r.number("accuracy"),
        r.numbers("interval", 2),
        r.number("mean_class"),
        {name: per_class.number_or_none(name) for name in about.classes},
        r.counts("confusion", len(about.classes)),
    )


def _rotation(r: Record, about: About) -> Rotation:
    given = r.record("modes")
    modes = {
        mode: {counted: _groups(given.record(mode).record(counted)) for counted in COUNTED}
        for mode in MODES
        if mode in (*given, *MODES[:2])
    }
    return Rotation(about, r.integer("rotations"), r.integer("resamplings"), modes)


def _groups(r: Record) -> Groups:
    per_class = r.record("per_class")
    errors = {name: _errors(per_class.record_or_none(name)) for name in per_class}
    return Groups(_errors(r.record_or_none("all_classes")), _errors(r.record_or_none("no_sym")), errors)


def _errors(r: Record | None) -> Errors | None:
    return None if r is None else Errors(r.integer("count"), _spread(r), _spread(r.record("symmetric")))


def _spread(r: Record) -> Spread:
    figures = {name: r.number(name) for name in ("mean", "median", "acc5", "acc15", "acc30")}
    cumulative, histogram = r.numbers("cumulative", len(BINS)), r.numbers("histogram", HISTOGRAM)
    return Spread(**figures, cumulative=cumulative, histogram=histogram)


def _robustness(r: Record, about: About) -> Robustness:
    return Robustness(
        about,
        tuple(
            Level(
                level.text("kind"),
                level.number("level"),
                level.number("accuracy"),
                level.numbers("interval", 2),
                *(level.number_or_none(name) for name in ("rae", "rae_all", "rae_symmetric")),
            )
            for level in r.records("levels")
        ),
    )


def _equivariance(r: Record, about: About) -> Equivariance:
    fields = ("pose_degrees_max", "pose_degrees_median", "activation_max", "labels_changed")
    changes = {
        stage: Change(*(record.number_or_none(field) for field in fields))
        for stage in STAGES
        for record in [r.record(stage)]
    }
    accuracy = r.record("accuracy")
    return Equivariance(about, changes, {name: accuracy.number_or_none(name) for name in ACCURACIES})
