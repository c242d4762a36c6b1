"""Facts without a model: statements of people about themselves, by fixed rules for English.

A sentence is kept if it is a statement: no question, no statement about the listener ("you"), no
remark about the conversation ("I agree"), and no opinion ("I think it might rain"). The fact is
about the speaker: the speaker's name stands for pronouns, or before the sentence, and dates stand
for words such as "yesterday". The kind of the fact is the kind of the first rule that the sentence
matches. A new fact replaces a known fact of the same subject in two cases: both give a property
that a person has once (`single`), or the new fact says that the known fact has ended ("no longer",
"any more", "stopped", "quit").
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import NamedTuple

from alveus.facts.answers import (
    LONGEST_FACT,
    NEW,
    CandidateFact,
    CandidateFacts,
    CheckedDecision,
    Evidence,
    KnownText,
    folded,
    text_of,
)
from alveus.facts.fact import TIMELESS
from alveus.sets.admission.injection import injections
from alveus.store import StoredItem
from alveus.store.records import said_at
from alveus.text.statements import sentences
from alveus.values import words
from alveus.values.dates import with_dates
from alveus.values.lazy import data_file

RULES = "rules-4"
"""The version of these rules, stored as the version of the prompt."""

NAME = "rules"
"""The name of these rules, stored as the name of the model."""

CONFIDENCE = 0.7
"""The confidence of facts from statements of speakers about themselves."""

SHORTEST = 3
"""Fewest words of a kept sentence."""


def _words(*patterns: str) -> re.Pattern[str]:
    """Return a pattern that matches any of *patterns* at word boundaries."""
    return re.compile(rf"\b(?:{'|'.join(patterns)})\b", re.IGNORECASE)


class English(NamedTuple):
    """The patterns of `english.toml`.

    Attributes:
        kinds: Pairs of a kind of fact, and a pattern for the statements of this kind.
        skipped: Patterns for sentences that are not kept.
        single: Pairs of a property with one value per person, and a pattern for its statements.
        opening: A pattern for words that open a sentence and say nothing.
        ended: A pattern for words that say that a fact has ended.
        left_work: A pattern for words that say that a person left a job.
        begins: A pattern for words that say that a fact is valid from its date on.
        verb: A pattern for adverbs before a verb that takes an s in the third person.
        irregular: A dict from verbs to their irregular third persons.
        contracted: A dict from contractions to verbs in the third person: "is" for "I'm".
    """

    kinds: Sequence[tuple[str, re.Pattern[str]]]
    skipped: Sequence[re.Pattern[str]]
    single: Sequence[tuple[str, re.Pattern[str]]]
    opening: re.Pattern[str]
    ended: re.Pattern[str]
    left_work: re.Pattern[str]
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
        kinds=[(one["kind"], _words(one["pattern"])) for one in lists["kinds"]],
        skipped=[_words(one["pattern"]) for one in lists["skipped"]],
        single=[
            (one["name"], re.compile(one["pattern"], re.IGNORECASE)) for one in lists["single"]
        ],
        opening=re.compile(
            rf"\A(?:(?:{openings})\b(?: (?-i:[A-Z]\w+)(?=[,!.]))?[,!.]? +)+", re.IGNORECASE
        ),
        ended=_words(*lists["ended"]),
        left_work=_words(lists["left_work"]),
        begins=_words(*lists["begins"]),
        verb=re.compile(rf"\A((?:(?:{adverbs}) )*)({verbs})\b", re.IGNORECASE),
        irregular=lists["irregular"],
        contracted=lists["contracted"],
    )


_JOINT = re.compile(r",? (?:and|but) (?=(?:I|I'm|I've|I'll|[Mm]y|[Ww]e)\b)")
"""The joint between two statements of one sentence."""

_CHANGE = re.compile(
    r"(?:[,;]|,? (?:and|but|so))(?: (?:and|but|so))? "
    r"(?=(?:now )?(?:(?P<who>I|I'm|I've|I'll|my|we)|works?|lives?|stud(?:y|ies)|teach(?:es)?)\b)",
    re.IGNORECASE,
)
"""The joint between an ended fact and a valid fact: "no longer at Acme, works at Globex now"."""

_SPEAKER = re.compile(r"\b(?:I|I'm|I've|we)\b|\A(?:no longer|not)\b", re.IGNORECASE)
"""A sign that the speaker is the subject of a sentence, even if the subject is omitted."""

_PRONOUN = re.compile(
    r"\b(?:I(?:'m| am)|I've|I'll|I'd|I(?: do|(?= don't))|I|[Mm]y|[Mm]ine|[Mm]yself|[Mm]e)\b(?:n't)?"
)
_IS = re.compile(r"\b([A-Z]\w+)'s (?=(?:my|our|an?|the)\b)")
""""Ada's my sister": the verb "is", not a possessive."""


class _Statement(NamedTuple):
    """A kept sentence, rewritten as a fact, and its position as evidence."""

    text: str
    kind: str
    begins: str | None
    ends: str | None
    evidence: Evidence


def found_by_rules(messages: Sequence[StoredItem]) -> CandidateFacts:
    """Return the facts that the speakers of messages state about themselves."""
    found: dict[tuple[str, str], CandidateFact] = {}
    for number, message in enumerate(messages):
        name = message.record.speaker or ("the user" if message.record.role == "user" else "")
        if not name or (message.record.role == "assistant" and not message.record.speaker):
            continue  # an assistant without a name says nothing of itself
        for one in _statements(message, number, name):
            fact = CandidateFact(
                one.text,
                name,
                one.kind,
                tuple(dict.fromkeys((name, *_names(one.text)))),
                one.begins,
                one.ends,
                CONFIDENCE,
                (one.evidence,),
            )
            found.setdefault((folded(name), folded(one.text)), fact)
    return CandidateFacts(tuple(found.values()), {})


def _statements(message: StoredItem, number: int, name: str) -> Iterator[_Statement]:
    text, today, english = text_of(message), said_at(message).date(), _english()
    for start, end, lead in _clauses(text):
        plain = " ".join(f"{lead}{text[start:end]}".replace("\u2019", "'").split()).rstrip("!, ")
        if len(plain.split()) < SHORTEST or len(plain) > LONGEST_FACT // 2:
            continue
        if any(rule.search(plain) for rule in english.skipped):
            continue
        if next(injections(plain), None) is not None:
            continue
        kind = next((kind for kind, rule in english.kinds if rule.search(plain)), "event")
        dated = with_dates(in_third_person(plain, name), today)
        whole = dated.text[:1].upper() + dated.text[1:]
        if folded(name) not in folded(whole):
            whole = f"{name[:1].upper()}{name[1:]}: {whole}"
        timed = kind in TIMELESS
        yield _Statement(
            whole if whole[-1] in ".\u2026" else f"{whole}.",
            kind,
            dated.begins if timed or english.begins.search(plain) else None,
            dated.ends if timed else None,
            Evidence(number, start, end),
        )


def _clauses(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield the start and the end of each statement in a text, and a text to put before it.

    The text to put before a statement is "I " if the statement omits it, otherwise "". Statements
    are sentences, and parts of sentences joined by words such as "and". Questions, and words that
    only open a sentence, are left out.
    """
    for sentence in sentences(text):
        if sentence.text.rstrip("\"')\u201d ").endswith("?"):
            continue
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
    if change is not None and (joint is None or change.start() <= joint.start()):
        before = text[start : change.start()]
        is_speaker = bool(change["who"] or _SPEAKER.search(before))
        if is_speaker and (_english().ended.search(before) or _english().left_work.search(before)):
            return change
    return joint


