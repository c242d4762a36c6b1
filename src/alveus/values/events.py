"""Events: inputs of an agent, events between its actions, outputs, and events of its memory.

An event is a frozen dataclass of storable values. The runner gives it `id`, `key` and `time` when
it is sent; a class cannot have fields of these names.

Memory events report the changes and reads that an action made in memory. They are off by default
and cost nothing then. A kind is reported if an action names its class
(``@action(ShortTermWriteEvent)``), if a listener does (`Memory.subscribe`), or if the agent stores
it with each step (`MemoryEvents`). An action has at most one event of each kind. The event follows
the other events of the action, in the same commit. It contains the last write of each path, in the
order of the first writes. An action that a memory event starts reports none, so loops cannot occur.
A value that an event cannot carry, such as NaN, is left out: a report never fails an action.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import field, fields
from datetime import datetime
from functools import partial
from typing import Any, ClassVar, Literal, Self, TypeAlias, cast, dataclass_transform

from alveus.errors import AgentChanged, InvalidInput, InvalidValue, Unusable
from alveus.values import wire
from alveus.values.forks import HandleLock
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import ATOMS, Value, checked, checked_function, choice, moment

RESERVED = ("id", "key", "time", "type", "data")


_SURE = frozenset({type(None), bool, int, bytes})
"""Types whose values can all be stored unchanged."""


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class Event:
    """Something that happened, which starts the actions of its class.

    A subclass is automatically a frozen dataclass::

        class Ordered(Event):
            tent: str
            count: int = 1


        ctx.send_event(Ordered("Lhotse"))
    """

    field_names: ClassVar[tuple[str, ...]] = ()
    _stamp: ClassVar[Any] = None

    def __init_subclass__(cls, **options: Any) -> None:
        """Make the subclass a frozen dataclass.

        Raises:
            InvalidInput: A field has the name of an attribute that the runner sets.
        """
        super().__init_subclass__(**options)
        dataclass(frozen=True)(cls)
        cls.field_names = tuple(f.name for f in fields(cast("Any", cls)))
        taken = [name for name in cls.field_names if name in RESERVED or hasattr(Event, name)]
        if taken:
            raise InvalidInput(
                f"event {cls.__name__} has a field {taken[0]!r}, which every event has; rename "
                f"it, as in {cls.__name__.lower()}_{taken[0]}"
            )

    @classmethod
    def type_name(cls) -> str:
        """Return the name of this class, also used in the store."""
        return cls.__name__

    @property
    def type(self) -> str:
        """The name of the event's class."""
        return self.type_name()

    @property
    def data(self) -> dict[str, Value]:
        """The event's fields, by name."""
        return {name: getattr(self, name) for name in self.field_names}

    @property
    def id(self) -> str:
        """The event's id, from its sender or made by the runner."""
        return self._sent()[0]

    @property
    def key(self) -> str:
        """The key of the event."""
        return self._sent()[1]

    @property
    def time(self) -> datetime:
        """The time at which the event was sent, in UTC."""
        return moment(self._sent()[2])

    def _sent(self) -> tuple[str, str, int]:
        if self._stamp is None:
            raise Unusable(f"this {self.type} has no id, key and time before it is sent")
        return self._stamp

    def checked(self) -> Self:
        """Return the event with a checked copy of its data, which shares no mutable object.

        Raises:
            InvalidValue: A field cannot be stored; the message names the field.
        """
        values, made = self.__dict__, object.__new__(type(self))
        copy = made.__dict__
        for name in self.field_names:
            value = values[name]
            sure = type(value) in _SURE
            copy[name] = value if sure else checked(value, where=f"{self.type}.{name}")
        return made

    def stamped(self, event_id: str, key: str, time: int) -> Self:
        """Return a copy with this id, key, and time in microseconds."""
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__, _stamp=(event_id, key, time))
        return made

    def sent(self, event_id: str, key: str, time: int) -> Self:
        """Return a copy of the event, checked as by `checked` and stamped as by `stamped`."""
        made = self.checked()
        made.__dict__["_stamp"] = (event_id, key, time)
        return made

    def shared(self) -> bool:
        """Return whether all values of the event are immutable, so that no copy is needed."""
        values = self.__dict__
        for name in self.field_names:  # noqa: SIM110 - `all` takes twice as long
            if type(values[name]) not in ATOMS:
                return False
        return True

    def copied(self) -> Self:
        """Return the event with a copy of its data."""
        made = self.checked()
        made.__dict__["_stamp"] = self._stamp
        return made


class InputEvent(Event):
    """An input from outside.

    Attributes:
        input: The value that was submitted.
    """

    input: Any

    @property
    def value(self) -> Any:
        """The value that was submitted."""
        return self.input


