"""Shards share out all files, and their results are joined to those of one run."""

import json
from contextlib import closing
from dataclasses import replace
from itertools import chain

import pytest

from qecnet.bulk import Journal, Origin, Shard, journal_path, merge_shards

ORIGIN = Origin("classify", "modelnet10", "abc", "{}", {"label": "text"})


@pytest.fixture
def files(tmp_path):
    (tmp_path / "in").mkdir()
    for number in range(10):
        (tmp_path / "in" / f"{number}").write_text("x")
    return sorted(map(str, (tmp_path / "in").iterdir()))


def run_shard(results, shard, files, label="chair", origin=ORIGIN, finished=True):
    with closing(Journal(journal_path(shard.results_path(results)), origin)) as journal:
        journal.plan(shard.select(files), lambda failure: None)
        for file in [*journal.pending()]:
            journal.record(file, {"label": label})
        journal.commit(finished=finished)


@pytest.mark.parametrize("count", [1, 3, 16])
def test_each_file_is_in_one_shard_and_shares_are_equal(files, count):
    shares = [[*Shard(number, count).select(files)] for number in range(1, count + 1)]
    assert sorted(chain(*shares)) == files
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_names_sort_by_number(tmp_path):
    assert Shard(3, 16).results_path(tmp_path / "r.csv") == tmp_path / "r-03-of-16.csv"


@pytest.mark.parametrize("text", ["0/4", "5/4", "3", "a/b", "1/0", "-1/4", "1/4/2"])
def test_what_is_no_shard_is_one_sentence(text):
    with pytest.raises(ValueError, match="is not a shard"):
        Shard.parse(text)


def test_shards_are_joined_in_order(tmp_path, files):
    for number in (3, 1, 2):
        run_shard(tmp_path / "r.jsonl", Shard(number, 3), files, f"of {number}")
    assert merge_shards(tmp_path / "r.jsonl") == 3
    rows = [json.loads(line) for line in (tmp_path / "r.jsonl").read_text().splitlines()]
    assert [row["file"] for row in rows] == files
    assert rows[4]["label"] == "of 2"


def test_a_file_of_two_shards_is_taken_once(tmp_path, files):
    run_shard(tmp_path / "r.jsonl", Shard(1, 2), files)
    run_shard(tmp_path / "r.jsonl", Shard(2, 2), ["another", *files])
    merge_shards(tmp_path / "r.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "r.jsonl").read_text().splitlines()]
    assert len(rows) == len({row["file"] for row in rows}) == 5


def test_missing_unfinished_and_foreign_shards_are_refused(tmp_path, files):
    results = tmp_path / "r.csv"
    with pytest.raises(ValueError, match=r"r.csv: has no shards, such as .*r-01-of-16.csv"):
        merge_shards(results)
    run_shard(results, Shard(1, 3), files)
    run_shard(results, Shard(2, 3), files, finished=False)
    with pytest.raises(ValueError, match="shards 3 of 3 are missing; run them, or merge with --partial"):
        merge_shards(results)
    run_shard(results, Shard(3, 3), files, origin=replace(ORIGIN, key="other"))
    with pytest.raises(ValueError, match=r"r-3-of-3.csv.journal: is of another run"):
        merge_shards(results, partial=True)
    journal_path(Shard(3, 3).results_path(results)).unlink()
    run_shard(results, Shard(3, 3), files)
    with pytest.raises(ValueError, match=r"r-2-of-3.csv.journal: is not finished; run this shard again"):
        merge_shards(results)
    assert not results.exists()
    assert merge_shards(results, partial=True) == 3
    run_shard(results, Shard(1, 2), files)
    with pytest.raises(ValueError, match="there are shards of 2 and 3 parts"):
        merge_shards(results)
