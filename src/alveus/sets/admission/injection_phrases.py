"""Phrases of `injection_english.toml` and `injection_languages.toml`, read at their first use."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from functools import cache
from importlib import resources
from typing import Any

from alveus.sets.admission.injection_forms import unaccented
from alveus.values.lazy_dataclass import dataclass

GAP = r"[^.!?\n\u3002]{0,40}?"

ORDERS = "gives orders for later"


@dataclass(frozen=True, slots=True)
class PhraseFamily:
    """Phrases that try the same.

    Attributes:
        patterns: Regular expressions with the names of lists of words in them.
        deeds: What has to follow a phrase; empty: nothing has to.
    """

    name: str
    patterns: tuple[str, ...]
    deeds: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PhraseGroup:
    """Families with words in common.

    Attributes:
        needs: A text with none of these has no phrase of the group; to see that costs little.
        ascii: A text of ASCII may have a phrase of the group.
    """

    needs: tuple[str, ...]
    families: tuple[PhraseFamily, ...]

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


@dataclass(frozen=True, slots=True)
class AttackPhrases:
    """What attacks in one language are made of; each is a part of a regular expression.

    Attributes:
        ignore: To ignore, to forget; as an order.
        old: Earlier, above, all, your.
        laws: Instructions, rules.
        forget: "Forget what you were told before".
        no_longer: "You are no longer", or "you are now".
        persona: An assistant; without limits, a hacker.
        frame: A new instruction and a colon; from now on; when the user asks; remember.
        deed: To transfer, to approve all, to send to an address.
        hide: Do not tell the user.
        reveal: Show the system prompt.
        answer: To answer, as an order: after a new instruction that holds from now on.
        needs: Parts of words, by ``_``; a text with none of them has no such phrase.
        spaced: Words have spaces between them.
    """

    ignore: str
    old: str
    laws: str
    forget: str
    no_longer: str
    persona: str
    frame: str
    deed: str
    hide: str
    reveal: str
    answer: str
    needs: str
    spaced: bool = True


@cache
def phrase_groups() -> tuple[PhraseGroup, ...]:
    """Return the phrases of all languages."""
    return (*english_groups(), *map(language_group, languages().values()))


@cache
def word_lists() -> dict[str, tuple[str, ...]]:
    """Return lists of regular expressions by the name that English phrases use."""
    lists: dict[str, str] = _read("injection_english.toml")["words"]
    return {name: _words(listed) for name, listed in lists.items()}


def languages() -> dict[str, AttackPhrases]:
    """Return what attacks are made of, by the name of the language."""
    read = _read("injection_languages.toml")
    return {name: AttackPhrases(**parts) for name, parts in read.items()}


def english_groups() -> Iterator[PhraseGroup]:
    """Yield the families of English phrases, each as a group."""
    read = _read("injection_english.toml")
    for family in read["families"]:
        phrases = PhraseFamily(family["name"], tuple(family["phrases"]))
        yield PhraseGroup(_words(family["needs"]), (phrases,))
    orders = read["orders"]
    phrases = PhraseFamily(ORDERS, tuple(orders["announcements"]), tuple(orders["deeds"]))
    yield PhraseGroup(_words(orders["needs"]), (phrases,))


def language_group(words: AttackPhrases) -> PhraseGroup:
    """Return the families of another language: the same phrases of its words."""
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
        PhraseFamily("sets instructions aside", aside),
        PhraseFamily("lifts limits", (phrase(words.no_longer, words.persona),)),
        PhraseFamily(ORDERS, (unaccented(order), unaccented(rule))),
        PhraseFamily("keeps it from the user", (phrase(words.hide),)),
        PhraseFamily("asks for the prompt", (phrase(words.reveal),)),
    )
    return PhraseGroup(tuple(unaccented(need) for need in words.needs.split("_")), families)


def _words(listed: str) -> tuple[str, ...]:
    return tuple(word.replace("_", " ") for word in listed.split())


@cache
def _read(name: str) -> dict[str, Any]:
    return tomllib.loads(resources.files(__package__).joinpath(name).read_text(encoding="utf-8"))
