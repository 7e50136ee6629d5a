"""The figures that the paper prints, to stand beside ours: Tables 1, 2 and 3 of its main text.

Where the text has one network of the authors', its rows are called QEC here. Rows with `rerun` are of methods that this
package also runs itself; the others are quoted, and nobody here has measured them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

SOURCE = "Zhao et al., Quaternion Equivariant Capsule Networks for 3D Point Clouds, ECCV 2020"


@dataclass(frozen=True)
class ClassificationRow:
    """A column of Table 1: shares of ModelNet40's test shapes that are named right, upright and turned; 0..1.

    Attributes:
        parameters: as rounded in the paper.
        nr: trained upright, tested upright; None where the paper has a dash.
        ar: trained upright, tested at arbitrary rotations.
    """

    method: str
    parameters: int
    nr: float | None
    ar: float
    rerun: bool = False


CLASSIFICATION = (
    ClassificationRow("PointNet", 3_500_000, 0.8845, 0.1247, rerun=True),
    ClassificationRow("PointNet++", 1_500_000, 0.8982, 0.2135, rerun=True),
    ClassificationRow("DGCNN", 2_800_000, 0.9290, 0.2974, rerun=True),
    ClassificationRow("KDTreeNet", 3_600_000, 0.8620, 0.0849),
    ClassificationRow("Point2Seq", 1_800_000, 0.9260, 0.1053),
    ClassificationRow("Spherical CNN", 500_000, None, 0.4392),
    ClassificationRow("PRIN", 1_500_000, 0.8013, 0.6885),
    ClassificationRow("PPF", 3_500_000, 0.7016, 0.7016, rerun=True),
    ClassificationRow("QEC, no canonicalisation", 400_000, 0.8527, 0.1175),
    ClassificationRow("QEC", 400_000, 0.7443, 0.7407, rerun=True),
)
"""Table 1, on ModelNet40."""

SINCE = {
    "Vector Neurons (Deng et al., ICCV 2021), trained with no rotation": 0.900,
    "PaRot (Zhang et al., AAAI 2023)": 0.910,
    "LocoTrans (Chen et al., CVPR 2024)": 0.916,
    "CRIN (Lou et al., AAAI 2023)": 0.918,
    "4D-Local (2026)": 0.919,
}
"""Methods since the paper: the share of ModelNet40's test shapes named right when turned, from points without normals,
as their authors publish it. Nobody here has measured them."""


@dataclass(frozen=True)
class RotationRow:
    """A row of Table 2: the relative angular error, angle/π, as the mean over ModelNet10's test shapes; 0..1."""

    method: str
    average: float
    no_sym: float
    per_class: Mapping[str, float]
    rerun: bool = False


ROTATION_CLASSES = (
    *("chair", "bed", "sofa", "toilet", "monitor"),
    *("table", "desk", "dresser", "night_stand", "bathtub"),
)
"""The classes of Table 2 in its order: first those that the paper takes to be without symmetry."""


def _row(method: str, *values: float, rerun: bool = False) -> RotationRow:
    average, no_sym, *of_class = values
    return RotationRow(method, average, no_sym, dict(zip(ROTATION_CLASSES, of_class, strict=True)), rerun)


ROTATION = (
    _row("Mean LRF", 0.41, 0.35, 0.32, 0.36, 0.34, 0.41, 0.34, 0.45, 0.60, 0.50, 0.46, 0.32, rerun=True),
    _row("PCA, resampled", 0.40, 0.42, 0.60, 0.53, 0.46, 0.32, 0.12, 0.47, 0.23, 0.33, 0.43, 0.55, rerun=True),
    _row(
        *("PCA, resampled and rotated", 0.67, 0.67, 0.69, 0.70, 0.67, 0.68, 0.61, 0.67, 0.67, 0.67, 0.66, 0.70),
        rerun=True,
    ),
    _row("PointNetLK", 0.37, 0.38, 0.43, 0.31, 0.40, 0.40, 0.31, 0.40, 0.33, 0.39, 0.38, 0.34),
    _row("IT-Net", 0.27, 0.19, 0.10, 0.22, 0.17, 0.20, 0.28, 0.31, 0.41, 0.44, 0.40, 0.39),
    _row("QEC, canonical", 0.27, 0.17, 0.11, 0.20, 0.16, 0.18, 0.19, 0.43, 0.40, 0.48, 0.33, 0.31, rerun=True),
    _row("QEC, siamese", 0.20, 0.09, 0.08, 0.10, 0.08, 0.11, 0.08, 0.40, 0.35, 0.34, 0.32, 0.30, rerun=True),
)
"""Table 2, on ModelNet10, over the shapes that were named right."""


@dataclass(frozen=True)
class RobustnessRow:
    """A column of Table 3: accuracy 0..1 and the error angle/π over ModelNet10's classes without symmetry.

    Attributes:
        name: the paper's heading.
        kind, level: the same damage as `qec evaluate robustness` names it.
    """

    name: str
    kind: str
    level: float
    accuracy: float
    rae: float


ROBUSTNESS = (
    RobustnessRow("LRF-10K, 50%", "patches", 0.5, 0.778, 0.34),
    RobustnessRow("LRF-10K, 66%", "patches", 0.66, 0.833, 0.27),
    RobustnessRow("LRF-10K, 75%", "patches", 0.75, 0.834, 0.25),
    RobustnessRow("LRF-10K, 100%", "patches", 1.0, 0.878, 0.09),
    RobustnessRow("LRF-2K", "points", 2000, 0.8546, 0.10),
    RobustnessRow("LRF-1K", "points", 1000, 0.7974, 0.12),
)
"""Table 3, on ModelNet10."""
