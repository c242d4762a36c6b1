"""Exact trees as SQL: one row per version of a node, found by its parent's path and its name."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from operator import itemgetter
from typing import TypeAlias

from fornix.errors import NotAnObject, ObjectInTheWay, TooLarge
from fornix.store import Clear, Create, Delete, Node, Put, Refresh, TreeDelta
from fornix.store.packed_values import packed, restored
from fornix.store.sql.batched_inserts import Gathered
from fornix.store.sql.connection import Connection, Row, first, query
from fornix.values import wire
from fornix.values.storable import Path

MOST = 1 << 20
"""Nodes one batch may make: their ids lie between two commit numbers."""

_ESCAPE = re.compile(r"\\(.)", re.DOTALL)

_NAME = re.compile(r"(?:[^\\.]|\\.)+", re.DOTALL)

FEW = 4
"""Nodes of one object fewer than these are looked up one by one."""

_LATEST = """
    SELECT id, place, value IS NULL, begun FROM node
    WHERE scope = ? AND parent IS ? AND name IS ? AND ended IS NULL
"""

_LATEST_OF = """
    SELECT name, id, place, value IS NULL, begun FROM node
    WHERE scope = ? AND parent IS ? AND ended IS NULL
        AND name IN (SELECT value FROM carray(?) AS names)
"""

_BELOW = """
    WITH RECURSIVE below (id, begun, place, path, value) AS (
        SELECT id, begun, place,
            CASE WHEN parent = '' THEN name ELSE parent || '.' || name END, value
        FROM node WHERE scope = ?1 AND parent IS ?2 AND ended IS NULL
        UNION ALL
        SELECT node.id, node.begun, node.place, below.path || '.' || node.name, node.value
        FROM below JOIN node
        ON node.scope = ?1 AND node.parent IS below.path AND node.ended IS NULL
        WHERE below.value IS NULL
    )
    SELECT id, begun, place FROM below
"""


@functools.lru_cache(maxsize=16_384)
def escaped(name: str) -> str:
    """Return a name as it stands in a path: dots and backslashes escaped."""
    return name.replace("\\", "\\\\").replace(".", "\\.")


def unescaped(name: str) -> str:
    """Return the name that `escaped` made *name* from."""
    return _ESCAPE.sub(r"\1", name) if "\\" in name else name


def joined(path: Path) -> str:
    """Return the text of a path; ``""`` is the root."""
    return ".".join(map(escaped, path))


def split(text: str) -> Path:
    """Return the path that `joined` made *text* from."""
    return tuple(map(unescaped, _NAME.findall(text)))


_Live: TypeAlias = tuple[int, int, int, int]
"""A live version of a node: its row, its place, whether it is an object, when it was begun."""

LiveNodes: TypeAlias = "dict[Path, _Live | None]"
"""Live versions of a tree's nodes by path; None: nothing is there."""


def apply_tree(
    db: Connection,
    gathered: Gathered,
    scope: int,
    deltas: Sequence[TreeDelta],
    *,
    number: int,
    live: LiveNodes,
) -> list[int]:
    """Apply deltas in order, but for what is gathered.

    Args:
        live: What is known of the live nodes, which is kept up to date.

    Returns the ids of the nodes they removed, as they were before.

    Expiry is not looked at: what had expired for whoever made the deltas, they delete; what had
    not may do so before they are committed.

    Raises:
        TreeConflict: A parent is no object, or a value would replace an object.
    """
    if not deltas:
        return []
    if scope in gathered.grown:
        gathered.flush_nodes()
    gathered.grown.add(scope)
    return _Writer(db, gathered, scope, number, live).run(deltas)


