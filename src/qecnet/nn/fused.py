"""Routing as one compiled operator (fused_routing.cpp): several times as fast on a CPU as PyTorch's own operations.

Off unless `use_fused_routing` switches it on. Results are those of `cast_votes` and `route` up to float32 rounding.
"""

import ctypes
import functools
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
import warnings
from pathlib import Path
from typing import Any, NamedTuple, get_args

import torch
from torch import Tensor, nn

from ..algebra import Weighting
from ..algebra.modes import is_exporting
from ._slices import scratch

_SOURCE = Path(__file__).with_name("fused_routing.cpp")
_FLAGS = ("-std=c++17", "-O3", "-fPIC", "-shared", "-fno-math-errno", "-fno-trapping-math", "-Wno-psabi")
_LANES = 8
_on = False


def use_fused_routing(on: bool = True) -> bool:
    """From here on, QEC modules route with a compiled operator wherever it applies; or, with `on=False`, no longer.

    It applies to float32 on a CPU, except to gradients through all iterations (`gradients="all"`). The first call
    compiles it with the system's C++ compiler (`CXX`, c++, g++ or clang++), which takes some seconds, and keeps it in
    the user's cache folder. Where that fails, a warning says why, and modules go on without it.

    Returns:
        Whether it is in use now.
    """
    global _on
    _on = False
    if on:
        try:
            _library()
            _on = True
        except (OSError, subprocess.SubprocessError) as error:
            warnings.warn(f"routing is not compiled and will be slower: {_reason(error)}", stacklevel=2)
    return _on


def is_fused(poses: Tensor, differentiated: bool) -> bool:
    """Whether the operator is on and applies; `differentiated` says that every iteration needs its gradient."""
    return (
        _on
        and poses.device.type == "cpu"
        and poses.dtype == torch.float32
        and not (differentiated and torch.is_grad_enabled())
        and not is_exporting()
        and not torch.compiler.is_compiling()
    )


class _Setting(NamedTuple):
    iterations: int
    weighting: Weighting
    exponent: float


def route_fused(
    hidden: Tensor,
    last: nn.Linear,
    poses: Tensor,
    activations: Tensor,
    iterations: int,
    weighting: Weighting,
    exponent: float,
) -> tuple[Tensor, Tensor]:
    """The last layer of the transform kernel, votes and routing.

    Args:
        hidden: (..., K, H), what `last` reads at each point.
        last: from H to 4·Nc·M, ordered as (M, 4, Nc).
        poses: (..., K, Nc, 4), WXYZ, unit.
        activations: (..., K, Nc); an input of activation 0 is skipped, and gets no gradient.
        iterations, weighting, exponent: as in `route`.

    Returns:
        Poses (..., M, 4) and agreements (..., M), as `route` finds them.
    """
    *batch, points, channels = activations.shape
    capsules = last.out_features // (4 * channels)
    found, agreement = _Route.apply(  # type: ignore[no-untyped-call]
        hidden.reshape(-1, hidden.shape[-1]),
        _grouped(last.weight.view(capsules, 4, channels, -1)).view(-1, last.in_features),
        _grouped(last.bias.view(capsules, 4, channels, 1)).view(-1),
        poses.reshape(-1, points, channels, 4),
        activations.reshape(-1, points, channels),
        _Setting(iterations, weighting, exponent),
    )
    count = (activations > 0).sum((-2, -1)).clamp_min(1)[..., None]
    return (
        found.permute(0, 1, 3, 2).reshape(*batch, -1, 4)[..., :capsules, :],
        agreement.reshape(*batch, -1)[..., :capsules] / count,
    )


def _grouped(weight: Tensor) -> Tensor:
    """(M, 4, Nc, H) → (groups, Nc, 4, lanes, H), with zeros for the capsules that the last group lacks."""
    missing = -len(weight) % _LANES
    if missing:
        weight = nn.functional.pad(weight, (0, 0, 0, 0, 0, 0, 0, missing))
    return weight.view(-1, _LANES, *weight.shape[1:]).permute(0, 3, 2, 1, 4).contiguous()


