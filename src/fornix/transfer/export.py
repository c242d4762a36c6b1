"""Export: a memory as JSON lines, from one unmoving state."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from fornix.memory.memory import Memory
from fornix.store import Node, Scope, SetInfo, SetRef, Store, StoredItem
from fornix.store.items import Item, text_of
from fornix.store.records import item_of
from fornix.store.scope import is_hidden
from fornix.values import wire
from fornix.values.storable import Path, Value, checked_name, moment
from fornix.values.times import stamp

FORMAT = 1
"""The version of the format that `export_lines` writes."""

PAGE = 256

LAST = (1 << 62) - 1
"""A time past every commit, in microseconds."""

LABELS = ("speaker", "role", "session")
TIMES = ("until", "expire_at", "valid_from", "valid_to")
"""Times of an item that most have not."""


@dataclass(frozen=True, slots=True)
class Selection:
    """What to export: of these keys (None: all of the space), these sets (None: all).

    Attributes:
        knowledge: Whether to export the knowledge too.
        trees: Whether to export exact memory.
    """

    keys: Sequence[str] | None = None
    sets: Sequence[str] | None = None
    knowledge: bool = True
    trees: bool = True


def scope_of(memory: Memory, key: str | None) -> Scope:
    """Return the scope of a key, or that of the memory's knowledge for None."""
    return Scope(memory.knowledge.name, None) if key is None else Scope(memory.space, key)


def export_lines(memory: Memory, selection: Selection = Selection()) -> Iterator[str]:
    """Yield the lines of an export, without line ends: one unmoving state of the memory.

    The same memory gives the same lines, byte for byte, also after a trip through an import.
    """
    store = memory.store
    at, now = store.commit_at(LAST), memory.engine.clock()
    view = _View(at, now, _wants(memory, selection))
    yield wire.encode({"type": "fornix", "format": FORMAT})
    for key in memory.keys() if selection.keys is None else selection.keys:
        scope = Scope(memory.space, checked_name(key, "a key"))
        yield from _set_lines(store, scope, selection, view)
        if selection.trees:
            for path, node in walk_tree(store, scope, at=at, now=now):
                yield wire.encode(node_fields(key, path, node))
    if selection.knowledge:
        knowledge = Scope(memory.knowledge.name, None)
        yield from _set_lines(store, knowledge, selection, view)


def exported_items(memory: Memory, selection: Selection) -> int:
    """Return how many items `export_lines` writes at most: those that expired stay out of it."""
    keys = memory.keys() if selection.keys is None else selection.keys
    scopes = [Scope(memory.space, key) for key in keys]
    if selection.knowledge:
        scopes.append(Scope(memory.knowledge.name, None))
    return sum(info.items for scope in scopes for info in _infos(memory.store, scope, selection))


def walk_tree(
    store: Store, scope: Scope, *, at: int | None, now: int, start: Path = ()
) -> Iterator[tuple[Path, Node]]:
    """Yield every node below *start*: an object before its fields, those as they were made."""
    for name, node in store.children(scope, start, at=at, now=now):
        path = (*start, name)
        yield path, node
        if node.is_object:
            yield from walk_tree(store, scope, at=at, now=now, start=path)


def _infos(store: Store, scope: Scope, selection: Selection) -> list[SetInfo]:
    wanted = selection.sets
    there = [info for info in store.set_infos(scope) if not is_hidden(info.ref)]
    return [info for info in there if wanted is None or info.ref.name in wanted]


@dataclass(frozen=True, slots=True)
class _View:
    """The state that is exported, and what of it.

    Attributes:
        at: The commit after which it is read.
        now: What has expired by then is not in it, in microseconds.
        wants: Whether a set is.
    """

    at: int
    now: int
    wants: Callable[[SetRef], bool]

    def shows(self, item: StoredItem) -> bool:
        """Return whether a live item has not expired."""
        return item.record.expires is None or item.record.expires > self.now


