"""How long a view takes to make, and file to answer for a view and for a whole shape: processor time of one thread.

python -m benchmarks.bench_views
"""

import tempfile
import time
from functools import partial
from pathlib import Path

import torch
from benchmarks.measure import milliseconds, report, row

import qecnet
from qecnet.datasets import make_shape, sample_view
from qecnet.formats import write


def main() -> None:
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    mesh = make_shape("chair", 6)
    dense = mesh.sample(40_000, generator)
    thin = dense.select(torch.arange(10_000))
    seconds = partial(milliseconds, seconds=4.0, clock=time.thread_time)
    rows = [
        row("a view of a cloud of 40,000 points", seconds(lambda: sample_view(dense, generator))),
        row("a view of a cloud of 10,000 points", seconds(lambda: sample_view(thin, generator))),
        row("a view of a mesh", seconds(lambda: sample_view(mesh, generator))),
    ]
    model = qecnet.load("modelnet10")
    with tempfile.TemporaryDirectory() as folder:
        whole, view = Path(folder, "whole.pcd"), Path(folder, "view.pcd")
        write(whole, mesh.sample(10_000, generator))
        write(view, sample_view(mesh, generator).cloud)
        of_whole = seconds(lambda: model.predict(whole))
        rows.append(row("file to answer, a view", seconds(lambda: model.predict(view)), "ms", "whole shape", of_whole))
    report("views", rows)


if __name__ == "__main__":
    main()
