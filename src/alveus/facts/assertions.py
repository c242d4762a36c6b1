"""What a clause of a speaker is: asserted, asked, supposed, wished, played, planned, past, or talk.

Only what is asserted may end a fact. A clause about somebody else than the speaker, or somebody
whom the clause names, is of kind "other". The tests run in a fixed order and the first that matches
decides. All words are English and stand in `english.toml`. Source: rules that ended no true fact in
120 pairs of sentences that they had not been tuned on (77 of those facts were kept before).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from itertools import pairwise
from typing import Literal, NamedTuple, TypeAlias

from alveus.values.lazy import data_file
from alveus.values.words import STOP_WORDS

Kind: TypeAlias = Literal[
    "asserted", "past", "plan", "instruction", "asked", "played", "supposed", "talk", "other"
]

LONGEST_INSTRUCTION = 20
"""Most words of an instruction."""

MOST_BEFORE = 6
"""Most words before a comma that only lead to the statement: "After ten years in Rome, I …"."""

CACHED = 2_048
"""Most clauses whose judgement a process caches."""


class Clause(NamedTuple):
    """A clause, judged.

    Attributes:
        subject: "I" for the speaker; "my brother" or a name, in lower case, for somebody else; ""
            for anything else.
        is_certain: Whether the subject is one person: "my brother" may be one of several.
        rest: What is said about the subject, with contractions apart; all of the clause if it is
            about a thing of the speaker ("my car is red").
    """

    kind: Kind
    subject: str
    is_certain: bool
    rest: str


class _English(NamedTuple):
    words: dict[str, frozenset[str]]
    plans: re.Pattern[str]
    past: re.Pattern[str]
    of_named: re.Pattern[str]


def pattern_of(*patterns: str) -> re.Pattern[str]:
    """Return a pattern that matches any of *patterns* at word boundaries, in any case."""
    return re.compile(rf"\b(?:{'|'.join(patterns)})(?!\w)", re.IGNORECASE)


@cache
def english() -> _English:
    """Return the words by which clauses are judged, read once."""
    lists = data_file("alveus.facts", "english.toml")["judged"]
    words = {name: frozenset(text.split()) for name, text in lists.items() if isinstance(text, str)}
    return _English(
        words,
        pattern_of(*lists["plans"]),
        pattern_of(*lists["past_phrases"]),
        pattern_of(*lists["of_named"]),
    )


@cache
def _typed() -> tuple[re.Pattern[str], dict[str, str]]:
    forms: dict[str, str] = data_file("alveus.facts", "english.toml")["typed"]
    return pattern_of(*forms), forms


def typed_out(text: str) -> str:
    """Return a clause with the apostrophes and capitals that its author left out."""
    pattern, forms = _typed()
    text = text.replace("\u2019", "'")
    text = pattern.sub(lambda match: forms[match[0].lower()], text)
    text = _ME_AND.sub(lambda match: f"{match[1].title()} and I ", _HERE.sub(r"I am \1", text))
    return re.sub(r"\bi(?=['\s]|$)", "I", text)


_HERE = re.compile(
    r"\A(vegan|vegetarian|pescatarian|single|married|divorced|\d\d) here\b", re.IGNORECASE
)
_ME_AND = re.compile(r"\Ame and ([^\W\d_]+) ", re.IGNORECASE)
_APART = (
    (re.compile(r"\bcan't\b", re.IGNORECASE), "can not"),
    (re.compile(r"\bwon't\b", re.IGNORECASE), "will not"),
    (re.compile(r"n't\b", re.IGNORECASE), " not"),
    (re.compile(r"\bI'm\b"), "I am"),
    (re.compile(r"\b(I|[Ww]e|[Tt]hey|[Yy]ou)'ve\b"), r"\1 have"),
    (re.compile(r"\b(\w+)'ll\b"), r"\1 will"),
    (re.compile(r"\b(\w+)'d\b"), r"\1 would"),
    (re.compile(r"\b([Ww]e|[Tt]hey|[Yy]ou)'re\b"), r"\1 are"),
    (re.compile(r"\b([Hh]e|[Ss]he|[Ii]t|[Tt]hat|[Tt]here|[Ww]hat)'s\b"), r"\1 is"),
    (re.compile(r"\b([A-Z]\w+)'s (?=(?:my|our|an?|the|not)\b)"), r"\1 is "),
)

_BEFORE = re.compile(
    rf"\A(?:[^\s,]+ ){{0,{MOST_BEFORE - 1}}}[^\s,]+, (?=(?:I|we|We|my|My|our|Our)\b)"
)
_TIME = re.compile(
    r"\A(?:in \d{4}|(?:last|next|this) \w+|yesterday|today|tonight|tomorrow|now|lately|recently"
    r"|(?:a|two|three|\d+) \w+ ago|as of (?:\w+)|since \w+|right now|nowadays|these days),? +",
    re.IGNORECASE,
)
_NAME = r"(?:[^\W\d_a-z][^\W\d_]*(?:['\u2019-][^\W\d_]+)*)"
_MY = re.compile(r"(?:my|our) ((?:[\w'-]+ ){0,3}?)([\w'-]+)\b", re.IGNORECASE)
_NAMED = re.compile(rf"\A({_NAME}(?: (?:de|da|del|van|von|der|den|al|bin|la|le|{_NAME}))*) (?=\S)")
_AND_SELF = re.compile(
    rf"\A(?:{_NAME}(?:, {_NAME})*|(?:my|our) [\w'-]+(?: {_NAME})?)(?: and|,) I\b"
)
_LEAD = re.compile(r"(?:finally|recently|just|already|now|actually|also) ", re.IGNORECASE)
_WORD = re.compile(r"[^\W_]+(?:['-][^\W_]+)*")
_MONTH_BEFORE = frozenset({"in", "since", "on", "last", "next", "until", "this", "of"})


def apart(text: str) -> str:
    """Return a clause with its contractions apart: "I'm" is "I am"."""
    for pattern, full in _APART:
        text = pattern.sub(full, text)
    return text


class _Parsed(NamedTuple):
    """A clause with contractions apart.

    Attributes:
        words: Its words in lower case.
        first: The same without words that only lead to the statement.
        verb: The first words behind the subject.
    """

    text: str
    words: list[str]
    first: list[str]
    subject: str
    rest: str
    verb: list[str]


@lru_cache(maxsize=CACHED)
def judged(clause: str) -> Clause:
    """Return what a clause of a speaker is. The clause has been through `typed_out`."""
    text = apart(clause.strip()).rstrip(".!\u2026 ")
    bare = _TIME.sub("", _BEFORE.sub("", text))
    words, first = _words(text), _words(bare)
    if not first:
        return Clause("other", "", is_certain=False, rest="")
    subject, is_certain, rest = _subject(bare)
    parsed = _Parsed(text, words, first, subject, rest, _words(rest)[:6])
    return Clause(_kind_of(parsed), subject, is_certain, rest)


def _kind_of(clause: _Parsed) -> Kind:
    for kind, test in _TESTS:
        if test(clause):
            return kind
    return "asserted"


def _words(text: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(text)]


def _is_asked(clause: _Parsed) -> bool:
    lists, first = english().words, clause.first
    if "?" in clause.text or first[0] in lists["asking"]:
        return True
    return first[0] in lists["auxiliaries"] and first[1:2] != [] and first[1] in lists["pronouns"]


def _is_played(clause: _Parsed) -> bool:
    words = clause.words
    first = words[words[0] == "let" : 3]  # "let's play"
    return not english().words["played"].isdisjoint(first[:1]) or is_scene(words)


def _is_instruction(clause: _Parsed) -> bool:
    first = clause.first
    if len(first) > LONGEST_INSTRUCTION:
        return False
    if first[0] == "please":
        return first[1:2] != [] and first[1] in english().words["requests"]
    if first[:2] == ["call", "me"] or first[:3] == ["from", "now", "on"]:
        return True
    is_order = first[0] in ("always", "never") and len(first) > 2  # noqa: PLR2004 - "never mind"
    return is_order and not _is_experience(first[1])


def _is_experience(word: str) -> bool:
    """Return whether the word behind "never" makes it "I have never"."""
    lists = english().words
    return word in lists["past_verbs"] or word in lists["experiences"] or word.endswith("ed")


def _is_supposed(clause: _Parsed) -> bool:
    words, supposed = clause.words, english().words["supposed"]
    return any(word in supposed and not _is_month(words, at) for at, word in enumerate(words))


def _is_month(words: Sequence[str], at: int) -> bool:
    before = words[at - 1] if at else ""
    return words[at] == "may" and (before in _MONTH_BEFORE or before[:1].isdigit())


def _is_other(clause: _Parsed) -> bool:
    return not clause.subject


def _is_to_listener(clause: _Parsed) -> bool:
    return not english().words["listener"].isdisjoint(clause.words)


def _is_plan(clause: _Parsed) -> bool:
    rest = _without_adverbs(clause.rest)
    if clause.subject != "I" or rest.lower().startswith(("my ", "our ")):
        return False
    plans = english().plans
    return bool(plans.match(rest) or plans.match(_behind_be(rest)))


def _is_talk(clause: _Parsed) -> bool:
    lists, main = english().words, _main(clause.verb)
    if clause.subject != "I":
        is_said = not (lists["talk"] | lists["reports"]).isdisjoint(clause.verb[:1])
        return is_said and clause.subject.startswith("my ")
    if clause.verb[:2] == ["have", "to"] or main[0] in lists["talk"] or main[1:2] == ["this"]:
        return True
    if clause.verb[:3] in (["have", "no", "clue"], ["have", "no", "idea"]):
        return True
    if main[0] in ("am", "are") and len(main) > 1:
        state = [word for word in main[1:4] if word not in ("so", "really", "just", "not", "very")]
        return bool(state) and state[0] in lists["moods"]
    return False


def _is_past(clause: _Parsed) -> bool:
    if english().past.search(clause.text):
        return True
    lists, main = english().words, _main(clause.verb)
    word = main[0]
    if clause.verb[:1] in (["have"], ["has"]):  # "have moved" is true now
        return False
    if word in ("was", "were") and not lists["undergone"].isdisjoint(main[1:2]):
        return False
    if word in lists["changes"]:
        return False
    is_regular = word.endswith("ed") and len(word) > 4 and word != "speed"  # noqa: PLR2004 - "need"
    return word in lists["past_verbs"] or "did" in clause.verb[:2] or is_regular


_TESTS: tuple[tuple[Kind, Callable[[_Parsed], bool]], ...] = (
    ("asked", _is_asked),
    ("played", _is_played),
    ("instruction", _is_instruction),
    ("supposed", _is_supposed),
    ("other", _is_other),
    ("talk", _is_to_listener),
    ("plan", _is_plan),
    ("talk", _is_talk),
    ("past", _is_past),
)
"""The kinds of clauses with their tests. The first test that holds decides."""


def is_scene(words: Sequence[str]) -> bool:
    """Return whether words name a story, a game or a role in which something is the case."""
    scenes = english().words["scenes"]
    for at in range(len(words) - 2):
        if words[at] in ("in", "for") and words[at + 1] in ("the", "a", "an", "my", "this", "our"):
            behind = words[at + 2 : at + 4]
            if not scenes.isdisjoint(behind):
                return True
    return ("my", "character") in pairwise(words)


def _subject(text: str) -> tuple[str, bool, str]:
    """Return the subject of a clause, whether it is one certain person, and the rest."""
    lists = english().words
    if match := re.match(r"(?:I|[Ww]e)\b ?", text):
        return "I", True, text[match.end() :]
    if match := _AND_SELF.match(text):
        return "I", False, text[match.end() :].lstrip()
    if _MY.match(text):
        return _of_mine(text)
    text = _without_adverbs(text[:1].lower() + text[1:]) if _LEAD.match(text) else text
    first = text.split()[0].lower().strip(",")
    if first in lists["changes"] or text.lower().startswith(("no longer ", "not ", "still ")):
        return "I", True, text[:1].lower() + text[1:]
    if (match := _NAMED.match(text)) and first not in STOP_WORDS:
        rest = text[match.end() :]
        if re.match(r"(?:is|are) my (?:new )?fav|(?:has )?(?:died|passed away)\b", rest):
            return "I", True, text
        if english().of_named.match(rest):
            return match[1].lower(), True, rest
    return "", False, text


def _of_mine(text: str) -> tuple[str, bool, str]:
    """Return the subject of a clause that begins with "my": a person, or the speaker's thing."""
    lists = english().words
    found = re.match(r"(?:my|our) (?:[\w-]+ ){0,2}?([\w-]+)\b", text, re.IGNORECASE)
    words = text.split()[1:5]
    for at, word in enumerate(words):
        plain = word.lower().strip(",.").removesuffix("'s")
        if plain in lists["one_person"] or plain in lists["persons"]:
            if word.lower().endswith("'s"):
                return f"my {plain}'s", False, text  # something of that person
            end = len(" ".join(text.split()[: at + 2]))
            rest, name = text[end:].lstrip(" ,"), ""
            if named := re.match(rf"({_NAME})\b,? ?", rest):
                name, rest = f" {named[1].lower()}", rest[named.end() :]
            is_one = plain in lists["one_person"] or bool(name)
            if rest.startswith(("and I ", "and me ")):
                return "I", False, rest[6:]
            return f"my {plain}{name}", is_one, rest
        if plain in lists["auxiliaries"]:
            break
    return ("I", True, text) if found else ("", False, text)


def _without_adverbs(rest: str) -> str:
    adverbs = r"\A(?:(?:now|just|really|also|still|already|\w+ly) )+"
    return re.sub(adverbs, "", rest)


def _behind_be(rest: str) -> str:
    """Return the rest of a clause behind "am" or "are"; "" if it does not begin so."""
    found = re.match(r"(?:am|are|is|have been) (?:not )?(.*)", _without_adverbs(rest))
    return "" if found is None else _without_adverbs(found[1])


def _main(verb: Sequence[str]) -> list[str]:
    """Return the words from the main verb on, behind adverbs."""
    skipped = ("do", "did", "does", "not", "have", "also", "just", "really", "still", "always")
    at = 0
    while at < len(verb) and (verb[at] in skipped or verb[at].endswith("ly")):
        at += 1
    return [*verb[at:]] or [""]
