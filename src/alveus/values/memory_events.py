"""Memory events: what an action did to memory, and read of it, told as events.

Off by default, and free of cost then. A kind is told once an action asks for its class
(``@action(ShortTermWriteEvent)``), a listener does (`Memory.subscribe`), or the agent has it
written down with each step (`MemoryEvents`). At most one event of a kind is told per action: after
it has returned, behind its own events, in the same commit. The last write of a path stands, in the
place of the first. An action that a memory event sets off tells none, so there is no end to fear.

What an event cannot carry, such as NaN, is left out: telling never fails an action.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import field, fields
from typing import Any, Literal, TypeAlias, cast

from alveus.errors import InvalidInput, InvalidValue
from alveus.values.events import Event
from alveus.values.forks import HandleLock
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import checked_function, choice

_LOG = logging.getLogger("alveus.run")

Detail: TypeAlias = Literal["off", "paths", "values"]
"""How much is told: nothing; where, by path or id; also what."""

_DETAILS = ("off", "paths", "values")


class MemoryEvent(Event):
    """What all memory events have; itself never sent.

    Attributes:
        value: What was written or read, by path or set; each kind says how.
        detail: "values"; or "paths": every value is None.
    """

    value: dict[str, Any]
    detail: str = "values"

    def __post_init__(self) -> None:
        """Refuse what is no memory event."""
        if type(self) in (MemoryEvent, Written):
            raise InvalidValue("a memory event", "is one of the kinds, not their base")
        if not isinstance(self.value, dict):  # pyright: ignore[reportUnnecessaryIsInstance] - user input
            raise InvalidValue(f"{self.type}.value", "must be a dict")


class Written(MemoryEvent):
    """What an action wrote to an exact tree.

    Attributes:
        value: What was put, by path; of an object, None.
        objects: The paths in `value` that are objects.
        deleted: Paths that were deleted, before anything of `value` was put.
        cleared: Objects that were emptied, before anything of `value` was put.
    """

    objects: list[str] = field(default_factory=list[str])
    deleted: list[str] = field(default_factory=list[str])
    cleared: list[str] = field(default_factory=list[str])


class ShortTermWriteEvent(Written):
    """What an action wrote to short-term memory: ``{path: value}``."""


class SensoryWriteEvent(Written):
    """What an action wrote to sensory memory: ``{path: value}``."""


class ShortTermReadEvent(MemoryEvent):
    """Which values an action read of short-term memory: ``{path: value}``."""


class SensoryReadEvent(MemoryEvent):
    """Which values an action read of sensory memory: ``{path: value}``."""


class LongTermUpdateEvent(MemoryEvent):
    """Which items of the key's sets an action added, changed or deleted.

    Attributes:
        value: ``{set: {id: value}}``; None for an item that was deleted.
        cleared_sets: Sets that were emptied, before anything of `value` was done.
        deleted: ``{set: [id, …]}``.
    """

    cleared_sets: list[str] = field(default_factory=list[str])
    deleted: dict[str, list[str]] = field(default_factory=dict[str, list[str]])

    def __post_init__(self) -> None:
        """Refuse names of sets that are none; None stands for no set."""
        super().__post_init__()
        names = cast("object", self.cleared_sets)
        if names is None:
            object.__setattr__(self, "cleared_sets", [])
        elif type(names) is not list:
            raise InvalidValue("cleared_sets", "must be a list")
        elif not all(type(name) is str for name in cast("list[object]", names)):
            raise InvalidValue("cleared_sets", "must hold only strings")


class LongTermGetEvent(MemoryEvent):
    """Which items of the key's sets an action got or listed: ``{set: {id: value}}``."""


class LongTermSearchEvent(MemoryEvent):
    """What an action searched the key's sets for: ``{set: {query: [{id, value, score}, …]}}``."""


class RunBeginEvent(MemoryEvent):
    """The values of short-term memory as a run begins, before its first action: ``{path: value}``.

    Reads all of it, and is a step of its own.
    """


MEMORY_EVENTS: tuple[type[MemoryEvent], ...] = (
    SensoryWriteEvent,
    ShortTermWriteEvent,
    SensoryReadEvent,
    ShortTermReadEvent,
    LongTermUpdateEvent,
    LongTermGetEvent,
    LongTermSearchEvent,
    RunBeginEvent,
)
"""Every kind; those of one action come in this order."""


