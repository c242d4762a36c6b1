"""Phrases by which a text tries to command the agent that will read it.

A text is first made plain: compatibility forms, letters of other scripts that look like Latin
ones, accents, characters that are not seen, words spelled with gaps, digits in place of letters,
and what is encoded. What remains is compared with phrases of a few families, in English
(`injection_english`) and in the words of other languages (`injection_languages`). A phrase is a
habit of known attacks, not a proof of one: hence quarantine, not rejection, is what `Injection`
does by default. A phrase that is forbidden ("never ignore safety instructions"), told of somebody
("he forgets what was said above"), or quoted as an example of an attack, is none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from alveus.sets.admission.injection_english import DEEDS, FRAMES, NEEDS, PHRASES
from alveus.sets.admission.injection_forms import forms, unaccented
from alveus.sets.admission.injection_guards import Examples, is_opposed
from alveus.sets.admission.injection_languages import LANGUAGES, AttackPhrases
from alveus.sets.admission.injection_vocabulary import LISTS
from alveus.values.lazy_dataclass import dataclass

GAP = r"[^.!?\n\u3002]{0,40}?"

FAR = 160
"""Characters after the announcement of an order within which the order is looked for."""

ORDERS = "gives orders for later"

GUARDED = {"sets instructions aside", "lifts limits"}
"""Families whose phrases are harmless where they are forbidden, or told of somebody."""


@dataclass(frozen=True, slots=True)
class _Family:
    """Phrases that try the same.

    Attributes:
        deeds: What has to follow a phrase; empty: nothing has to.
    """

    name: str
    patterns: tuple[str, ...]
    deeds: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Group:
    """Families with words in common.

    Attributes:
        needs: A text with none of these has no phrase of the group; to see that costs little.
        ascii: It may be in a text of ASCII only.
    """

    needs: tuple[str, ...]
    families: tuple[_Family, ...]

    @property
    def ascii(self) -> bool:
        """Whether a text of ASCII may have one."""
        return any(need.isascii() for need in self.needs)

    def may_be_in(self, form: str) -> bool:
        """Return whether a phrase of the group may be in a text."""
        for need in self.needs:  # noqa: SIM110 - any() takes twice as long
            if need in form:
                return True
        return False


# --- what patterns are made of ----------------------------------------------------------------


@cache
def _compiled(phrase: str) -> re.Pattern[str]:
    """Return a phrase as a pattern; most texts need few of them."""
    for name, listed in LISTS.items():
        if f"<{name}>" in phrase:
            spelled = "|".join(word.replace("_", " ") for word in listed.split(" "))
            phrase = phrase.replace(f"<{name}>", f"(?:{spelled})")
    return re.compile(phrase)


def _english() -> Iterator[_Group]:
    for name, phrases in PHRASES.items():
        yield _Group(NEEDS[name], (_Family(name, tuple(phrases)),))
    orders = _Family(ORDERS, tuple(FRAMES), tuple(DEEDS))
    yield _Group(NEEDS[ORDERS], (orders,))


def _other(words: AttackPhrases) -> _Group:
    """Return the families of another language: the same phrases of its own words."""
    edge = r"\b" if words.spaced else ""

    def phrase(*parts: str) -> str:
        return unaccented(GAP.join(f"{edge}(?:{part}){edge}" for part in parts))

    aside = (
        phrase(words.ignore, words.old, words.laws),
        phrase(words.ignore, words.laws, words.old),
        phrase(words.old, words.laws, words.ignore),
        phrase(words.forget),
    )
    frame = f"{edge}(?:{words.frame})"
    order = f"{frame}[^\\n]{{0,120}}?{edge}(?:{words.deed})"
    # A new instruction, and a colon; then one for good: to answer in some way.
    lasting = f"{frame}(?<=[:\\uff1a])[^\\n]{{0,20}}?{frame}"
    rule = f"{lasting}[^.!?\\n\u3002]{{0,60}}?{edge}(?:{words.answer})"
    families = (
        _Family("sets instructions aside", aside),
        _Family("lifts limits", (phrase(words.no_longer, words.persona),)),
        _Family(ORDERS, (unaccented(order), unaccented(rule))),
        _Family("keeps it from the user", (phrase(words.hide),)),
        _Family("asks for the prompt", (phrase(words.reveal),)),
    )
    return _Group(tuple(unaccented(need) for need in words.needs.split("_")), families)


_GROUPS = (*_english(), *map(_other, LANGUAGES))
_ASCII = tuple(group for group in _GROUPS if group.ascii)


# --- what is found ----------------------------------------------------------------------------


def injections(text: str) -> Iterator[str]:
    """Yield what families of phrases are in *text*."""
    told = set[str]()
    for form in forms(text):
        examples = Examples(form)
        for group in _ASCII if form.isascii() else _GROUPS:
            if not group.may_be_in(form):
                continue
            for family in group.families:
                if family.name not in told and _has(form, family, examples):
                    told.add(family.name)
                    yield family.name


def _has(form: str, family: _Family, examples: Examples) -> bool:
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
