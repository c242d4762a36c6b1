"""The pages of the inspector in a real browser, on a memory of 100,000 items.

They run in `make test`, which installs the browser, playwright and axe-core.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from base64 import b64encode
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from statistics import median
from urllib.parse import urlencode

import pytest

from alveus import Agent, InputEvent, LocalRunner, Memory, Trim, action
from alveus.errors import RunFailed
from alveus.server.tokens import TokenFile
from inspected import EVE, MARKUP, inspecting, remember

pytestmark = pytest.mark.browser

ROOT = Path(__file__).parents[1]
AXE = ROOT / "build" / "axe" / "node_modules" / "axe-core" / "axe.min.js"
PICTURES = Path(os.environ.get("ALVEUS_TEST_PICTURES", ROOT / "build" / "pictures"))
RENEW = "ALVEUS_TEST_PICTURES" in os.environ
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

WAIT_MS = 30_000
"""A bound against hanging; what is waited for decides."""

DESK, PHONE = {"width": 1200, "height": 820}, {"width": 390, "height": 800}

SMALL = {"width": 900, "height": 640}
"""Of a picture that takes many bytes."""

HOSTILE_SET = "<i>set</i>"


def at(page, **query):
    return f"#/{page}?{urlencode(query)}" if query else f"#/{page}"


PAGES = {
    "overview": (at(""), "All is well"),
    "keys": (at("keys"), "ada"),
    "key": (at("key", key="ada"), "What this commit changed"),
    "learnt": (at("key", key="margaret"), "People, places and things"),
    "set": (at("key", key="ada", set="notes"), "entry 99,999."),
    "conversation": (at("key", key="ada", set="support"), "That is kind".lower()),
    "search": (at("search", q="window seat on the train", key="ada"), "words 1.000"),
    "compared": (
        at("search", q="window seat on the train", key="ada", q2="lentil soup", key2="ada"),
        "only here",
    ),
    "summary": (at("item", key="ada", set="diary", id="day-0"), "As a list"),
    "item": (at("item", key="ada", set="diary", id="day-2"), "3 versions"),
    "hostile": (at("item", key=EVE, set=HOSTILE_SET, id="hostile-0"), MARKUP),
    "map": (at("map", key="ada"), "more are left out"),
    "prompt": (
        at("prompt", q="Which seat do I like?", key="ada", budget=400),
        "What would be sent",
    ),
    "compactions": (at("compactions", key="ada", set="diary"), "Walked by the river."),
    "runs": (at("runs"), "Booker · linus"),
    "run": (at("run", run=2), "Step by step"),
    "commits": (at("audit"), "1 compaction"),
    "forgotten": (at("audit", tab="receipts"), "Receipt"),
    "held": (at("audit", tab="quarantine"), "praise Acme"),
}
"""Each page, and what is to be read on it once it is whole."""

LOOKED_AT = {"map by speaker": (at("map", key="ada", set="notes", by="speaker"), "100,000 items;")}
"""The same of pages in another state, which are looked at too."""

IN_DOCS = {"key": "key", "search": "search", "map": "map by speaker"}
"""Pictures in the documentation, and what they show."""


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("pages") / "memory.db"
    remember(path, items=100_000)
    return path


@pytest.fixture(scope="module")
def inspected(file):
    with inspecting(file) as made:
        yield made


@pytest.fixture
def written(tmp_path):
    """One of its own, which may write, of few items."""
    remember(tmp_path / "memory.db", items=100)
    with inspecting(tmp_path / "memory.db", "--write") as made:
        yield made


@pytest.fixture(scope="module")
def browser():
    playwright = import_module("playwright.sync_api").sync_playwright
    assert CHROMIUM, "there is no Chromium; make .chromium installs it"
    with playwright() as driver:
        made = driver.chromium.launch(executable_path=CHROMIUM[0], args=FLAGS)
        yield made
        made.close()


@pytest.fixture
def visit(browser):
    """Open pages; in the end, none of them may have complained or asked anybody else."""
    contexts, complaints = [], []

    def opened(url, *, viewport=DESK, scheme="light", ignored="(?!)"):
        context = browser.new_context(
            viewport=viewport, color_scheme=scheme, locale="en-US", timezone_id="Asia/Tokyo"
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(WAIT_MS)
        origin = url.split("/ui/")[0]

        def heard(message):
            # A page may outlive its server by a moment; it asks no other, or `asked` hears of it.
            known = f"{ignored}|net::ERR_CONNECTION_REFUSED"
            if message.type in ("error", "warning") and not re.search(known, message.text):
                complaints.append(message.text)

        def asked(request):
            if not request.url.startswith(origin):
                complaints.append(f"asks {request.url}")

        page.on("console", heard)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: complaints.append(f"dialog {dialog.message}"))
        page.on("request", asked)
        page.goto(url)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert complaints == []


def read(page, text):
    """Wait until a text is there to be read."""
    page.locator("main").get_by_text(text).first.wait_for()


def shown(page, address, text):
    """Go to a page; wait until it is whole."""
    page.evaluate(
        """address => {
            if (location.hash === address) return;
            document.querySelector("main").firstElementChild?.setAttribute("data-before", "");
            location.hash = address;
        }""",
        address,
    )
    page.wait_for_function("() => !document.querySelector('main > [data-before]')")
    read(page, text)


@pytest.mark.parametrize("viewport", [DESK, PHONE], ids=["desk", "phone"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_is_whole_and_accessible(inspected, visit, scheme, viewport):
    """On a desk and on a phone, light and dark: nothing runs off the side, axe finds nothing."""
    assert AXE.exists(), f"{AXE} is missing; make .axe installs it"
    page = visit(inspected.url, scheme=scheme, viewport=viewport)
    read(page, "All is well")
    page.evaluate(AXE.read_text("utf-8"))
    for name, (address, text) in PAGES.items():
        shown(page, address, text)
        wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0, f"{name} is {wide} px too wide"
        found = page.evaluate("async () => (await axe.run(document)).violations")
        told = [(each["id"], each["nodes"][0]["html"]) for each in found]
        assert told == [], name
        assert page.evaluate("document.documentElement.dataset.theme") == scheme


def test_hostile_texts_are_shown_as_texts(inspected, visit):
    """No markup of an item becomes an element; marks that hide or reverse are named."""
    page = visit(inspected.url)
    for name in range(2):
        place = at("item", key=EVE, set=HOSTILE_SET, id=f"hostile-{name}")
        shown(page, place, ["<script>", "⟨U+202E⟩tcejorp"][name])
        assert page.locator("main").locator("script, img, svg, iframe, u, i, b b").count() == 0
    shown(page, at("key", key=EVE), "<img src=x")
    shown(page, at("key", key=EVE, set=HOSTILE_SET), "⟨U+202E⟩")
    shown(page, at("item", key=EVE, set=HOSTILE_SET, id="hostile-2"), "A megabyte")
    assert len(page.locator("main").inner_text()) < 20_000
    page.get_by_role("button", name=re.compile("Show all")).first.click()
    page.wait_for_function("() => document.querySelector('main').textContent.length > 1_000_000")
    shown(page, at("search", q="pay the project", key=EVE), "⟨U+202E⟩")
    assert "owned" not in page.title()


LARGE = 123_456_789_012_345_678_901_234_567_890


def test_values_are_shown_as_they_are_kept(visit, tmp_path):
    """No digit of a large number is lost, neither shown nor brought back; bytes are no object."""
    with Memory.open(tmp_path / "memory.db", embedder="static") as memory:
        tree = memory.key("ada").short_term
        for name, value in {"large": LARGE, "odd": 2**53 + 1, "$none": 1, "raw": b"\xff"}.items():
            tree.set((name,), value)
        tree.set("lost", [float("nan"), -LARGE])
        memory.key("ada").add({"seats": LARGE}, id="seats", text="Seats.", metadata={"$": -LARGE})
        memory.key("ada").set("default").update("seats", text="Some seats.", metadata={})
    with inspecting(tmp_path / "memory.db", "--write") as made:
        page = visit(made.url)
        shown(page, at("key", key="ada"), "What this commit changed")
        told = page.locator(".tree").inner_text().splitlines()
        assert told[:4] == [
            f"large: {LARGE}",
            "odd: 9007199254740993",
            "$none: 1",
            "raw: bytes /w==",
        ]
        assert str(-LARGE) in told[4]
        shown(page, at("item", key="ada", set="default", id="seats"), f'{{"seats":{LARGE}}}')
        page.get_by_role("button", name="Bring back version 1").click()
        read(page, "3 versions")
        read(page, str(-LARGE))
        page.close()
    with Memory.open(tmp_path / "memory.db", embedder="static") as memory:
        item = memory.key("ada").get("seats")
    assert item is not None
    assert (item.value, item.text, item.metadata) == ({"seats": LARGE}, "Seats.", {"$": -LARGE})


def test_no_name_or_mark_breaks_a_page(visit, tmp_path):
    """Tags that hide a text are named, a long id is broken; what is not there is said plainly."""
    name = "constructor " * 20 + "x" * 700
    with Memory.open(tmp_path / "memory.db", embedder="static") as memory:
        memory.key(name[:900]).set(name[:200]).add(
            "Hid\U000e0041den, \u061c and \u206aquiet",
            id="x" * 999,
            metadata={"y" * 100: 1},
            speaker="z" * 100,
        )
        memory.key(name[:900]).short_term.set(("y" * 200,), 1)
        links = memory.key(name[:900]).set("links")
        links.add_many([f"https://example.org/{'z' * 300}", "Tea."])
        links.compact(Trim(n=2))
    with inspecting(tmp_path / "memory.db") as made:
        page = visit(made.url, viewport=PHONE, ignored="404")
        read(page, "All is well")
        place = at("item", key=name[:900], set=name[:200], id="x" * 999)
        shown(page, place, "Hid⟨U+E0041⟩den, ⟨U+061C⟩ and ⟨U+206A⟩quiet")
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
        for address, text in (
            (at("search", q="hidden", key=name[:900]), "z" * 60),
            (at("prompt", q="hidden", key=name[:900]), "exact value"),
            (at("compactions", key=name[:900], set="links"), "2 items became 0"),
        ):
            shown(page, address, text)
            wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
            assert wide <= 0, f"{address[:20]} is {wide} px too wide"
        shown(page, "#/constructor", "There is no such page.")
        shown(page, at("audit", tab="constructor"), "1 item written")
        shown(page, at("audit", commit=99), "This space has no commit 99.")


class Breaking(Agent):
    """Fails with a message that has no place to break."""

    @action(InputEvent)
    def break_off(self, event, ctx):
        """Fail."""
        raise ValueError("token=" + "x" * 290)


def test_what_is_blank_or_cannot_be_broken_is_seen(visit, tmp_path):
    """A key of spaces is a link one can press; the error of a run runs off no page."""
    with Memory.open(tmp_path / "memory.db", embedder="static") as memory:
        memory.key("  ").add("", id="empty")
        memory.key("  ").add(" \n ", id="blank")
        with LocalRunner(Breaking, memory) as runner, suppress(RunFailed):
            runner.handle("ada", 1)
    with inspecting(tmp_path / "memory.db") as made:
        page = visit(made.url, viewport=PHONE)
        read(page, "All is well")
        for address in (at("runs"), at("run", run=1)):
            shown(page, address, "token=x")
            wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
            assert wide <= 0, f"{address} is {wide} px too wide"
        shown(page, at("keys"), '" "')
        page.get_by_role("link", name='" "').click()
        page.get_by_role("link", name="default").click()
        page.get_by_role("link", name="(no text)").click()
        page.wait_for_function("() => document.title.startsWith('Item')")
        read(page, "(no text)")
        shown(page, at("item", key="  ", set="default", id="blank"), '" \\n "')


def test_a_hundred_thousand_items_are_a_list_of_few_elements(inspected, visit):
    """However far one goes, only rows in sight are elements."""
    page = visit(inspected.url)
    shown(page, at("key", key="ada", set="notes"), "entry 99,999.")
    rows = page.locator(".virtual-rows > li")
    for far in (2_000, 8_000):
        page.wait_for_function(
            """rows => {
                const box = document.querySelector(".virtual");
                box.scrollTop = box.scrollHeight;
                return box.scrollHeight > rows * 44;
            }""",
            arg=far,
        )
        assert rows.count() < 60
    assert rows.first.get_attribute("aria-setsize") == "100000"
    page.get_by_role("link", name="Show the oldest first").click()
    read(page, "entry 0.")


def test_a_thousand_sets_are_a_list_of_few_elements(visit, tmp_path):
    """In the order of their names; those of a key that is written to stay where they are."""
    names = [f"set {number:04}" for number in range(1_000)]
    with Memory.open(tmp_path / "memory.db", embedder="static") as memory:
        with memory.key("ada").batch() as batch:
            for name in names:
                batch.set(name).add("A note.")
        with inspecting(tmp_path / "memory.db") as made:
            page = visit(made.url)
            shown(page, at("key", key="ada"), names[0])
            rows = page.locator(".virtual-rows > li")
            assert rows.count() < 60
            assert rows.first.get_attribute("aria-setsize") == "1000"
            page.locator(".virtual").evaluate("box => { box.scrollTop = box.scrollHeight; }")
            read(page, names[-1])
            memory.key("ada").short_term.set("mood", "good")
            page.get_by_role("button", name="Show them").wait_for()
            assert page.get_by_role("link", name=names[-1]).is_visible()
            page.get_by_role("button", name="Show them").click()
            read(page, "mood")


def test_everything_can_be_reached_by_keyboard(inspected, visit):
    """From the first page to an item of a search, through a list, and to the help and back."""
    page = visit(inspected.url)
    read(page, "All is well")
    page.keyboard.press("g")
    page.keyboard.press("s")
    page.wait_for_function("() => document.activeElement.name === 'query'")
    page.keyboard.type("lentil soup")
    read(page, "hits")
    page.locator(".hit a").first.wait_for()
    page.wait_for_function("() => document.title.startsWith('Search')")
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.matches('.hit a')"):
            break
    page.keyboard.press("Enter")
    read(page, "What is known of it")
    page.keyboard.press("?")
    page.get_by_role("dialog").wait_for()
    page.keyboard.press("Escape")
    page.get_by_role("dialog").wait_for(state="hidden")
    page.keyboard.press("t")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    shown(page, at("key", key="ada", set="notes"), "entry 99,999.")
    page.locator(".virtual").focus()
    for _ in range(30):
        page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.dataset.at") == "29"
    page.keyboard.press("Enter")
    read(page, "entry 99,970.")


def test_a_field_can_be_left_by_keyboard(inspected, visit):
    """By Escape, after which letters are keys again; ↓ leads from the field of keys to the list."""
    page = visit(inspected.url)
    read(page, "All is well")
    for key in ("g", "k"):
        page.keyboard.press(key)
    page.wait_for_function("() => document.activeElement.name === 'prefix'")
    page.locator(".virtual-rows a").first.wait_for()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.dataset.at") == "1"
    for key in ("g", "s"):
        page.keyboard.press(key)
    page.wait_for_function("() => document.activeElement.name === 'query'")
    for key in ("Escape", "g", "k"):
        page.keyboard.press(key)
    page.wait_for_function("() => document.activeElement.name === 'prefix'")


def test_exact_memory_is_seen_as_of_each_commit(inspected, visit):
    """The slider goes back by keys and buttons, and says what each commit changed."""
    page = visit(inspected.url)
    shown(page, at("key", key="ada"), "What this commit changed")
    assert page.locator(".change del").inner_text() == "Dear Grace,"
    page.get_by_role("slider").press("ArrowLeft")
    page.wait_for_function("() => document.querySelector('.tree').textContent.includes('draft')")
    page.get_by_role("slider").press("Home")
    page.wait_for_function("() => !document.querySelector('.tree').textContent.includes('city')")
    assert page.get_by_role("button", name="One commit back").is_disabled()
    page.get_by_role("button", name="One commit on").click()
    page.wait_for_function(
        "() => document.querySelector('.tree .changed')?.textContent === 'city: London'"
    )


def test_versions_lineage_and_times_of_an_item(inspected, visit):
    """Words that went and came, what a summary was made from, in the zone of who reads."""
    page = visit(inspected.url)
    shown(page, at("item", key="ada", set="diary", id="day-2"), "3 versions")
    assert page.locator(".diff").first.locator("del").all_inner_texts() == ["Linus"]
    read(page, "Mar 3, 2026, 9:00 AM")
    shown(page, at("key", key="ada", set="diary"), "A quiet start")
    page.get_by_role("link", name=re.compile("A quiet start")).click()
    graph = page.get_by_role("region", name="Graph")
    graph.locator("text").get_by_text("Walked by the river.").wait_for()
    graph.get_by_role("link").first.focus()
    page.keyboard.press("Enter")
    read(page, "Replaced by a summary")
    graph.get_by_role("link").last.click()
    read(page, "It stands for 2 items since")


def test_a_reading_leads_to_its_run(inspected, visit):
    """Which question found it, and what the run did with it."""
    page = visit(inspected.url)
    shown(page, at("item", key="linus", set="trips", id="porto"), "a trip to Porto")
    page.get_by_role("link", name="Run 1").click()
    read(page, "“a trip to Porto” found 1 item")


def test_two_searches_stand_side_by_side(inspected, visit):
    """A second one begins as the first; each hit says where the other has it."""
    page = visit(inspected.url)
    shown(page, at("search", q="lentil soup", key="ada", limit=3), "3 hits")
    page.get_by_role("button", name="Compare with another").click()
    first, second = (page.get_by_role("region", name=f"{n} search") for n in ("First", "Second"))
    second.get_by_text("the same place there").nth(2).wait_for()
    second.get_by_label("Sets", exact=True).fill("diary")
    second.get_by_text("only here").first.wait_for()
    first.get_by_text("only here").first.wait_for()
    assert "set2=diary" in page.url
    page.reload()
    second.get_by_text("only here").first.wait_for()
    page.get_by_role("button", name="Only the first").click()
    second.wait_for(state="hidden")
    assert "2=" not in page.url.split("?")[1]


def test_versions_and_summaries_are_undone_where_one_sees_them(written, visit):
    """An older version becomes a new one; a summary gives its sources back."""
    page = visit(written.url)
    shown(page, at("item", key="ada", set="diary", id="day-2"), "3 versions")
    page.get_by_role("button", name="Bring back version 1").click()
    read(page, "4 versions")
    page.locator("main .text").first.get_by_text("Met Grace.", exact=True).wait_for()
    shown(page, at("key", key="ada", set="diary"), "A quiet start")
    page.get_by_role("link", name=re.compile("A quiet start")).click()
    page.get_by_role("button", name="Undo the compaction").click()
    shown(page, at("key", key="ada", set="diary"), "Walked by the river.")


def test_a_box_on_the_map_selects_and_lists(inspected, visit):
    """By pointer and by keys; what is listed leads to its page, and so does one point."""
    page = visit(inspected.url)
    shown(page, at("map", key="ada", set="notes"), "100,000 items")
    area = page.locator(".map")
    box = area.bounding_box()
    page.mouse.move(box["x"] + 2, box["y"] + 2)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] - 2, steps=5)
    page.mouse.up()
    read(page, re.compile(r"\d+,\d+ of 100,000 items selected"))
    rows = page.locator(".virtual-rows > li")
    rows.first.wait_for()
    assert rows.count() < 60
    page.get_by_role("button", name="Zoom in").click()
    page.get_by_role("button", name="Show all").click()
    read(page, "100,000 items;")
    area.press("ArrowRight")
    read(page, re.compile(r"of 100,000 items selected"))
    page.locator(".map-box").wait_for()  # it is drawn with the next frame
    before = page.locator(".map-box").bounding_box()
    area.press("Shift+ArrowRight")
    page.wait_for_function(
        "wide => document.querySelector('.map-box').getBoundingClientRect().width > wide + 5",
        arg=before["width"],
    )
    area.press("Escape")
    read(page, "100,000 items;")
    page.get_by_label("Colour by").select_option("speaker")
    page.locator(".map-legend").get_by_text("Barbara").wait_for()
    assert "by=speaker" in page.url


def test_a_point_says_what_it_is(written, visit):
    """Under the pointer; pressed, it alone is selected. New commits wait until one asks."""
    page = visit(written.url)
    shown(page, at("map", key=EVE, by="speaker"), "3 items")
    assert page.locator(".map-legend").inner_text().startswith("<u>Eve</u> 3")
    place = page.evaluate(
        """async () => {
            const canvas = document.querySelector(".map canvas");
            await new Promise(requestAnimationFrame);
            const { width, height } = canvas, ratio = width / canvas.clientWidth;
            const { data } = canvas.getContext("2d").getImageData(0, 0, width, height);
            const at = data.findIndex((value, i) => i % 4 === 3 && value > 0) >> 2;
            const { left, top } = canvas.getBoundingClientRect();
            return [left + (at % width) / ratio + 2, top + Math.floor(at / width) / ratio + 2];
        }"""
    )
    page.mouse.move(*place)
    page.locator(".near").get_by_text("<u>Eve</u>").wait_for()
    page.mouse.click(*place)
    read(page, "1 of 3 items selected")
    assert page.locator("main").locator("script, img, iframe, u, b b").count() == 0
    page.locator(".virtual-rows a").first.wait_for()
    with Memory.open(written.file, embedder="static") as memory:
        memory.key(EVE).set(HOSTILE_SET).add("Another.", speaker="Eve")
    page.get_by_role("button", name="Draw again").click()
    read(page, "4 items;")
    page.locator(".map").focus()
    for press in ("ArrowUp", "Enter", "Backspace"):
        page.keyboard.press(press)
    read(page, "4 items;")


def test_what_cannot_be_mapped_says_why(visit, tmp_path):
    """An embedder without vectors is named."""
    with Memory.open(tmp_path / "memory.db", embedder="words") as memory:
        memory.key("ada").add("Keeps bees.")
    with inspecting(tmp_path / "memory.db", "--embedder", "words") as made:
        page = visit(made.url, ignored="400")
        shown(page, at("map", key="ada"), "There is no map of it.")
        page.close()


def test_what_was_learnt_is_told_by_person_and_thing(inspected, visit):
    page = visit(inspected.url)
    shown(page, at("key", key="margaret"), "People, places and things")
    page.get_by_role("button", name=re.compile("^Radia")).click()
    page.get_by_role("heading", name="Radia").wait_for()
    page.locator("[role=status] li").get_by_text("sister Radia").first.wait_for()


def test_another_space_is_chosen_on_the_first_page(written, visit):
    """It stays chosen in this tab, and everything is then of it."""
    with Memory.open(written.file, space="other", embedder="static") as memory:
        memory.key("hal").add("Knows no contractions.")
    page = visit(written.url)
    page.get_by_label("Space").select_option("other")
    read(page, "hal")
    page.reload()
    shown(page, at("keys"), "hal")
    assert page.locator("main").get_by_text("ada").count() == 0


def test_commits_of_other_processes_appear_by_themselves(written, visit):
    """The first page and a search change while one looks at them."""
    page = visit(written.url)
    read(page, "All is well")
    page.locator(".live[data-on='true']").wait_for()
    before = int(page.locator(".figure b").nth(2).inner_text())
    with Memory.open(written.file, embedder="static") as memory:
        memory.key("grace").add("Keeps bees.")
    page.wait_for_function(
        "before => Number(document.querySelectorAll('.figure b')[2].textContent) > before",
        arg=before,
    )
    read(page, "grace")


def test_lists_follow_unless_somebody_moved_in_them(written, visit):
    """Keys, sets, conversations and knowledge; a list that was scrolled waits for a click."""
    page = visit(written.url)
    read(page, "All is well")
    with Memory.open(written.file, embedder="static") as memory:
        shown(page, at("keys"), "ada")
        memory.key("bea").add("Likes tea.")
        read(page, "bea")
        shown(page, at("key", key="ada", set="support"), "is kind")
        memory.key("ada").conversation("support").add({"role": "assistant", "content": "Glad to."})
        read(page, "Glad to.")
        shown(page, at("key"), "opening hours")
        memory.knowledge.set("menus").add("Soup on Mondays.")
        read(page, "menus")
        shown(page, at("key", key="ada", set="notes"), "entry 99.")
        memory.key("ada").set("notes").add("Came by while nobody moved.")
        read(page, "while nobody moved")
        read(page, "101 items")
        page.evaluate("document.querySelector('.virtual').scrollTop = 900")
        memory.key("ada").set("notes").add("Came by while somebody read.")
        page.get_by_role("button", name="Show them").click()
        read(page, "while somebody read")


def test_what_somebody_opened_or_moved_stays_until_he_asks(written, visit):
    """The slider, details of commits and runs, a focused link; facts follow as values do."""
    page = visit(written.url)
    read(page, "All is well")
    page.locator(".live[data-on='true']").wait_for()
    shown(page, at("key", key="ada"), "What this commit changed")
    page.get_by_label("One commit back").click()
    slider = page.get_by_label("Moment that is shown")
    past = slider.input_value()
    followed(written, page)
    page.get_by_role("button", name="Show them").wait_for()
    assert slider.input_value() == past
    page.get_by_role("button", name="Show them").click()
    page.wait_for_function(
        "past => document.querySelector('.slider input').value > past + 1", arg=int(past)
    )
    assert page.get_by_role("button", name="Show them").count() == 0

    for address, text in (
        (at("audit"), "1 compaction"),
        (at("run", run=2), "Where in the code"),
        (at("item", key="ada", set="diary", id="day-0"), "As a list"),
    ):
        shown(page, address, text)
        page.locator("main details:not([open]) summary").first.click()
        followed(written, page)
        page.get_by_role("button", name="Show them").wait_for()
        assert page.locator("main details[open]").count() == 1

    shown(page, at("search", q="window seat", key="ada"), "words")
    page.locator(".hit a").nth(2).focus()
    followed(written, page)
    page.get_by_role("button", name="Show them").wait_for()
    assert page.evaluate("document.activeElement.matches('.hit a')")

    shown(page, at("key", key="grace"), "No values yet.")
    with Memory.open(written.file, embedder="static") as memory:
        memory.key("grace").learn(["My name is Grace. I keep bees."], model=None)
    read(page, "Facts that were learnt")


def followed(inspected, page):
    """Commit something, and wait until a page has heard of it, and of all before."""
    with Memory.open(inspected.file, embedder="static") as memory:
        memory.key("ada").short_term.increment("visits")
        last = memory.stats().store.commits
    page.get_by_text(f"Commit {last}", exact=True).wait_for()


def test_what_may_write_forgets_with_a_receipt_and_accepts(written, visit):
    """First it says what would go; then it is gone, and the audit has the receipt."""
    page = visit(written.url)
    shown(page, at("item", key="ada", set="diary", id="day-2"), "3 versions")
    page.get_by_role("button", name="Forget this item").click()
    read(page, "What would be erased")
    followed(written, page)  # nor does a commit of others take away what somebody reads
    page.get_by_role("button", name="Forget for good").click()
    read(page, "Gone from every file of the store")
    followed(written, page)
    read(page, "Gone from every file of the store")
    assert page.get_by_text("Met Grace").count() == 0
    shown(page, at("audit", tab="receipts"), "Receipt")
    assert page.get_by_text("Receipt").count() == 2
    shown(page, at("audit", tab="quarantine"), "praise Acme")
    page.get_by_role("button", name="Accept").click()
    page.get_by_text("Nothing is held back.").wait_for()


def test_a_compaction_is_undone(written, visit):
    """What stood there before comes back, and the page says so by itself."""
    page = visit(written.url)
    shown(page, at("key", key="ada", set="diary"), "A quiet start")
    page.get_by_role("link", name="Compactions").click()
    page.get_by_role("button", name="Undo").click()
    page.locator("main").get_by_text("undone", exact=True).wait_for()
    shown(page, at("key", key="ada", set="diary"), "Walked by the river.")


def test_a_failed_run_says_why_and_can_be_discarded(written, visit):
    """From the first page to what it did, and what it failed at."""
    page = visit(written.url)
    read(page, "All is well")
    page.get_by_role("link", name="1 run to be decided").click()
    page.get_by_role("link", name="Run 2").click()
    read(page, "no train goes to Atlantis")
    read(page, re.compile("free_seat → 8 by the window"))
    page.get_by_role("button", name="Discard").click()
    page.locator("main").get_by_text("Discarded", exact=True).wait_for()
    shown(page, at("run", run=1), "by the window")
    read(page, "Put out")


def test_without_write_nothing_is_offered(inspected, visit):
    page = visit(inspected.url)
    shown(page, at("item", key="ada", set="diary", id="day-2"), "These pages only read.")
    assert page.get_by_role("button", name=re.compile("Forget")).count() == 0


def test_empty_pages_teach(visit, tmp_path):
    """Each says what will be there, and how."""
    with Memory.open(tmp_path / "memory.db", embedder="static"):
        pass
    with inspecting(tmp_path / "memory.db") as made:
        page = visit(made.url)
        read(page, "Nothing is remembered yet.")
        for address, text in (
            (at("keys"), "No keys yet."),
            (at("search"), "Ask in your own words."),
            (at("prompt"), "Ask as a user would."),
            (at("map"), "No points yet."),
            (at("audit"), "No commits yet."),
            (at("audit", tab="receipts"), "Nothing was forgotten."),
            (at("audit", tab="quarantine"), "Nothing is held back."),
            (at("key", key="ada"), "No values yet."),
            (at("elsewhere"), "There is no such page."),
        ):
            shown(page, address, text)
        page.close()


def test_a_token_is_asked_for_where_there_are_tokens(visit, file, tmp_path):
    """It is kept in the tab, and sent with every request."""
    secret = TokenFile(tmp_path / "tokens.json").add("me", access="admin", space=None, keys="")
    with inspecting(file, "--tokens", tmp_path / "tokens.json") as made:
        page = visit(made.url, ignored="401")
        page.get_by_label("Token").fill(secret)
        page.get_by_role("button", name="Go on").click()
        read(page, "All is well")
        assert secret not in page.url
        page.close()


def test_a_token_that_is_none_can_be_given_again(visit, tmp_path):
    """Also one that no header can carry; one for another space shows that space."""
    file = TokenFile(tmp_path / "tokens.json")
    secret = file.add("travel", access="read", space="travel", keys="")
    with Memory.open(tmp_path / "memory.db", space="travel", embedder="static") as memory:
        memory.key("ada").add("Prefers window seats.")
    with inspecting(tmp_path / "memory.db", "--tokens", tmp_path / "tokens.json") as made:
        page = visit(made.url + at("keys"), ignored="40[13]")
        for none in ("“alveus_…”", "alveus_none"):
            page.get_by_label("Token").fill(none)
            page.get_by_role("button", name="Go on").click()
            read(page, "This server has no such token.")
        page.get_by_label("Token").fill(secret)
        page.evaluate("dispatchEvent(new Event('token-refused'))")  # a late answer
        page.get_by_role("button", name="Go on").click()
        read(page, "ada")
        page.close()


# --- how it looks, and how fast it is ---------------------------------------------------------


LOOKS = ROOT / "tests" / "data" / "inspector-looks.json"
"""What the pages looked like the last time, as coarse grids; `make pictures` renews it."""

GRID = (40, 28)
"""Cells of it, of about 30 by 30 pixels each, so that another font hardly matters."""

UNLIKE = 0.25
"""How much of the ink may be elsewhere: dates, sizes of files and fonts are others each time."""

INK = """async ([data, [wide, high]]) => {
    const bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
    const image = await createImageBitmap(new Blob([bytes], { type: "image/png" }));
    const context = new OffscreenCanvas(image.width, image.height).getContext("2d");
    context.drawImage(image, 0, 0);
    const { data: pixels } = context.getImageData(0, 0, image.width, image.height);
    const greys = new Uint8Array(pixels.length / 4), uses = new Uint32Array(256);
    for (let n = 0; n < greys.length; n += 1) {
        greys[n] = 0.3 * pixels[4 * n] + 0.59 * pixels[4 * n + 1] + 0.11 * pixels[4 * n + 2];
        uses[greys[n]] += 1;
    }
    const ground = uses.indexOf(Math.max(...uses));
    const ink = new Uint32Array(wide * high), all = new Uint32Array(wide * high);
    for (let n = 0; n < greys.length; n += 1) {
        const x = n % image.width, y = Math.floor(n / image.width);
        const cell = Math.floor((y * high) / image.height) * wide
            + Math.floor((x * wide) / image.width);
        all[cell] += 1;
        ink[cell] += Math.abs(greys[n] - ground) > 24;
    }
    const digit = (cell) => Math.min(15, Math.ceil((32 * ink[cell]) / all[cell])).toString(16);
    return (ground >> 4).toString(16) + Array.from(ink, (_, cell) => digit(cell)).join("");
}"""
"""Of a picture, how dark its ground is, and how much of each cell is not ground, a digit each."""

STEADY = """async () => {
    const frame = () => new Promise(requestAnimationFrame);
    await document.fonts.ready;
    for (const each of document.querySelectorAll("time, svg.growth, .axis, .live, .figures, .ramp"))
        each.style.visibility = "hidden";
    document.activeElement.blur();
    await frame();
    await frame();
}"""
"""Hides what another day or another machine changes, and waits until what is left is drawn."""


@pytest.fixture
def inked(browser):
    """Read pictures, in an empty page: no package for that is needed."""
    page = browser.new_page()
    yield lambda picture: page.evaluate(INK, [b64encode(picture).decode(), GRID])
    page.close()


def unlike(one, other):
    """Return how much of the ink of two pictures is not at the same place, 0..1."""
    digits = [[int(digit, 16) for digit in each] for each in (one, other)]
    if abs(digits[0][0] - digits[1][0]) > 1:
        return 1.0
    pairs = list(zip(digits[0][1:], digits[1][1:], strict=True))
    return 1 - sum(map(min, pairs)) / max(1, sum(map(max, pairs)))


@pytest.mark.parametrize("viewport", [DESK, PHONE], ids=["desk", "phone"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_looks_as_it_did(inspected, visit, inked, scheme, viewport):
    """But for times: the same headings, and the ink in the same places."""
    page = visit(inspected.url, scheme=scheme, viewport=viewport)
    read(page, "All is well")
    kept = json.loads(LOOKS.read_text("utf-8")) if LOOKS.exists() else {}
    differ, size = [], "desk" if viewport is DESK else "phone"
    for name, (address, text) in {**PAGES, **LOOKED_AT}.items():
        shown(page, address, text)
        page.evaluate(STEADY)
        picture = page.screenshot(animations="disabled")
        titles = page.locator("main :is(h1, h2)").all_inner_texts()
        headings = [re.sub(r"\d+", "0", title) for title in titles]  # tokens of dates among them
        found = {"headings": headings, "ink": inked(picture)}
        full, before = f"{name}, {scheme}, {size}", kept.get(f"{name}, {scheme}, {size}")
        if RENEW:
            kept[full] = found
            continue
        far = 1.0 if before is None else unlike(before["ink"], found["ink"])
        if before is None or far > UNLIKE or before["headings"] != headings:
            PICTURES.mkdir(parents=True, exist_ok=True)
            (PICTURES / f"{name}-{scheme}-{size}.png").write_bytes(picture)
            differ.append(f"{full} ({far:.2f})")
    if RENEW:
        lines = (f"{json.dumps(key)}: {json.dumps(kept[key])}" for key in sorted(kept))
        LOOKS.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")
    assert differ == [], f"see {PICTURES}; if they are to look so, make pictures"


def test_a_page_that_looks_different_is_noticed(inspected, visit, inked):
    """A picture of other colours, and one of narrow cards, are not the same."""
    page = visit(inspected.url)
    read(page, "All is well")
    page.evaluate(STEADY)
    before = inked(page.screenshot(animations="disabled"))
    page.evaluate("document.querySelector('main').style.maxWidth = '700px'")
    assert unlike(before, inked(page.screenshot(animations="disabled"))) > UNLIKE
    page.keyboard.press("t")
    assert unlike(before, inked(page.screenshot(animations="disabled"))) == 1


def test_pictures_for_the_documentation(inspected, visit, inked):
    """`make pictures` keeps them in docs; else they are as those that are kept."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    page = visit(inspected.url)
    for name, of in IN_DOCS.items():
        page.set_viewport_size(SMALL if name == "map" else DESK)
        shown(page, *{**PAGES, **LOOKED_AT}[of])
        page.evaluate("document.activeElement.blur()")
        page.evaluate("new Promise(requestAnimationFrame)")
        path = PICTURES / f"inspector-{name}.png"
        picture = page.screenshot(path=path, animations="disabled")
        assert len(picture) < 300_000
        kept = ROOT / "docs" / "pictures" / path.name
        assert unlike(inked(kept.read_bytes()), inked(picture)) < UNLIKE, f"{path} is another one"


