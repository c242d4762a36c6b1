"""What values show in a notebook: HTML, pictures, and plain text as it was."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from io import BytesIO

import matplotlib as mpl
import numpy as np
import pytest
from IPython.core.formatters import DisplayFormatter
from matplotlib.colors import to_hex

from alveus import Hit, Hits, Item, Memory, Summarize
from alveus.errors import InvalidInput, Unsupported
from alveus.search.projection import MapPoints
from alveus.sets.origins import Ancestor, Lineage
from alveus.values import html
from alveus.values.times import Zone
from pages import ROOT, blocks

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


@pytest.fixture
def memory_of_meanings():
    """A key with two sets of four items, one of them with a speaker; its embedder has vectors."""
    with Memory.open(":memory:", embedder="static") as memory:
        ada = memory.key("ada")
        for name, speaker in (("trains", "Grace"), ("soups", None)):
            texts = [f"number {n}, about {name} and more {name}" for n in range(4)]
            ada.set(name).add_many(
                [
                    Item(text, time=BEGIN + timedelta(days=n), speaker=speaker, metadata={"n": n})
                    for n, text in enumerate(texts)
                ]
            )
        memory.settle()
        yield ada


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
    next_day = Zone.of(None).text(BEGIN + timedelta(days=1))
    told = {
        "memory": [":memory:", "ada", "embedder words"],
        "key": ["'ada'", "chat", "diary", "3", "profile", "{city}", "a.b", "[1,2]"],
        "knowledge": ["Knowledge 'default'", "handbook", "1"],
        "set": ["3 items", "Takes the night train.", next_day, "Ada", '{"day":1}'],
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
        assert {name for name, _ in display.attributes} <= {"class", "style", "title"}
        # Else a notebook shows what is between two dollar signs as a formula.
        assert display.source.startswith('<div class="tex2jax_ignore mathjax_ignore"')
        assert [name for name, _ in display.attributes].count("class") == 1
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


# --- as IPython asks for it ---------------------------------------------------------------------


def test_ipython_finds_each_display(memory):
    """What a cell ends with is shown as HTML, and as the same plain text as in a terminal."""
    for value in everything(travels(memory), memory).values():
        data, _ = DisplayFormatter().format(value)
        assert data["text/html"] == value._repr_html_()
        assert set(data) == {"text/plain", "text/html"}


NOTEBOOK = r"""
import json, sys
from IPython.core.interactiveshell import InteractiveShell

shell = InteractiveShell.instance()
for cell in json.load(sys.stdin):
    shell.run_cell("%%capture captured\n" + cell).raise_error()
    captured = shell.user_ns["captured"]
    kinds = sorted({kind for output in captured.outputs for kind in output.data})
    print(json.dumps([kinds, captured.stderr]))
