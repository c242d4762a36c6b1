"""The plain forms of a text: without invisible characters, gaps, look-alikes and encodings."""

from __future__ import annotations

import html
import re
import unicodedata
from base64 import b64decode
from binascii import Error
from codecs import encode
from collections.abc import Iterator
from urllib.parse import unquote

from alveus.values.lazy_dataclass import dataclass

_UNSEEN = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\U000e0100-\U000e01ef]"
)

_TAGS = {0xE0000 + code: code for code in range(0x20, 0x7F)}
"""Tag characters: invisible characters that encode ASCII."""

_SPELLED = re.compile(r"(?<!\S)(?:[A-Za-z0-9_] ){3,}")
"""Single characters, each with a space after it, before other text."""

_BROKEN = re.compile(
    r"(?<=[A-Za-z0-9_])(?:[-\\]|[\"'][ \t]{0,8}[+\\]?)?[ \t]{0,8}\r?\n"
    r"[ \t]{0,16}[\"']?(?=[A-Za-z0-9])"
)
"""The end of a line within a word, with a hyphen, a backslash or quotes around it."""

_LOOKALIKES = str.maketrans(
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0458\u0455\u0501\u04bb\u04cf\u043a\u043c"
    "\u043d\u0442\u03bd\u03bf\u03c1\u03b1\u03b9\u03ba\u03c4\u0261"
    "\u1d00\u0299\u1d04\u1d05\u1d07\ua730\u0262\u029c\u026a\u1d0a\u1d0b\u029f\u1d0d\u0274\u1d0f\u1d18"
    "\u0280\ua731\u1d1b\u1d1c\u1d20\u1d21\u028f\u1d22",
    "aeopcyxijsdhlkmhtvopaiktgabcdefghijklmnoprstuvwyz",
)
"""Letters that look like Latin ones: https://www.unicode.org/reports/tr39/ has the whole list."""

_ACCENTS = re.compile("[\u0300-\u036f]")
_SPACED = re.compile(r"\b(?:\w[ .\-_*]){2,}\w\b")
_GAPS = re.compile(r"[ .\-_*]")
_ENCODED = re.compile(r"[A-Za-z0-9+/]{16,}={0,2}")
_HEX = re.compile(r"(?<![0-9a-f])(?:[0-9a-f]{2} ?){12,2000}(?![0-9a-f])")
_BINARY = re.compile(r"(?<![01])(?:[01]{8} ?){8,2000}(?![01])")
_SPACES = re.compile(r"[^\S\n]+")
_LEET = re.compile(r"(?=[0-9@$|!]{0,15}[a-z])(?=[a-z]{0,15}[0134578@$|])[a-z0-9@$|!]{2,16}")
_LETTERS = str.maketrans("0134578@$|!", "oieastbasli")
_ELLS = str.maketrans("0134578@$|!", "oleastbasli")

_BACKWARDS = ("snoitcurtsni", "tpmorp", "selur", "senilediug")
_ROTATED = ("vafgehpgvba", "cebzcg", "ehyrf", "thvqryvarf")

DECODED = 8
"""Most pieces of base64 that are decoded per text."""


