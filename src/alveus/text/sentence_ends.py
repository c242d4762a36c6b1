"""Texts as sentences, and how many tokens they have: what a summary is measured and made by."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from alveus.embed import wordpiece
from alveus.values.lazy_dataclass import dataclass

LONGEST_SENTENCE = 600
"""Characters; what goes on for longer without an end is cut, at a space if there is one."""

BYTES_A_TOKEN = 4
"""A token has at most so many bytes: word pieces take a long unknown word for a single one."""

_CLOSERS = "\"')\\]\u201d\u2019\u00bb\u300d\u300f\uff09\u3011"
_MARKS = ".!?\u2026\u061f\u06d4\u0964"  # the last three: Arabic, Urdu, Hindi
_WIDE_MARKS = "\u3002\uff01\uff1f\uff61"

# Each run of marks is tried once, from its beginning, so the search takes linear time. A line
# that goes on in lower case is one that was broken to fit a page.
_END = re.compile(
    rf"(?<![{_MARKS}])[{_MARKS}]++[{_CLOSERS}]*+(?=\s)"
    rf"|[{_WIDE_MARKS}]++[{_CLOSERS}]*+"
    r"|\n(?![ \t]*+[a-z\u00df-\u00ff])"
)
_SHORT = frozenset({"mr", "mrs", "ms", "dr", "prof", "vs", "e.g", "i.e", "z.b", "bzw"})
_LAST_WORD = re.compile(r"[^\s(\"']{1,8}\Z")


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of a text.

    Attributes:
        source: Which text it is of.
        start, end: Where in it.
        spaced: Whether a space follows, or the end of the text.
    """

    text: str
    source: int
    start: int
    end: int
    spaced: bool


def tokens(text: str) -> int:
    """Return about how many tokens a language model would count, in any script.

    It is the number of BERT's word pieces, but at least one for four bytes.
    """
    size = len(text.encode("utf-8", "surrogatepass"))
    return max(len(wordpiece.bundled().ids(text)), -(-size // BYTES_A_TOKEN))


def sentences(text: str, source: int = 0) -> Iterator[Sentence]:
    """Return the sentences of *text* in order, none empty, none over `LONGEST_SENTENCE`."""
    begin = 0
    for end in [*_ends(text), len(text)]:
        at = begin
        while at < end:
            to = _cut(text, at, end)
            if bare := text[at:to].strip():
                start = at + len(text[at:to]) - len(text[at:to].lstrip())
                spaced = to == len(text) or text[to].isspace() or text[to - 1].isspace()
                yield Sentence(bare, source, start, start + len(bare), spaced)
            at = to
        begin = end


def joined(chosen: Sequence[Sentence]) -> str:
    """Return sentences as one text: those of different sources on lines of their own."""
    parts: list[str] = []
    for before, sentence in zip([None, *chosen], chosen, strict=False):
        if before is not None and before.source != sentence.source:
            parts.append("\n")
        elif before is not None and before.spaced:
            parts.append(" ")
        parts.append(sentence.text)
    return "".join(parts)


def shortened(text: str, most: int) -> str:
    """Return *text*, or as much of its beginning as has at most *most* tokens.

    It ends with a word if one fits, else in the middle of one; it is empty only if not even the
    first character fits.
    """
    begin = text[: most * BYTES_A_TOKEN]
    if len(begin) == len(text) and tokens(text) <= most:
        return text
    fits, fails = 0, len(begin) + 1
    while fails - fits > 1:
        middle = (fits + fails) // 2
        if tokens(begin[:middle]) <= most:
            fits = middle
        else:
            fails = middle
    space = max(begin.rfind(" ", 0, fits + 1), begin.rfind("\n", 0, fits + 1))
    word = begin[:space].rstrip() if space > fits // 2 else ""
    return word if word and tokens(word) <= most else begin[:fits].rstrip()


def parts(text: str, most: int) -> list[str]:
    """Return *text* in pieces of whole sentences, of at most *most* tokens each.

    A sentence that has more is cut down to as much of its beginning.
    """
    found: list[str] = []
    start, end, size = 0, 0, 0
    for sentence in sentences(text):
        more = tokens(sentence.text) + 1
        if size and size + more > most:
            found.append(text[start:end])
            size = 0
        if not size:
            start = sentence.start
        end, size = sentence.end, size + more
    return [shortened(part, most) for part in [*found, text[start:end]] if part]


def _ends(text: str) -> Iterator[int]:
    for found in _END.finditer(text):
        if found[0] == "." and _is_abbreviation(text, found.start()):
            continue
        yield found.end()


def _is_abbreviation(text: str, dot: int) -> bool:
    """Return whether the dot belongs to the word before it, as in "Dr." or an initial."""
    word = _LAST_WORD.search(text[max(0, dot - 9) : dot])
    if word is None:
        return False
    return word[0].lower() in _SHORT or (len(word[0]) == 1 and word[0].isupper() and word[0] != "I")


def _cut(text: str, at: int, end: int) -> int:
    if end - at <= LONGEST_SENTENCE:
        return end
    space = text.rfind(" ", at + LONGEST_SENTENCE // 2, at + LONGEST_SENTENCE)
    return at + LONGEST_SENTENCE if space < 0 else space + 1
