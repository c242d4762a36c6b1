"""What a writer knows of the database, and what its transaction is about to insert."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import field
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

_INHERIT_LINKS = "INSERT INTO link (row, source) SELECT ?1, source FROM link WHERE row = ?2"
_INHERIT_STUBS = "INSERT INTO stub SELECT ?1, set_id, source FROM stub WHERE row = ?2"
"""A version comes from what an earlier one came from."""

_INSERT_LINK = "INSERT INTO link (row, source) VALUES (?, ?) ON CONFLICT DO NOTHING"

COUNT = """
    UPDATE memory_set SET items = items + ?2, bytes = bytes + ?3, tokens = tokens + ?4
    WHERE id = ?1
"""

INSERT_JOURNAL = """
    INSERT INTO journal (n, time, scope, op, request, result, ended)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
"""


_END_NODE = "UPDATE node SET ended = ? WHERE id = ?"

_INSERT_NODE = """
    INSERT INTO node (id, scope, parent, name, place, value, expires, begun)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?)
"""

_MOVE_HEAD = "UPDATE scope SET head = ?2 WHERE id = ?1"

_BEGIN_RUN = "UPDATE run SET now = ?, actions = ? WHERE id = ?"

_INSERT_STEP = """
    INSERT INTO step (id, n, action, sent, sensory, looked, skipped) VALUES (?, ?, ?, ?, ?, ?, ?)
"""

_INSERT_OUTPUT = "INSERT INTO output (agent, id, step, event) VALUES (?, ?, ?, ?)"

_END_RUN = """
    UPDATE run SET status = ?1, ended = ?2,
        error = CASE WHEN ?3 THEN NULL ELSE coalesce(?4, error) END WHERE id = ?5
"""

_END_SENSORY = """
    UPDATE step SET sensory = NULL WHERE id BETWEEN ? AND ? AND sensory IS NOT NULL