class _Route(torch.autograd.Function):
    """hidden (N·K, H), weight (G·Nc·4·8, H) and its bias, poses (N, K, Nc, 4), activations (N, K, Nc) →
    poses (N, G, 4, 8) and sums of agreement (N, G, 8), for groups G of eight output capsules."""

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor, poses: Tensor, activations: Tensor, setting: _Setting
    ) -> tuple[Tensor, Tensor]:
        poses, activations = poses.contiguous(), activations.contiguous()
        clouds, points, channels = activations.shape
        groups = len(weight) // (4 * _LANES * channels)
        trained = any(ctx.needs_input_grad)
        shape = (clouds * points, groups * channels * 4 * _LANES)
        votes = torch.empty(shape) if trained else scratch(shape, hidden)
        torch.addmm(bias, hidden, weight.T, out=votes)
        inverses = torch.empty(clouds, points, groups, channels, _LANES) if trained else None
        means = torch.empty(clouds, groups, setting.iterations + 1, 4, _LANES)
        moments = torch.empty(clouds, groups, 10, _LANES)
        agreements = torch.empty(clouds, groups, _LANES)
        outputs = (votes, inverses, means, moments, agreements)
        _call("route_forward", (clouds, points, groups, channels), setting, poses, activations, *outputs)
        if trained:
            ctx.setting = setting
            ctx.save_for_backward(hidden, weight, poses, activations, votes, inverses, means, moments)
        return means[:, :, -1].clone(), agreements

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, for_means: Tensor, for_agreements: Tensor) -> tuple[Tensor | None, ...]:
        hidden, weight, poses, activations, votes, inverses, means, moments = ctx.saved_tensors
        clouds, points, channels = activations.shape
        for_votes = scratch(votes.shape, votes)
        for_poses = torch.zeros_like(poses) if ctx.needs_input_grad[3] else None
        for_activations = torch.zeros_like(activations) if ctx.needs_input_grad[4] else None
        _call(
            "route_backward",
            (clouds, points, means.shape[1], channels),
            ctx.setting,
            *(poses, activations, votes, inverses, means, moments),
            *(for_means.contiguous(), for_agreements.contiguous()),
            *(for_votes, for_poses, for_activations),
        )
        return (
            for_votes @ weight if ctx.needs_input_grad[0] else None,
            for_votes.T @ hidden if ctx.needs_input_grad[1] else None,
            for_votes.sum(0) if ctx.needs_input_grad[2] else None,
            for_poses,
            for_activations,
            None,
        )


def _call(name: str, sizes: tuple[int, ...], setting: _Setting, *tensors: Tensor | None) -> None:
    """Calls a function of fused_routing.cpp; None for what is not wanted."""
    getattr(_library(), name)(
        *(ctypes.c_long(size) for size in sizes),
        ctypes.c_int(setting.iterations),
        ctypes.c_int(get_args(Weighting).index(setting.weighting)),
        ctypes.c_float(setting.exponent),
        ctypes.c_int(torch.get_num_threads()),
        *(ctypes.c_void_p(None if tensor is None else tensor.data_ptr()) for tensor in tensors),
    )


@functools.cache
def _library() -> ctypes.CDLL:
    """The compiled operator, from the user's cache folder, or compiled into it."""
    compiler = next(filter(None, map(shutil.which, (os.environ.get("CXX", ""), "c++", "g++", "clang++"))), None)
    if compiler is None:
        raise OSError("there is no C++ compiler; install one, or set CXX to its path")
    version = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=True).stdout
    told = "\n".join((_SOURCE.read_text(encoding="utf-8"), *_FLAGS, compiler, version, torch.__version__, _processor()))
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "qecnet"
    compiled = folder / f"fused_routing-{hashlib.sha256(told.encode()).hexdigest()[:16]}.so"
    if not compiled.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as temporary:
            made = Path(temporary, compiled.name)
            _compile(compiler, made)
            made.replace(compiled)  # at once, so that other processes find all of it or nothing
    return ctypes.CDLL(str(compiled))


def _compile(compiler: str, to: Path) -> None:
    """With all that this processor can do, and threads, if the compiler knows how."""
    for extra in (("-march=native", "-fopenmp"), ("-mcpu=native",), ()):
        try:
            subprocess.run([compiler, *_FLAGS, *extra, str(_SOURCE), "-o", str(to)], capture_output=True, check=True)
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


def _reason(error: Exception) -> str:
    if isinstance(error, subprocess.CalledProcessError):
        said = error.stderr or b""
        lines = (said.decode(errors="replace") if isinstance(said, bytes) else said).strip().splitlines()
        return f"{error.cmd[0]} failed ({lines[0] if lines else f'exit code {error.returncode}'})"
    return str(error)
