"""A run small enough for tests: 50 shapes of furniture, 32 frames each, a network of a few hundred parameters."""

import os
import subprocess
import sys
import time
from pathlib import Path

import benchmarks.baselines  # noqa: F401  registers the networks that some tests train
import pytest

from qecnet.datasets import frame_cache, make_furniture
from qecnet.files import read_tensors
from qecnet.training import make_settings

TINY = {
    "dataset": "shapes",
    "per_class": 6,
    "points": 300,
    "subsamplings": 3,
    "frames": 32,
    "patches": 8,
    "neighbours": 4,
    "capsules": 4,
    "epochs": 2,
    "batch_size": 7,
    "validation": 0.2,
}


@pytest.fixture
def tiny():
    """Settings of a tiny run, with changes."""
    return lambda **changes: make_settings(TINY | changes)


@pytest.fixture(scope="session")
def frames_folder(tmp_path_factory):
    return tmp_path_factory.mktemp("frames")


@pytest.fixture(scope="session")
def cache(frames_folder):
    settings = make_settings(TINY)
    return frame_cache(
        make_furniture(settings.per_class),
        "train",
        frames_folder,
        settings.prepare_config(),
        subsamplings=settings.subsamplings,
        workers=1,
        progress=False,
    )


@pytest.fixture(scope="module")
def options(cache):
    """The options of `qec train` for a tiny run into a folder."""

    def make(out: Path, **changes: object) -> list[str]:
        settings = [text for name, value in (TINY | changes).items() for text in ("--set", f"{name}={value}")]
        return ["--out", str(out), "--cache", str(cache.path.parent), "--workers", "1", *settings]

    return make


@pytest.fixture(scope="module")
def start():
    """Start `python -m <arguments>` on one thread; what still runs after the module's tests is ended."""
    started: list[subprocess.Popen[str]] = []

    def begin(*arguments: str) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            [sys.executable, "-m", *arguments],
            env=os.environ | {"OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield begin
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture(scope="module")
def finished(start):
    """Runs `python -m <arguments>` to its end, which must be a good one. → its output"""

    def run(*arguments: str) -> str:
        process = start(*arguments)
        output, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors
        return output

    return run


@pytest.fixture
def wait_for_step():
    """Wait until a run's checkpoint has come to a step, counted over epochs of `steps` each."""

    def wait(process: "subprocess.Popen[str]", checkpoint: Path, step: int, steps: int) -> None:
        end = time.monotonic() + 300
        while True:
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < end, f"step {step} was not reached"
            if checkpoint.exists():
                _, at = read_tensors(checkpoint)
                if at["epoch"] * steps + at["step"] >= step:
                    return
            time.sleep(0.01)

    return wait