class _Writer:
    """Rows are looked up, ended and inserted many at a time."""

    def __init__(
        self,
        db: Connection,
        gathered: Gathered,
        scope: int,
        number: int,
        live: LiveNodes,
    ) -> None:
        self._db, self._gathered, self._scope, self._number = db, gathered, scope, number
        self._next = number << 20
        self._objects: set[Path] = {()}
        self._removed: list[int] = []
        self._replaced: dict[int, int] = {}
        self._known = live

    def run(self, deltas: Sequence[TreeDelta]) -> list[int]:
        if len(deltas) >= FEW:
            self._look_up(deltas)
        for delta in deltas:
            if isinstance(delta, (Put, Create)):
                self._put(delta)
            elif isinstance(delta, Delete):
                self._delete(delta.path)
            elif isinstance(delta, Clear):
                self._clear(delta.path)
            else:
                self._refresh(delta)
        return self._removed

    def _look_up(self, deltas: Sequence[TreeDelta]) -> None:
        """Look up what the deltas reach, a query for each object that many lie in."""
        asked: dict[Path, set[str]] = {}
        for delta in deltas:
            if delta.path:
                asked.setdefault(delta.path[:-1], set()).add(delta.path[-1])
        for above, names in asked.items():
            if len(names) < FEW or "\0" in "".join(names):
                continue  # a carray ends its texts at a NUL
            self._known.update(dict.fromkeys([(*above, name) for name in names]))
            found = query(
                self._db,
                _LATEST_OF,
                self._scope,
                joined(above),
                self._db.texts([*map(escaped, names)]),
            )
            for name, row, place, is_object, begun in found:
                self._known[(*above, unescaped(name))] = (row, place, is_object, begun)

    def _latest(self, path: Path) -> _Live | None:
        if path not in self._known:
            self._known[path] = first(
                self._db, _LATEST, self._scope, joined(path[:-1]), escaped(path[-1])
            )
        return self._known[path]

    def _put(self, delta: Put | Create) -> None:
        path = delta.path
        self._need_object(path[:-1])
        found = self._latest(path)
        place = None
        if found is not None:
            row, place, is_object, begun = found
            if not is_object:
                self._replace(row, begun, place)
            elif isinstance(delta, Put):
                raise ObjectInTheWay(joined(path), "an object is here; delete it first")
            else:
                return
        self._insert(delta, place)

    def _insert(self, delta: Put | Create, place: int | None) -> None:
        row = self._next
        self._next += 1
        if self._next >> 20 != self._number:
            raise TooLarge(f"a batch may change at most {MOST:,} nodes; commit in parts")
        path = delta.path
        value = packed(wire.encode(delta.value)) if isinstance(delta, Put) else None
        place = row if place is None else place
        above, name = joined(path[:-1]), escaped(path[-1])
        self._gathered.nodes.append(
            (row, self._scope, above, name, place, value, delta.expires, self._number)
        )
        self._known[path] = (row, place, value is None, self._number)
        if value is None:
            self._objects.add(path)

    def _flush(self) -> None:
        """Write what was gathered, here and by others before."""
        self._gathered.flush_nodes()
        self._gathered.grown.add(self._scope)

    def _need_object(self, path: Path) -> None:
        if path in self._objects:
            return
        self._need_object(path[:-1])
        found = self._latest(path)
        if found is None or not found[2]:
            what = "nothing" if found is None else "a value"
            raise NotAnObject(joined(path), f"an object was needed, but {what} is here")
        self._objects.add(path)

    def _delete(self, path: Path) -> None:
        found = self._latest(path)
        if found is None:
            return
        row, place, is_object, begun = found
        if is_object:
            self._clear(path)
            self._objects.discard(path)
        self._remove(row, begun, place)
        self._known[path] = None

    def _clear(self, path: Path) -> None:
        self._flush()
        below = query(self._db, _BELOW, self._scope, joined(path))
        self._objects = {p for p in self._objects if p[: len(path)] != path or p == path}
        for known in [p for p in self._known if p[: len(path)] == path and p != path]:
            del self._known[known]
        for row, begun, place in below:
            self._remove(row, begun, place)
        self._flush()

    def _replace(self, row: int, begun: int, place: int) -> None:
        """End a version whose place the next one takes."""
        if begun == self._number:  # made by this very commit: it never existed
            self._flush()
            self._db.execute("DELETE FROM node WHERE id = ?", (row,))
        else:
            self._gathered.ends.append((self._number, row))
            self._replaced[place] = row

    def _remove(self, row: int, begun: int, place: int) -> None:
        """End a node; of what this very commit replaced, the version before it is the one."""
        if begun != self._number:
            self._gathered.ends.append((self._number, row))
            self._removed.append(row)
            return
        self._flush()
        self._db.execute("DELETE FROM node WHERE id = ?", (row,))
        if place in self._replaced:
            self._removed.append(self._replaced.pop(place))

    def _refresh(self, delta: Refresh) -> None:
        found = self._latest(delta.path)
        if found is not None:
            self._flush()
            self._db.execute("UPDATE node SET expires = ? WHERE id = ?", (delta.expires, found[0]))


def read_node(db: Connection, scope: int, path: Path, *, at: int | None, now: int) -> Node | None:
    """Return the node at *path* after commit *at*.

    Its ancestors are not looked at: they are there as long as it is, and expire no earlier.
    """
    parent, name = joined(path[:-1]), escaped(path[-1])
    row = first(
        db,
        "SELECT value, expires, begun FROM node "
        "WHERE scope = ? AND parent IS ? AND name IS ? AND ended IS NULL",
        scope,
        parent,
        name,
    )
    if at is not None and (row is None or row[2] > at):
        row = first(
            db,
            "SELECT value, expires FROM node "
            "WHERE scope = ? AND parent IS ? AND ended > ? AND begun <= ? AND name IS ?",
            scope,
            parent,
            at,
            at,
            name,
        )
    if row is None or (row[1] is not None and row[1] <= now):
        return None
    return node_of(row[0], row[1])


def fields_of(db: Connection, value: str, scope: int, parent: str, at: int | None) -> list[Row]:
    """Return place, name, expiry and *value*, a column, of the fields of an object, in order."""
    columns = f"SELECT place, name, expires, {value} FROM node WHERE scope = ? AND parent IS ?"  # noqa: S608 - ours
    if at is None:
        rows = query(db, f"{columns} AND ended IS NULL", scope, parent)
    else:
        rows = query(db, f"{columns} AND ended IS NULL AND begun <= ?", scope, parent, at)
        rows += query(db, f"{columns} AND ended > ? AND begun <= ?", scope, parent, at, at)
    rows.sort(key=itemgetter(0))
    return rows


def node_of(value: str | bytes | None, expires: int | None) -> Node:
    """Return the node that a row holds."""
    if value is None:
        return Node(is_object=True, expires=expires)
    return Node(is_object=False, value=wire.decode(restored(value)), expires=expires)
