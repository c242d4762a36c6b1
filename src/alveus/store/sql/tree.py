"""Exact trees as SQL: a row per version of a node, and a cache of recent values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from operator import itemgetter

from alveus.errors import NotAnObject, ObjectInTheWay, TooLarge
from alveus.store import Clear, Create, Delete, Node, Put, Scope, TreeDelta
from alveus.store.ledger import SMALL_BYTES
from alveus.store.packed_values import (
    MIN_PACKED_BYTES,
    Packed,
    bytes_alone,
    packed,
    packed_bytes,
    restored,
)
from alveus.store.runs import LARGEST
from alveus.store.scope import NameRange, end_of_prefix, escaped
from alveus.store.sql.connection import Connection, Query, Row, first, query
from alveus.store.sql.writer import END_NODE, INSERT_NODE, LiveNode, LiveNodes, PendingRows
from alveus.values import wire
from alveus.values.storable import Path, Value

MAX_NODES = 1 << 20
"""The most nodes that one batch may make: 20 bits of an id number the nodes of one commit."""

_ESCAPE = re.compile(r"\\(.)", re.DOTALL)

_NAME = re.compile(r"(?:[^\\.]|\\.)+", re.DOTALL)

GATHERED_BYTES = 8 * 1024 * 1024
"""The most bytes of packed values that are collected before their rows are written."""

FEW = 4
"""The fewest nodes of one object that one query looks up; fewer are looked up one by one."""

MOST_FORESEEN = 100
"""The most nodes that are looked up one by one in advance."""

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
        FROM below CROSS JOIN node
        ON node.scope = ?1 AND node.parent IS below.path AND node.ended IS NULL
        WHERE below.value IS NULL
    )
    SELECT id, begun, place, path FROM below
"""
"""Finds all nodes below an object. The order of the join prevents a scan of the whole tree."""


def unescaped(name: str) -> str:
    """Undo `escaped`: return the name that *name* was made from."""
    return _ESCAPE.sub(r"\1", name) if "\\" in name else name


def joined(path: Path) -> str:
    """Return a path as text; ``""`` is the root."""
    return ".".join(map(escaped, path))


def split(text: str) -> Path:
    """Undo `joined`: return the path that *text* was made from."""
    return tuple(map(unescaped, _NAME.findall(text)))


def apply_tree(
    db: Connection,
    pending_rows: PendingRows,
    scope: int,
    deltas: Sequence[TreeDelta],
    *,
    number: int,
    live: LiveNodes,
) -> list[int]:
    """Apply *deltas* to the tree of *scope*. Return the rows of the nodes that were removed.

    Args:
        live: The cached live nodes of the tree, which this function updates.
    """
    if not deltas:
        return []
    if scope in pending_rows.node_scopes:
        pending_rows.flush_nodes()
    pending_rows.node_scopes.add(scope)
    return TreeWriter(db, pending_rows, scope, number, live).run(deltas)


def lookups(
    db: Connection, scope: int, deltas: Sequence[TreeDelta], live: LiveNodes
) -> list[Query]:
    """Return queries that `apply_tree` is likely to make; it may make others or fewer."""
    together = _looked_up_together(deltas, live)
    paths = {delta.path[:end]: None for delta in deltas for end in range(1, len(delta.path) + 1)}
    one_by_one = [
        path for path in paths if path not in live and path[-1] not in together.get(path[:-1], ())
    ]
    return [
        *(_latest_of(db, scope, above, names) for above, names in together.items()),
        *(_latest(scope, path) for path in one_by_one[:MOST_FORESEEN]),
    ]


def _looked_up_together(
    deltas: Sequence[TreeDelta], live: LiveNodes
) -> dict[Path, dict[str, None]]:
    """Return the names of the nodes that are looked up by one query per object.

    The keys are the paths of the objects that contain the nodes.
    """
    if len(deltas) < FEW:
        return {}
    names_by_parent: dict[Path, dict[str, None]] = {}
    for delta in deltas:
        if delta.path and delta.path not in live:
            names_by_parent.setdefault(delta.path[:-1], {})[delta.path[-1]] = None
    return {
        above: names
        for above, names in names_by_parent.items()
        if len(names) >= FEW and "\0" not in "".join(names)  # where a carray ends its texts
    }


