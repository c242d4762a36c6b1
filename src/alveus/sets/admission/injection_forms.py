"""The forms of a text in which phrases of prompt injection are looked for."""

from __future__ import annotations

import html
import re
import unicodedata
from base64 import b64decode
from binascii import Error
from codecs import encode
from collections.abc import Iterator
from urllib.parse import unquote

from alveus.sets.admission.disguises import unveiled

_LOOKALIKES = str.maketrans(
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0458\u0455\u0501\u04bb\u04cf\u043a\u043c"
    "\u043d\u0442\u03bd\u03bf\u03c1\u03b1\u03b9\u03ba\u03c4\u0261"
    "\u1d00\u0299\u1d04\u1d05\u1d07\ua730\u0262\u029c\u026a\u1d0a\u1d0b\u029f\u1d0d\u0274\u1d0f\u1d18"
    "\u0280\ua731\u1d1b\u1d1c\u1d20\u1d21\u028f\u1d22",
    "aeopcyxijsdhlkmhtvopaiktgabcdefghijklmnoprstuvwyz",
)
"""Letters that pass for Latin ones: https://www.unicode.org/reports/tr39/ has the whole list."""

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
"""Pieces of base64 of a text that are read."""


def forms(text: str) -> Iterator[str]:
    """Yield the forms of a text, each once; the first is the text as it is seen."""
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
    """Yield what bytes spell that are written in binary or in hexadecimal digits."""
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
    """Return *text* as phrases are looked for in it: unveiled, lower case, with single spaces."""
    return _SPACES.sub(" ", unaccented(unveiled(text).lower()).replace("\u2019", "'"))


def unaccented(text: str) -> str:
    """Return *text* without the accents of its Latin, Greek and Cyrillic letters."""
    if text.isascii():
        return text
    bare = _ACCENTS.sub("", unicodedata.normalize("NFD", text)).replace("\u0131", "i")
    return unicodedata.normalize("NFC", bare)
