"""Export: a memory as JSON lines, from one unmoving state."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from fornix import wire
from fornix.items import Item, text_of
from fornix.memory import Memory
from fornix.records import item_of
from fornix.scope import is_hidden
from fornix.store import Node, Scope, SetInfo, SetRef, Store, StoredItem
from fornix.values import Path, Value, checked_name, microseconds, moment

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


def export_lines(memory: Memory, selection: Selection = Selection()) -> Iterator[str]:
    """Yield the lines of an export, without line ends: one unmoving state of the memory.

    The same memory gives the same lines, byte for byte, also after a trip through an import.
    """
    store = memory.store
    at, now = store.commit_at(LAST), microseconds(datetime.now(UTC))
    yield wire.encode({"type": "fornix", "format": FORMAT})
    for key in memory.keys() if selection.keys is None else selection.keys:
        scope = Scope(memory.space, checked_name(key, "a key"))
        yield from _set_lines(store, scope, selection, at)
        if selection.trees:
            for path, node in walk_tree(store, scope, at=at, now=now):
                yield wire.encode(node_fields(key, path, node))
    if selection.knowledge:
        yield from _set_lines(store, Scope(memory.knowledge.name, None), selection, at)


def exported_items(memory: Memory, selection: Selection) -> int:
    """Return how many items `export_lines` will write, if nobody changes them meanwhile."""
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


def _set_lines(store: Store, scope: Scope, selection: Selection, at: int) -> Iterator[str]:
    for info in _infos(store, scope, selection):
        yield wire.encode(set_fields(info))
        for stored in set_items(store, info.ref, at=at):
            yield wire.encode(item_fields(item_of(stored), key=scope.key))


def set_items(store: Store, ref: SetRef, *, at: int) -> Iterator[StoredItem]:
    """Yield the items of a set in order, as after commit *at*."""
    after: tuple[int, int] | None = None
    while page := store.page(ref, after=after, limit=PAGE, at=at):
        yield from page
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


def stamp(time: datetime) -> str:
    """Return *time* as fornix writes it: ISO 8601, in UTC, to the microsecond where it has one."""
    return time.astimezone(UTC).isoformat().replace("+00:00", "Z")