class OutputEvent(Event):
    """An output of the run.

    Attributes:
        output: The value that the run gave out.
    """

    output: Any

    @property
    def value(self) -> Any:
        """The value that the run gave out."""
        return self.output


# --- in the store -------------------------------------------------------------------------------


def written(event: Event) -> str:
    """Return a checked event in wire form, without its key."""
    return wire.encode(plain(event))


def plain(event: Event) -> Value:
    """Return a checked event as ``[type, id, time, data]``."""
    stamp = cast("Any", event)._stamp  # noqa: SLF001 - None before it is sent
    event_id, _, time = (None, None, None) if stamp is None else stamp
    values = event.__dict__
    return [event.type_name(), event_id, time, {name: values[name] for name in event.field_names}]


def restored(stored: Value, *, key: str, types: dict[str, type[Event]], **given: Any) -> Event:
    """Return the event that `plain` wrote, with a copy of its data.

    Args:
        types: The known classes of events, by name.
        given: *event_id* and *time* for an event that was stored without them.

    Raises:
        AgentChanged: The event's class is not known, or has other fields now.
    """
    name, event_id, time, data = cast(
        "tuple[str, str | None, int | None, dict[str, Value]]", stored
    )
    kind = types.get(name)
    if kind is None:
        raise AgentChanged(
            f"the agent no longer has an event of type {name!r}; restore an action for it and "
            "retry the run, or discard the run"
        )
    if tuple(data) == kind.field_names or data.keys() == set(kind.field_names):
        made = object.__new__(kind)
        made.__dict__.update(data)
    else:
        made = _grown(kind, data)
    made.__dict__["_stamp"] = (event_id or given["event_id"], key, time or given["time"])
    return made


def _grown(kind: type[Event], data: dict[str, Value]) -> Event:
    """Return an event of a class with changed fields; new fields get their defaults."""
    try:
        return cast("Any", kind)(**data)
    except TypeError:
        raise AgentChanged(
            f"an event of type {kind.type_name()!r} was stored with the fields {sorted(data)}, "
            f"but its class has {sorted(kind.field_names)} now; give new fields a default, and "
            "keep old fields while runs need them"
        ) from None


_LOG = logging.getLogger("alveus.run")

Detail: TypeAlias = Literal["off", "paths", "values"]
"""The content of a memory event: paths or ids, or also values. If it is "off", no event is sent."""


class MemoryEvent(Event):
    """The base of all memory events, never sent itself.

    Attributes:
        value: The written or read values, by path or set; see each kind.
        detail: "values" or "paths". If it is "paths", every value is None.
    """

    value: dict[str, Any]
    detail: str = "values"

    def __post_init__(self) -> None:
        """Refuse the base classes, and a value that is not a dict."""
        if type(self) in (MemoryEvent, Written):
            raise InvalidValue("a memory event", f"must be of a subclass of {type(self).__name__}")
        if not isinstance(self.value, dict):  # pyright: ignore[reportUnnecessaryIsInstance] - user input
            raise InvalidValue(f"{self.type}.value", "must be a dict")


class Written(MemoryEvent):
    """Writes of an action to an exact tree.

    Attributes:
        value: The written values by path; None for an object.
        objects: The paths in `value` that are objects.
        deleted: Paths that were deleted before `value` was written.
        cleared: Objects that were cleared before `value` was written.
    """

    objects: list[str] = field(default_factory=list[str])
    deleted: list[str] = field(default_factory=list[str])
    cleared: list[str] = field(default_factory=list[str])


class ShortTermWriteEvent(Written):
    """Writes of an action to short-term memory: ``{path: value}``."""


class SensoryWriteEvent(Written):
    """Writes of an action to sensory memory: ``{path: value}``."""


class ShortTermReadEvent(MemoryEvent):
    """Values of short-term memory that an action read: ``{path: value}``."""


class SensoryReadEvent(MemoryEvent):
    """Values of sensory memory that an action read: ``{path: value}``."""


class LongTermUpdateEvent(MemoryEvent):
    """Items of the key's sets that an action added, changed or deleted.

    Attributes:
        value: ``{set: {id: value}}``; None for an item that was deleted.
        cleared_sets: Sets that were cleared before the changes in `value`.
        deleted: ``{set: [id, …]}``.
    """

    cleared_sets: list[str] = field(default_factory=list[str])
    deleted: dict[str, list[str]] = field(default_factory=dict[str, list[str]])

    def __post_init__(self) -> None:
        """Refuse `cleared_sets` that are not a list of names. Replace None by an empty list."""
        super().__post_init__()
        names = cast("object", self.cleared_sets)
        if names is None:
            object.__setattr__(self, "cleared_sets", [])
        elif type(names) is not list:
            raise InvalidValue("cleared_sets", "must be a list")
        elif not all(type(name) is str for name in cast("list[object]", names)):
            raise InvalidValue("cleared_sets", "must hold only strings")


