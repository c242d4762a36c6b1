"""Conversations of many sessions: as `alveus demo` has them, and as LoCoMo has them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, tzinfo
from typing import ClassVar, cast

from alveus.errors import InvalidInput
from alveus.store.items import Item
from alveus.transfer.foreign_formats import Reader, ReadPart
from alveus.transfer.import_source import JsonRecord
from alveus.transfer.record_fields import checked_object, list_of, name_of, time_of
from alveus.values.storable import Value, checked_name, valid_text
from alveus.values.words import MONTHS

_DATE = re.compile(r"(\d{1,2}):(\d\d) ([ap]m) on (\d{1,2}) ([A-Z][a-z]+), (\d{4})")
_SESSION = re.compile(r"session_([0-9]{1,6})")


class ConversationReader(Reader):
    """Reads conversations with their sessions and turns.

    Attributes:
        TURN_ID: The field of a turn that holds its id.
        METADATA: The fields of a turn that are kept, and their names in the item's metadata.
    """

    TURN_ID: ClassVar[str] = "id"
    METADATA: ClassVar[Mapping[str, str]] = {"caption": "caption"}

    @classmethod
    def recognises(cls, record: JsonRecord) -> bool:
        """Return whether it has sessions."""
        return isinstance(record.fields.get("sessions"), list)

    def read(self, record: JsonRecord) -> Iterator[ReadPart]:
        """Yield the turns of a conversation."""
        fields = record.fields
        name = checked_name(fields.get("id"), "a conversation's id")
        for number, session in enumerate(list_of(fields, "sessions"), start=1):
            yield from self.part(self._session(session, name, fields), f"session {number}")

    def _session(self, session: Value, name: str, fields: dict[str, Value]) -> Iterator[ReadPart]:
        """Yield the turns of a session of a conversation."""
        inner = checked_object(session)
        session_id = checked_name(inner.get("session_id"), "a session_id")
        turns = list_of(inner, "turns")
        yield from self._turns(turns, name, session_id, inner.get("date"), inner, fields)

    def _turns(
        self,
        turns: list[Value],
        conversation: str,
        session: str,
        date: Value,
        *around: dict[str, Value],
    ) -> Iterator[ReadPart]:
        """Yield the turns of a session. A turn without a time of its own has that of the session.

        Args:
            around: The session and the conversation, where the target's fields may be.
        """
        session_time = self.read_time(date, self.target.zone)
        for number, turn in enumerate(turns, start=1):
            read = self._turn(turn, conversation, session, session_time, *around)
            yield from self.part(read, f"turn {number} of {session} of {conversation!r}")

    def _turn(
        self,
        turn: Value,
        conversation: str,
        session: str,
        session_time: datetime | None,
        *around: dict[str, Value],
    ) -> Iterator[ReadPart]:
        fields = checked_object(turn)
        text, turn_id = fields.get("text"), fields.get(self.TURN_ID)
        if not isinstance(text, str):
            raise InvalidInput(f"a turn has a text, not {text!r:.40}")
        time = self.when(fields, *(around if self.target.time_from else ())) or session_time
        if time is None:
            raise InvalidInput(f"turn {turn_id!r:.40} has no time, and its session has no date")
        speaker = fields.get("speaker")
        checked_name(valid_text(speaker).value, "a turn's speaker")
        item = Item(
            value=text,
            id=f"{conversation}/{checked_name(turn_id, f'the {self.TURN_ID} of a turn')}",
            metadata={to: fields[name] for name, to in self.METADATA.items() if fields.get(name)},
            speaker=cast("str", speaker),
            session=f"{conversation}/{session}",
            time=time,
        )
        yield self.item_line(item, fields, *around)

    def read_time(self, value: Value, zone: tzinfo | None) -> datetime | None:
        """Return a time, also one like ``7:42 pm on 5 February, 2025``, by default in UTC."""
        found = _DATE.fullmatch(value) if isinstance(value, str) else None
        if found is None:
            return time_of(value, zone)
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
            raise InvalidInput(f"there is no such time as {value!r}") from None


class LocomoReader(ConversationReader):
    """Reads samples of LoCoMo: ``session_1``, ``session_1_date_time``, … of two speakers.

    Questions, observations and summaries, which its authors added, are not read, nor is the
    ``query`` that found a picture: nobody said them.
    """

    TURN_ID = "dia_id"
    METADATA: ClassVar[Mapping[str, str]] = {"blip_caption": "caption", "img_url": "images"}

    @classmethod
    def recognises(cls, record: JsonRecord) -> bool:
        """Return whether it has numbered sessions."""
        talk = record.fields.get("conversation")
        return isinstance(talk, dict) and any(_SESSION.fullmatch(name) for name in talk)

    def read(self, record: JsonRecord) -> Iterator[ReadPart]:
        """Yield the turns of a sample, session by session."""
        fields, talk = record.fields, record.fields.get("conversation")
        name = name_of(fields, "sample_id")
        if name is None:
            raise InvalidInput('a sample has a "sample_id"')
        if not isinstance(talk, dict):
            raise InvalidInput(f'sample {name!r} has no "conversation" with sessions')
        numbers = sorted(int(found[1]) for found in map(_SESSION.fullmatch, talk) if found)
        for session in (f"session_{number}" for number in numbers):
            yield from self.part(self._of(session, name, fields, talk), f"{session} of {name!r}")

    def _of(
        self, session: str, name: str, fields: dict[str, Value], talk: dict[str, Value]
    ) -> Iterator[ReadPart]:
        turns, date = list_of(talk, session), talk.get(f"{session}_date_time")
        yield from self._turns(turns, name, session, date, fields, talk)
