"""How long a user waits: file to answer, cold start, many files, another runtime, and FPFH + RANSAC.

    python -m benchmarks.bench_product [--files 200] [--workers 2] [--seconds 3]

Clouds are our own shapes with 10,000 points each, as binary PLY. File to answer is measured with compiled operators
and, for comparison, without. ONNX needs the extra qecnet[export], FPFH + RANSAC the extra qecnet[baselines]; where one
is missing that is said, and the rest is measured.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from benchmarks.measure import milliseconds, report, row
from benchmarks.pose_baselines import METHODS

import qecnet
from qecnet import DEFAULT_MODEL
from qecnet.algebra import random_quaternion, rotate
from qecnet.compiled import is_compiled, use_compiled_operators
from qecnet.datasets import FURNITURE_CLASSES, make_shape
from qecnet.formats import read_cloud, write
from qecnet.models import ExportModule, example_inputs, export_onnx, list_inputs
from qecnet.models.export import OUTPUTS

POINTS = 10_000
QEC = Path(sys.executable).with_name("qec")


def make_files(folder: Path, count: int) -> list[Path]:
    """Clouds of all classes in random poses."""
    paths = []
    for number in range(count):
        generator = torch.Generator().manual_seed(number)
        cloud = make_shape(FURNITURE_CLASSES[number % len(FURNITURE_CLASSES)], number).sample(POINTS, generator)
        turned = rotate(random_quaternion((), generator), cloud.points.float())
        paths.append(folder / f"{number:04d}.ply")
        write(paths[-1], replace(cloud, points=turned, normals=None))
    return paths


def seconds_of(*command: str | Path, repeats: int = 5) -> float:
    """The fastest of several runs of a command, after one that fills the system's caches."""
    taken = []
    for _ in range(repeats + 1):
        start = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        taken.append(time.perf_counter() - start)
    return min(taken[1:])


def file_to_answer(what: str, model: qecnet.Model, path: Path, seconds: float, aim: str) -> dict[str, Any]:
    """As it is, compared with the same with the plain versions of the compiled operators, where there are any."""
    ours = milliseconds(lambda: model.predict(path), seconds)
    if not is_compiled():
        print("left out: compiled operators against plain ones, as the package was installed without a compiler")
        return row(what, ours, aim=aim)
    use_compiled_operators(False)
    plain = milliseconds(lambda: model.predict(path), seconds)
    use_compiled_operators()
    return row(what, ours, "ms", "without compiled operators", plain, aim)


def files_a_second(model: qecnet.Model, paths: list[Path], workers: int) -> tuple[float, float]:
    """With the time that workers take to start, and of the second half alone."""
    times = [time.perf_counter()]
    for one in model.predict_many(paths, workers=workers):
        assert not one.error, one.error
        times.append(time.perf_counter())
    half = len(paths) // 2
    return len(paths) / (times[-1] - times[0]), (len(paths) - half) / (times[-1] - times[half])


def against_onnx(model: qecnet.Model, folder: Path, seconds: float) -> list[dict[str, Any]]:
    """The network alone, on what was prepared."""
    path = folder / "model.onnx"
    try:
        export_onnx(model, path)
    except ValueError as error:
        print(f"left out: {error}")
        return []
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    module, rows = ExportModule(model).eval(), []
    for size in (1, 16):
        given = example_inputs(model, size)
        named = {name: tensor.numpy() for name, tensor in zip(list_inputs(model), given, strict=True)}
        with torch.inference_mode():
            ours = milliseconds(partial(module, *given), seconds)
        theirs = milliseconds(partial(session.run, list(OUTPUTS), named), seconds)
        rows.append(row(f"the network alone, batch of {size}", ours, reference="onnxruntime", of_it=theirs))
    return rows


def against_registration(model: qecnet.Model, paths: list[Path], seconds: float) -> list[dict[str, Any]]:
    """One cloud onto another of its class; both from memory."""
    source, target = (read_cloud(paths[number]) for number in (0, len(FURNITURE_CLASSES)))
    ours = milliseconds(lambda: model.align(source, target), seconds)
    name, theirs = "FPFH + RANSAC + ICP", None
    try:
        theirs = milliseconds(lambda: METHODS[name].align(source, target), seconds)
    except (ImportError, ValueError) as error:
        print(f"left out: {error}")
    return [row("one cloud aligned to another", ours, reference="" if theirs is None else name, of_it=theirs)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=200)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=3.0, help="for each time that is measured")
    options = parser.parse_args()
    model = qecnet.load(DEFAULT_MODEL)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths = make_files(folder, max(options.files, len(FURNITURE_CLASSES) + 1))
        fast = qecnet.load(DEFAULT_MODEL, fast=True)
        cold = seconds_of(QEC, "classify", paths[0], "--json")
        torch_alone = seconds_of(sys.executable, "-c", "import torch")
        rate, later = files_a_second(model, paths[: options.files], options.workers)
        rows = [
            file_to_answer(f"file to answer, {POINTS:,} points, warm", model, paths[0], options.seconds, "≤ 80"),
            file_to_answer("the same, --fast", fast, paths[0], options.seconds, "≤ 45"),
            row("qec classify FILE, cold", cold, "s", "import torch alone", torch_alone, "< 4"),
            row(f"{options.files} files, {options.workers} workers, from their start", rate, "files/s", aim="≥ 25"),
            row("the second half of these, once workers are there", later, "files/s", aim="≥ 25"),
            *against_onnx(model, folder, options.seconds),
            *against_registration(model, paths, options.seconds),
        ]
    report("product", rows)


if __name__ == "__main__":
    main()
