"""Phrases with which a text tries to command the agent that reads it.

`disguises.forms` first makes a text plain. Each form is then searched for phrases of a few
families, in English (`injection_english.toml`) and in other languages (`injection_languages.toml`).
A phrase is common in known attacks, but no proof of one: so `Injection` quarantines by default. A
phrase is harmless if it is forbidden ("never ignore safety instructions"), reported about a person
("he forgets what was said above"), or quoted as an example of an attack (`injection_guards.toml`).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from functools import cache

from alveus.sets.admission.disguises import forms, unaccented
from alveus.values.lazy import data_file, lazy_attribute
from alveus.values.lazy_dataclass import dataclass

PACKAGE = "alveus.sets.admission"

FAR = 160
"""Most characters between the announcement of an order and the order."""

GAP = r"[^.!?\n\u3002]{0,40}?"

ORDERS = "gives orders for later"

GUARDED = {"sets instructions aside", "lifts limits"}
"""Families whose phrases are harmless if they are forbidden, or reported about a person."""

_QUOTES = re.compile(
    r"\"[^\"\n]{2,300}\"|\u201c[^\u201d\n]{2,300}\u201d|`[^`\n]{2,300}`"
    r"|\u00ab[^\u00bb\n]{2,300}\u00bb|(?<!\w)'[^'\n]{4,300}'(?!\w)"
)


QUOTED = frozenset({"tool", "function", "agent", "document", "page", "web"})
"""Roles of texts that only report: an order in such a text is no wish of the user."""


def injections(text: str, *, role: str | None = None) -> Iterator[str]:
    """Yield the families of phrases in *text*, each once.

    Args:
        role: The role of who said it. In a text with one of the roles `QUOTED`, orders count that
            a user may give.
    """
    yielded = set[str]()
    for form in forms(text):
        examples = Examples(form)
        for group in _groups(ascii_only=form.isascii(), quoted=role in QUOTED):
            if not group.may_be_in(form):
                continue
            for family in group.families:
                if family.name not in yielded and _has(form, family, examples):
                    yielded.add(family.name)
                    yield family.name


def _has(form: str, family: PhraseFamily, examples: Examples) -> bool:
    for pattern in family.patterns:
        for found in _compiled(pattern).finditer(form):
            ends = found.end() + FAR
            if family.deeds and not any(
                _compiled(deed).search(form, found.start(), ends) for deed in family.deeds
            ):
                continue
            if family.name in GUARDED and _is_opposed(form, found):
                continue
            if found not in examples:
                return True
    return False


@cache
def _compiled(phrase: str) -> re.Pattern[str]:
    """Return a phrase as a compiled pattern, when it is needed: most texts need few phrases."""
    for name, words in word_lists().items():
        phrase = phrase.replace(f"<{name}>", f"(?:{'|'.join(words)})")
    return re.compile(phrase)


# --- harmless phrases ---------------------------------------------------------------------------


def _is_opposed(form: str, match: re.Match[str]) -> bool:
    """Return whether the action of a phrase is forbidden, or reported about a person."""
    before = form[max(0, match.start() - 28) : match.start()]
    if _guard("forbids").search(before) or _guard("tells").search(before):
        return True
    return _guard("forbids_after").search(form[match.start() : match.end() + 8]) is not None


class Examples:
    """The quotations in a text that mentions attacks outside of the quotations, too."""

    def __init__(self, form: str) -> None:
        self._form = form

    def __contains__(self, found: re.Match[str]) -> bool:
        at = bisect_right(self._quoted, (found.start(), len(self._form))) - 1
        return at >= 0 and found.end() <= self._quoted[at][1]

    @lazy_attribute
    def _quoted(self) -> list[tuple[int, int]]:
        topic = _guard("topics")
        if not topic.search(self._form) or not topic.search(_QUOTES.sub("", self._form)):
            return []
        return [quoted.span() for quoted in _QUOTES.finditer(self._form)]


@cache
def _guard(name: str) -> re.Pattern[str]:
    lists = data_file(PACKAGE, "injection_guards.toml")
    listed = {name: f"(?:{'|'.join(words)})" for name, words in lists.items()}
    return re.compile(_GUARDS[name].format(**listed))


_GUARDS = {
    "forbids": r"(?:\b{forbids}(?: {forbids_then})? |{forbids_joined})$",
    "forbids_after": r"^\S+ (?:bitte |sie )?{forbids_after}\b(?! mehr)|{forbids_ending}",
    "tells": r"\b{tells}(?: {tells_then})? $",
    "topics": r"\b{topics}\b|{topics_joined}",
}


# --- phrases ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PhraseFamily:
    """Phrases with the same aim.

    Attributes:
        patterns: Regular expressions that contain names of word lists.
        deeds: One of these patterns must follow the phrase. If empty, the phrase alone is enough.
        only_quoted: Whether the phrases count only in texts with one of the roles `QUOTED`.
    """

    name: str
    patterns: tuple[str, ...]
    deeds: tuple[str, ...] = ()
    only_quoted: bool = False


@dataclass(frozen=True, slots=True)
class PhraseGroup:
    """Families that share words.

    Attributes:
        needs: Words that are quick to find; a text without any of them has no phrase of the group.
    """

    needs: tuple[str, ...]
    families: tuple[PhraseFamily, ...]

    @property
    def ascii(self) -> bool:
        """Whether a text in ASCII may contain a phrase of the group."""
        return any(need.isascii() for need in self.needs)

    def may_be_in(self, form: str) -> bool:
        """Return whether a text may contain a phrase of the group."""
        for need in self.needs:  # noqa: SIM110 - any() takes twice as long
            if need in form:
                return True
        return False


@dataclass(frozen=True, slots=True)
class AttackPhrases:
    """The parts of attacks in one language; each is a part of a regular expression.

    Attributes:
        ignore: To ignore, to forget; as an order.
        old: Earlier, above, all, your.
        laws: Instructions, rules.
        forget: "Forget the instructions before".
        no_longer: "You are no longer", or "you are now".
        persona: An assistant; without limits, a hacker.
        frame: A new instruction and a colon; from now on; when the user asks; remember.
        deed: To transfer, to approve all, to send to an address.
        hide: Do not tell the user.
        reveal: Show the system prompt.
        answer: To answer, as an order: after a new instruction that is valid from now on.
        give: To send, to tell.
        secrets: Passwords, credentials, card numbers.
        every: Every, all, of the user: whose secrets.
        oblige: You must, always recommend; in what a tool says.
        address: A note for the assistant, tell the user; in what a tool says.
        needs: Parts of words, separated by ``_``. A text without any of these parts has no phrase
            of the language.
        spaced: Whether spaces separate words.
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
    give: str
    secrets: str
    every: str
    oblige: str
    address: str
    needs: str
    spaced: bool = True


