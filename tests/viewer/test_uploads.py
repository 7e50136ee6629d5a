"""Uploads stay within the memory that is theirs, for each session and for all together."""

import asyncio

import pytest
import torch
from tests.kinds import as_cloud

from qecnet.geometry import PointCloud
from qecnet.viewer.limits import Limits
from qecnet.viewer.uploads import Budget, UploadStore

SIZE = 240


def cloud(name="cloud"):
    return PointCloud(torch.rand(10, 3, dtype=torch.float64), name=name)


def test_a_session_sees_its_own_uploads_only():
    store = UploadStore(Limits())
    number = store.add("one", cloud("bed"))
    assert store.get("one", number).name == "bed"
    for session, other in (("two", number), ("one", number + 1)):
        with pytest.raises(ValueError, match="upload it again"):
            store.get(session, other)


@pytest.mark.parametrize("limit", [{"session_uploads": 2}, {"session_bytes": 2 * SIZE}, {"stored_bytes": 2 * SIZE}])
def test_oldest_upload_of_a_session_is_dropped(limit):
    store = UploadStore(Limits(**limit))
    first, *others = [store.add("one", cloud()) for _ in range(3)]
    with pytest.raises(ValueError, match="upload it again"):
        store.get("one", first)
    assert all(len(as_cloud(store.get("one", number))) == 10 for number in others)


def test_all_sessions_together_are_limited_until_one_ends():
    store = UploadStore(Limits(stored_bytes=2 * SIZE))
    kept = [(name, store.add(name, cloud())) for name in ("one", "two")]
    with pytest.raises(ValueError, match=r"^third: .*no memory left"):
        store.add("three", cloud("third"))
    assert all(len(as_cloud(store.get(*key))) == 10 for key in kept), "nobody loses an upload to somebody else"
    store.remove("one")
    store.add("three", cloud())


def test_a_budget_is_shared():
    async def run():
        budget = Budget(100)
        order = []

        async def take(size, seconds):
            async with budget.reserve(size, 10):
                order.append(("begin", size))
                await asyncio.sleep(seconds)
            order.append(("end", size))

        await asyncio.gather(take(60, 0.05), take(70, 0), take(40, 0.2))
        assert order.index(("begin", 70)) > order.index(("end", 60)), "60 and 70 do not fit together"
        async with budget.reserve(100, 1):
            with pytest.raises(asyncio.TimeoutError):
                async with budget.reserve(1, 0.05):
                    pass

    asyncio.run(run())
