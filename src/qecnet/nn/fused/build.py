"""The C++ of this folder, compiled on first use and kept in the user's cache folder."""

import ctypes
import functools
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path

import torch
from torch import Tensor

LANES = 8
"""How many capsules are worked on at once, as in algebra.h."""

_SOURCES = tuple(
    Path(__file__).with_name(name) for name in ("algebra.h", "routing.cpp", "canonical.cpp", "pooling.cpp", "edges.cpp")
)
_FLAGS = ("-std=c++17", "-O3", "-fPIC", "-shared", "-fno-math-errno", "-fno-trapping-math", "-Wno-psabi")


def call(name: str, *arguments: int | float | Tensor | None) -> None:
    """Calls one of the functions with contiguous tensors on the CPU; None for a result that is not wanted."""
    getattr(library(), name)(*map(_as_c, arguments))


def _as_c(argument: int | float | Tensor | None) -> ctypes.c_long | ctypes.c_float | ctypes.c_void_p:
    if isinstance(argument, Tensor):
        return ctypes.c_void_p(argument.data_ptr())
    if argument is None:
        return ctypes.c_void_p(None)
    return ctypes.c_long(argument) if isinstance(argument, int) else ctypes.c_float(argument)


@functools.cache
def library() -> ctypes.CDLL:
    """The compiled operator, from the user's cache folder, or compiled into it."""
    compiler = next(filter(None, map(shutil.which, (os.environ.get("CXX", ""), "c++", "g++", "clang++"))), None)
    if compiler is None:
        raise OSError("there is no C++ compiler; install one, or set CXX to its path")
    version = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=True).stdout
    sources = (source.read_text(encoding="utf-8") for source in _SOURCES)
    told = "\n".join((*sources, *_FLAGS, compiler, version, torch.__version__, _processor()))
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "qecnet"
    compiled = folder / f"fused-{hashlib.sha256(told.encode()).hexdigest()[:16]}.so"
    if not compiled.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as temporary:
            made = Path(temporary, compiled.name)
            _compile(compiler, made)
            made.replace(compiled)  # at once, so that other processes find all of it or nothing
    return ctypes.CDLL(str(compiled))


def _compile(compiler: str, to: Path) -> None:
    """With all that this processor can do, and threads, if the compiler knows how."""
    files = [str(source) for source in _SOURCES if source.suffix == ".cpp"]
    for extra in (("-march=native", "-fopenmp"), ("-mcpu=native",), ()):
        try:
            subprocess.run([compiler, *_FLAGS, *extra, *files, "-o", str(to)], capture_output=True, check=True)
            return
        except subprocess.CalledProcessError:
            if not extra:
                raise


def _processor() -> str:
    """What decides which instructions there are: a home folder may be shared by several machines."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line for line in lines if line.startswith(("flags", "Features")))
    except (OSError, StopIteration):
        return platform.processor() + platform.machine()


def reason(error: Exception) -> str:
    """Why there is no library, in a few words."""
    if isinstance(error, subprocess.CalledProcessError):
        said = error.stderr or b""
        lines = (said.decode(errors="replace") if isinstance(said, bytes) else said).strip().splitlines()
        return f"{error.cmd[0]} failed ({lines[0] if lines else f'exit code {error.returncode}'})"
    return str(error)
