"""Whether a new fact ends a known fact, by fixed rules for English.

A fact ends only by proof. Both facts must be assertions about one subject, and either give
different values of something that a person has one of at a time, such as a home, or the new fact
must say that the known fact has ended: "no longer", "sold", "lost my job". In every other case both
facts hold. Where two values exclude each other but the proof is not complete, the facts contradict
each other, and both hold.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from typing import Literal, NamedTuple

from alveus.facts.assertions import Clause, apart, english, judged, pattern_of
from alveus.values.lazy import data_file
from alveus.values.words import STOP_WORDS, terms

LONGEST_VALUE = 6
"""Most words of a value that is compared."""

LONGEST_NOUN = 4
"""Most words of N in "my N is V"."""

CACHED = 4_096
"""Most facts whose reading a process caches."""

_MOST_AGE = 120
_DETERMINER = re.compile(
    r"(?:a|an|my|our|your|his|her|their|some|any|this|that|home)\b", re.IGNORECASE
)
_THE = re.compile(r"the (?=[A-Z])")
_MY_IS = re.compile(
    r"my (?P<noun>(?:[\w'-]+ ){1,4}?)(?:is|are)(?: called| named)? (?P<value>.+)", re.IGNORECASE
)
_TURNED = re.compile(r"(?P<value>[^\W_][\w' -]*?) is my (?P<noun>(?:new )?favou?rite [\w' -]+)")
_NEW = re.compile(r"\b(?:new|now|current)\b", re.IGNORECASE)
_FAVOURITE = re.compile(r"\A(?:favou?rite|fave) ", re.IGNORECASE)
_OTHERS = re.compile(r"\b(?:his|her|their|he|she|they)\b", re.IGNORECASE)
_VOID = re.compile(r"\b(?:never|almost|nearly|(?:did|have|has|am|is|was|were) not (?!\S+ any))\b")
_FOR_A_TIME = re.compile(
    r"\bfor (?:an? |the |two |three |four |\d+ |some |now|good reason|lent|a few )|\b(?:temporarily"
    r"|until|during|today|tonight|this (?:week|morning|evening|afternoon|month))\b",
    re.IGNORECASE,
)
_HAS = re.compile(
    r"\b(?:ha(?:ve|s)|owns?|drives?|bought|got|adopted|my|rides?|rents?)\b", re.IGNORECASE
)
_AGAIN = re.compile(
    r"\b(?:again|now|these days|any ?more|was (?:wrong|mistaken)|turns out)\b", re.IGNORECASE
)
_NOT = re.compile(r"\A(?:do|does|am|is|are|have|has|can) not\b")
_STUDIES = re.compile(r"\A(?:stud(?:y|ies)|(?:am|is) (?:studying|an? (?:\w+ )?student))\b")
_MEMBER = re.compile(r"\b(?:in|at|for|of|with|on|joined|attend) ", re.IGNORECASE)
_NOT_THAT = re.compile(r", (?:and )?not (?:at |in |for |with )?[\w' -]+\Z")
_TIED = re.compile(
    r"\b(?:my|ha(?:ve|s)|married|engaged|dating|dates|with|named|called)\b", re.IGNORECASE
)


class Stated(NamedTuple):
    """The value that a fact gives of something that a person has one of.

    Attributes:
        relation: For instance "home", or "my" and a noun in lower case: "my favourite food".
        value: The value in lower case, without words of time.
        is_sure: Whether another value surely ends this one.
    """

    subject: str
    relation: str
    value: str
    is_sure: bool


_WORDS = ("no_home", "no_work", "one_value", "liked", "disliked")


class _Rules(NamedTuple):
    relations: Sequence[tuple[str, re.Pattern[str]]]
    ends: Sequence[re.Pattern[str]]
    shared: re.Pattern[str]
    adverbs: re.Pattern[str]
    tails: re.Pattern[str]
    no_home: frozenset[str]
    no_work: frozenset[str]
    one_value: frozenset[str]
    liked: frozenset[str]
    disliked: frozenset[str]


@cache
def _rules() -> _Rules:
    lists = data_file("alveus.facts", "english.toml")
    values = lists["values"]
    return _Rules(
        [
            (one["name"], re.compile(rf"{one['pattern']} ?", re.IGNORECASE))
            for one in lists["relations"]
        ],
        [re.compile(one["pattern"], re.IGNORECASE) for one in lists["ends"]],
        pattern_of(*values["shared"].split(), *values["shared_phrases"]),
        pattern_of(*values["adverbs"].split()),
        re.compile("|".join(values["tails"])),
        *(frozenset(values[name].split()) for name in _WORDS),
    )


class _Read(NamedTuple):
    """A fact as its subject would say it: *whole*, and *text* behind the subject."""

    clause: Clause
    whole: str
    text: str
    stated: Stated | None
    stems: frozenset[int]


def judgement(new: str, known: str, subject: str) -> Literal["replaces", "contradicts"] | None:
    """Return what a new fact does to a known fact of the same subject, or None if both hold.

    Args:
        new, known: The facts' texts, in the third person.
        subject: The name of the person that both are about.
    """
    mine, other = _read(new, subject), _read(known, subject)
    if (
        mine.clause.kind != "asserted"
        or other.clause.kind != "asserted"
        or is_ended(known, subject)
    ):
        return None
    if mine.clause.subject != other.clause.subject and not _is_of_couple(mine, other):
        return None
    if _says_ended(mine, other):
        return "replaces"
    if _is_denied(mine, other) or _is_disliked(mine, other):
        return "replaces" if _AGAIN.search(mine.whole) else "contradicts"
    if mine.stated is None or other.stated is None or not _excludes(mine.stated, other.stated):
        return None
    is_sure = mine.stated.is_sure and other.clause.is_certain
    return "replaces" if is_sure else "contradicts"


def _is_denied(new: _Read, known: _Read) -> bool:
    return new.stems >= known.stems and _is_negated(new) != _is_negated(known)


def _is_disliked(new: _Read, known: _Read) -> bool:
    """Return whether one fact likes what the other dislikes."""
    tastes = [_taste(read) for read in (new, known)]
    if None in tastes or tastes[0] == tastes[1]:
        return False
    rests = [_stems(apart(read.text).partition(" ")[2]) for read in (new, known)]
    return bool(rests[1]) and rests[0] >= rests[1]


def _taste(read: _Read) -> bool | None:
    verb = read.text.partition(" ")[0].lower()
    if verb in _rules().liked:
        return True
    return False if verb in _rules().disliked else None


def _is_negated(read: _Read) -> bool:
    return bool(_NOT.search(read.text))


def may_end(text: str, subject: str) -> bool:
    """Return whether a fact may end or contradict a known fact, judged by its words alone."""
    read = _read(text, subject)
    is_asserted = read.clause.kind == "asserted"
    return is_asserted and (
        read.stated is not None
        or next(_ends(read), None) is not None
        or bool(_AGAIN.search(read.whole) or _is_negated(read))
        or _taste(read) is not None
    )


def is_ended(text: str, subject: str) -> bool:
    """Return whether a fact says that something has ended: "Ada no longer works at Acme"."""
    read = _read(text, subject)
    return read.clause.kind == "asserted" and next(_ends(read), None) is not None


@lru_cache(maxsize=CACHED)
def _read(text: str, subject: str) -> _Read:
    name = re.escape(subject)
    text = re.sub(rf"\A{name}: ", "", text.rstrip(".\u2026! "), flags=re.IGNORECASE)
    text = re.sub(rf"(?<!\w){name}'s(?!\w)", "my", text, flags=re.IGNORECASE)
    text = re.sub(rf"(?<!\w){name}(?!\w)", "I", text, flags=re.IGNORECASE)
    clause = judged(text)
    rest = " ".join(_rules().adverbs.sub(" ", clause.rest).replace(" ,", ",").split())
    stated = None
    if clause.kind == "asserted" and not _rules().shared.search(_NOT_THAT.sub("", apart(text))):
        stated = _stated(clause, rest, text)
    return _Read(clause, text, rest, stated, _stems(apart(text)))


# --- values of relations ------------------------------------------------------------------------


def _stated(clause: Clause, rest: str, text: str) -> Stated | None:
    for relation, pattern in _rules().relations:
        if match := pattern.match(rest):
            value = _value(rest[match.end() :])
            if value is None or not _is_value(relation, value):
                return None
            value = re.sub(r"\A(?:the|an?|my) ", "", value.lower())
            return Stated(clause.subject, relation, value, clause.is_certain)
    if clause.subject.startswith("my ") and re.match(r"(?:is|are) ", rest):
        rest = f"{clause.subject} {rest}"
    elif clause.subject != "I":
        return None
    if match := _TURNED.fullmatch(rest) or _MY_IS.match(rest):
        return _noun_is(clause, match["noun"].strip(), match["value"], text)
    return None


def _relation(rest: str) -> str | None:
    """Return the relation of which a sentence gives any value, or None."""
    return next((name for name, pattern in _rules().relations if pattern.match(rest)), None)


def _value(rest: str) -> str | None:
    """Return the value at the beginning of the rest of a sentence, or None if it is too long."""
    end = _rules().tails.search(rest)
    value = (rest if end is None else rest[: end.start()]).strip(" ,.")
    return value if 0 < len(value.split()) <= LONGEST_VALUE else None


def _is_value(relation: str, value: str) -> bool:
    words = value.lower().split()
    if relation in ("home", "work"):
        if _DETERMINER.match(value) or (words[0] == "the" and not _THE.match(value)):
            return False
        lists = _rules().no_home if relation == "home" else _rules().no_work
        is_prose = value == value.lower() and (len(words) > 3 or "of" in words)  # noqa: PLR2004 - "fear of spiders"
        return words[0] not in lists and not words[0].isdigit() and not is_prose
    if relation == "age":
        return words[0].isdigit() and 0 < int(words[0]) < _MOST_AGE
    return True


def _noun_is(clause: Clause, noun: str, given: str, text: str) -> Stated | None:
    """Return the value of "my N is V", or None if a person may have several N."""
    lists = english().words
    words = noun.lower().split()
    value = _value(given)
    if value is None or len(words) > LONGEST_NOUN:
        return None
    head = words[-1]
    if not lists["persons"].isdisjoint(words):
        return None
    if not lists["one_person"].isdisjoint(words) and not value[:1].isupper():
        return None
    noun = re.sub(r"\b(?:new|current|very) ", "", noun.lower()).replace("color", "colour")
    is_favourite = _FAVOURITE.match(noun)
    noun = _FAVOURITE.sub("favourite ", noun)
    if not (is_favourite or head in _rules().one_value or _NEW.search(text)):
        return None
    return Stated(clause.subject, f"my {noun}", value.lower(), is_sure=True)


def _excludes(new: Stated, known: Stated) -> bool:
    if new.relation != known.relation:
        return False
    mine, other = set(terms(new.value)), set(terms(known.value))
    return bool(mine and other) and not (mine <= other or other <= mine)


# --- ends ---------------------------------------------------------------------------------------


def _ends(read: _Read) -> Iterator[re.Match[str]]:
    if read.clause.subject and not _VOID.search(read.text) and not _FOR_A_TIME.search(read.text):
        for pattern in _rules().ends:
            if match := pattern.match(read.text) or pattern.match(read.whole):
                yield match


def _says_ended(new: _Read, known: _Read) -> bool:
    if _OTHERS.search(new.text):
        return False
    return any(_ends_by(match, known) for match in _ends(new))


def _ends_by(match: re.Match[str], known: _Read) -> bool:
    groups = match.groupdict()
    if groups.get("job"):
        return _relation(known.text) in ("work", "job")
    if groups.get("study"):
        return bool(_STUDIES.search(known.text))
    (what, text) = next((name, text) for name, text in groups.items() if text)
    tail = _rules().tails.search(text)
    text = text if tail is None or not tail.start() else text[: tail.start()]
    ended = _stems(text)
    if not ended or not ended <= known.stems or " not " in f" {known.text} ":
        return False
    if what == "where":
        return known.stated is not None and ended <= set(terms(known.stated.value))
    if what == "group":
        return bool(_MEMBER.search(known.text))
    if what == "thing":
        return bool(_HAS.search(known.whole))
    return what != "person" or bool(_TIED.search(known.whole))


def _stems(text: str) -> frozenset[int]:
    return frozenset(terms(" ".join(w for w in text.split() if w.lower() not in STOP_WORDS)))


def _is_of_couple(new: _Read, known: _Read) -> bool:
    """Return whether two subjects fit: "Tom and I divorced" ends "I am married to Tom"."""
    return known.clause.subject.startswith(("I", "my ")) and any(
        match.groupdict().get("person") for match in _ends(new)
    )
