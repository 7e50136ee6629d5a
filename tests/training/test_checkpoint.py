"""Checkpoints: whole at every moment, exact, and no code inside."""

import resource
from dataclasses import fields

import pytest
import torch

from qecnet.files import read_tensors, write_tensors
from qecnet.outcome import Epoch
from qecnet.training.checkpoint import State, load_checkpoint, save_checkpoint
from qecnet.training.step import new_state

CPU = torch.device("cpu")
ORIGIN = {"classes": ["a", "b"], "frames": 7}


def step(state, seed):
    """A step of the optimizers on random gradients."""
    generator = torch.Generator().manual_seed(seed)
    for parameter in state.network.parameters():
        parameter.grad = torch.randn(parameter.shape, generator=generator)
    for optimizer in state.optimizers.values():
        optimizer.step()


ROW = Epoch(
    epoch=1,
    loss=1 / 3,
    classification_loss=0.3,
    pose_loss=0.1,
    train_accuracy=0.5,
    protocol="paper",
    learning_rate=1e-3,
    seconds=1.5,
    shapes_per_second=8.0,
    waiting=0.1,
)


@pytest.fixture(params=["adamw", "muon"])
def optimizer(request):
    return request.param


@pytest.fixture
def trained(tiny, optimizer):
    """A state after some steps on random gradients, with an average."""
    state = new_state(tiny(ema=0.9, optimizer=optimizer), ["a", "b"], CPU)
    for seed in range(3):
        step(state, seed)
    state.epoch, state.step, state.totals, state.rows = 2, 5, {"total": 0.1}, [ROW]
    return state


def test_a_checkpoint_restores_the_state_bit_for_bit(trained, tiny, optimizer, tmp_path):
    save_checkpoint(tmp_path / "c", trained, ORIGIN)
    again = new_state(tiny(ema=0.9, seed=1, optimizer=optimizer), ["a", "b"], CPU)
    load_checkpoint(tmp_path / "c", again, ORIGIN)
    for part in ("network", "average"):
        before, after = (getattr(state, part).state_dict() for state in (trained, again))
        assert all(torch.equal(before[name], after[name]) for name in before)
    assert trained.optimizers.keys() == again.optimizers.keys()
    for name in trained.optimizers:
        before, after = (state.optimizers[name].state_dict()["state"] for state in (trained, again))
        assert all(torch.equal(before[n][m], after[n][m]) for n in before for m in before[n])
        assert before.keys() == after.keys()
    for field in fields(State)[3:]:
        assert getattr(again, field.name) == getattr(trained, field.name)
    for state in (trained, again):
        step(state, seed=3)
    before, after = (state.network.state_dict() for state in (trained, again))
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_muon_trains_the_matrices_and_adamw_the_rest(tiny):
    state = new_state(tiny(optimizer="muon"), ["a", "b"], CPU)
    dimensions = {
        type(optimizer): {p.dim() for group in optimizer.param_groups for p in group["params"]}
        for optimizer in state.optimizers.values()
    }
    assert dimensions == {torch.optim.Muon: {2}, torch.optim.AdamW: {0, 1}}


def test_without_muon_in_torch_the_setting_is_refused(tiny, monkeypatch):
    monkeypatch.delattr(torch.optim, "Muon")
    with pytest.raises(ValueError, match=r"optimizer is muon, which torch .* lacks; install"):
        new_state(tiny(optimizer="muon"), ["a", "b"], CPU)
    assert new_state(tiny(), ["a", "b"], CPU).optimizers.keys() == {"optimizer"}


def test_full_disk_keeps_the_previous_checkpoint(trained, tmp_path):
    path = tmp_path / "c"
    save_checkpoint(path, trained, ORIGIN)
    before = path.read_bytes()
    trained.step += 1
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) // 2, hard))
    try:
        with pytest.raises(OSError, match=r"cannot be written .* the previous file, if any, is unchanged"):
            save_checkpoint(path, trained, ORIGIN)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["c"]


def test_a_temporary_file_of_a_killed_writer_is_ignored(trained, tmp_path):
    path = tmp_path / "c"
    (tmp_path / ".c-0123456789abcdef").write_bytes(b"half")
    save_checkpoint(path, trained, ORIGIN)
    assert read_tensors(path)[1]["step"] == 5
    assert {file.name for file in tmp_path.iterdir()} == {"c", ".c-0123456789abcdef"}, "names are random"


@pytest.mark.parametrize("damage", [lambda b: b[: len(b) // 2], lambda b: b"\x80\x04" + b, lambda b: b""])
def test_a_damaged_checkpoint_is_refused(trained, tiny, tmp_path, damage):
    path = tmp_path / "c"
    save_checkpoint(path, trained, ORIGIN)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ValueError, match="c: is damaged, or was not written by qecnet"):
        load_checkpoint(path, new_state(tiny(), ["a", "b"], CPU), ORIGIN)


def test_another_network_is_refused_in_one_sentence(trained, tiny, tmp_path):
    save_checkpoint(tmp_path / "c", trained, ORIGIN)
    with pytest.raises(ValueError, match="c: does not match the run's settings; start a new run") as refused:
        load_checkpoint(tmp_path / "c", new_state(tiny(capsules=5), ["a", "b"], CPU), ORIGIN)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(("name", "value"), [("classes", ["a", "c"]), ("frames", 8)])
def test_other_data_than_it_was_trained_on_is_refused(trained, tiny, tmp_path, name, value):
    save_checkpoint(tmp_path / "c", trained, ORIGIN)
    with pytest.raises(
        ValueError, match=f"was trained on different {name} .*; give the same data, or start a new run$"
    ):
        load_checkpoint(tmp_path / "c", new_state(tiny(), ["a", "b"], CPU), ORIGIN | {name: value})


@pytest.mark.parametrize("value", ["\x1b[2J", "y" * 5000, [[1] * 5000]])
def test_an_altered_origin_is_shown_shortened_and_printable(trained, tiny, tmp_path, value):
    save_checkpoint(tmp_path / "c", trained, ORIGIN | {"classes": value})
    with pytest.raises(ValueError, match="was trained on different classes ") as refused:
        load_checkpoint(tmp_path / "c", new_state(tiny(), ["a", "b"], CPU), ORIGIN)
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 600


def test_rows_of_earlier_versions_are_read(trained, tiny, optimizer, tmp_path):
    """They leave out what was not measured, and may have figures that are gone."""
    save_checkpoint(tmp_path / "c", trained, ORIGIN)
    tensors, about = read_tensors(tmp_path / "c")
    (row,) = about["rows"]
    about["rows"] = [{name: value for name, value in row.items() if value is not None} | {"former": 1}]
    write_tensors(tmp_path / "c", tensors, about)
    again = new_state(tiny(ema=0.9, optimizer=optimizer), ["a", "b"], CPU)
    load_checkpoint(tmp_path / "c", again, ORIGIN)
    assert again.rows == [ROW]
