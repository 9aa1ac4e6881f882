"""A real browser for reports: Chromium without a window, where it is installed."""

import shutil
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

ARGUMENTS = ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--hide-scrollbars")
PATIENCE = 60.0
"""Seconds in which the page has to answer; this says nothing about how fast it is."""


class Browser:
    """Chromium on a page: what it shows, and what it complains about."""

    def __init__(self, driver: Any):
        self.driver = driver

    def open(self, path: Path) -> float:
        """Opens a page; returns the milliseconds until its scripts say that it is ready."""
        self.driver.get_log("browser")
        self.driver.get(path.as_uri())
        self.wait("return document.documentElement.dataset.ready === 'true'")
        return self.run("return performance.now()")

    def run(self, script: str) -> Any:
        """What a script returns."""
        return self.driver.execute_script(script)

    def wait(self, script: str) -> Any:
        """What a script returns as soon as that is true."""
        end = time.monotonic() + PATIENCE
        while not (value := self.run(script)):
            assert time.monotonic() < end, f"never true: {script}"
            time.sleep(0.05)
        return value

    def click(self, selector: str) -> None:
        """Clicks on the first element as a user does: it has to be visible, and nothing may cover it."""
        self.driver.find_element("css selector", selector).click()

    def type(self, selector: str, text: str) -> None:
        """Types text into an element."""
        self.driver.find_element("css selector", selector).send_keys(text)

    def text(self, selector: str) -> str:
        """The text of an element, which may be hidden."""
        return self.run(f"return document.querySelector({selector!r}).textContent")

    def complaints(self) -> list[str]:
        """Errors and warnings on the console since the page was opened."""
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]


@contextmanager
def chromium(width: int = 1280, height: int = 900) -> Generator[Browser]:
    """Chromium with a window of some size; it has to be installed."""
    from selenium.webdriver import Chrome, ChromeOptions
    from selenium.webdriver.chrome.service import Service

    options = ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for argument in (*ARGUMENTS, f"--window-size={width},{height}"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = Chrome(options=options, service=Service(shutil.which("chromedriver")))
    try:
        yield Browser(driver)
    finally:
        driver.quit()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium; tests are skipped where it, or its driver, is not installed."""
    if shutil.which("chromium") is None or shutil.which("chromedriver") is None:
        pytest.skip("chromium and chromedriver are not installed (Debian: chromium chromium-driver)")
    with chromium() as opened:
        yield opened
