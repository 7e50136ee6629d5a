"""The page of `qec view`: responses per second while a shape is rotated, and memory over minutes of rotations.

make browser, then python -m benchmarks.bench_viewer --minutes 10

Chromium draws without a graphics card, on the cores that the network uses; a laptop with one is faster.
"""

import argparse
import asyncio
import json
import re
import time
from pathlib import Path
from typing import Any

from aiohttp import ClientSession
from benchmarks.browser import Page, chromium, viewer
from benchmarks.measure import report, row

from qecnet.algebra import random_quaternion
from qecnet.viewer.session import VOTING_MODEL
from qecnet.viewer.wire import unpack

AIM = "≥ 5"
CORRUPTION = {"points": 10_000, "noise": 0, "outliers": 0, "occlusion": 0, "seed": 0}


def message(number: int, **more: Any) -> str:
    rotation = random_quaternion((), generator=number).double()
    shape = {"kind": "chair", "seed": 1, "rotation": (rotation / rotation.norm()).tolist()}
    return json.dumps({"id": number, "shape": shape, "corruption": CORRUPTION, **more})


async def responses(address: str, seconds: float, **more: Any) -> float:
    """Responses per second to a client that sends the next request at once and draws nothing."""
    async with ClientSession() as session, session.ws_connect(f"{address}/socket", max_msg_size=0) as socket:
        await socket.receive_bytes()
        count, start = -1, 0.0
        while count < 1 or time.perf_counter() < start + seconds:
            await socket.send_str(message(count + 1, **more))
            header, _ = unpack(await socket.receive_bytes())
            assert header["answer"]["label"] == "chair"
            count += 1
            if count == 0:  # the first response includes the shape
                start = time.perf_counter()
        return count / (time.perf_counter() - start)


def drag(page: Page, seconds: float) -> float:
    """Responses per second that the page shows while the rings are dragged."""
    script = """window.responses = 0;
      new MutationObserver(() => window.responses++).observe(document.getElementById("state"), {childList: true})"""
    page.driver.execute_script(script)
    page.drag((40, 5), (40, 5))
    count = int(page.driver.execute_script("return window.responses"))
    start = time.perf_counter()
    while time.perf_counter() < start + seconds:
        page.move(25, 6)
        page.move(-25, -4)
    took = time.perf_counter() - start
    count = int(page.driver.execute_script("return window.responses")) - count
    page.drop()
    return count / took


def resident_megabytes(process: int) -> float:
    """Resident memory of a process and its children."""
    found = re.search(r"VmRSS:\s*(\d+)", Path(f"/proc/{process}/status").read_text())
    assert found
    children = " ".join(path.read_text() for path in Path(f"/proc/{process}/task").glob("*/children")).split()
    return int(found[1]) / 1e3 + sum(resident_megabytes(int(child)) for child in children)


def rotate(page: Page, server: int, minutes: float) -> tuple[list[float], list[float], int]:
    """Rotate for minutes. Returns the memory of the server and of the page, ten times, in MB, and the rotations."""
    server_memory, page_memory, count = [], [], 0
    start = time.monotonic()
    for part in range(1, 11):
        while time.monotonic() < start + 6 * minutes * part:
            page.press("random")
            count += 1
        page.driver.execute_cdp_cmd("HeapProfiler.collectGarbage", {})
        server_memory.append(resident_megabytes(server))
        page_memory.append(page.driver.execute_script("return performance.memory.usedJSHeapSize") / 1e6)
    return server_memory, page_memory, count


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=1.0, help="Minutes of random rotations.")
    parser.add_argument("--seconds", type=float, default=10.0, help="Seconds of each measurement of speed.")
    given = parser.parse_args()
    with viewer() as (address, process):
        table = [
            row("answers, nothing drawn", asyncio.run(responses(address, given.seconds)), "a second", aim=AIM),
            row(
                "answers with votes, nothing drawn",
                asyncio.run(responses(address, given.seconds, layers=["votes"], model=VOTING_MODEL)),
                "a second",
                aim=AIM,
            ),
        ]
        with chromium() as driver:
            page = Page(driver, address)
            table.append(row("dragging in Chromium", drag(page, given.seconds), "a second", aim=AIM))
            server_memory, page_memory, count = rotate(page, process.pid, given.minutes)
    what = f"after {given.minutes:g} minutes, {count} random rotations"
    for name, figures in (("server and reader of uploads", server_memory), ("page's scripts", page_memory)):
        # The first tenth fills caches.
        table.append(row(f"{name}, {what}", figures[-1], "MB", "after a tenth of it", figures[0], "no growth"))
    report("viewer", table)


if __name__ == "__main__":
    main()
