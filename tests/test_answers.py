"""The shipped weights keep giving the answers that are stored next to this file, for twenty shapes and every model.

`python tests/test_answers.py` writes them again, on one thread. Other processors round differently, so answers are
compared to 1e-4; with QECNET_EXACT=1 they have to be the same bit for bit, which holds on the machine that wrote them.
"""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import qecnet
from qecnet.algebra import random_quaternion, rotate
from qecnet.datasets import FURNITURE_CLASSES, make_shape

STORED = Path(__file__).with_name("stored_answers.json")
MODELS = ("modelnet10", "modelnet10-features", "modelnet10-paper", "modelnet40", "modelnet40-paper")
SHAPES = [(kind, seed) for kind in FURNITURE_CLASSES for seed in (0, 1)]


def predict(name: str) -> dict[str, dict[str, list[float]]]:
    """The answers of one model, one shape at a time, each in a pose of its own."""
    model = qecnet.load(name)
    answers = {}
    for number, (kind, seed) in enumerate(SHAPES):
        q = random_quaternion((), torch.Generator().manual_seed(number), dtype=torch.float64)
        mesh = make_shape(kind, seed)
        answer = model.predict(replace(mesh, vertices=rotate(q, mesh.vertices)))
        answers[f"{kind} {seed}"] = {
            field: getattr(answer, field).flatten().tolist()
            for field in ("activations", "poses", "descriptor", "centre")
        }
    return answers


@pytest.fixture
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.usefixtures("_one_thread")
@pytest.mark.parametrize("name", MODELS)
def test_shipped_weights_give_the_stored_answers(name):
    stored, found = json.loads(STORED.read_text())[name], predict(name)
    assert stored.keys() == found.keys()
    bound = 0 if os.environ.get("QECNET_EXACT") else 1e-4
    for shape, answer in stored.items():
        for field, numbers in answer.items():
            difference = (torch.tensor(found[shape][field]) - torch.tensor(numbers)).abs().max()
            assert difference <= bound, f"{shape}: {field} differs by {difference:.1e}"


if __name__ == "__main__":
    torch.set_num_threads(1)
    STORED.write_text(json.dumps({name: predict(name) for name in MODELS}) + "\n")
