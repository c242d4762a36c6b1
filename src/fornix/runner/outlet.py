"""The outputs of an agent, as its consumers read them."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from fornix import wire
from fornix.errors import InvalidInput
from fornix.events import Event, OutputEvent, restored
from fornix.progress import LARGEST
from fornix.run import Shop
from fornix.runner.intake import checked_wait
from fornix.store import Output as StoredOutput
from fornix.values import checked_name, counted, moment

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


class Outlet:
    """Reads outputs from the store. May be used from any thread."""

    def __init__(self, shop: Shop, closing: threading.Event) -> None:
        self._shop, self._closing = shop, closing

    def of(self, run: int) -> list[Event]:
        """Return the outputs of one run, in order."""
        return [output.event for output in self._read(self._shop.engine.store.outputs_of(run))]

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
        name, space, store = self._shop.plan.name, self._shop.space, self._shop.engine.store
        if consumer is not None:
            after = store.consumer(name, space, consumer)
        began = time.monotonic()
        while True:
            rows = store.outputs(name, space, after=after)
            for output in self._read(rows):
                yield output
                after, began = output.position, time.monotonic()
                if consumer is not None:
                    store.advance(name, space, consumer, after)
            over = wait_s is not None and time.monotonic() - began >= wait_s
            if not rows and (over or self._closing.wait(POLL_S)):
                return

    def _read(self, rows: Iterable[StoredOutput]) -> Iterator[Output]:
        for row in rows:
            stored = wire.decode(row.event)
            event = restored(stored, key=row.key, types=self._types, event_id="", time=row.time)
            yield Output(row.position, row.run, row.number, row.key, event, moment(row.time))

    @cached_property
    def _types(self) -> dict[str, type[Event]]:
        """The classes of events that outputs may have, by name."""
        below = {kind.type_name(): kind for kind in _below(OutputEvent)}
        return {**below, **self._shop.plan.types}


def _below(kind: type[Event]) -> Iterator[type[Event]]:
    yield kind
    for inner in kind.__subclasses__():
        yield from _below(inner)
