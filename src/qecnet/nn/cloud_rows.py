"""What dataclasses with a row for each cloud share."""

from collections.abc import Iterable
from typing import TypeVar

import torch
from torch import Tensor

SomeRows = TypeVar("SomeRows", bound="CloudRows")


class CloudRows:
    """A dataclass of tensors with a row for each cloud."""

    def select(self: SomeRows, index: slice | Tensor) -> SomeRows:
        """Select clouds by a slice, or by indices or a mask (clouds,)."""
        return type(self)(*(x[index] for x in vars(self).values()))

    def to(self: SomeRows, device: torch.device) -> SomeRows:
        """Move all tensors to a device."""
        return type(self)(*(x.to(device) for x in vars(self).values()))

    @classmethod
    def concatenate(cls: type[SomeRows], parts: Iterable[SomeRows]) -> SomeRows:
        """Join the clouds of all parts, in order."""
        return cls(*map(torch.cat, zip(*(vars(part).values() for part in parts), strict=True)))
