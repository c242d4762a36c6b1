"""Chromium for tests of what is shown in a browser, and where its pictures go."""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
PICTURES = Path(os.environ.get("ALVEUS_TEST_PICTURES", ROOT / "build" / "pictures"))
CHROMIUM = [*filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome")))]

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@contextmanager
def launched() -> Iterator[Any]:
    """Give a browser of playwright's, which ends with the block."""
    playwright = import_module("playwright.sync_api").sync_playwright
    assert CHROMIUM, "there is no Chromium; make .chromium installs it"
    with playwright() as driver:
        made = driver.chromium.launch(executable_path=CHROMIUM[0], args=FLAGS)
        yield made
        made.close()
