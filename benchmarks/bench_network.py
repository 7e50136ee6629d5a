"""The network against its plain form (whole-tensor formulas, eigh), in one run.

python benchmarks/bench_network.py            # time and memory, batch of 8, 10 and 40 classes
python benchmarks/bench_network.py --compiled # with torch.compile on the eigenvectors as well
python benchmarks/bench_network.py --sweep    # how the time grows with patches, neighbours and capsules, with a plot
"""

import argparse
import multiprocessing
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

import plain_network
from measure import RESULTS, megabytes, milliseconds, report
from qecnet.algebra import compile_eigenvectors, random_quaternion
from qecnet.nn import CONFIGS, Capsules, Level, Pooling, QECConfig, QECNet, spread_loss

BATCH, SEED = 8, 0


def make_batch(config: QECConfig, clouds: int = BATCH) -> tuple[Capsules, list[Pooling]]:
    """Random clouds with random frames: what is in them does not change the time."""
    generator = torch.Generator().manual_seed(SEED)
    positions = torch.randn(clouds, config.points, 3, generator=generator) / 2
    frames = random_quaternion((clouds, config.points), generator)
    centres = positions[:, : config.levels[0].patches]
    nearest = torch.cdist(centres, positions).topk(config.levels[0].neighbours, largest=False).indices
    return Capsules.primary(positions, frames), [Pooling(centres, nearest, torch.ones_like(nearest, dtype=torch.bool))]


def make_network(config: QECConfig) -> QECNet:
    torch.manual_seed(SEED)
    return QECNet(config)


def inference(forward: Callable[[], Any]) -> Callable[[], None]:
    def run() -> None:
        with torch.inference_mode():
            forward()

    return run


def training(net: QECNet, forward: Callable[[], Tensor], labels: Tensor) -> Callable[[], None]:
    optimizer = torch.optim.Adam(net.parameters(), 1e-3)

    def run() -> None:
        optimizer.zero_grad()
        spread_loss(forward(), labels).backward()
        optimizer.step()

    return run


def rows(classes: int) -> list[dict[str, Any]]:
    config = replace(CONFIGS["paper"], classes=classes)
    batch, labels = make_batch(config), torch.arange(BATCH) % classes
    net, reference = make_network(config), make_network(config)
    ours = lambda: net(*batch).activations  # noqa: E731
    plain = lambda: plain_network.network(reference, *batch)  # noqa: E731
    torch.testing.assert_close(ours(), plain(), atol=1e-3, rtol=0)
    table = []
    for what, slow, fast, aim in (
        ("inference", inference(plain), inference(ours), "≥ 15"),
        ("training step", training(reference, plain, labels), training(net, ours, labels), "≥ 10"),
    ):
        before, after = milliseconds(slow, 6) / BATCH, milliseconds(fast, 6) / BATCH
        table.append(
            {
                "what": f"{what}, {classes} classes, batch of {BATCH}",
                "unit": "ms a shape",
                "reference": "plain formulas + eigh",
                "of it": before,
                "ours": after,
                "times": before / after,
                "aim": aim + (f", ≤ {8 if what == 'inference' else 20} ms" if classes == 40 else ""),
            }
        )
    return table


def naive_row(ours: float) -> dict[str, Any]:
    """The pseudo-code in loops, as the tests have it, on a single cloud and once: it takes most of a minute."""
    sys.path.insert(0, str(RESULTS.parent))
    from tests.nn import naive

    config = replace(CONFIGS["paper"], classes=10)
    network, batch = make_network(config), make_batch(config, clouds=1)
    start = time.perf_counter()
    with torch.inference_mode():
        naive.qec_net(network, *batch)
    seconds = time.perf_counter() - start
    return {
        "what": "inference, 10 classes",
        "unit": "ms a shape",
        "reference": "tests/nn/naive.py (loops, eigh), one cloud",
        "of it": 1e3 * seconds,
        "ours": ours,
        "times": 1e3 * seconds / ours,
        "aim": "≥ 15",
    }


