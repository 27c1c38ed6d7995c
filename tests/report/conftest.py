"""A headless Chromium, where there is one."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

PLACES = ("/usr/lib/chromium/chromium", "chromium", "chromium-browser", "google-chrome")
"""Debian's `chromium` is a shell script around the first."""


def find_browser() -> str | None:
    """Return a Chromium of this machine."""
    return next((found for place in PLACES if (found := shutil.which(place))), None)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    api = pytest.importorskip("playwright.sync_api", reason="no playwright: pip install playwright")
    own = Path.home() / ".cache" / "ms-playwright"
    place = find_browser()
    if place is None and not own.is_dir():
        pytest.skip("no Chromium: apt-get install chromium, or playwright install chromium")
    with api.sync_playwright() as playwright:
        try:
            started = playwright.chromium.launch(
                executable_path=place, args=["--no-sandbox", "--disable-gpu"], timeout=600_000
            )
        except api.Error as error:
            pytest.skip(f"Chromium does not start here: {str(error).splitlines()[0]}")
        yield started
        started.close()
