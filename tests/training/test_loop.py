"""Whole runs in this process: what they write, that they repeat themselves, and what they never read."""

import json
from dataclasses import replace

import pytest
import torch
from tests.kinds import present
from typer.testing import CliRunner

from qecnet.cli.main import app
from qecnet.datasets import open_dataset
from qecnet.files import read_tensors
from qecnet.nn import load_network
from qecnet.training.averaging import recalibrate
from qecnet.training.batches import TrainingBatches
from qecnet.training.distributed import Processes
from qecnet.training.folder import RunFolder
from qecnet.training.loop import Watcher, train_network
from qecnet.training.step import new_state, train_step
from qecnet.training.validate import calibrate, held_out, validate

ALONE = Processes(0, 1, torch.device("cpu"))
CLASSES = [f"class {number}" for number in range(10)]
TURNS = torch.ones(10, dtype=torch.long)


@pytest.fixture
def run(options, tmp_path):
    """Train a tiny run into a folder of that name. → the folder"""

    def go(name, *more, **changes):
        result = CliRunner().invoke(app, ["train", *options(tmp_path / name, **changes), *more])
        assert result.exit_code == 0, result.output
        return tmp_path / name

    return go


def weights(folder):
    return (folder / "weights.safetensors").read_bytes()


def log(folder):
    return [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]


TIMES = {"seconds", "shapes_per_second", "waiting"}


def figures(row):
    return {name: value for name, value in row.items() if name not in TIMES}


def test_the_same_command_gives_the_same_run(run):
    one, again, other = run("one"), run("again"), run("other", seed=1)
    assert weights(one) == weights(again) != weights(other)
    assert [figures(row) for row in log(one)] == [figures(row) for row in log(again)]


def test_the_files_of_a_run(run, tiny):
    folder = run("run", siamese=0.1, ema=0.5, clip=1.0, schedule="onecycle")
    expected = {"settings.json", "checkpoint.safetensors", "log.jsonl", "weights.safetensors", "result.json"}
    assert {file.name for file in folder.iterdir()} == expected | {"curves.png"}
    rows, result = log(folder), json.loads((folder / "result.json").read_text())
    assert [row["epoch"] for row in rows] == [1, 2]
    last = rows[-1]
    assert TIMES | {"learning_rate", "train_accuracy"} < last.keys()
    assert last["loss"] == pytest.approx(last["classification_loss"] + 0.1 * last["pose_loss"], abs=1e-6)
    assert last["protocol"] == result["protocol"] == "paper"
    assert result["validation_nr"] == last["validation_nr"]
    assert json.loads((folder / "settings.json").read_text())["siamese"] == 0.1
    tensors, about = read_tensors(folder / "weights.safetensors")
    assert about["classes"][2] == "chair"
    assert about["config"]["classes"] == 10
    tiny().create_network(10).load_state_dict(tensors)
    averages = {n.removeprefix("average/"): t for n, t in read_tensors(folder / "checkpoint.safetensors")[0].items()}
    assert all(torch.equal(tensors[name], averages[name]) for name in tensors)


def test_temperature_is_fitted_on_held_out_shapes(run, cache, tiny):
    network, _, about = load_network(run("run") / "weights.safetensors")
    held = held_out(cache.labels, tiny().validation)[1]
    assert about["temperature"] == calibrate(network, cache, held, ALONE.device).temperature != 1
    assert load_network(run("all", validation=0) / "weights.safetensors")[2]["temperature"] == 1


def test_validation_runs_periodically_and_at_the_end(run):
    rows = log(run("run", epochs=3, validate_every=2))
    assert [row["validation_nr"] is not None for row in rows] == [False, True, True]
    assert log(run("all", epochs=1, validation=0))[0]["validation_ar"] is None


def test_rotation_keeps_the_predicted_class(run):
    """NR and AR differ by rounding alone, which on so few shapes changes no name."""
    last = log(run("run"))[-1]
    assert last["validation_nr"] == last["validation_ar"]


def test_the_class_mean_counts_rare_classes_as_much_as_frequent_ones(cache, tiny):
    network = new_state(tiny(), list(cache.classes), ALONE.device).network

    def always_first(module, inputs, prediction):
        return replace(prediction, activations=torch.eye(len(cache.classes))[:1].expand_as(prediction.activations))

    network.register_forward_hook(always_first)
    shapes = torch.cat((torch.where(cache.labels == 0)[0][:4], torch.where(cache.labels == 1)[0][:1]))
    found = validate(network, cache, shapes, torch.ones(len(cache.classes) + 1), ALONE)
    assert (found.validation_ar, found.validation_class_mean) == (0.8, 0.5)


def test_the_test_split_is_never_read(run, monkeypatch):
    class Forbidden:
        stamp = property(lambda self: pytest.fail("the test split was asked for its content"))

        def load(self):
            pytest.fail("the test split was read")

    def guarded(*arguments, **options):
        made = open_dataset(*arguments, **options)
        test = tuple(replace(item, source=Forbidden()) for item in made.items("test"))
        return replace(made, splits={"train": made.items("train"), "test": test})

    monkeypatch.setattr("qecnet.datasets.open_dataset", guarded)
    run("run")


