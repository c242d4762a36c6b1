"""The cache of a writer, and the rows that its transaction will insert."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import field
from itertools import chain
from operator import itemgetter
from typing import TypeAlias

from alveus.errors import SetDefinitionConflict
from alveus.store import Define, Definition, ItemRecord, RunStatus, Scope, SetRef
from alveus.store.packed_values import packed
from alveus.store.sql.connection import Connection, Row, Write, first
from alveus.store.sql.rows import definition_of, found_again, scope_id
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import Path

INSERT_ITEM = """
    INSERT INTO item (row, set_id, id, first, version, begun, time, created, updated, value, text,
        metadata, importance, speaker, role, session, sources, compacted, tokens, until, expires,
        valid_from, valid_to)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, coalesce(?7, ?9), ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16,
        ?17, ?18, ?19, ?20, ?21, ?22, ?23)
"""

INSERT_FEATURE = """
    INSERT INTO feature (set_id, ended, row, first, id, begun, time, importance, speaker, role,
        session, metadata, terms, tokens, temporal, vectors)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, coalesce(?7, ?17), ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)
"""

LOG_ADDED = """
    INSERT INTO change (seq, set_id, row, kind, rows)
    VALUES (?3 + (SELECT coalesce(max(seq), 0) FROM change), ?1, ?2, 0, ?3)
"""

INSERT_ACCESS = """
    INSERT INTO access (first, time) VALUES (?1, ?2)
    ON CONFLICT (first) DO UPDATE SET time = excluded.time
"""

INHERIT_LINKS = "INSERT INTO link (row, source) SELECT ?1, source FROM link WHERE row = ?2"
INHERIT_STUBS = "INSERT INTO stub SELECT ?1, set_id, source FROM stub WHERE row = ?2"
"""Copies the stubs of an earlier version to a later one."""

INSERT_LINK = "INSERT INTO link (row, source) VALUES (?, ?) ON CONFLICT DO NOTHING"

COUNT = """
    UPDATE memory_set SET items = items + ?2, bytes = bytes + ?3, tokens = tokens + ?4
    WHERE id = ?1
"""

INSERT_JOURNAL = """
    INSERT INTO journal (n, time, scope, op, request, result, ended)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
"""


END_NODE = "UPDATE node SET ended = ? WHERE id = ?"

INSERT_NODE = """
    INSERT INTO node (id, scope, parent, name, place, value, expires, begun)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?)
"""

MOVE_HEAD = "UPDATE scope SET head = ?2 WHERE id = ?1"

BEGIN_RUN = "UPDATE run SET now = ?, actions = ? WHERE id = ?"

INSERT_STEP = """
    INSERT INTO step (id, n, action, sent, sensory, looked, skipped) VALUES (?, ?, ?, ?, ?, ?, ?)
"""

INSERT_OUTPUT = "INSERT INTO output (agent, id, step, event) VALUES (?, ?, ?, ?)"

END_RUN = """
    UPDATE run SET status = ?1, ended = ?2,
        error = CASE WHEN ?3 THEN NULL ELSE coalesce(?4, error) END WHERE id = ?5
"""

END_SENSORY = """
    UPDATE step SET sensory = NULL WHERE id BETWEEN ? AND ? AND sensory IS NOT NULL
"""


@dataclass(slots=True, acyclic=True)
class RunRow:
    """A run that has not ended.

    Attributes:
        has_sensory: Whether a step of the run may hold sensory memory.
        next_ordinal: The ordinal of the run's next step.
    """

    agent: int
    scope: Scope
    status: RunStatus
    has_begun: bool
    has_sensory: bool
    next_ordinal: int


NODE_WRITES = (END_NODE, INSERT_NODE)
"""The statements that write nodes. Versions end first, as a name may have one live version."""

_ORDER = (
    INHERIT_LINKS, INHERIT_STUBS, INSERT_LINK, INSERT_ACCESS, *NODE_WRITES, MOVE_HEAD, BEGIN_RUN,
    INSERT_STEP, INSERT_OUTPUT, END_RUN, END_SENSORY,
)  # fmt: skip
"""The statements of `PendingRows.rows`, in the order of writing, which is after the items.

