"""What the benchmarks share: timing two things against each other in one run, and a CSV named after the hardware."""

import csv
import platform
import re
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

RESULTS = Path(__file__).parents[1] / "results"


def milliseconds(
    function: Callable[[], Any], seconds: float = 1.0, clock: Callable[[], float] = time.perf_counter
) -> float:
    """The fastest of the repetitions that fit into `seconds`, after two to warm up: what other work disturbs least.

    With `time.thread_time` as the clock it is the processor time of this thread, whatever else the machine does.
    """
    function()
    function()
    best = float("inf")
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = clock()
        function()
        best = min(best, clock() - start)
    return 1e3 * best


def megabytes(field: str) -> float:
    """A memory figure of this process as Linux keeps it: `VmRSS` is now, `VmHWM` the peak so far."""
    found = re.search(rf"{field}:\s*(\d+)", Path("/proc/self/status").read_text())
    assert found, field
    return int(found[1]) / 1e3


def row(
    what: str, ours: float, unit: str = "ms", reference: str = "", of_it: float | None = None, aim: str = ""
) -> dict[str, Any]:
    """One line of a report: our figure, with that of a named reference in the same run if there is one."""
    times = "" if of_it is None else of_it / ours
    of_it_or_blank = "" if of_it is None else of_it
    line = {"what": what, "unit": unit, "reference": reference, "of it": of_it_or_blank, "ours": ours}
    return {**line, "times": times, "aim": aim}


def hardware() -> str:
    """A short name for this machine's processor and the threads that torch uses, for file names."""
    name = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists() and (found := re.search(r"model name\s*:\s*(.+)", cpuinfo.read_text())):
        name = found[1]
    return re.sub(r"[^a-z0-9]+", "-", f"{name} {torch.get_num_threads()} threads".lower()).strip("-")


def report(benchmark: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Print the rows as a table, and write them to `results/bench_<benchmark>_<hardware>.csv`."""
    table = Table(title=f"{benchmark}: {hardware()}, torch {torch.__version__}")
    for heading in rows[0]:
        table.add_column(heading, justify="right" if isinstance(rows[0][heading], float) else "left")
    for row in rows:
        table.add_row(*(f"{x:.3g}" if isinstance(x, float) else str(x) for x in row.values()))
    Console(width=140).print(table)
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"bench_{benchmark}_{hardware()}.csv"
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows({k: f"{v:.4g}" if isinstance(v, float) else v for k, v in row.items()} for row in rows)
    print(f"written to {path.relative_to(RESULTS.parent)}")
