"""What values show in a notebook: HTML that is safe in light and dark, and plain text as before."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser

import pytest

from fornix import Hit, Hits, Item, Memory, Summarize
from fornix.compaction.lineage import Ancestor, Lineage
from fornix.display import html

BEGIN = datetime(2026, 11, 1, tzinfo=UTC)

HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(2)>",
    "\"' onmouseover='alert(3)' style=\"position:fixed\"",
    "</td></table></div><h1>free</h1>",
    "&lt;b&gt; &amp; &#60;",
    "]]><!-- --> <style>*{display:none}</style>",
    "javascript:alert(4)",
    "$x^2$ `code` **bold**",
]

TAGS = {
    *("div", "span", "bdi", "details", "summary"),
    *("table", "thead", "tbody", "tr", "th", "td"),
}


class Display(HTMLParser):
    """The display of a value as a browser takes it apart."""

    def __init__(self, value) -> None:
        super().__init__(convert_charrefs=True)
        self.source: str = value._repr_html_()
        self.tags, self.attributes, self.texts, self.open = set(), [], [], []
        self.feed(self.source)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes += attrs
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)

    @property
    def text(self):
        return "\n".join(self.texts)

    def widths(self):
        """Return how wide each piece of a bar is, in percent."""
        styles = [value for name, value in self.attributes if name == "style"]
        found = [re.search(r"[;]width:([-\d.]+)%;background:#", style) for style in styles]
        return [float(match[1]) for match in found if match]


@pytest.fixture
def memory():
    with Memory.open(":memory:", embedder="words") as memory:
        yield memory


def travels(memory):
    """Return a key with some of everything."""
    ada = memory.key("ada")
    ada.short_term.set("profile.city", "Lisbon")
    ada.short_term.set(("a.b",), [1, 2])
    for day, text in enumerate(["Prefers window seats.", "Takes the night train.", "Seat 12."]):
        when = BEGIN + timedelta(days=day)
        ada.add(Item(text, id=f"i{day}", time=when, speaker="Ada", metadata={"day": day}))
    ada.conversation("chat").add({"role": "user", "content": "Which seat do I like?"})
    return ada


def everything(ada, memory):
    """Return one of each kind of value that has a display."""
    diary = ada.set("diary", capacity=4, compaction=Summarize(), execution="external")
    diary.add_many([f"Walked by the river and saw {n} boats." for n in range(4)])
    diary.compact()
    made = next(item for item in diary.list() if item.compacted)
    memory.knowledge.set("handbook").add("Returns within 30 days.")
    hits = ada.search("Which seat?", min_score=0)
    context = ada.context("Which seat?", budget_tokens=200, exact=["profile"])
    return {
        "memory": memory,
        "key": ada,
        "knowledge": memory.knowledge,
        "set": ada.set("default"),
        "diary": diary,
        "hits": hits,
        "context": context,
        "lineage": diary.lineage(made.id),
    }


def test_each_value_shows_what_it_holds(memory):
    """What one would ask next is there already: keys, sets, names, newest items, reasons."""
    shown = {
        name: Display(value).text for name, value in everything(travels(memory), memory).items()
    }
    told = {
        "memory": [":memory:", "ada", "embedder words"],
        "key": ["'ada'", "chat", "diary", "3", "profile", "{city}", "a.b", "[1,2]"],
        "knowledge": ["Knowledge 'default'", "handbook", "1"],
        "set": ["3 items", "Takes the night train.", "2026-11-02 00:00 UTC", "Ada", '{"day":1}'],
        "diary": ["capacity: 4 items", "walked by the river".capitalize()],
        "hits": ["Relevance", "Seat 12.", "default", "words 1.000"],
        "context": ["of 200 tokens", "Exact memory", "profile.city", "Question", "Left out: "],
        "lineage": ["├─ ", "└─ ", "compacted", "retired"],
    }
    for name, expected in told.items():
        assert [each for each in expected if each not in shown[name]] == [], name


def test_plain_text_is_as_it_was(memory):
    """A terminal shows what it showed before there were displays."""
    values = everything(travels(memory), memory)
    assert repr(values["memory"]) == "<Memory ':memory:' space 'default'>"
    assert repr(values["key"]) == "<key 'ada' of space 'default'>"
    assert repr(values["set"]) == "<MemorySet 'default' of key 'ada'>"
    assert repr(values["hits"]) == f"<{len(values['hits'])} hits>"
    assert repr(values["context"]).startswith("Context(messages=[")
    assert repr(values["lineage"]).startswith("Lineage(nodes=(Ancestor(")


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_text_is_a_text(memory, text):
    """Whatever a text, name, speaker or value says, it is read, and never becomes markup."""
    memory = Memory.open(":memory:", embedder="words", space=text, knowledge=text)
    key = memory.key(text)
    key.short_term.set((text,), {text: text})
    key.short_term.set(("object", text), text)
    item = Item(text, id=text, speaker=text, metadata={text: text})
    own = key.set(text)
    own.add_many([item, Item("other", id="b", sources=(text,))])
    memory.knowledge.set(text).add(text)
    hit = Hit(own.list()[0], 1.0, {text: 0.5, "words": 0.5})
    context = key.context("other", budget_tokens=400, exact=[(text,)], system=text)
    values = [memory, key, memory.knowledge, own, Hits([hit]), context, own.lineage("b")]
    for value in values:
        display = Display(value)
        assert display.tags <= TAGS
        assert {name for name, _ in display.attributes} <= {"style", "title"}
        styles = [style for name, style in display.attributes if name == "style"]
        assert not [style for style in styles if "url" in style or "position" in style]
        assert text in display.text or repr(text) in display.text
    assert text in Display(own).text
    memory.close()


def test_marks_that_disguise_a_text_are_named(memory):
    """Marks that turn or hide what is read are named as the inspector names them."""
    marks = "\u202e\u200b\u2066\ufeff\x00\x9b\U000e0041\u061c"
    own = memory.key("ada").set("notes")
    own.add(f"a{marks}z", speaker=marks)
    cut = Hit(Item(f"a{marks}\ud800z"), 1.0, {})
    for value in (own, Hits([Hit(own.list()[0], 1.0, {})]), Hits([cut])):
        shown = Display(value)
        assert not set(marks) & set(shown.source)
        assert "a⟨U+202E⟩⟨U+200B⟩⟨U+2066⟩⟨U+FEFF⟩⟨U+0000⟩⟨U+009B⟩⟨U+E0041⟩⟨U+061C⟩" in shown.text
        shown.source.encode()


def test_what_is_large_is_cut(memory):
    """A megabyte of text, a thousand sets, names, keys or sources make no output to scroll."""
    ada = memory.key("ada")
    ada.set("notes").add_many([Item("x" * 1_000_000, id=str(n)) for n in range(2)])
    ada.set("notes").add_many(["y"] * 18)
    for n in range(30):
        ada.set(f"set {n:02}").add("z")
        memory.key(f"key {n:02}").add("z")
    with ada.batch() as batch:
        for n in range(30):
            batch.short_term.set(f"name{n:02}", "v" * 1_000)
            batch.short_term.set(f"a.name{n:02}", "v")
    hits = ada.search("x", sets=["notes"])
    context = ada.context("x", sets=["notes"], messages="notes")
    nodes = [Ancestor(str(n), "notes", 1, "x" * 1_000, min(n, 1)) for n in range(1_000)]
    lineage = Lineage(tuple(nodes), tuple((0, n) for n in range(1, 1_000)))
    for value, most in ((ada, 20_000), (memory, 8_000), (hits, 20_000), (lineage, 150_000)):
        assert len(Display(value).source) < most
    assert len(Display(context).source) < 60_000
    assert "more characters" in Display(context).text
    assert "… and 11 more sets" in Display(ada).text
    assert "… and more names" in Display(ada).text
    assert "name17, name18, name19, …}" in Display(ada).text
    assert "… and more keys" in Display(memory).text
    assert "… and 10 older" in Display(ada.set("notes")).text
    assert "… and more" in Display(lineage).text


def test_the_bars_of_hits_are_what_their_scores_are_made_of():
    """The longest bar is full, the others are in proportion; what is negative is only told."""
    parts = [{"words": 1.0, "meaning": 1.0}, {"meaning": 1.0, "decay": -0.5}, {}]
    hits = Hits([Hit(Item("text"), sum(each.values()), each) for each in parts])
    shown = Display(hits)
    assert shown.widths() == [50.0, 50.0, 50.0]
    assert "decay -0.500" in shown.text
    assert "Relevance" not in shown.text


def test_the_bar_of_a_prompt_is_its_budget(memory):
    """What is not filled of the bar is what is left of the budget."""
    ada = travels(memory)
    context = ada.context("Which seat?", budget_tokens=400)
    assert sum(Display(context).widths()) == pytest.approx(context.tokens / 4, abs=0.1)
    free = ada.context("Which seat?")
    assert sum(Display(free).widths()) == pytest.approx(100, abs=0.1)
    assert " of " not in Display(free).texts[0]


def test_how_a_search_went_is_said():
    """A partial search, and a re-ranker that failed, are told beside the hits."""
    shown = Display(Hits(partial=True, reranker_failure="out of <memory>")).text
    assert shown.startswith("0 hits")
    assert "partial: " in shown
    assert "not re-ranked: out of <memory>" in shown


def test_a_lineage_is_drawn_with_what_is_gone():
    """What was erased keeps its place; sources that were drawn above are not drawn again."""
    nodes = (
        Ancestor("a", "notes", 1, "top", 0, compacted=True),
        Ancestor("b", "notes", 1, None, 1, retired=True),
        Ancestor("", "", 0, None, 2, retired=True, erased=True),
    )
    lineage = Lineage(nodes, ((0, 1), (0, 1), (1, 2)), cut=True)
    shown = Display(lineage)
    assert "Lineage of a: 2 sources" in shown.text
    for told in ("(no text)", "(erased)", "b, retired, sources above", "… and more"):
        assert told in shown.text
    assert lineage.text().splitlines() == [
        "a  top  [compacted]",
        "├─ b    [retired]",
        "│  └─ (erased)",
        "└─ b    [retired] …",
        "… and more",
    ]


def test_looking_is_not_reading(memory):
    """A display changes nothing: no commit, and nothing counts as read."""
    ada = travels(memory)
    memory.settle()
    before = memory.stats().store.commits
    for value in (memory, ada, ada.set("default")):
        Display(value)
    ada.add("another")  # what was noted as read goes with the next commit
    assert memory.stats().store.commits == before + 1
    assert {item.accessed for item in ada.list()} == {None}


def test_what_is_empty_says_so(memory):
    """Nothing there is no blank output."""
    ada = memory.key("ada")
    assert "no keys yet" in Display(memory).text
    assert "no sets yet" in Display(ada).text
    assert "nothing was added yet" in Display(ada.set("notes")).text
    assert "0 hits" in Display(ada.search("x")).text


def test_what_cannot_be_read_any_more_says_why(memory):
    """The display of a closed memory is its name and what happened, not a traceback."""
    ada = travels(memory)
    memory.close()
    for value in (memory, ada, ada.set("notes"), memory.knowledge):
        assert "was closed" in Display(value).text
        assert repr(value) in Display(value).text


def test_displays_are_readable_in_light_and_dark(memory):
    """Texts and grounds are the notebook's own; bars differ from white and from near black."""
    for value in everything(travels(memory), memory).values():
        shown = Display(value)
        assert not re.search(r"[;\"]color:|background:(?!none|#|rgba\(128,128,128)", shown.source)
    for colour in (*html.MANY_COLOURS, html.OTHER):
        assert contrast(colour, "#ffffff") >= 3
        assert contrast(colour, "#111111") >= 3
    assert len(set(html.MANY_COLOURS)) == len(html.MANY_COLOURS)


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours; WCAG asks for 3 between parts of a picture."""
    dark, light = sorted(map(luminance, (one, other)))
    return (light + 0.05) / (dark + 0.05)


def luminance(colour: str) -> float:
    shares = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (s / 12.92 if s <= 0.04045 else ((s + 0.055) / 1.055) ** 2.4 for s in shares)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
