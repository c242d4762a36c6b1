"""What notebooks show, in a real browser, light and dark; and its pictures for the documentation.

They run in `make test`, which installs the browser and playwright.
"""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import pytest

from alveus import Item, Memory, Summarize
from chromium import PICTURES, launched

pytestmark = pytest.mark.browser

GROUNDS = {"light": ("#ffffff", "#1f1f1f"), "dark": ("#111111", "#e0e0e0")}
"""Ground and text of a notebook in each scheme."""

OUTPUT = """
<!doctype html><meta charset="utf-8">
<style>
  body {{ margin: 16px; background: {ground}; color: {ink}; font: 14px/1.5 system-ui, sans-serif; }}
  table {{ margin-left: auto; margin-right: auto; table-layout: fixed; font-size: 12px; }}
  td, th {{ text-align: right; vertical-align: middle; padding: 0.5em; max-width: none; }}
  tbody tr:nth-child(odd) {{ background: {ground}; }}
  details + details {{ margin-top: 4px; }}
</style>
<main>{display}</main>
"""
"""An output of a notebook; its own rules for tables are as JupyterLab's."""

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>\u202e\u2066 ]]> $x$"

ABOUT = {
    "trips": (
        [
            "A window seat on the night train to {}.",
            "The ferry to {} was late.",
            "A hotel near the station in {}.",
            "A flight to {} over the mountains.",
        ],
        ["Lisbon", "Porto", "Oslo", "Rome", "Vienna", "Kyoto", "Cairo", "Lima"],
    ),
    "kitchen": (
        [
            "Soup with {} and garlic.",
            "Baked {} for dinner.",
            "A recipe for {} pie.",
            "Bought fresh {} at the market.",
        ],
        ["tomatoes", "peanuts", "apples", "leeks", "rice", "lentils", "pears", "plums"],
    ),
    "work": (
        [
            "The {} report is due on Friday.",
            "A meeting about the {} budget.",
            "Fixed a bug in the {} service.",
            "Deployed the {} release.",
        ],
        ["billing", "search", "login", "payment", "mobile", "backup", "mail", "map"],
    ),
}


@pytest.fixture(scope="module")
def browser():
    with launched() as made:
        yield made


@pytest.fixture(scope="module")
def ada():
    """A key with sets about three things."""
    chance = random.Random(19)
    with Memory.open(":memory:") as memory:
        ada, at = memory.key("ada"), datetime(2026, 3, 1, tzinfo=UTC)
        for name, (sentences, things) in ABOUT.items():
            for sentence in sentences:
                for thing in things:
                    at += timedelta(hours=chance.randrange(4, 40))
                    speaker = chance.choice(["Ada", "Ben"])
                    ada.set(name).add(Item(sentence.format(thing), time=at, speaker=speaker))
        memory.settle()
        yield ada


@pytest.fixture
def show(browser):
    """Show displays in a page; in the end, none may have done anything but be there."""
    contexts, complaints = [], []

    def shown(values, scheme, width=900):
        context = browser.new_context(viewport={"width": width, "height": 700})
        contexts.append(context)
        page = context.new_page()
        for event in ("console", "pageerror", "dialog", "request"):
            page.on(event, lambda found, event=event: complaints.append((event, str(found))))
        ground, ink = GROUNDS[scheme]
        display = "<hr>".join(value._repr_html_() for value in values)
        page.set_content(OUTPUT.format(ground=ground, ink=ink, display=display))
        return page

    yield shown
    for context in contexts:
        context.close()
    assert complaints == []


COLOURS = """() => [...document.querySelectorAll("main *")]
  .filter((each) => [...each.childNodes].some((node) => node.nodeType === 3 && node.data.trim()))
  .map((each) => getComputedStyle(each).color)"""

WIDEST = "() => document.documentElement.scrollWidth"


@pytest.mark.parametrize("scheme", GROUNDS)
def test_displays_take_the_colours_of_the_notebook(show, scheme):
    """No text has a colour of its own, nothing is loaded, and nothing that is said runs."""
    with Memory.open(":memory:", embedder="words") as memory:
        key = memory.key(HOSTILE)
        key.short_term.set((HOSTILE,), {HOSTILE: HOSTILE})
        key.set(HOSTILE).add_many([Item(HOSTILE, id=HOSTILE, speaker=HOSTILE), "x" * 1_000_000])
        diary = key.set("diary", capacity=4, compaction=Summarize(), execution="external")
        diary.add_many([f"{HOSTILE} saw {n} boats." for n in range(4)])
        diary.compact()
        made = next(item for item in diary.list() if item.compacted)
        context = key.context("boats", budget_tokens=4_000, exact=[(HOSTILE,)])
        hits = key.search("boats")
        values = [memory, key, key.set(HOSTILE), hits, context, diary.lineage(str(made.id))]
        page = show(values, scheme)
        ink = page.evaluate("() => getComputedStyle(document.body).color")
        assert set(page.evaluate(COLOURS)) == {ink}
        assert page.locator("script, img, main style").count() == 0
        assert page.get_by_text("<script>alert(1)</script>").count() > 5
        assert page.evaluate(WIDEST) == 900


def test_pictures_for_the_documentation(show, ada):
    """`make pictures` keeps them in docs."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    hits = ada.search("Which seat did she have on the train to Porto?", limit=4)
    page = show([hits], "light", width=820)
    page.locator("main").screenshot(path=PICTURES / "notebook-hits.png")
    ada.search("Which seat on the train to Porto?", limit=6).plot().savefig(
        PICTURES / "notebook-scores.png", dpi=80
    )
    ada.map().savefig(PICTURES / "notebook-map.png", dpi=80)
    for name in ("hits", "scores", "map"):
        assert 5_000 < (PICTURES / f"notebook-{name}.png").stat().st_size < 60_000
