"""What each idea of the network with features brings: short runs on ModelNet10, judged on a tenth of its train split.

python -m benchmarks.ablation ModelNet10.zip [--only NAME ...] [--cache FOLDER]

Each run goes to runs/ablation/NAME, and goes on where it was stopped; those that are done are not made again. The table
is results/ablation.csv: of the runs that are done, the last epoch's figures under the protocol "paper", one seed.
"""

import argparse
import csv
import json
import subprocess
import sys
from pathlib import Path

from benchmarks.measure import RESULTS

from qecnet.training import make_settings
from qecnet.training.settings import read_settings

COMMON = {
    "dataset": "modelnet10",
    "config": "features",
    "thinnest": 0.25,
    "upside_down": True,
    "epochs": 6,
    "validate_every": 6,
}
VARIANTS: dict[str, dict[str, object]] = {
    "whole": {},
    "no upside-down frames": {"upside_down": False},
    "one look": {"looks": 1},
    "one look, no loss on poses": {"looks": 1, "aligned": 0.0},
    "no label smoothing": {"smoothing": 0.0},
    "no thinning": {"thinnest": 1.0},
    "frames left out": {"dropped": 0.15},
    "stretching": {"stretch": 1.2},
    "FLARE frames": {"method": "flare"},
}
"""By what each differs from the whole."""
FIGURES = ("parameters", "epoch", "training_seconds", "train_accuracy", "validation_ar", "validation_pose")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--only", nargs="*", choices=VARIANTS, default=list(VARIANTS))
    parser.add_argument("--cache", type=Path, help="where frames are kept; by default, where qec train keeps them")
    given = parser.parse_args()
    for name in given.only:
        train(name, given.data, given.cache)
    write_table()


def folder(name: str) -> Path:
    return RESULTS.parent / "runs" / "ablation" / name.replace(" ", "-").replace(",", "")


def train(name: str, data: Path, cache: Path | None) -> None:
    out = folder(name)
    if (out / "settings.json").exists():
        kept = make_settings(read_settings(out / "settings.json"))
        if kept != make_settings(COMMON | VARIANTS[name]):
            sys.exit(f"{out}: is a run with other settings; move it away")
    if (out / "result.json").exists():
        return
    command = [sys.executable, "-m", "qecnet.training", "--data", str(data), "--out", str(out)]
    command += ["--cache", str(cache)] if cache else []
    if (out / "settings.json").exists():
        command.append("--resume")
    else:
        command += [f"--set={key}={json.dumps(value)}" for key, value in (COMMON | VARIANTS[name]).items()]
    print(name, flush=True)
    subprocess.run(command, check=True)


def write_table() -> None:
    rows = []
    for name in VARIANTS:
        if (path := folder(name) / "result.json").exists():
            found = json.loads(path.read_text(encoding="utf-8"))
            rows.append({"variant": name} | {figure: found[figure] for figure in FIGURES})
    with (RESULTS / "ablation.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, ["variant", *FIGURES], lineterminator="\n")
        writer.writeheader()
        writer.writerows({k: f"{v:.4g}" if isinstance(v, float) else v for k, v in row.items()} for row in rows)


if __name__ == "__main__":
    main()
