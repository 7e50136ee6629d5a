"""The network with features against the paper's, in one run: a shape after its frames, alone and in a batch of 8.

python -m benchmarks.bench_features
"""

from typing import Any

import torch
from benchmarks.bench_network import inference, make_batch, make_network, training
from benchmarks.measure import milliseconds, report

CLASSES = 40


def rows(clouds: int) -> list[dict[str, Any]]:
    batch, labels = make_batch(clouds), torch.arange(clouds)
    table = []
    for what in ("inference", "training step") if clouds > 1 else ("inference",):
        found = []
        for name in ("paper", "features"):
            network = make_network(name, CLASSES).train(what != "inference")
            forward = lambda network=network: network(batch).activations  # noqa: E731
            run = inference(forward) if what == "inference" else training(network, forward, labels)
            found.append(milliseconds(run, 6) / clouds)
        table.append(
            {
                "what": f"{what}, {CLASSES} classes, batch of {clouds}",
                "unit": "ms a shape",
                "reference": "the paper's network, ours",
                "of it": found[0],
                "ours": found[1],
                "times": found[0] / found[1],
                "aim": "≤ 30 ms" if what == "inference" else "",
            }
        )
    return table


if __name__ == "__main__":
    report("features", rows(1) + rows(8))