Rows are written before the rows that refer to them.
"""

_Added: TypeAlias = tuple[int, int, int, int, int, int]
"""Items that one call added: set, commit, first row, count, tokens, bytes."""


@dataclass(slots=True, eq=False)
class PendingRows:
    """Collects the rows that a transaction inserts, to write many with one statement.

    The rows must be flushed before one of them is read, or ended.

    Attributes:
        runs: The cached runs; a run that ended leaves the cache when its end is written.
        rows: The rows by statement.
        node_scopes: Scopes of the pending nodes.
        heads: The last commit that changed the tree of a scope, by scope.
        key_usages: The items and bytes that keys with limits will have once all rows are written.
        item_ids: The ids of all pending items, by set.
        item_scopes: Scopes of the batches that changed items since the last flush.
        ops: The op names of the pending commits.
    """

    connection: Connection
    runs: dict[int, RunRow]
    rows: dict[str, list[Row]] = field(default_factory=dict[str, "list[Row]"])
    node_scopes: set[int] = field(default_factory=set[int])
    heads: dict[int, int] = field(default_factory=dict[int, int])
    key_usages: dict[Scope, tuple[int, int]] = field(default_factory=dict[Scope, tuple[int, int]])
    item_ids: dict[int, set[str]] = field(default_factory=dict[int, set[str]])
    item_scopes: set[Scope] = field(default_factory=set[Scope])
    ops: set[bytes] = field(default_factory=set[bytes])
    _items: list[Row] = field(default_factory=list[Row])
    _features: list[Row] = field(default_factory=list[Row])
    _journal: list[Row] = field(default_factory=list[Row])
    _added: list[_Added] = field(default_factory=list[_Added])

    def add(self, statement: str, *rows: Row) -> None:
        """Collect *rows*, the bindings with which *statement* of `_ORDER` will run."""
        if rows:
            self.rows.setdefault(statement, []).extend(rows)

    def add_item(
        self, number: int, commit: int, r: ItemRecord, version: tuple[int, int, int, int, int]
    ) -> None:
        """Add a version that a commit begins in set *number*.

        Args:
            version: The version's row, the row of the item's first version, the version's number,
                and when the item was created and updated.
        """
        self._add_versions(number, commit, [(version, r)])
        self.item_ids.setdefault(number, set()).add(r.id)

    def add_items(
        self, number: int, commit: int, records: list[ItemRecord], row: int, now: int
    ) -> None:
        """Add the first versions of items that one commit adds to set *number* at time *now*.

        The versions get the rows from *row* on.
        """
        rows = [row + index for index in range(len(records))]  # a range would drop a row's type
        versions = [(row, row, 1, now, now) for row in rows]
        self._add_versions(number, commit, list(zip(versions, records, strict=True)))
        self.item_ids.setdefault(number, set()).update([r.id for r in records])

    def _add_versions(
        self,
        number: int,
        commit: int,
        versions: list[tuple[tuple[int, int, int, int, int], ItemRecord]],
    ) -> None:
        # fmt: off
        items = [
            (
                row, number, r.id, first, n, commit, r.time, created, updated,
                None if r.value is None else packed(r.value), r.text, r.metadata, r.importance,
                r.speaker, r.role, r.session, json.dumps(r.sources) if r.sources else None,
                int(r.compacted), r.tokens, r.until, r.expires, r.valid_from, r.valid_to,
            )
            for (row, first, n, created, updated), r in versions
        ]
        self._features += [
            (
                number, 0, row, first, r.id, commit, r.time, r.importance, r.speaker, r.role,
                r.session, r.metadata, r.terms, r.tokens, r.temporal, r.vectors, updated,
            )
            for (row, first, _, _, updated), r in versions
        ]
        # fmt: on
        self._items += items
        tokens, size = sum([r.tokens for _, r in versions]), _size(items)
        self._added.append((number, commit, versions[0][0][0], len(versions), tokens, size))

    def has_item(self, number: int, item_id: str) -> bool:
        """Return whether an item with this id is pending in set *number*."""
        return number in self.item_ids and item_id in self.item_ids[number]

    @property
    def usage_of_last(self) -> tuple[int, int, int]:
        """The count, tokens and bytes of the items that the last call added."""
        return self._added[-1][3:]

    def has_expired(self, count: int, now: int) -> bool:
        """Return whether one of the last *count* items has expired."""
        expiries = (row[_EXPIRES] for row in self._items[-count:])
        return any(expires is not None and expires <= now for expires in expiries)

    def until(self, number: int, now: int) -> tuple[int, int]:
        """Return a time, and microseconds to subtract from it.

        All written items of set *number* up to the resulting time are older than its pending items.
        """
        rows = [row for row in self._items if row[1] == number]
        times = [row[6] for row in rows]
        if not times:
            return 1 << 62, 0
        is_version = any(row[3] != row[0] for row in rows)  # it may sort before items of its time
        return min([now if time is None else time for time in times]), int(is_version)

    def add_commit(self, row: Row) -> None:
        """Add a row of the journal, which begins (n, time, scope, op, …)."""
        self._journal.append(row)
        if row[3] is not None:
            self.ops.add(row[3])

    def flush(self) -> None:
        """Write all rows; raises `Connection.taken` if an item id or an op name exists already."""
        self.key_usages.clear()  # the next statement may count for itself
        self.item_scopes.clear()
        writes: list[Write] = self._item_writes() if self._items else []
        if self.heads:
            self.rows[MOVE_HEAD] = list(self.heads.items())
            self.heads = {}
        if self.rows:
            for row in self.rows.get(END_RUN, ()):
                self.runs.pop(row[-1], None)
            writes += [(sql, self.rows[sql]) for sql in sorted(self.rows, key=_ORDER.index)]
            self.rows = {}
            self.node_scopes.clear()
        if self._journal:
            writes.append((INSERT_JOURNAL, self._journal))
            self._journal = []
            self.ops.clear()
        if writes:
            self.connection.write(*writes)

    def flush_nodes(self) -> None:
        """Write the pending nodes only."""
        writes = [(sql, self.rows.pop(sql)) for sql in NODE_WRITES if sql in self.rows]
        self.node_scopes.clear()
        self.connection.write(*writes)

    def _item_writes(self) -> list[Write]:
        """Return the statements that insert, count and log the pending items and features."""
        lines: list[Row] = []
        counts: dict[int, tuple[int, int, int]] = {}
        last = None
        for number, commit, row, count, tokens, size in self._added:
            if last == (number, commit):  # its rows follow those before them
                _, first, before = lines[-1]
                lines[-1] = (number, first, before + count)
            else:
                lines.append((number, row, count))
            last = number, commit
            items, all_bytes, all_tokens = counts.get(number, (0, 0, 0))
            counts[number] = (items + count, all_bytes + size, all_tokens + tokens)
        writes: list[Write] = [
            (INSERT_ITEM, self._items),
            (INSERT_FEATURE, self._features),
            (LOG_ADDED, lines),
            (COUNT, [(number, *count) for number, count in counts.items()]),
        ]
        self._items, self._features, self._added = [], [], []
        self.item_ids.clear()
        return writes


_EXPIRES = 20
"""The index of the expiry in an item's row."""

