"""Settings of a training run, whatever its network is: what they are, and how the settings.json of a run is read."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from qecnet.algebra import Weighting
from qecnet.geometry import PrepareMethod
from qecnet.nn import Gradients, Nonlinearity, PatchOrigin, find_network, list_networks
from qecnet.schema import decode, read_object

_GONE = ("fused",)  # settings of earlier versions: compiled operators are always used now


@dataclass(frozen=True)
class RunSettings:
    """All settings of a training run; its network may be one that is not registered, such as a baseline.

    Defaults are the paper's.

    Attributes:
        dataset: "modelnet10", "modelnet40", "shapes" (procedural furniture), or any name for a folder of shapes.
        per_class: number of shapes per class; only for "shapes".
        config: name of a registered network. Of the settings from `frames` to `summary_rank`, it uses those that are
            fields of its configuration.
        unlabelled: name of a further dataset, such as "scanned_objects", whose upright shapes train the orientation and
            not the classes; for networks that read candidates. Empty for none.
        unlabelled_repeats: how often each of its shapes is used in an epoch.
        method: kind of local reference frames, see `PrepareConfig`.
        sign: the side that the frames' normals point to: "inward", "outward", or "camera" for that of the camera, and
            outward on whole shapes.
        points: number of points sampled from each shape.
        keep: fraction of the points that a subsample keeps if a cloud has no more than `points`.
        thinnest: number of points of the sparsest subsample as a fraction of the densest, see `frame_cache`.
        subsamplings: number of subsamples of each shape; every epoch uses the next one.
        views: fraction of the subsamples that are not of the whole shape but what one camera sees of it, e.g. 0.4.
        frames: number of local reference frames that the network reads of a cloud.
        patches, neighbours, capsules, origin, nonlinearity, canonicalize: see `QECConfig`.
        iterations, weighting, exponent, gradients: of routing, see `route`.
        looks, upside_down: see `FeatureConfig`.
        invariant, projections, projection_blocks, summary_rank: see `UprightConfig`.
        start: weights to start from: a model's name, a file or a run's folder. They must have the same configuration,
            except for the `patches` of the network "paper", fewer `projection_blocks`, and optional parts of the
            network "upright", which either may lack, and the same kind of frames. If the classes differ, the network
            "upright" keeps what the weights know about classes with the same name; all else that depends on the
            classes is random. If empty, everything is.
        only: the part of the network that is trained, "invariant" or "projections" of the network "upright"; the others
            stay as they are in `start`. Empty for all.
        start_part: weights that the part `only` starts from, if they are not those of `start`.
        epochs: number of training epochs.
        batch_size: number of shapes per step, over all processes.
        dropped: fraction of the frames of a cloud that each step leaves out at random.
        stretch: largest factor by which a cloud is stretched or compressed along each of its axes; 1 for none.
        optimizer: "adamw", or "muon" for Muon on the matrices and AdamW on all other parameters.
        learning_rate: the constant learning rate, or the peak of one cycle.
        schedule: of the learning rate: "constant", as in the paper, or "onecycle".
        loss: of the classification: "spread", as in the paper, or "cross_entropy".
        margin: of the spread loss.
        smoothing: label smoothing of the cross-entropy.
        balance: how far the loss corrects for classes that have more training shapes than others: 0 not at
            all, 1 for predictions as if all classes were equally frequent, see `class_prior`.
        aligned: weight of the pose loss δ/π to the upright pose of the training shapes, up to the symmetry declared
            for the class (`qecnet.datasets.symmetry`), or of the network's own loss for poses; 0 for none.
        siamese: weight of the pose loss δ/π between two subsamples of a shape; 0 for none.
        weight_decay: decoupled weight decay, in units of the learning rate.
        clip: largest norm of the gradient; 0 for no limit.
        precision: of products in training: "float32", or "bfloat16" for mixed precision, which is faster on processors
            with instructions for it; for the part "projections" only.
        final_rank: rank to which the layers before the summaries of the network "upright" are reduced after the last
            epoch, for fewer parameters, see `Network.reduced`; 0 to leave them as they are.
        ema: decay of the moving average of the weights, which is then validated and saved; 0 for none.
        validation: fraction of the train split that is held out; 0 to train on all of it.
        validate_every: number of epochs between validations.
        seed: of the initial weights, the order of shapes and the augmentation. Frames and the held-out shapes do not
            depend on it.
    """

    dataset: str
    config: str
    per_class: int = 100
    unlabelled: str = ""
    unlabelled_repeats: int = 1
    method: PrepareMethod = "flare"
    sign: Literal["inward", "outward", "camera"] = "inward"
    points: int = 10_000
    keep: float = 0.8
    thinnest: float = 1.0
    subsamplings: int = 4
    views: float = 0.0
    frames: int = 512
    patches: int = 64
    neighbours: int = 9
    capsules: int = 64
    origin: PatchOrigin = "cloud"
    iterations: int = 3
    weighting: Weighting = "sigmoid"
    exponent: float = 1.0
    gradients: Gradients = "last"
    nonlinearity: Nonlinearity = "none"
    canonicalize: bool = True
    looks: int = 2
    upside_down: bool = False
    invariant: bool = False
    projections: bool = False
    projection_blocks: int = 1
    summary_rank: int = 0
    start: str = ""
    only: str = ""
    start_part: str = ""
    epochs: int = 100
    batch_size: int = 8
    dropped: float = 0.0
    stretch: float = 1.0
    optimizer: Literal["adamw", "muon"] = "adamw"
    learning_rate: float = 1e-3
    schedule: Literal["constant", "onecycle"] = "constant"
    loss: Literal["spread", "cross_entropy"] = "spread"
    margin: float = 0.1
    smoothing: float = 0.0
    balance: float = 0.0
    aligned: float = 0.0
    siamese: float = 0.0
    weight_decay: float = 0.0
    clip: float = 0.0
    precision: Literal["float32", "bfloat16"] = "float32"
    final_rank: int = 0
    ema: float = 0.0
    validation: float = 0.1
    validate_every: int = 1
    seed: int = 0


def update_settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """Bring the settings of a run of an earlier version up to date.

    Args:
        values: by name, as in the settings.json of a run.

    Returns:
        The same without settings that are gone, and with what its network did before that became a setting.
    """
    config = values.get("config")
    former = find_network(config).network.former if config in list_networks() else {}
    kept = {name: value for name, value in values.items() if name not in _GONE}
    margin = kept.get("margin")
    if isinstance(margin, list) and margin and margin == margin[:1] * 2:  # a pair in earlier versions
        kept["margin"] = margin[0]
    return {**former, **kept}


def read_run_settings(path: Path) -> RunSettings:
    """Read the settings.json of a run; a setting that is missing has its default.

    Args:
        path: the file.

    Returns:
        The settings.

    Raises:
        ValueError: if the file is damaged; one sentence.
    """
    return decode(update_settings(read_object(path)), RunSettings, path)
