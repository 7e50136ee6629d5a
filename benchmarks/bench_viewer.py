"""The page of `qec view`: updates a second while a shape is turned, and memory over minutes of random rotations.

make browser, then python benchmarks/bench_viewer.py --minutes 10

Chromium draws without a graphics card, on the same cores as the network: a laptop's browser leaves it more.
"""

import argparse
import asyncio
import json
import re
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from aiohttp import ClientSession
from tests.viewer.browser import Page, chromium, viewer

from measure import report, row
from qecnet.algebra import random_quaternion
from qecnet.viewer.wire import unpacked

AIM = "≥ 5"
SPOIL = {"points": 10_000, "noise": 0, "outliers": 0, "occlusion": 0, "seed": 0}


def wish(number: int, **more: Any) -> str:
    turn = random_quaternion((), generator=number).double()
    shape = {"kind": "chair", "seed": 1, "turn": (turn / turn.norm()).tolist()}
    return json.dumps({"number": number, "shape": shape, "spoil": SPOIL, **more})


async def answers(address: str, seconds: float, **more: Any) -> float:
    """Answers a second to somebody who asks again as soon as there is one, and draws nothing."""
    async with ClientSession() as session, session.ws_connect(f"{address}/socket", max_msg_size=0) as socket:
        await socket.receive_bytes()
        count, start = -1, 0.0
        while count < 1 or time.perf_counter() < start + seconds:
            await socket.send_str(wish(count + 1, **more))
            header, _ = unpacked(await socket.receive_bytes())
            assert header["answer"]["label"] == "chair"
            count += 1
            if count == 0:  # the first has the shape to draw points from
                start = time.perf_counter()
        return count / (time.perf_counter() - start)


def dragging(page: Page, seconds: float) -> float:
    """Answers a second that the page shows while the rings are dragged by the mouse."""
    script = """window.answers = 0;
      new MutationObserver(() => window.answers++).observe(document.getElementById("state"), {childList: true})"""
    page.driver.execute_script(script)
    page.drag((40, 5), (40, 5))
    count = page.driver.execute_script("return window.answers")
    start = time.perf_counter()
    while time.perf_counter() < start + seconds:
        page.move(25, 6)
        page.move(-25, -4)
    took = time.perf_counter() - start
    count = page.driver.execute_script("return window.answers") - count
    page.drop()
    return count / took


def resident(process: int) -> float:
    """Megabytes that a process and those that it started hold now."""
    found = re.search(r"VmRSS:\s*(\d+)", Path(f"/proc/{process}/status").read_text())
    assert found
    children = " ".join(path.read_text() for path in Path(f"/proc/{process}/task").glob("*/children")).split()
    return int(found[1]) / 1e3 + sum(resident(int(child)) for child in children)


def rotations(page: Page, server: int, minutes: float) -> tuple[list[float], list[float], int]:
    """Megabytes of the server and its reader, and of the page's scripts, ten times along minutes of turning."""
    mine, theirs, count = [], [], 0
    start = time.monotonic()
    for part in range(1, 11):
        while time.monotonic() < start + 6 * minutes * part:
            page.press("random")
            count += 1
        page.driver.execute_cdp_cmd("HeapProfiler.collectGarbage", {})
        mine.append(resident(server))
        theirs.append(page.driver.execute_script("return performance.memory.usedJSHeapSize") / 1e6)
    return mine, theirs, count


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=1.0, help="of random rotations")
    parser.add_argument("--seconds", type=float, default=10.0, help="of each measurement of speed")
    given = parser.parse_args()
    with viewer() as (address, process):
        table = [
            row("answers, nothing drawn", asyncio.run(answers(address, given.seconds)), "a second", aim=AIM),
            row(
                "answers with votes, nothing drawn",
                asyncio.run(answers(address, given.seconds, layers=["votes"])),
                "a second",
                aim=AIM,
            ),
        ]
        with chromium() as driver:
            page = Page(driver, address)
            table.append(row("dragging in Chromium", dragging(page, given.seconds), "a second", aim=AIM))
            mine, theirs, count = rotations(page, process.pid, given.minutes)
    what = f"after {given.minutes:g} minutes, {count} random rotations"
    for name, figures in (("server and reader of uploads", mine), ("page's scripts", theirs)):
        # The first tenth fills caches.
        table.append(row(f"{name}, {what}", figures[-1], "MB", "after a tenth of it", figures[0], "no growth"))
    report("viewer", table)


if __name__ == "__main__":
    main()