@dataclass(frozen=True, slots=True)
class MemoryEvents:
    """Which memory events an agent tells, and how much they say.

    A kind that says nothing does as *every* says. If that says nothing either, a kind is told,
    with values, when an action or a listener asks for it. What is on here is kept with the step of
    each action, asked for or not; what an action merely asks for, if it set the action off.
    """

    every: Detail | None = None
    short_term_write: Detail | None = None
    short_term_read: Detail | None = None
    sensory_write: Detail | None = None
    sensory_read: Detail | None = None
    long_term_update: Detail | None = None
    long_term_get: Detail | None = None
    long_term_search: Detail | None = None
    run_begin: Detail | None = None

    def __post_init__(self) -> None:
        """Refuse what is no detail."""
        for each in fields(self):
            detail: object = getattr(self, each.name)
            if detail is not None:
                choice(detail, f"memory_events.{each.name}", "off", "paths", "values")

    def stored(self) -> frozenset[type[MemoryEvent]]:
        """Return the kinds that are on by these settings."""
        return frozenset(k for k in MEMORY_EVENTS if self._detail(k) not in (None, "off"))

    def reported(self, requested: Iterable[type[Event]]) -> dict[type[MemoryEvent], Detail]:
        """Return the kinds that are reported if the events *requested* are asked for."""
        wanted = set(requested)
        found: dict[type[MemoryEvent], Detail] = {
            k: self._detail(k) or ("values" if k in wanted else "off") for k in MEMORY_EVENTS
        }
        return {kind: detail for kind, detail in found.items() if detail != "off"}

    def _detail(self, kind: type[MemoryEvent]) -> Detail | None:
        detail: Detail | None = getattr(self, _SETTINGS[kind])
        return self.every if detail is None else detail


_SETTINGS: dict[type[MemoryEvent], str] = {
    ShortTermWriteEvent: "short_term_write",
    ShortTermReadEvent: "short_term_read",
    SensoryWriteEvent: "sensory_write",
    SensoryReadEvent: "sensory_read",
    LongTermUpdateEvent: "long_term_update",
    LongTermGetEvent: "long_term_get",
    LongTermSearchEvent: "long_term_search",
    RunBeginEvent: "run_begin",
}


def silent(event: Event) -> bool:
    """Return whether an action that *event* sets off tells no memory events."""
    return isinstance(event, MemoryEvent) and not isinstance(event, RunBeginEvent)


# --- who listens ------------------------------------------------------------------------------


Listener: TypeAlias = Callable[[MemoryEvent], object]


class EventListeners:
    """Who is told of memory events in this process, once they are committed.

    Attributes:
        kinds: What somebody listens for.
    """

    def __init__(self) -> None:
        self.kinds: frozenset[type[MemoryEvent]] = frozenset()
        self._lock = HandleLock()
        self._all: list[tuple[Listener, frozenset[type[MemoryEvent]]]] = []

    def subscribe(
        self, listener: Listener, kinds: Iterable[type[MemoryEvent]] | None
    ) -> Callable[[], None]:
        """Have *listener* called; return what ends that. See `Memory.subscribe`."""
        checked_function(listener, "subscribe takes a function of one event")
        chosen = frozenset(MEMORY_EVENTS if kinds is None else kinds)
        for kind in chosen:
            if kind not in MEMORY_EVENTS:
                raise InvalidInput(f"kinds are classes of memory events, not {kind!r}")
        entry = (listener, chosen)
        with self._lock:
            self._set([*self._all, entry])

        def unsubscribe() -> None:
            with self._lock:
                self._set([each for each in self._all if each is not entry])

        return unsubscribe

    def _set(self, entries: list[tuple[Listener, frozenset[type[MemoryEvent]]]]) -> None:
        self._all = entries
        self.kinds = frozenset(kind for _, kinds in entries for kind in kinds)

    def tell(self, events: Iterable[Event]) -> None:
        """Call who listens for each of *events*; who raises is not called again."""
        for event in events:
            for entry in self._all:
                listener, kinds = entry
                if type(event) not in kinds:
                    continue
                try:
                    listener(cast("MemoryEvent", event))
                except Exception:  # noqa: BLE001 - the user's code: told in the log, and dropped
                    _LOG.exception("a listener to memory events raised, and was dropped")
                    with self._lock:
                        self._set([each for each in self._all if each is not entry])