@cache
def phrase_groups() -> tuple[PhraseGroup, ...]:
    """Return the phrases of all languages."""
    return (*english_groups(), *map(language_group, languages().values()))


@cache
def _groups(*, ascii_only: bool, quoted: bool) -> tuple[PhraseGroup, ...]:
    """Return the groups to search in a text of ASCII only, or in any text.

    Args:
        quoted: Whether the text has one of the roles `QUOTED`.
    """
    found = list[PhraseGroup]()
    for group in phrase_groups():
        families = tuple(one for one in group.families if quoted or not one.only_quoted)
        if families and (group.ascii or not ascii_only):
            found.append(PhraseGroup(group.needs, families))
    return tuple(found)


@cache
def word_lists() -> dict[str, tuple[str, ...]]:
    """Return the lists of regular expressions that English phrases use, by name."""
    lists: dict[str, str] = data_file(PACKAGE, "injection_english.toml")["words"]
    return {name: _words(listed) for name, listed in lists.items()}


def languages() -> dict[str, AttackPhrases]:
    """Return a dict from languages to the parts of attacks in each."""
    read = data_file(PACKAGE, "injection_languages.toml")
    return {name: AttackPhrases(**parts) for name, parts in read.items()}


def english_groups() -> Iterator[PhraseGroup]:
    """Yield the families of English phrases, each as a group."""
    read = data_file(PACKAGE, "injection_english.toml")
    for family in read["families"]:
        phrases = PhraseFamily(family["name"], tuple(family["phrases"]))
        yield PhraseGroup(_words(family["needs"]), (phrases,))
    orders = read["orders"]
    phrases = PhraseFamily(ORDERS, tuple(orders["announcements"]), tuple(orders["deeds"]))
    yield PhraseGroup(_words(orders["needs"]), (phrases,))
    quoted = read["quoted"]
    phrases = PhraseFamily(ORDERS, tuple(quoted["phrases"]), only_quoted=True)
    yield PhraseGroup(_words(quoted["needs"]), (phrases,))


def language_group(words: AttackPhrases) -> PhraseGroup:
    """Return the families of a language other than English, made from its parts of attacks."""
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
    # First a new instruction and a colon; then a lasting order to answer in some way.
    lasting = f"{frame}(?<=[:\\uff1a])[^\\n]{{0,20}}?{frame}"
    rule = f"{lasting}[^.!?\\n\u3002]{{0,60}}?{edge}(?:{words.answer})"
    # In one sentence, in any order: languages differ in it.
    leaks = (
        _together(edge, words.frame, words.give, words.secrets, words.every),
        _together(edge, words.secrets, words.every, begins=words.give),
    )
    address = unaccented(f"{edge}(?:{words.address})")
    reports = (_together(edge, words.frame, words.oblige), address)
    families = (
        PhraseFamily("sets instructions aside", aside),
        PhraseFamily("lifts limits", (phrase(words.no_longer, words.persona),)),
        PhraseFamily(ORDERS, (unaccented(order), unaccented(rule), *leaks)),
        PhraseFamily(ORDERS, reports, only_quoted=True),
        PhraseFamily("keeps it from the user", (phrase(words.hide),)),
        PhraseFamily("asks for the prompt", (phrase(words.reveal),)),
    )
    return PhraseGroup(tuple(unaccented(need) for need in words.needs.split("_")), families)


def _together(edge: str, *parts: str, begins: str = "") -> str:
    """Return a pattern for the start of a sentence that has all parts, and forbids nothing.

    Args:
        begins: What the sentence begins with; anything, if empty.
    """
    within = r"[^.!?\n\u3002]{0,160}?"
    lists = data_file(PACKAGE, "injection_guards.toml")
    forbids = "|".join((rf"\b(?:{'|'.join(lists['forbids'])})\b", *lists["forbids_joined"]))
    wanted = "".join(f"(?={within}{edge}(?:{part}))" for part in parts)
    start = rf"(?:^|(?<=[.!?:\n\u3002]))[ \n]?(?:{begins})"
    return unaccented(f"{start}{wanted}(?!{within}(?:{forbids}))[^\n]")


def _words(listed: str) -> tuple[str, ...]:
    return tuple(word.replace("_", " ") for word in listed.split())