def test_a_finished_run_resumes_to_itself(run):
    folder = run("run")
    before = weights(folder), log(folder)
    (folder / "result.json").unlink()
    run("run", "--resume")
    assert (weights(folder), log(folder)) == before
    assert (folder / "result.json").exists()


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_a_run_that_fails_midway_resumes_to_the_same_weights(cache, tiny, tmp_path, optimizer):
    settings, left = tiny(optimizer=optimizer, ema=0.9), [8]

    def fail(state, steps):
        left[0] -= 1
        if not left[0]:
            raise KeyboardInterrupt

    def go(name, step):
        folder = RunFolder(tmp_path / name)
        with folder.claimed():
            train_network(settings, cache, folder, ALONE, Watcher(step, lambda row: None), save_every=0)
        return tmp_path / name

    whole = go("whole", lambda *_: None)
    with pytest.raises(KeyboardInterrupt):
        go("resumed", fail)
    assert read_tensors(tmp_path / "resumed" / "checkpoint.safetensors")[1]["epoch"] == 1
    assert weights(go("resumed", lambda *_: None)) == weights(whole)


def test_training_learns(cache, tiny):
    """Ten shapes, one of each class, are told apart after some steps."""
    settings = tiny(batch_size=10, epochs=80, learning_rate=0.03, capsules=16, loss="cross_entropy")
    batches = TrainingBatches(cache, torch.arange(0, 50, 5), settings)
    state = new_state(settings, CLASSES, ALONE.device)
    found = [
        train_step(state.network, state, batch, TURNS, settings, 0, ALONE) for batch in batches.after(0, 0, slice(None))
    ]
    assert found[-1]["total"] < 0.7 * found[0]["total"]
    assert found[-1]["correct"] >= 5 > found[0]["correct"]


def test_a_gradient_that_is_not_finite_ends_the_run(cache, tiny):
    settings = tiny()
    state = new_state(settings, CLASSES, ALONE.device)
    batch = next(TrainingBatches(cache, torch.arange(50), settings).after(0, 0, slice(None)))
    before = {name: tensor.clone() for name, tensor in state.network.state_dict().items()}
    batch.points.positions[0, :] = torch.nan
    with pytest.raises(ValueError, match="gradient is not finite in epoch 1, step 1; learning_rate is"):
        train_step(state.network, state, batch, TURNS, settings, 0, ALONE)
    assert all(torch.equal(before[name], tensor) for name, tensor in state.network.state_dict().items())


def test_gradient_is_clipped(cache, tiny):
    settings = tiny(clip=1e-3)
    state = new_state(settings, CLASSES, ALONE.device)
    batch = next(TrainingBatches(cache, torch.arange(50), settings).after(0, 0, slice(None)))
    train_step(state.network, state, batch, TURNS, settings, 0, ALONE)
    norm = torch.stack([present(p.grad).norm() for p in state.network.parameters()]).norm()
    assert norm <= 1.001e-3


def test_average_decays_parameters_and_copies_buffers(cache, tiny):
    settings = tiny(config="pointnet", method="flare", ema=0.75, learning_rate=0.1)
    state = new_state(settings, CLASSES, ALONE.device)
    before = [parameter.clone() for parameter in state.network.parameters()]
    batch = next(TrainingBatches(cache, torch.arange(50), settings).after(0, 0, slice(None)))
    train_step(state.network, state, batch, TURNS, settings, 0, ALONE)
    for kept, old, new in zip(present(state.average).parameters(), before, state.network.parameters(), strict=True):
        assert not torch.equal(old, new)
        torch.testing.assert_close(kept, 0.75 * old + 0.25 * new)
    buffers = dict(state.network.named_buffers())
    assert any(buffer.abs().sum() > 0 for name, buffer in buffers.items() if name.endswith("running_mean"))
    assert all(torch.equal(buffer, buffers[name]) for name, buffer in present(state.average).named_buffers())


def test_average_has_its_own_batch_statistics(cache, tiny):
    """Those that its own weights give, whatever the network's are; and the same ones each time."""
    settings = tiny(config="pointnet", method="flare", ema=0.9)
    average = present(new_state(settings, CLASSES, ALONE.device).average)
    batches = TrainingBatches(cache, torch.arange(50), settings)
    found = []
    for spoilt in (1.0, 100.0):
        for name, buffer in average.named_buffers():
            if "running" in name:
                buffer.fill_(spoilt)
        recalibrate(average, batches.after(0, 0, slice(None)), ALONE.device)
        found.append([buffer.clone() for buffer in average.buffers()])
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))
    layers = [layer for layer in average.modules() if isinstance(layer, torch.nn.BatchNorm1d)]
    assert all(layer.momentum == 0.1 for layer in layers)
    assert any(present(layer.running_mean).abs().sum() > 0 for layer in layers)


def test_validation_uses_no_random_numbers_and_keeps_the_network(cache, tiny):
    network = new_state(tiny(config="pointnet", method="flare"), CLASSES, ALONE.device).network
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    found = [validate(network, cache, torch.arange(50), torch.ones(len(cache.classes) + 1), ALONE) for _ in range(2)]
    assert found[0] == found[1]
    assert network.training
    assert all(torch.equal(before[name], tensor) for name, tensor in network.state_dict().items())


def test_parts_cover_the_batch():
    for size in range(3, 9):
        parts = [Processes(rank, 3, torch.device("cpu")).piece(size) for rank in range(3)]
        assert [i for part in parts for i in range(size)[part]] == list(range(size))
        assert {len(range(size)[part]) for part in parts} <= {size // 3, -(-size // 3)}
