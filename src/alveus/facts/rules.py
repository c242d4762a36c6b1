"""Facts without a model: what people say about themselves and others, by fixed rules for English.

A message is read in three steps. `shown` takes away what its author only shows, such as pasted
text. `assertions` judges each clause: a fact is made of what is asserted, past or planned, and of
instructions, never of what is asked, supposed, wished or played. `relations` says whether a new
fact ends a known one, which needs proof. The fact is in the third person: the name stands for the
pronouns of its speaker, and dates for words such as "yesterday". A message in another language
than English is left alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from functools import cache
from typing import NamedTuple

from alveus.facts import assertions
from alveus.facts.answers import (
    LONGEST_FACT,
    NEW,
    CandidateFact,
    CandidateFacts,
    CheckedDecision,
    Evidence,
    KnownText,
    candidate_id,
    folded,
    text_of,
)
from alveus.facts.assertions import Clause, judged, pattern_of, typed_out
from alveus.facts.fact import TIMELESS
from alveus.facts.relations import is_ended, judgement, may_end
from alveus.facts.shown import said
from alveus.facts.valid_times import event_time, state_time
from alveus.sets.admission.injection import injections
from alveus.store import StoredItem
from alveus.store.records import said_at
from alveus.text.statements import sentences
from alveus.values import words
from alveus.values.dates import with_dates
from alveus.values.languages import ENGLISH, language_of
from alveus.values.lazy import data_file

RULES = "rules-5"
"""The version of these rules, stored as the version of the prompt."""

NAME = "rules"
"""The name of these rules, stored as the name of the model."""

CONFIDENCE = 0.7
"""The confidence of facts from statements of speakers about themselves."""

FEWEST, MOST = 2, 40
"""Words of a statement that is kept."""

CONTENT_WORDS = 2
"""Fewest words of a kept statement that are no function words; one is enough after "I smoke"."""

KEPT = ("asserted", "past", "plan", "instruction")
"""Kinds of clauses that become facts."""


class English(NamedTuple):
    """The patterns of `english.toml` that make a fact of a clause.

    Attributes:
        kinds: Pairs of a kind of fact, and a pattern for the statements of this kind.
        opening: A pattern for words that open a sentence and say nothing.
        begins: A pattern for words that say that a fact is valid from its date on.
        verb: A pattern for adverbs before a verb that takes an s in the third person.
        irregular: A dict from verbs to their irregular third persons.
        contracted: A dict from contractions to verbs in the third person: "is" for "I'm".
    """

    kinds: Sequence[tuple[str, re.Pattern[str]]]
    opening: re.Pattern[str]
    begins: re.Pattern[str]
    verb: re.Pattern[str]
    irregular: Mapping[str, str]
    contracted: Mapping[str, str]


@cache
def _english() -> English:
    lists = data_file("alveus.facts", "english.toml")
    openings, adverbs = "|".join(lists["openings"]), "|".join(lists["adverbs"])
    verbs = "|".join(lists["verbs"].split())
    return English(
        kinds=[(one["kind"], pattern_of(one["pattern"])) for one in lists["kinds"]],
        opening=re.compile(
            rf"\A(?:(?:{openings})\b(?: (?-i:[A-Z]\w+)(?=[,!.]))?[,!.:]? +)+", re.IGNORECASE
        ),
        begins=pattern_of(*lists["begins"]),
        verb=re.compile(rf"\A((?:(?:{adverbs}) )*)({verbs})\b", re.IGNORECASE),
        irregular=lists["irregular"],
        contracted=lists["contracted"],
    )


_JOINT = re.compile(
    r",? (?:and|but) (?=(?:I|I'm|I've|I'll|[Mm]y|[Ww]e)\b)"
    r"|,? (?=(?:can|could|will|would) (?:you|we|u)\b)"
    r"|, (?=(?:what|how|where|which|is|are|should|any)\b)"
)
"""The joint between two statements of one sentence."""

_CHANGE = re.compile(
    r"(?:[,;]|,? (?:and|but|so))(?: (?:and|but|so))? "
    r"(?=(?:now )?(?:(?P<who>I|I'm|I've|I'll|my|we)|works?|lives?|stud(?:y|ies)|teach(?:es)?)\b)",
    re.IGNORECASE,
)
"""The joint between an ended fact and a valid fact: "no longer at Acme, works at Globex now"."""

_LASTS = re.compile(r"\b(?:since|until|till)\b|\bfor \w+ (?:day|week|month|year)s\b")
_COMMA = re.compile(r"[,;] (?=(?:I|I'm|I've|[Mm]y|[Ww]e)\b)")
"""The joint between two statements without "and"; before it may be a phrase only: "In May, I …"."""

_COUPLE = re.compile(
    r"\A(?:(?:my [\w-]+ )?[A-Z][\w-]*(?:, )?)+\Z|\A(?:my|our) [\w-]+\Z", re.IGNORECASE
)
"""The text before "and I" where both are one subject: "Sam and I"."""

_PRONOUN = re.compile(
    r"\b(?:I(?:'m| am)|I've|I'll|I'd|I(?: do|(?= don't))|I|[Mm]y|[Mm]ine|[Mm]yself|[Mm]e)\b(?:n't)?"
)
_IS = re.compile(r"\b([A-Z]\w+)'s (?=(?:my|our|an?|the)\b)")
""""Ada's my sister": the verb "is", not a possessive."""


class _Statement(NamedTuple):
    """A kept sentence, rewritten as a fact, and its position as evidence."""

    text: str
    subject: str
    names: Sequence[str]
    kind: str
    begins: str | None
    ends: str | None
    evidence: Evidence


def found_by_rules(messages: Sequence[StoredItem]) -> CandidateFacts:
    """Return the facts that speakers state about themselves, and about people whom they name."""
    found: dict[tuple[str, str], CandidateFact] = {}
    for number, message in enumerate(messages):
        name = message.record.speaker or ("the user" if message.record.role == "user" else "")
        if not name or (message.record.role == "assistant" and not message.record.speaker):
            continue  # an assistant without a name says nothing of itself
        for one in _statements(message, number, name):
            fact = CandidateFact(
                one.text,
                one.subject,
                one.kind,
                tuple(dict.fromkeys((one.subject, *one.names))),
                one.begins,
                one.ends,
                CONFIDENCE,
                (one.evidence,),
            )
            found.setdefault((folded(one.subject), folded(one.text)), fact)
    return CandidateFacts(tuple(found.values()), {})


def _statements(message: StoredItem, number: int, name: str) -> Iterator[_Statement]:
    text, today = text_of(message), said_at(message).date()
    if language_of(text) not in (ENGLISH, None):
        return
    for start, end, lead in _clauses(said(text)):
        plain = " ".join(typed_out(f"{lead}{text[start:end]}").split()).strip("!,;- ")
        clause = judged(plain)
        if clause.kind == "played":
            return  # and so is the rest of the message
        if clause.kind not in KEPT or not _says_enough(plain, clause):
            continue
        if next(injections(plain), None) is not None:
            continue
        subject = name
        if clause.subject and not clause.subject.startswith(("I", "my ")):
            subject = plain[: len(clause.subject)]
        kind = _kind(plain if subject == name else f"I {clause.rest}", clause)
        dated = with_dates(in_third_person(plain, name), today)
        whole = dated.text[:1].upper() + dated.text[1:]
        if folded(subject) not in folded(whole):
            whole = f"{name[:1].upper()}{name[1:]}: {whole}"
        times = _times(plain, kind, today)
        yield _Statement(
            whole if whole[-1] in ".\u2026" else f"{whole}.",
            subject,
            [*names(plain)],
            kind,
            *times,
            Evidence(number, start, end),
        )


def _kind(plain: str, clause: Clause) -> str:
    """Return the kind of the fact that a clause becomes."""
    if clause.kind == "instruction":
        return "instruction"
    fallback = "plan" if clause.kind == "plan" else "event"
    if clause.kind == "asserted" and _LASTS.search(plain):
        fallback = "profile"
    return next((kind for kind, rule in _english().kinds if rule.search(plain)), fallback)


def _times(plain: str, kind: str, today: date) -> tuple[str | None, str | None]:
    """Return the first and the last date of an event, or of the time in which a state holds."""
    if kind in TIMELESS:
        return event_time(plain, today, is_ahead=kind == "plan")
    begins, ends = state_time(plain, today)
    if begins is None and _english().begins.search(plain):
        begins = event_time(plain, today, is_ahead=False)[0]
    return begins, ends


def _says_enough(plain: str, clause: Clause) -> bool:
    """Return whether a clause has enough words to be worth keeping."""
    if not FEWEST <= len(plain.split()) <= MOST or len(plain) > LONGEST_FACT // 2:
        return False
    content = [word for word in clause.rest.lower().split() if word not in words.STOP_WORDS]
    if len(content) >= CONTENT_WORDS or clause.kind == "instruction":
        return True
    if clause.subject != "I":
        return bool(content)
    is_short = bool(assertions.english().words["short"].intersection(clause.rest.split()[:1]))
    return bool(content) and (is_short or may_end(plain, "I"))


def _clauses(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield the start and the end of each statement in a text, and a text to put before it.

    The text to put before a statement is "I " if the statement omits it, otherwise "". Statements
    are sentences, and parts of sentences joined by words such as "and" or before a question. Words
    that only open a sentence are left out.
    """
    for sentence in sentences(text):
        opening = _english().opening.match(sentence.text)
        start = sentence.start + (0 if opening is None else opening.end())
        lead = ""
        while (joint := _next_joint(text, start, sentence.end)) is not None:
            yield start, joint.start(), lead
            start, lead = joint.end(), "" if joint.groupdict().get("who", "I") else "I "
        yield start, sentence.end, lead