class LongTermGetEvent(MemoryEvent):
    """Items of the key's sets that an action got or listed: ``{set: {id: value}}``."""


class LongTermSearchEvent(MemoryEvent):
    """Searches of an action in the key's sets: ``{set: {query: [{id, value, score}, …]}}``."""


class RunBeginEvent(MemoryEvent):
    """The values of short-term memory as a run begins, before its first action: ``{path: value}``.

    To report it, the run reads all of short-term memory, as a separate step.
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
"""Every kind of memory event, in the order of the events of one action."""


@dataclass(frozen=True, slots=True)
class MemoryEvents:
    """The memory events that an agent reports, and their content.

    A kind that is None uses *every*. If *every* is None too, the kind is reported, with values, if
    an action or a listener requests it. Kinds that are switched on here are stored with the step of
    each action. A kind that only an action requests is stored if its event started the action.
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
        """Refuse a value that is not a `Detail`."""
        for each in fields(self):
            detail: object = getattr(self, each.name)
            if detail is not None:
                choice(detail, f"memory_events.{each.name}", "off", "paths", "values")

    def stored(self) -> frozenset[type[MemoryEvent]]:
        """Return the kinds that these settings switch on."""
        return frozenset(k for k in MEMORY_EVENTS if self._detail(k) not in (None, "off"))

    def reported(self, requested: Iterable[type[Event]]) -> dict[type[MemoryEvent], Detail]:
        """Return the kinds that are reported if *requested* are requested, with their detail."""
        wanted = set(requested)
        found: dict[type[MemoryEvent], Detail] = {
            k: self._detail(k) or ("values" if k in wanted else "off") for k in MEMORY_EVENTS
        }
        return {kind: detail for kind, detail in found.items() if detail != "off"}

    def _detail(self, kind: type[MemoryEvent]) -> Detail | None:
        detail: Detail | None = getattr(self, _SETTINGS[kind])
        return self.every if detail is None else detail


_SETTINGS: dict[type[MemoryEvent], str] = {
    kind: re.sub(r"(?<!^)(?=[A-Z])", "_", kind.__name__.removesuffix("Event")).lower()
    for kind in MEMORY_EVENTS
}
"""The setting of each kind: ``short_term_write`` for `ShortTermWriteEvent`."""


def silent(event: Event) -> bool:
    """Return whether an action that *event* starts reports no memory events."""
    return isinstance(event, MemoryEvent) and not isinstance(event, RunBeginEvent)


# --- listeners ----------------------------------------------------------------------------------


Listener: TypeAlias = Callable[[Any], object]


class EventListeners:
    """The listeners of this process. They are called with events after their commits.

    Attributes:
        kinds: The kinds of events that have a listener.

    Args:
        known: The kinds of events that listeners may choose; by default memory events.
    """

    def __init__(self, known: Collection[type[Any]] = MEMORY_EVENTS) -> None:
        self.kinds: frozenset[type[Any]] = frozenset()
        self._known, self._lock = known, HandleLock()
        self._all: list[tuple[Listener, frozenset[type[Any]]]] = []

    def subscribe(
        self, listener: Listener, kinds: Iterable[type[Any]] | None = None
    ) -> Callable[[], None]:
        """Register *listener*; return a function that removes it. See `Memory.subscribe`."""
        checked_function(listener, "a listener must be a function of one event")
        chosen = frozenset(self._known if kinds is None else kinds)
        for kind in chosen:
            if kind not in self._known:
                raise InvalidInput(f"kinds must be classes of memory events, not {kind!r}")
        entry = (listener, chosen)
        with self._lock:
            self._set([*self._all, entry])
        return partial(self._remove, entry)

    def _remove(self, entry: tuple[Listener, frozenset[type[Any]]]) -> None:
        with self._lock:
            self._set([each for each in self._all if each is not entry])

    def _set(self, entries: list[tuple[Listener, frozenset[type[Any]]]]) -> None:
        self._all = entries
        self.kinds = frozenset(kind for _, kinds in entries for kind in kinds)

    def tell(self, events: Iterable[Any]) -> None:
        """Call the listeners of each event; a listener that raises is not called again."""
        for event in events:
            for entry in self._all:
                listener, kinds = entry
                if type(event) not in kinds:
                    continue
                try:
                    listener(event)
                except Exception:  # noqa: BLE001 - the user's code: logged, and removed
                    _LOG.exception("a listener raised, and was dropped")
                    self._remove(entry)