def _latest(scope: int, path: Path) -> Query:
    return _LATEST, (scope, joined(path[:-1]), escaped(path[-1]))


def _latest_of(db: Connection, scope: int, above: Path, names: Iterable[str]) -> Query:
    return _LATEST_OF, (scope, joined(above), db.texts([*map(escaped, names)]))


class TreeWriter:
    """Writes the deltas of one batch. Rows are looked up, ended and inserted many at a time."""

    def __init__(
        self, db: Connection, pending_rows: PendingRows, scope: int, number: int, live: LiveNodes
    ) -> None:
        self._db, self._gathered, self._scope, self._number = db, pending_rows, scope, number
        self._next_row = number << 20
        self._made = self._gathered_bytes = 0
        self._above: tuple[Path, str] = (), ""
        self._objects: set[Path] = {()}
        self._removed_rows: list[int] = []
        self._replaced_rows: dict[int, int] = {}
        self._live_nodes = live

    def run(self, deltas: Sequence[TreeDelta]) -> list[int]:
        """Apply *deltas* in order. Return the rows of the nodes that were removed."""
        self._look_up(deltas)
        for delta in deltas:
            if isinstance(delta, (Put, Create)):
                self._put(delta)
            elif isinstance(delta, Delete):
                self._delete(delta.path)
            elif isinstance(delta, Clear):
                self._clear(delta.path)
            elif (node := self._latest(delta.path)) is not None:
                self._flush()
                sql = "UPDATE node SET expires = ? WHERE id = ?"
                self._db.execute(sql, (delta.expires, node[0]))
        return self._removed_rows

    def _look_up(self, deltas: Sequence[TreeDelta]) -> None:
        """Look up the nodes of objects with many changed nodes, with one query for each object."""
        for above, names in _looked_up_together(deltas, self._live_nodes).items():
            self._live_nodes.update(dict.fromkeys([(*above, name) for name in names]))
            nodes = self._db.execute(*_latest_of(self._db, self._scope, above, names))
            for name, row, position, is_object, begin_commit in nodes:
                self._live_nodes[(*above, unescaped(name))] = (
                    row,
                    position,
                    is_object,
                    begin_commit,
                )

    def _latest(self, path: Path) -> LiveNode | None:
        if path not in self._live_nodes:
            self._live_nodes[path] = self._db.execute(*_latest(self._scope, path)).get
        return self._live_nodes[path]

    def _put(self, delta: Put | Create) -> None:
        path = delta.path
        above, name = path[:-1], path[-1]
        if above not in self._objects:
            self._check_object(above)
        node = self._latest(path)
        value = _stored(delta.value) if isinstance(delta, Put) else None
        row = position = self._next_row
        if node is not None:
            before, position, is_object, begin_commit = node
            if not is_object:
                self._replace(before, begin_commit, position)
            elif value is not None:
                raise ObjectInTheWay(joined(path), "an object is here; delete it first")
            else:
                return
        self._made += 1
        if self._made == MAX_NODES:
            raise TooLarge(f"a batch may change at most {MAX_NODES:,} nodes; commit in parts")
        self._next_row = row + 1
        if self._above[0] != above:
            self._above = above, joined(above)
        names = (row, self._scope, self._above[1], escaped(name), position)
        size = 0 if value is None else len(value)
        self._gather((*names, value, delta.expires, self._number), size)
        self._live_nodes[path] = (row, position, value is None, self._number)
        if value is None:
            self._objects.add(path)

    def _gather(self, row: Row, size: int) -> None:
        """Collect a row to insert. Write all collected rows once they exceed `GATHERED_BYTES`."""
        self._gathered.add(INSERT_NODE, row)
        self._gathered_bytes += size
        if self._gathered_bytes > GATHERED_BYTES:
            self._flush()
            self._gathered_bytes = 0

    def _flush(self) -> None:
        """Write all collected nodes, including those of earlier batches."""
        self._gathered.flush_nodes()
        self._gathered.node_scopes.add(self._scope)

    def _check_object(self, path: Path) -> None:
        if path in self._objects:
            return
        self._check_object(path[:-1])
        node = self._latest(path)
        if node is None or not node[2]:
            what = "nothing" if node is None else "a value"
            raise NotAnObject(joined(path), f"an object was needed, but {what} is here")
        self._objects.add(path)

    def _delete(self, path: Path) -> None:
        node = self._latest(path)
        if node is None:
            return
        row, position, is_object, begin_commit = node
        if is_object:
            self._clear(path)
            self._objects.discard(path)
        self._remove(row, begin_commit, position)
        self._live_nodes[path] = None

    def _clear(self, path: Path) -> None:
        self._flush()
        below = query(self._db, _BELOW, self._scope, joined(path))
        for row, begin_commit, position, text in below:
            node_path = split(text)
            self._objects.discard(node_path)
            self._live_nodes.pop(node_path, None)
            self._remove(row, begin_commit, position)
        self._flush()

    def _replace(self, row: int, begin_commit: int, position: int) -> None:
        """End the version *row* of a node that gets a new version.

        The new version keeps *position*, by which the fields of an object are sorted.
        """
        if begin_commit == self._number:  # made by this very commit, so nobody ever saw it
            self._flush()
            self._db.execute("DELETE FROM node WHERE id = ?", (row,))
        else:
            self._gathered.add(END_NODE, (self._number, row))
            self._replaced_rows[position] = row

    def _remove(self, row: int, begin_commit: int, position: int) -> None:
        """End the live version of a node that is removed, and record the removed row.

        A version that this very commit made is deleted. If it replaced a version from before the
        commit, the row of that version is recorded.
        """
        if begin_commit != self._number:
            self._gathered.add(END_NODE, (self._number, row))
            self._removed_rows.append(row)
            return
        self._flush()
        self._db.execute("DELETE FROM node WHERE id = ?", (row,))
        if position in self._replaced_rows:
            self._removed_rows.append(self._replaced_rows.pop(position))


