"""Checks of arguments, for all functions of the algebra.

Shapes are always checked, which costs nothing. Values are checked only inside `checking()`, because that makes a GPU
wait for the host; the one exception is the sign of weights on the CPU.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor

_checking: ContextVar[bool] = ContextVar("qecnet_checking", default=False)


@contextmanager
def checking() -> Iterator[None]:
    """Check values as well as shapes while the block runs.

    Non-finite numbers, quaternions of another length than 1, negative weights and reflections in place of rotations
    then raise a `ValueError`.
    """
    token = _checking.set(True)
    try:
        yield
    finally:
        _checking.reset(token)


def is_checking() -> bool:
    """Find out whether values are checked here.

    Returns:
        True inside `checking()`, except in code that torch compiles.
    """
    return not torch.compiler.is_compiling() and _checking.get()


def check_last(name: str, x: Tensor, *last: int) -> None:
    """Check that the last axes of `x` have exactly the sizes `last`, and that it is float32 or float64."""
    if x.shape[-len(last) :] != last:
        wanted = ", ".join(map(str, last))
        raise ValueError(f"{name} has shape {tuple(x.shape)}; its shape must end in ({wanted})")
    if x.dtype not in (torch.float32, torch.float64):
        raise ValueError(f"{name} of shape {tuple(x.shape)} has dtype {x.dtype}; it must be float32 or float64")
    if is_checking() and not bool(torch.isfinite(x).all()):
        raise ValueError(f"{name} of shape {tuple(x.shape)} has values that are not finite")


def check_quaternion(name: str, q: Tensor) -> None:
    """Check that a tensor holds quaternions; inside `checking()`, also that they have length 1.

    Args:
        name: of the argument, for the message.
        q: should be (..., 4), float32 or float64.

    Raises:
        ValueError: if it does not.
    """
    check_last(name, q, 4)
    if is_checking():
        error = (torch.linalg.vector_norm(q, dim=-1) - 1).abs()
        if bool((error > 1e3 * torch.finfo(q.dtype).eps).any()):
            raise ValueError(
                f"{name} of shape {tuple(q.shape)} has quaternions up to {float(error.max()):.3g} away from unit length"
            )


def check_set(name: str, q: Tensor, weights_name: str, weights: Tensor | None) -> None:
    """Check that `q` is (..., K, 4) with K ≥ 1, and that `weights` is None or broadcasts with (..., K), at least 0."""
    if weights is None or not is_checking():
        check_quaternion(name, q)
    if q.dim() < 2:
        raise ValueError(f"{name} of shape {tuple(q.shape)} is not a set of quaternions; its shape must be (..., K, 4)")
    if q.shape[-2] == 0:
        raise ValueError(f"{name} of shape {tuple(q.shape)} is an empty set; its shape must be (..., K, 4) with K ≥ 1")
    if weights is None:
        return
    if weights.dtype != q.dtype:
        raise ValueError(
            f"{weights_name} has dtype {weights.dtype} and {name} {q.dtype}; they must have the same dtype"
        )
    pairs = zip(reversed(weights.shape), reversed(q.shape[:-1]), strict=False)
    if weights.shape[-1:] != q.shape[-2:-1] or any(a != b and 1 not in (a, b) for a, b in pairs):
        raise ValueError(
            f"{weights_name} of shape {tuple(weights.shape)} does not match {name} of shape {tuple(q.shape)}; "
            f"there must be one weight for each quaternion"
        )
    check_weights(weights_name, weights)
    if is_checking():  # elements of weight 0 may have any value
        identity = torch.eye(4, dtype=q.dtype, device=q.device)[0]
        check_quaternion(name, torch.where(weights[..., None] == 0, identity, q))


def check_weights(name: str, weights: Tensor) -> None:
    """Check that no weight is negative, on the CPU; inside `checking()` on any device, and that all are finite.

    Args:
        name: of the argument, for the message.
        weights: of any shape.

    Raises:
        ValueError: if one is.
    """
    look = weights.device.type == "cpu" and not torch.compiler.is_compiling()
    if (look or is_checking()) and weights.numel() and bool((weights < 0).any()):
        raise ValueError(
            f"{name} of shape {tuple(weights.shape)} has a negative value ({float(weights.min()):.3g}); "
            f"weights must be at least 0"
        )
    if is_checking() and not bool(torch.isfinite(weights).all()):
        raise ValueError(f"{name} of shape {tuple(weights.shape)} has values that are not finite")
