"""Phrases by which a text tries to command the agent that will read it.

A text is first made plain: compatibility forms, letters of other scripts that look like Latin
ones, accents, characters that are not seen, words spelled with gaps, digits in place of letters,
and what is encoded. What remains is compared with phrases of a few families, in English and in the
words of other languages (`injection_phrases`). A phrase is a habit of known attacks, not a proof of
one: hence quarantine, not rejection, is what `Injection` does by default. A phrase that is
forbidden ("never ignore safety instructions"), reported of somebody ("he forgets what was said
above"), or quoted as an example of an attack, is none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from alveus.sets.admission.injection_forms import forms
from alveus.sets.admission.injection_guards import Examples, is_opposed
from alveus.sets.admission.injection_phrases import (
    PhraseFamily,
    PhraseGroup,
    phrase_groups,
    word_lists,
)

FAR = 160
"""Characters after the announcement of an order within which the order is looked for."""

GUARDED = {"sets instructions aside", "lifts limits"}
"""Families whose phrases are harmless where they are forbidden, or told of somebody."""


@cache
def _compiled(phrase: str) -> re.Pattern[str]:
    """Return a phrase as a pattern; most texts need few of them."""
    for name, words in word_lists().items():
        phrase = phrase.replace(f"<{name}>", f"(?:{'|'.join(words)})")
    return re.compile(phrase)


@cache
def _groups(*, ascii_only: bool) -> tuple[PhraseGroup, ...]:
    """Return the groups that may be in a text, of ASCII only or of any characters."""
    return tuple(group for group in phrase_groups() if group.ascii or not ascii_only)


def injections(text: str) -> Iterator[str]:
    """Yield what families of phrases are in *text*."""
    told = set[str]()
    for form in forms(text):
        examples = Examples(form)
        for group in _groups(ascii_only=form.isascii()):
            if not group.may_be_in(form):
                continue
            for family in group.families:
                if family.name not in told and _has(form, family, examples):
                    told.add(family.name)
                    yield family.name


def _has(form: str, family: PhraseFamily, examples: Examples) -> bool:
    for pattern in family.patterns:
        for found in _compiled(pattern).finditer(form):
            if family.deeds and not _is_followed(form, found, family.deeds):
                continue
            if family.name in GUARDED and is_opposed(form, found):
                continue
            if found not in examples:
                return True
    return False


def _is_followed(form: str, frame: re.Match[str], deeds: tuple[str, ...]) -> bool:
    return any(_compiled(deed).search(form, frame.start(), frame.end() + FAR) for deed in deeds)