_CONTENTS = itemgetter(9, 10, 11)


def _size(rows: Sequence[Row]) -> int:
    """Return the bytes of the values, texts and metadata of items."""
    contents = list(chain.from_iterable(map(_CONTENTS, rows)))
    texts = "".join([part for part in contents if isinstance(part, str)])
    size = len(texts) if texts.isascii() else len(texts.encode())
    return size + sum([len(part) for part in contents if isinstance(part, bytes)])


CACHED = 20_000
"""The most runs that are cached; as many lanes and as many leases may be cached."""

LAST_RUN = """
    SELECT max(id) FROM
        (SELECT max(id) AS id FROM run AS every_run
            UNION ALL SELECT max(pruned) FROM agent AS every_agent UNION ALL SELECT 0)
        AS used
"""

INSERT_AGENT = "INSERT INTO agent (space, name) VALUES (?, ?) RETURNING id"

_AGENT = "SELECT id FROM agent WHERE space IS ? AND name IS ?"

INSERT_SCOPE = "INSERT INTO scope (space, key) VALUES (?, ?) RETURNING id"

INSERT_SET = """
    INSERT INTO memory_set (scope, name, definition, retention) VALUES (?, ?, ?, ?) RETURNING id
"""

MAX_NODES_PER_TREE = 64
"""The most live nodes of one tree that are cached."""