_NODE = """
    SELECT value, expires, begun FROM node
    WHERE scope = ? AND parent IS ? AND name IS ? AND ended IS NULL
"""

_PAST_NODE = """
    SELECT value, expires FROM node
    WHERE scope = ? AND parent IS ? AND ended > ? AND begun <= ? AND name IS ?
"""

_FEW = """
    SELECT name, CASE WHEN octet_length(value) <= ?4 THEN value END, value IS NULL, expires
    FROM node WHERE scope = ?1 AND parent IS ?2
"""

_FEW_LIVE = f"{_FEW} AND ended IS NULL AND begun <= ?3 LIMIT ?5"
_FEW_ENDED = f"{_FEW} AND ended > ?3 AND begun <= ?3 LIMIT ?5"


def read_node(db: Connection, scope: int, path: Path, *, at: int | None, now: int) -> Node | None:
    """Return the node at *path* after commit *at*, or today's node if *at* is None.

    Return None if no node exists, or if it expired by *now*. The ancestors are not read: they exist
    as long as the node does, and expire no earlier.
    """
    parent, name = joined(path[:-1]), escaped(path[-1])
    row = first(db, _NODE, scope, parent, name)
    if at is not None and (row is None or row[2] > at):
        row = first(db, _PAST_NODE, scope, parent, at, at, name)
    if row is None or (row[1] is not None and row[1] <= now):
        return None
    return node_of(row[0], row[1])


def commits_of_node(db: Connection, scope: int, path: Path) -> list[int]:
    """See `Ledger.node_commits`."""
    columns = "SELECT begun, ended FROM node WHERE scope = ?"
    names: tuple[int | str, ...] = (scope,)
    if path:
        columns += " AND parent IS ? AND name IS ?"
        names = (scope, joined(path[:-1]), escaped(path[-1]))
    rows = query(db, f"{columns} AND ended IS NULL", *names)
    rows += query(db, f"{columns} AND ended > 0", *names)
    return sorted({number for row in rows for number in row if number is not None})


