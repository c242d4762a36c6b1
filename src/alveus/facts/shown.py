"""What a message shows, in contrast to what its author says: pasted text, quotes, code, tasks.

"Translate into French: I live in Paris." says nothing about its author. Only what authors say can
become facts without a model. The rules look at the form of a message: fences, quotation marks, long
blocks, lists, and lines that introduce a text. Source: rules tried on a public export of 604
messages, of which 694 of 908 facts had been taken from pasted text.
"""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

from alveus.facts.assertions import pattern_of
from alveus.values.lazy import data_file

LONGEST_BRACKET = 60
"""Most characters in brackets that are still the author's remark."""

QUOTED_WORDS = 3
"""Words in quotation marks from which they quote somebody."""

INTRODUCED_WORDS = 8
"""Words behind a line that ends with a colon from which they are what the line introduces."""

MOST_SIGNS = 0.12
"""Share of signs, such as brackets and slashes, from which a line is no prose."""

LONG_LINE = 30
"""Words of a line from which one of so many must be I, my or we."""

LONG_MESSAGE_LINES = 15
LONG_MESSAGE_WORDS = 250
"""Lines and words of a message from which only lines with I, my or we are the author's."""

_FENCE = re.compile(r"```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)", re.DOTALL)
_QUOTED_LINE = re.compile(r"^[ \t]*>.*$", re.MULTILINE)
_BRACKETS = re.compile(r"\([^()]*(?:\)|\Z)|\[[^\[\]]*(?:\]|\Z)|\{[^{}]*(?:\}|\Z)|<[^<>]*(?:>|\Z)")
_ENDS_INSIDE = re.compile(r"\n|[.!?] ")
_QUOTES = re.compile(r'"[^"]*(?:"|\Z)|\u201c[^\u201d]*(?:\u201d|\Z)|\u00ab[^\u00bb]*(?:\u00bb|\Z)')
_SINGLE_QUOTES = re.compile(r"(?<!\w)['\u2018](?!\s)[^'\u2018\u2019\n]*['\u2019](?!\w)")
_SELF = re.compile(r"\b(?:I|i|I'm|im|[Mm]y|[Ww]e|[Oo]ur|[Mm]e)\b")
_WORD = re.compile(r"[^\W_]+(?:['\u2019][^\W_]+)*")
_SIGN = re.compile(r"[^\w\s',.!?\u2019-]|\d|_")
_CODE = re.compile(
    r"[;{]\s*$|^\s*(?:def|class|import|from \S+ import|return|function|const|let|var|public|SELECT"
    r"|INSERT|UPDATE|CREATE|#include|\$|>>>|FAILED|npm|pip|git|sudo|docker)\b|=>|\w+\([^)]*\)\s*[;{:]|=="
    r"|</?\w+[ >]|^\s*(?:--|//|#\s|\*)|^ {4}\S|^\t"
    r"|^\s*(?:\d{4}-\d\d-\d\d[T ]|\[?\d\d:\d\d|(?:ERROR|INFO|WARN|WARNING|DEBUG)\b|at \S+\()",
    re.MULTILINE,
)
_MAIL = re.compile(
    r"^[ \t]*(?:(?:From|To|Subject|Date|Cc|Bcc|Sent|Re|Fwd): .*"
    r"|(?:Dear|Hi|Hello) [^\n]{1,40},[ \t]*)$",
    re.MULTILINE,
)
"""The first line of a mail; the rest of the message belongs to it."""

_ITEM = re.compile(r"^\s*(?:[-*\u2022]|\d{1,3}[.)])\s")
_DIALOGUE = re.compile(
    r"^\s*(?!note\b|ps\b|also\b|update\b|edit\b)[A-Za-z][\w .'-]{0,24}:\s", re.IGNORECASE
)
_LEAST_DIALOGUE = 2
"""Lines such as "Bob: hello" from which a message shows a conversation."""


class _Lists(NamedTuple):
    tasks: re.Pattern[str]
    pointing: re.Pattern[str]
    texts: re.Pattern[str]
    leads: re.Pattern[str]
    of_models: re.Pattern[str]
    answered: re.Pattern[str]


