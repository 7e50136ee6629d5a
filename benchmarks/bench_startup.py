"""Cold start of `qec classify`, and of a path without torch: ONNX Runtime, with the frames given.

    python -m benchmarks.bench_startup

Each figure is the median processor time of new processes, so a busy machine changes it little. Writes
results/startup.csv. The path without torch reads no shape and estimates no frames: it is a lower bound.
"""

from __future__ import annotations

import csv
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch

import qecnet
from qecnet.datasets import make_shape
from qecnet.files import replace_when_done
from qecnet.formats import read_cloud, write
from qecnet.geometry import prepare
from qecnet.models import export_onnx, list_inputs

ROOT = Path(__file__).parents[1]
REPEATS = 3
ONNX = """
import numpy, onnxruntime, scipy.spatial
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.{level}
session = onnxruntime.InferenceSession("model.onnx", options)
session.run(None, dict(numpy.load("given.npz")))
"""


def processor_time(command: list[str], folder: Path) -> float:
    """Seconds of user and system time that a command takes, as a median."""
    seconds = []
    for _ in range(REPEATS):
        before = os.times()
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
        after = os.times()
        seconds.append(after.children_user + after.children_system - before.children_user - before.children_system)
    return statistics.median(seconds)


def main() -> None:
    """Measure, print and write the table."""
    with tempfile.TemporaryDirectory() as name:
        folder, model = Path(name), qecnet.load("modelnet10")
        export_onnx(model, folder / "model.onnx")
        write(folder / "chair.off", make_shape("chair", 3))
        points = prepare(read_cloud(folder / "chair.off"), model.config, torch.Generator().manual_seed(0))
        np.savez(folder / "given.npz", **{name: getattr(points, name)[None].numpy() for name in list_inputs(model)})
        python = [sys.executable, "-c"]
        commands = {
            "qec classify chair.off": [str(Path(sys.executable).with_name("qec")), "classify", "chair.off"],
            "of that, import torch": [*python, "import torch"],
            "onnxruntime, graph optimised": [*python, ONNX.format(level="ORT_ENABLE_ALL")],
            "onnxruntime, graph as it is": [*python, ONNX.format(level="ORT_DISABLE_ALL")],
            "of that, imports": [*python, "import numpy, onnxruntime, scipy.spatial"],
        }
        rows = [(what, f"{processor_time(command, folder):.2f}") for what, command in commands.items()]
    with replace_when_done(ROOT / "results" / "startup.csv") as aside, aside.open("w", newline="") as stream:
        table = csv.writer(stream)
        table.writerow(("what", "processor_seconds"))
        table.writerows(rows)
    for what, seconds in rows:
        print(f"{seconds:>6} s  {what}")


if __name__ == "__main__":
    main()
