"""The outputs of an agent, as its consumers read them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from datetime import datetime
from functools import lru_cache
from typing import Any, cast

from alveus.errors import InvalidInput
from alveus.errors.short_repr import short_repr
from alveus.runs.run import RunnerSetup
from alveus.store import QueuedInput, StoredOutput
from alveus.store.runs import LARGEST
from alveus.store.scope import Scope
from alveus.values import wire
from alveus.values.events import Event, InputEvent, OutputEvent, plain, restored
from alveus.values.forks import Flag
from alveus.values.lazy import lazy_attribute
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import checked_name, checked_wait, counted, moment


def input_of(setup: RunnerSetup, key: str, value: object, event_id: str | None) -> QueuedInput:
    """Return the input that a value, or an event, makes.

    Raises:
        InvalidName: The key is not a non-empty str.
        InvalidValue: The value cannot be stored.
        InvalidInput: The agent has no action for such an event.
    """
    scope = _scope(setup.space, checked_name(key, "a key"))
    event = value if isinstance(value, Event) else InputEvent(value)
    if not setup.plan.asks_for(type(event)):
        raise InvalidInput(
            f"agent {setup.plan.name!r} has no action for {event.type}; mark one with "
            f"@action({event.type})"
        )
    event = event.checked()
    now = setup.engine.clock()
    if event_id is None:
        return QueuedInput(scope, wire.encode(plain(event)), now)
    named, salt = checked_name(event_id, "an event id"), setup.engine.store.salt()
    return QueuedInput(
        scope,
        wire.encode([event.type_name(), named, None, event.data]),
        now,
        event_id=wire.digest(["event id", scope.space, setup.plan.name, named], salt=salt),
        request=wire.digest([scope.key, event.type_name(), event.data], salt=salt),
        label=named,
    )


_scope = lru_cache(1024)(Scope)
"""The same scope for the same key, which a busy key makes hundreds of at once."""


def checked_stop(stop: object) -> None:
    """Raise unless *stop* is None or an event, of threads or of processes."""
    if stop is not None and not hasattr(stop, "is_set"):
        raise InvalidInput(f"stop must be a threading.Event, not {short_repr(stop)}")


def parts(each: tuple[Any, ...]) -> tuple[str, object, str | None]:
    """Return key, value and event id of what `LocalRunner.map` was given."""
    if not isinstance(each, tuple) or len(each) not in (2, 3):  # pyright: ignore[reportUnnecessaryIsInstance] - user input
        raise InvalidInput(
            f"map takes (key, value) or (key, value, event_id), not {short_repr(each)}"
        )
    return (*each, None) if len(each) == 2 else cast("Any", each)  # noqa: PLR2004 - a pair


POLL_S = 0.05
"""How often is looked for more."""


@dataclass(frozen=True, slots=True)
class Output:
    """An event for the world, as a consumer reads it.

    Attributes:
        position: Rises in the order of commits; the same however often it is read.
        number: The place of the run among those of its agent and key.
    """

    position: int
    run: int
    number: int
    key: str
    event: Event
    time: datetime

    @property
    def value(self) -> Any:  # noqa: ANN401 - what an action put out
        """The value of an `OutputEvent`; of a subclass with other fields, all of them."""
        return getattr(self.event, "output", self.event.data)


class OutputReader:
    """Reads outputs from the store. May be used from any thread."""

    def __init__(self, setup: RunnerSetup, closing: Flag) -> None:
        self._setup, self._closing = setup, closing

    def of(self, run: int) -> list[Event]:
        """Return the outputs of one run, in order."""
        return [output.event for output in self._read(self._setup.engine.store.run_outputs(run))]

    def stream(self, consumer: str | None, after: int, wait_s: float | None) -> Iterator[Output]:
        """Yield outputs in order; see `LocalRunner.outputs`."""
        checked_wait(wait_s)
        counted(after, "after", least=0, most=LARGEST)
        if consumer is not None:
            checked_name(consumer, "a consumer")
            if after:
                raise InvalidInput("a consumer goes on where it was; name it, or say after=")
        return self._stream(consumer, after, wait_s)

    def _stream(self, consumer: str | None, after: int, wait_s: float | None) -> Iterator[Output]:
        name, space, store = self._setup.plan.name, self._setup.space, self._setup.engine.store
        if consumer is not None:
            after = store.consumer_position(name, space, consumer)
        began = time.monotonic()
        while True:
            rows = store.outputs(name, space, after=after)
            for output in self._read(rows):
                yield output
                after, began = output.position, time.monotonic()
                if consumer is not None:
                    store.advance_consumer(name, space, consumer, after)
            over = wait_s is not None and time.monotonic() - began >= wait_s
            if not rows and (over or self._closing.wait(POLL_S)):
                return

    def _read(self, rows: Iterable[StoredOutput]) -> Iterator[Output]:
        for row in rows:
            stored = wire.decode(row.event)
            event = restored(stored, key=row.key, types=self._types, event_id="", time=row.time)
            yield Output(row.position, row.run, row.number, row.key, event, moment(row.time))

    @lazy_attribute
    def _types(self) -> dict[str, type[Event]]:
        """The classes of events that outputs may have, by name."""
        below = {kind.type_name(): kind for kind in _below(OutputEvent)}
        return {**below, **self._setup.plan.types}


def _below(kind: type[Event]) -> Iterator[type[Event]]:
    yield kind
    for inner in kind.__subclasses__():
        yield from _below(inner)
