"""Trained models by name, and their predictions for files, arrays, clouds and meshes."""

from qecnet.models.answer import Alignment, Answer, Candidate, Failure, UpDirection
from qecnet.models.export import ExportModule, example_inputs, export_onnx, list_inputs
from qecnet.models.inputs import Shape, sample_shape
from qecnet.models.library import (
    Changes,
    Hashed,
    Library,
    Neighbour,
    Stamp,
    edit_library,
    hash_answer,
    merge_libraries,
    read_library,
    read_stamp,
)
from qecnet.models.model import BATCH, Model, hash_model
from qecnet.models.named import list_models, load, weights_file
from qecnet.models.refine import find_units, residual
from qecnet.models.run_settings import RunSettings, read_run_settings, update_settings

__all__ = [
    "BATCH",
    "Alignment",
    "Answer",
    "Candidate",
    "Changes",
    "ExportModule",
    "Failure",
    "Hashed",
    "Library",
    "Model",
    "Neighbour",
    "RunSettings",
    "Shape",
    "Stamp",
    "UpDirection",
    "edit_library",
    "example_inputs",
    "export_onnx",
    "find_units",
    "hash_answer",
    "hash_model",
    "list_inputs",
    "list_models",
    "load",
    "merge_libraries",
    "read_library",
    "read_run_settings",
    "read_stamp",
    "residual",
    "sample_shape",
    "update_settings",
    "weights_file",
]
