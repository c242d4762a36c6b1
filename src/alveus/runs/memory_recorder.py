"""The recorder of an action's reads and writes, from which it makes memory events."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from alveus.errors import InvalidValue
from alveus.state import MemoryKind, MemoryObject
from alveus.state.overlay import TreeRecorder
from alveus.store import Clear, Create, Delete, Put, Scope, SetRef, StoredItem, TreeDelta
from alveus.store.items import Hits
from alveus.store.records import item_of
from alveus.values.events import (
    Detail,
    LongTermGetEvent,
    LongTermSearchEvent,
    LongTermUpdateEvent,
    MemoryEvent,
    SensoryReadEvent,
    SensoryWriteEvent,
    ShortTermReadEvent,
    ShortTermWriteEvent,
    Written,
)
from alveus.values.storable import Path, Value, checked

_LOG = logging.getLogger("alveus.run")


class MemoryRecorder:
    """Records the reads and writes of one action, and makes memory events of them.

    Args:
        details: The classes of the wanted events, with the detail of each.
        scope: The memory of the key: changes and reads of other memories are ignored.
    """

    def __init__(self, details: Mapping[type[MemoryEvent], Detail], scope: Scope) -> None:
        self._details, self._scope = details, scope
        self._trees: dict[MemoryKind, TreeRecorder] = {}
        self._updated: dict[str, dict[str, Value]] = {}
        self._deleted: dict[str, dict[str, None]] = {}
        self._cleared: dict[str, None] = {}
        self._got: dict[str, dict[str, Value]] = {}
        self._search_hits: dict[str, dict[str, Value]] = {}

    def tree(self, kind: MemoryKind) -> TreeRecorder:
        """Return the recorder of the exact memory of this kind."""
        reads = SensoryReadEvent if kind is MemoryKind.SENSORY else ShortTermReadEvent
        return self._trees.setdefault(kind, TreeRecorder(reads=reads in self._details))

    # --- items ---

    def emptied(self, ref: SetRef) -> None:
        """Record that all items of a set were deleted."""
        if ref.scope == self._scope and LongTermUpdateEvent in self._details:
            self._updated.pop(ref.name, None)
            self._deleted.pop(ref.name, None)
            self._cleared[ref.name] = None

    def changed(self, ref: SetRef, item_id: str, stored: StoredItem | None) -> None:
        """Record the new state *stored* of an item; None means a deleted item."""
        if ref.scope == self._scope and LongTermUpdateEvent in self._details:
            value = None if stored is None else item_of(stored).value
            self._updated.setdefault(ref.name, {})[item_id] = value
            self._deleted.setdefault(ref.name, {}).pop(item_id, None)
            if stored is None:
                self._deleted[ref.name][item_id] = None

    def got(self, ref: SetRef, stored: Sequence[StoredItem]) -> None:
        """Record items that were read."""
        if ref.scope == self._scope and stored and LongTermGetEvent in self._details:
            self._got.setdefault(ref.name, {}).update(
                {each.record.id: item_of(each).value for each in stored}
            )

    def searched(self, refs: Sequence[SetRef], query: str, hits: Hits) -> None:
        """Record a query and its hits."""
        detail = self._details.get(LongTermSearchEvent)
        if detail is None or not query:
            return
        for ref in refs:
            if ref.scope == self._scope:
                of_set = (hit for hit in hits if hit.item.set_name == ref.name)
                answer: list[Value] = [
                    {
                        "id": hit.item.id,
                        "value": hit.item.value if detail == "values" else None,
                        "score": float(hit.score),
                    }
                    for hit in of_set
                ]
                self._search_hits.setdefault(ref.name, {})[query] = answer

    # --- the events ---

    def events(
        self, sensory: Sequence[TreeDelta], short: Sequence[TreeDelta]
    ) -> Iterator[MemoryEvent]:
        """Yield the memory events of the ended action.

        Args:
            sensory: The changes that the action made to sensory memory.
            short: The changes that the action made to short-term memory.
        """
        details = self._details
        for writes, kind, deltas in (
            (SensoryWriteEvent, MemoryKind.SENSORY, sensory),
            (ShortTermWriteEvent, MemoryKind.SHORT_TERM, short),
        ):
            if writes in details and deltas:
                yield from _written(writes, details[writes], deltas, self._trees[kind].write_order)
        for reads, kind in (
            (SensoryReadEvent, MemoryKind.SENSORY),
            (ShortTermReadEvent, MemoryKind.SHORT_TERM),
        ):
            if reads in details and kind in self._trees:
                seen = self._trees[kind].values_read
                named = ((path_text(path), value) for path, value in seen.items())
                value = _fitting(named, details[reads])
                if value:
                    yield reads(value, details[reads])
        yield from self._of_items()

    def _of_items(self) -> Iterator[MemoryEvent]:
        details = self._details
        if LongTermUpdateEvent in details:
            detail = details[LongTermUpdateEvent]
            value = _sets(self._updated, detail)
            deleted = {name: [*ids] for name, ids in self._deleted.items() if ids}
            if value or self._cleared:
                yield LongTermUpdateEvent(value, detail, [*self._cleared], deleted)
        if LongTermGetEvent in details and (value := _sets(self._got, details[LongTermGetEvent])):
            yield LongTermGetEvent(value, details[LongTermGetEvent])
        if self._search_hits:
            yield LongTermSearchEvent(cast("Any", self._search_hits), details[LongTermSearchEvent])


def _written(
    kind: type[Written], detail: Detail, deltas: Sequence[TreeDelta], first: dict[Path, int]
) -> Iterator[MemoryEvent]:
    """Yield one event of class *kind* for the changes *deltas*; none if there is no write.

    Args:
        first: The rank of the first write of each path, which orders the values.
    """
    put: list[tuple[int, str, Value]] = []
    objects: list[str] = []
    deleted: list[str] = []
    cleared: list[str] = []
    for i, delta in enumerate(deltas):
        match delta:
            case Put():
                put.append((_rank(delta.path, first), path_text(delta.path), delta.value))
            case Create():
                if delta.path in first or not _leads_on(delta.path, deltas[i + 1 : i + 2]):
                    put.append((_rank(delta.path, first), path_text(delta.path), None))
                    objects.append(path_text(delta.path))
            case Delete():
                deleted.append(path_text(delta.path))
            case Clear():
                cleared.append(path_text(delta.path))
            case _:
                continue
    put.sort(key=lambda each: each[0])
    value = _fitting(((path, value) for _, path, value in put), detail)
    if value or deleted or cleared:
        yield kind(value, detail, objects, deleted, cleared)


def _rank(path: Path, first: dict[Path, int]) -> int:
    """Return the smallest rank of a first write, of *path* itself or of an object above it."""
    return min(first.get(path[:length], len(first)) for length in range(len(path) + 1))


def _leads_on(path: Path, following: Sequence[TreeDelta]) -> bool:
    """Return whether the next change is below the object at *path*, and so implies the object."""
    return any(
        isinstance(delta, (Put, Create)) and delta.path[: len(path)] == path for delta in following
    )


def _fitting(pairs: Iterable[tuple[str, Value]], detail: Detail) -> dict[str, Value]:
    """Return the *pairs* as a dict, without values if *detail* is "paths".

    A value that an event cannot carry is left out and logged.
    """
    if detail == "paths":
        return {path: None for path, _ in pairs}
    fit: dict[str, Value] = {}
    for path, value in pairs:
        try:
            fit |= cast("dict[str, Value]", checked({path: value}))
        except InvalidValue:
            fit.pop(path, None)
            _LOG.warning("a value that no event can carry was left out of a memory event")
    return fit


def _sets(noted: dict[str, dict[str, Value]], detail: Detail) -> dict[str, Any]:
    if detail == "values":
        return {name: items for name, items in noted.items() if items}
    return {name: dict.fromkeys(items) for name, items in noted.items() if items}


def path_text(path: Path) -> str:
    """Return the text of a path in memory events: dotted, or a JSON list if a name has a dot."""
    text = ".".join(path)
    if text.count(".") == len(path) - 1 and not text.startswith("["):
        return text
    return json.dumps([*path], ensure_ascii=False)


def snapshot(root: MemoryObject, detail: Detail) -> dict[str, Value]:
    """Return the paths of an exact memory, with their values if *detail* is "values".

    A value that an event cannot carry is left out and logged.
    """
    named = (
        (path_text(tuple(path.split(".")) if isinstance(path, str) else path), value)
        for path, value in root.walk()
    )
    return _fitting(named, detail)
