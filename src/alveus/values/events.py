"""Events: what comes in, what actions send to each other, what goes out.

An event is a frozen dataclass of storable values. `id`, `key` and `time` are given to it by the
runner when it is sent; a class may not name fields of its own so.
"""

from __future__ import annotations

from dataclasses import field, fields
from datetime import datetime
from typing import Any, ClassVar, Self, cast, dataclass_transform

from alveus.errors import AgentChanged, InvalidInput, Unusable
from alveus.values import wire
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import ATOMS, Value, checked, moment

RESERVED = ("id", "key", "time", "type", "data")


_SURE = frozenset({type(None), bool, int, bytes})
"""Types of values that can be stored as they are, whichever value it is."""


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class Event:
    """Something that happened, which sets off the actions that ask for its class.

    A subclass is a frozen dataclass without being told::

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
            InvalidInput: A field is named like what the runner gives to an event.
        """
        super().__init_subclass__(**options)
        dataclass(frozen=True)(cls)
        cls.field_names = tuple(f.name for f in fields(cast("Any", cls)))
        taken = [name for name in cls.field_names if name in RESERVED or hasattr(Event, name)]
        if taken:
            raise InvalidInput(
                f"event {cls.__name__} names a field {taken[0]!r}, which every event has itself; "
                f"choose another name, such as {cls.__name__.lower()}_{taken[0]}"
            )

    @classmethod
    def type_name(cls) -> str:
        """Return the name that stands for this class in the store: that of the class."""
        return cls.__name__

    @property
    def type(self) -> str:
        """The name of its class."""
        return self.type_name()

    @property
    def data(self) -> dict[str, Value]:
        """Its fields, by name."""
        return {name: getattr(self, name) for name in self.field_names}

    @property
    def id(self) -> str:
        """Its id: the one its sender gave it, or one made by the runner."""
        return self._sent()[0]

    @property
    def key(self) -> str:
        """The key that it belongs to."""
        return self._sent()[1]

    @property
    def time(self) -> datetime:
        """When it was sent, in UTC."""
        return moment(self._sent()[2])

    def _sent(self) -> tuple[str, str, int]:
        if self._stamp is None:
            raise Unusable(f"this {self.type} has no id, key and time before it is sent")
        return self._stamp

    def checked(self) -> Self:
        """Return it with a copy of its data that shares nothing that could change.

        Raises:
            InvalidValue: A field cannot be stored; the message names it.
        """
        own, made = self.__dict__, object.__new__(type(self))
        copy = made.__dict__
        for name in self.field_names:
            value = own[name]
            sure = type(value) in _SURE
            copy[name] = value if sure else checked(value, where=f"{self.type}.{name}")
        return made

    def stamped(self, event_id: str, key: str, time: int) -> Self:
        """Return a copy that says its id, its key, and its time in microseconds."""
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__, _stamp=(event_id, key, time))
        return made

    def sent(self, event_id: str, key: str, time: int) -> Self:
        """Return what `checked` and then `stamped` do."""
        made = self.checked()
        made.__dict__["_stamp"] = (event_id, key, time)
        return made

    def shared(self) -> bool:
        """Whether nothing in it could be changed, so that a copy is not needed."""
        own = self.__dict__
        for name in self.field_names:  # noqa: SIM110 - `all` takes twice as long
            if type(own[name]) not in ATOMS:
                return False
        return True

    def copied(self) -> Self:
        """Return it with a copy of its data, so that nobody sees what another one changes."""
        made = self.checked()
        made.__dict__["_stamp"] = self._stamp
        return made


class InputEvent(Event):
    """What came from outside.

    Attributes:
        input: The value that was submitted.
    """

    input: Any

    @property
    def value(self) -> Any:
        """The value that was submitted."""
        return self.input


class OutputEvent(Event):
    """What goes to the world: an output of the run.

    Attributes:
        output: Its value.
    """

    output: Any

    @property
    def value(self) -> Any:
        """Its value."""
        return self.output


# --- in the store -------------------------------------------------------------------------------


def written(event: Event) -> str:
    """Return an event, whose data was checked, in wire form; its key is not part of that."""
    return wire.encode(plain(event))


def plain(event: Event) -> Value:
    """Return an event, whose data was checked, as ``[type, id, time, data]``."""
    stamp = cast("Any", event)._stamp  # noqa: SLF001 - None before it is sent
    event_id, _, time = (None, None, None) if stamp is None else stamp
    own = event.__dict__
    return [event.type_name(), event_id, time, {name: own[name] for name in event.field_names}]


def restored(stored: Value, *, key: str, types: dict[str, type[Event]], **given: Any) -> Event:
    """Return the event that `plain` wrote, with a copy of its data.

    Args:
        given: The id and time of one that was stored before it had any.

    Raises:
        AgentChanged: No class of that name is known, or it has other fields now.
    """
    name, event_id, time, data = cast(
        "tuple[str, str | None, int | None, dict[str, Value]]", stored
    )
    kind = types.get(name)
    if kind is None:
        raise AgentChanged(
            f"an event of type {name!r} is not known to the agent any more; bring back an action "
            "that asks for it and retry the run, or discard it"
        )
    if tuple(data) == kind.field_names or data.keys() == set(kind.field_names):
        made = object.__new__(kind)
        made.__dict__.update(data)
    else:
        made = _grown(kind, data)
    made.__dict__["_stamp"] = (event_id or given["event_id"], key, time or given["time"])
    return made


def _grown(kind: type[Event], data: dict[str, Value]) -> Event:
    """Return an event of a class that has other fields now: new ones have their defaults."""
    try:
        return cast("Any", kind)(**data)
    except TypeError:
        raise AgentChanged(
            f"an event of type {kind.type_name()!r} was stored with the fields {sorted(data)}, and "
            f"its class has {sorted(kind.field_names)} now; give new fields a default, and keep "
            "the old ones until no run needs them"
        ) from None
