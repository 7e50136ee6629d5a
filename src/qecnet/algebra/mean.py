"""The weighted quaternion mean (Eq. 4; Markley et al. 2007), the averaging operator that routing is made of."""

import torch
from torch import Tensor

from ._check import check_set
from .eigen import dominant_eigenvector
from .modes import full_precision


def weighted_mean(q: Tensor, w: Tensor | None = None) -> Tensor:
    """The rotation `argmax_q qᵀ M q` with `M = Σ wᵢ qᵢ qᵢᵀ`. (..., K, 4) WXYZ, (..., K) → (..., 4).

    An element of weight 0 drops out, whatever its quaternion holds, bit for bit, and receives no gradient; if every
    weight is 0 the mean is the identity. Equivariant under rotations from the left, and indifferent to order and to the
    signs of the quaternions (Theorem 1). Without `w`, all count alike.
    """
    check_set("q", q, "w", w)
    if w is None:
        w = torch.ones_like(q[..., 0])
    return dominant_eigenvector(second_moment(drop_weightless(q, w), w), semidefinite=True)


def second_moment(q: Tensor, w: Tensor) -> Tensor:
    """`M = Σ wᵢ qᵢ qᵢᵀ` (Eq. 4). (..., K, 4), (..., K) → (..., 4, 4)."""
    with full_precision(q.device):
        return (q * w[..., None]).mT @ q


def drop_weightless(q: Tensor, w: Tensor) -> Tensor:
    """`q` with zeros where the weight is 0: nothing that a masked slot holds, not even NaN, goes any further."""
    return torch.where(w[..., None] == 0, 0.0, q)
