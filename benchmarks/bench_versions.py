"""This checkout against another version of the package: what users wait for must not take longer than before.

    git worktree add ../before <commit>
    python -m benchmarks.bench_versions ../before [--rounds 3] [--weights PATH]

Both versions run in turns, in processes of their own, with this Python and the same weights: by default the other
version's modelnet10. The fastest time counts. Compiled operators are used where src/qecnet/compiled has them; those of
the other version are built by `pip install -e ../before` in another environment.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.bench_product import make_files
from benchmarks.measure import report, row

HERE = Path(__file__).parents[1]
FILE_TO_ANSWER = """
import sys, time, qecnet
model, best = qecnet.load(sys.argv[1]), float("inf")
for _ in range(60):
    start = time.perf_counter()
    model.predict(sys.argv[2])
    best = min(best, time.perf_counter() - start)
print(1e3 * best)
"""
QEC = """
if __name__ == "__main__":  # worker processes import this file
    from qecnet.cli.main import app
    app(prog_name="qec")
"""
TRAINING = ("--dataset", "shapes", "--config", "features", "--epochs", "3", "--set", "per_class=20")

Measure = Callable[[Path], float]


def run(checkout: Path, *arguments: str | Path) -> str:
    """What Python prints with the package of a checkout."""
    environment = os.environ | {"PYTHONPATH": str(checkout / "src")}
    command = [sys.executable, *map(str, arguments)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{checkout}: {done.stderr.strip()}")
    return done.stdout


def seconds_of(checkout: Path, *arguments: str | Path) -> float:
    """From the start of Python to its end."""
    start = time.perf_counter()
    run(checkout, *arguments)
    return time.perf_counter() - start


def milliseconds_of_training(checkout: Path, qec: Path) -> float:
    """Per shape, in the fastest epoch of a run."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "run")
        run(checkout, qec, "train", *TRAINING, "--cache", Path(folder, "cache"), "--out", out)
        lines = (out / "log.jsonl").read_text().splitlines()
        return 1e3 / max(float(json.loads(line)["shapes_per_second"]) for line in lines)


def measurements(folder: Path, weights: Path) -> dict[tuple[str, str], Measure]:
    """By name and unit; files are written into the folder."""
    cloud, qec = make_files(folder, 1)[0], folder / "qec.py"
    qec.write_text(QEC)
    return {
        ("file to answer, 10,000 points, warm", "ms"): lambda at: float(run(at, "-c", FILE_TO_ANSWER, weights, cloud)),
        ("qec classify FILE, cold", "s"): lambda at: seconds_of(at, qec, "classify", cloud, "--model", weights),
        ("qec --help", "s"): lambda at: seconds_of(at, qec, "--help"),
        ("training the network features, per shape", "ms"): lambda at: milliseconds_of_training(at, qec),
    }


def compare(before: Path, found: dict[tuple[str, str], Measure], rounds: int) -> list[dict[str, Any]]:
    """A row for each measurement, with the fastest time of either version."""
    rows = []
    for (what, unit), measure in found.items():
        times = [(measure(before), measure(HERE)) for _ in range(rounds)]
        theirs, ours = map(min, zip(*times, strict=True))
        rows.append(row(what, ours, unit, "the other version", theirs, "≥ 1 times"))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path, metavar="CHECKOUT", help="of the other version")
    parser.add_argument("--weights", type=Path, metavar="PATH", help="a file of weights that both versions read")
    parser.add_argument("--rounds", type=int, default=3, metavar="INTEGER", help="how often both are measured")
    given = parser.parse_args()
    before = given.before.resolve()
    weights = (given.weights or before / "src/qecnet/models/weights/modelnet10.safetensors").resolve()
    with tempfile.TemporaryDirectory() as folder:
        report("versions", compare(before, measurements(Path(folder), weights), given.rounds))


if __name__ == "__main__":
    main()
