"""Takes the screenshots of docs/view.md and the README: python -m tests.viewer.screenshots docs/images"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from benchmarks.browser import Page, chromium, resize, viewer

from qecnet import DEFAULT_MODEL


def take(folder: Path) -> None:
    """A rotated chair next to the prediction of the baseline, the votes for its pose, what a camera sees of it, likely
    orientations, and a narrow window."""
    with viewer() as (address, _), chromium(1400, 900) as driver:
        page = Page(driver, address)
        page.press("compare")
        rotate(page)
        save(page, folder / "view_rotated.png")
        page.press("compare")
        page.press("layer-voters")
        page.press("layer-votes")
        page.press("offer")
        save(page, folder / "view_votes.png")
        page.press("layer-voters")
        page.press("layer-votes")
        page.select("model", DEFAULT_MODEL)
        page.press("reset")
        page.press("see")
        page.drag((150, 15), (150, 15), name="name")  # which lies over the background
        page.drop()
        save(page, folder / "view_camera.png")
        page.press("whole")
        page.select("model", "upright")
        page.select("kind", "night_stand")
        rotate(page)
        save(page, folder / "view_candidates.png")
        page.select("kind", "chair")
        page.select("model", DEFAULT_MODEL)
        rotate(page)
        resize(driver, 420, 800)
        time.sleep(1)
        driver.execute_script("scrollTo(0, 0)")
        page.settle()
        save(page, folder / "view_narrow.png")


def rotate(page: Page) -> None:
    """Press "Random rotation", which is made the same each time."""
    page.driver.execute_script("Math.random = () => 0.37")
    page.press("random")
    page.settle()


def save(page: Page, path: Path) -> None:
    """Take a screenshot from the top of the panel, without the response time, which depends on the machine."""
    page.driver.execute_script("document.getElementById('panel').scrollTo(0, 0)")
    page.driver.execute_script("document.getElementById('speed').closest('div').hidden = true")
    page.screenshot(path)


if __name__ == "__main__":
    take(Path(sys.argv[1]))
