"""Mutated files of every kind that is read: each is read, or refused with one sentence; see `benchmarks.fuzz`."""

import pytest

from benchmarks import fuzz
from qecnet.models.library import graph

pytest.importorskip("trimesh")
pytest.importorskip("laspy")


def test_mutated_files_are_read_or_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(graph, "EXACT_ROWS", graph.EXACT_ROWS)  # which the fuzzer changes
    found = fuzz.run(range(400), 0, float("inf"), tmp_path)
    assert found["findings"] == []
    assert len(found["kinds"]) == 20
    assert all(counts["refused"] > 0 for counts in found["kinds"].values())
