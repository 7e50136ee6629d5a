"""L_q medians of rotations by Weiszfeld's algorithm (Algorithm 3), and the weightings that routing shares with it.

One Weiszfeld step weighs each rotation by its distance from the current estimate and takes the weighted mean of Eq. 4.
Dynamic routing (Algorithm 1) is the same loop with another weighting: Lemma 1.
"""

from typing import Literal, get_args, overload

import torch
from torch import Tensor

from ._check import check_set
from .eigen import dominant_eigenvector
from .mean import drop_weightless, second_moment
from .quaternion import angle_between

Weighting = Literal["sigmoid", "linear", "lq"]


def weiszfeld_weights(delta: Tensor, weighting: Weighting, exponent: float = 1.0) -> Tensor:
    """How much a rotation at angular distance `delta` from the estimate counts in the next one. (...) → (...).

    - `"sigmoid"`: `sigmoid(−δ)`, as Algorithm 1 prints it.
    - `"linear"`: `1 − δ/π`, as the authors' release computes it.
    - `"lq"`: `d^(exponent − 2)` with 1 ≤ exponent ≤ 2. Lemma 1 prints δ for d; taken is the distance that Algorithm 3
      measures, from the unit vector of one rotation to the line that the other spans in R⁴: `d = sin(δ/2)`. For small
      angles that is δ/2, and only with it does no step raise the cost. It is kept above ε^¾ of the dtype (6e-6 in
      float32), so that an estimate that meets a data point stays finite.
    """
    if weighting == "sigmoid":
        return torch.sigmoid(-delta)
    if weighting == "linear":
        return (1 - delta / torch.pi).clamp_min(0)
    if weighting == "lq":
        _check_exponent(exponent)
        smallest = torch.finfo(delta.dtype).eps ** 0.75
        return torch.sin(delta / 2).clamp_min(smallest) ** (exponent - 2)
    raise ValueError(f"weighting is {weighting!r}; it must be one of {', '.join(get_args(Weighting))}")


@overload
def lq_median(
    quaternions: Tensor,
    weights: Tensor | None = ...,
    exponent: float = ...,
    iterations: int = ...,
    return_costs: Literal[False] = ...,
) -> Tensor: ...
@overload
def lq_median(
    quaternions: Tensor,
    weights: Tensor | None = ...,
    exponent: float = ...,
    iterations: int = ...,
    *,
    return_costs: Literal[True],
) -> tuple[Tensor, Tensor]: ...
def lq_median(
    quaternions: Tensor,
    weights: Tensor | None = None,
    exponent: float = 1.0,
    iterations: int = 32,
    return_costs: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """The rotation that minimises `C_q(x) = Σ wᵢ d(x, qᵢ)^exponent` (Algorithm 3). (..., K, 4), (..., K) → (..., 4).

    `exponent=2` is the mean of Eq. 4, `exponent=1` the geometric median, which outliers hardly move; `d = sin(δ/2)` is
    the distance between the lines that two quaternions span. Starts from the mean and takes `iterations` steps, none of
    which raises the cost (up to rounding, and to the floor under d in `weiszfeld_weights`). With `return_costs`, the
    costs before each step and after the last come too: (iterations + 1, ...).

    A rotation of weight 0 drops out, whatever it holds. Equivariant from the left, as the mean is.
    """
    check_set("quaternions", quaternions, "weights", weights)
    _check_exponent(exponent)
    if iterations < 0:
        raise ValueError(f"iterations is {iterations}; it must be at least 0")
    if weights is None:
        weights = quaternions.new_ones(quaternions.shape[:-1])
    quaternions = drop_weightless(quaternions, weights)
    median = dominant_eigenvector(second_moment(quaternions, weights), semidefinite=True)
    costs = []
    for _ in range(iterations):
        delta = angle_between(median[..., None, :], quaternions)
        costs.append(_cost(delta, weights, exponent))
        reweighted = weights * weiszfeld_weights(delta, "lq", exponent)
        median = dominant_eigenvector(second_moment(quaternions, reweighted), semidefinite=True)
    if not return_costs:
        return median
    delta = angle_between(median[..., None, :], quaternions)
    return median, torch.stack([*costs, _cost(delta, weights, exponent)])


def _cost(delta: Tensor, weights: Tensor, exponent: float) -> Tensor:
    return (weights * torch.sin(delta / 2) ** exponent).sum(-1)


def _check_exponent(exponent: float) -> None:
    if not 1 <= exponent <= 2:
        raise ValueError(f"exponent is {exponent}; an L_q median needs 1 ≤ exponent ≤ 2")
