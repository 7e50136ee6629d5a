"""`python -m qecnet.training` in float64, for torchrun: what rounding hides in float32 is seen in it."""

import runpy
from dataclasses import replace
from unittest.mock import patch

from qecnet.datasets import FrameCache
from qecnet.training.settings import Settings

points, create_network = FrameCache.points, Settings.create_network


def double_points(cache, *chosen):
    found = points(cache, *chosen)
    double = {name: getattr(found, name).double() for name in ("positions", "frames", "candidates")}
    return replace(found, **double)


def double_network(settings, classes):
    return create_network(settings, classes).double()


if __name__ == "__main__":
    with patch.object(FrameCache, "points", double_points), patch.object(Settings, "create_network", double_network):
        runpy.run_module("qecnet.training", run_name="__main__")
