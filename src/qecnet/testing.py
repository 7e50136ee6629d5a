"""Check equivariance: rotate, permute or translate the input of a function, and compare the output.

Each argument and each result has a kind, which says how it should change:

| kind | shape | under a rotation g | under a translation s |
| --- | --- | --- | --- |
| `"points"`, `"point"` | (..., K, 3), (..., 3) | g ∘ x | x + s |
| `"vectors"`, `"vector"` | (..., K, 3), (..., 3) | g ∘ x | x |
| `"poses"`, `"pose"` | (..., K, 4), (..., 4), WXYZ | g ∘ q | q |
| `"scalars"`, `"features"` | (..., K), (..., K, F) | x | x |
| `"fixed"` | any | x | x |

Plural kinds have a set axis, which permutations reorder; singular kinds belong to the whole set and stay the same.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from .algebra import angular_distance, multiply, random_quaternion, rotate

__all__ = ["Action", "Kind", "assert_equivariant", "assert_invariant", "equivariance_error"]

Kind = Literal["points", "point", "vectors", "vector", "poses", "pose", "scalars", "features", "fixed"]
Action = Literal["rotation", "permutation", "translation"]

_SET_AXIS = {"points": -2, "vectors": -2, "poses": -2, "features": -2, "scalars": -1}
_LAST_AXIS = {"point": 3, "points": 3, "vector": 3, "vectors": 3, "pose": 4, "poses": 4}
_TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-9}


def equivariance_error(
    function: Callable[..., Any],
    inputs: Sequence[Tensor],
    takes: Sequence[Kind],
    gives: Kind | Sequence[Kind],
    under: Action = "rotation",
    *,
    trials: int = 8,
    seed: int = 0,
) -> float:
    """Compute the largest difference between `function(g · inputs)` and `g · function(inputs)`.

    Poses are compared by angle in radians (q and −q are the same pose), everything else by absolute difference.
    Rotations are sampled uniformly from SO(3); the identity, half turns about the axes and a tiny rotation are always
    among them. A difference that is not a number counts as infinite.

    Args:
        function: takes tensors and returns a tensor or several.
        inputs: its arguments.
        takes: the kind of each argument, see the table above.
        gives: the kind of the result, or of each result.
        under: what is done to the inputs.
        trials: number of random transformations g.
        seed: of the transformations.

    Returns:
        The largest difference over all transformations and results.

    Raises:
        ValueError: if a tensor does not have its kind's shape, or an option is out of range.
    """
    if trials < 1:
        raise ValueError(f"trials is {trials}; a check needs at least 1")
    gives = (gives,) if isinstance(gives, str) else tuple(gives)
    for index, (x, kind) in enumerate(zip(inputs, takes, strict=True)):
        _check_kind(f"input {index}", x, kind)
    outputs = _as_tuple(function(*inputs), gives)
    worst = 0.0
    for g in _draw(under, inputs, takes, trials, seed):
        transformed = [_transform(x, kind, under, g) for x, kind in zip(inputs, takes, strict=True)]
        for found, output, kind in zip(_as_tuple(function(*transformed), gives), outputs, gives, strict=True):
            worst = max(worst, _difference(found, _transform(output, kind, under, g), kind))
    return worst


def assert_equivariant(
    function: Callable[..., Any],
    inputs: Sequence[Tensor],
    takes: Sequence[Kind],
    gives: Kind | Sequence[Kind],
    under: Action | Iterable[Action] = ("rotation", "permutation"),
    *,
    tolerance: float | None = None,
    trials: int = 8,
    seed: int = 0,
) -> None:
    """Check that the results of a function change with its inputs.

    Example:
        >>> assert_equivariant(weighted_mean, (q, w), takes=("poses", "scalars"), gives="pose")

    Args:
        function: takes tensors and returns a tensor or several.
        inputs: its arguments.
        takes: the kind of each argument, see the table above.
        gives: the kind of the result, or of each result.
        under: what is done to the inputs, one action or several.
        tolerance: largest allowed `equivariance_error`; by default 1e-4 for float32 and 1e-9 for float64 inputs.
        trials: number of random transformations.
        seed: of the transformations.

    Raises:
        AssertionError: if the error is above the tolerance.
        ValueError: if a tensor does not have its kind's shape, or an option is out of range.
    """
    actions: tuple[Action, ...] = (under,) if isinstance(under, str) else tuple(under)
    if not actions:
        raise ValueError("under names no action; it must be rotation, permutation or translation")
    if tolerance is None:
        tolerance = max(
            (_TOLERANCE[x.dtype] for x in inputs if x.dtype in _TOLERANCE), default=_TOLERANCE[torch.float32]
        )
    for action in actions:
        error = equivariance_error(function, inputs, takes, gives, action, trials=trials, seed=seed)
        if not error <= tolerance:
            name = getattr(function, "__name__", type(function).__name__)
            raise AssertionError(
                f"{name} is not equivariant under {action}: error {error:.3g}, allowed {tolerance:.3g}"
            )


def assert_invariant(
    function: Callable[..., Any],
    inputs: Sequence[Tensor],
    takes: Sequence[Kind],
    under: Action | Iterable[Action] = ("rotation", "permutation"),
    **options: Any,
) -> None:
    """Check that the results of a function stay the same when its inputs change.

    For results with a set axis, which a permutation should reorder, use `assert_equivariant`.

    Args:
        function: takes tensors and returns a tensor or several.
        inputs: its arguments.
        takes: the kind of each argument, see the table above.
        under: what is done to the inputs, one action or several.
        options: `tolerance`, `trials` and `seed`, as for `assert_equivariant`.

    Raises:
        AssertionError: if the difference is above the tolerance.
        ValueError: if a tensor does not have its kind's shape, or an option is out of range.
    """
    results = function(*inputs)
    gives: list[Kind] = ["fixed" for _ in (results if isinstance(results, tuple | list) else (results,))]
    assert_equivariant(function, inputs, takes, gives, under, **options)


def _draw(under: Action, inputs: Sequence[Tensor], takes: Sequence[Kind], trials: int, seed: int) -> Iterable[Tensor]:
    """What `_transform` takes: quaternions, orders of the set axis, or shifts."""
    generator = torch.Generator().manual_seed(seed)
    if under == "rotation":
        hard = torch.eye(4, dtype=torch.float64)
        tiny = torch.nn.functional.normalize(torch.tensor([[1.0, 1e-6, 0.0, 0.0]], dtype=torch.float64), dim=-1)
        return torch.cat((hard, tiny, random_quaternion(trials, generator, dtype=torch.float64)))
    if under == "permutation":
        sizes = {x.shape[_SET_AXIS[k]] for x, k in zip(inputs, takes, strict=True) if k in _SET_AXIS}
        if len(sizes) != 1:
            raise ValueError(f"inputs have set axes of sizes {sorted(sizes)}; a permutation needs exactly one size")
        size = sizes.pop()
        return [torch.arange(size).flip(0), *(torch.randperm(size, generator=generator) for _ in range(trials))]
    if under == "translation":
        return [torch.randn(3, generator=generator, dtype=torch.float64) for _ in range(trials)]
    raise ValueError(f"under is {under!r}; it must be rotation, permutation or translation")


def _transform(x: Tensor, kind: Kind, under: Action, g: Tensor) -> Tensor:
    if under == "permutation":
        return x.index_select(_SET_AXIS[kind], g.to(x.device)) if kind in _SET_AXIS else x
    if under == "translation":
        return x + g.to(x) if kind in ("points", "point") else x
    if kind in ("poses", "pose"):
        return multiply(g.to(x), x)
    return rotate(g.to(x), x) if _LAST_AXIS.get(kind) == 3 else x


def _difference(found: Tensor, expected: Tensor, kind: Kind) -> float:
    if found.shape != expected.shape:
        raise ValueError(
            f"the function returned shapes {tuple(found.shape)} and {tuple(expected.shape)} for one input shape"
        )
    if found.numel() == 0:
        return 0.0
    found, expected = found.detach(), expected.detach()
    if kind in ("poses", "pose"):
        error = angular_distance(found, expected)
    else:
        error = (found.double() - expected.double()).abs()
    return float(torch.nan_to_num(error, nan=torch.inf).max())


def _as_tuple(outputs: Any, gives: Sequence[Kind]) -> tuple[Tensor, ...]:
    results: tuple[Any, ...] = tuple(outputs) if isinstance(outputs, tuple | list) else (outputs,)
    if len(results) != len(gives):
        raise ValueError(f"the function returned {len(results)} results, but gives names {len(gives)} kinds")
    for index, (x, kind) in enumerate(zip(results, gives, strict=True)):
        if not isinstance(x, Tensor):
            raise ValueError(f"result {index} of the function is {type(x).__name__}; it must be a tensor")
        _check_kind(f"result {index}", x, kind)
    return results


def _check_kind(name: str, x: Tensor, kind: Kind) -> None:
    if kind not in (*_LAST_AXIS, *_SET_AXIS, "fixed"):
        raise ValueError(f"{name} has kind {kind!r}; see the table in qecnet.testing")
    last = _LAST_AXIS.get(kind)
    if last is not None and x.shape[-1:] != (last,):
        raise ValueError(f"{name} of shape {tuple(x.shape)} cannot be {kind!r}: its last axis must be {last}")
    if x.dim() < -_SET_AXIS.get(kind, 0):
        raise ValueError(f"{name} of shape {tuple(x.shape)} cannot be {kind!r}: it has no set axis")