"""


def test_the_page_about_notebooks_is_a_notebook(tmp_path):
    """Its blocks, as the cells of a real IPython, show what the page says, and nothing else."""
    cells = [
        each.code for each in blocks(ROOT / "docs" / "notebooks.md") if each.language == "python"
    ]
    answer = subprocess.run(
        [sys.executable, "-c", NOTEBOOK],
        input=json.dumps(cells),
        env={**os.environ, "IPYTHONDIR": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    shown = [json.loads(line) for line in answer.stdout.splitlines()]
    assert [kinds for kinds, _ in shown] == [
        ["text/html", "text/plain"],
        ["image/png", "text/plain"],
        ["image/png", "text/plain"],
        [],
    ]
    assert not [said for _, said in shown if said]


# --- pictures -----------------------------------------------------------------------------------


def labels(figure):
    """Return what stands beside the bars, and in the legend."""
    axes = figure.axes[0]
    figure.savefig(BytesIO())
    legend = axes.get_legend()
    named = [] if legend is None else [text.get_text() for text in legend.get_texts()]
    return [tick.get_text() for tick in axes.get_yticklabels()], named


def bars(figure):
    """Return the bars as (row, from, to, colour), rounded."""
    return {
        (round(bar.get_y() + bar.get_height() / 2), *spans(bar), to_hex(bar.get_facecolor()))
        for bar in figure.axes[0].patches
        if bar.get_width()
    }


def spans(bar):
    return sorted(np.round([bar.get_x(), bar.get_x() + bar.get_width()], 6).tolist())


def points_of(figure):
    """Return the points of a map as (x, y, colour)."""
    found = set()
    for each in figure.axes[0].collections:
        offsets = np.round(np.asarray(each.get_offsets()), 6)
        colours = np.resize(np.asarray(each.get_facecolor()), (len(offsets), 4))
        names = [to_hex((r, g, b)) for r, g, b, _ in colours.tolist()]
        found |= {(*place, name) for place, name in zip(offsets.tolist(), names, strict=True)}
    return found


def test_a_plot_of_hits_stacks_the_parts_of_each_score():
    """The best hit is at the top; what takes away from a score goes to the left of zero."""
    parts = [{"words": 1.0, "meaning": 0.5, "decay": -0.25}, {"meaning": 0.5, "previous": 0.25}]
    figure = Hits([Hit(Item(f"text {n}"), sum(p.values()), p) for n, p in enumerate(parts)]).plot()
    words, meaning, previous = (
        html.PART_COLOURS[name] for name in ("words", "meaning", "previous")
    )
    decay = next(each for each in html.MANY_COLOURS if each not in (words, meaning, previous))
    assert bars(figure) == {
        (0, 0.0, 1.0, words),
        (0, 1.0, 1.5, meaning),
        (0, -0.25, 0.0, decay),
        (1, 0.0, 0.5, meaning),
        (1, 0.5, 0.75, previous),
    }
    assert labels(figure) == (["text 0", "text 1"], ["words", "meaning", "decay", "previous"])
    assert [text.get_text().strip() for text in figure.axes[0].texts] == ["1.25", "0.75"]
    assert figure.axes[0].yaxis_inverted()


def test_a_plot_shows_the_best_hits(memory):
    """As many as are asked for; of none, it says that there are none."""
    hits = Hits([Hit(Item(f"text {n}"), 1.0, {"words": 1.0}) for n in range(30)])
    assert len(labels(hits.plot())[0]) == 20
    assert labels(hits.plot(limit=2))[0] == ["text 0", "text 1"]
    assert [text.get_text() for text in hits.plot(limit=0).axes[0].texts] == ["no hits"]
    with pytest.raises(InvalidInput, match="limit must be a whole number"):
        hits.plot(limit=-1)


TEXTS = [
    "$\\frac{1$",
    "_hidden",
    "a\u202eb\nc",
    "\u7a93\U0001f9ed\u0939\u093f\u200d",
    "x" * 1_000_000,
    "<b>b</b>",
]


def test_labels_of_pictures_are_texts():
    """No mathematics, no hidden entry, no mark that turns a text, and no warning about a font."""
    hits = Hits([Hit(Item(text), 1.0, {text[:9]: 1.0}) for text in TEXTS])
    beside, named = labels(hits.plot())
    assert beside[:3] == ["$\\frac{1$", "_hidden", "a⟨U+202E⟩b c"]
    assert beside[4:] == ["x" * 48 + " …", "<b>b</b>"]
    assert len(named) == len(TEXTS)
    assert named[1] == "_hidden"
    axes = hits.plot().axes[0]
    legend = axes.get_legend()
    assert legend is not None
    shown = [*axes.get_yticklabels(), *legend.get_texts()]
    assert not any(text.get_parse_math() for text in shown)


def test_letters_that_a_font_lacks_come_from_another():
    """Of all fonts that are installed; TeX.s has no accents, another does."""
    hits = Hits([Hit(Item("Crème brûlée"), 1.0, {"words": 1.0})])
    with mpl.rc_context({"font.family": "cmr10", "axes.formatter.use_mathtext": True}):
        figure = hits.plot()
        assert labels(figure) == (["Crème brûlée"], ["words"])
    assert len(figure.axes[0].get_yticklabels()[0].get_fontfamily()) > 1


def test_a_map_shows_every_item_where_it_is(memory_of_meanings):
    """The points of a picture are those of `points`, each in the colour of its name."""
    ada = memory_of_meanings
    points = ada.points()
    figure = ada.map()
    own = dict(zip(["soups", "trains"], html.MANY_COLOURS, strict=False))
    expected = zip(points.x.round(6), points.y.round(6), points.sets, strict=True)
    assert points_of(figure) == {(x, y, own[name]) for x, y, name in expected}
    assert labels(figure)[1] == ["soups", "trains"]
    assert figure.axes[0].get_xlabel().startswith("8 items by meaning; the plane shows ")
    assert len(points_of(ada.set("trains").map(colour="speaker", where={"n": {"gte": 2}}))) == 2
    assert labels(ada.set("trains").map(colour="speaker"))[1] == ["Grace"]
    assert labels(ada.set("soups").map(colour="speaker"))[1] == ["unnamed"]


def test_a_map_by_time_has_a_scale_of_time(memory_of_meanings):
    """Early and late differ, and the colours are told beside the map."""
    figure = memory_of_meanings.set("trains").map()
    (points,) = figure.axes[0].collections
    days = [(BEGIN + timedelta(days=n)).timestamp() / 86_400 for n in range(4)]
    assert sorted(points.get_array()) == pytest.approx(days)
    figure.savefig(BytesIO())
    assert len({tuple(colour) for colour in points.get_facecolor()}) == 4
    assert "2026-Nov" in figure.axes[1].yaxis.get_offset_text().get_text()


def test_a_map_of_many_names_has_a_colour_for_others():
    """The most frequent names have their own; whoever is left shares one, below the others."""
    names = [f"speaker {n}" for n in range(20) for _ in range(20 - n)] + [None]
    size = len(names)
    x, times = np.linspace(-1, 1, size), np.zeros(size, "datetime64[us]")
    points = MapPoints([""] * size, [""] * size, x, x, times, names, 0.5, 3, 1_000)
    figure = points.plot(colour="speaker")
    assert labels(figure)[1] == [*(f"speaker {n}" for n in range(10)), "others"]
    assert {colour for _, _, colour in points_of(figure)} == {*html.MANY_COLOURS, html.OTHER}
    last = figure.axes[0].collections[-1]
    assert last.get_zorder() < figure.axes[0].collections[0].get_zorder()
    says = figure.axes[0].get_xlabel()
    assert says.endswith("50% of all difference; 3 have no vector yet; 1,000 more")


def test_a_map_of_nothing_says_so(memory_of_meanings):
    """An empty set is no error."""
    for colour in ("time", "speaker", "set"):
        figure = memory_of_meanings.set("nothing").map(colour=colour)
        assert [text.get_text() for text in figure.axes[0].texts] == ["no items to show"]
        assert labels(figure)[1] == []
    with pytest.raises(InvalidInput, match="colour must be 'time', 'speaker' or 'set', not 'id'"):
        memory_of_meanings.map(colour="id")


def test_a_map_of_50_000_points_is_small(tmp_path):
    """Points are drawn as pixels, in files of lines too."""
    size = 50_000
    x, y = np.random.default_rng(7).normal(size=(2, size))
    times = np.arange(size).astype("datetime64[m]").astype("datetime64[us]")
    points = MapPoints([""] * size, [""] * size, x, y, times, [None] * size, 0.5, 0, 0)
    points.plot().savefig(tmp_path / "map.svg")
    assert (tmp_path / "map.svg").stat().st_size < 1_000_000


def test_a_picture_needs_no_window_and_no_magic(memory_of_meanings, tmp_path):
    """Any notebook shows it, without `pyplot`; it is saved as any figure of matplotlib."""
    hits = memory_of_meanings.search("a train", limit=3)
    for figure in (hits.plot(), memory_of_meanings.map()):
        data, metadata = DisplayFormatter().format(figure)
        assert data["image/png"].startswith(b"\x89PNG")
        width, height = figure.get_size_inches() * 72
        assert metadata["image/png"] == {"width": round(width), "height": round(height)}
        figure.savefig(tmp_path / "picture.png")
        assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")
    program = (
        "import sys; from alveus import Hit, Hits, Item;"
        "Hits([Hit(Item('text'), 1.0, {'words': 1.0})]).plot().savefig('picture.png');"
        "assert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=tmp_path, timeout=120)


def test_pictures_follow_the_style_of_matplotlib():
    """In a dark notebook a dark style makes dark pictures, with light text."""
    hits = Hits([Hit(Item("text"), 1.0, {"words": 1.0})])
    with mpl.rc_context(fname=mpl.get_data_path() + "/stylelib/dark_background.mplstyle"):
        figure = hits.plot()
        beside = figure.axes[0].get_yticklabels()[0]
    assert to_hex(figure.get_facecolor()) == "#000000"
    assert to_hex(beside.get_color()) == "#ffffff"


def test_without_matplotlib_a_picture_says_what_to_install(memory_of_meanings, monkeypatch):
    """One error, which names the extra; displays go without."""
    hits = memory_of_meanings.search("a train", limit=3)
    monkeypatch.delitem(sys.modules, "alveus.values.pictures", raising=False)
    monkeypatch.delattr("alveus.values.pictures", raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for picture in (hits.plot, memory_of_meanings.map, memory_of_meanings.set("trains").map):
        with pytest.raises(Unsupported, match=r"matplotlib, .* pip install 'alveus\[plot\]'"):
            picture()
    assert "3 hits" in Display(hits).text