def _next_joint(text: str, start: int, end: int) -> re.Match[str] | None:
    """Return the next joint between statements in a sentence, or None."""
    joint, change = _JOINT.search(text, start, end), _CHANGE.search(text, start, end)
    if joint is not None and _COUPLE.match(text[start : joint.start()].strip()):
        joint = None
    comma = _COMMA.search(text, start, end)
    if comma is not None and (joint is None or comma.start() < joint.start()):
        before = judged(typed_out(text[start : comma.start()]))
        joint = comma if before.subject and before.rest else joint
    if change is not None and (joint is None or change.start() <= joint.start()):
        before = typed_out(text[start : change.start()])
        if judged(before).subject == "I" and is_ended(before, "I"):
            return change
    return joint


# --- names --------------------------------------------------------------------------------------

_CAPITAL = r"[^\W\d_a-z\u00df-\u00f6\u00f8-\u00ff]"
_PART = rf"{_CAPITAL}[^\W\d_]*(?:[-\u2019'][^\W\d_]+)*"
_TITLE = r"(?:(?:Dr|Mr|Mrs|Ms|Prof|St)\.? )"
_PARTICLES = r"(?:(?:de|da|do|dos|del|della|di|van|von|der|den|ter|la|le|bin|ibn|al|el|of|&) ){0,2}"
_NAME = re.compile(rf"(?<![\w'\u2019-]){_TITLE}?({_PART})((?: {_PARTICLES}(?:al-|el-)?{_PART})*)")
_MOST_NAMES = 8


