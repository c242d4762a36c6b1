"""Observations: a query and its reply, which is what windows are made of."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal, Self, TypeAlias

from alveus.embed import Vector
from alveus.errors import InvalidInput
from alveus.text.messages import Message
from alveus.values.forks import HandleLock
from alveus.values.ids import uuid7

Outcome: TypeAlias = Literal["accepted", "rejected", "aborted"]
"""What became of a reply: taken; refused, and asked for again; the last before all was given up."""


_STAMP = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
"""A UUID of version 7 as text. Source: RFC 9562."""


class Stamp(str):
    """An id that says when it was made: a UUID of version 7; they compare with ``<``.

    Those that one process makes rise strictly, whatever its clock does.
    """

    __slots__ = ()

    def __new__(cls, text: str) -> Self:
        """Return the stamp that *text* is."""
        if not isinstance(text, str) or not _STAMP.fullmatch(text.lower()):  # pyright: ignore[reportUnnecessaryIsInstance] - user input
            raise InvalidInput(f"a stamp is a UUID of version 7, not {text!r:.80}")
        return super().__new__(cls, text.lower())

    @classmethod
    def new(cls) -> Self:
        """Return one of now, later than all that this process made."""
        return super().__new__(cls, uuid7(_RISING.tick()))

    @classmethod
    def at(cls, time: datetime) -> Self:
        """Return one of another time, for what is brought in from elsewhere.

        Raises:
            InvalidInput: The time has no zone, or is before 1970.
        """
        if time.tzinfo is None or time.timestamp() < 0:
            raise InvalidInput(f"a stamp needs a time since 1970 with a zone, not {time!r}")
        return super().__new__(cls, uuid7(int(time.timestamp() * 1_000_000) * 1_000))

    def time(self) -> datetime:
        """Return when it was made, to the millisecond, in UTC."""
        return datetime.fromtimestamp(int(self[:8] + self[9:13], 16) / 1000, UTC)


class _Rising:
    """Nanoseconds of the clock, each more than the last by what a stamp can tell apart."""

    STEP_NS = 1_000_000 // 4096 + 1

    def __init__(self) -> None:
        self._mutex, self._last = HandleLock(), 0

    def tick(self) -> int:
        with self._mutex:
            self._last = max(time.time_ns(), self._last + self.STEP_NS)
            return self._last


_RISING = _Rising()


@dataclass(slots=True, eq=False)
class Input:
    """What was asked.

    Attributes:
        content: The message to the model.
        relevance: Its vector, float32, for search by the meaning of what was asked; None where
            nobody made one. A window that searches makes it in `commit`.
    """

    content: Message
    relevance: Vector | None = None

    def __str__(self) -> str:
        return self.content.content


@dataclass(slots=True, eq=False)
class Reply:
    """What was answered.

    Attributes:
        content: The message of the model.
        relevance: Its vector, as in `Input`: what was answered is found apart from what was asked.
        importance: How much it matters, from 0 to 1; 0.0 until somebody scores it. It says what
            is forgotten last, what is recalled first, and when there is enough to reflect on.
        scored_by: Who scored it: the name of a scorer, or "decoder"; None: nobody.
    """

    content: Message
    relevance: Vector | None = None
    importance: float = 0.0
    scored_by: str | None = None

    def __str__(self) -> str:
        return self.content.content


@dataclass(slots=True, eq=False, init=False)
class Observation:
    """One cycle of an agent: what was asked, what was answered, and what a memory notes of it.

    What is noted may be assigned until it is committed, and inside `commit`; the windows of
    alveus keep a copy, so nothing that is done to it later changes what they hold.

    Attributes:
        created: Its id, and when it was made; windows answer in this order.
        accessed: When a window last showed it, as a stamp; None until then. What was not shown
            for longest is forgotten first where `evict="least recently used"`.
        query, reply: What was asked and answered.
        outcome: What became of the reply.
        links: The ids of observations that belong to this one, for windows that follow links.
    """

    created: Stamp
    accessed: Stamp | None
    query: Input
    reply: Reply
    outcome: Outcome
    links: tuple[Stamp, ...]

    def __init__(
        self,
        query: Input | Message | str,
        reply: Reply | Message | str,
        *,
        created: Stamp | None = None,
        accessed: Stamp | None = None,
        outcome: Outcome = "accepted",
        links: tuple[Stamp, ...] = (),
    ) -> None:
        self.query = query if isinstance(query, Input) else Input(Message.of(query, "user"))
        self.reply = reply if isinstance(reply, Reply) else Reply(Message.of(reply, "assistant"))
        self.created = created or Stamp.new()
        self.accessed, self.outcome, self.links = accessed, outcome, links

    @property
    def messages(self) -> tuple[Message, Message]:
        """What was asked, and what was answered."""
        return (self.query.content, self.reply.content)
