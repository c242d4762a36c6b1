"""What changed in the memory of a key between two moments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Literal, TypeAlias, cast

from alveus.errors import InvalidInput
from alveus.errors.short_repr import short_repr
from alveus.state import DottedPath
from alveus.store import Node, Scope, SetInfo, Store, StoredItem
from alveus.store.items import Item
from alveus.store.records import item_of
from alveus.store.scope import is_hidden
from alveus.store.times import FOREVER, AsOf, Moment, check_set, check_tree, expired, moment_of
from alveus.values import wire
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import Path, Value, checked_name, moment

Kind: TypeAlias = Literal["added", "removed", "changed"]

PAGE = 1_000


@dataclass(frozen=True, slots=True)
class ChangedValue:
    """A place in the exact tree at which something else stood.

    Attributes:
        before: The value that was there, an empty dict for an empty object; None where nothing was.
        after: The same of the later moment.
    """

    kind: Kind
    path: DottedPath
    before: Value
    after: Value


@dataclass(frozen=True, slots=True)
class ChangedItem:
    """An item that came, went, or became another version that says something else."""

    kind: Kind
    set_name: str
    id: str
    before: Item | None
    after: Item | None


@dataclass(frozen=True, slots=True)
class Difference:
    """What changed in the memory of a key between two moments; false if nothing did.

    Attributes:
        since: The last commit by the earlier moment, and `until` that of the later one.
        tree: Changes of the exact tree, by path.
        items: Changes of the sets, by name of the set and id.
    """

    key: str
    since: int
    until: int
    since_time: datetime | None
    until_time: datetime | None
    tree: tuple[ChangedValue, ...]
    items: tuple[ChangedItem, ...]

    def __bool__(self) -> bool:
        """Return whether anything changed."""
        return bool(self.tree or self.items)


def difference(  # noqa: PLR0913 - between what, and of what, by name
    store: Store,
    scope: Scope,
    a: AsOf,
    b: AsOf | None,
    *,
    sets: Sequence[str] | None,
    tree: bool,
    now: int,
) -> Difference:
    """Return what changed in *scope* from *a* to *b*, or to now.

    Args:
        sets: Names of the sets to look at; None: all.
        tree: Whether to look at the exact tree.

    Raises:
        HistoryPruned: One of the moments is no longer kept.
    """
    since = moment_of(store, a, now=now, what="a")
    present = Moment(store.commit_at(FOREVER), now)
    until = present if b is None else moment_of(store, b, now=now, what="b")
    return Difference(
        key=scope.key or "",
        since=since.commit,
        until=until.commit,
        since_time=moment(since.time) if since.time else None,
        until_time=moment(until.time) if until.time else None,
        tree=tuple(_tree(store, scope, since, until)) if tree else (),
        items=tuple(_items(store, _chosen(store, scope, sets), since, until)),
    )


def set_names(sets: object) -> list[str]:
    """Return the names of sets, checked."""
    if not isinstance(sets, (list, tuple)):
        raise InvalidInput(f"sets must be a list of names, not {short_repr(sets)}")
    return [checked_name(name, "a set's name") for name in cast("Sequence[object]", sets)]


def _chosen(store: Store, scope: Scope, sets: Sequence[str] | None) -> list[SetInfo]:
    infos = store.set_infos(scope)
    if sets is None:
        return [info for info in infos if not is_hidden(info.ref)]
    names = set_names(sets)
    return [info for info in infos if info.ref.name in names]


# --- the exact tree


def _tree(store: Store, scope: Scope, a: Moment, b: Moment) -> Iterator[ChangedValue]:
    for each in (a, b):
        check_tree(store, scope, each)
    before, after = _values(store, scope, a), _values(store, scope, b)
    for path in sorted(before.keys() | after.keys()):
        was, found = before.get(path), after.get(path)
        if path not in before:
            yield ChangedValue("added", _spelled(path), None, found)
        elif path not in after:
            yield ChangedValue("removed", _spelled(path), was, None)
        elif wire.encode(was) != wire.encode(found):  # NaN is itself, and 1 is not 1.0
            yield ChangedValue("changed", _spelled(path), was, found)


def _values(store: Store, scope: Scope, at: Moment) -> dict[Path, Value]:
    """Return the values of a tree by path, an empty object as an empty dict."""
    found: dict[Path, Value] = {}
    stack: list[Path] = [()]
    while stack:
        path = stack.pop()
        fields = store.children(scope, path, at=at.commit, now=at.time)
        if not fields and path:
            found[path] = {}
        for name, node in fields:
            _sort(found, stack, (*path, name), node)
    return found


def _sort(found: dict[Path, Value], stack: list[Path], path: Path, node: Node) -> None:
    if node.is_object:
        stack.append(path)
    else:
        found[path] = node.value


def _spelled(path: Path) -> DottedPath:
    return path if any("." in name for name in path) else ".".join(path)


# --- sets


def _items(store: Store, infos: Sequence[SetInfo], a: Moment, b: Moment) -> Iterator[ChangedItem]:
    for info in infos:
        for each in (a, b):
            check_set(store, info.ref, each)
        before, after = _live(store, info, a), _live(store, info, b)
        for item_id in sorted(before.keys() | after.keys()):
            was, found = before.get(item_id), after.get(item_id)
            if was is not None and found is not None and _says_the_same(was, found):
                continue
            kind: Kind = "added" if was is None else "removed" if found is None else "changed"
            yield ChangedItem(kind, info.ref.name, item_id, _item(was), _item(found))


def _live(store: Store, info: SetInfo, at: Moment) -> dict[str, StoredItem]:
    """Return the items of a set that were there, by id."""
    found: dict[str, StoredItem] = {}
    after: tuple[int, int] | None = None
    while page := store.page(info.ref, after=after, limit=PAGE, at=at.commit):
        found.update((s.record.id, s) for s in page if not expired(s.record, at.time))
        last = page[-1]
        after = (last.updated if last.record.time is None else last.record.time, last.first)
    return found


def _says_the_same(was: StoredItem, found: StoredItem) -> bool:
    if was.row == found.row:
        return True
    return was.first == found.first and was.record == found.record


def _item(stored: StoredItem | None) -> Item | None:
    return None if stored is None else item_of(stored)