def _names(text: str) -> Iterator[str]:
    """Yield the names in a text: capitalized words that do not begin a sentence."""
    found = re.findall(r"(?<=[a-z,] )[A-Z]\w+(?: [A-Z]\w+)*", text)
    months = set(words.MONTHS)
    return (name for name in found[:8] if name not in months)


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
        elif word == "I":
            made.append(name)
            rest = sentence[at:]
            if rest.startswith(" don't"):
                made.append(" doesn't")
                at += len(" don't")
            elif verb := english.verb.match(rest[1:]):
                made.append(f" {verb[1]}{_third(verb[2])}")
                at += 1 + verb.end()
        else:
            made.append(name)
    made.append(sentence[at:])
    return "".join(made)


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
    text = candidate.text
    is_single = _single(text, candidate.subject) is not None
    return is_single or bool(_english().ended.search(text) or _english().left_work.search(text))


def _decided(candidate: CandidateFact, known: Sequence[KnownText]) -> CheckedDecision:
    single = _single(candidate.text, candidate.subject)
    for one in known:
        before = _single(one.text, candidate.subject)
        if before is not None and before == single:
            return CheckedDecision("replaces", one.id)
        if before == "work " and _english().left_work.search(candidate.text):
            return CheckedDecision("replaces", one.id)
        if _has_ended(one.text, candidate):
            return CheckedDecision("replaces", one.id)
    return NEW


def _single(text: str, subject: str) -> str | None:
    """Return the property of `single` that *text* states about *subject*, or None."""
    at = text.casefold().find(subject.casefold())  # "the user" begins a sentence with a capital
    if at < 0 or _english().ended.search(text):
        return None
    rest = text[at + len(subject) :]
    for what, rule in _english().single:
        if match := rule.match(rest):
            return f"{what} {match[1].casefold() if match.re.groups else ''}"
    return None


def _has_ended(known: str, candidate: CandidateFact) -> bool:
    """Return whether a candidate says that a known fact ended, and says nothing else."""
    if not _english().ended.search(candidate.text) or _english().ended.search(known):
        return False
    left = _english().ended.sub(" ", candidate.text).casefold().replace("doesn't", " ")
    left = left.replace(candidate.subject.casefold(), " ")
    mine = set(words.terms(" ".join(w for w in left.split() if w not in words.STOP_WORDS)))
    return bool(mine) and mine <= set(words.terms(known))
