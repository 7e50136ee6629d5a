"""Shapes from files and into files, datasets of them, and the frames that are kept of those."""

from qecnet.data.cache import FrameCache, frame_cache
from qecnet.data.dataset import Dataset, Item, stratified
from qecnet.data.modelnet import open_dataset
from qecnet.data.named import named_dataset
from qecnet.data.read import ReadError, read, read_cloud
from qecnet.data.shapes import make_shape, shapes
from qecnet.data.write import write

__all__ = [
    "Dataset",
    "FrameCache",
    "Item",
    "ReadError",
    "frame_cache",
    "make_shape",
    "named_dataset",
    "open_dataset",
    "read",
    "read_cloud",
    "shapes",
    "stratified",
    "write",
]
