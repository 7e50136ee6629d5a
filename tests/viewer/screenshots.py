"""The pictures of docs/view.md and the README: python -m tests.viewer.screenshots docs/images"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from tests.viewer.browser import Page, chromium, resize, viewer


def take(folder: Path) -> None:
    """A chair that was turned, beside what the other network makes of it; and who voted for what, also narrow."""
    with viewer() as (address, _), chromium(1400, 900) as driver:
        page = Page(driver, address)
        page.press("compare")
        turn(page)
        page.shot(folder / "view_turned.png")
        page.press("compare")
        page.press("layer-voters")
        page.press("layer-votes")
        driver.execute_script("document.getElementById('panel').scrollTo(0, 0)")
        page.shot(folder / "view_votes.png")
        page.press("layer-voters")
        page.press("layer-votes")
        resize(driver, 420, 800)
        time.sleep(1)
        driver.execute_script("scrollTo(0, 0)")
        page.settle()
        page.shot(folder / "view_narrow.png")


def turn(page: Page) -> None:
    """By what the random-rotation button would do, but the same each time."""
    page.driver.execute_script("Math.random = () => 0.37")
    page.press("random")
    page.driver.execute_script("document.getElementById('panel').scrollTo(0, 0)")
    page.settle()


if __name__ == "__main__":
    take(Path(sys.argv[1]))
