"""How pictures are drawn: small panels of matplotlib as SVG in the page, which take their colours from its style."""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Callable
from html import escape
from typing import Any

# Okabe and Ito's colours, which the colour-blind tell apart; the page's style has lighter ones for dark windows.
BLUE, VERMILLION, GREEN, PINK = "#0072b2", "#d55e00", "#009e73", "#b0568b"
INK, MUTED, RULE, ON_BLUE = "#1a1a19", "#6b6b66", "#d8d8d2", "#fefefe"

_IN_PAGE = {
    BLUE: "var(--blue)",
    VERMILLION: "var(--vermillion)",
    GREEN: "var(--green)",
    PINK: "var(--pink)",
    INK: "var(--ink)",
    MUTED: "var(--muted)",
    RULE: "var(--rule)",
    ON_BLUE: "var(--on-blue)",
}
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "qecnet",
    "font.size": 8,
    "axes.titlesize": 8.5,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.labelsize": 8,
    "xtick.labelsize": 7.5,
    "ytick.labelsize": 7.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.7,
    "xtick.major.width": 0.7,
    "ytick.major.width": 0.7,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "lines.linewidth": 1.5,
    "lines.markersize": 3.8,
    "grid.linewidth": 0.6,
    "grid.color": RULE,
    **dict.fromkeys(("text.color", "axes.labelcolor", "xtick.labelcolor", "ytick.labelcolor", "axes.titlecolor"), INK),
    **dict.fromkeys(("axes.edgecolor", "xtick.color", "ytick.color"), MUTED),
}
_PIXELS = 100
"""Of the page for an inch of a panel."""


def check_matplotlib() -> None:
    """Says what to install where it is missing, before any work is done."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise ValueError(
            "the report is drawn with matplotlib, which is not installed; pip install 'qecnet[plot]'"
        ) from error


def panel(width: float, height: float, label: str, draw: Callable[..., None], *arguments: Any, rows: int = 1) -> str:
    """An SVG of so many inches; `label` says what it shows.

    `draw` is called with `rows` axes, one above the other with the same x, and then with the arguments.
    """
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        draw(*figure.subplots(rows, 1, sharex=True, squeeze=False)[:, 0], *arguments)
        written = io.StringIO()
        figure.savefig(written, format="svg", transparent=True)
    return f'<div class="panel">{_inline(written.getvalue(), width, label)}</div>'


def _inline(svg: str, width: float, label: str) -> str:
    """An SVG file as a part of a page: without its head, with names of its own, in the page's fonts and colours."""
    body = svg[svg.index("<svg") :]
    box = re.search(r'viewBox="[^"]*"', body)
    assert box is not None
    for left_out in (r"<metadata>.*?</metadata>", r"<defs>\s*<style.*?</style>\s*</defs>", r"font-family: [^;\"]*; "):
        body = re.sub(left_out, "", body, flags=re.DOTALL)
    mine = hashlib.sha256(body.encode()).hexdigest()[:8]
    body = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>p{mine}-", body)
    for colour, name in _IN_PAGE.items():
        body = body.replace(colour, name)
    opening = f'<svg {box[0]} width="{_PIXELS * width:.0f}" role="img" aria-label="{escape(label)}">'
    return opening + re.sub(r"\s*\n\s*", "\n", body[body.index(">") + 1 :]).strip()
