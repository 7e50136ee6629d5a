"""Baselines in the trainer: weights that are read again, and runs that go on bit for bit, dropout and all."""

import json
import signal

import pytest
import torch
from benchmarks.baselines import BASELINES, PointNet
from typer.testing import CliRunner

from qecnet.cli.main import app
from qecnet.nn import load_network
from qecnet.training.distributed import Processes
from qecnet.training.folder import RunFolder
from qecnet.training.loop import StoppedError, Watcher, train_network

ALONE = Processes(0, 1, torch.device("cpu"))


def test_a_run_writes_weights_that_are_read_again(options, cache, tmp_path):
    given = options(tmp_path / "run", method="flare")
    result = CliRunner().invoke(app, ["train", "--config", "pointnet", *given])
    assert result.exit_code == 0, result.output
    network, classes, about = load_network(tmp_path / "run" / "weights.safetensors")
    assert isinstance(network, PointNet)
    assert not network.training
    assert (len(classes), network.config.classes) == (10, 10)
    assert about["settings"]["loss"] == "cross_entropy"
    assert json.loads((tmp_path / "run" / "result.json").read_text())["config"] == "pointnet"
    assert network(cache.points(torch.arange(3))).activations.isfinite().all()


def watcher(epoch=lambda row: None):
    return Watcher(lambda state, steps: None, epoch)


def figures(state):
    return [(row.loss, row.train_accuracy, row.validation_nr, row.validation_ar) for row in state.rows]


@pytest.mark.parametrize("kind", BASELINES)
def test_a_stopped_run_resumes_bit_for_bit(kind, cache, tiny, tmp_path):
    if kind in ("prin", "spherical_cnn", "tensor_field"):
        pytest.importorskip("e3nn")
    settings = tiny(config=kind, method="flare", ema=0.5)
    straight = train_network(settings, cache, RunFolder(tmp_path), ALONE, watcher(), 1e9)
    (tmp_path / "stopped").mkdir()
    folder = RunFolder(tmp_path / "stopped")
    stop = watcher(lambda row: signal.raise_signal(signal.SIGTERM))
    with pytest.raises(StoppedError, match="stopped in epoch 2, step 1 of"):
        train_network(settings, cache, folder, ALONE, stop, 1e9)
    torch.manual_seed(1)
    resumed = train_network(settings, cache, folder, ALONE, watcher(), 1e9)
    for part in ("network", "average"):
        one, other = (getattr(state, part).state_dict() for state in (straight, resumed))
        assert all(torch.equal(one[name], other[name]) for name in one)
    assert figures(straight) == figures(resumed)


def test_siamese_training_is_refused(tiny):
    with pytest.raises(ValueError, match=r"as the network dgcnn has no poses$"):
        tiny(config="dgcnn", siamese=0.1)
