"""A viewer and a Chromium that shows it, for the benchmark, the browser tests and the screenshots."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import Select

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
    "--hide-scrollbars",
)
SECONDS = 90.0


@contextmanager
def viewer(port: int = 0) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Run `qec view`, by default on a free port. Yields its address and its process."""
    command = [str(Path(sys.executable).with_name("qec")), "view", "--port", str(port), "--no-browser"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.search(r"http://\S+", line)
        assert found, f"qec view printed {line!r}"
        yield found[0], process
    finally:
        process.terminate()
        try:
            process.communicate(timeout=30)
        finally:
            process.kill()


@contextmanager
def chromium(width: int = 1400, height: int = 900, downloads: Path | None = None) -> Iterator[webdriver.Chrome]:
    """Run Chromium with an empty profile; it records every request and the console."""
    profile = tempfile.mkdtemp(prefix="qec-chromium-")
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or "/usr/bin/chromium"
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    if downloads is not None:
        options.add_experimental_option("prefs", {"download.default_directory": str(downloads)})
    driver = webdriver.Chrome(options, webdriver.ChromeService(shutil.which("chromedriver") or "/usr/bin/chromedriver"))
    try:
        resize(driver, width, height)
        yield driver
    finally:
        driver.quit()
        shutil.rmtree(profile, ignore_errors=True)


def resize(driver: webdriver.Chrome, width: int, height: int) -> None:
    """Set the size of the viewport, also below the minimum of a window."""
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


class Page:
    """What a user does on the page and sees there."""

    def __init__(self, driver: webdriver.Chrome, address: str) -> None:
        self.driver = driver
        driver.get("about:blank")
        self.requests()  # discards those of the browser itself
        driver.get(address)
        self.settle()

    def __getitem__(self, name: str) -> WebElement:
        return self.driver.find_element(By.ID, name)

    @property
    def state(self) -> dict[str, Any]:
        """The result as the user saves it."""
        return dict(json.loads(str(self["state"].get_attribute("textContent"))))

    @property
    def error(self) -> str:
        return self["error"].find_element(By.TAG_NAME, "p").text if self["error"].is_displayed() else ""

    def settle(self) -> None:
        """Wait until the response is up to date and drawn at full resolution."""
        self.wait(lambda: self.driver.find_element(By.TAG_NAME, "body").get_attribute("data-settled") == "true")
        # Whether a picture is coarse is decided when it is drawn, so that has to come first.
        self._await_frame()
        self.wait(lambda: self["view"].get_attribute("data-coarse") != "true")
        self._await_frame()

    def _await_frame(self) -> None:
        self.driver.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")

    def wait(self, done: Callable[[], object]) -> None:
        end = time.monotonic() + SECONDS
        while not done():
            assert time.monotonic() < end, f"waited for {SECONDS} s; {self.console()}"
            time.sleep(0.05)

    def press(self, name: str) -> None:
        """Scroll to a button and click it."""
        self.driver.execute_script("arguments[0].scrollIntoView({block: 'nearest'})", self[name])
        self[name].click()
        self.settle()

    def select(self, name: str, value: str) -> None:
        """Choose an option of a list."""
        Select(self[name]).select_by_value(value)
        self.settle()

    def slide(self, name: str, value: int) -> None:
        script = "arguments[0].value = arguments[1]; arguments[0].dispatchEvent(new Event('input'))"
        self.driver.execute_script(script, self[name], value)
        self.settle()

    def upload(self, path: Path, field: str = "file") -> None:
        """Wait until the file is shown or refused."""
        self[field].send_keys(str(path))
        self.wait(lambda: self.error or self.state["shape"] == path.name or field != "file")
        self.settle()

    def drag(self, *steps: tuple[int, int], name: str = "view") -> None:
        """Drag from the centre of an element, where the shape is, by these steps; the button stays down."""
        mouse = ActionChains(self.driver, duration=20).move_to_element(self[name]).click_and_hold()
        for right, down in steps:
            mouse.move_by_offset(right, down)
        mouse.perform()

    def move(self, right: int, down: int) -> None:
        """Move the mouse from where it is."""
        ActionChains(self.driver, duration=20).move_by_offset(right, down).perform()

    def drop(self) -> None:
        ActionChains(self.driver).release().perform()
        self.settle()

    def pixels(self, name: str = "view") -> np.ndarray:
        """Return what an element shows, (H, W, 3)."""
        return np.asarray(Image.open(io.BytesIO(self[name].screenshot_as_png)).convert("RGB"), dtype=np.int16)

    def screenshot(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(self.driver.get_screenshot_as_png())

    def console(self) -> list[str]:
        """Return the errors of scripts since the last call; refused uploads are not among them."""
        entries = (entry for entry in self.driver.get_log("browser") if entry["source"] != "network")
        return [entry["message"] for entry in entries if entry["level"] == "SEVERE"]

    def requests(self) -> set[str]:
        """Return every URL that was requested since the last call."""
        entries = (json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance"))
        found = set()
        for entry in entries:
            if entry["method"] == "Network.requestWillBeSent":
                found.add(entry["params"]["request"]["url"])
            elif entry["method"] == "Network.webSocketCreated":
                found.add(entry["params"]["url"])
        return {address for address in found if address.startswith(("http", "ws"))}
