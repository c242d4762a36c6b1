"""Facts without a model: what people say of themselves, by written-down rules for English.

A sentence is kept if it is a statement: no question, nothing said about whom it is said to ("you"),
no talk about the talk ("I agree"), and no opinion ("I think it might rain"). It is a fact of the
speaker, with the name in place of the pronouns, or before it, and dates in place of words such as
"yesterday". Its kind is that of the first rule below that it matches. A new fact replaces a known
one of the same subject if both say one of the things that people have one of (`_SINGLE`), or if it
says that the known one has ended ("no longer", "any more", "stopped", "quit").
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
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
from alveus.facts.english import in_third_person
from alveus.facts.fact import TIMELESS
from alveus.sets.admission.injection import injections
from alveus.store import StoredItem
from alveus.store.records import said_at
from alveus.text.statements import sentences
from alveus.values import words
from alveus.values.dates import with_dates

RULES = "rules-4"
"""The version of these rules; it stands where a fact has the version of a prompt."""

NAME = "rules"
"""What stands where a fact has the name of a model."""

CONFIDENCE = 0.7
"""Of what somebody says of himself, as it was said."""

SHORTEST = 3
"""Words of a sentence that is kept."""


def _words(*patterns: str) -> re.Pattern[str]:
    """Return what finds one of some patterns, at the boundaries of words."""
    return re.compile(rf"\b(?:{'|'.join(patterns)})\b", re.IGNORECASE)


_RULES = {
    "instruction": _words("call me", r"please (?:always|never|don't|answer|speak|write|use)"),
    "preference": _words(
        r"(?:I|we)(?: \w+){0,2} (?:love|like|enjoy|prefer|hate|dislike|adore|can't stand)",
        r"(?:I|we)(?: \w+){0,2} don't (?:like|eat|drink)",
        r"I(?:'m| am)(?: \w+){0,2} (?:into|fond of|a fan of|passionate about)",
        r"my fav(?:ou?rite|e)",
    ),
    "plan": _words(
        r"(?:I|we)(?:'m|'re| am| are)(?: \w+)? (?:going to|planning|thinking (?:of|about)|hoping)",
        r"(?:I|we)(?:'m|'re| am| are)(?: \w+)? looking forward",
        r"(?:I|we)(?:'ll| will| plan| hope| intend| want| decided)",
        r"tomorrow|next (?:week|month|year|weekend|\w+day)",
    ),
    "relation": _words(
        r"my (?:wife|husband|partner|girlfriend|boyfriend|fianc\w+|mother|mom|mum|father|dad)",
        r"my (?:parents|sister|brother|son|daughter|kids?|children|aunt|uncle|cousins?|grand\w+)",
        r"my (?:friends?|boss|colleagues?|teacher|neighbou?rs?|dogs?|cats?|pets?|family)",
    ),
    "profile": _words(
        r"I(?:'m| am)(?: \w+)? (?:an?|from|\d+|married|single|divorced|allergic|vegan|vegetarian)",
        r"I(?: \w+)? (?:lives?|works?|stud(?:y|ies)|teach(?:es)?|own|speak|have)",
        r"I(?: \w+)? (?:grew up|was born|moved)",
        r"my (?:name|job|home|address|birthday|age|hobby|hobbies)",
    ),
}
"""The kind of a statement is the first that matches; what matches none is an event."""

_YOU = _words("you", "your", "yours", "you're", "you've", "you'll", "you'd")
"""What is said to somebody: of him, and not by him."""

_CHAT = _words(
    r"I (?:see|agree|understand|hear you|bet|mean|guess|hope (?:it|that)|think (?:so|that's|it's))",
    r"I (?:can (?:see|imagine)|appreciate|totally)",
    r"I'm (?:so |really )?(?:glad|sorry|happy for|proud of)",
    "let me|tell me|excuse me|see you|talk to",
)
"""Talk about the talk: nothing that anybody would look for."""

_OPINION = re.compile(
    r"\bI (?:\w+ )?(?:think|guess|suppose|reckon|bet|imagine|assume|believe) (?:that )?"
    r"(?:it|this|that|there|they|the|these|those|everyone|people)\b"
    r"|\b(?:it|this|that|there) (?:might|may|could|should|would|must)\b"
    r"|\A(?:maybe|perhaps|probably)\b",
    re.IGNORECASE,
)
"""What somebody thinks of the world, and does not know: it says nothing that holds."""

_OPENING = re.compile(
    r"\A(?:(?:hey|hi|hello|yes|yeah|yep|no(?! longer)|nope|oh|wow|well|so|haha|lol|thanks|"
    r"thank you|ok|okay|sure|also|btw|by the way|and|but|actually|anyway|aw+|hmm+|absolutely|"
    r"definitely|of course)\b"
    r"(?: (?-i:[A-Z]\w+)(?=[,!.]))?[,!.]? +)+",
    re.IGNORECASE,
)
"""What a sentence begins with and says nothing."""

_JOINT = re.compile(r",? (?:and|but) (?=(?:I|I'm|I've|I'll|[Mm]y|[Ww]e)\b)")
"""Between two statements of one sentence."""

_CHANGE = re.compile(
    r"(?:[,;]|,? (?:and|but|so))(?: (?:and|but|so))? "
    r"(?=(?:now )?(?:(?P<who>I|I'm|I've|I'll|my|we)|works?|lives?|stud(?:y|ies)|teach(?:es)?)\b)",
    re.IGNORECASE,
)
"""Between what has ended and what holds now: "no longer at Acme, works at Globex now"."""

_OWN = re.compile(r"\b(?:I|I'm|I've|we)\b|\A(?:no longer|not)\b", re.IGNORECASE)
"""Whoever speaks says it of himself, and what goes on without a name as well."""

_ENDED = _words("no longer", "any ?more", "stopped", "quit", "gave up", "given up")
"""What says that something has ended."""

_LEFT_WORK = _words(r"(?:quit|left|lost)(?: \S+)? job")

_SINGLE = {
    "home": r" (?:\w+ ){0,2}(?:lives? in|is living in|(?:moved|is moving) (?:from \S+ )?to)\b"
    r"|'s home is\b",
    "work": r" (?:\w+ ){0,2}(?:works?|is working) (?:at|for|as)\b|'s (?:new )?job is\b",
    "name": r"'s name is\b",
    "age": r" is (?:now )?\d+ years old\b",
    "favourite": r"'s fav(?:ou?rite|e) (\w+) is\b",
}
"""What people have one of: how a sentence goes on behind the name."""

_SINGLE_RULES = {name: re.compile(rule, re.IGNORECASE) for name, rule in _SINGLE.items()}

_BEGINS = _words("moved", "started", "since")
"""What says that something holds from its date on."""


class _Statement(NamedTuple):
    """A sentence that is kept, and where it stands."""

    text: str
    kind: str
    begins: str | None
    ends: str | None
    evidence: Evidence


def found_by_rules(messages: Sequence[StoredItem]) -> CandidateFacts:
    """Return the facts that messages state."""
    found: dict[tuple[str, str], CandidateFact] = {}
    for place, message in enumerate(messages):
        name = message.record.speaker or ("the user" if message.record.role == "user" else "")
        if not name or (message.record.role == "assistant" and not message.record.speaker):
            continue  # an assistant without a name says nothing of itself
        for one in _statements(message, place, name):
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


def _statements(message: StoredItem, place: int, name: str) -> Iterator[_Statement]:
    text, today = text_of(message), said_at(message).date()
    for start, end, lead in _clauses(text):
        plain = " ".join(f"{lead}{text[start:end]}".replace("\u2019", "'").split()).rstrip("!, ")
        if len(plain.split()) < SHORTEST or len(plain) > LONGEST_FACT // 2:
            continue
        if any(rule.search(plain) for rule in (_YOU, _CHAT, _OPINION)):
            continue
        if next(injections(plain), None) is not None:
            continue
        kind = next((kind for kind, rule in _RULES.items() if rule.search(plain)), "event")
        told = with_dates(in_third_person(plain, name), today)
        whole = told.text[:1].upper() + told.text[1:]
        if folded(name) not in folded(whole):
            whole = f"{name[:1].upper()}{name[1:]}: {whole}"
        timed = kind in TIMELESS
        yield _Statement(
            whole if whole[-1] in ".\u2026" else f"{whole}.",
            kind,
            told.begins if timed or _BEGINS.search(plain) else None,
            told.ends if timed else None,
            Evidence(place, start, end),
        )


def _clauses(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield where the statements of a text begin and end, and the "I" that one begins without.

    They are its sentences, and parts joined by "and". What a sentence opens with and says nothing
    is left out, and so are questions.
    """
    for sentence in sentences(text):
        if sentence.text.rstrip("\"')\u201d ").endswith("?"):
            continue
        opening = _OPENING.match(sentence.text)
        start = sentence.start + (0 if opening is None else opening.end())
        lead = ""
        while (joint := _next_joint(text, start, sentence.end)) is not None:
            yield start, joint.start(), lead
            start, lead = joint.end(), "" if joint.groupdict().get("who", "I") else "I "
        yield start, sentence.end, lead


