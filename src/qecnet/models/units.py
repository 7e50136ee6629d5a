"""Units of length that two files may have been written in."""

from __future__ import annotations

_UNITS = {
    1000.0: "metres against millimetres",
    100.0: "metres against centimetres",
    10.0: "centimetres against millimetres",
    25.4: "inches against millimetres",
    304.8: "feet against millimetres",
}
_NEAR = 0.05


def find_units(ratio: float) -> tuple[float, str]:
    """Find the factor between two units of length that a ratio of sizes is within 5% of.

    Args:
        ratio: of two sizes.

    Returns:
        The factor and the names of both units, or the ratio itself and an empty name.
    """
    for factor, names in _UNITS.items():
        for exact in (factor, 1 / factor):
            if abs(ratio / exact - 1) < _NEAR:
                return exact, names
    return ratio, ""
