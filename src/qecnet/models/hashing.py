"""A hash of what predictions depend on, for files that must not mix the predictions of two models."""

from __future__ import annotations

import hashlib

from qecnet.models.model import Model


def hash_model(model: Model) -> str:
    """Hash what predictions depend on besides the shape: weights, classes and how shapes are prepared.

    Args:
        model: the model.

    Returns:
        SHA-256, in hexadecimal.
    """
    about = hashlib.sha256(repr((model.classes, model.config, model.network.config)).encode())
    for name, tensor in sorted(model.network.state_dict().items()):
        about.update(name.encode() + tensor.cpu().numpy().tobytes())
    return about.hexdigest()