def _next_joint(text: str, start: int, end: int) -> re.Match[str] | None:
    """Return what joins a statement with the next one in a sentence."""
    joint, change = _JOINT.search(text, start, end), _CHANGE.search(text, start, end)
    if change is not None and (joint is None or change.start() <= joint.start()):
        before = text[start : change.start()]
        is_own = bool(change["who"] or _OWN.search(before))
        if is_own and (_ENDED.search(before) or _LEFT_WORK.search(before)):
            return change
    return joint


def _names(text: str) -> Iterator[str]:
    """Yield words in capitals where no sentence begins."""
    found = re.findall(r"(?<=[a-z,] )[A-Z]\w+(?: [A-Z]\w+)*", text)
    months = set(words.MONTHS)
    return (name for name in found[:8] if name not in months)


# --- new against known --------------------------------------------------------------------------


def decided_by_rules(
    candidates: Sequence[CandidateFact], known: Sequence[Sequence[KnownText]]
) -> list[CheckedDecision]:
    """Return what becomes of each candidate, beside the known facts near it."""
    return [_decided(*pair) for pair in zip(candidates, known, strict=True)]


def may_replace(candidate: CandidateFact) -> bool:
    """Return whether a candidate is of those that may replace a known fact."""
    text = candidate.text
    is_single = _single(text, candidate.subject) is not None
    return is_single or bool(_ENDED.search(text) or _LEFT_WORK.search(text))