def peak_memory(which: str, result: Any) -> None:
    """In a fresh process: by how much a training step of batch 8, 40 classes, raises the peak; in MB."""
    config = replace(CONFIGS["paper"], classes=40)
    batch, labels, net = make_batch(config), torch.arange(BATCH), make_network(config)
    forward = (lambda: net(*batch).activations) if which == "ours" else (lambda: plain_network.network(net, *batch))
    before = megabytes("VmHWM")
    training(net, forward, labels)()
    result.value = megabytes("VmHWM") - before


def memory_row() -> dict[str, Any]:
    context = multiprocessing.get_context("spawn")
    found = []
    for which in ("plain", "ours"):
        value = context.Value("d", 0.0)
        process = context.Process(target=peak_memory, args=(which, value))
        process.start()
        process.join()
        found.append(value.value)
    return {
        "what": f"memory that a training step adds at its peak, 40 classes, batch of {BATCH}",
        "unit": "MB",
        "reference": "plain formulas + eigh",
        "of it": found[0],
        "ours": found[1],
        "times": found[0] / found[1],
        "aim": "< 600 MB",
    }


def compiled_rows() -> list[dict[str, Any]]:
    """With the one function compiled that is small, of fixed shape and hot; start-up beside it."""
    config = replace(CONFIGS["paper"], classes=40)
    net, batch, labels = make_network(config), make_batch(config), torch.arange(BATCH)
    ours = lambda: net(*batch).activations  # noqa: E731
    eager = milliseconds(inference(ours), 6) / BATCH, milliseconds(training(net, ours, labels), 6) / BATCH
    compile_eigenvectors()
    start = time.perf_counter()
    inference(ours)()
    training(net, ours, labels)()
    startup = time.perf_counter() - start
    compiled = milliseconds(inference(ours), 6) / BATCH, milliseconds(training(net, ours, labels), 6) / BATCH
    return [
        {
            "what": f"{what}, 40 classes, eigenvectors compiled ({startup:.0f} s to start)",
            "unit": "ms a shape",
            "reference": "eager",
            "of it": before,
            "ours": after,
            "times": before / after,
            "aim": "",
        }
        for what, before, after in zip(("inference", "training step"), eager, compiled, strict=True)
    ]


SWEEPS = {"patches": (32, 64, 128, 256), "neighbours": (8, 16, 32, 64), "capsules": (16, 32, 64, 128)}


def sweep() -> list[dict[str, Any]]:
    """The time of the first module alone, one size varied at a time, and the exponent of the power law that fits it."""
    table = []
    for what, sizes in SWEEPS.items():
        times = []
        for size in sizes:
            level = replace(Level(patches=64, neighbours=16, capsules=64), **{what: size})
            config = QECConfig(classes=10, levels=(level,))
            net, (capsules, poolings) = make_network(config), make_batch(config)
            times.append(milliseconds(inference(lambda n=net, c=capsules, p=poolings: n.levels[0](c, p[0])), 2) / BATCH)
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
        points = [row for row in table if row["varied"] == what]
        label = f"{what}: time ∝ size^{points[0]['fitted exponent']:.2f}"
        axes.loglog([p["size"] for p in points], [p["ms a shape"] for p in points], "o-", label=label)
    axes.set(xlabel="size", ylabel="ms a shape", title="One QEC module: time against each of its sizes")
    axes.legend()
    axes.grid(which="both", alpha=0.3)
    figure.savefig(RESULTS / "network_complexity.png", dpi=130)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compiled", action="store_true")
    parser.add_argument("--sweep", action="store_true")
    options = parser.parse_args()
    if options.sweep:
        table = sweep()
        report("network_complexity", table)
        plot_sweep(table)
        return
    ten = rows(10)
    table = [*ten, *rows(40), naive_row(ten[0]["ours"]), memory_row()]
    report("network", [*table, *(compiled_rows() if options.compiled else [])])


if __name__ == "__main__":
    main()
