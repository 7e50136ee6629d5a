"""Nothing is lost: a run that was killed, stopped or ran out of disk goes on to the same numbers, bit for bit."""

import json
import random
import resource
import signal
import sys

import pytest

TRAINING = "qecnet.training"
STEPS = 20
"""Of an epoch with a batch of 2."""


def log(folder):
    times = {"seconds", "shapes_per_second", "waiting"}
    rows = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return [{name: value for name, value in row.items() if name not in times} for row in rows]


@pytest.fixture(scope="module")
def uninterrupted(finished, options, tmp_path_factory):
    folder = tmp_path_factory.mktemp("uninterrupted")
    finished(TRAINING, *options(folder, epochs=6, batch_size=2, ema=0.9))
    return folder


@pytest.mark.slow
def test_a_run_killed_at_a_random_step_resumes_bit_for_bit(
    uninterrupted, start, finished, options, wait_for_step, tmp_path
):
    killed = tmp_path / "killed"
    arguments = options(killed, epochs=6, batch_size=2, ema=0.9)
    chance = random.Random()
    for again in (False, True):
        step = chance.randrange(40) + (40 if again else 0)  # of 120: the kill comes a little later
        run = start(TRAINING, *arguments, "--save-minutes", "0", *(["--resume"] if again else []))
        wait_for_step(run, killed / "checkpoint.safetensors", step, STEPS)
        run.send_signal(signal.SIGKILL)
        run.wait()
        assert not (killed / "result.json").exists(), f"the run was over before it was killed at step {step}"
    finished(TRAINING, "--out", str(killed), "--cache", arguments[3], "--resume")
    assert (killed / "weights.safetensors").read_bytes() == (uninterrupted / "weights.safetensors").read_bytes()
    assert log(killed) == log(uninterrupted)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_run_saves_and_says_so(start, finished, options, wait_for_step, tmp_path, number):
    folder = tmp_path / "run"
    arguments = options(folder, epochs=1000, batch_size=2)
    run = start(TRAINING, *arguments)
    wait_for_step(run, folder / "checkpoint.safetensors", 1, STEPS)
    run.send_signal(number)
    output, errors = run.communicate(timeout=300)
    assert run.returncode == 130
    assert errors == ""
    last = output.strip().splitlines()[-1]  # older versions of rich end with an empty line
    assert last.startswith("stopped in epoch ")
    assert last.endswith(f"; saved in {folder}; continue with --resume")


def test_two_runs_never_write_into_one_folder(start, options, wait_for_step, tmp_path):
    folder = tmp_path / "run"
    run = start(TRAINING, *options(folder, epochs=1000, batch_size=2))
    wait_for_step(run, folder / "checkpoint.safetensors", 1, STEPS)
    second = start(TRAINING, *options(folder, epochs=1000, batch_size=2), "--resume")
    _, errors = second.communicate(timeout=300)
    assert second.returncode == 1
    assert errors.strip() == f"qec: {folder}: is in use by another run; wait for it, or choose another --out"
    assert run.poll() is None
    run.kill()


@pytest.mark.skipif(sys.platform != "linux", reason="sets a limit for another process, which Linux alone lets one do")
@pytest.mark.slow
def test_full_disk_gives_a_one_sentence_error_and_the_run_resumes(
    uninterrupted, start, finished, options, wait_for_step, tmp_path
):
    folder = tmp_path / "run"
    arguments = options(folder, epochs=6, batch_size=2, ema=0.9)
    run = start(TRAINING, *arguments, "--save-minutes", "0")
    wait_for_step(run, folder / "checkpoint.safetensors", 3, STEPS)
    resource.prlimit(run.pid, resource.RLIMIT_FSIZE, (2000, resource.RLIM_INFINITY))
    _, errors = run.communicate(timeout=300)
    assert run.returncode == 1
    assert errors.startswith(f"qec: {folder / 'checkpoint.safetensors'}: cannot be written (")
    assert errors.count("\n") == 1
    finished(TRAINING, *arguments, "--resume")
    assert (folder / "weights.safetensors").read_bytes() == (uninterrupted / "weights.safetensors").read_bytes()
