"""The dominant eigenvector of symmetric 4×4 matrices, from which Eq. 4's mean and every capsule's pose are computed.

A matrix is squared until only its dominant eigenvector is left. The ten distinct entries are kept as ten tensors over
the batch ("packed"), so that each step is a few element-wise operations that vectorise. The tests compare the result
with `torch.linalg.eigh`.
"""

from typing import Any

import torch
from torch import Tensor

from ._check import check_last
from .modes import full_precision, is_exporting

Packed = tuple[Tensor, ...]
"""The entries (i, j), i ≤ j, of a symmetric 4×4 matrix in reading order; ten tensors of one shape."""

_ROW, _COLUMN = zip(*((i, j) for i in range(4) for j in range(i, 4)), strict=True)
_DIAGONAL = (0, 4, 7, 9)
_PACKING = torch.zeros(10, 16, device="cpu")
for _k, (_i, _j) in enumerate(zip(_ROW, _COLUMN, strict=True)):
    _PACKING[_k, 4 * _i + _j] += 0.5
    _PACKING[_k, 4 * _j + _i] += 0.5
_packings: dict[tuple[torch.device, torch.dtype], Tensor] = {}

_FEW = 512
"""Up to this many matrices, the time depends on the number of operations and not on their size."""

# After s squarings, and the result applied twice to its own column, λ₂/λ₁ has become its 3·2ˢ-th power.
_SQUARINGS = {torch.float32: 11, torch.float64: 24}


def dominant_eigenvector(matrix: Tensor, *, semidefinite: bool = False) -> Tensor:
    """Compute the unit eigenvector of the largest eigenvalue of each matrix.

    - Only the symmetric part of a matrix is used. A matrix that is not positive semi-definite is shifted until it is,
      and the gap is then relative to λ₁ − λ₄ instead of λ₁.
    - The sign is a deterministic function of the matrix, and otherwise unspecified.
    - An all-zero matrix gives (1, 0, 0, 0), the identity rotation, and passes no gradient.
    - Where λ₁ and λ₂ are equal, or closer than about 1e-3 (float32) or 1e-7 (float64) of λ₁, the result is some vector
      of the plane that the two eigenvectors span.
    - The gradient is `dq = (λ₁I − M)⁺ dM q`: ties among the other three eigenvalues do not matter, and where λ₁ meets
      λ₂ it stays finite and bounded (see `_pseudo_solve`). There is no second derivative: do not differentiate twice.

    Args:
        matrix: (..., 4, 4), symmetric.
        semidefinite: whether all matrices are known to be positive semi-definite, as moments are, which is faster.

    Returns:
        (..., 4).
    """
    check_last("matrix", matrix, 4, 4)
    if is_exporting() and semidefinite:
        return _in_few_operations(matrix)
    with full_precision(matrix.device):
        return _DominantEigenvector.apply(matrix, semidefinite)  # type: ignore[no-untyped-call,no-any-return]


def _in_few_operations(matrix: Tensor) -> Tensor:
    """Do the steps of `_power_limit` on whole matrices: a tenth of the operations, each of which takes longer."""
    identity = torch.eye(4, dtype=matrix.dtype, device=matrix.device)
    for step in range(_SQUARINGS[matrix.dtype]):
        if step % 3 == 0:
            matrix = matrix / _one_if_zero((matrix * identity).sum((-2, -1), keepdim=True))
        matrix = matrix @ matrix
    diagonal = (matrix * identity).sum(-1)
    column = identity[diagonal.argmax(-1)][..., None]
    vector = (matrix @ (matrix @ (matrix @ column / _one_if_zero(diagonal.amax(-1))[..., None, None])))[..., 0]
    norm = torch.sqrt((vector * vector).sum(-1, keepdim=True))
    return torch.where(norm == 0, identity[0], vector / _one_if_zero(norm))


class _DominantEigenvector(torch.autograd.Function):
    @staticmethod
    def forward(matrix: Tensor, semidefinite: bool) -> Tensor:
        if semidefinite and matrix.numel() <= 16 * _FEW:
            symmetric = (matrix + matrix.mT) / 2
            return _in_few_operations(symmetric / _one_if_zero(symmetric.abs().amax((-2, -1), keepdim=True)))
        a, _ = _scaled(matrix)
        if not semidefinite:
            shift = _indefiniteness(a, _square(a))
            a = tuple(x + shift if k in _DIAGONAL else x for k, x in enumerate(a))
        return torch.stack(_power_limit(a, _SQUARINGS[matrix.dtype]), dim=-1).view(matrix.shape[:-1])

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, bool], output: Tensor) -> None:
        ctx.save_for_backward(inputs[0], output)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        matrix, vector = ctx.saved_tensors
        a, scale = _scaled(matrix)
        q = vector.reshape(-1, 4).T.contiguous().unbind(0)
        g = grad.reshape(-1, 4).T.contiguous().unbind(0)
        y = _pseudo_solve(a, q, g, resolution=2.0 ** -_SQUARINGS[matrix.dtype])
        inverse = torch.where(scale == 0, 0.0, 1 / scale.clamp_min(torch.finfo(scale.dtype).tiny))
        y = tuple(x * inverse for x in y)
        outer = [y[i] * q[j] if i == j else y[i] * q[j] + y[j] * q[i] for i, j in zip(_ROW, _COLUMN, strict=True)]
        return (torch.stack(outer).T @ _packing(matrix)).view(matrix.shape), None


