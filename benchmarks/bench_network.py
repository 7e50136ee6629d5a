"""The network, eager and fused, against its plain form (whole-tensor formulas, eigh), in one run.

python -m benchmarks.bench_network            # time and memory, batch of 8, 10 and 40 classes
python -m benchmarks.bench_network --parts    # which operations a training step with fused routing spends its time on
python -m benchmarks.bench_network --sweep    # how the time grows with patches, neighbours and capsules, with a plot
"""

import argparse
import multiprocessing
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from benchmarks.measure import RESULTS, megabytes, report, row
from tests.nn import naive
from torch import Tensor

from benchmarks import measure, plain_network
from qecnet.algebra import random_quaternion
from qecnet.compiled import use_compiled_operators
from qecnet.geometry import OrientedPoints
from qecnet.nn import Network, QECConfig, QECNet, create_network, spread_loss

BATCH, SEED = 8, 0


# On one thread, processor time: what it would take alone, whatever else the machine is doing.
CLOCK = time.process_time if torch.get_num_threads() == 1 else time.perf_counter


def milliseconds(function: Callable[[], Any], seconds: float) -> float:
    return measure.milliseconds(function, seconds, CLOCK)


def make_batch(clouds: int = BATCH, frames: int = 512) -> OrientedPoints:
    """Random clouds with random frames: what is in them does not change the time."""
    generator = torch.Generator().manual_seed(SEED)
    positions = torch.randn(clouds, frames, 3, generator=generator) / 2
    return OrientedPoints.from_frames(positions, random_quaternion((clouds, frames), generator))


def make_network(name: str, classes: int) -> Network:
    torch.manual_seed(SEED)
    return create_network(name, classes).eval()


def make_paper_network(classes: int) -> QECNet:
    network = make_network("paper", classes)
    assert isinstance(network, QECNet)
    return network


def inference(forward: Callable[[], Any]) -> Callable[[], None]:
    def run() -> None:
        with torch.inference_mode():
            forward()

    return run


def training(net: Network, forward: Callable[[], Tensor], labels: Tensor) -> Callable[[], None]:
    optimizer = torch.optim.Adam(net.parameters(), 1e-3)

    def run() -> None:
        optimizer.zero_grad()
        spread_loss(forward(), labels).backward()
        optimizer.step()

    return run


def rows(classes: int) -> list[dict[str, Any]]:
    batch, labels = make_batch(), torch.arange(BATCH) % classes
    net, reference = make_paper_network(classes), make_paper_network(classes)
    ours = lambda: net(batch).activations  # noqa: E731
    plain = lambda: plain_network.network(reference, batch)  # noqa: E731
    torch.testing.assert_close(ours(), plain(), atol=1e-3, rtol=0)
    table = []
    for what, slow, fast, aim, fused_aim in (
        ("inference", inference(plain), inference(ours), "≥ 15", 8),
        ("training step", training(reference, plain, labels), training(net, ours, labels), "≥ 10", 15),
    ):
        what = f"{what}, {classes} classes, batch of {BATCH}"
        fused = milliseconds(fast, 6) / BATCH
        use_compiled_operators(False)
        before, eager = milliseconds(slow, 6) / BATCH, milliseconds(fast, 6) / BATCH
        use_compiled_operators()
        limit = f"≤ {fused_aim} ms" if classes == 40 else ""
        table += [
            row(what, eager, "ms a shape", "plain formulas + eigh", before, aim),
            row(f"{what}, fused", fused, "ms a shape", "eager", eager, limit),
            row(f"{what}, fused", fused, "ms a shape", "plain formulas + eigh", before, aim),
        ]
    return table


def naive_row(ours: float) -> dict[str, Any]:
    """The pseudo-code in loops, as the tests have it, on a single cloud and once: it takes most of a minute."""
    network, batch = make_paper_network(10), make_batch(clouds=1)
    start = CLOCK()
    with torch.inference_mode():
        naive.qec_net(network, *network._pool(batch))
    seconds = CLOCK() - start
    reference = "tests/nn/naive.py (loops, eigh), one cloud"
    return row("inference, 10 classes", ours, "ms a shape", reference, 1e3 * seconds, "≥ 15")


