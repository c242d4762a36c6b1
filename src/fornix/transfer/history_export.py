"""Export of history: what each commit changed, so that another store can do it again.

Numbers of commits differ from store to store; in the lines they count from 1, and a version or a
compaction is named by its commit and its place in it.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import lru_cache

from fornix.errors import Conflict
from fornix.memory.memory import Memory
from fornix.store import Compaction, Effects, Node, Scope, SetRef, StoredItem
from fornix.store.checks import GONE, ROW_BITS
from fornix.store.records import item_of
from fornix.transfer.export import (
    FORMAT,
    LAST,
    Selection,
    item_fields,
    node_fields,
    set_fields,
    set_items,
)
from fornix.values import wire
from fornix.values.storable import Path, Value, moment
from fornix.values.times import stamp

MEANWHILE = "something was erased or purged while the history was exported; export it again"

EVER = -(1 << 61)
"""A time at which nothing has expired, not even a node that stands for another."""


def history_lines(memory: Memory, selection: Selection | None = None) -> Iterator[str]:
    """Yield the lines of an export of history, without line ends: one unmoving state.

    Commits that neither belong to the selection nor reach its sets are left out. What was erased
    or purged is not there; what stands in its place is named where the order of others needs it.

    Raises:
        Conflict: Something was erased or purged meanwhile.
    """
    yield from _History(memory, selection or Selection()).lines()


class _History:
    """One export: it looks at every commit twice, first for what later ones refer to."""

    def __init__(self, memory: Memory, selection: Selection) -> None:
        self._memory, self._selection, self._store = memory, selection, memory.store
        self._at = self._store.commit_at(LAST)
        self._numbers = array("q")
        self._kept = self._whole_from()
        self._sets: dict[SetRef, None] = {}
        self._stood: set[tuple[Scope, Path]] = set()
        self._gone: dict[int, list[tuple[int, Scope, Path]]] = {}
        self._paths = lru_cache(maxsize=64)(self._paths_of)

    def lines(self) -> Iterator[str]:
        yield wire.encode({"type": "fornix", "format": FORMAT, "history": True})
        self._look()
        defined, floors = dict(self._definitions()), self._floors()
        for ordinal, number in enumerate(self._numbers, start=1):
            found = self._effects(number)
            if found is None:
                continue
            scope = found.scope if self._wants(found.scope) else self._knowledge
            places = (self._knowledge, scope)
            for fields in (f for place in places for f in defined.pop(place, ())):
                yield wire.encode(fields)
            time = stamp(moment(found.commit.time))
            yield wire.encode({"type": "commit", "commit": ordinal, "time": time, "key": scope.key})
            floored = [fields for place in places for fields in floors.pop(place, ())]
            for fields in (*floored, *self._parts(found)):
                yield wire.encode(fields)
        for fields in self._reads():
            yield wire.encode(fields)
        if self._whole_from() != self._kept:
            raise Conflict(MEANWHILE)
        yield wire.encode({"type": "end", "commits": len(self._numbers)})

    # --- what is wanted

    @property
    def _knowledge(self) -> Scope:
        return Scope(self._memory.knowledge.name, None)

    def _wants(self, scope: Scope) -> bool:
        if scope.key is None:
            return self._selection.knowledge and scope == self._knowledge
        keys = self._selection.keys
        return scope.space == self._memory.space and (keys is None or scope.key in keys)

    def _wants_set(self, ref: SetRef) -> bool:
        wanted = self._selection.sets
        return self._wants(ref.scope) and (wanted is None or ref.name in wanted)

    def _wants_tree(self, scope: Scope) -> bool:
        return self._selection.trees and scope.key is not None and self._wants(scope)

    # --- the first look

    def _look(self) -> None:
        wanted: set[int] = set()
        for number in range(1, self._at + 1):
            found = self._effects(number)
            if found is None:
                continue
            reached = self._reached(found)
            self._sets.update(dict.fromkeys(reached))
            if reached or self._wants(found.scope):
                wanted.add(number)
            wanted.update(i.first >> ROW_BITS for i in found.begun if self._wants_set(i.set))
            if self._wants_tree(found.scope):
                self._look_for_gone(found)
        for floor, _ in self._kept.values():
            wanted.update([floor] if floor else [])
        self._numbers.extend(sorted(wanted.union(self._gone)))

    def _effects(self, number: int) -> Effects | None:
        return self._store.effects(number)

    def _reached(self, found: Effects) -> list[SetRef]:
        undone = [self._store.compaction(done) for done in found.undone]
        changes = [*found.begun, *found.ended, *found.compactions, *filter(None, undone)]
        return [change.set for change in changes if self._wants_set(change.set)]

    def _look_for_gone(self, found: Effects) -> None:
        """Note nodes that are no longer kept, where they made a place or replaced what is kept."""
        for (path, node), place, end in zip(found.put, found.places, found.ends, strict=True):
            made = place >> ROW_BITS
            if node.expires == GONE:
                continue  # what is kept tells where one is needed, here as in the first store
            if made != found.commit.number and path not in self._paths(made):
                self._note_gone(made, place, found.scope, path)
            if end is not None and path not in self._paths(end):
                self._note_gone(end, place, found.scope, path)

    def _note_gone(self, number: int, place: int, scope: Scope, path: Path) -> None:
        gone = self._gone.setdefault(number, [])
        self._stood.add((scope, path))
        if number <= self._at and (place, scope, path) not in gone:
            gone.append((place, scope, path))

    def _paths_of(self, number: int) -> frozenset[Path]:
        """Return which nodes a commit put or removed, of those that are kept."""
        found = self._effects(number)
        if found is None:
            return frozenset()
        put = (path for path, node in found.put if node.expires != GONE)
        return frozenset([*found.removed, *put])

    def _whole_from(self) -> dict[Scope | SetRef, tuple[int, int]]:
        """Return from which commit and time on the past is whole, where it is not from the first.

        Of all trees and sets that are wanted; of sets the time does not matter.
        """
        found: dict[Scope | SetRef, tuple[int, int]] = {}
        for scope in self._scopes():
            if self._wants_tree(scope):
                found[scope] = self._store.floor(scope)
            for info in self._store.set_infos(scope):
                if self._wants_set(info.ref):
                    found[info.ref] = info.floor, 0
        return {whose: floor for whose, floor in found.items() if floor != (0, 0)}

    def _floors(self) -> dict[Scope, list[dict[str, Value]]]:
        """Return the lines that tell it, by scope."""
        found: dict[Scope, list[dict[str, Value]]] = {}
        for whose, (floor, since) in self._kept.items():
            scope = whose.scope if isinstance(whose, SetRef) else whose
            fields: dict[str, Value] = {"type": "floor", "key": scope.key}
            if isinstance(whose, SetRef):
                fields["set"] = whose.name
            if floor:
                fields["commit"] = self._name(floor << ROW_BITS)[0]
            if since:
                fields["time"] = stamp(moment(since))
            found.setdefault(scope, []).append(fields)
        return found

    def _scopes(self) -> list[Scope]:
        keys = self._memory.keys() if self._selection.keys is None else self._selection.keys
        return [*(Scope(self._memory.space, key) for key in keys), self._knowledge]

    def _definitions(self) -> Iterator[tuple[Scope, list[dict[str, Value]]]]:
        """Yield the definitions of all sets, hidden ones and empty ones too, by scope."""
        listed = [i.ref for scope in self._scopes() for i in self._store.set_infos(scope)]
        refs = {ref for ref in [*listed, *self._sets] if self._wants_set(ref)}
        found: dict[Scope, list[dict[str, Value]]] = {}
        for ref in sorted(refs, key=lambda ref: (ref.scope.key or "", ref.name)):
            info = self._store.set_info(ref)
            if info is not None:
                found.setdefault(ref.scope, []).append(set_fields(info))
        yield from found.items()

    # --- the lines of a commit

    def _name(self, row: int) -> list[Value]:
        """Return how the lines name a row: by its commit and its place in it."""
        number = row >> ROW_BITS
        place = bisect_left(self._numbers, number)
        if place == len(self._numbers) or self._numbers[place] != number:
            raise Conflict(MEANWHILE)
        return [place + 1, row & ((1 << ROW_BITS) - 1)]

    def _parts(self, found: Effects) -> Iterator[dict[str, Value]]:
        if self._wants_tree(found.scope):
            yield from self._tree(found)
        begun = [item for item in found.begun if self._wants_set(item.set)]
        links = self._links([item.row for item in begun])
        for item in begun:
            yield self._item(item, found.commit.time, links.get(item.row, []))
        for item in sorted(found.ended, key=lambda item: item.row):
            if self._wants_set(item.set):
                yield {"type": "ended", **_owner(item.set), "row": self._name(item.row)}
        yield from self._late_links(found.commit.number, [item.row for item in begun])
        for done in found.compactions:
            if self._wants_set(done.set):
                yield self._compaction(done)
        for number in found.undone:
            done = self._store.compaction(number)
            if done is not None and self._wants_set(done.set):
                yield {"type": "undone", **_owner(done.set), "compaction": self._name(number)}

    def _tree(self, found: Effects) -> Iterator[dict[str, Value]]:
        key, number = found.scope.key or "", found.commit.number
        puts = [
            (place, path, node)
            for place, (path, node) in zip(found.places, found.put, strict=True)
            if node.expires != GONE
            and (len(path) == 1 or self._store.node(found.scope, path[:-1], at=number, now=EVER))
        ]
        stand_in = Node(is_object=False, expires=GONE)
        puts += [
            (place, path, stand_in)
            for place, scope, path in self._gone.get(number, [])
            if scope == found.scope
        ]
        removed = set(found.removed)
        removed.update(  # what stands there may be there for something that is no longer kept
            path
            for place, path, _ in puts
            if place >> ROW_BITS == number and (found.scope, path) in self._stood
        )
        for path in sorted(removed):
            yield {"type": "removed", "key": key, "path": list(path)}
        for _, path, node in sorted(puts, key=lambda put: put[0]):
            if node.expires == GONE:
                yield {"type": "gone", "key": key, "path": list(path)}
            else:
                yield node_fields(key, path, node)

    def _links(self, rows: Sequence[int]) -> dict[int, list[int]]:
        """Return which rows, of a selected set, versions were derived from."""
        pairs = self._store.links(rows) if rows else []
        stored = self._store.stored(sorted({source for _, source in pairs}))
        known = {item.row for item in stored if self._wants_set(item.set)}
        found: dict[int, list[int]] = {}
        for row, source in pairs:
            if source in known:
                found.setdefault(row, []).append(source)
        return found

    def _late_links(self, number: int, rows: Sequence[int]) -> Iterator[dict[str, Value]]:
        """Yield links to what a commit began of versions that were there before it."""
        pairs = [(r, s) for r, s in self._store.derived(rows) if r >> ROW_BITS < number]
        stored = {i.row: i for i in self._store.stored(sorted({row for row, _ in pairs}))}
        for row, source in sorted(pairs):
            if row in stored and self._wants_set(stored[row].set):
                owner = _owner(stored[row].set)
                names: dict[str, Value] = {"row": self._name(row), "source": self._name(source)}
                yield {"type": "link", **owner, **names}

    def _item(self, item: StoredItem, time: int, links: Sequence[int]) -> dict[str, Value]:
        fields = item_fields(item_of(item), key=item.set.scope.key)
        fields["place"] = item.row & ((1 << ROW_BITS) - 1)
        if item.version != 1:
            fields["version"] = item.version
        if item.first != item.row:
            fields["first"] = self._name(item.first)
        for name, at in (("created", item.created), ("updated", item.updated)):
            if at != time:
                fields[name] = stamp(moment(at))
        earlier = [row for row in links if row >> ROW_BITS <= item.begun]
        if earlier:
            fields["links"] = [self._name(row) for row in earlier]
        return fields

    def _compaction(self, done: Compaction) -> dict[str, Value]:
        fields: dict[str, Value] = {
            "type": "compaction",
            **_owner(done.set),
            "place": done.id & ((1 << ROW_BITS) - 1),
            "how": done.how,
            "retired": [self._name(row) for row in done.retired],
            "added": [self._name(row) for row in done.added],
        }
        if done.erased:
            fields["erased"] = done.erased
        return fields | ({"purged": True} if done.purged else {})

    def _reads(self) -> Iterator[dict[str, Value]]:
        """Yield when live items were last read."""
        for ref in sorted(self._sets, key=lambda ref: (ref.scope.key or "", ref.name)):
            for item in set_items(self._store, ref, at=self._at):
                if item.accessed is not None:
                    time = stamp(moment(item.accessed))
                    first = self._name(item.first)
                    yield {"type": "accessed", **_owner(ref), "row": first, "time": time}


def _owner(ref: SetRef) -> dict[str, Value]:
    return {"key": ref.scope.key, "set": ref.name}
