"""L_q medians of rotations by Weiszfeld's algorithm (Algorithm 3), and the weights that routing shares with it.

One Weiszfeld step weights each rotation by its distance from the current estimate and takes the weighted mean of Eq. 4.
Dynamic routing (Algorithm 1) is the same loop with another weighting: Lemma 1.
"""

from typing import Literal, get_args

import torch
from torch import Tensor

from ._check import check_set
from .eigen import dominant_eigenvector
from .mean import drop_weightless, second_moment
from .quaternion import angle_between

Weighting = Literal["sigmoid", "linear", "lq"]


def weiszfeld_weights(delta: Tensor, weighting: Weighting, exponent: float = 1.0) -> Tensor:
    """Compute the weight of rotations in the next estimate from their angular distance to the current one.

    - `"sigmoid"`: `sigmoid(−δ)`, as printed in Algorithm 1.
    - `"linear"`: `1 − δ/π`, as in the authors' release.
    - `"lq"`: `d^(exponent − 2)` with 1 ≤ exponent ≤ 2. Lemma 1 prints δ for d; this is the distance that Algorithm 3
      uses, from the unit vector of one rotation to the line that the other spans in R⁴: `d = sin(δ/2)`. For small
      angles that is δ/2, and only with it does no step raise the cost. It is kept above ε^¾ of the dtype (6e-6 in
      float32), so that the weight stays finite when the estimate coincides with a data point.

    Args:
        delta: (...) angles in radians.
        weighting: the rule.
        exponent: of "lq".

    Returns:
        (...) weights.

    Raises:
        ValueError: if the rule is unknown or the exponent out of range.
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


def lq_median(
    quaternions: Tensor, weights: Tensor | None = None, exponent: float = 1.0, iterations: int = 32
) -> Tensor:
    """Compute the rotation that minimises `C_q(x) = Σ wᵢ d(x, qᵢ)^exponent` (Algorithm 3).

    `exponent=2` is the mean of Eq. 4, `exponent=1` the geometric median, which outliers hardly move; `d = sin(δ/2)` is
    the distance between the lines that two quaternions span. Starts from the mean; no step raises the cost (up to
    rounding, and to the lower bound on d in `weiszfeld_weights`). A rotation of weight 0 has no effect, whatever its
    values. Equivariant under rotations from the left, as the mean is.

    Args:
        quaternions: (..., K, 4) WXYZ.
        weights: (..., K), at least 0; all equal by default.
        exponent: from 1 to 2.
        iterations: number of steps.

    Returns:
        (..., 4) WXYZ.

    Raises:
        ValueError: if a shape, a weight or an option does not fit.
    """
    check_set("quaternions", quaternions, "weights", weights)
    _check_exponent(exponent)
    if iterations < 0:
        raise ValueError(f"iterations is {iterations}; it must be at least 0")
    if weights is None:
        weights = quaternions.new_ones(quaternions.shape[:-1])
    quaternions = drop_weightless(quaternions, weights)
    median = dominant_eigenvector(second_moment(quaternions, weights), semidefinite=True)
    for _ in range(iterations):
        delta = angle_between(median[..., None, :], quaternions)
        reweighted = weights * weiszfeld_weights(delta, "lq", exponent)
        median = dominant_eigenvector(second_moment(quaternions, reweighted), semidefinite=True)
    return median


def _check_exponent(exponent: float) -> None:
    if not 1 <= exponent <= 2:
        raise ValueError(f"exponent is {exponent}; an L_q median needs 1 ≤ exponent ≤ 2")
