"""Trained networks by name, and what they say of files, arrays, clouds and meshes."""

from qecnet.models.answer import Alignment, Answer, Failure
from qecnet.models.inputs import Shape
from qecnet.models.model import Model
from qecnet.models.named import list_models, load

__all__ = ["Alignment", "Answer", "Failure", "Model", "Shape", "list_models", "load"]
