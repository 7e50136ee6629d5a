"""A hash of code changes with the code, and never silently leaves a file out."""

from pathlib import Path

import pytest

import qecnet
from qecnet.datasets import make_furniture
from qecnet.evaluation.rows import hash_inputs
from qecnet.fingerprint import code_hash
from qecnet.models import load

NN = Path(qecnet.__file__).parent / "nn"


@pytest.fixture(autouse=True)
def forget():
    """Hashes are computed once in a process; those of changed files must not outlive a test."""
    code_hash.cache_clear()
    yield
    code_hash.cache_clear()


def hash_of(monkeypatch, code: bytes) -> str:
    monkeypatch.setattr(Path, "read_bytes", lambda _: code)
    code_hash.cache_clear()
    return code_hash("qecnet.nn", "routing.py")


def test_layout_comments_and_docstrings_do_not_matter(monkeypatch):
    plain = hash_of(monkeypatch, b"def f():\n    return 1")
    assert hash_of(monkeypatch, b'def f():\n    """One."""\n\n    return (1)  # one') == plain
    assert hash_of(monkeypatch, b"def f():\n    return 2") != plain


def test_a_pattern_that_matches_nothing_is_an_error():
    with pytest.raises(FileNotFoundError, match=r"qecnet\.nn: no file matches renamed\.py; correct the pattern"):
        code_hash("qecnet.nn", "*.py", "renamed.py")


@pytest.mark.parametrize("path", sorted(NN.rglob("*.py")), ids=lambda path: str(path.relative_to(NN)))
def test_every_file_of_the_networks_is_in_the_key_of_stored_predictions(path, monkeypatch):
    """All files are empty here but one, so that hashing takes no time."""
    model, dataset, keys = load("modelnet10-paper"), make_furniture(2), set()
    for changed in (None, path):
        monkeypatch.setattr(Path, "read_bytes", lambda self, changed=changed: b"x = 1" if self == changed else b"")
        code_hash.cache_clear()
        keys.add(hash_inputs(model, dataset, "test", [0], None))
    assert len(keys) == 2
