"""Texts as a reader sees them: unseen characters, compatibility forms and gaps are taken out."""

from __future__ import annotations

import re
import unicodedata

from alveus.values.lazy_dataclass import dataclass

_UNSEEN = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\U000e0100-\U000e01ef]"
)

_TAGS = {0xE0000 + code: code for code in range(0x20, 0x7F)}
"""Tag characters, which are not seen, and spell ASCII."""

_SPELLED = re.compile(r"(?<!\S)(?:[A-Za-z0-9_] ){3,}")
"""Single characters with a space after each, before something else."""

_BROKEN = re.compile(
    r"(?<=[A-Za-z0-9_])(?:[-\\]|[\"'][ \t]{0,8}[+\\]?)?[ \t]{0,8}\r?\n"
    r"[ \t]{0,16}[\"']?(?=[A-Za-z0-9])"
)
"""The end of a line within a word, and a hyphen, a backslash or quotes around it."""


@dataclass(frozen=True, slots=True)
class Plain:
    """A text with something taken out of it, and where its characters stood before.

    Attributes:
        text: What is left.
        places: Of each character the place before, and one more for the end; None: the same.
    """

    text: str
    places: tuple[int, ...] | None = None

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Return the span before, of a span of this text."""
        if self.places is None or start >= end:
            return start, end
        return self.places[start], self.places[end - 1] + 1

    def without(self, pattern: re.Pattern[str], spaces: str = "") -> Plain:
        """Return it without what a pattern finds; of that, only *spaces* if they are named."""
        kept = list[int]()
        at = 0
        for found in pattern.finditer(self.text):
            kept += range(at, found.start())
            if spaces:
                kept += [n for n in range(*found.span()) if self.text[n] not in spaces]
            at = found.end()
        kept += range(at, len(self.text))
        before = self.places or range(len(self.text) + 1)
        return Plain("".join(self.text[n] for n in kept), tuple(before[n] for n in kept))


def unveiled(text: str) -> str:
    """Return *text* as it is seen: compatibility forms, and nothing unseen."""
    if text.isascii():
        return text
    return _UNSEEN.sub("", unicodedata.normalize("NFKC", text.translate(_TAGS)))


def unveiled_in_place(text: str) -> Plain:
    """Return what `unveiled` does, character by character, with the places."""
    if text.isascii():
        return Plain(text)
    seen, places = list[str](), list[int]()
    for at, char in enumerate(text.translate(_TAGS)):
        if _UNSEEN.match(char):
            continue
        one = char if char.isascii() else unicodedata.normalize("NFKC", char)
        seen.append(one)
        places += [at] * len(one)
    return Plain("".join(seen), tuple(places))


def unspelled(plain: Plain) -> Plain | None:
    """Return it without the spaces between single characters; None: there are none."""
    if not _SPELLED.search(plain.text):
        return None
    return plain.without(_SPELLED, " ")


def unbroken(plain: Plain) -> Plain | None:
    """Return it with the words that ends of lines cut made whole; None: there is one line."""
    if "\n" not in plain.text:
        return None
    return plain.without(_BROKEN)