"""


@dataclass(slots=True, acyclic=True)
class RunRow:
    """A run that has not ended.

    Attributes:
        has_sensory: Whether a step of it may hold sensory memory.
        next_ordinal: Past the ordinals of its steps.
    """

    agent: int
    scope: Scope
    status: RunStatus
    has_begun: bool
    has_sensory: bool
    next_ordinal: int


_Added: TypeAlias = tuple[int, int, int, int, int, int]
"""Items that were taken by one call: set, commit, first row, count, tokens, bytes."""


@dataclass(slots=True, eq=False)
class PendingRows:
    """Rows of items, of their features, of nodes, of runs and of the journal, in commit order.

    Whoever is going to read one of them, or to end it, has it flushed first.

    Attributes:
        runs: What is remembered of runs that have not ended.
        node_scopes: Scopes of the nodes in it.
        node_ends: The commit that ended it, and the id, of nodes.
        heads: The last commit that changed the tree of a scope.
        key_usages: Items and bytes of keys with limits, once all of it is inserted.
        run_ends: Runs that ended, which stay cached until they are written.
        access_times: When items among them were last read.
        heirs: Versions among them, and the version before each.
        links: Versions among them, and the rows that they come from.
        item_ids: Those of every item in it, by set.
        item_scopes: Of batches that changed items since it was empty.
        ops: Names of the ops in it.
    """

    connection: Connection
    runs: dict[int, RunRow]
    node_scopes: set[int] = field(default_factory=set[int])
    node_ends: list[Row] = field(default_factory=list[Row])
    nodes: list[Row] = field(default_factory=list[Row])
    heads: dict[int, int] = field(default_factory=dict[int, int])
    key_usages: dict[Scope, tuple[int, int]] = field(default_factory=dict[Scope, tuple[int, int]])
    run_begins: list[Row] = field(default_factory=list[Row])
    steps: list[Row] = field(default_factory=list[Row])
    outputs: list[Row] = field(default_factory=list[Row])
    run_ends: list[Row] = field(default_factory=list[Row])
    sensory_ends: list[Row] = field(default_factory=list[Row])
    access_times: list[Row] = field(default_factory=list[Row])
    heirs: list[Row] = field(default_factory=list[Row])
    links: list[Row] = field(default_factory=list[Row])
    item_ids: dict[int, set[str]] = field(default_factory=dict[int, set[str]])
    item_scopes: set[Scope] = field(default_factory=set[Scope])
    ops: set[bytes] = field(default_factory=set[bytes])
    _items: list[Row] = field(default_factory=list[Row])
    _features: list[Row] = field(default_factory=list[Row])
    _journal: list[Row] = field(default_factory=list[Row])
    _added: list[_Added] = field(default_factory=list[_Added])

    def add_item(
        self, number: int, commit: int, r: ItemRecord, version: tuple[int, int, int, int, int]
    ) -> None:
        """Take a *version* that a commit begins in set *number*.

        Args:
            version: Its row, the row of its first version, its number, and when the item was
                created and updated.
        """
        row, first, n, created, updated = version
        sources = json.dumps(r.sources) if r.sources else None
        # fmt: off
        self._items.append((
            row, number, r.id, first, n, commit, r.time, created, updated,
            None if r.value is None else packed(r.value), r.text, r.metadata, r.importance,
            r.speaker, r.role, r.session, sources, int(r.compacted), r.tokens, r.until, r.expires,
            r.valid_from, r.valid_to,
        ))
        self._features.append((
            number, 0, row, first, r.id, commit, r.time, r.importance, r.speaker, r.role,
            r.session, r.metadata, r.terms, r.tokens, r.temporal, r.vectors, updated,
        ))
        # fmt: on
        self._added.append((number, commit, row, 1, r.tokens, _size(self._items[-1:])))
        self.item_ids.setdefault(number, set()).add(r.id)

    def add_items(
        self, number: int, commit: int, records: list[ItemRecord], row: int, now: int
    ) -> None:
        """Take first versions, which a commit begins at a time from *row* on; see `add_item`."""
        self.item_ids.setdefault(number, set()).update([r.id for r in records])
        rows = [row + place for place in range(len(records))]  # a range would drop what they are
        # fmt: off
        self._items += [
            (
                row, number, r.id, row, 1, commit, r.time, now, now,
                None if r.value is None else packed(r.value), r.text, r.metadata, r.importance,
                r.speaker, r.role, r.session, json.dumps(r.sources) if r.sources else None,
                int(r.compacted), r.tokens, r.until, r.expires, r.valid_from, r.valid_to,
            )
            for row, r in zip(rows, records, strict=True)
        ]
        self._features += [
            (
                number, 0, row, row, r.id, commit, r.time, r.importance, r.speaker, r.role,
                r.session, r.metadata, r.terms, r.tokens, r.temporal, r.vectors, now,
            )
            for row, r in zip(rows, records, strict=True)
        ]
        # fmt: on
        tokens, size = sum([r.tokens for r in records]), _size(self._items[-len(records) :])
        self._added.append((number, commit, row, len(records), tokens, size))

    def has_items_of(self, number: int) -> bool:
        """Whether any is of a set."""
        return number in self.item_ids

    def has_item(self, number: int, item_id: str) -> bool:
        """Whether any is of a set, and has this id."""
        return number in self.item_ids and item_id in self.item_ids[number]

    def usage_of_last(self, now: int) -> tuple[int, int, int] | None:
        """Return how many items were taken last, their tokens and bytes; None: one has expired."""
        usage = self._added[-1][3:]
        for row in self._items[-usage[0] :]:
            if row[_EXPIRES] is not None and row[_EXPIRES] <= now:
                return None
        return usage

    def size_of_last(self) -> int:
        """Return the bytes of the items that were taken last."""
        return self._added[-1][5]

    def until(self, number: int, now: int) -> tuple[int, int]:
        """Return up to which time all that is written of a set is older than what is not.

        As a time, and how much is to be taken from it.
        """
        rows = [row for row in self._items if row[1] == number]
        times = [row[6] for row in rows]
        if not times:
            return 1 << 62, 0
        is_version = any(row[3] != row[0] for row in rows)  # which may be older than its time
        return min([now if time is None else time for time in times]), int(is_version)

    def count_copies(self, number: int, row: int, count: int, *, size: int, tokens: int) -> None:
        """Count items that were inserted from *row* on as they were before, and log them."""
        self.connection.execute(LOG_ADDED, (number, row, count))
        self.connection.execute(COUNT, (number, count, size, tokens))

    def add_commit(self, row: Row) -> None:
        """Take a row of the journal, which begins (n, time, scope, op, …)."""
        self._journal.append(row)
        if row[3] is not None:
            self.ops.add(row[3])

    def flush(self) -> None:
        """Insert it all.

        Raises:
            `Connection.taken`: An id has such a version, or an op is taken.
        """
        self.key_usages.clear()  # what comes next may count by itself
        self.item_scopes.clear()
        writes: list[Write] = []
        if self._items:
            self._take_items(writes)
        if self.node_ends or self.nodes:
            self._take_nodes(writes)
        if self.heads:
            writes.append((_MOVE_HEAD, list(self.heads.items())))
            self.heads = {}
        if self.run_begins or self.steps or self.outputs or self.run_ends:
            self._take_runs(writes)
        if self._journal:
            writes.append((INSERT_JOURNAL, self._journal))
            self._journal = []
            self.ops.clear()
        if writes:
            self.connection.write(*writes)

    def flush_nodes(self) -> None:
        """Insert the nodes."""
        writes: list[Write] = []
        self._take_nodes(writes)
        self.connection.write(*writes)

    def _take_nodes(self, writes: list[Write]) -> None:
        """Write the nodes; ends first, as a name has one live version."""
        if self.node_ends:
            writes.append((_END_NODE, self.node_ends))
        if self.nodes:
            writes.append((_INSERT_NODE, self.nodes))
        self.node_ends, self.nodes = [], []
        self.node_scopes.clear()

    def _take_runs(self, writes: list[Write]) -> None:
        """Write what runs did, and end them once their steps are there."""
        of_runs = (
            (_BEGIN_RUN, self.run_begins),
            (_INSERT_STEP, self.steps),
            (_INSERT_OUTPUT, self.outputs),
            (_END_RUN, self.run_ends),
            (_END_SENSORY, self.sensory_ends),
        )
        writes.extend(each for each in of_runs if each[1])
        for row in self.run_ends:
            self.runs.pop(row[-1], None)
        self.run_begins, self.steps, self.outputs = [], [], []
        self.run_ends, self.sensory_ends = [], []

    def _take_items(self, writes: list[Write]) -> None:
        """Insert items and features, count them, and say so in the change log."""
        writes += [(INSERT_ITEM, self._items), (INSERT_FEATURE, self._features)]
        lines, counts = self._counted()
        writes += [(LOG_ADDED, lines), (COUNT, counts)]
        if self.heirs or self.links or self.access_times:
            self._take_what_refers_to_items(writes)
        self._items, self._features, self._added = [], [], []
        self.item_ids.clear()

    def _counted(self) -> tuple[list[Row], list[Row]]:
        """Return lines for the change log, and what is to be counted of each set."""
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
        return lines, [(number, *count) for number, count in counts.items()]

    def _take_what_refers_to_items(self, writes: list[Write]) -> None:
        """Insert what refers to items, which are there by then."""
        if self.heirs:
            writes += [(_INHERIT_LINKS, self.heirs), (_INHERIT_STUBS, self.heirs)]
        if self.links:
            writes.append((_INSERT_LINK, self.links))
        if self.access_times:
            writes.append((INSERT_ACCESS, self.access_times))
        self.heirs, self.links, self.access_times = [], [], []


_EXPIRES = 20
"""A column of a row of an item."""

_CONTENTS = itemgetter(9, 10, 11)


def _size(rows: Sequence[Row]) -> int:
    """Return the bytes of the values, texts and metadata of items."""
    size = 0
    for row in rows:
        for part in _CONTENTS(row):
            if part is not None:
                size += len(part if type(part) is bytes or part.isascii() else part.encode())
    return size


CACHED = 20_000
"""Runs, lanes and leases that are remembered at most, of each."""


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
"""Live nodes of one tree that are cached at most."""

MAX_CACHED_TREES = 4096
"""Trees of which nodes are cached at most."""

MAX_CACHED_SCOPES = 16_384
"""Keys, sets and notes that are cached at most, give or take those of a few transactions."""

USES_PER_LOOK = 32
"""Transactions from one look at how much is cached to the next."""


@dataclass(slots=True)
class LaneRow:
    """A lane: the number of its next run, and how many have not ended."""

    scope: Scope
    id: int
    next_number: int
    open_runs: int


@dataclass
class RunCache:
    """Part of a writer's cache: dropped with all of it."""

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
        """Clear what has grown too large."""
        for each in (self.lanes, self.runs, self.leases):
            if len(each) > CACHED:
                each.clear()

    def next_run(self, db: Connection) -> int:
        """Return the id of a new run; none is used twice, pruned or not."""
        last = first(db, LAST_RUN) if self.last_run is None else self.last_run
        self.last_run = last + 1
        return last + 1

    def agent(self, db: Connection, space: str, name: str) -> int:
        """Return the row of an agent, which is made if there is none."""
        number = self.agents.get((space, name))
        if number is None:
            number = first(db, _AGENT, space, name)
        if number is None:
            number = first(db, INSERT_AGENT, space, name)
        self.agents[space, name] = number
        return number


