"""The algebra against the plain formula with `torch.linalg.eigh`, in one run. `make benchmark`, or

python -m benchmarks.bench_algebra
"""

import subprocess
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from benchmarks.measure import milliseconds, report
from torch import Tensor

from qecnet.algebra import angular_distance, dominant_eigenvector, random_quaternion, weighted_mean

SEED = 0


def eigh(matrix: Tensor) -> Tensor:
    vectors: Tensor = torch.linalg.eigh(matrix)[1]
    return vectors[..., -1]


def plain_mean(q: Tensor, w: Tensor) -> Tensor:
    return eigh(torch.einsum("...k,...ki,...kj->...ij", w, q, q))


def forward_and_backward(function: Callable[..., Tensor], *inputs: Tensor) -> None:
    leaves = [x.detach().requires_grad_() for x in inputs]
    function(*leaves).sum().backward()


def row(what: str, reference: str, slow: Callable[[], Any], fast: Callable[[], Any], aim: str = "") -> dict[str, Any]:
    before, after = milliseconds(slow), milliseconds(fast)
    return {
        "what": what,
        "unit": "ms",
        "reference": reference,
        "of it": before,
        "ours": after,
        "times": before / after,
        "aim": aim,
    }


def eigenvector_rows(generator: torch.Generator) -> list[dict[str, Any]]:
    q = random_quaternion((32_768, 9), generator)
    matrix = q.mT @ q
    compiled = torch.compile(dominant_eigenvector, fullgraph=True, dynamic=False)
    name = "dominant_eigenvector, 32,768"
    return [
        row(f"{name}, eager", "eigh", lambda: eigh(matrix), lambda: dominant_eigenvector(matrix), "≥ 6"),
        row(f"{name}, compiled", "eigh", lambda: eigh(matrix), lambda: compiled(matrix), "≥ 50"),
        row(
            f"{name}, forward + backward, eager",
            "eigh",
            lambda: forward_and_backward(eigh, matrix),
            lambda: forward_and_backward(dominant_eigenvector, matrix),
            "≥ 3",
        ),
    ]


def mean_rows(generator: torch.Generator) -> list[dict[str, Any]]:
    rows = []
    compiled = torch.compile(weighted_mean, dynamic=False)
    for what, shape in {
        "64 patches × 64 capsules × 9 votes": (64, 64, 9),
        "40 capsules × 4,096 votes": (40, 4096),
    }.items():
        q = random_quaternion(shape, generator)
        w = torch.rand(shape, generator=generator)
        for mode, mean in (("eager", weighted_mean), ("compiled", compiled)):
            rows.append(
                row(
                    f"weighted_mean, {what}, {mode}",
                    "formula + eigh",
                    partial(plain_mean, q, w),
                    partial(mean, q, w),
                )
            )
    return rows


def accuracy_row(generator: torch.Generator) -> dict[str, Any]:
    """The largest rotation error in float32 where λ₂/λ₁ = 0.998; in a part of the matrices λ₃ and λ₄ come as close."""
    count = 100_000
    basis, _ = torch.linalg.qr(torch.randn(count, 4, 4, generator=generator, dtype=torch.float64))
    eigenvalues = 0.998 * torch.rand(count, 4, generator=generator, dtype=torch.float64)
    eigenvalues[:, 0], eigenvalues[:, 1] = 1, 0.998
    eigenvalues[: count // 2, 2], eigenvalues[: count // 4, 3] = 0.998, 0.998
    matrix = ((basis * eigenvalues[:, None]) @ basis.mT).float()
    truth = eigh(matrix.double())
    errors = [
        float(torch.rad2deg(angular_distance(f(matrix).double(), truth).max())) for f in (eigh, dominant_eigenvector)
    ]
    return {
        "what": f"largest error, float32, λ₂/λ₁ = 0.998, {count:,}",
        "unit": "degrees",
        "reference": "eigh, float32",
        "of it": errors[0],
        "ours": errors[1],
        "times": errors[0] / errors[1],
        "aim": "≤ 0.01",
    }


def import_row() -> dict[str, Any]:
    """Start-up: what importing qecnet costs on top of importing torch, in fresh interpreters, the fastest of five."""
    clock = "import time; start = time.perf_counter(); import {}; print(time.perf_counter() - start)"
    codes = (clock.format("torch"), "import torch; " + clock.format("qecnet, qecnet.algebra, qecnet.testing"))
    torch_alone, ours = (
        1e3 * min(float(subprocess.check_output([sys.executable, "-c", code])) for _ in range(5)) for code in codes
    )
    return {
        "what": "import of qecnet on top of torch",
        "unit": "ms",
        "reference": "import torch",
        "of it": torch_alone,
        "ours": ours,
        "times": torch_alone / ours,
        "aim": "< 300",
    }


def main() -> None:
    generator = torch.Generator().manual_seed(SEED)
    report("algebra", [*eigenvector_rows(generator), *mean_rows(generator), accuracy_row(generator), import_row()])


if __name__ == "__main__":
    main()