def _scaled(matrix: Tensor) -> tuple[Packed, Tensor]:
    """The symmetric part, packed and divided by its largest entry, and that entry (0 for an all-zero matrix)."""
    # A product with a constant transposes and symmetrises in one pass.
    packed = _packing(matrix) @ matrix.reshape(-1, 16).T
    scale = packed.abs().amax(0)
    return packed.div_(_one_if_zero(scale)).unbind(0), scale


def _packing(like: Tensor) -> Tensor:
    """The (10, 16) matrix that packs a flattened 4×4 matrix; copied to a device once, so that nothing waits for it."""
    if torch.compiler.is_compiling():  # a compiled graph may not keep its tensors in a dictionary
        return _PACKING.to(like)
    key = like.device, like.dtype
    if key not in _packings:
        _packings[key] = _PACKING.to(like)
    return _packings[key]


def _power_limit(a: Packed, squarings: int) -> Packed:
    """Square, normalise, repeat; then take the eigenvector from the column with the largest diagonal entry."""
    for step in range(squarings):
        if step % 3 == 0:  # three squarings from trace 1 stay above 4⁻⁷: no need to divide more often
            inverse = 1 / _one_if_zero(_trace(a))
            a = tuple(x * inverse for x in a)
        a = _square(a)
    rows = _rows(a)
    largest, column = rows[0][0], rows[0]
    for i in (1, 2, 3):
        better = (rows[i][i] > largest).to(largest.dtype)  # lerp by 0 or 1 is exact, and ten times as fast as where
        largest = torch.lerp(largest, rows[i][i], better)
        column = tuple(torch.lerp(old, new, better) for new, old in zip(rows[i], column, strict=True))
    inverse = 1 / _one_if_zero(largest)
    vector = _apply(a, _apply(a, tuple(x * inverse for x in column)))
    norm = torch.sqrt(_dot(vector, vector))
    inverse = 1 / _one_if_zero(norm)
    w, x, y, z = (component.mul_(inverse) for component in vector)
    return torch.where(norm == 0, 1.0, w), x, y, z


def _trace(a: Packed) -> Tensor:
    return (a[0] + a[4]).add_(a[7]).add_(a[9])


def _one_if_zero(x: Tensor) -> Tensor:
    return torch.where(x == 0, 1.0, x)


def _square(a: Packed) -> Packed:
    # In place where a temporary would be discarded anyway: memory traffic is what this costs in eager mode.
    a00, a01, a02, a03, a11, a12, a13, a22, a23, a33 = a
    s01, s02, s03, s12, s13, s23 = a01 * a01, a02 * a02, a03 * a03, a12 * a12, a13 * a13, a23 * a23
    b00 = (s01 + s02).add_(s03).addcmul_(a00, a00)
    b11 = s01.add_(s12).add_(s13).addcmul_(a11, a11)
    b22 = s02.add_(s12).add_(s23).addcmul_(a22, a22)
    b33 = s03.add_(s13).add_(s23).addcmul_(a33, a33)
    return (
        b00,
        (a00 + a11).mul_(a01).addcmul_(a02, a12).addcmul_(a03, a13),
        (a00 + a22).mul_(a02).addcmul_(a01, a12).addcmul_(a03, a23),
        (a00 + a33).mul_(a03).addcmul_(a01, a13).addcmul_(a02, a23),
        b11,
        (a11 + a22).mul_(a12).addcmul_(a01, a02).addcmul_(a13, a23),
        (a11 + a33).mul_(a13).addcmul_(a01, a03).addcmul_(a12, a23),
        b22,
        (a22 + a33).mul_(a23).addcmul_(a02, a03).addcmul_(a12, a13),
        b33,
    )


