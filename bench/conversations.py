"""Recorded conversations with questions about them, one per line of a JSONL file, whatever wrote
it.

    {"id", "speakers": [...],
     "sessions": [{"session_id", "date", "turns": [{"id", "speaker", "text", "caption"?}]}],
     "queries": [{"id", "question", "category", "gold": [turn ids], "gold_sessions": [...],
                  "raw_evidence"?}]}

Everything but the turns' words may be missing. Turns of a chat may say `role` and `content` instead
of `speaker` and `text`, and may have a date of their own. A turn's `query` (the phrase that found
its picture) is never read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

Json = Mapping[str, object]

ROLES = {
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "ai": "assistant",
    "bot": "assistant",
    "system": "system",
}
MONTHS = (
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
)

_MONTH = r"(?P<month>jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
_DATES = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"\b(?P<year>\d{4})[-/.](?P<month>\d{1,2})[-/.](?P<day>\d{1,2})(?!\d)",
        r"\b(?P<year>\d{4})(?P<month>\d{2})(?P<day>\d{2})(?!\d)",
        r"\b(?P<day>\d{1,2})\.\s?(?P<month>\d{1,2})\.\s?(?P<year>\d{4})\b",
        r"\b(?P<first>\d{1,2})[/-](?P<second>\d{1,2})[/-](?P<year>\d{4})\b",
        rf"\b(?P<day>\d{{1,2}})(?:st|nd|rd|th)?\.?[\s-]+(?:of\s+)?{_MONTH}[\s,-]*(?P<year>\d{{4}})\b",
        rf"\b{_MONTH}\s+(?P<day>\d{{1,2}})(?:st|nd|rd|th)?\s*,?\s+(?P<year>\d{{4}})\b",
    )
)
_TIME = re.compile(
    r"(?<!\d)(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?:[.,]\d+)?)?\s*(?P<half>[ap]\.?m\b)?",
    re.IGNORECASE,
)
_HOUR = re.compile(r"\b(?P<hour>\d{1,2})\s*(?P<half>[ap]\.?m\b)", re.IGNORECASE)
_ZONE = re.compile(r"\d\s*(?P<sign>[+-])(?P<hours>\d{2}):?(?P<minutes>\d{2})$")


@dataclass(frozen=True)
class Turn:
    """One thing said. `time` is UTC, None where the file does not say; `role` is `user`,
    `assistant`, `system` or None."""

    id: str
    speaker: str
    role: str | None
    text: str
    caption: str | None
    session: str
    time: datetime | None


@dataclass(frozen=True)
class Question:
    """A question with the turns and sessions that answer it. `evidence` is the source's own
    spelling of `gold`, where it has one."""

    id: str
    text: str
    category: str
    gold: frozenset[str]
    gold_sessions: frozenset[str]
    evidence: tuple[str, ...] | None


@dataclass(frozen=True)
class Conversation:
    """All that was said, in order, and what is asked about it."""

    id: str
    speakers: tuple[str, ...]
    turns: tuple[Turn, ...]
    questions: tuple[Question, ...]

    def session_of(self) -> dict[str, str]:
        """Session ids by turn id."""
        return {turn.id: turn.session for turn in self.turns}


def read(path: Path) -> Iterator[Conversation]:
    """The conversations of *path* in order, one held at a time.

    Raises:
        ValueError: A line is no JSON object, two turns of a conversation have one id, or a turn has
        no words; the message names it.
    """
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines):
            if line.strip():
                yield conversation(json.loads(line), number=number)


def conversation(source: Json, *, number: int = 0) -> Conversation:
    """The conversation that *source* writes down; *number* names it where it has no id."""
    name = str(source.get("id") or f"conversation-{number}")
    turns: list[Turn] = []
    for order, session in enumerate(_objects(source.get("sessions")), start=1):
        turns.extend(
            _turns(
                session,
                session_id=str(session.get("session_id") or session.get("id") or f"S{order}"),
            )
        )
    seen: set[str] = set()
    for turn in turns:
        if turn.id in seen:
            raise ValueError(
                f"conversation {name!r} has two turns {turn.id!r}; give each an id of its own"
            )
        seen.add(turn.id)
    speakers = source.get("speakers")
    named = (
        tuple(str(speaker) for speaker in speakers)
        if isinstance(speakers, list)
        else tuple(dict.fromkeys(t.speaker for t in turns))
    )
    questions = tuple(
        _question(asked, default=f"{name}#{i}")
        for i, asked in enumerate(_objects(source.get("queries")))
    )
    return Conversation(name, named, tuple(turns), questions)


def parse_date(text: object) -> datetime | None:
    """The moment that *text* spells, in UTC; None if it spells none.

    Reads ISO 8601, `1:56 pm on 8 May, 2023`, `May 8, 2023 1:56 pm`, `2023/05/20 (Sat) 02:21`,
    `29.12.2023`, `20230508`, `3 Sept 2023`. A date without a time is its midnight; a time without a
    zone is UTC. Of `a/b/2023` the first is the month, unless it cannot be. Numbers are seconds
    since 1970, from 10**11 on milliseconds.
    """
    if isinstance(text, bool) or not isinstance(text, str | int | float):
        return None
    if isinstance(text, int | float) or re.fullmatch(r"\d{9,13}(\.\d+)?", text.strip()):
        seconds = float(text)
        return datetime.fromtimestamp(seconds / 1000 if seconds >= 1e11 else seconds, UTC)
    words = text.strip()
    try:
        moment = datetime.fromisoformat(words)
    except ValueError:
        return _spelled(words)
    return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)


def _spelled(words: str) -> datetime | None:
    for pattern in _DATES:
        found = pattern.search(words)
        day = found and _day(found)
        if found and day:
            rest = words[: found.start()] + " " + words[found.end() :].lstrip("T")
            return _at(day, rest)
    return None


def _day(found: re.Match[str]) -> datetime | None:
    parts = found.groupdict()
    if "first" in parts:
        first, second = int(parts["first"]), int(parts["second"])
        month, day = (first, second) if first <= 12 else (second, first)
    else:
        day = int(parts["day"])
        month = int(parts["month"]) if parts["month"].isdigit() else _month(parts["month"])
    try:
        return datetime(int(parts["year"]), month, day, tzinfo=UTC)
    except ValueError:
        return None


def _month(name: str) -> int:
    return next(i for i, month in enumerate(MONTHS, start=1) if month.startswith(name.lower()))


def _at(day: datetime, rest: str) -> datetime:
    """*day* at the time that *rest* spells, if any."""
    found = _TIME.search(rest) or _HOUR.search(rest)
    if not found:
        return day
    parts = {"minute": "0", "second": None} | found.groupdict()
    hour, half = int(parts["hour"] or 0), (parts["half"] or "").lower()
    if half:
        hour = hour % 12 + (12 if half.startswith("p") else 0)
    if hour > 23 or int(parts["minute"] or 0) > 59 or int(parts["second"] or 0) > 59:
        return day
    moment = day.replace(
        hour=hour, minute=int(parts["minute"] or 0), second=int(parts["second"] or 0)
    )
    zone = _ZONE.search(rest.rstrip())
    if not zone:
        return moment
    away = timedelta(hours=int(zone["hours"]), minutes=int(zone["minutes"]))
    return moment.replace(tzinfo=timezone(away if zone["sign"] == "+" else -away)).astimezone(UTC)


def _turns(session: Json, *, session_id: str) -> Iterator[Turn]:
    began = parse_date(session.get("date") or session.get("time") or session.get("timestamp"))
    for order, turn in enumerate(
        _objects(session.get("turns") or session.get("messages")), start=1
    ):
        turn_id = str(turn.get("id") or f"{session_id}:{order}")
        caption = str(turn["caption"]) if turn.get("caption") else None
        text = str(turn.get("text") or turn.get("content") or "").strip()
        if not text and caption:
            text, caption = caption, None
        if not text:
            raise ValueError(
                f"turn {turn_id!r} has neither text nor caption; leave it out of the file"
            )
        speaker = str(turn.get("speaker") or turn.get("role") or "unknown")
        said = parse_date(turn.get("date") or turn.get("time") or turn.get("timestamp")) or began
        yield Turn(
            turn_id,
            speaker,
            ROLES.get(str(turn.get("role") or speaker).lower()),
            text,
            caption,
            session_id,
            said,
        )


def _question(source: Json, *, default: str) -> Question:
    evidence = source.get("raw_evidence")
    return Question(
        id=str(source.get("id") or default),
        text=str(source.get("question") or source.get("query") or ""),
        category=str(source.get("category", "")),
        gold=_names(source.get("gold")),
        gold_sessions=_names(source.get("gold_sessions")),
        evidence=tuple(str(part) for part in evidence) if isinstance(evidence, list) else None,
    )


def _names(value: object) -> frozenset[str]:
    return frozenset(str(name) for name in value) if isinstance(value, list) else frozenset()


def _objects(value: object) -> Sequence[Json]:
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise ValueError(f"a list of objects was expected, not {str(value)[:60]!r}")
    return value


SPELLINGS = {
    "1:56 pm on 8 May, 2023": "2023-05-08T13:56",
    "12:09 am on 13 September, 2023": "2023-09-13T00:09",
    "12:30 pm on 1 January, 2024": "2024-01-01T12:30",
    "May 8, 2023 1:56 pm": "2023-05-08T13:56",
    "May 8, 2023": "2023-05-08T00:00",
    "Monday, May 8th, 2023 at 1:56 p.m.": "2023-05-08T13:56",
    "8th of May 2023, 1 pm": "2023-05-08T13:00",
    "3 Sept 2023": "2023-09-03T00:00",
    "08-May-2023 13:56:07": "2023-05-08T13:56:07",
    "2023-05-08": "2023-05-08T00:00",
    "2023-05-08 13:56": "2023-05-08T13:56",
    "2023-05-08T13:56:00Z": "2023-05-08T13:56",
    "2023-05-08T13:56:00+02:00": "2023-05-08T11:56",
    "2023/05/08 13:56:00 -0500": "2023-05-08T18:56",
    "2023/05/20 (Sat) 02:21": "2023-05-20T02:21",
    "2023/5/8": "2023-05-08T00:00",
    "29.12.2023": "2023-12-29T00:00",
    "29.12.2023 18:05": "2023-12-29T18:05",
    "5/8/2023": "2023-05-08T00:00",
    "29/12/2023 6:05 PM": "2023-12-29T18:05",
    "20230508": "2023-05-08T00:00",
    "1683554160": "2023-05-08T13:56",
}
NO_DATES = (
    None,
    "",
    "yesterday",
    "sometime in 2023",
    "31.02.2023",
    "Session 4",
    True,
    [],
    "99/99/2023",
)


def check() -> None:
    """Raise AssertionError where a promise of this file does not hold."""
    for text, expected in SPELLINGS.items():
        assert parse_date(text) == datetime.fromisoformat(expected).replace(tzinfo=UTC), (
            text,
            parse_date(text),
        )
    for nothing in NO_DATES:
        assert parse_date(nothing) is None, nothing
    assert parse_date(1683554160000) == datetime(2023, 5, 8, 13, 56, tzinfo=UTC)
    chat = conversation(CHAT)
    assert [turn.role for turn in chat.turns] == ["user", "assistant", None]
    assert [turn.id for turn in chat.turns] == ["S1:1", "S1:2", "x"]
    assert [turn.session for turn in chat.turns] == ["S1", "S1", "late"]
    assert chat.turns[0].time == datetime(2023, 5, 20, 2, 21, tzinfo=UTC)
    assert chat.turns[1].time == datetime(2023, 5, 20, 2, 25, tzinfo=UTC)
    assert chat.turns[2].time is None
    assert (chat.turns[2].text, chat.turns[2].caption) == ("a red kite", None)
    assert len(chat.turns[1].text.split()) == 1000
    assert chat.speakers == ("user", "assistant", "Ada")
    assert chat.questions[0] == Question(
        "7#0", "What did I buy?", "single", frozenset({"S1:1"}), frozenset(), None
    )
    for broken in (
        {"sessions": [{"turns": [{"id": 1, "text": "a"}, {"id": 1, "text": "b"}]}]},
        {"sessions": [{"turns": [{}]}]},
        {"sessions": "x"},
    ):
        try:
            conversation(broken)
        except ValueError:
            continue
        raise AssertionError(f"{broken} was accepted")


CHAT: Json = {
    "id": 7,
    "sessions": [
        {
            "date": "2023/05/20 (Sat) 02:21",
            "turns": [
                {"role": "user", "content": "I bought a tent."},
                {
                    "role": "assistant",
                    "content": "word " * 1000,
                    "timestamp": "2023-05-20T02:25:00",
                },
            ],
        },
        {
            "session_id": "late",
            "turns": [{"id": "x", "speaker": "Ada", "text": "", "caption": "a red kite"}],
        },
    ],
    "queries": [{"question": "What did I buy?", "category": "single", "gold": ["S1:1"]}],
}