@cache
def _lists() -> _Lists:
    lists = data_file("alveus.facts", "english.toml")["shown"]
    return _Lists(*(pattern_of(*lists[name]) for name in _Lists._fields))


def said(text: str) -> str:
    """Return *text* with all that it shows replaced by spaces; every position stays the same."""
    text = _FENCE.sub(_blank, text)
    text = _QUOTED_LINE.sub(_blank, text)
    text = _BRACKETS.sub(lambda m: _blank(m) if _is_long_bracket(m[0]) else m[0], text)
    for quotes in (_QUOTES, _SINGLE_QUOTES):
        text = quotes.sub(
            lambda m: _blank(m) if len(_WORD.findall(m[0])) >= QUOTED_WORDS else m[0], text
        )
    if (mail := _MAIL.search(text)) and text[mail.end() :].strip():
        text = text[: mail.start()] + _blanked(text[mail.start() :])
    text = _without_introduced(text)
    lines = text.split("\n")
    words = len(_WORD.findall(text))
    is_dialogue = sum(bool(_DIALOGUE.match(line)) for line in lines) >= _LEAST_DIALOGUE
    kept = [
        line if _is_said(line) and not (is_dialogue and _DIALOGUE.match(line)) else " " * len(line)
        for line in lines
    ]
    for at in range(len(lines) - 1):
        if _lists().answered.match(lines[at + 1].strip()):
            kept[at] = " " * len(lines[at])
    if len(lines) >= LONG_MESSAGE_LINES or words >= LONG_MESSAGE_WORDS:
        kept = _lines_with_i(kept)
    return "\n".join(kept)


def _blank(match: re.Match[str]) -> str:
    return _blanked(match[0])


def _blanked(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)


def _is_long_bracket(text: str) -> bool:
    return len(text) > LONGEST_BRACKET or bool(_ENDS_INSIDE.search(text[1:-1]))


def _without_introduced(text: str) -> str:
    """Blank what a line introduces, such as "Summarise this" or "Here is my letter:".

    A colon introduces as well, except behind words such as "Good news" and "About me".
    """
    lists, lines = _lists(), text.split("\n")
    later = len(_WORD.findall(text[len(lines[0]) :]))
    if later >= INTRODUCED_WORDS and (
        lists.tasks.search(lines[0]) or lists.pointing.search(lines[0])
    ):
        return lines[0] + _blanked(text[len(lines[0]) :])
    at = 0
    for line in lines:
        end = at + len(line)
        if line.rstrip().endswith(":") and len(_WORD.findall(text[end:])) >= INTRODUCED_WORDS:
            return text[:end] + _blanked(text[end:])
        colon = re.search(r": (?=\S)", line)
        if colon is not None and not lists.leads.match(line[: colon.start()].strip()):
            text = text[:at] + line[: colon.end()] + _blanked(line[colon.end() :]) + text[end:]
        at = end + 1
    first, _, rest = text.partition("? ")
    if "\n" not in first and lists.pointing.search(first) and lists.texts.search(first):
        return first + "? " + _blanked(rest)
    return text


def _is_said(line: str) -> bool:
    """Return whether a line is prose of the author."""
    if _lists().of_models.search(line) or _CODE.search(line):
        return False
    selves, words = len(_SELF.findall(line)), len(_WORD.findall(line))
    if not selves and line.strip():
        signs = len(_SIGN.findall(line))
        if _ITEM.match(line) or signs > MOST_SIGNS * len(line.strip()):
            return False
    return words < LONG_LINE or selves * LONG_LINE >= words


def _lines_with_i(lines: list[str]) -> list[str]:
    """Return the lines of a long message that its author says; the others are blanked."""
    filled = [at for at, line in enumerate(lines) if line.strip()]
    mine = [at for at in filled if _SELF.search(lines[at])]
    if len(mine) * 4 < len(filled):
        mine = [at for at in mine if at in filled[:2]]
    return [line if at in mine else " " * len(line) for at, line in enumerate(lines)]
