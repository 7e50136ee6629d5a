"""Pickling of carriers, for other processes."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor


class PickledAsArrays:
    """Pickles tensors as NumPy arrays: torch would send each as an open file, and their number is limited."""

    def __getstate__(self) -> dict[str, Any]:
        return {name: v.numpy(force=True) if isinstance(v, Tensor) else v for name, v in vars(self).items()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update({name: torch.from_numpy(v) if isinstance(v, np.ndarray) else v for name, v in state.items()})