def peak_memory(which: str, result: Any) -> None:
    """In a fresh process: by how much a training step of batch 8, 40 classes, raises the peak; in MB."""
    batch, labels, net = make_batch(), torch.arange(BATCH), make_paper_network(40)
    use_compiled_operators(which == "fused")
    forward = (lambda: plain_network.network(net, batch)) if which == "plain" else (lambda: net(batch).activations)
    before = megabytes("VmHWM")
    training(net, forward, labels)()
    result.value = megabytes("VmHWM") - before


def memory_row(which: str) -> dict[str, Any]:
    context = multiprocessing.get_context("spawn")
    found = []
    for each in ("plain", which):
        value = context.Value("d", 0.0)
        process = context.Process(target=peak_memory, args=(each, value))
        process.start()
        process.join()
        found.append(value.value)
    what = f"memory that a training step adds at its peak, 40 classes, batch of {BATCH}"
    fused = ", fused" if which == "fused" else ""
    return row(what + fused, found[1], "MB", "plain formulas + eigh", found[0], "< 600 MB")


PARTS = {
    "_Route": "votes and routing, forward",
    "_RouteBackward": "votes and routing, backward",
    "_Canonical": "canonicalisation",
    "_CanonicalBackward": "canonicalisation",
    "aten::mm": "matrix products of the transform kernels",
    "aten::addmm": "matrix products of the transform kernels",
}


def activations(net: Network, batch: OrientedPoints) -> Tensor:
    found: Tensor = net(batch).activations
    return found


def parts() -> list[dict[str, Any]]:
    """The share of each kind of operation in a training step with fused routing, as torch's profiler has it."""
    use_compiled_operators()
    table = []
    for classes in (10, 40):
        net, batch, labels = make_network("paper", classes), make_batch(), torch.arange(BATCH) % classes
        step = training(net, partial(activations, net, batch), labels)
        whole = milliseconds(step, 3) / BATCH
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            for _ in range(20):
                step()
        shares: dict[str, float] = dict.fromkeys([*PARTS.values(), "everything else"], 0.0)
        for event in profile.key_averages():
            shares[PARTS.get(event.key, "everything else")] += event.self_cpu_time_total
        total = sum(shares.values())
        table += [
            {"classes": classes, "part": part, "share": share / total, "ms a shape": whole * share / total}
            for part, share in shares.items()
        ]
    return table


SWEEPS = {"patches": (32, 64, 128, 256), "neighbours": (8, 16, 32, 64), "capsules": (16, 32, 64, 128)}


def sweep() -> list[dict[str, Any]]:
    """The time of the first module alone, one size varied at a time, and the exponent of the power law that fits it."""
    table = []
    for what, sizes in SWEEPS.items():
        times = []
        for size in sizes:
            changed: dict[str, Any] = {what: size}
            net = QECNet(replace(QECConfig(classes=10, neighbours=16), **changed)).eval()
            pooled = net._pool(make_batch())
            times.append(milliseconds(inference(partial(net.patches, *pooled)), 2) / BATCH)
        exponent = float(np.polyfit(np.log(sizes), np.log(times), 1)[0])
        table += [
            {"varied": what, "size": size, "ms a shape": ms, "fitted exponent": exponent}
            for size, ms in zip(sizes, times, strict=True)
        ]
    return table


def plot_sweep(table: list[dict[str, Any]]) -> None:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(5.5, 4), layout="constrained")
    for what in SWEEPS:
        points = [each for each in table if each["varied"] == what]
        label = f"{what}: time ∝ size^{points[0]['fitted exponent']:.2f}"
        axes.loglog([p["size"] for p in points], [p["ms a shape"] for p in points], "o-", label=label)
    axes.set(xlabel="size", ylabel="ms a shape", title="One QEC module: time against each of its sizes")
    axes.legend()
    axes.grid(which="both", alpha=0.3)
    figure.savefig(RESULTS / "network_complexity.png", dpi=130)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", action="store_true")
    parser.add_argument("--sweep", action="store_true")
    options = parser.parse_args()
    if options.sweep:
        table = sweep()
        report("network_complexity", table)
        plot_sweep(table)
        return
    if options.parts:
        report("network_parts", parts())
        return
    ten = rows(10)
    report("network", [*ten, *rows(40), naive_row(ten[0]["ours"]), memory_row("ours"), memory_row("fused")])


if __name__ == "__main__":
    main()
