"""Shards share out all files, and their results are joined to those of one run."""

import json
import os
from contextlib import closing
from dataclasses import replace
from itertools import chain
from pathlib import Path

import pytest

from qecnet.bulk import Journal, Origin, Shard, journal_path, merge_shards

ORIGIN = Origin("classify", "modelnet10", "abc", "{}", {"label": "text"})


@pytest.fixture
def files(tmp_path):
    (tmp_path / "in").mkdir()
    for number in range(10):
        (tmp_path / "in" / f"{number}").write_text("x")
    return sorted((tmp_path / "in").iterdir())


def run_shard(results, shard, files, label="chair", origin=ORIGIN, finished=True, chosen=None):
    with closing(Journal(journal_path(shard.results_path(results)), origin)) as journal:
        journal.plan(map(str, chosen or shard.select(files)), lambda failure: None)
        for file in [*journal.pending()]:
            journal.record(file, {"label": label})
        journal.commit(finished=finished)


@pytest.mark.parametrize("count", [1, 3, 16])
def test_each_file_is_in_one_shard_and_shares_are_about_equal(count):
    files = [Path(f"meshes/{number // 100}/{number}.off") for number in range(8000)]
    shares = [[*Shard(number, count).select(files)] for number in range(1, count + 1)]
    assert sorted(chain(*shares)) == sorted(files)
    assert max(map(len, shares)) < 1.2 * len(files) / count
    assert min(map(len, shares)) > 0.8 * len(files) / count


def test_the_shard_of_a_file_does_not_depend_on_other_files():
    files = [Path(f"{number}.off") for number in range(1000)]
    before = {*Shard(2, 5).select(files)}
    more = sorted([*files, *(Path(f"{number}.ply") for number in range(1000))])
    assert before == {*Shard(2, 5).select(more)} & {*files}
    assert [*Shard(2, 5).select(reversed(files))] == [*reversed([*Shard(2, 5).select(files)])]


def test_shard_of_a_file_does_not_depend_on_where_its_folder_is(monkeypatch, tmp_path):
    names = [f"deep/{number}.off" for number in range(100)]
    monkeypatch.chdir(tmp_path)
    chosen = [
        [file.relative_to(folder).as_posix() for file in Shard(1, 3).select([folder / name for name in names], folder)]
        for folder in (Path("/mnt/a"), Path("b"), Path("b/../c"))
    ]
    assert chosen[0] == chosen[1] == chosen[2]
    absolute = Shard(1, 3).select([tmp_path / "b" / name for name in names], Path("b"))
    assert [file.relative_to(tmp_path / "b").as_posix() for file in absolute] == chosen[0]


def test_shard_of_a_file_is_stable_across_versions():
    """Shards of one run may be done by different versions of Python, and after an update of qecnet."""
    files = [Path("a.off"), Path("deep/b.ply"), Path(os.fsdecode(b"\xff.stl")), Path("Stühle/c.obj")]
    assert [next(n for n in range(1, 17) if [*Shard(n, 16).select([file])]) for file in files] == [5, 12, 14, 10]


def test_shard_names_sort_by_number(tmp_path):
    assert Shard(3, 16).results_path(tmp_path / "r.csv") == tmp_path / "r-03-of-16.csv"


@pytest.mark.parametrize("text", ["0/4", "5/4", "3", "a/b", "1/0", "-1/4", "1/4/2"])
def test_invalid_shard_gives_a_one_sentence_error(text):
    with pytest.raises(ValueError, match="is not a shard"):
        Shard.parse(text)


def test_shards_are_joined_in_order(tmp_path, files):
    for number in (3, 1, 2):
        run_shard(tmp_path / "r.jsonl", Shard(number, 3), files, f"of {number}")
    assert merge_shards(tmp_path / "r.jsonl") == 3
    rows = [json.loads(line) for line in (tmp_path / "r.jsonl").read_text().splitlines()]
    assert [row["file"] for row in rows] == [*map(str, files)]
    chosen = {str(file): f"of {number}" for number in (1, 2, 3) for file in Shard(number, 3).select(files)}
    assert {row["file"]: row["label"] for row in rows} == chosen


def test_a_file_of_two_shards_is_taken_once(tmp_path, files):
    """As after a run whose paths were relative to another folder."""
    run_shard(tmp_path / "r.jsonl", Shard(1, 2), files)
    run_shard(tmp_path / "r.jsonl", Shard(2, 2), files, chosen=files)
    merge_shards(tmp_path / "r.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "r.jsonl").read_text().splitlines()]
    assert [row["file"] for row in rows] == [*map(str, files)]


def test_missing_unfinished_and_foreign_shards_are_refused(tmp_path, files):
    results = tmp_path / "r.csv"
    with pytest.raises(ValueError, match=r"r.csv: has no shards, such as .*r-01-of-16.csv"):
        merge_shards(results)
    run_shard(results, Shard(1, 3), files)
    run_shard(results, Shard(2, 3), files, finished=False)
    with pytest.raises(ValueError, match="shard 3 of 3 is missing; run what is missing, or merge with --partial"):
        merge_shards(results)
    run_shard(results, Shard(3, 3), files, origin=replace(ORIGIN, key="other"))
    with pytest.raises(ValueError, match=r"r-3-of-3.csv.journal: belongs to a different run"):
        merge_shards(results, partial=True)
    journal_path(Shard(3, 3).results_path(results)).unlink()
    run_shard(results, Shard(3, 3), files)
    with pytest.raises(ValueError, match=r"r-2-of-3.csv.journal: is not finished; run this shard again"):
        merge_shards(results)
    assert not results.exists()
    assert merge_shards(results, partial=True) == 3
    run_shard(results, Shard(1, 2), files)
    with pytest.raises(ValueError, match="there are shards of different runs, in 2 and 3 parts"):
        merge_shards(results)