def _wants(memory: Memory, selection: Selection) -> Callable[[SetRef], bool]:
    """Return what tells whether a set is exported."""
    keys, sets = selection.keys, selection.sets

    def wants(ref: SetRef) -> bool:
        space, key = ref.scope
        if is_hidden(ref) or (sets is not None and ref.name not in sets):
            return False
        if key is None:
            return selection.knowledge and space == memory.knowledge.name
        return space == memory.space and (keys is None or key in keys)

    return wants


def _set_lines(store: Store, scope: Scope, selection: Selection, view: _View) -> Iterator[str]:
    for info in _infos(store, scope, selection):
        yield wire.encode(set_fields(info))
        for page in _pages(store, info.ref, at=view.at):
            there = [stored for stored in page if view.shows(stored)]
            sources = _sources(store, there, view)
            for stored in there:
                fields = item_fields(item_of(stored), key=scope.key)
                linked = sources.get(stored.row, [])
                if linked or stored.record.sources:
                    fields["linked"] = linked
                yield wire.encode(fields)


def _sources(store: Store, page: Sequence[StoredItem], view: _View) -> dict[int, list[Value]]:
    """Return which live items, of sets that are exported, versions were derived from, by row."""
    pairs = store.links([item.row for item in page])
    stored = {version.row: version for version in store.stored(sorted({s for _, s in pairs}))}
    there = {row for row, v in stored.items() if view.wants(v.set) and _lives(store, v, view)}
    found: dict[int, list[Value]] = {}
    for row, source in pairs:
        if source in there:
            ref = stored[source].set
            place: Value = [ref.scope.key, ref.name, stored[source].record.id]
            places = found.setdefault(row, [])
            places.extend([] if place in places else [place])
    return {row: sorted(places, key=wire.encode) for row, places in found.items()}


def _lives(store: Store, version: StoredItem, view: _View) -> bool:
    """Return whether the item of a version is exported, in whatever version."""
    (live,) = store.get(version.set, [version.record.id], at=view.at)
    return live is not None and live.first == version.first and view.shows(live)


def set_items(store: Store, ref: SetRef, *, at: int) -> Iterator[StoredItem]:
    """Yield the items of a set in order, as after commit *at*."""
    for page in _pages(store, ref, at=at):
        yield from page


def _pages(store: Store, ref: SetRef, *, at: int) -> Iterator[list[StoredItem]]:
    after: tuple[int, int] | None = None
    while page := store.page(ref, after=after, limit=PAGE, at=at):
        yield page
        time = page[-1].record.time
        after = (page[-1].updated if time is None else time, page[-1].first)


def set_fields(info: SetInfo) -> dict[str, Value]:
    """Return a set and its definition as an export writes them."""
    fields: dict[str, Value] = {"type": "set", "key": info.ref.scope.key, "set": info.ref.name}
    return fields | info.definition.to_json()


def item_fields(item: Item, *, key: str | None) -> dict[str, Value]:
    """Return an item as an export writes it: what is as always, or follows, is left out."""
    fields: dict[str, Value] = {"type": "item", "key": key, "set": item.set_name, "id": item.id}
    if item.time is not None:
        fields["time"] = stamp(item.time)
    fields |= {n: getattr(item, n) for n in LABELS if getattr(item, n) is not None}
    fields["value"] = item.value
    if item.text != text_of(item.value):
        fields["text"] = item.text
    others: dict[str, Value] = {
        "metadata": dict(item.metadata),
        "importance": item.importance,
        "sources": list(item.sources),
        "compacted": item.compacted,
    }
    fields |= {name: value for name, value in others.items() if value}
    return fields | {n: stamp(getattr(item, n)) for n in TIMES if getattr(item, n) is not None}


def node_fields(key: str, path: Path, node: Node) -> dict[str, Value]:
    """Return a node of exact memory as an export writes it."""
    kind = "object" if node.is_object else "value"
    fields: dict[str, Value] = {"type": kind, "key": key, "path": list(path)}
    if not node.is_object:
        fields["value"] = node.value
    if node.expires is not None:
        fields["expires"] = stamp(moment(node.expires))
    return fields
