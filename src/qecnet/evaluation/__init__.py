"""How good a model is: protocols, measurements, typed results, model cards and the report.

A `Measurement` says what is measured and how, each `measure_*` function returns its dataclass, `write_result` and
`read_result` keep it as JSON.
"""

from qecnet.evaluation.boxes import is_box
from qecnet.evaluation.calibration import measure_calibration, write_calibration
from qecnet.evaluation.card import write_card
from qecnet.evaluation.classification import measure_classification
from qecnet.evaluation.comparison import compare_accuracy, compare_errors
from qecnet.evaluation.corruption import Corruption
from qecnet.evaluation.equivariance import measure_equivariance
from qecnet.evaluation.measurement import Measurement
from qecnet.evaluation.metrics import (
    IDENTITY,
    NO_SYM,
    group_errors,
    relative_rotation,
    rotation_angles,
    symmetric_angles,
    symmetric_distance,
)
from qecnet.evaluation.published import published_figures
from qecnet.evaluation.repeatability import FrameRepeatability, measure_repeatability
from qecnet.evaluation.report import build_report, render_page
from qecnet.evaluation.results import (
    MODES,
    PROTOCOLS,
    BaselineErrors,
    CalibrationResult,
    ClassificationResult,
    CorruptionKind,
    EquivarianceResult,
    PoseBaselinesResult,
    Result,
    RetrievalResult,
    RobustnessResult,
    RotationErrors,
    RotationResult,
    ViewsResult,
    read_result,
    write_result,
)
from qecnet.evaluation.retrieval import measure_retrieval
from qecnet.evaluation.robustness import measure_robustness
from qecnet.evaluation.rotation import measure_rotation
from qecnet.evaluation.rows import open_unfinished
from qecnet.evaluation.run import EvaluatedRun, network_title
from qecnet.evaluation.summary import (
    MODE_NAMES,
    SummaryTable,
    format_error,
    format_interval,
    format_percent,
    summarize,
)
from qecnet.evaluation.upside_down import looks_same_upside_down
from qecnet.evaluation.views import measure_views

__all__ = [
    "IDENTITY",
    "MODES",
    "MODE_NAMES",
    "NO_SYM",
    "PROTOCOLS",
    "BaselineErrors",
    "CalibrationResult",
    "ClassificationResult",
    "Corruption",
    "CorruptionKind",
    "EquivarianceResult",
    "EvaluatedRun",
    "FrameRepeatability",
    "Measurement",
    "PoseBaselinesResult",
    "Result",
    "RetrievalResult",
    "RobustnessResult",
    "RotationErrors",
    "RotationResult",
    "SummaryTable",
    "ViewsResult",
    "build_report",
    "compare_accuracy",
    "compare_errors",
    "format_error",
    "format_interval",
    "format_percent",
    "group_errors",
    "is_box",
    "looks_same_upside_down",
    "measure_calibration",
    "measure_classification",
    "measure_equivariance",
    "measure_repeatability",
    "measure_retrieval",
    "measure_robustness",
    "measure_rotation",
    "measure_views",
    "network_title",
    "open_unfinished",
    "published_figures",
    "read_result",
    "relative_rotation",
    "render_page",
    "rotation_angles",
    "summarize",
    "symmetric_angles",
    "symmetric_distance",
    "write_calibration",
    "write_card",
    "write_result",
]
