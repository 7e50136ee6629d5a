"""The transform kernel t(·) of Algorithm 2: from canonicalised positions to the transformations that make the votes."""

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn

from ._slices import flat

Nonlinearity = Literal["none", "relu", "gelu"]
_FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "none": lambda x: x,
    "relu": nn.functional.relu,
    "gelu": nn.functional.gelu,
}


class TransformKernel(nn.Module):
    """Two fully connected layers, shared by all points: `3·Nc → M → 4·Nc·M` (Sec. 5.1).

    The hidden width is that of the authors, the number of output capsules M; they have no non-linearity in between.

    Args:
        in_capsules: Nc, poses at each point.
        out_capsules: M, poses at each patch.
        nonlinearity: between the two layers.
    """

    def __init__(self, in_capsules: int, out_capsules: int, nonlinearity: Nonlinearity = "none") -> None:
        super().__init__()
        if nonlinearity not in _FUNCTIONS:
            raise ValueError(f"nonlinearity is {nonlinearity!r}; it must be one of {', '.join(_FUNCTIONS)}")
        for name, size in (("in_capsules", in_capsules), ("out_capsules", out_capsules)):
            if size < 1:
                raise ValueError(f"{name} is {size}; a transform kernel needs at least 1")
        self.in_capsules, self.out_capsules, self.nonlinearity = in_capsules, out_capsules, nonlinearity
        self.first = nn.Linear(3 * in_capsules, out_capsules)
        self.second = nn.Linear(out_capsules, 4 * in_capsules * out_capsules)

    def forward(self, canonical: Tensor) -> Tensor:
        """Compute the transformations t_ij before normalization, which `cast_votes` does itself.

        Args:
            canonical: (..., K, Nc, 3), positions in the frame of each channel.

        Returns:
            Quaternions (..., M, Nc·K, 4), WXYZ, of any length.
        """
        raw = _linear_points_last(self.hidden(canonical), self.second)
        return raw.view(*canonical.shape[:-3], self.out_capsules, 4, self.in_capsules * canonical.shape[-3]).mT

    def hidden(self, canonical: Tensor) -> Tensor:
        """Compute the input of the second layer.

        Args:
            canonical: (..., K, Nc, 3), positions in the frame of each channel.

        Returns:
            (..., K, M).
        """
        return _FUNCTIONS[self.nonlinearity](self.first(canonical.flatten(-2)))


def _linear_points_last(hidden: Tensor, linear: nn.Linear) -> Tensor:
    """`linear(hidden)` with the points innermost: (..., K, H) → (..., width, K).

    With many points the product is computed in that layout; with few, transposing afterwards is cheaper.
    """
    *batch, points, _ = hidden.shape
    if points < 32:
        transposed: Tensor = linear(hidden).mT.contiguous()
        return transposed
    rows = flat(hidden, 2)
    product = torch.bmm(linear.weight.expand(rows.shape[0], -1, -1), rows.mT).add_(linear.bias[:, None])
    return product.view(*batch, linear.out_features, points)
