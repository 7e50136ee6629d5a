"""Labelled collections of shapes, ModelNet among them, and the frames that are cached for each."""

from qecnet.datasets.cache import FrameCache, frame_cache
from qecnet.datasets.dataset import Dataset, Item, stratified
from qecnet.datasets.modelnet import open_dataset
from qecnet.datasets.named import named_dataset
from qecnet.datasets.shapes import make_shape, shapes

__all__ = [
    "Dataset",
    "FrameCache",
    "Item",
    "frame_cache",
    "make_shape",
    "named_dataset",
    "open_dataset",
    "shapes",
    "stratified",
]