@dataclass(frozen=True, slots=True)
class Plain:
    """A text after a removal, and the positions of its characters in the original.

    Attributes:
        text: The remaining text.
        positions: The original position of each character, and of the end; None if the text is the
            original.
    """

    text: str
    positions: tuple[int, ...] | None = None

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Return the span of the original text that a span of this text comes from."""
        if self.positions is None or start >= end:
            return start, end
        return self.positions[start], self.positions[end - 1] + 1

    def without(self, pattern: re.Pattern[str], spaces: str = "") -> Plain:
        """Return the text without matches of a pattern.

        If *spaces* is given, only the characters in it are removed from the matches.
        """
        kept = list[int]()
        at = 0
        for found in pattern.finditer(self.text):
            kept += range(at, found.start())
            if spaces:
                kept += [n for n in range(*found.span()) if self.text[n] not in spaces]
            at = found.end()
        kept += range(at, len(self.text))
        before = self.positions or range(len(self.text) + 1)
        return Plain("".join(self.text[n] for n in kept), tuple(before[n] for n in kept))


def unveiled(text: str) -> str:
    """Return *text* as a reader sees it: without invisible characters, in compatibility form."""
    if text.isascii():
        return text
    return _UNSEEN.sub("", unicodedata.normalize("NFKC", text.translate(_TAGS)))


def unveiled_with_positions(text: str) -> Plain:
    """Return *text* as `unveiled` does, with the original position of each character."""
    if text.isascii():
        return Plain(text)
    seen, positions = list[str](), list[int]()
    for at, char in enumerate(text.translate(_TAGS)):
        if _UNSEEN.match(char):
            continue
        one = char if char.isascii() else unicodedata.normalize("NFKC", char)
        seen.append(one)
        positions += [at] * len(one)
    return Plain("".join(seen), tuple(positions))


def unspelled(plain: Plain) -> Plain | None:
    """Return the text without the spaces of words spelled with a space after each character.

    Return None if the text has no such words.
    """
    if not _SPELLED.search(plain.text):
        return None
    return plain.without(_SPELLED, " ")


def unbroken(plain: Plain) -> Plain | None:
    """Return the text with the words joined that line ends split, or None if it has one line."""
    if "\n" not in plain.text:
        return None
    return plain.without(_BROKEN)


# --- forms in which phrases are searched for ---------------------------------------------------


def forms(text: str) -> Iterator[str]:
    """Yield the distinct forms of a text; the first is the text as a reader sees it."""
    yielded = set[str]()
    for form in _forms(text):
        if form not in yielded:
            yielded.add(form)
            yield form


def _forms(text: str) -> Iterator[str]:
    seen = visible(text)
    yield seen
    if not seen.isascii():
        yield seen.translate(_LOOKALIKES)
    if _SPACED.search(seen):
        words = re.split(r"\s{2,}|\n", unaccented(unveiled(text).lower()))
        yield " ".join(_SPACED.sub(lambda run: _GAPS.sub("", run[0]), word) for word in words)
    if any(c in seen for c in "0134578@$") and len(_LEET.findall(seen)) > 1:
        yield seen.translate(_LETTERS)
        yield seen.translate(_ELLS)
    if "%" in text and "%20" in text:
        yield visible(unquote(text))
    if "&" in text and ";" in text:
        yield visible(html.unescape(text))
    if any(word in seen for word in _BACKWARDS):
        yield seen[::-1]
    if any(word in seen for word in _ROTATED):
        yield str(encode(seen, "rot13"))
    yield from _decoded(text)
    yield from _from_numbers(seen)


def _decoded(text: str) -> Iterator[str]:
    for _, piece in zip(range(DECODED), _ENCODED.finditer(text), strict=False):
        try:
            decoded = b64decode(piece[0] + "=" * (-len(piece[0]) % 4)).decode()
        except (Error, UnicodeDecodeError):
            continue
        yield visible(decoded)


def _from_numbers(seen: str) -> Iterator[str]:
    """Yield each text whose bytes are written as binary or hexadecimal digits in *seen*."""
    for pattern, width in ((_BINARY, 8), (_HEX, 2)):
        for _, piece in zip(range(DECODED), pattern.finditer(seen), strict=False):
            digits = piece[0].replace(" ", "")
            value = int(digits, 2 if pattern is _BINARY else 16)
            try:
                decoded = value.to_bytes(len(digits) // width, "big").decode()
            except UnicodeDecodeError:
                continue
            yield visible(decoded)


def visible(text: str) -> str:
    """Return *text* in the form in which phrases are searched for.

    The form is unveiled, unaccented, and in lower case with single spaces.
    """
    return _SPACES.sub(" ", unaccented(unveiled(text).lower()).replace("\u2019", "'"))


def unaccented(text: str) -> str:
    """Return *text* without the accents of its Latin, Greek and Cyrillic letters."""
    if text.isascii():
        return text
    bare = _ACCENTS.sub("", unicodedata.normalize("NFD", text)).replace("\u0131", "i")
    return unicodedata.normalize("NFC", bare)
