"""The part of a window that reads what it holds."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import TypeVar, overload

from fornix.agents.storage import LayerStorage
from fornix.agents.windows.context_memory import ContextMemory
from fornix.agents.windows.observation import Observation
from fornix.agents.windows.observation_cache import Mirror
from fornix.agents.windows.observation_items import ObservationHeader, messages_of, observation_of
from fornix.agents.windows.window_contents import WindowIndex, by_arrival, by_time
from fornix.errors import SetMoved
from fornix.sets.batch import AFTER_ALL, Draft
from fornix.sets.writer import Writer
from fornix.store import StoredItem
from fornix.text.budget import Budget
from fornix.text.messages import Message

R = TypeVar("R")

SAID, LONGEST = 1_024, 16_384
"""Observations of which a window has at hand what was said, and characters up to which."""

LOOKED_AT = 256
"""Observations, the newest, that a scorer may compare a new one with."""

LAST = (1 << 63) - 1
"""The row of an observation that is being committed: past all others."""

ATTEMPTS = 100
"""How often a window is looked at again in which rows went while it was read."""


class WindowReads(ContextMemory):
    """A window as it can be read.

    Args:
        budget: The window's own, by which sizes are remembered.
        by_age: Whether observations stand in the order in which they were made, or arrived.
    """

    def __init__(self, place: LayerStorage, name: str, budget: Budget, *, by_age: bool) -> None:
        self._place, self._name, self._budget = place, name, budget
        self._order = by_time if by_age else by_arrival
        self._opening = threading.Lock()
        self._opened: Mirror | None = None
        self._said: dict[int, tuple[Message, Message]] = {}

    def __len__(self) -> int:
        """Return how many observations it holds."""
        with self._mirror.seen(self._place.writer()) as held:
            return len(held)

    @property
    def name(self) -> str:
        """The name of the set that holds its observations."""
        return self._name

    def close(self) -> None:
        """Free the RAM, if that is where it is; a memory that was given stays open."""
        self._place.close()

    def observations(self) -> list[Observation]:
        """Return copies of all that it holds, in its order; nothing counts as accessed."""
        writer = self._place.writer()
        stored = self._looked(writer, lambda held: self._stored(writer, held))
        return [observation_of(one) for one in stored]

    @property
    def _mirror(self) -> Mirror:
        with self._opening:
            if self._opened is None:
                store = self._place.engine.store
                self._opened = Mirror(store, self._place.ref(self._name), self._order)
            return self._opened

    def _looked(self, writer: Writer, work: Callable[[WindowIndex], R]) -> R:
        """Return what *work* makes of what the window holds; it is locked meanwhile."""
        for _ in range(ATTEMPTS):
            with self._mirror.seen(writer) as held:
                try:
                    return work(held)
                except SetMoved:
                    continue
        raise SetMoved(self._name)

    def _newest(self, writer: Writer) -> list[Observation]:
        def newest(held: WindowIndex) -> list[StoredItem]:
            return self._stored(writer, list(islice(reversed(held), LOOKED_AT))[::-1])

        return [observation_of(stored) for stored in self._looked(writer, newest)]

    def _stored(self, writer: Writer, entries: Iterable[ObservationHeader]) -> list[StoredItem]:
        """Return the items of observations, as the window holds them, in the order asked.

        Raises:
            SetMoved: One of them is gone for good, or, in a batch, was let go by others.
        """
        wanted = [entry for entry in entries if entry.row != LAST]
        if isinstance(writer, Draft):
            ref = self._place.ref(self._name)
            found = Draft.get(writer, ref, [entry.id for entry in wanted], at=None)
            there = [stored for stored in found if stored is not None]
        else:
            there = self._place.engine.store.stored([entry.row for entry in wanted])
        if len(there) < len(wanted):
            raise SetMoved(self._name)
        return there

    def _messages(
        self, writer: Writer, entries: Sequence[ObservationHeader]
    ) -> list[tuple[Message, Message]]:
        """Return what was asked and answered in each; the window is locked."""
        said = {e.row: self._said[e.row] for e in entries if e.row in self._said}
        missing = [entry for entry in entries if entry.row not in said]
        for entry, stored in zip(missing, self._stored(writer, missing), strict=True):
            said[entry.row] = both = messages_of(stored)
            # What a batch gathered has the row of another observation in the next batch.
            if entry.row < AFTER_ALL and sum(len(one.content) for one in both) <= LONGEST:
                self._said[entry.row] = both
        while len(self._said) > SAID:
            del self._said[next(iter(self._said))]
        return [said[entry.row] for entry in entries]

    def _size(self, writer: Writer, entry: ObservationHeader, budget: Budget) -> int:
        """Return how many tokens an observation has; the window is locked."""
        sizes = self._mirror.sizes if budget.counts_as(self._budget) else {}
        size = sizes.get(entry.row)
        if size is None:
            size = budget.size(self._messages(writer, [entry])[0])
            if entry.row < AFTER_ALL:
                sizes[entry.row] = size
        return size

    def _note_shown(self, writer: Writer, shown: Sequence[ObservationHeader]) -> None:
        """Note that observations were shown, and, in an action, that it read them."""
        if isinstance(writer, Draft):
            writer.get(self._place.ref(self._name), [entry.id for entry in shown], at=None)
        self._place.engine.recall.touch([e.first for e in shown if e.first < AFTER_ALL])


class Newest(Sequence[Observation]):
    """The newest observations of a window, oldest first; read if a scorer looks at them."""

    def __init__(self, read: Callable[[], Sequence[Observation]]) -> None:
        self._read = read
        self._found: Sequence[Observation] | None = None

    def _all(self) -> Sequence[Observation]:
        if self._found is None:
            self._found = self._read()
        return self._found

    def __len__(self) -> int:
        return len(self._all())

    @overload
    def __getitem__(self, at: int) -> Observation: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Observation]: ...
    def __getitem__(self, at: int | slice) -> Observation | Sequence[Observation]:
        return self._all()[at]
