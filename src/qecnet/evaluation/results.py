"""Results of measurements: one dataclass per measurement, one JSON writer and one validating reader for all.

Accuracies and other shares are 0..1, orientation errors are relative angular errors (angle/π, 0..1) unless the name
says degrees. `None` marks a figure that has nothing to average.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar, Literal, TypeVar

from qecnet.files import as_json, write_whole
from qecnet.schema import decode_file

ProtocolName = Literal["paper", "strict"]
CorruptionKind = Literal["frames", "points", "noise", "outliers", "occlusion", "viewpoint", "density"]
"""The kinds of `Corruption`."""

PROTOCOLS: tuple[ProtocolName, ...] = ("strict", "paper")
"""The strict protocol first: it is what users get."""

BINS = (5, 10, 15, 20, 25, 30, 45, 60)
"""Degrees of the cumulative error histogram.

The paper's appendix draws its bins in a figure and lists none in the text except the last, 60°; the others are ours.
"""

HISTOGRAM_BINS = 36
"""Bins of 5°, from 0° to 180°."""


@dataclass(frozen=True, kw_only=True)
class Result:
    """The fields that all results share.

    Attributes:
        measurement: its name.
        file: the pattern of the name of its file.
        protocol: how test views were made, see `qecnet.evaluation.protocols`.
        dataset: the dataset's name.
        classes: the classes that were measured.
        split: the part of the dataset that was measured.
        seed: of resampling and rotations.
    """

    measurement: ClassVar[str]
    file: ClassVar[str] = "{measurement}-{protocol}.json"
    protocol: ProtocolName
    dataset: str
    split: str
    classes: tuple[str, ...]
    seed: int

    @classmethod
    def file_name(cls, protocol: ProtocolName) -> str:
        """Get the name of the result's file in the evaluation folder of a run.

        Args:
            protocol: the protocol of the measurement.

        Returns:
            The name.
        """
        return cls.file.format(measurement=cls.measurement, protocol=protocol)


@dataclass(frozen=True)
class MeasuredModel:
    """The network that was measured: its number of parameters, and whether it predicts poses."""

    parameters: int
    poses: bool = True


@dataclass(frozen=True, kw_only=True)
class ModelResult(Result):
    """A result of one model.

    `EvaluatedRun` finds the results of its direct subclasses, in the order in which they are defined.

    Attributes:
        missing: classes that only the model or only the dataset has; they are not measured.
        shapes: how many test shapes were measured.
        model: the network.
        points: the median number of points per view that the frames were estimated from.
    """

    missing: tuple[str, ...]
    shapes: int
    model: MeasuredModel
    points: int | None = None


@dataclass(frozen=True)
class Accuracy:
    """Accuracy over views.

    Attributes:
        accuracy: over all views.
        interval: its 95% interval, bootstrapped over shapes.
        mean_class: the mean of the classes' accuracies.
        per_class: by class name; None for a class without views.
        confusion: counts, a row for each true class, a column for each predicted one.
    """

    accuracy: float
    interval: tuple[float, float]
    mean_class: float
    per_class: Mapping[str, float | None]
    confusion: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        size = len(self.per_class)
        if [len(row) for row in self.confusion] != [size] * size:
            raise ValueError(f"confusion is not a table of {size} × {size} counts")


@dataclass(frozen=True, kw_only=True)
class ClassificationResult(ModelResult):
    """Table 1: accuracy on upright and on rotated views.

    Attributes:
        rotations: number of rotated views of each shape.
        nr: accuracy on upright views ("no rotation").
        ar: accuracy on rotated views ("arbitrary rotation").
    """

    measurement = "classification"
    rotations: int
    nr: Accuracy
    ar: Accuracy


@dataclass(frozen=True, kw_only=True)
class ErrorSummary:
    """Orientation errors: mean, median, shares below 5°, 15° and 30°, below each of `BINS`, and in bins of 5°."""

    mean: float
    median: float
    acc5: float
    acc15: float
    acc30: float
    cumulative: tuple[float, ...]
    histogram: tuple[float, ...]

    def __post_init__(self) -> None:
        for name, size in (("cumulative", len(BINS)), ("histogram", HISTOGRAM_BINS)):
            if len(getattr(self, name)) != size:
                raise ValueError(f"{name} is not a list of {size} values")


@dataclass(frozen=True, kw_only=True)
class RotationErrors(ErrorSummary):
    """Orientation errors of views or pairs.

    Attributes:
        count: number of views or pairs.
        symmetric: the errors up to the symmetry of the class.
    """

    count: int
    symmetric: ErrorSummary


@dataclass(frozen=True, kw_only=True)
class ErrorGroups:
    """Errors over all classes, over those without symmetry, and for each class."""

    all_classes: RotationErrors | None
    no_sym: RotationErrors | None
    per_class: Mapping[str, RotationErrors | None]


@dataclass(frozen=True)
class ModeErrors:
    """Errors of correctly classified views or pairs, as the paper counts them, and of all."""

    correct: ErrorGroups
    all: ErrorGroups


@dataclass(frozen=True)
class RotationModes:
    """Errors against the true rotation, between two views of a shape, and between two shapes of a class."""

    canonical: ModeErrors
    siamese: ModeErrors
    category: ModeErrors

    def __iter__(self) -> Iterator[tuple[str, str, ErrorGroups]]:
        """Iterate over errors, each with its mode and what is counted, "all" or "correct"."""
        for mode in MODES:
            errors: ModeErrors = getattr(self, mode)
            yield mode, "all", errors.all
            yield mode, "correct", errors.correct


MODES = ("canonical", "siamese", "category")


@dataclass(frozen=True, kw_only=True)
class RotationResult(ModelResult):
    """Table 2: orientation errors.

    Attributes:
        rotations: number of rotations of each resampling.
        resamplings: number of resamplings of each shape.
        modes: the errors, by what is compared.
    """

    measurement = "rotation"
    rotations: int
    resamplings: int
    modes: RotationModes


@dataclass(frozen=True)
class CorruptionScores:
    """What is left at one level of one corruption; see `Corruption` for the kinds.

    Attributes:
        accuracy: over two rotated views of each shape, with its 95% `interval`.
        rae: error of siamese pairs of classes without symmetry, both views classified correctly.
        rae_all: the same over every pair.
        rae_symmetric: over every pair of all classes, up to symmetry.
        points: the median number of points per view.
    """

    kind: CorruptionKind
    level: float
    accuracy: float
    interval: tuple[float, float]
    rae: float | None
    rae_all: float | None
    rae_symmetric: float | None
    points: int | None = None


@dataclass(frozen=True, kw_only=True)
class RobustnessResult(ModelResult):
    """Table 3 and further corruptions: accuracy and orientation error on corrupted input.

    Attributes:
        levels: the scores at each level of each corruption.
    """

    measurement = "robustness"
    levels: tuple[CorruptionScores, ...]

    @property
    def by_level(self) -> dict[tuple[str, float], CorruptionScores]:
        """The scores by kind and level of the corruption."""
        return {(one.kind, one.level): one for one in self.levels}


@dataclass(frozen=True)
class PredictionChange:
    """How far predictions of rotated views are from the rotated predictions of upright ones."""

    activation_max: float
    labels_changed: float
    pose_degrees_median: float | None
    pose_degrees_max: float | None


@dataclass(frozen=True)
class StageAccuracy:
    """Accuracy upright; rotated with exact frames; with frames estimated again; with resampled points as well."""

    nr: float
    exact_frames: float
    reestimated: float
    resampled: float


@dataclass(frozen=True, kw_only=True)
class EquivarianceResult(ModelResult):
    """How much a rotation changes predictions.

    Attributes:
        rotations: number of rotated views of each shape.
        network: changes by the network alone: frames are rotated with the points.
        frames: with frames estimated again.
        resampled: with resampled points as well.
        accuracy: at each of these stages.
    """

    measurement = "equivariance"
    rotations: int
    network: PredictionChange
    frames: PredictionChange
    resampled: PredictionChange
    accuracy: StageAccuracy


@dataclass(frozen=True)
class RetrievalScores:
    """How well one kind of descriptor finds shapes of the query's class.

    Attributes:
        queries: how many shapes have another one of their class.
        map_micro, map_macro: mean average precision over queries, and over classes.
        nearest_micro, nearest_macro: share of queries whose nearest neighbour is of their class, over queries and over
            classes.
    """

    queries: int
    map_micro: float
    map_macro: float
    nearest_micro: float
    nearest_macro: float


@dataclass(frozen=True, kw_only=True)
class RetrievalResult(ModelResult):
    """Retrieval among the test shapes, each in one random pose.

    Attributes:
        methods: scores by kind of descriptor; "model" is the model's.
    """

    measurement = "retrieval"
    methods: Mapping[str, RetrievalScores]


@dataclass(frozen=True)
class CalibrationScores:
    """Confidence against accuracy.

    Attributes:
        confidence: the mean.
        ece: expected calibration error.
        nll: mean negative log likelihood of the true classes.
        reliability: mean confidence, accuracy and number of views of each bin that has any.
    """

    accuracy: float
    confidence: float
    ece: float
    nll: float
    reliability: tuple[tuple[float, float, int], ...]


@dataclass(frozen=True)
class CalibrationSplit:
    """Scores on one part of the data, before and after calibration."""

    shapes: int
    views: int
    before: CalibrationScores
    after: CalibrationScores


@dataclass(frozen=True, kw_only=True)
class CalibrationResult(ModelResult):
    """The calibration fitted on held-out training shapes, and its effect there and on the test split.

    Attributes:
        rotations: number of rotated views of each test shape.
        temperature: of the classes, for a whole shape; this and the next three are those of `qecnet.nn.Calibration`.
        orientation_temperature: of the candidates, of a network that compares any.
        temperature_slope: of the classes' temperature in partiality.
        orientation_temperature_slope: of the candidates' temperature.
        bins: of the expected calibration error.
        held_out: of all held-out shapes with a class, whole and, after training on views, as views.
        test: of the test split, upright and rotated.
        candidate_sets: the share of held-out shapes whose smallest set of candidates with 90% of the probability holds
            a correct pose, by "whole" and "views"; None for a network that compares none.
    """

    measurement = "calibration"
    file = "calibration.json"
    rotations: int
    temperature: float
    bins: int
    held_out: CalibrationSplit
    test: CalibrationSplit
    orientation_temperature: float = 1.0
    temperature_slope: float = 0.0
    orientation_temperature_slope: float = 0.0
    candidate_sets: dict[str, float] | None = None


@dataclass(frozen=True, kw_only=True)
class ViewScores:
    """What was predicted of some views, or of some whole shapes.

    Attributes:
        views: number of views.
        accuracy: share of correct classes; None for a dataset without the model's classes.
        up10, up_degrees: share with the up direction within 10°, and its median error.
        pose15, pose_degrees: share with the orientation within 15°, up to symmetry, and its median error.
        pose15_known_up, accuracy_known_up: these shares where the up direction is given.
        centre: median distance of the predicted centre from the mean of the whole shape's points, in its radii.
        size: median relative error of the predicted radius.
        confidence: mean confidence of the class, and without the model's classes, of the up direction.
        ece: expected calibration error of this confidence; an up direction is correct within 10°.
        first_three: share with the up direction within 10° of one of the first three of `Answer.ups`.
        set_holds_pose: share whose smallest set of candidates with 90% of the probability holds the pose in the
            dataset, see `qecnet.nn.right_poses`; like the next, None for a network that compares no candidates.
        set_size: mean number of candidates in these sets.

    What is None was not measured.
    """

    views: int
    accuracy: float | None
    up10: float
    up_degrees: float
    pose15: float
    pose_degrees: float
    pose15_known_up: float
    centre: float
    size: float | None = None
    accuracy_known_up: float | None = None
    confidence: float | None = None
    ece: float | None = None
    first_three: float | None = None
    set_holds_pose: float | None = None
    set_size: float | None = None


@dataclass(frozen=True, kw_only=True)
class ViewsResult(ModelResult):
    """Views of one side, compared with whole shapes.

    Attributes:
        groups: scores of "whole" shapes, of "views", and of views by visible share.
        whole_by_kind: scores of whole shapes by class of the dataset.
        views_by_kind: the same of views.
        no_answer: how many whole shapes and views the model had no answer for (flat, too few points in view, or
            hardly visible to a camera); they are in none of the scores.
        points: the median number of points in a view.
    """

    measurement = "views"
    no_answer: int = 0
    groups: Mapping[str, ViewScores]
    whole_by_kind: Mapping[str, ViewScores]
    views_by_kind: Mapping[str, ViewScores]


@dataclass(frozen=True, kw_only=True)
class BaselineErrors(ErrorGroups):
    """Errors of a method that aligns two clouds.

    Attributes:
        seconds: mean processor time per pair.
        no_answer: number of pairs without a result.
    """

    seconds: float | None
    no_answer: int


@dataclass(frozen=True, kw_only=True)
class PoseBaselinesResult(Result):
    """Alignment without learning, by method: two samplings of one shape, and two shapes of one class.

    Attributes:
        pairs_per_class: number of pairs of each class.
        keep: the share of a stored cloud's points that a view has.
        same_instance: errors between two samplings of one shape, by method.
        category_level: errors between two shapes of one class, by method.
    """

    measurement = "pose-baselines"
    file = "pose-baselines.json"
    pairs_per_class: int
    keep: float
    same_instance: Mapping[str, BaselineErrors]
    category_level: Mapping[str, BaselineErrors]


R = TypeVar("R", bound=Result)


def write_result(folder: Path, result: R) -> R:
    """Write a result into a folder as JSON, under its own file name, whole or not at all.

    Args:
        folder: usually the folder `evaluation` of a run.
        result: what a `measure_*` function returned.

    Returns:
        The result, unchanged.

    Raises:
        OSError: if the file cannot be written.
    """
    values = {"what": result.measurement, **asdict(result)}
    write_whole(folder / result.file_name(result.protocol), as_json(values))
    return result


def read_result(folder: Path, kind: type[R], protocol: ProtocolName = "strict") -> R | None:
    """Read a result that `write_result` wrote.

    Args:
        folder: the folder of the file.
        kind: the class of the result, for example `ClassificationResult`.
        protocol: the protocol of the measurement.

    Returns:
        The result, or None if it has not been measured under the protocol.

    Raises:
        ValueError: if the file is damaged, or holds another protocol than its name says.
    """
    path = folder / kind.file_name(protocol)
    if not path.exists():
        return None
    found = decode_file(path, kind)
    if path.name != kind.file_name(found.protocol):
        raise ValueError(f"{path}: was measured under the protocol {found.protocol}; rename it or measure again")
    return found
