"""The appendix's sphere plot: where e_x points after each predicted pose, a small sphere for each class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from qecnet.algebra import rotate
from qecnet.evaluation.metrics import relative, rotations
from qecnet.evaluation.predict import Predictions
from qecnet.evaluation.report.classification import classes_in_order
from qecnet.evaluation.report.drawing import BLUE, MUTED, RULE, VERMILLION, panel
from qecnet.evaluation.report.page import Csv, Section, chip, legend, no_predictions
from qecnet.evaluation.report.results import PROTOCOLS, Run
from qecnet.evaluation.report.rotation import NO_POSES

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST = 2000
"""Points on all spheres together: the page stays light."""

_TURN, _TILT = np.radians(35), np.radians(25)
_RIGHT = np.array([-np.sin(_TURN), np.cos(_TURN), 0])
_EYE = np.array([np.cos(_TURN) * np.cos(_TILT), np.sin(_TURN) * np.cos(_TILT), np.sin(_TILT)])
_UP = np.cross(_EYE, _RIGHT)


def sphere_plot(run: Run) -> Section:
    """One view of each test shape, as many as there is room for."""
    section = Section("spheres", "Where poses point")
    if not run.model.has_poses:
        section.say(NO_POSES)
        return section
    chosen = next(
        (
            (protocol, found)
            for what in ("rotation", "classification")
            for protocol in PROTOCOLS
            if (found := run.predictions(what, protocol)) is not None
        ),
        None,
    )
    if chosen is None:
        section.say(no_predictions("rotation", run.name))
        return section
    protocol, found = chosen
    points = directions(found)
    panels, rows = [], []
    most = max(20, _MOST // len(found.classes))
    for name in classes_in_order(found.classes):
        of_class = np.flatnonzero(found.label == found.classes.index(name))
        shown = of_class[np.unique(np.linspace(0, len(of_class) - 1, min(most, len(of_class))).astype(int))]
        if len(shown):
            title = name.replace("_", " ")
            label = f"Directions of e_x for {title}"
            panels.append(panel(1.94, 2.08, label, _sphere, points[shown], found.correct[shown], title))
            rows += [[name, found.name[i], int(found.correct[i]), *map(float, points[i])] for i in shown]
    section.figure(
        "Where the x axis points when it is turned by the pose of the most activated capsule, seen from the shape: "
        f"each view's own rotation (protocol {chip(protocol)}) is taken out again, so that a consistent network "
        "gathers each class in one spot, and a class with symmetries in several. Faint points are on the far side; the "
        "dot on top is up.",
        panels,
        Csv("spheres.csv", ["class", "shape", "named_right", "x", "y", "z"], rows),
        legend(("disc blue", "named right"), ("disc vermillion", "named wrong")),
        small=True,
    )
    return section


def directions(found: Predictions) -> NDArray[Any]:
    """(V, 3): `R⁻¹ ∘ pose` applied to e_x, for the rotation R of each view and the pose of its predicted class."""
    turned = rotations("poses", found.poses[:, 0])
    back = torch.from_numpy(relative(found.rotation, np.broadcast_to([1.0, 0, 0, 0], found.rotation.shape)))
    x = torch.tensor([1.0, 0, 0], dtype=torch.float64).expand(len(turned), 3)
    return np.asarray(rotate(back, rotate(turned, x)).numpy())


def _sphere(axes: Axes, points: NDArray[Any], right: NDArray[np.bool_], title: str) -> None:
    """Seen from far away: the near half full, the far half faint."""
    from matplotlib.patches import Circle

    axes.add_patch(Circle((0, 0), 1, facecolor="none", edgecolor=MUTED, linewidth=0.8))
    around = np.linspace(0, 2 * np.pi, 73)
    none = np.zeros_like(around)
    circles = [
        np.stack([np.cos(around), np.sin(around), none], -1),
        np.stack([np.cos(around), none, np.sin(around)], -1),
        np.stack([none, np.cos(around), np.sin(around)], -1),
    ]
    for circle in circles:
        near = circle @ _EYE >= 0
        for side, style in ((near, "-"), (~near, ":")):
            drawn = np.where(side[:, None], np.stack([circle @ _RIGHT, circle @ _UP], -1), np.nan)
            axes.plot(*drawn.T, style, color=RULE, linewidth=0.7)
    axes.plot([0], [_UP[2]], "o", color=MUTED, markersize=2)
    near = points @ _EYE >= 0
    for shown, alpha in ((~near, 0.2), (near, 0.75)):
        for named, colour in ((right, BLUE), (~right, VERMILLION)):
            some = points[shown & named]
            axes.plot(some @ _RIGHT, some @ _UP, "o", color=colour, alpha=alpha, markersize=2.3, markeredgewidth=0)
    axes.set(xlim=(-1.05, 1.05), ylim=(-1.05, 1.05), aspect="equal")
    axes.set_title(title, loc="center", fontweight="normal")
    axes.set_axis_off()
