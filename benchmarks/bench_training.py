"""Training as people run it: shapes a second with one process and with two, and the share of waiting for data.

python -m benchmarks.bench_training

The paper's network on the procedural shapes, total batches of 8 and of 16.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.measure import report

CORES = os.cpu_count() or 1


def best_epoch(folder: Path, processes: int, batch: int) -> dict[str, Any]:
    """Train in processes that share all cores, and take the log's fastest epoch: what other work disturbs least."""
    out = folder / f"{processes}-{batch}"
    launcher = ["torch.distributed.run", "--standalone", "--nproc-per-node", str(processes), "-m"]
    settings = {"dataset": "shapes", "per_class": 25, "subsamplings": 2, "epochs": 3, "batch_size": batch}
    command = [
        *(sys.executable, "-m", *(launcher if processes > 1 else []), "qecnet.training"),
        *("--out", str(out), "--cache", str(folder / "frames")),
        *(text for name, value in settings.items() for text in ("--set", f"{name}={value}")),
    ]
    threads = {"OMP_NUM_THREADS": str(max(1, CORES // processes))}
    subprocess.run(command, check=True, env=os.environ | threads, stdout=subprocess.DEVNULL)
    epochs = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    return max(epochs, key=lambda row: row["shapes_per_second"])


def training_rows() -> list[dict[str, Any]]:
    table = []
    with tempfile.TemporaryDirectory() as name:
        for batch in (8, 16):
            alone, shared = (best_epoch(Path(name), processes, batch) for processes in (1, 2))
            table.append(
                {
                    "what": f"training, paper, 10 classes, total batch of {batch}",
                    "unit": "shapes a second",
                    "reference": f"1 process, {CORES} threads",
                    "of it": alone["shapes_per_second"],
                    "ours": shared["shapes_per_second"],
                    "times": shared["shapes_per_second"] / alone["shapes_per_second"],
                    "aim": "2 processes, faster",
                }
            )
            table.append(
                {
                    "what": f"waiting for data, total batch of {batch}",
                    "unit": "% of the time",
                    "reference": f"1 process, {CORES} threads",
                    "of it": 100 * alone["waiting"],
                    "ours": 100 * shared["waiting"],
                    "times": float("nan"),
                    "aim": "< 10 %",
                }
            )
    return table


if __name__ == "__main__":
    report("training", training_rows())
