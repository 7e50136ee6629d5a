"""What people see of a run."""

import io
import sys
from dataclasses import replace

import pytest
import torch
from rich.console import Console

from qecnet.outcome import Epoch
from qecnet.training.display import display, draw_curves
from qecnet.training.step import new_state

ROW = Epoch(
    epoch=2,
    loss=0.25,
    classification_loss=0.25,
    pose_loss=0.0,
    train_accuracy=0.5,
    protocol="paper",
    learning_rate=1e-3,
    validation_nr=0.75,
    shapes_per_second=30.0,
    seconds=60.0,
    waiting=0.01,
)


@pytest.mark.parametrize("terminal", [False, True])
def test_terminal_shows_each_step_and_a_log_one_line_per_epoch(tiny, terminal):
    state = new_state(tiny(), ["a", "b"], torch.device("cpu"))
    state.epoch, state.step = 1, 3
    state.totals = {"total": 3.0, "correct": 3.0, "shapes": 12.0, "labelled": 12.0, "seconds": 0.5, "waiting": 0.0}
    screen = io.StringIO()
    with display(Console(file=screen, force_terminal=terminal, width=120), epochs=9) as watcher:
        watcher.step(state, 10)
        watcher.epoch(ROW)
    assert "epoch 2/9  loss 0.2500  train 50.0%  validation NR 75.0%  30.0 shapes/s" in screen.getvalue()
    assert ("loss 0.2500  accuracy 25.0%  24.0 shapes/s" in screen.getvalue()) == terminal


def test_curves_are_a_picture(tmp_path):
    assert draw_curves([replace(ROW, epoch=epoch) for epoch in (1, 2, 3)], tmp_path / "curves.png")
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_without_matplotlib_there_are_no_curves(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert not draw_curves([ROW], tmp_path / "curves.png")
