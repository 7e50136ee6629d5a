"""Trained networks by name, and what they say of files, arrays, clouds and meshes."""

from qecnet.models.answer import Alignment, Answer, Failure
from qecnet.models.export import export_onnx
from qecnet.models.inputs import Shape, sample_shape
from qecnet.models.library import Library, Neighbour, empty_library, extend, hash_model, read_library, stamps_of
from qecnet.models.model import Model
from qecnet.models.named import list_models, load, weights_file
from qecnet.models.refine import residual

__all__ = [
    "Alignment",
    "Answer",
    "Failure",
    "Library",
    "Model",
    "Neighbour",
    "Shape",
    "empty_library",
    "export_onnx",
    "extend",
    "hash_model",
    "list_models",
    "load",
    "read_library",
    "residual",
    "sample_shape",
    "stamps_of",
    "weights_file",
]
