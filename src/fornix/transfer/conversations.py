"""Conversations of many sessions: as `fornix demo` has them, and as LoCoMo has them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, tzinfo

from fornix.errors import InvalidInput
from fornix.store.items import Item
from fornix.transfer.foreign_formats import Reader, inside, name_of
from fornix.transfer.import_entries import ItemLine, Skipped, objects_of
from fornix.transfer.json_stream import JsonRecord
from fornix.values.storable import Value, checked_name
from fornix.values.times import read_time
from fornix.values.words import MONTHS

_DATE = re.compile(r"(\d{1,2}):(\d\d) ([ap]m) on (\d{1,2}) ([A-Z][a-z]+), (\d{4})")
_SESSION = re.compile(r"session_([0-9]{1,6})")


class ConversationReader(Reader):
    """Reads conversations with their sessions and turns."""

    @classmethod
    def knows(cls, record: JsonRecord) -> bool:
        """Return whether it has sessions."""
        return isinstance(record.fields.get("sessions"), list)

    def read(self, record: JsonRecord) -> Iterator[ItemLine | Skipped]:
        """Yield the turns of a conversation."""
        fields = record.fields
        name = checked_name(fields.get("id"), "a conversation's id")
        for session in objects_of(fields, "sessions"):
            place = f"{name}/{checked_name(session.get('session_id'), 'a session_id')}"
            time = session_time(session.get("date"), self.target.zone)
            for turn in objects_of(session, "turns"):
                caption = turn.get("caption")
                item = Item(
                    value=_text(turn),
                    id=f"{name}/{checked_name(turn.get('id'), 'the id of a turn')}",
                    metadata={} if caption is None else {"caption": caption},
                    speaker=checked_name(turn.get("speaker"), "a turn's speaker"),
                    session=place,
                    time=self.when((), turn, session, fields) or time,
                )
                yield self.placed(item, turn, session, fields)


class LocomoReader(Reader):
    """Reads samples of LoCoMo: ``session_1``, ``session_1_date_time``, … of two speakers.

    What its authors made of a sample (questions, observations, summaries) is not read, nor the
    ``query`` that found a picture: nobody said that.
    """

    @classmethod
    def knows(cls, record: JsonRecord) -> bool:
        """Return whether it has numbered sessions."""
        talk = record.fields.get("conversation")
        return isinstance(talk, dict) and any(_SESSION.fullmatch(name) for name in talk)

    def read(self, record: JsonRecord) -> Iterator[ItemLine | Skipped]:
        """Yield the turns of a sample, session by session."""
        fields, talk = record.fields, record.fields.get("conversation")
        name = name_of(fields, "sample_id")
        if name is None:
            raise InvalidInput('a sample has a "sample_id"')
        if not isinstance(talk, dict):
            raise InvalidInput(f'sample {name!r} has no "conversation" with sessions')
        numbers = sorted(int(found[1]) for found in map(_SESSION.fullmatch, talk) if found)
        for number in numbers:
            with inside(f"session_{number} of {name!r}"):
                yield from self._session(name, number, talk, fields)

    def _session(
        self, name: str, number: int, talk: dict[str, Value], sample: dict[str, Value]
    ) -> Iterator[ItemLine | Skipped]:
        date = talk.get(f"session_{number}_date_time")
        time = session_time(date, self.target.zone)
        for turn in objects_of(talk, f"session_{number}"):
            yield self.placed(
                Item(
                    value=_text(turn),
                    id=f"{name}/{checked_name(turn.get('dia_id'), 'the dia_id of a turn')}",
                    metadata=_picture(turn),
                    speaker=checked_name(turn.get("speaker"), "a turn's speaker"),
                    session=f"{name}/session_{number}",
                    time=self.when((), turn, talk, sample) or time,
                ),
                turn,
                sample,
                talk,
            )


def _picture(turn: dict[str, Value]) -> dict[str, Value]:
    found = {"caption": turn.get("blip_caption"), "images": turn.get("img_url")}
    return {name: value for name, value in found.items() if value}


def _text(turn: dict[str, Value]) -> str:
    text = turn.get("text")
    if not isinstance(text, str):
        raise InvalidInput(f"a turn has a text, not {text!r}")
    return text


def session_time(date: Value, zone: tzinfo | None = None) -> datetime:
    """Return the time of a session: ISO 8601, or like ``7:42 pm on 5 February, 2025``.

    Args:
        zone: Of a time that says none; the second form is in UTC without it.
    """
    found = _DATE.fullmatch(date) if isinstance(date, str) else None
    if found is None:
        return read_time(date, zone)
    hour, minute, half, day, month, year = found.groups()
    try:
        return datetime(
            int(year),
            [name.lower() for name in MONTHS].index(month.lower()) + 1,
            int(day),
            int(hour) % 12 + (12 if half == "pm" else 0),
            int(minute),
            tzinfo=zone or UTC,
        )
    except ValueError:
        raise InvalidInput(f"there is no such time as {date!r}") from None
