"""Labelled collections of shapes (ModelNet, scanned objects, folders, procedural furniture) and their cached frames."""

from qecnet.datasets.cache import FrameCache, frame_cache
from qecnet.datasets.camera_views import TRAINING_CAMERA, View, ViewConfig, sample_view, sample_view_from
from qecnet.datasets.class_folders import is_ignored
from qecnet.datasets.dataset import Dataset, Item, derive_seed, stratified_split
from qecnet.datasets.furniture import FURNITURE_CLASSES, make_furniture, make_shape
from qecnet.datasets.opening import open_dataset
from qecnet.datasets.symmetry import NO_SYMMETRY, SymmetryGroup, symmetry_of, training_symmetry
from qecnet.datasets.transforms import crop, jitter

__all__ = [
    "FURNITURE_CLASSES",
    "NO_SYMMETRY",
    "TRAINING_CAMERA",
    "Dataset",
    "FrameCache",
    "Item",
    "SymmetryGroup",
    "View",
    "ViewConfig",
    "crop",
    "derive_seed",
    "frame_cache",
    "is_ignored",
    "jitter",
    "make_furniture",
    "make_shape",
    "open_dataset",
    "sample_view",
    "sample_view_from",
    "stratified_split",
    "symmetry_of",
    "training_symmetry",
]
