"""Networks with features in the trainer: weights that are read again, and runs that go on bit for bit."""

import json
import signal
from dataclasses import asdict

import pytest
import torch
from typer.testing import CliRunner

from qecnet.algebra import angular_distance, multiply
from qecnet.cli.main import app
from qecnet.nn import FeatureConfig, FeatureNet, load_network
from qecnet.training.batches import TrainingBatches, validation_batches
from qecnet.training.distributed import Processes
from qecnet.training.folder import RunFolder
from qecnet.training.loop import StoppedError, Watcher, train_network
from qecnet.training.step import new_state, train_step

ALONE = Processes(0, 1, torch.device("cpu"))
CLASSES = [f"class {number}" for number in range(10)]
TURNS = torch.ones(10, dtype=torch.long)


def watcher(epoch=lambda row: None):
    return Watcher(lambda state, steps: None, epoch)


def figures(state):
    times = {"seconds", "shapes_per_second", "waiting"}
    return [{name: value for name, value in asdict(row).items() if name not in times} for row in state.rows]


def test_a_run_writes_weights_that_are_read_again(options, cache, tmp_path):
    given = options(tmp_path / "run", method="flare", looks=1)
    result = CliRunner().invoke(app, ["train", "--config", "features", *given])
    assert result.exit_code == 0, result.output
    network, classes, about = load_network(tmp_path / "run" / "weights.safetensors")
    assert isinstance(network, FeatureNet)
    assert (len(classes), network.config.classes, network.config.looks) == (10, 10, 1)
    assert network.config == FeatureConfig(10, frames=32, looks=1)
    assert (about["settings"]["aligned"], about["settings"]["smoothing"]) == (1.0, 0.15)
    last = json.loads((tmp_path / "run" / "log.jsonl").read_text().splitlines()[-1])
    assert last["loss"] == pytest.approx(last["classification_loss"] + last["pose_loss"], abs=1e-6)
    assert last["pose_loss"] > 0
    ((batch, _),) = validation_batches(cache, torch.arange(3), 3, rotated=False)
    assert network(batch.points).activations.isfinite().all()


def test_a_stopped_run_resumes_bit_for_bit(cache, tiny, tmp_path):
    """With dropout, frames left out at random, and an average of the weights."""
    settings = tiny(config="features", method="flare", ema=0.5, dropped=0.3)
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


def test_it_learns_classes_and_poses_from_upright_shapes(cache, tiny):
    """Ten shapes, one of each class, after some steps; both parts of what is minimised have become smaller."""
    settings = tiny(config="features", method="flare", looks=1, batch_size=10, epochs=15, schedule="constant")
    batches = TrainingBatches(cache, torch.arange(0, 50, 5), settings)
    state = new_state(settings, CLASSES, ALONE.device)
    found = [
        train_step(state.network, state, batch, TURNS, settings, 0, ALONE) for batch in batches.after(0, 0, slice(None))
    ]
    assert found[-1]["correct"] >= 7
    for part in ("classification", "pose"):
        assert found[-1][part] < 0.8 * found[0][part]
    network, said = state.network.eval(), []
    for rotated in (False, True):
        ((batch, turn),) = validation_batches(cache, torch.arange(50), 50, rotated=rotated)
        said.append(network(batch.points))
    torch.testing.assert_close(said[1].activations, said[0].activations, atol=1e-5, rtol=0)
    error = angular_distance(multiply(turn[:, None], said[0].poses), said[1].poses)
    assert error.median() <= 1e-4
    assert error.max() <= 1e-3


def test_weight_decay_applies_to_the_weights(cache, tiny):
    """Beside the gradient's step, each weight loses its share: AdamW's."""
    after = []
    for decay in (0.0, 0.5):
        settings = tiny(config="features", method="flare", looks=1, weight_decay=decay, schedule="constant")
        state = new_state(settings, CLASSES, ALONE.device)
        before = [p.detach().clone() for p in state.network.parameters()]
        batch = next(TrainingBatches(cache, torch.arange(50), settings).after(0, 0, slice(None)))
        train_step(state.network, state, batch, TURNS, settings, 0, ALONE)
        after.append([p.detach() for p in state.network.parameters()])
    for plain, decayed, old in zip(*after, before, strict=True):
        torch.testing.assert_close(plain - decayed, 4e-3 * 0.5 * old, atol=1e-6, rtol=1e-3)