LiveNode: TypeAlias = tuple[int, int, int, int]
"""A live version of a node: its row, its place, whether it is an object, when it was begun."""

LiveNodes: TypeAlias = "dict[Path, LiveNode | None]"
"""Live versions of a tree's nodes by path; None: nothing is there."""


@dataclass
class WriterCache:
    """What was read of the file and still holds: dropped when another connection wrote.

    Attributes:
        version: SQLite's number of the state that it was read of; None: of no state.
        number: The last commit; None: not looked up.
        time: When that was.
        corroborated: The last time of which a batch said that it is.
        nodes: Live nodes by scope; also dropped when a sweep may have removed some.
        expected: What a batch expected last, which holds.
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
        """Return a cache with the numbers of keys, sets and agents, and notes, but nothing else."""
        runs = RunCache(agents=self.runs.agents)
        return WriterCache(scopes=self.scopes, sets=self.sets, notes=self.notes, runs=runs)

    def trim(self, scope: int) -> None:
        """Drop the nodes of a scope, or of all, where there are too many."""
        if len(self.nodes[scope]) > MAX_NODES_PER_TREE:
            del self.nodes[scope]
        if len(self.nodes) > MAX_CACHED_TREES:
            self.nodes.clear()

    def limit_size(self) -> None:
        """Clear what has grown too large; between transactions, when nothing is gathered."""
        self.uses += 1
        if self.uses % USES_PER_LOOK:
            return
        for each in (self.scopes, self.heads, self.sets, self.notes, self.runs.agents):
            if len(each) > MAX_CACHED_SCOPES:
                each.clear()


@dataclass(slots=True, eq=False)
class ScopeRows:
    """The rows of keys and sets, by what the cache has or the database says."""

    _db: Connection
    _cache: WriterCache
    _new_sets: set[int] = field(default_factory=set[int])

    def scope_row_of(self, scope: Scope) -> int:
        """Return the row of a scope, which is made if there is none."""
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
        """Return the number and definition of a set; None: there is none."""
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
        """Take note that a transaction begins: what was new in the last one is no longer."""
        self._new_sets.clear()

    def is_first_used(self, number: int) -> bool:
        """Return, once, whether a set was made in this transaction, so that it is empty."""
        is_new = number in self._new_sets
        self._new_sets.discard(number)
        return is_new

    def define(self, define: Define) -> None:
        """Make a set, or with *replace* change its definition."""
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
            self._new_sets.discard(number)  # what it holds was not counted, if it had no capacity
            self._db.execute(
                "UPDATE memory_set SET definition = ?, retention = ? WHERE id = ?",
                (text, define.definition.retention_us, number),
            )
        self._cache.sets[define.set] = (number, define.definition)
