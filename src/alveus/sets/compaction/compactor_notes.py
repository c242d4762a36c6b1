"""What compactors tell each other, and `alveus doctor`, through notes in the store."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from typing import TypeAlias, cast

from alveus.errors import AlveusError
from alveus.store import Commit, Compact, ItemChange, Store
from alveus.store.checks import ROW_BITS
from alveus.store.scope import SetRef
from alveus.values import wire
from alveus.values.forks import HandleLock
from alveus.values.lazy_dataclass import dataclass

_LOG = logging.getLogger(__name__)

SEEN = "compactor"
"""The note that says when a compactor of its own was last at work."""

FAILED = "compaction failures"
"""The note that says which sets could not be compacted, by their numbers in the store."""

ABSENT_US = 600 * 1_000_000
"""A compactor that was not heard of for so long is not there."""

BEAT_US = 60 * 1_000_000
"""How often a compactor at work says so."""

MOST_FAILED = 100
"""Sets that are named; of more, the first ones."""

OVERFLOW = 1.5
"""Times its capacity at which a set that nobody compacts is spoken of."""

ATTEMPTS = 10


def beat(store: Store, now: int) -> None:
    """Say that a compactor is at work; durable, so not more often than `BEAT_US`."""
    before = store.note(SEEN)
    if before is None or not 0 <= now - int(before) < BEAT_US:
        store.put_note(SEEN, str(now), expected=before)


def is_seen(store: Store, now: int) -> bool:
    """Return whether a compactor was at work lately."""
    last = store.note(SEEN)
    return last is not None and abs(now - int(last)) < ABSENT_US


def failures(store: Store) -> dict[int, tuple[str, int]]:
    """Return the sets that could not be compacted, by number: the kind of error, how often."""
    text = store.note(FAILED)
    found = cast("dict[str, tuple[str, int]]", wire.decode_plain(text or "{}"))
    return {int(number): (kind, tries) for number, (kind, tries) in found.items()}


def put_failure(store: Store, number: int, failure: tuple[str, int] | None) -> None:
    """Note that a set could not be compacted, or could again.

    It is only a note: if it cannot be made, that is logged.
    """
    try:
        _put_failure(store, number, failure)
    except AlveusError as error:
        _LOG.warning("what became of a compaction is not noted: %s", type(error).__name__)


def _put_failure(store: Store, number: int, failure: tuple[str, int] | None) -> None:
    for _ in range(ATTEMPTS):
        before = store.note(FAILED)
        found = cast("dict[str, tuple[str, int]]", wire.decode_plain(before or "{}"))
        if failure is None:
            if found.pop(str(number), None) is None:
                return
        elif str(number) in found or len(found) < MOST_FAILED:
            found[str(number)] = failure
        text = json.dumps(found) if found else None
        if store.put_note(FAILED, text, expected=before):
            return


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


class CompactionListeners:
    """Those who are told, in this process, after each commit that compacted."""

    def __init__(self) -> None:
        self._lock, self._listeners = HandleLock(), list[Listener]()

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
            commit.number << ROW_BITS | position,
            change.set,
            tuple(item_id for item_id, _ in change.retired),
            tuple(add.record.id for add in change.added),
        )
        for position, change in enumerate(i for i in items if isinstance(i, Compact))
    ]
