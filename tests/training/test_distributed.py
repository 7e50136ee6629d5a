"""Two real processes under torchrun do what one does with the same total batch, and a dead one loses nothing."""

import os
import signal
import sys
from pathlib import Path

import pytest
import torch

from qecnet.files import read_tensors

pytestmark = pytest.mark.slow

TRAINING = "qecnet.training"
RUN = ("torch.distributed.run", "--standalone", "--nproc-per-node")
TWO = (*RUN, "2", "-m", TRAINING)
ROUNDING = 1e-5
"""Of float32: gradients are sums in another order, and Adam's steps of 0.001 hardly enlarge what that changes."""


def tensors(folder, part):
    found = read_tensors(folder / "checkpoint.safetensors")[0]
    return {name: tensor for name, tensor in found.items() if name.startswith(part)}


def last_rank(launcher):
    """The process that torchrun, `launcher`, started last."""
    return max(int(child) for child in Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split())


def test_gradients_and_losses_are_those_of_one_process(finished, options, tmp_path):
    """After one step, Adam's first moment is a tenth of the gradient. 39 shapes make pieces of unequal size.

    In float64: the float32 gradient of one process differs by up to 1e-3 of the largest element from the true one.
    """
    script = str(Path(__file__).with_name("double.py"))
    for count in ("1", "2"):
        finished(*RUN, count, script, *options(tmp_path / count, epochs=1, batch_size=39, siamese=0.1))
    one, two = (tensors(tmp_path / count, "optimizer/") for count in ("1", "2"))
    for name in (name for name in one if name.endswith("exp_avg")):
        assert one[name].dtype == torch.float64
        assert one[name].abs().max() > 0, name
        torch.testing.assert_close(two[name], one[name], rtol=1e-9, atol=1e-13)
    rows = [read_tensors(tmp_path / count / "checkpoint.safetensors")[1]["rows"][0] for count in ("1", "2")]
    for name in ("loss", "pose_loss", "train_accuracy", "validation_nr", "validation_ar"):
        assert rows[1][name] == pytest.approx(rows[0][name], rel=1e-9)


@pytest.mark.skipif(sys.platform != "linux", reason="finds the processes of torchrun in /proc")
def test_a_rank_that_dies_ends_the_run_and_it_resumes_to_the_same_parameters(
    start, finished, options, wait_for_step, tmp_path
):
    one, two = tmp_path / "one", tmp_path / "two"
    arguments = options(two, epochs=4)
    run = start(*TWO, *arguments, "--save-minutes", "0")
    wait_for_step(run, two / "checkpoint.safetensors", 7, steps=5)
    os.kill(last_rank(run.pid), signal.SIGKILL)
    _, errors = run.communicate(timeout=300)
    assert run.returncode != 0
    assert "another process of this run has ended; see its message, then continue from the last checkpoint" in errors
    assert not (two / "result.json").exists()
    finished(*TWO, *arguments, "--resume")
    finished(TRAINING, *options(one, epochs=4))
    expected = tensors(one, "network/")
    for name, tensor in tensors(two, "network/").items():
        torch.testing.assert_close(tensor, expected[name], rtol=0, atol=ROUNDING)
