"""HTML for notebooks: elements are made here, and every text in them is escaped.

Text and background have the notebook's colours, light or dark. All other colours are readable on
both.
The markup has no script, no style sheet and nothing to load: notebooks remove these from cells that
they do not trust.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from html import escape

from alveus.errors import AlveusError
from alveus.values.markup import Html
from alveus.values.times import Zone

PART_COLOURS = {
    "words": "#2b7a8c",
    "meaning": "#c77f1b",
    "session": "#7a5bb0",
    "previous": "#4b8b45",
    "next": "#c0567b",
    "speaker": "#a8603a",
    "user": "#5f6fc4",
    "date": "#7d7d22",
    "when": "#a3509a",
    "recency": "#3a8a72",
}
"""Colours of the parts of a score, the first five as in the inspector.

Each colour has a contrast of at least 3 with white and with near black.
"""

MANY_COLOURS = tuple(PART_COLOURS.values())
"""The colours that other parts get, in turn."""

OTHER = "#8a8f98"
"""The colour of all further parts."""

LINE_CHARACTERS = 300
"""Most characters of a text shown on one line."""

TEXT_CHARACTERS = 4_000
"""Most characters of a text shown with its line breaks."""

NAME_WIDTH = 16
"""The least width of a column in characters, unless its texts are shorter."""

UNTYPESET = "tex2jax_ignore mathjax_ignore"
"""Classes that MathJax 2 and 3 skip: else notebooks show text between two $ as math."""

_LINE = "1px solid rgba(128,128,128,.35)"
_CELL = "text-align:left;vertical-align:top;padding:4px 12px 4px 0;border:0"
_SOFT = "opacity:.75;font-size:.9em"

# Characters that change the direction of a text, or are invisible, as in server/ui/dom.js; and lone
# surrogates, which no output can carry.
_MARKS = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)


def part_colours(scores: Iterable[Mapping[str, float]]) -> dict[str, str]:
    """Return a colour for each part of several scores, in order."""
    names = dict.fromkeys(name for parts in scores for name, part in parts.items() if part)
    free = iter(
        [each for each, of in zip(MANY_COLOURS, PART_COLOURS, strict=True) if of not in names]
    )
    return {name: PART_COLOURS.get(name) or next(free, OTHER) for name in names}


def visible(text: str) -> str:
    """Return *text* with invisible or direction characters replaced by their names."""
    return _MARKS.sub(lambda mark: f"⟨U+{ord(mark[0]):04X}⟩", text)


def one_line(text: str, *, most: int = LINE_CHARACTERS) -> str:
    """Return the beginning of *text* as one line, through `visible`."""
    line = visible(" ".join(text[:most].split()))
    return f"{line} …" if len(text) > most else line


def time_text(time: datetime | None) -> str:
    """Return a time to the minute, in the local zone; "" for None."""
    return "" if time is None else Zone.of(None).text(time)


def element(tag: str, *children: str, style: str = "", title: str = "") -> Html:
    """Return an element. `Html` children are inserted as markup, texts are escaped."""
    inside = "".join(
        child if isinstance(child, Html) else escape(visible(child)) for child in children
    )
    attributes = f' style="{style}"' if style else ""
    if title:
        attributes += f' title="{escape(visible(title))}"'
    return Html(f"<{tag}{attributes}>{inside}</{tag}>")


def frame(title: str, *children: str, notes: Iterable[str] = ()) -> Html:
    """Return the display of one value: its title, its content, and notes, a line each."""
    heading = element("bdi", one_line(title))
    whole = element(
        "div",
        element("div", heading, style="font-weight:600;margin-bottom:4px"),
        *children,
        *[soft(note) for note in notes],
        style="max-width:64em;line-height:1.45;overflow-wrap:anywhere",
    )
    return Html(whole.replace("<div", f'<div class="{UNTYPESET}"', 1))


def drawn(draw: Callable[[], Html], plain: str) -> Html:
    """Return the result of *draw*. If *draw* raises `AlveusError`, return *plain* and the error."""
    try:
        return draw()
    except AlveusError as error:
        return frame(plain, notes=[str(error)])


def soft(*children: str) -> Html:
    """Return a line in a weaker colour."""
    return element("div", *children, style=_SOFT)


def noted(text: str, *about: str | None) -> Html:
    """Return a text on one line, with notes below."""
    below = [element("bdi", one_line(each)) for each in about if each]
    joined = [part for each in below for part in (" · ", each)][1:]
    return Html(element("bdi", one_line(text) or "(no text)") + (soft(*joined) if joined else ""))


def table(heads: Sequence[str], rows: Iterable[Sequence[str | float]]) -> Html:
    """Return a table; whole numbers are grouped, others have three decimals."""
    style = f"{_CELL};font-weight:600;white-space:nowrap"
    head = [element("th", each, style=style) for each in heads]
    body = [
        element("tr", *map(_cell, row), style=f"background:none;border-top:{_LINE}") for row in rows
    ]
    parts = element("thead", element("tr", *head)), element("tbody", *body)
    style = "border-collapse:collapse;border:0;margin:4px 0;table-layout:auto;width:auto"
    return element("table", *parts, style=style)


def _cell(shown: str | float) -> Html:
    if isinstance(shown, Html):
        return element("td", shown, style=_CELL)
    if isinstance(shown, str):
        line = one_line(shown)
        width = f"min-width:{min(len(line), NAME_WIDTH)}ch"  # else a wide neighbour breaks words
        return element("td", element("bdi", line), style=f"{_CELL};{width}")
    number = "white-space:nowrap;font-variant-numeric:tabular-nums"
    return element("td", number_text(shown), style=f"{_CELL};{number}")


def bar(shares: Mapping[str, float], whole: float, colours: Mapping[str, str]) -> Html:
    """Return a bar with a piece for each share of *whole* above zero, and the `legend` below."""
    wide = {name: 100 * share / whole for name, share in shares.items() if share > 0}
    pieces = [
        element(
            "span",
            style=f"display:inline-block;height:10px;width:{width:.2f}%;"
            f"background:{colours.get(name, OTHER)}",
            title=f"{name} {number_text(shares[name])}",
        )
        for name, width in wide.items()
    ]
    track = "width:100%;min-width:12em;height:10px;white-space:nowrap;line-height:0;overflow:hidden"
    ground = "border-radius:3px;background:rgba(128,128,128,.18)"
    return Html(element("div", *pieces, style=f"{track};{ground}") + legend(shares, colours))


def legend(shares: Mapping[str, float], colours: Mapping[str, str]) -> Html:
    """Return the name and number of each share that is not zero, beside its colour."""
    square = "display:inline-block;width:.7em;height:.7em;border-radius:2px;margin-right:4px"
    entries = [
        element(
            "span",
            element("span", style=f"{square};background:{colours.get(name, OTHER)}"),
            f"{name} {number_text(share)}",
            style="display:inline-block;margin-right:10px;white-space:nowrap",
        )
        for name, share in shares.items()
        if share
    ]
    return soft(*entries)


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: "1 item", "2 items"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def number_text(number: float) -> str:
    """Return a whole number with its thousands grouped, any other with three decimals."""
    return f"{number:,}" if isinstance(number, int) else f"{number:.3f}"


def full_text(text: str, *, about: str) -> Html:
    """Return up to `TEXT_CHARACTERS` of a text with its line breaks, below the line *about*."""
    shown, cut = element("bdi", text[:TEXT_CHARACTERS]), len(text) - TEXT_CHARACTERS
    return element(
        "div",
        soft(one_line(about)),
        element("div", shown, style="white-space:pre-wrap"),
        *([soft(f"… and {cut:,} more characters")] if cut > 0 else []),
        style=f"border-top:{_LINE};padding:4px 0",
    )


def drawing(lines: Iterable[tuple[str, str, str]]) -> Html:
    """Return a tree of lines, each with a prefix, a text and a note."""
    rows = [
        element(
            "div", prefix, element("bdi", one_line(text)), "  ", element("bdi", about, style=_SOFT)
        )
        for prefix, text, about in lines
    ]
    style = "font-family:monospace;white-space:pre-wrap;line-height:1.3"
    return element("div", *rows, style=style)


def folded(summary: str, *children: str) -> Html:
    """Return an element that shows its children when its summary is opened."""
    return element("details", element("summary", summary, style="cursor:pointer"), *children)
