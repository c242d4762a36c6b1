"""Requests to a model about facts, and the checks of every part of its answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, Literal, NamedTuple, TypeAlias, cast, get_args
from unicodedata import category

from alveus.facts.fact import KINDS, Quotation
from alveus.llm import ModelMessage, Unfit
from alveus.llm.asking import list_schema, object_schema, request_about
from alveus.sets.admission.injection import injections
from alveus.store import StoredItem
from alveus.store.records import said_at
from alveus.values.lazy import data_file
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import Value, as_dict, as_list
from alveus.values.times import offset_name, offset_of

PROMPT = "facts-2"
"""The version of `prompts.toml`; it is stored with each fact. Change both together."""

LONGEST_FACT, LONGEST_NAME, LONGEST_QUOTE = 1_000, 200, 2_000
"""Most characters of a fact, of a subject or an entity, and of a quotation."""

MOST_FACTS, MOST_ENTITIES, MOST_EVIDENCE = 200, 20, 20
"""Most facts of one answer; most entities, and quoted messages, of one fact."""

SHORTEST_QUOTE = 2
"""Fewest letters and digits of a quotation."""

Decision: TypeAlias = Literal["new", "same", "replaces", "contradicts", "takes_back"]

DECISIONS: tuple[str, ...] = get_args(Decision)

_TEXT = {"type": "string"}
_DATE = {"type": ["string", "null"]}

FACTS_SCHEMA = object_schema(
    {
        "facts": list_schema(
            {
                "fact": _TEXT,
                "subject": _TEXT,
                "kind": {"type": "string", "enum": [*KINDS]},
                "entities": {"type": "array", "items": _TEXT},
                "from": _DATE,
                "until": _DATE,
                "confidence": {"type": "number"},
                "evidence": list_schema({"message": {"type": "integer"}, "quote": _TEXT}),
            }
        )
    }
)

DECISIONS_SCHEMA = object_schema(
    {
        "decisions": list_schema(
            {
                "candidate": {"type": "integer"},
                "decision": {"type": "string", "enum": [*DECISIONS]},
                "fact": {"type": ["integer", "null"]},
            }
        )
    }
)


class Evidence(NamedTuple):
    """A quotation: the index of the message, and the start and end of the quotation in its text."""

    message: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class CandidateFact:
    """A checked fact from a model's answer.

    Attributes:
        begins, ends: The dates between which the fact is valid or happens: ISO dates, or None.
        evidence: At least one quotation.
    """

    text: str
    subject: str
    kind: str
    entities: tuple[str, ...]
    begins: str | None
    ends: str | None
    confidence: float
    evidence: tuple[Evidence, ...]

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> CandidateFact:
        """Return the fact for which `fields_as_json` returned *value*."""
        fact = dict[str, Any](value)
        fact["entities"] = tuple(value["entities"])
        fact["evidence"] = tuple(Evidence(*one) for one in value["evidence"])
        return cls(**fact)

    def quotations(self, messages: Sequence[StoredItem]) -> list[Quotation]:
        """Return the quotations of *messages* that are the evidence of the fact."""
        return [
            Quotation(
                messages[one.message].record.id,
                one.start,
                one.end,
                text_of(messages[one.message])[one.start : one.end],
            )
            for one in self.evidence
        ]


@dataclass(frozen=True, slots=True)
class CandidateFacts:
    """The facts in one answer that passed all checks, and the number of refused facts by reason."""

    facts: tuple[CandidateFact, ...]
    refused: Mapping[str, int]

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> CandidateFacts:
        """Return the facts for which `fields_as_json` returned *value*."""
        return cls(tuple(map(CandidateFact.from_json, value["facts"])), dict(value["refused"]))


class KnownText(NamedTuple):
    """A fact with which a candidate is compared: a known fact, or an earlier candidate.

    Attributes:
        id: The id of the known fact, or the `candidate_id` of the candidate.
    """

    id: str
    text: str


def candidate_id(number: int) -> str:
    """Return the provisional id of the candidate with this number."""
    return f"#{number}"


class _RefusedFact(Exception):
    """A fact is refused. The message is a short reason; refusals are counted by their reason."""


# --- requests -----------------------------------------------------------------------------------


def text_of(message: StoredItem) -> str:
    """Return the text of a message."""
    return message.record.text or ""


def facts_request(messages: Sequence[StoredItem]) -> list[ModelMessage]:
    """Return the request for facts in messages; the messages are numbered."""
    shown = [
        {
            "id": number,
            "time": _shown_time(said_at(message)),
            "speaker": message.record.speaker or message.record.role or "user",
            "text": text_of(message),
        }
        for number, message in enumerate(messages, start=1)
    ]
    return _request("facts", {"messages": shown})


def _shown_time(time: datetime) -> str:
    """Return the text of a time for a model, with the weekday and the zone of the time."""
    return f"{time:%A %Y-%m-%d %H:%M} {offset_name(offset_of(time))}"


def decisions_request(
    candidates: Sequence[CandidateFact], known: Sequence[Sequence[KnownText]]
) -> list[ModelMessage]:
    """Return the request for decisions about candidates.

    The request has the known facts near each candidate. A candidate without any is left out.
    """
    numbers = numbers_of(known)
    shown = [
        {
            "id": number,
            "fact": candidate.text,
            "known": [{"id": numbers[one.id], "fact": one.text} for one in near],
        }
        for number, (candidate, near) in enumerate(zip(candidates, known, strict=True), start=1)
        if near
    ]
    return _request("decisions", {"candidates": shown})


def numbers_of(known: Sequence[Sequence[KnownText]]) -> dict[str, int]:
    """Return the numbers that the known facts have in a request, by the ids of the facts."""
    ids = dict.fromkeys(one.id for near in known for one in near)
    return {item_id: number for number, item_id in enumerate(ids, start=1)}


def _request(prompt: str, data: object) -> list[ModelMessage]:
    return request_about(data_file("alveus.facts", "prompts.toml")[prompt], data)


# --- answers: facts -----------------------------------------------------------------------------


def checked_facts(answer: object, messages: Sequence[StoredItem]) -> CandidateFacts:
    """Return the facts of an answer that pass all checks; refused facts are counted.

    Raises:
        Unfit: The answer is not a list of facts.
    """
    found: dict[tuple[str, str], CandidateFact] = {}
    refused = Counter[str]()
    for number, one in enumerate(_entries(answer, "facts")):
        if number >= MOST_FACTS:
            refused["too many facts"] += 1
            continue
        try:
            fact = _checked_fact(one, messages)
        except _RefusedFact as reason:
            refused[str(reason)] += 1
        else:
            name = (folded(fact.subject), folded(fact.text))
            if name in found:
                refused["said twice in one answer"] += 1
            found.setdefault(name, fact)
    return CandidateFacts(tuple(found.values()), dict(refused))


def _entries(answer: object, name: str) -> list[object]:
    found = as_dict(answer).get(name)
    if not isinstance(found, list):
        raise Unfit(f'it is not an object with a list "{name}"')
    return as_list(cast("object", found))


def _checked_fact(given: object, messages: Sequence[StoredItem]) -> CandidateFact:
    if not isinstance(given, dict):
        raise _RefusedFact("not an object")
    fact = as_dict(cast("object", given))
    text = _words(fact.get("fact"), "text", LONGEST_FACT)
    subject = _words(fact.get("subject"), "subject", LONGEST_NAME)
    kind = fact.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        raise _RefusedFact("unknown kind")
    entities = _items(fact.get("entities", []), "entities", MOST_ENTITIES)
    names = tuple(_words(one, "entity", LONGEST_NAME) for one in entities)
    begins, ends = _date(fact.get("from")), _date(fact.get("until"))
    if begins is not None and ends is not None and end_of(ends) < time_of(begins):
        raise _RefusedFact("ends before it begins")
    confidence = fact.get("confidence", 1.0)
    if type(confidence) not in (int, float) or not 0 <= cast("float", confidence) <= 1:
        raise _RefusedFact("confidence is no number from 0 to 1")
    cited = _items(fact.get("evidence"), "evidence", MOST_EVIDENCE)
    if not cited:
        raise _RefusedFact("no evidence")
    evidence = dict.fromkeys(_evidence(one, messages) for one in cited)
    if next(injections(" ".join((text, subject, *names))), None) is not None:
        raise _RefusedFact("an instruction to the model")
    return CandidateFact(
        text,
        subject,
        kind,
        tuple(dict.fromkeys(names)),
        begins,
        ends,
        float(cast("float", confidence)),
        tuple(evidence),
    )


def _words(given: object, what: str, most: int) -> str:
    """Return a text of the answer on one line, after checks.

    Raises:
        _RefusedFact: The text is missing, empty, longer than *most*, or not plain text.
    """
    text = " ".join(given.split()) if isinstance(given, str) else ""
    if not text:
        raise _RefusedFact(f"no {what}")
    if len(text) > most:
        raise _RefusedFact(f"{what} is too long")
    if any(category(char) in ("Cc", "Cs") for char in text):  # control characters, lone surrogates
        raise _RefusedFact(f"{what} is no plain text")
    return text


def _items(given: object, what: str, most: int) -> list[object]:
    if not isinstance(given, list):
        raise _RefusedFact(f"no {what}")
    found = as_list(cast("object", given))
    if len(found) > most:
        raise _RefusedFact(f"too many {what}")
    return found


def _date(given: object) -> str | None:
    if given in (None, ""):
        return None
    if not isinstance(given, str) or not given.isascii() or not given.isprintable():
        raise _RefusedFact("no date")  # Python accepts any character as the "T"
    try:
        end_of(given)
    except ValueError as error:
        raise _RefusedFact("no date") from error
    return given


def time_of(date: str, zone: tzinfo = UTC) -> datetime:
    """Return the first instant of a date, in UTC. The date is a year, a month, a day or a time.

    Args:
        zone: The time zone in which to read a date without a zone.

    Raises:
        ValueError: *date* is not a date.
    """
    full = f"{date}-01-01" if len(date) == len("2026") else date
    full = f"{date}-01" if len(date) == len("2026-01") else full
    found = datetime.fromisoformat(full)
    try:
        return (found if found.tzinfo else found.replace(tzinfo=zone)).astimezone(UTC)
    except OverflowError as error:
        raise ValueError(date) from error


def end_of(date: str, zone: tzinfo = UTC) -> datetime:
    """Return the end of a date, in UTC: the instant at which the next year, month or day begins.

    If the date is a time, the end is this time.

    Args:
        zone: The time zone in which to read a date without a zone.

    Raises:
        ValueError: *date* is not a date, or is the last possible date.
    """
    try:
        ends = time_of(date, zone).astimezone(zone)
        if len(date) == len("2026"):
            ends = ends.replace(year=ends.year + 1)
        elif len(date) == len("2026-01"):
            ends = (ends + timedelta(days=31)).replace(day=1)
        elif len(date) == len("2026-01-01"):
            ends += timedelta(days=1)
        return ends.astimezone(UTC)
    except OverflowError as error:
        raise ValueError(date) from error


def _evidence(given: object, messages: Sequence[StoredItem]) -> Evidence:
    one = as_dict(given)
    number, quote = one.get("message"), one.get("quote")
    if type(number) is not int or not 1 <= number <= len(messages):
        raise _RefusedFact("a source that was not offered")
    if not isinstance(quote, str) or sum(map(str.isalnum, quote)) < SHORTEST_QUOTE:
        raise _RefusedFact("no quotation")
    if len(quote) > LONGEST_QUOTE:
        raise _RefusedFact("quotation is too long")
    span = located(quote, text_of(messages[number - 1]))
    if span is None:
        raise _RefusedFact("quotation is not in its source")
    return Evidence(number - 1, *span)


_QUOTES = str.maketrans("\u2018\u2019\u201c\u201d\u2013\u2014", "''\"\"--")


def folded(text: str) -> str:
    """Return a text in lower case, with plain quotes and dashes, and single spaces."""
    return " ".join(text.translate(_QUOTES).casefold().split())


def located(quote: str, text: str) -> tuple[int, int] | None:
    """Return the span of a quotation in a text, or None if the text does not contain it.

    Case, the form of quotation marks and dashes, and white space may differ.
    """
    at = text.find(quote)
    if at >= 0:
        return at, at + len(quote)
    letters: list[str] = []
    positions: list[int] = []
    for at, char in enumerate(text.translate(_QUOTES)):
        plain = " " if char.isspace() else char.casefold()
        if plain == " " and (not letters or letters[-1] == " "):
            continue
        letters += plain
        positions += [at] * len(plain)
    wanted = folded(quote)
    start = "".join(letters).find(wanted)
    if start < 0 or not wanted:
        return None
    return positions[start], positions[start + len(wanted) - 1] + 1


# --- answers: decisions -------------------------------------------------------------------------


class CheckedDecision(NamedTuple):
    """The decision about a candidate.

    Attributes:
        fact: The id of the known fact that the decision concerns, or None for "new".
        refused: The reason why the candidate is refused; "" if it is not refused.
    """

    decision: str
    fact: str | None = None
    refused: str = ""


NEW = CheckedDecision("new")


def checked_decisions(answer: object, known: Sequence[Sequence[KnownText]]) -> list[list[Value]]:
    """Return the decision about each candidate, as the list of values of a `CheckedDecision`.

    Raises:
        Unfit: The answer is not a list of decisions.
    """
    numbers = {number: item_id for item_id, number in numbers_of(known).items()}
    asked = {number for number, near in enumerate(known, start=1) if near}
    found: dict[int, CheckedDecision] = {}
    for entry in _entries(answer, "decisions"):
        one = as_dict(entry)
        number = one.get("candidate")
        if type(number) is int and number in asked and number not in found:
            offered = {one.id for one in known[number - 1]}
            found[number] = _checked_decision(one, numbers, offered)
    missing = CheckedDecision("new", None, "no decision about it")
    return [
        [*(found.get(number, missing) if near else NEW)]
        for number, near in enumerate(known, start=1)
    ]


def _checked_decision(
    one: Mapping[str, object], numbers: Mapping[int, str], offered: set[str]
) -> CheckedDecision:
    decision, number = one.get("decision"), one.get("fact")
    if not isinstance(decision, str) or decision not in DECISIONS:
        return CheckedDecision("new", None, "unknown decision")
    if decision == "new":
        return NEW
    fact = numbers.get(number) if type(number) is int else None
    if fact is None or fact not in offered:
        return CheckedDecision("new", None, "a fact that was not offered")
    return CheckedDecision(decision, fact)
