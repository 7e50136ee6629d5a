"""What comes of a training run: a row of its log for each epoch, and its result; training writes both.

Accuracies and other shares are 0..1, orientation errors are δ/π. `None` marks a figure that was not measured.
"""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class _Trained:
    """How far the training is, and its figures over the training shapes of the epoch."""

    epoch: int
    loss: float
    train_accuracy: float
    protocol: str


@dataclass(frozen=True, kw_only=True)
class Validation:
    """Figures of held-out shapes.

    Attributes:
        validation_nr: accuracy, upright.
        validation_ar: accuracy, rotated.
        validation_class_mean: the mean of the classes' accuracies, rotated.
        validation_pose: orientation error of the true class, rotated, up to symmetry; of shapes without a class, that
            of the predicted one, up to the azimuth. None for a network without poses.
        validation_views: accuracy on rotated views of one side. None for a run without views, as the next two.
        validation_views_pose: orientation error on these.
        validation_views_class_mean: the mean of the classes' accuracies on these.
    """

    validation_nr: float | None = None
    validation_ar: float | None = None
    validation_pose: float | None = None
    validation_class_mean: float | None = None
    validation_views: float | None = None
    validation_views_pose: float | None = None
    validation_views_class_mean: float | None = None


@dataclass(frozen=True, kw_only=True)
class Epoch(Validation, _Trained):
    """A row of the log, a line of log.jsonl.

    Attributes:
        epoch: its number, from 1.
        loss: the total that is minimised, and its parts classification_loss and pose_loss, which is unweighted.
        train_accuracy: accuracy on the training shapes, during the epoch.
        protocol: how validation shapes were rotated.
        learning_rate: of the epoch's first step.
        seconds: that the epoch took, of which the share `waiting` was spent waiting for batches.
        shapes_per_second: training shapes per second.
    """

    classification_loss: float
    pose_loss: float
    learning_rate: float
    seconds: float
    shapes_per_second: float
    waiting: float


@dataclass(frozen=True, kw_only=True)
class TrainingOutcome(Validation, _Trained):
    """The result of a finished run, its result.json: figures of the last epoch, as in `Epoch`, and the following.

    Attributes:
        dataset, config, seed: as in the settings.
        shapes: number of training shapes, with those that were held out.
        parameters: of the network.
        processes: number of processes that the training ran in.
        training_seconds: that all epochs took.
    """

    dataset: str
    config: str
    seed: int
    shapes: int
    parameters: int
    processes: int
    training_seconds: float
