"""A copy of a key's exact memory in Flink's keyed state, which saves reads of the store.

The store has the exact memory of every key, and commits each change with its action. Keyed state
has a copy for the keys of this part of the job, with the number of the last commit that the copy
includes. A copy that is out of date is dropped and read from the store again. So a copy may be
lost, restored from an old checkpoint, or evicted at any time.

A copy consists of records. A record is a JSON text under a name. A map of keyed state cannot be
read by ranges of names, so the record of an object lists the chunks with the names of its fields:

===========  ============================================================================
``""``       ``[format, store, commit, nodes]``; nodes is -1 if the tree is not copied
``o[path]``  an object: ``[expires, chunks]``, where *chunks* are numbers, in order
``n[path]i`` chunk *i* of the object: at most 256 names of fields, in order of creation
``v[path]``  a value: ``[expires, value]``
===========  ============================================================================
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any, TypeAlias, cast

from alveus.state.committed_tree import LeasedTree
from alveus.state.tree_values import IGNORE_EXPIRY
from alveus.store import Clear, Create, Delete, Ledger, Node, Put, Refresh, Scope, TreeDelta
from alveus.store.scope import NameRange
from alveus.values import wire
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import Path, Value

FORMAT = 1

CHUNK_NAMES = 256

MOST_NODES = 4_096
"""The largest tree, in nodes, that is copied."""

MOST_BYTES = 1 << 20

META = ""

NOT_COPIED = -1

Changes: TypeAlias = dict[str, "str | None"]
"""The texts of records that were written, by name; None means a removed record."""


class HotRecords:
    """The records of one key, in RAM, and their changes since the last write to keyed state.

    The run of the key changes records while Flink's thread writes earlier changes to keyed state.
    So keyed state may have half of a commit. A partial copy is never valid, because the record
    `META` is written last and removed first.
    """

    __slots__ = ("_changes", "_lock", "_records", "nbytes")

    def __init__(self, records: Iterable[tuple[str, str]] = ()) -> None:
        self._records = dict(records)
        self._changes: Changes = {}
        self._lock = threading.Lock()
        self.nbytes = sum(len(name) + len(text) for name, text in self._records.items())

    def get(self, name: str) -> Any:  # noqa: ANN401 - any value
        """Return the content of the record with this name, or None if no such record exists."""
        text = self._records.get(name)
        return None if text is None else wire.decode(text)

    def put(self, name: str, content: Value) -> None:
        """Write a record."""
        self._set(name, wire.encode(content))

    def remove(self, name: str) -> None:
        """Remove a record, if it exists."""
        if name in self._records:
            self._set(name, None)

    def _set(self, name: str, text: str | None) -> None:
        with self._lock:
            before = self._records.pop(name, None)
            if before is not None:
                self.nbytes -= len(name) + len(before)
            if text is not None:
                self._records[name] = text
                self.nbytes += len(name) + len(text)
            self._changes.pop(name, None)  # keeps the order of the changes
            self._changes[name] = text

    def clear(self) -> None:
        """Remove all records."""
        for name in (META, *self._records):
            self.remove(name)

    def drain(self) -> Changes:
        """Return the changes since the last call."""
        with self._lock:
            changes, self._changes = self._changes, {}
        return changes


@dataclass(slots=True)
class _Meta:
    store: str
    commit: int
    nodes: int


class HotTree(LeasedTree):
    """The tree of a key under a lease, read from records in RAM.

    If the records are out of date, the first read makes them again from the store. A tree of over
    `MOST_NODES` nodes, or with records of over `MOST_BYTES`, is not copied but read from the store.
    """

    __slots__ = ("_is_hot", "_meta", "_records")

    def __init__(self, ledger: Ledger, scope: Scope, epoch: int, records: HotRecords) -> None:
        super().__init__(ledger, scope, epoch)
        self._records = records
        self._meta = _Meta("", 0, 0)
        self._is_hot: bool | None = None

    # --- reading ------------------------------------------------------------------------------

    def node(self, path: Path, now: int) -> Node | None:
        """Return the node at *path*; see `ExactTree`."""
        if not self._hot():
            return super().node(path, now)
        for length in range(len(path)):
            above = self._object(path[:length])
            if above is None or _expired(above[0], now):
                return None
        node = self._node(path)
        return None if node is None or _expired(node.expires, now) else node

    def children(self, path: Path, now: int) -> list[tuple[str, Node]]:
        """Return the fields of the object at *path*; see `ExactTree`."""
        if not self._hot():
            return super().children(path, now)
        node = self.node(path, now)
        if node is None or not node.is_object:
            return []
        found = [(name, self._node((*path, name))) for name in self._names(path)]
        return [(n, below) for n, below in found if below and not _expired(below.expires, now)]

    def field_names(self, path: Path, now: int) -> list[tuple[str, int | None]]:
        """Return the names and expiries of the fields of an object; see `ExactTree`."""
        if not self._hot():
            return super().field_names(path, now)
        return [(name, node.expires) for name, node in self.children(path, now)]

    def names_in_range(self, path: Path, chosen: NameRange, now: int) -> list[str]:
        """Return the names of an object's fields in the range *chosen*; see `ExactTree`."""
        if not self._hot():
            return super().names_in_range(path, chosen, now)
        return chosen.choose(name for name, _ in self.children(path, now))

    def _node(self, path: Path) -> Node | None:
        at = wire.encode([*path])
        value = self._records.get(f"v{at}")
        if value is not None:
            return Node(is_object=False, value=value[1], expires=value[0])
        above = self._object(path)
        return None if above is None else Node(is_object=True, expires=above[0])

    def _object(self, path: Path) -> tuple[int | None, list[int]] | None:
        """Return the expiry and the chunk numbers of the object at *path*.

        Return None if no object exists there; the root always exists.
        """
        content = self._records.get(f"o{wire.encode([*path])}")
        if content is None and not path:
            return None, []
        return cast("tuple[int | None, list[int]] | None", content)

    def _names(self, path: Path) -> list[str]:
        above, at = self._object(path), wire.encode([*path])
        chunks = [] if above is None else above[1]
        return [name for chunk in chunks for name in self._records.get(f"n{at}{chunk}")]

    # --- copying the store ---------------------------------------------------------------------

    def _hot(self) -> bool:
        if self._is_hot is None:
            self._is_hot = self._is_current() or self._copy()
        return self._is_hot

    def _is_current(self) -> bool:
        """Return whether the records include the last commit that changed the tree."""
        content = self._records.get(META)
        if content is None or content[0] != FORMAT:
            return False
        self._meta = _Meta(*content[1:])
        same = self._meta.store == self._store() and self._meta.commit == self.head()
        return same and self._meta.nodes != NOT_COPIED

    def _store(self) -> str:
        return self.ledger.salt().hex()

    def _copy(self) -> bool:
        """Make the records from the store. Return False, and copy nothing, for a large tree."""
        was_large = self._meta.nodes == NOT_COPIED and self._meta.store == self._store()
        self._records.clear()
        self._meta = _Meta(self._store(), self.head(), 0)
        if was_large and self._meta.commit:
            return self._leave_out()
        paths: list[Path] = [()] if self._meta.commit else []
        for path in paths:  # grows while it is walked
            below = self.ledger.children(self.scope, path, at=None, now=IGNORE_EXPIRY)
            for name, node in below:
                self._add((*path, name), node)
                if node.is_object:
                    paths.append((*path, name))
            if self._is_large():
                return self._leave_out()
        self._write_meta()
        return True

    def _is_large(self) -> bool:
        return self._meta.nodes > MOST_NODES or self._records.nbytes > MOST_BYTES

    def _leave_out(self) -> bool:
        self._records.clear()
        self._meta.nodes = NOT_COPIED
        self._write_meta()
        return False

    def _write_meta(self) -> None:
        meta = self._meta
        self._records.put(META, [FORMAT, meta.store, meta.commit, meta.nodes])

    # --- changing -----------------------------------------------------------------------------

    def apply(self, deltas: Iterable[TreeDelta], number: int) -> None:
        """Apply the changes of commit *number* to the tree."""
        changes = list(deltas)
        hot = self._hot()
        super().apply(changes, number)
        self._meta.commit = number
        if not hot:
            if any(isinstance(delta, Clear) and not delta.path for delta in changes):
                self._is_hot, self._meta.nodes = None, 0  # a small tree: the next read copies it
                self._records.clear()
            else:
                self._write_meta()
            return
        for delta in changes:
            self._apply(delta)
        if self._is_large():
            self._is_hot = self._leave_out()
        else:
            self._write_meta()

    def _apply(self, delta: TreeDelta) -> None:
        match delta:
            case Put(path, value, expires):
                self._add(path, Node(is_object=False, value=value, expires=expires))
            case Create(path, expires):
                self._add(path, Node(is_object=True, expires=expires))
            case Delete(path):
                self._delete(path)
            case Clear(path):
                for name in self._names(path):
                    self._delete((*path, name))
            case Refresh(path, expires):
                self._refresh(path, expires)

    def _add(self, path: Path, node: Node) -> None:
        """Add a node at *path*, or replace the value there; an existing object stays."""
        at, above = wire.encode([*path]), self._object(path)
        if above is None and self._records.get(f"v{at}") is None:
            self._append_name(path[:-1], path[-1])
            self._meta.nodes += 1
        if not node.is_object:
            self._records.put(f"v{at}", [node.expires, node.value])
        elif above is None:
            self._records.remove(f"v{at}")
            self._records.put(f"o{at}", [node.expires, []])

    def _append_name(self, path: Path, name: str) -> None:
        above, at = self._object(path), wire.encode([*path])
        expires, chunks = (None, []) if above is None else above
        last: list[str] = self._records.get(f"n{at}{chunks[-1]}") if chunks else []
        if not chunks or len(last) >= CHUNK_NAMES:
            last, chunks = [], [*chunks, chunks[-1] + 1 if chunks else 0]
            self._records.put(f"o{at}", [expires, [*chunks]])
        self._records.put(f"n{at}{chunks[-1]}", [*last, name])

    def _delete(self, path: Path) -> None:
        if self._node(path) is None:
            return
        self._remove_name(path[:-1], path[-1])
        paths = [path]
        for gone in paths:  # grows while it is walked
            at, above = wire.encode([*gone]), self._object(gone)
            paths += [(*gone, name) for name in self._names(gone)]
            self._records.remove(f"v{at}")
            self._records.remove(f"o{at}")
            for chunk in [] if above is None else above[1]:
                self._records.remove(f"n{at}{chunk}")
        self._meta.nodes -= len(paths)

    def _remove_name(self, path: Path, name: str) -> None:
        """Remove a name from its chunk, and remove the chunk if it is then empty."""
        above, at = self._object(path), wire.encode([*path])
        expires, chunks = (None, []) if above is None else above
        for chunk in chunks:
            names: list[str] = self._records.get(f"n{at}{chunk}")
            if name in names:
                left: list[Value] = [n for n in names if n != name]
                if left:
                    self._records.put(f"n{at}{chunk}", left)
                else:
                    self._records.remove(f"n{at}{chunk}")
                    self._records.put(f"o{at}", [expires, [c for c in chunks if c != chunk]])
                return

    def _refresh(self, path: Path, expires: int | None) -> None:
        at, above = wire.encode([*path]), self._object(path)
        value = self._records.get(f"v{at}")
        if value is not None:
            self._records.put(f"v{at}", [expires, value[1]])
        elif above is not None and path:
            self._records.put(f"o{at}", [expires, [*above[1]]])


def _expired(expires: int | None, now: int) -> bool:
    return expires is not None and expires <= now
