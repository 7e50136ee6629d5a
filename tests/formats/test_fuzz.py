"""Mutated files of every kind that is read: each is read, or refused with one sentence; see `benchmarks.fuzz`."""

import pytest

from benchmarks import fuzz
from qecnet.formats.read import FORMATS
from qecnet.models.library import graph

pytest.importorskip("trimesh")
pytest.importorskip("laspy")


def test_mutated_files_are_read_or_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(graph, "EXACT_ROWS", graph.EXACT_ROWS)  # which the fuzzer changes
    found = fuzz.run(range(400), 0, float("inf"), tmp_path)
    assert found["findings"] == []
    others = {"checkpoint", "rows.sqlite", "settings", "vectors-1.usearch", "weights"}
    assert len(found["kinds"]) == len(FORMATS) + len(others)
    assert others <= {*found["kinds"]}
    assert all({suffix[1:] for suffix in form.suffixes} & {*found["kinds"]} for form in FORMATS)
    assert all(counts["refused"] > 0 for counts in found["kinds"].values())
