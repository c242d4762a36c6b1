"""Secrets in texts: keys and tokens, passwords in settings or sentences, private keys, cards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from fornix.sets.admission.disguises import Plain, unbroken, unspelled, unveiled_in_place
from fornix.sets.admission.named_secrets import named_secrets
from fornix.sets.admission.secret_formats import SecretSpan, cards, known_formats, private_keys

Search: TypeAlias = Callable[[str], Iterator[SecretSpan]]
"""Finds secrets of some kinds."""


def secrets(text: str) -> Iterator[str]:
    """Yield what kinds of secrets are in *text*, each time that it has one."""
    for _, _, kind in _secret_spans(text):
        yield kind


def secret_spans(text: str) -> list[SecretSpan]:
    """Return where *text* has secrets, in order; spans that overlap are made one.

    Whoever takes these characters out has taken out every secret that the rule `Secrets` finds.
    Names, quotes and words around a secret are not in its span; characters that are not seen,
    gaps and ends of lines within it are.
    """
    joined: list[SecretSpan] = []
    for start, end, kind in sorted(_secret_spans(text)):
        if joined and start < joined[-1].end:
            last = joined[-1]
            joined[-1] = SecretSpan(last.start, max(last.end, end), last.kind)
        else:
            joined.append(SecretSpan(start, end, kind))
    return joined


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
