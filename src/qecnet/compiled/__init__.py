"""Operators in C++: what NumPy and PyTorch do in many passes, in one.

They are compiled when the package is installed (hatch_build.py) and used wherever they apply, on a CPU. Each has a
plain version in NumPy or PyTorch, which is used where there is no compiled one; results differ by rounding.
"""

import ctypes
import functools
import hashlib
import sysconfig
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["call", "is_compiled", "use_compiled_operators"]

_LEVELS = {"AVX512": ("x86-64-v4", "x86-64-v3", "any"), "AVX2": ("x86-64-v3", "any")}
_on = True


def use_compiled_operators(on: bool = True) -> bool:
    """Switch compiled operators on (the default) or off.

    Args:
        on: False switches them off.

    Returns:
        Whether they are in use now; never where the package was installed without a C++ compiler.
    """
    global _on
    _on = on
    return is_compiled()


def is_compiled() -> bool:
    """Find out whether compiled operators are in use.

    Returns:
        True if they were built for this machine and are not switched off.
    """
    return _on and _library() is not None


def call(name: str, *arguments: float | Tensor | NDArray[Any] | None) -> None:
    """Call an operator.

    Args:
        name: of the function.
        arguments: whole numbers, other numbers, contiguous arrays and tensors on the CPU in the type that the operator
            expects; None for a result that is not wanted.
    """
    library = _library()
    assert library is not None
    getattr(library, name)(*map(_as_c, arguments))


def _as_c(argument: float | Tensor | NDArray[Any] | None) -> ctypes.c_long | ctypes.c_double | ctypes.c_void_p:
    if isinstance(argument, Tensor) and argument.is_contiguous() and argument.device.type == "cpu":
        return ctypes.c_void_p(argument.data_ptr())
    if isinstance(argument, np.ndarray) and argument.flags.c_contiguous:
        return ctypes.c_void_p(argument.ctypes.data)
    if argument is None:
        return ctypes.c_void_p(None)
    if isinstance(argument, int):
        return ctypes.c_long(argument)
    if isinstance(argument, float):
        return ctypes.c_double(argument)
    raise TypeError(f"{type(argument).__name__} is no argument of an operator; give contiguous arrays and numbers")


@functools.cache
def _library() -> ctypes.CDLL | None:
    """The library that was compiled from the sources in this folder, for the highest level of this processor."""
    folder = Path(__file__).parent
    sources = sorted([*folder.glob("*.cpp"), *folder.glob("*.h")])
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:16]
    reason = ""
    for level in _LEVELS.get(torch.backends.cpu.get_cpu_capability(), ("any",)):
        path = folder / f"operators-{digest}-{sysconfig.get_platform()}-{level}.so"
        if path.exists():
            try:
                return ctypes.CDLL(str(path))
            except OSError as error:  # such as one of its own libraries that is missing
                reason = str(error)
    if reason:
        warnings.warn(f"compiled operators cannot be loaded, and everything is slower: {reason}", stacklevel=2)
    return None