MAX_CACHED_TREES = 4096
"""The most trees whose nodes are cached."""

MAX_CACHED_SCOPES = 16_384
"""The most keys, sets and notes that are cached; a few transactions may exceed the limit."""

USES_PER_LOOK = 32
"""Transactions between two checks of the cache's size."""


@dataclass(slots=True)
class LaneRow:
    """A lane, which is the queue of one agent and key.

    Attributes:
        next_number: The number that the lane's next run gets.
        open_runs: How many runs of the lane have not ended.
    """

    scope: Scope
    id: int
    next_number: int
    open_runs: int


@dataclass
class RunCache:
    """The part of a `WriterCache` about agents, lanes, runs and leases."""

    last_run: int | None = None
    agents: dict[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])
    lanes: dict[tuple[int, Scope], LaneRow] = field(
        default_factory=dict[tuple[int, Scope], LaneRow]
    )
    runs: dict[int, RunRow] = field(default_factory=dict[int, RunRow])
    leases: dict[Scope, tuple[str | None, int]] = field(
        default_factory=dict[Scope, "tuple[str | None, int]"]
    )

    def trim(self) -> None:
        """Clear the parts that have grown too large."""
        for each in (self.lanes, self.runs, self.leases):
            if len(each) > CACHED:
                each.clear()

    def next_run(self, db: Connection) -> int:
        """Return the id for a new run. Ids are never reused, even after pruning."""
        last = first(db, LAST_RUN) if self.last_run is None else self.last_run
        self.last_run = last + 1
        return last + 1

    def agent(self, db: Connection, space: str, name: str) -> int:
        """Return the row of an agent; make the row if it does not exist."""
        number = self.agents.get((space, name))
        if number is None:
            number = first(db, _AGENT, space, name)
        if number is None:
            number = first(db, INSERT_AGENT, space, name)
        self.agents[space, name] = number
        return number


LiveNode: TypeAlias = tuple[int, int, int, int]
"""A live version of a node: row, position, whether it is an object, and its first commit."""

LiveNodes: TypeAlias = "dict[Path, LiveNode | None]"
"""Live versions of a tree's nodes by path; None for a path where no node exists."""


