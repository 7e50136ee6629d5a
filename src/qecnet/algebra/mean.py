"""The weighted quaternion mean (Eq. 4; Markley et al. 2007), the averaging operator that routing is made of."""

import torch
from torch import Tensor

from ._check import check_set
from .eigen import dominant_eigenvector
from .modes import full_precision


def weighted_mean(q: Tensor, w: Tensor | None = None) -> Tensor:
    """Compute the mean rotation `argmax_q qᵀ M q` with `M = Σ wᵢ qᵢ qᵢᵀ`.

    An element of weight 0 changes no bit of the result, whatever its values, and receives no gradient; if every weight
    is 0, the mean is the identity. Equivariant under rotations from the left, and invariant to the order and to the
    signs of the quaternions (Theorem 1).

    Args:
        q: (..., K, 4) WXYZ.
        w: (..., K), at least 0; all equal by default.

    Returns:
        (..., 4) WXYZ.

    Raises:
        ValueError: if shapes do not fit, the set is empty or a weight is negative.
    """
    check_set("q", q, "w", w)
    if w is None:
        w = torch.ones_like(q[..., 0])
    return dominant_eigenvector(second_moment(drop_weightless(q, w), w), semidefinite=True)


def second_moment(q: Tensor, w: Tensor) -> Tensor:
    """Compute `M = Σ wᵢ qᵢ qᵢᵀ` (Eq. 4). (..., K, 4), (..., K) → (..., 4, 4)"""
    with full_precision(q.device):
        return (q * w[..., None]).mT @ q


def drop_weightless(q: Tensor, w: Tensor) -> Tensor:
    """Set `q` to zero where the weight is 0, so that no value of a masked element is used, not even NaN."""
    return torch.where(w[..., None] == 0, 0.0, q)
