"""Who is told of compactions."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from fornix.scope import SetRef
from fornix.store import Commit, Compact, ItemChange

_LOG = logging.getLogger(__name__)

PLACE_BITS = 20
"""A compaction's id is its commit's number, shifted by so many bits, and its place in that."""


@dataclass(frozen=True, slots=True)
class Compacted:
    """A compaction that was just committed.

    Attributes:
        id: What `MemorySet.undo` takes.
        retired: Ids of the items that went.
        added: Ids of those that stand for some of them.
    """

    id: int
    set: SetRef
    retired: tuple[str, ...]
    added: tuple[str, ...]


Listener: TypeAlias = Callable[[Compacted], object]


class Listeners:
    """Those who are told, in this process, after each commit that compacted."""

    def __init__(self) -> None:
        self._lock, self._listeners = threading.Lock(), list[Listener]()

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Have *listener* called from now on; return what ends that."""
        with self._lock:
            self._listeners = [*self._listeners, listener]

        def end() -> None:
            with self._lock:
                self._listeners = [other for other in self._listeners if other is not listener]

        return end

    def tell(self, items: Sequence[ItemChange], commit: Commit) -> None:
        """Tell of the compactions that a commit made; who raises is dropped."""
        if not self._listeners:
            return
        for done in compactions_of(items, commit):
            for listener in self._listeners:
                try:
                    listener(done)
                except Exception:  # noqa: BLE001 - the edge to a user's function: logged, dropped
                    _LOG.exception("a listener of compactions raised, and is dropped")
                    with self._lock:
                        self._listeners = [x for x in self._listeners if x is not listener]


def compactions_of(items: Sequence[ItemChange], commit: Commit) -> list[Compacted]:
    """Return the compactions among the changes of a commit."""
    return [
        Compacted(
            (commit.number << PLACE_BITS) + place,
            change.set,
            tuple(item_id for item_id, _ in change.retired),
            tuple(add.record.id for add in change.added),
        )
        for place, change in enumerate(i for i in items if isinstance(i, Compact))
    ]