@dataclass
class WriterCache:
    """Data read from the database that are still current; replaced when another connection wrote.

    Attributes:
        version: SQLite's number of the state that was read, or None if no state was read.
        number: The number of the last commit, or None if it was not looked up.
        time: The time of the last commit.
        corroborated: The last `Batch.corroborated` that was not None, if any.
        nodes: Live nodes by scope; also cleared when a sweep may have deleted some.
        expected: The notes that the last batch expected, which are unchanged.
    """

    version: int | None = None
    number: int | None = None
    time: int = 0
    corroborated: int | None = None
    scopes: dict[Scope, int] = field(default_factory=dict[Scope, int])
    heads: dict[int, int] = field(default_factory=dict[int, int])
    nodes: dict[int, LiveNodes] = field(default_factory=dict[int, LiveNodes])
    notes: dict[str, str | None] = field(default_factory=dict[str, "str | None"])
    sets: dict[SetRef, tuple[int, Definition]] = field(
        default_factory=dict[SetRef, tuple[int, Definition]]
    )
    runs: RunCache = field(default_factory=RunCache)
    expected: Sequence[tuple[str, str]] = ()
    uses: int = 0

    def without_versions(self) -> WriterCache:
        """Return a cache with only the numbers of keys, sets and agents, and the notes."""
        runs = RunCache(agents=self.runs.agents)
        return WriterCache(scopes=self.scopes, sets=self.sets, notes=self.notes, runs=runs)

    def trim(self, scope: int) -> None:
        """Drop the nodes of *scope* if they are too many, and all nodes if the scopes are."""
        if len(self.nodes[scope]) > MAX_NODES_PER_TREE:
            del self.nodes[scope]
        if len(self.nodes) > MAX_CACHED_TREES:
            self.nodes.clear()

    def limit_size(self) -> None:
        """Clear the parts that have grown too large. Call it only while no rows are pending."""
        self.uses += 1
        if self.uses % USES_PER_LOOK:
            return
        for each in (self.scopes, self.heads, self.sets, self.notes, self.runs.agents):
            if len(each) > MAX_CACHED_SCOPES:
                each.clear()


@dataclass(slots=True, eq=False)
class ScopeRows:
    """Looks up the rows of keys and sets, in the cache and then in the database."""

    _db: Connection
    _cache: WriterCache
    _new_sets: set[int] = field(default_factory=set[int])

    def scope_row_of(self, scope: Scope) -> int:
        """Return the row of a scope; make the row if it does not exist."""
        known = self._cache.scopes.get(scope)
        if known is not None:
            return known
        scope_row = scope_id(self._db, scope) or found_again(self._db, scope)
        if scope_row is None:
            scope_row = self._db.execute(INSERT_SCOPE, (scope.space, scope.key or "")).get
            self._cache.heads[scope_row] = 0
        self._cache.scopes[scope] = scope_row
        return scope_row

    def set_row(self, ref: SetRef) -> tuple[int, Definition] | None:
        """Return the number and definition of a set, or None if the set does not exist."""
        known = self._cache.sets.get(ref)
        if known is not None:
            return known
        row = self._db.execute(
            "SELECT id, definition FROM memory_set WHERE scope = ? AND name IS ?",
            (self.scope_row_of(ref.scope), ref.name),
        ).get
        if row is None:
            return None
        self._cache.sets[ref] = (row[0], definition_of(row[1]))
        return self._cache.sets[ref]

    def begin(self) -> None:
        """Begin a transaction: sets made in the last transaction no longer count as new."""
        self._new_sets.clear()

    def is_first_used(self, number: int) -> bool:
        """Return True once for a set that was made in this transaction, and so is empty."""
        is_new = number in self._new_sets
        self._new_sets.discard(number)
        return is_new

    def define(self, define: Define) -> None:
        """Make a set, or if *define.replace* is true, change the definition of an existing set.

        Raises:
            SetDefinitionConflict: The set exists with another definition, which may not be changed.
        """
        set_row = self.set_row(define.set)
        if set_row is not None and not define.replace:
            if set_row[1] != define.definition:
                raise SetDefinitionConflict(
                    define.set.name, asked=define.definition, found=set_row[1]
                )
            return
        text = json.dumps(define.definition.to_json())
        if set_row is None:
            scope_row = self.scope_row_of(define.set.scope)
            row = (scope_row, define.set.name, text, define.definition.retention_us)
            number = self._db.execute(INSERT_SET, row).get
            self._new_sets.add(number)
        else:
            number = set_row[0]
            self._new_sets.discard(number)  # without a capacity, its usage was not counted
            self._db.execute(
                "UPDATE memory_set SET definition = ?, retention = ? WHERE id = ?",
                (text, define.definition.retention_us, number),
            )
        self._cache.sets[define.set] = (number, define.definition)
