"""A guess of the language of a text, from its script, its letters and its function words.

Each word votes for the languages that list it. A word in another script than Latin votes for the
languages of the script, and a letter such as "ß" for the languages that use it. The language with
most votes is the guess, unless English or no language has as many. A text with no votes, such as a
name or a code, has no known language, and neither has a text of two languages in equal parts.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from alveus.values.lazy import words_of
from alveus.values.native import NATIVE

if TYPE_CHECKING:
    from alveus.values._native import Native

ENGLISH = "en"

READ = 400
"""Characters of a text that are read: its first ones."""

READ_WORDS = 40
"""Words of a text that are read."""

CACHED_TEXTS = 4_096
"""Most texts whose language a process caches."""

CACHED_WORDS = 16_384
"""Most words whose votes a process caches: about 2 MB. A full cache is emptied."""

LONGEST_CACHED = 24
"""Characters of the longest word whose votes are cached."""

_SCRIPTS = (
    ("el", "\u0370-\u03ff\u1f00-\u1fff"),
    ("ru uk bg sr", "\u0400-\u052f"),
    ("hy", "\u0530-\u058f"),
    ("he", "\u0590-\u05ff"),
    ("ar fa ur", "\u0600-\u06ff\u0750-\u077f\ufb50-\ufdff\ufe70-\ufeff"),
    ("hi", "\u0900-\u097f"),
    ("bn", "\u0980-\u09ff"),
    ("pa", "\u0a00-\u0a7f"),
    ("gu", "\u0a80-\u0aff"),
    ("or", "\u0b00-\u0b7f"),
    ("ta", "\u0b80-\u0bff"),
    ("te", "\u0c00-\u0c7f"),
    ("kn", "\u0c80-\u0cff"),
    ("ml", "\u0d00-\u0d7f"),
    ("si", "\u0d80-\u0dff"),
    ("th", "\u0e00-\u0e7f"),
    ("lo", "\u0e80-\u0eff"),
    ("bo", "\u0f00-\u0fff"),
    ("my", "\u1000-\u109f"),
    ("ka", "\u10a0-\u10ff\u1c90-\u1cbf"),
    ("ko", "\u1100-\u11ff\u3130-\u318f\ua960-\ua97f\uac00-\ud7ff"),
    ("am", "\u1200-\u137f"),
    ("km", "\u1780-\u17ff"),
    ("mn", "\u1800-\u18af"),
    ("zh ja", "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"),
    ("ja", "\u3040-\u30ff\u31f0-\u31ff\uff66-\uff9f"),
)
"""The languages of each script, the most common first, and the ranges of its letters."""

_UNSPACED = frozenset({"th", "lo", "bo", "my", "km", "ja", "zh ja"})
"""Scripts without spaces between words. Two of their letters count as a word."""

_NO_ENDINGS = frozenset({"id", "sw", "tl", "vi"})
"""Languages in Latin letters whose words change at the beginning, or not at all."""

_OTHER = "other"
"""The name of the votes that letters of no certain language have."""

_VOTE, _HALF, _MOST = 2, 1, 6
"""The numbers that count as a vote and as half a vote; the most that a short word has.