def _indefiniteness(a: Packed, squared: Packed) -> Tensor:
    """How much of the identity to add so that no negative eigenvalue dominates after squaring; 0 for moments. → (...).

    A symmetric matrix has a negative eigenvalue exactly if one of the elementary symmetric polynomials of its
    eigenvalues is negative; Newton's identities give those from traces of powers. The amount is Wolkowicz and Styan's
    bound on the smallest eigenvalue.
    """
    p1, p2 = _trace(a), _trace(squared)
    p3 = _inner(a, squared)
    p4 = _inner(squared, squared)
    e2 = (p1 * p1 - p2) / 2
    e3 = (e2 * p1 - p1 * p2 + p3) / 3
    e4 = (e3 * p1 - e2 * p2 + p1 * p3 - p4) / 4
    negative = torch.minimum(torch.minimum(p1, e2), torch.minimum(e3, e4)) < -1e-5
    mean = p1 / 4
    bound = mean - torch.sqrt((3 * (p2 / 4 - mean * mean)).clamp_min(0))
    return torch.where(negative, -bound, 0.0).clamp_min(0)


def _pseudo_solve(a: Packed, q: Packed, g: Packed, resolution: float) -> Packed:
    """`(λ₁I − A)⁺ g` for the dominant eigenvector q of A, by Tikhonov's method iterated once.

    With d = λ₁ − λᵢ and ε the smallest gap that the forward pass resolves, each 1/d becomes
    `(1 − (ε / (d + ε))²) / d`: right to (ε/d)², and never above 2/ε.
    """
    along = _dot(q, g)
    g = tuple(torch.addcmul(x, along, y, value=-1) for x, y in zip(g, q, strict=True))
    eigenvalue = _dot(q, _apply(a, q))
    regular = tuple(
        torch.addcmul(-x, q[i], q[j]) + (eigenvalue + resolution if i == j else 0)
        for x, i, j in zip(a, _ROW, _COLUMN, strict=True)
    )
    factors = _factor(regular, resolution)
    once = _solve(factors, g)
    return _solve(factors, tuple(torch.add(x, y, alpha=resolution) for x, y in zip(g, once, strict=True)))


def _factor(a: Packed, smallest: float) -> tuple[Packed, Packed]:
    """LDLᵀ of a positive definite matrix: the six entries of L and the inverses of D, pivots kept above `smallest`."""
    a00, a01, a02, a03, a11, a12, a13, a22, a23, a33 = a
    i0 = 1 / a00.clamp_min(smallest)
    l10, l20, l30 = a01 * i0, a02 * i0, a03 * i0
    i1 = 1 / (a11 - l10 * a01).clamp_min(smallest)
    t21, t31 = a12 - l10 * a02, a13 - l10 * a03
    l21, l31 = t21 * i1, t31 * i1
    i2 = 1 / (a22 - l20 * a02 - l21 * t21).clamp_min(smallest)
    t32 = a23 - l20 * a03 - l21 * t31
    l32 = t32 * i2
    i3 = 1 / (a33 - l30 * a03 - l31 * t31 - l32 * t32).clamp_min(smallest)
    return (l10, l20, l30, l21, l31, l32), (i0, i1, i2, i3)


def _solve(factors: tuple[Packed, Packed], b: Packed) -> Packed:
    (l10, l20, l30, l21, l31, l32), (i0, i1, i2, i3) = factors
    y0 = b[0]
    y1 = b[1] - l10 * y0
    y2 = b[2] - l20 * y0 - l21 * y1
    y3 = b[3] - l30 * y0 - l31 * y1 - l32 * y2
    x3 = y3 * i3
    x2 = y2 * i2 - l32 * x3
    x1 = y1 * i1 - l21 * x2 - l31 * x3
    x0 = y0 * i0 - l10 * x1 - l20 * x2 - l30 * x3
    return x0, x1, x2, x3


def _rows(a: Packed) -> tuple[Packed, Packed, Packed, Packed]:
    a00, a01, a02, a03, a11, a12, a13, a22, a23, a33 = a
    return (a00, a01, a02, a03), (a01, a11, a12, a13), (a02, a12, a22, a23), (a03, a13, a23, a33)


def _apply(a: Packed, x: Packed) -> Packed:
    return tuple(_dot(row, x) for row in _rows(a))


def _dot(x: Packed, y: Packed) -> Tensor:
    total = x[0] * y[0]
    for s, t in zip(x[1:], y[1:], strict=True):
        total.addcmul_(s, t)
    return total


def _inner(a: Packed, b: Packed) -> Tensor:
    """The trace of `A B`: off-diagonal entries count twice."""
    diagonal = _dot(tuple(a[k] for k in _DIAGONAL), tuple(b[k] for k in _DIAGONAL))
    off = tuple(k for k in range(10) if k not in _DIAGONAL)
    return torch.add(diagonal, _dot(tuple(a[k] for k in off), tuple(b[k] for k in off)), alpha=2)
