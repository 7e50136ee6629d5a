"""Both kinds of worker pools give the results of this process, in order."""

import pytest
from benchmarks.bench_workers import WAYS, compare, prepare_item, run, with_futures, with_loader

from qecnet.datasets import make_furniture


@pytest.mark.parametrize("pool", [with_futures, with_loader])
def test_results_are_those_of_one_process(pool):
    items = make_furniture(2).items("train")[:4]
    alone = run(lambda: map(prepare_item, items), len(items))
    assert run(lambda: pool(items, 2, WAYS[0]), len(items)).results == alone.results
    assert len({*alone.results}) == len(items)


def test_rows_have_both():
    rows = compare(make_furniture(2).items("train")[:2], 2, 1, WAYS[0])
    assert [row["what"].rpartition(": ")[2] for row in rows] == ["whole run", "second half"]
    assert all(row["ours"] > 0 and row["of it"] > 0 for row in rows)