def fields_of(db: Connection, value: str, scope: int, parent: str, at: int | None) -> list[Row]:
    """Return position, name, expiry and column *value* of the fields of an object, in order.

    Args:
        parent: The path of the object, as `joined` returns it.
        at: The commit after which the object is read, or None for the last.
    """
    columns = f"SELECT place, name, expires, {value} FROM node WHERE scope = ? AND parent IS ?"  # noqa: S608 - ours
    if at is None:
        rows = query(db, f"{columns} AND ended IS NULL", scope, parent)
    else:
        rows = query(db, f"{columns} AND ended IS NULL AND begun <= ?", scope, parent, at)
        rows += query(db, f"{columns} AND ended > ? AND begun <= ?", scope, parent, at, at)
    rows.sort(key=itemgetter(0))
    return rows


def few_fields_of(
    db: Connection, scope: int, parent: str, *, at: int | None, most: int
) -> dict[str, Node | None] | None:
    """Return the fields of an object by name, or None if there are more than *most*.

    See `Ledger.few_fields`.
    """
    bindings = (scope, parent, LARGEST if at is None else at, SMALL_BYTES, most + 1)
    asked = [_FEW_LIVE] if at is None else [_FEW_LIVE, _FEW_ENDED]
    rows = [row for found in db.query_all(*[(sql, bindings) for sql in asked]) for row in found]
    if len(rows) > most:
        return None
    return {
        unescaped(name): None if value is None and not is_object else node_of(value, expires)
        for name, value, is_object, expires in rows
    }


def names_of(
    db: Connection, scope: int, parent: str, chosen: NameRange, *, at: int | None, now: int
) -> list[str]:
    """Return the *chosen* names of the fields of an object, in the order of the index."""
    where, bindings = key_range(
        "name",
        prefix=escaped(chosen.prefix),
        after=None if chosen.after is None else escaped(chosen.after),
        newest_first=chosen.newest_first,
    )
    where = f"scope = ? AND parent IS ? AND (expires IS NULL OR expires > ?){where}"
    order = "ORDER BY name DESC" if chosen.newest_first else "ORDER BY name"
    limit = "" if chosen.limit is None else " LIMIT ?"
    every = [scope, parent, now, *bindings]
    last = [] if chosen.limit is None else [min(chosen.limit, LARGEST)]
    live = f"SELECT name FROM node WHERE {where} AND ended IS NULL"  # noqa: S608 - ours
    if at is None:
        rows = query(db, f"{live} {order}{limit}", *every, *last)
        return [unescaped(name) for (name,) in rows]
    ended = f"SELECT name FROM node WHERE {where} AND ended > ? AND begun <= ?"  # noqa: S608 - ours
    rows = query(db, f"{live} AND begun <= ? {order}{limit}", *every, at, *last)
    rows += query(db, f"{ended} {order}{limit}", *every, at, at, *last)
    return chosen.choose(unescaped(name) for (name,) in rows)


def key_range(
    column: str, *, prefix: str, after: str | None, newest_first: bool
) -> tuple[str, list[str]]:
    """Return SQL conditions that limit *column* to a range of texts, and their bindings."""
    bounds: list[tuple[str, str]] = []
    if prefix:
        bounds.append((">=", prefix))
        end = end_of_prefix(prefix)
        bounds += [] if end is None else [("<", end)]
    if after is not None:
        bounds.append(("<" if newest_first else ">", after))
    where = "".join(f" AND {column} {compare} ?" for compare, _ in bounds)
    return where, [bound for _, bound in bounds]


def node_of(value: str | bytes | None, expires: int | None) -> Node:
    """Return the node that a row holds."""
    if value is None:
        return Node(is_object=True, expires=expires)
    raw = bytes_alone(value)
    found = wire.decode(restored(value)) if raw is None else raw
    return Node(is_object=False, value=found, expires=expires)


def _stored(value: Value) -> Packed | bytes:
    if type(value) is bytes and len(value) >= MIN_PACKED_BYTES:
        return packed_bytes(value)
    return packed(wire.encode(value))


MAX_TREES = 64
"""The most trees that are cached."""

