"""Limits of the fields of configurations."""

from typing import Any


def check_at_most(config: Any, **limits: int) -> None:
    """Raise a ValueError for a field above its limit, which is far above any use: damaged files could ask for more."""
    for name, limit in limits.items():
        value = getattr(config, name)
        if max(value if isinstance(value, tuple) else (value,)) > limit:
            raise ValueError(f"{name} is {value}; it must be at most {limit:,}")


def check_sizes(config: Any, **limits: int) -> None:
    """Raise a ValueError for a field that is, or has, a number below 1 or above its limit."""
    for name in limits:
        value = getattr(config, name)
        if not min(value if isinstance(value, tuple) else (value,)) >= 1:
            raise ValueError(f"{name} is {value}; it must be at least 1")
    check_at_most(config, **limits)
