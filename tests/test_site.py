"""The documentation as a site: it builds without a warning, can be searched, and stays at home."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import pytest

from pages import ROOT, pages

if TYPE_CHECKING:
    from pathlib import Path

LOADS = {
    "audio": "src",
    "embed": "src",
    "iframe": "src",
    "img": "src",
    "link": "href",
    "object": "data",
    "script": "src",
    "source": "src",
    "video": "src",
}
"""The elements that make a browser load something as a page opens, and what says from where."""

ELSEWHERE = re.compile(r"\s*(?:https?:)?//", re.IGNORECASE)
STYLE_LOADS = re.compile(r"(?:url\(|@import)\s*[\"']?\s*(?:https?:)?//", re.IGNORECASE)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site as `make docs` builds it."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict"]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    answer = subprocess.run(
        [*command, "--site-dir", str(folder)],
        cwd=ROOT,
        env=environment,
        check=False,
        capture_output=True,
        text=True,
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return folder


def test_every_page_is_on_the_site(site: Path):
    """A strict build leaves out no page and no broken link; README.md is among the copies."""
    for page in pages():
        guide = page.is_relative_to(ROOT / "docs")
        path = page.relative_to(ROOT / "docs") if guide else "repository/index"
        assert (site / path).with_suffix(".html").is_file(), page


def test_a_word_of_a_page_is_found(site: Path):
    """The search of the site knows the words of the pages, and where they stand."""
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    places = {entry["location"] for entry in index["docs"] if "idempotency" in entry["text"]}
    assert any(place.startswith("batches.html") for place in places)
    assert not any(".py.html" in place for place in places)  # copies of programs would drown them


def test_a_link_to_a_file_leads_to_its_copy(site: Path):
    """What pages link to outside docs/ is a page of the site, with the file in it."""
    copies = list((site / "repository").rglob("*.py.html"))
    assert copies
    assert 'href="repository/bench/LOG.html"' in (site / "index.html").read_text(encoding="utf-8")


def test_no_page_loads_from_another_host(site: Path):
    """A reader without a network sees the whole page, and nobody learns that it was read."""
    found = [
        f"{file.relative_to(site)}: {load}"
        for file in sorted(site.rglob("*.html"))
        for load in _loads(file)
        if ELSEWHERE.match(load)
    ]
    assert found == []
    for file in [*site.rglob("*.css"), *site.rglob("*.html")]:
        style = STYLE_LOADS.search(file.read_text(encoding="utf-8"))
        assert style is None, f"{file.relative_to(site)}: {style}"


def test_no_diagram_fetches_its_script(site: Path):
    """The theme would load a drawing library from another host where a page has a diagram."""
    for file in site.rglob("*.html"):
        assert 'class="mermaid"' not in file.read_text(encoding="utf-8"), file.relative_to(site)


def _loads(file: Path) -> list[str]:
    reader = _Loads()
    reader.feed(file.read_text(encoding="utf-8"))
    return reader.found


class _Loads(HTMLParser):
    """Collects what the elements of a page load."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value for name, value in attrs if value is not None}
        wanted = LOADS.get(tag)
        if wanted in values:
            self.found.append(values[wanted])
        self.found += [part.split()[0] for part in values.get("srcset", "").split(",") if part]
