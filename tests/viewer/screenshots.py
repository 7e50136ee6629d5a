"""Takes the screenshots of docs/view.md and the README: python -m tests.viewer.screenshots docs/images"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from benchmarks.browser import Page, chromium, resize, viewer


def take(folder: Path) -> None:
    """A rotated chair beside the prediction of the baseline, the votes for its pose, and a narrow window."""
    with viewer() as (address, _), chromium(1400, 900) as driver:
        page = Page(driver, address)
        page.press("compare")
        rotate(page)
        page.screenshot(folder / "view_rotated.png")
        page.press("compare")
        page.press("layer-voters")
        page.press("layer-votes")
        driver.execute_script("document.getElementById('panel').scrollTo(0, 0)")
        page.screenshot(folder / "view_votes.png")
        page.press("layer-voters")
        page.press("layer-votes")
        resize(driver, 420, 800)
        time.sleep(1)
        driver.execute_script("scrollTo(0, 0)")
        page.settle()
        page.screenshot(folder / "view_narrow.png")


def rotate(page: Page) -> None:
    """Presses "Random rotation", which is made the same each time."""
    page.driver.execute_script("Math.random = () => 0.37")
    page.press("random")
    page.driver.execute_script("document.getElementById('panel').scrollTo(0, 0)")
    page.settle()


if __name__ == "__main__":
    take(Path(sys.argv[1]))
