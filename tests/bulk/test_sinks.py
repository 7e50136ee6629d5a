"""The same rows in each format, whole or not at all."""

import csv
import json
import sys

import pytest

from qecnet.bulk import RESULT_SUFFIXES, Columns, Row, write_results

COLUMNS: Columns = {
    "label": "text",
    "confidence": "number",
    "pose": "quaternion",
    "symmetry": "text",
    "scores": "scores",
    "up": "vector",
    "radius": "length",
}
ROWS: list[Row] = [
    {
        "file": "a.ply",
        "label": "chair",
        "confidence": 0.75,
        "pose": [1.0, 0.0, -0.5, 0.25],
        "symmetry": 1,
        "scores": {"chair": 0.75, "bed": 0.25},
        "up": [0.0, -1.0, 0.5],
        "radius": 2.5,
    },
    {"file": "b\udcff, c.ply", "error": "b\udcff, c.ply: is bad"},
    {
        "file": "d.ply",
        "label": "bed",
        "confidence": 1.0,
        "pose": [0.0, 0.0, 0.0, 1.0],
        "symmetry": "any",
        "scores": {"bed": 1.0, "chair": 0.0},
        "up": [0.0, 0.0, 1.0],
        "radius": 1.0,
    },
]


def test_json_lines(tmp_path):
    write_results(tmp_path / "r.jsonl", ROWS, COLUMNS)
    assert [json.loads(line) for line in (tmp_path / "r.jsonl").read_text().splitlines()] == ROWS


def test_csv(tmp_path):
    write_results(tmp_path / "r.csv", ROWS, COLUMNS)
    with (tmp_path / "r.csv").open(newline="") as file:
        first, bad, last = csv.DictReader(file)
    earlier = ["file", "label", "confidence", *"wxyz", "symmetry", "error"]
    assert [*first] == [*earlier, "up_x", "up_y", "up_z", "radius"]
    assert (float(first["up_y"]), float(first["radius"]), bad["up_y"]) == (-1.0, 2.5, "")
    assert (first["label"], float(first["y"]), first["symmetry"], first["error"]) == ("chair", -0.5, "1", "")
    assert (bad["file"], bad["label"]) == (r"b\udcff, c.ply", "")
    assert last["symmetry"] == "any"


def test_parquet(tmp_path, monkeypatch):
    parquet = pytest.importorskip("pyarrow.parquet")
    monkeypatch.setattr("qecnet.bulk.sinks._GROUP", 2)
    write_results(tmp_path / "r.parquet", ROWS, COLUMNS)
    table = parquet.ParquetFile(tmp_path / "r.parquet")
    assert table.num_row_groups == 2
    first, bad, last = table.read().to_pylist()
    assert first["pose"] == ROWS[0]["pose"]
    assert (first["up"], first["radius"], bad["up"]) == (ROWS[0]["up"], 2.5, None)
    assert dict(first["scores"]) == ROWS[0]["scores"]
    assert (first["symmetry"], last["symmetry"], first["error"]) == ("1", "any", None)
    assert (bad["label"], bad["error"]) == (None, r"b\udcff, c.ply: is bad")


@pytest.mark.parametrize("suffix", RESULT_SUFFIXES)
def test_table_without_rows_is_written(tmp_path, suffix):
    if suffix == ".parquet":
        pytest.importorskip("pyarrow")
    write_results(tmp_path / f"r{suffix}", [], COLUMNS)
    assert (tmp_path / f"r{suffix}").exists()


@pytest.mark.parametrize("suffix", RESULT_SUFFIXES)
def test_failed_write_keeps_the_previous_file(tmp_path, suffix):
    if suffix == ".parquet":
        pytest.importorskip("pyarrow")

    def rows():
        yield ROWS[0]
        raise OSError(28, "No space left on device")

    path = tmp_path / f"r{suffix}"
    path.write_text("before")
    with pytest.raises(OSError, match=r"cannot be written \(no space left on device\); the previous file"):
        write_results(path, rows(), COLUMNS)
    assert path.read_text() == "before"
    assert [*tmp_path.iterdir()] == [path]


def test_parquet_without_its_library_gives_a_one_sentence_error(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ValueError, match=r"r.parquet: Parquet, .* needs pyarrow, .*; pip install 'qecnet\[parquet\]'"):
        write_results(tmp_path / "r.parquet", ROWS, COLUMNS)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("r.xlsx", "is not a supported type of results file; name it"),
        ("no/r.csv", "there is no folder"),
        ("r.csv", "is a folder"),
    ],
)
def test_unwritable_path_gives_a_one_sentence_error(tmp_path, name, said):
    (tmp_path / "r.csv").mkdir()
    with pytest.raises(ValueError, match=said):
        write_results(tmp_path / name, ROWS, COLUMNS)