With them, the votes of `READ_WORDS` words, of `READ` characters in all, fit into a byte.
"""

_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)*")
_LATIN = re.compile("[A-Za-z]+")
_LETTER = re.compile(r"[^\W\d_]")
_NO_PROSE = re.compile(r"[/@\\_=<>{}\[\]#\d]|\w[.:]\w")
"""Matches words of addresses, codes and names of files."""


class _Votes(dict[str, int]):
    """The votes of words: for each language a byte in one number. A cache of words."""

    def __init__(self) -> None:
        super().__init__()
        lists = words_of(__file__)
        letters, self._loans = lists.pop("letters"), frozenset(lists.pop("loans"))
        self.particles = frozenset(lists.pop("particles"))
        scripted = [code for codes, _ in _SCRIPTS for code in codes.split()]
        latin = [code for code in lists if code not in scripted]
        self.languages = list(dict.fromkeys([ENGLISH, _OTHER, *latin, *scripted]))
        self.with_endings = frozenset(latin) - {ENGLISH, *_NO_ENDINGS}
        self._scripted = len({ENGLISH, _OTHER, *latin})
        self._units = {code: 1 << 8 * at for at, code in enumerate(self.languages)}
        self._words = _by_entry(lists.items())
        self._letters = _by_entry(zip(letters[::2], letters[1::2], strict=True))
        self._scripts = [
            (re.compile(f"[{ranges}]+"), codes.split(), codes in _UNSPACED)
            for codes, ranges in _SCRIPTS
        ]

    def __missing__(self, token: str) -> int:
        if token.isascii() and _NO_PROSE.search(token):
            return 0
        votes = sum(count * self._units[code] for code, count in self._counts(token).items())
        if len(token) <= LONGEST_CACHED:
            if len(self) >= CACHED_WORDS:
                self.clear()
            self[token] = votes
        return votes

    def listed(self) -> Iterator[tuple[str, int]]:
        """Yield each listed word, with a bit for the position of each language that lists it."""
        for word, codes in self._words.items():
            yield word, sum([1 << self.languages.index(code) for code in codes])

    def _counts(self, token: str) -> Counter[str]:
        """Return the half votes of *token* for each language."""
        counts = Counter[str]() if token.isascii() else self._of_scripts(token)
        in_script = bool(counts)
        if in_script or not _NO_PROSE.search(token):
            for word in _WORD.findall(token.replace("\u2019", "'")):
                self._count_word(word, counts, in_script=in_script)
        return Counter({code: min(n, max(_MOST, len(token) // 4)) for code, n in counts.items()})

    def _of_scripts(self, token: str) -> Counter[str]:
        counts, letters = Counter[str](), Counter[str]()
        for script, codes, unspaced in self._scripts:
            if runs := script.findall(token):
                if unspaced:
                    letters.update(dict.fromkeys(codes, sum(map(len, runs))))
                else:
                    counts.update(dict.fromkeys(codes, _VOTE * len(runs)))
        if letters["ja"] > letters["zh"]:  # kana
            del letters["zh"]
        counts.update({code: min(n, _VOTE * 2 + n // 5) for code, n in letters.items() if n})
        if counts:
            counts[ENGLISH] += _HALF * len(_LATIN.findall(token))
        return counts

    def _count_word(self, word: str, counts: Counter[str], *, in_script: bool) -> None:
        """Add to *counts* the half votes that a word has by the lists and its letters."""
        plain = word.lower()
        small = word == plain
        listed = self._words.get(plain, ())
        if not small:  # a name may begin with a capital
            listed = [code for code in listed if code == ENGLISH]
        counts.update(dict.fromkeys(listed, _VOTE))
        if word.isascii() or plain in self._loans:
            return
        known = {code for letter in plain for code in self._letters.get(letter, ())}
        counts.update(dict.fromkeys(known, _VOTE if small else _HALF))
        if small and not in_script:
            counts[_OTHER] += _HALF

    def language(self, words: list[str]) -> tuple[str | None, int]:
        """Return the language of *words* and its lead over English, in half votes."""
        total = sum(map(self.__getitem__, words[1:]), self[words[0].lower()])
        if total < 1 << 8:  # no language but English has votes
            return (ENGLISH if total else None), 0
        plain = total.to_bytes(len(self.languages), "little")
        if not plain[_OTHER_AT] and plain[0] == max(plain):
            return ENGLISH, 0
        counts = bytearray(plain)
        others, counts[_OTHER_AT] = counts[_OTHER_AT], 0
        english, most = counts[0], max(counts)
        if most and max(counts[self._scripted :]) == most:
            english += _HALF * sum(word.isascii() and word.isalpha() for word in words)
        if most > english or (most == english and most and others and most in counts[1:]):
            return self.languages[counts.index(most, 1)], most + others - english
        return (ENGLISH if most == counts[0] > others else None), 0


def _by_entry(lists: Iterable[tuple[str, Iterable[str]]]) -> dict[str, list[str]]:
    """Return for each entry of *lists* the names of the lists that have it."""
    names: dict[str, list[str]] = {}
    for name, entries in lists:
        for entry in entries:
            names.setdefault(entry, []).append(name)
    return names


_OTHER_AT = 1
_FEW = 2 * _VOTE
"""The largest lead over English that names such as "Rio de Janeiro" may make."""


def language_of(text: str) -> str | None:
    """Return the ISO 639-1 code of the language of *text*.

    Return None if it is unknown or mixed. Names, numbers, codes and addresses have no language. The
    guess reads the first `READ` characters. An ASCII text that is not longer and has one of
    `_SURE_WORDS` between spaces is English without a guess.
    """
    if NATIVE is not None:
        found = NATIVE.guess_language(text, known_languages(NATIVE))
        if found is not None:
            return None if found < 0 else _votes().languages[found]
    elif text.isascii() and len(text) <= READ and not _SURE_WORDS.isdisjoint(text.split(" ")[1:-1]):
        return ENGLISH
    return _language_of(text[:READ])


def has_endings(text: str) -> bool:
    """Return whether *text* is in an inflected language with Latin letters, except English."""
    language = language_of(text)
    return language is not None and language != ENGLISH and language in _votes().with_endings


@lru_cache(maxsize=CACHED_TEXTS)
def _language_of(head: str) -> str | None:
    if not head.isascii():
        # İ in lower case is two characters, the second no letter.
        head = unicodedata.normalize("NFC", head).replace("\u0130", "I")
    words = (head.lower() if head.isupper() else head).split(None, READ_WORDS)[:READ_WORDS]
    if not words:
        return None
    votes = _votes()
    if words[0] in _NAMES:
        words[0] = ""
    language, lead = votes.language(words)
    if 0 < lead <= _FEW and not votes.particles.isdisjoint(word.lower() for word in words):
        language, _ = votes.language(_without_particles(words, votes.particles))
    return language


def _without_particles(words: list[str], particles: frozenset[str]) -> list[str]:
    """Return *words* without the particles of names, such as "de" in "Rio de Janeiro"."""
    kept: list[str] = []
    in_name = False
    for at, word in enumerate(words):
        after = words[at + 1] if at + 1 < len(words) else ""
        opens = not at and word.lower() in _ARTICLES_OF_NAMES
        names = after in particles or after[:1].isupper()
        if names and (opens or (in_name and word in particles)):
            continue
        kept.append(word)
        in_name = word[:1].isupper()
    return kept or [""]


_NAMES = frozenset(
    [
        "Ada",
        "Al",
        "Ali",
        "Alla",
        "Ben",
        "Bo",
        "Dan",
        "Ella",
        "Jo",
        "Kim",
        "Mia",
        "Mina",
        "Ona",
        "Per",
        "Pia",
        "Sam",
        "Van",
        "Vera",
        "Will",
    ]
)
"""Names that are function words of a language; at the beginning of a text they are names."""

_ARTICLES_OF_NAMES = frozenset({"el", "la", "las", "le", "les", "los", "il"})
"""Articles that begin names, such as "Los Angeles", in languages that write nouns small."""

_SURE_WORDS = frozenset({"and", "have", "that", "the", "this", "what", "with", "you"})


@lru_cache(maxsize=1)
def _votes() -> _Votes:
    return _Votes()


@lru_cache(maxsize=1)
def known_languages(native: Native) -> object:
    """Return the listed words for the C extension."""
    listed = [(word, bits, 0) for word, bits in _votes().listed() if word.isascii()]
    kinds = [(word, 0, 1) for word in _NAMES] + [(word, 0, 2) for word in _SURE_WORDS]
    return native.listed_words(listed + kinds)
