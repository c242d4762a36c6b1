"""All sets of a store, and how the item changes of a batch reach them."""

from __future__ import annotations

from dataclasses import replace

from fornix.errors import (
    DuplicateItem,
    KeyFull,
    SetDefinitionConflict,
    SetFull,
    StaleItem,
)
from fornix.store import (
    Add,
    Batch,
    Define,
    Definition,
    ItemChange,
    Replace,
    Retire,
    Scope,
    SetInfo,
    SetRef,
)
from fornix.stores.ram.rows import SetRows, Work


class Sets:
    """Sets by scope and name, and by number."""

    def __init__(self) -> None:
        self._by_scope: dict[Scope, dict[str, SetRows]] = {}
        self._by_number: dict[int, SetRows] = {}
        self._made = 0

    def of(self, scope: Scope) -> list[SetRows]:
        """Return the sets of *scope*, by name."""
        return [found for _, found in sorted(self._by_scope.get(scope, {}).items())]

    def named(self, ref: SetRef) -> SetRows | None:
        """Return a set, or None while there is none."""
        return self._by_scope.get(ref.scope, {}).get(ref.name)

    def numbered(self, number: int) -> SetRows | None:
        """Return the set that a Finder knows by *number*, or None."""
        return self._by_number.get(number)

    def every(self) -> list[SetRows]:
        """Return all sets of the store."""
        return list(self._by_number.values())

    def apply(self, batch: Batch, work: Work) -> None:
        """Apply the definitions and item changes of *batch* in order, then hold what limits them.

        Raises:
            StaleItem: An item to replace or retire has another live version, or none.
            DuplicateItem: An id to add is live.
            SetDefinitionConflict: A set to define exists with another definition.
            SetFull: A set with compaction "reject" that the batch adds to exceeds its capacity.
            KeyFull: The key, if the batch adds to it, exceeds its limits.
        """
        for define in batch.define:
            self._define(define, work)
        for change in batch.items:
            self._change(change, work)
        for home in work.grown.values():
            _hold_capacity(home, work)
        self._hold_limits(batch, work)

    def _define(self, define: Define, work: Work) -> None:
        found = self.named(define.set)
        if found is None:
            self._make(define.set, define.definition, work)
        elif define.replace:
            before = found.definition
            work.undo.append(lambda: setattr(found, "definition", before))
            found.definition = _copied(define.definition)
        elif found.definition != define.definition:
            asked, kept = define.definition, found.definition
            raise SetDefinitionConflict(define.set.name, asked=asked, found=kept)

    def _make(self, ref: SetRef, definition: Definition, work: Work) -> SetRows:
        self._made += 1
        made = SetRows(self._made, ref, _copied(definition))
        sets = self._by_scope.setdefault(ref.scope, {})
        sets[ref.name] = self._by_number[made.number] = made
        work.undo.append(lambda: (sets.pop(ref.name), self._by_number.pop(made.number)))
        return made

    def _change(self, change: ItemChange, work: Work) -> None:
        item_id = change.id if isinstance(change, Retire) else change.record.id
        home = self.named(change.set)
        last = None if home is None else home.last(item_id)
        live = last is not None and last.ended is None
        if isinstance(change, Add):
            if live:
                raise DuplicateItem(item_id, set_name=change.set.name)
            home = home or self._make(change.set, Definition(), work)
            work.grown[change.set] = home
            version = 1 if last is None else last.version + 1
            work.begin(home, change.record, None, version=version)
            return
        if last is None or not live or last.version != change.version:
            found = last.version if last is not None and live else None
            raise StaleItem(item_id, expected=change.version, found=found)
        work.end(last)
        if isinstance(change, Replace):
            work.begin(last.home, change.record, last, version=last.version + 1)

    def _hold_limits(self, batch: Batch, work: Work) -> None:
        limits, key = batch.limits, batch.scope.key
        if limits is None or key is None or all(ref.scope.key is None for ref in work.grown):
            return
        sets = self._by_scope[batch.scope].values()
        if limits.items is not None and sum(len(s.live) for s in sets) > limits.items:
            raise KeyFull(key, what="items", limit=limits.items)
        if limits.bytes is not None and sum(s.bytes for s in sets) > limits.bytes:
            raise KeyFull(key, what="bytes", limit=limits.bytes)


def _hold_capacity(home: SetRows, work: Work) -> None:
    capacity = home.definition.capacity
    if capacity is None or len(home.live) <= capacity:
        return
    if home.definition.compaction == "reject":
        raise SetFull(home.ref.name, capacity=capacity)
    if home.definition.compaction == "trim":
        for _, first in home.order[: len(home.live) - capacity]:
            work.end(home.live[first])


def _copied(definition: Definition) -> Definition:
    signals = definition.signals
    return replace(definition, signals=None if signals is None else dict(signals))


def info_of(found: SetRows) -> SetInfo:
    """Return what there is to say of a set."""
    definition = _copied(found.definition)
    return SetInfo(found.number, found.ref, definition, len(found.live), found.bytes)