def names(text: str) -> Iterator[str]:
    """Yield the names in a text, in any script with capitals.

    A word that begins a sentence is a name if more of the name follows, if it is possessive, or if
    the sentence says of it what one says of people; not if it is a common word.
    """
    lists = assertions.english().words
    common = words.STOP_WORDS | lists["persons"] | lists["one_person"] | lists["no_names"]
    found = 0
    for match in _NAME.finditer(text):
        name, is_possessive = re.subn(r"['\u2019]s?\Z", "", match[0])
        if name.lower() in common or len(name) == 1:
            continue
        before = text[: match.start()].rstrip()
        if not (before and before[-1] not in ".!?:") and not (match[2] or is_possessive):
            rest = text[match.end() :].lstrip()
            if rest.startswith("is my fav") or not (
                assertions.english().of_named.match(rest) or _AND_NAME.match(rest)
            ):
                continue
        yield name
        found += 1
        if found == _MOST_NAMES:
            return


_AND_NAME = re.compile(rf"(?:and|,) (?:{_PART})")


# --- in the third person ------------------------------------------------------------------------


def in_third_person(sentence: str, name: str) -> str:
    """Return a speaker's sentence with the speaker's *name* instead of I, my and me."""
    sentence = _IS.sub(r"\1 is ", sentence)
    english = _english()
    made: list[str] = []
    at = 0
    for match in _PRONOUN.finditer(sentence):
        made.append(sentence[at : match.start()])
        at = match.end()
        word = match[0]
        if word in english.contracted:
            made.append(f"{name} {english.contracted[word]}")
        elif word.lower() in ("my", "mine"):
            made.append(f"{name}'s")
        elif word == "I do":
            made.append(f"{name} does")
        else:
            made.append(name)
            if word == "I" and not _is_couple(sentence[: match.start()]):
                verb, length = _verb_in_third(sentence[at:])
                made.append(verb)
                at += length
    made.append(sentence[at:])
    return "".join(made)


def _is_couple(before: str) -> bool:
    """Return whether the text before "I" makes it a subject of two: "Sam and I"."""
    return before.endswith(" and ") and bool(_COUPLE.match(before.removesuffix(" and ")))


def _verb_in_third(rest: str) -> tuple[str, int]:
    """Return the verb behind "I" in the third person, and the length of the text that it is for."""
    if rest.startswith(" don't"):
        return " doesn't", len(" don't")
    if verb := _english().verb.match(rest[1:]):
        return f" {verb[1]}{_third(verb[2])}", 1 + verb.end()
    return "", 0


def _third(verb: str) -> str:
    word = verb.lower()
    if word in _english().irregular:
        return _english().irregular[word]
    if re.search(r"[^aeiou]y\Z", word):
        return f"{word[:-1]}ies"
    return f"{word}es" if re.search(r"(?:s|sh|ch|x|z|o)\Z", word) else f"{word}s"


# --- new against known --------------------------------------------------------------------------


def decided_by_rules(
    candidates: Sequence[CandidateFact], known: Sequence[Sequence[KnownText]]
) -> list[CheckedDecision]:
    """Return the decision about each candidate; *known* has the facts near each candidate."""
    return [_decided(*pair) for pair in zip(candidates, known, strict=True)]


def may_replace(candidate: CandidateFact) -> bool:
    """Return whether a candidate may replace a known fact, judged by its words alone."""
    return may_end(candidate.text, candidate.subject)


def _decided(candidate: CandidateFact, known: Sequence[KnownText]) -> CheckedDecision:
    """Return the decision; a fact of the same messages comes before one that was known before."""
    for does in ("replaces", "contradicts"):
        mine = [
            one for one in known if judgement(candidate.text, one.text, candidate.subject) == does
        ]
        if mine:
            return CheckedDecision(does, max(mine, key=_number).id)
    return NEW


def _number(known: KnownText) -> int:
    """Return the number of an earlier candidate, or 0 for a fact that was known before."""
    mark = candidate_id(0)[0]
    return int(known.id[len(mark) :]) if known.id.startswith(mark) else 0