MAX_KEPT_NODES = 512
"""The most nodes of one tree that are cached."""

MAX_OBJECTS = 16
"""The most results of `Ledger.few_fields` that are cached for one tree, besides its nodes."""


class RecentTree:
    """The cached part of a tree after commit *number*. Threads may share the object and add to it.

    Attributes:
        nodes: Nodes that do not expire, by path; None for a path without a node.
        few: Results of `Ledger.few_fields` in which no field expires, by path and limit.
    """

    __slots__ = ("few", "nodes", "number")

    def __init__(self, number: int) -> None:
        self.number = number
        self.nodes: dict[Path, Node | None] = {}
        self.few: dict[tuple[Path, int], dict[str, Node | None] | None] = {}

    def keep_node(self, path: Path, node: Node | None, *, now: int) -> None:
        """Cache the node that was read at *path*, or None, if the answer holds at any time.

        None is cached only if *now* is 0 or less: later, a node may be missing since it expired.
        """
        is_certain = now <= 0 if node is None else _is_kept(node)
        if is_certain:
            if len(self.nodes) >= MAX_KEPT_NODES:
                self.nodes.clear()
            self.nodes[path] = node

    def keep_few(self, path: Path, most: int, fields: dict[str, Node | None] | None) -> None:
        """Cache the result of `Ledger.few_fields` for *path*, if each field is small and lasts."""
        if fields is None or all(node is not None and _is_kept(node) for node in fields.values()):
            if len(self.few) >= MAX_OBJECTS:
                self.few.clear()
            self.few[path, most] = fields

    def after(self, deltas: Iterable[TreeDelta], number: int) -> RecentTree | None:
        """Return the cache after commit *number*, which is the next and applies *deltas*.

        Return None if the changes are not simple puts, so that their result is unknown.
        """
        new, nodes = RecentTree(number), self.nodes.copy()
        kept: dict[Path, dict[str, Node]] = {}
        dropped: set[Path] = set()
        for delta in deltas:
            if not isinstance(delta, Put):
                return None
            path, node = delta.path, Node(False, delta.value, delta.expires)  # noqa: FBT003 - often
            above = path[:-1]
            if not _is_kept(node):
                nodes.pop(path, None)
                dropped.add(above)
                continue
            nodes[path] = node
            if above not in kept:
                kept[above] = {}
            kept[above][path[-1]] = node
        if len(nodes) <= MAX_KEPT_NODES:
            new.nodes = nodes
        for (path, most), fields in self.few.items():
            after = fields if fields is None else fields | kept.get(path, {})
            if after is None or (path not in dropped and len(after) <= most):
                new.few[path, most] = after
        return new


class RecentTrees:
    """The cached trees of one open store."""

    def __init__(self) -> None:
        self._trees: dict[Scope, RecentTree] = {}

    def read_head(self, scope: Scope, number: int) -> None:
        """Record that *number* is the last commit of a tree. Drop the cache of another commit."""
        known = self._trees.get(scope)
        if known is None or known.number != number:
            self._keep(scope, RecentTree(number))

    def at(self, scope: Scope, number: int | None) -> RecentTree | None:
        """Return the cache of a tree after commit *number*, or None if there is no such cache."""
        known = self._trees.get(scope)
        return known if known is not None and known.number == number else None

    def committed(
        self, scope: Scope, base: int | None, deltas: Iterable[TreeDelta], number: int
    ) -> None:
        """Apply the deltas of commit *number* to the cached tree as of commit *base*."""
        known = self.at(scope, base)
        new = None if known is None else known.after(deltas, number)
        if new is not None:
            self._keep(scope, new)

    def _keep(self, scope: Scope, tree: RecentTree) -> None:
        if len(self._trees) >= MAX_TREES:
            self._trees.clear()
        self._trees[scope] = tree

    def clear(self) -> None:
        """Clear the cache: rows were erased, or the whole file was replaced."""
        self._trees.clear()


def _is_kept(node: Node) -> bool:
    if not node.is_lasting:
        return False
    value = node.value
    return not isinstance(value, (str, bytes)) or len(value) <= SMALL_BYTES