def _decided(candidate: CandidateFact, known: Sequence[KnownText]) -> CheckedDecision:
    single = _single(candidate.text, candidate.subject)
    for one in known:
        before = _single(one.text, candidate.subject)
        if before is not None and before == single:
            return CheckedDecision("replaces", one.id)
        if before == "work " and _LEFT_WORK.search(candidate.text):
            return CheckedDecision("replaces", one.id)
        if _has_ended(one.text, candidate):
            return CheckedDecision("replaces", one.id)
    return NEW


def _single(text: str, subject: str) -> str | None:
    """Return which of the things that people have one of a text says of its subject."""
    at = text.casefold().find(subject.casefold())  # "the user" begins a sentence with a capital
    if at < 0 or _ENDED.search(text):
        return None
    rest = text[at + len(subject) :]
    for what, rule in _SINGLE_RULES.items():
        if match := rule.match(rest):
            return f"{what} {match[1].casefold() if match.re.groups else ''}"
    return None


def _has_ended(known: str, candidate: CandidateFact) -> bool:
    """Return whether a candidate says that what is known has ended: all that it says is in it."""
    if not _ENDED.search(candidate.text) or _ENDED.search(known):
        return False
    left = _ENDED.sub(" ", candidate.text).casefold().replace("doesn't", " ")
    left = left.replace(candidate.subject.casefold(), " ")
    mine = set(words.terms(" ".join(w for w in left.split() if w not in words.STOP_WORDS)))
    return bool(mine) and mine <= set(words.terms(known))