VISITS = 7
"""Of which the medians are told."""

UNTIL_DRAWN = """async ([act, done]) => {
    const drawn = () => new Promise((go) => requestAnimationFrame(() => {
        const channel = new MessageChannel();
        channel.port1.onmessage = go;
        channel.port2.postMessage(0);
    }));
    const until = new Function(`return ${done}`), begun = performance.now();
    new Function(act)();
    do await drawn(); while (!until());
    return performance.now() - begun;
}"""

ACTS = {
    "switch colours": ("", "document.getElementById('theme').click()", "true"),
    "scroll a list of 100,000": (
        at("key", key="ada", set="notes"),
        "document.querySelector('.virtual').scrollTop += 400",
        "document.querySelector('.virtual-rows a').dataset.at > 0",
    ),
    "move through commits": (
        at("key", key="ada"),
        "document.querySelector('.slider button:not(:disabled)').click()",
        "document.querySelector('.tree')",
    ),
    "move a box over 100,000 points": (
        at("map", key="ada"),
        """document.querySelector('.map').dispatchEvent(
            new KeyboardEvent('keydown', { key: 'ArrowRight' }))""",
        "document.querySelector('.map-box:not([hidden])')",
    ),
    "go to a page": (
        at("keys"),
        "location.hash = location.hash === '#/runs' ? '#/keys' : '#/runs'",
        """document.querySelector('h1').textContent ===
            (location.hash === '#/runs' ? 'Runs' : 'Keys')""",
    ),
}
"""What somebody does: on which page, how, and by what one sees that it is done."""


def test_first_paint_and_interactions_are_told(inspected, visit, capsys):
    """Printed, for bench/LOG.md; how fast it is depends on the machine, so nothing is asked."""
    paints, wholes = [], []
    for _ in range(VISITS):
        page = visit(inspected.url)
        read(page, "All is well")
        wholes.append(page.evaluate("performance.now()"))
        paints.append(
            page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
        )
    told = {"first paint": paints, "first page whole": wholes}
    places = {**PAGES, **LOOKED_AT}.values()
    for name, (address, act, done) in ACTS.items():
        if address:
            shown(page, address, next(text for place, text in places if place == address))
        told[name] = [page.evaluate(UNTIL_DRAWN, [act, done]) for _ in range(VISITS)]
    with capsys.disabled():
        for name, times in told.items():
            span = f"{min(times):.0f} to {max(times):.0f}"
            sys.stdout.write(f"\n{name}: {median(times):.0f} ms ({span})")
    assert all(len(times) == VISITS for times in told.values())
