"""Secrets in texts: keys and tokens, passwords in settings or sentences, private keys, cards."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import cache
from hashlib import blake2b
from typing import TypeAlias

from alveus.sets.admission.disguises import Plain, unbroken, unspelled, unveiled_in_place
from alveus.sets.admission.named_secrets import named_secrets
from alveus.sets.admission.secret_formats import SecretSpan, cards, known_formats, private_keys

Search: TypeAlias = Callable[[str], Iterator[SecretSpan]]
"""Finds secrets of some kinds."""

KNOWN_TEXTS = 20_000
"""Texts of which is kept where they have secrets, twice: about 5 MB."""


def secrets(text: str) -> Iterator[str]:
    """Yield what kinds of secrets are in *text*, each time that it has one."""
    for _, _, kind in _secret_spans(text):
        yield kind


def secret_spans(text: str) -> tuple[SecretSpan, ...]:
    """Return where *text* has secrets, in order; spans that overlap are made one.

    Whoever takes these characters out has taken out every secret that the rule `Secrets` finds.
    Names, quotes and words around a secret are not in its span; characters that are not seen,
    gaps and ends of lines within it are.
    """
    return _known_spans().of(text)


class KnownSpans:
    """Where the texts that were looked at lately have secrets, by a keyed digest of each.

    No text is kept, and the key is nowhere but in this object. It may be used from any thread:
    the most that two of them can do to each other is that one looks again.

    Args:
        most: Texts that are kept twice: what was not asked for as so many others were is dropped.
    """

    def __init__(self, most: int = KNOWN_TEXTS) -> None:
        self._most, self._digest = most, blake2b(digest_size=16, key=os.urandom(32))
        self._recent: dict[bytes, tuple[SecretSpan, ...]] = {}
        self._older: dict[bytes, tuple[SecretSpan, ...]] = {}

    def of(self, text: str) -> tuple[SecretSpan, ...]:
        """Return what `secret_spans` does."""
        digest = self._digest.copy()
        digest.update(text.encode(errors="surrogatepass"))
        known = digest.digest()
        spans = self._recent.get(known)
        if spans is None:
            spans = self._older.get(known)
            if spans is None:
                spans = _joined(_secret_spans(text))
            if len(self._recent) >= self._most:
                self._older, self._recent = self._recent, {}
            self._recent[known] = spans
        return spans


@cache
def _known_spans() -> KnownSpans:
    return KnownSpans()


def _joined(found: Iterator[tuple[int, int, str]]) -> tuple[SecretSpan, ...]:
    """Return spans in order, those that overlap as one."""
    joined: list[SecretSpan] = []
    for start, end, kind in sorted(found):
        if joined and start < joined[-1].end:
            last = joined[-1]
            joined[-1] = SecretSpan(last.start, max(last.end, end), last.kind)
        else:
            joined.append(SecretSpan(start, end, kind))
    return tuple(joined)


def _secret_spans(text: str) -> Iterator[tuple[int, int, str]]:
    seen = unveiled_in_place(text)
    yield from _located(seen, (known_formats, named_secrets, private_keys, cards))
    if (spelled := unspelled(seen)) is not None:
        yield from _located(spelled, (known_formats, named_secrets))
    if (whole := unbroken(seen)) is not None:
        yield from _located(whole, (known_formats,))


def _located(plain: Plain, searches: tuple[Search, ...]) -> Iterator[tuple[int, int, str]]:
    for search in searches:
        for found in search(plain.text):
            yield (*plain.span(found.start, found.end), found.kind)
