"""The numbers of keys and sets, looked up or made as a writer needs them, and what it remembers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import field

from alveus.errors import SetDefinitionConflict
from alveus.store import Define, Definition, Scope, SetRef
from alveus.store.sql.connection import Connection
from alveus.store.sql.row_values import found_again, scope_id
from alveus.store.sql.runs import RunCache
from alveus.store.sql.tree import LiveNodes
from alveus.values import wire
from alveus.values.lazy_dataclass import dataclass

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
        self._cache.sets[ref] = (row[0], Definition.from_json(wire.decode_plain(row[1])))
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
