"""Reads and writes of commits, trees, sets and items as SQL."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from alveus.store import (
    OPS_KEPT,
    Commit,
    Compaction,
    Effects,
    Lease,
    Node,
    Scope,
    SetInfo,
    SetRef,
    StoredItem,
    StoredReceipt,
    StoreStats,
)
from alveus.store.checks import PLACEHOLDER_EXPIRY, ROW_BITS
from alveus.store.erasing import Erased, Erasure
from alveus.store.packed_values import restored
from alveus.store.scope import NameRange
from alveus.store.sql import erasing, past
from alveus.store.sql.connection import Connection, Row, first, query
from alveus.store.sql.database import SqlDatabase, reads, writes
from alveus.store.sql.erasing import DryRunDone, Eraser
from alveus.store.sql.items import MIN_BULK_IDS
from alveus.store.sql.rows import (
    BY_ID,
    BY_ID_AT,
    BY_IDS,
    BY_ROW,
    EVERY_VERSION,
    ITEM,
    REFS,
    VERSIONS,
    adopted,
    hidden_id,
    last_commit_at,
    note_text,
    page_sql,
    put_note,
    ref_of,
    rows_of,
    scope_id,
    set_number,
    set_refs,
    sets_of,
    stored_compaction,
    stored_compactions,
    stored_item,
)
from alveus.store.sql.tree import (
    commits_of_node,
    few_fields_of,
    fields_of,
    joined,
    key_range,
    names_of,
    node_of,
    read_node,
    split,
    unescaped,
)
from alveus.store.sql.writer import WriterCache
from alveus.values import wire
from alveus.values.storable import Path as TreePath

_SETS = """
    SELECT name FROM memory_set WHERE scope = (SELECT id FROM scope WHERE space IS ? AND key IS ?)
    ORDER BY name
"""

_SETS_OF_ITEM = """
    SELECT key, name FROM scope JOIN memory_set ON memory_set.scope = scope.id
    WHERE space IS ?1 AND key <> ''
    AND EXISTS (SELECT 1 FROM item WHERE set_id = memory_set.id AND item.id IS ?2)
    ORDER BY key, name
"""

_SETS_WITH_METADATA = """
    SELECT key FROM scope JOIN memory_set ON memory_set.scope = scope.id
    WHERE space IS ?1 AND key <> '' AND name IS ?2 AND EXISTS (
        SELECT 1 FROM feature
        WHERE set_id = memory_set.id AND feature.ended = 0 AND instr(metadata, ?3) > 0)
    ORDER BY key
"""

_LINKS = "SELECT row, source FROM link WHERE {} IN (SELECT value FROM carray(?)) ORDER BY 1, 2"

_SPACES = """
    WITH RECURSIVE each (name) AS (
        SELECT min(space) FROM scope
        UNION ALL
        SELECT (SELECT min(space) FROM scope WHERE space > name) FROM each WHERE name IS NOT NULL
    )
    SELECT name FROM each
    WHERE name != '' AND EXISTS (SELECT 1 FROM scope WHERE space = name AND key > '')
    ORDER BY name
"""
"""Finds spaces by skipping from space to space, without reading their keys."""

_RENEW = """
    UPDATE item SET expires = ?2
    WHERE row = ?1 AND ended IS NULL AND expires > ?3 AND expires < ?2 RETURNING row
"""

_EXPIRED_ITEMS = """
    WITH RECURSIVE expiring (number) AS (
        SELECT min(set_id) FROM item INDEXED BY item_expires
            WHERE ended IS NULL AND expires IS NOT NULL
        UNION ALL
        SELECT (SELECT min(set_id) FROM item INDEXED BY item_expires
            WHERE ended IS NULL AND expires IS NOT NULL AND set_id > number)
        FROM expiring WHERE number IS NOT NULL
    )
    SELECT row FROM expiring CROSS JOIN item INDEXED BY item_expires ON set_id = number
    WHERE ended IS NULL AND expires IS NOT NULL AND expires <= ? LIMIT ?
"""
"""Finds expired items set by set, without reading items that have not expired."""


class SqlLedger(SqlDatabase):
    """Implements the methods of `Ledger` that `SqlDatabase` and `SqlLanes` do not."""

    _eraser: type[Eraser] = Eraser

    def head(self, scope: Scope) -> int:
        """See `Ledger.head`."""
        number = self._read_head(scope)
        if self.keeps_commits:
            self._known.trees.read_head(scope, number)
        return number

    @reads
    def _read_head(self, db: Connection, scope: Scope) -> int:
        sql = "SELECT head FROM scope WHERE space IS ? AND key IS ?"
        head = first(db, sql, scope.space, scope.key or "")
        if head is not None:
            return head
        return first(db, "SELECT head FROM scope WHERE id = ?", hidden_id(db, scope)) or 0

    def node(self, scope: Scope, path: TreePath, *, at: int | None, now: int) -> Node | None:
        """See `Ledger.node`."""
        known = self._known.trees.at(scope, at)
        if known is None:
            return self._read_node(scope, path, at=at, now=now)
        if path in known.nodes:
            self.check_open()
            return known.nodes[path]
        node = self._read_node(scope, path, at=at, now=now)
        known.keep_node(path, node, now=now)
        return node

    @reads
    def _read_node(
        self, db: Connection, scope: Scope, path: TreePath, *, at: int | None, now: int
    ) -> Node | None:
        if not path:
            return Node(is_object=True)
        number = self._number_of(db, scope)
        return None if number is None else read_node(db, number, path, at=at, now=now)

    @reads
    def children(
        self, db: Connection, scope: Scope, path: TreePath, *, at: int | None, now: int
    ) -> list[tuple[str, Node]]:
        number = self._number_of(db, scope)
        rows = [] if number is None else fields_of(db, "value", number, joined(path), at)
        return [
            (unescaped(name), node_of(value, expires))
            for _, name, expires, value in rows
            if expires is None or expires > now
        ]

    def few_fields(
        self, scope: Scope, path: TreePath, *, at: int | None, most: int
    ) -> dict[str, Node | None] | None:
        """See `Ledger.few_fields`."""
        known = self._known.trees.at(scope, at)
        if known is None:
            return self._read_few_fields(scope, path, at=at, most=most)
        if (path, most) in known.few:
            self.check_open()
            return known.few[path, most]
        fields = self._read_few_fields(scope, path, at=at, most=most)
        known.keep_few(path, most, fields)
        return fields

    @reads
    def _read_few_fields(
        self, db: Connection, scope: Scope, path: TreePath, *, at: int | None, most: int
    ) -> dict[str, Node | None] | None:
        number = self._number_of(db, scope)
        return {} if number is None else few_fields_of(db, number, joined(path), at=at, most=most)

    @reads
    def field_names(
        self, db: Connection, scope: Scope, path: TreePath, *, at: int | None, now: int
    ) -> list[tuple[str, int | None]]:
        number = self._number_of(db, scope)
        rows = [] if number is None else fields_of(db, "NULL", number, joined(path), at)
        return [
            (unescaped(name), expires)
            for _, name, expires, _ in rows
            if expires is None or expires > now
        ]

    @reads
    def names_in_range(
        self,
        db: Connection,
        scope: Scope,
        path: TreePath,
        chosen: NameRange,
        *,
        at: int | None,
        now: int,
    ) -> list[str]:
        number = self._number_of(db, scope)
        return [] if number is None else names_of(db, number, joined(path), chosen, at=at, now=now)

    @reads
    def node_commits(self, db: Connection, scope: Scope, path: TreePath) -> list[int]:
        number = self._number_of(db, scope)
        return [] if number is None else commits_of_node(db, number, path)

    def _number_of(self, db: Connection, scope: Scope) -> int | None:
        return self._cache.scopes.get(scope) or scope_id(db, scope)

    @reads
    def history_start(self, db: Connection, scope: Scope) -> tuple[int, int]:
        sql = "SELECT floor, since FROM scope WHERE space IS ? AND key IS ?"
        return first(db, sql, scope.space, scope.key or "") or (0, 0)

    @reads
    def commit_of_op(
        self, db: Connection, op: bytes, *, request: bytes | None, label: str
    ) -> Commit | None:
        return adopted(db, op, request=request, label=label)

    @reads
    def effects(self, db: Connection, number: int) -> Effects | None:
        sql = (
            "SELECT time, result, ended, space, key FROM journal JOIN scope ON scope.id = scope "
            "WHERE n = ?"
        )
        row = first(db, sql, number)
        if row is None:
            return None
        time, result, ended, space, key = row
        stored = None if result is None else wire.decode(restored(result))
        ids: dict[str, list[int]] = {} if ended is None else wire.decode_plain(ended)
        put = _nodes(db, "id BETWEEN ? AND ? ORDER BY place", *rows_of(number))
        gone = _nodes(
            db, "id IN (SELECT value FROM carray(?)) ORDER BY id", db.numbers(ids.get("nodes", []))
        )
        undone = "SELECT id FROM compaction WHERE undone = ? ORDER BY id"
        return Effects(
            commit=Commit(number, time, adopted=False, result=stored),
            scope=Scope(space, key or None),
            put_nodes=[(path, node) for path, node, _, _ in put],
            removed_paths=[path for path, node, *_ in gone if node.expires != PLACEHOLDER_EXPIRY],
            begun_items=_items(db, "item.row BETWEEN ? AND ?", *rows_of(number)),
            ended_items=_items(
                db, "item.row IN (SELECT value FROM carray(?))", db.numbers(ids.get("items", []))
            ),
            positions=[position for _, _, position, _ in put],
            end_commits=[end for *_, end in put],
            compactions=stored_compactions(
                db, "compaction.id BETWEEN ? AND ? ORDER BY compaction.id", *rows_of(number)
            ),
            undone_compactions=[done for (done,) in query(db, undone, number)],
        )

    @reads
    def scopes_of_commits(
        self, db: Connection, after: int, *, limit: int = 1000
    ) -> list[tuple[int, Scope]]:
        sql = (
            "SELECT n, space, key FROM journal JOIN scope ON scope.id = scope "
            "WHERE n > ? ORDER BY n LIMIT ?"
        )
        return [(n, Scope(space, key or None)) for n, space, key in query(db, sql, after, limit)]

    @reads
    def commit_at(self, db: Connection, time: int) -> int:
        return last_commit_at(db, time)

    @reads
    def time_of_commit(self, db: Connection, number: int) -> int:
        sql = "SELECT time FROM journal AS every_commit WHERE n <= ? ORDER BY n DESC LIMIT 1"
        return first(db, sql, number) or 0

    @reads
    def live_items_by_commit(self, db: Connection) -> list[tuple[int, int]]:
        commit = f"first >> {ROW_BITS}"
        live = f"SELECT {commit}, count(*) FROM item WHERE ended IS NULL GROUP BY 1 ORDER BY 1"  # noqa: S608 - ours
        return [(number, items) for number, items in query(db, live)]

    @reads
    def note(self, db: Connection, name: str) -> str | None:
        return note_text(db, name)

    def salt(self) -> bytes:
        """See `Ledger.salt`."""
        self.check_open()
        if self._known.salt is None:
            self._known.salt = bytes.fromhex(self.note("salt") or "")
        return self._known.salt

    @reads
    def receipts(
        self, db: Connection, owners: Sequence[str], *, before: int | None = None, limit: int = 100
    ) -> list[StoredReceipt]:
        where = "owner IS ? AND n < ? ORDER BY n DESC LIMIT ?"
        last = (1 << 63) - 1 if before is None else before
        found = [
            r for owner in owners for r in erasing.stored_receipts(db, where, owner, last, limit)
        ]
        return sorted(found, key=lambda one: one.erased.commit or 0, reverse=True)[:limit]

    @reads
    def receipt(self, db: Connection, receipt: str) -> StoredReceipt | None:
        return next(iter(erasing.stored_receipts(db, "id = ?", receipt)), None)

    @reads
    def keys(
        self,
        db: Connection,
        space: str,
        *,
        prefix: str = "",
        after: str | None = None,
        limit: int = 1000,
    ) -> list[str]:
        where, bounds = key_range("key", prefix=prefix, after=after or "", newest_first=False)
        sql = f"SELECT key FROM scope WHERE space IS ?{where} ORDER BY key LIMIT ?"  # noqa: S608 - ours
        return [key for (key,) in query(db, sql, space, *bounds, limit)]

    @reads
    def spaces(self, db: Connection) -> list[str]:
        return [space for (space,) in query(db, _SPACES)]

    @reads
    def set_info(self, db: Connection, ref: SetRef) -> SetInfo | None:
        return next(iter(sets_of(db, ref.scope, ref.name)), None)

    @reads
    def set_infos(self, db: Connection, scope: Scope) -> list[SetInfo]:
        return sets_of(db, scope)

    @reads
    def all_sets(self, db: Connection, scope: Scope) -> list[SetRef]:
        rows = query(db, _SETS, scope.space, scope.key or "")
        return [SetRef(scope, name) for (name,) in rows]

    @reads
    def sets_of_item(self, db: Connection, space: str, item_id: str) -> list[SetRef]:
        rows = query(db, _SETS_OF_ITEM, space, item_id)
        return [SetRef(Scope(space, key), name) for key, name in rows]

    @reads
    def sets_with_metadata(self, db: Connection, space: str, name: str, text: str) -> list[SetRef]:
        rows = query(db, _SETS_WITH_METADATA, space, name, text)
        return [SetRef(Scope(space, key), name) for (key,) in rows]

    @reads
    def get(
        self, db: Connection, ref: SetRef, ids: Sequence[str], *, at: int | None = None
    ) -> list[StoredItem | None]:
        if at is None and len(ids) >= MIN_BULK_IDS and "\0" not in "".join(ids):  # as in a carray
            found = self._first_found(db, ref, BY_IDS, db.texts(ids))
            by_id = {one.record.id: one for one in found}
            return [by_id.get(item_id) for item_id in ids]
        sql, moment = (BY_ID, ()) if at is None else (BY_ID_AT, (at,))
        for number in self._set_numbers(db, ref):
            if len(ids) == 1:  # a separate path: reads of one id are the most frequent
                row = db.execute(sql, (number, ids[0], *moment)).get
                if row is not None:
                    return [self._stored(row, ref)]
                continue
            rows_of_ids = db.query_all(*[(sql, (number, item_id, *moment)) for item_id in ids])
            if any(rows_of_ids):
                return [self._stored(rows[0], ref) if rows else None for rows in rows_of_ids]
        return [None] * len(ids)

    @reads
    def page(
        self,
        db: Connection,
        ref: SetRef,
        *,
        after: tuple[int, int] | None = None,
        limit: int = 256,
        newest_first: bool = False,
        at: int | None = None,
    ) -> list[StoredItem]:
        sql = page_sql(newest_first=newest_first, at=at is not None, after=after is not None)
        bindings = (limit, *(() if at is None else (at,)), *(after or ()))
        return self._first_found(db, ref, sql, *bindings)

    @reads
    def versions(self, db: Connection, ref: SetRef, item_id: str) -> list[StoredItem]:
        return self._first_found(db, ref, VERSIONS, item_id)

    @reads
    def all_versions(
        self, db: Connection, ref: SetRef, *, after: tuple[str, int] | None = None, limit: int = 256
    ) -> list[StoredItem]:
        return self._first_found(db, ref, EVERY_VERSION, *(after or ("", -1)), limit)

    def _first_found(
        self, db: Connection, ref: SetRef, sql: str, *bindings: object
    ) -> list[StoredItem]:
        """Return the items that the query *sql* finds in a set.

        The first binding is the set's number, and *bindings* follow.
        """
        for number in self._set_numbers(db, ref):
            if rows := query(db, sql, number, *bindings):
                return [self._stored(row, ref) for row in rows]
        return []

    def _set_numbers(self, db: Connection, ref: SetRef) -> Iterator[int]:
        """Yield the cached number of a set, then its current number if that differs.

        The numbers differ if the set was erased and made again.
        """
        cached = self._cache.sets.get(ref)
        if cached is not None:
            yield cached[0]
        number = set_number(db, ref)
        if number is not None and (cached is None or number != cached[0]):
            yield number

    def _stored(self, row: Row, ref: SetRef) -> StoredItem:
        return stored_item(row, ref, self._touch_times.get(row[1]))

    @reads
    def items_by_row(self, db: Connection, rows: Sequence[int]) -> list[StoredItem]:
        return self._versions(db, rows)

    def _versions(self, db: Connection, rows: Sequence[int]) -> list[StoredItem]:
        if not rows:
            return []
        numbers = (db.numbers(rows),)
        versions, sets = db.query_all((BY_ROW, numbers), (REFS, numbers))
        by_row = {row[0]: row for row in versions}
        refs = {number: ref_of(*names) for number, *names in sets}
        wanted = [by_row[row] for row in rows if row in by_row]
        # A set may have been erased between the two queries.
        return [self._stored(row, refs[row[19]]) for row in wanted if row[19] in refs]

    @reads
    def expired_items(self, db: Connection, *, now: int, limit: int = 1000) -> list[StoredItem]:
        return self._versions(db, sorted(row for (row,) in query(db, _EXPIRED_ITEMS, now, limit)))

    @reads
    def compactions(
        self, db: Connection, ref: SetRef, *, before: int | None = None, limit: int = 100
    ) -> list[Compaction]:
        where = "set_id = ? AND compaction.id < ? ORDER BY compaction.id DESC LIMIT ?"
        last = (1 << 63) - 1 if before is None else before
        for number in self._set_numbers(db, ref):
            if done := stored_compactions(db, where, number, last, limit):
                return done
        return []

    @reads
    def compaction(self, db: Connection, compaction: int) -> Compaction | None:
        return stored_compaction(db, compaction)

    @reads
    def source_links(self, db: Connection, rows: Sequence[int]) -> list[tuple[int, int]]:
        return query(db, _LINKS.format("row"), db.numbers(rows))

    @reads
    def derived_links(self, db: Connection, rows: Sequence[int]) -> list[tuple[int, int]]:
        return query(db, _LINKS.format("source"), db.numbers(rows))

    @writes
    def renew(self, db: Connection, expiries: Sequence[tuple[int, int]], *, now: int) -> int:
        return sum(
            len(list(query(db, _RENEW, row, expires, now))) for row, expires in sorted(expiries)
        )

    @writes
    def put_note(
        self, db: Connection, name: str, text: str | None, *, expected: str | None
    ) -> bool:
        self._cache = WriterCache()
        return put_note(db, name, text, expected)

    @writes
    def sweep(self, db: Connection, *, now: int, ops_kept: int = OPS_KEPT) -> int:
        self._cache = WriterCache()
        return past.sweep(db, now=now, ops_kept=ops_kept, sees_all=self.is_owner)

    @writes
    def prune_history(
        self, db: Connection, *, before: int, after: int = 0, limit: int = 10_000
    ) -> tuple[int, int | None]:
        return past.prune_nodes(db, before=before, after=after, limit=limit)

    def erase(self, erasure: Erasure) -> Erased:
        """See `Ledger.erase`."""
        try:
            erased = self._erase(erasure, self.salt())
        except DryRunDone as rehearsed:
            return replace(rehearsed.erased, commit=None)
        self._known.trees.clear()
        return erased

    @writes
    def _erase(self, db: Connection, erasure: Erasure, salt: bytes) -> Erased:
        self._cache = WriterCache()
        erased = self._eraser(self._transaction(db, WriterCache()), erasure, salt).run()
        if erasure.dry_run:
            raise DryRunDone(erased)
        return erased


def _nodes(
    db: Connection, where: str, *bindings: object
) -> list[tuple[TreePath, Node, int, int | None]]:
    sql = f"SELECT parent, name, value, expires, place, ended FROM node WHERE {where}"  # noqa: S608 - ours
    return [
        ((*split(parent), *split(name)), node_of(value, expires), position, end)
        for parent, name, value, expires, position, end in query(db, sql, *bindings)
    ]


def _items(db: Connection, where: str, *bindings: object) -> list[StoredItem]:
    rows = query(db, f"{ITEM} WHERE {where} ORDER BY item.row", *bindings)
    refs = set_refs(db, sorted({row[19] for row in rows}))
    return [stored_item(row, refs[row[19]]) for row in rows if row[19] in refs]


def table_stats(db: Connection) -> StoreStats:
    """Return the statistics that the tables give; the engine adds the sizes of files."""
    commits = db.execute("SELECT coalesce(max(n), 0) FROM journal AS every_commit").get
    keys = db.execute("SELECT count(*) FROM scope WHERE key != '' AND space != ''").get
    sets, items = db.execute("SELECT count(*), coalesce(sum(items), 0) FROM memory_set").get
    pending, oldest = db.execute(
        "SELECT count(*), min(every_commit.time) FROM feature "
        "JOIN journal AS every_commit ON every_commit.n = feature.begun WHERE vectors IS NULL"
    ).get
    leases = query(
        db, "SELECT space, key, owner, epoch FROM lease WHERE owner IS NOT NULL ORDER BY space, key"
    )
    unfinished = dict(
        query(db, "SELECT status, count(*) FROM run WHERE ended IS NULL GROUP BY status")
    )
    return StoreStats(
        commits=commits,
        keys=keys,
        sets=sets,
        items=items,
        item_versions=db.execute("SELECT count(*) FROM item").get,
        nodes=db.execute("SELECT count(*) FROM node WHERE ended IS NULL").get,
        pending=pending,
        oldest_pending=oldest,
        file_bytes=0,
        wal_bytes=0,
        runs_waiting=unfinished.get(0, 0),
        runs_parked=unfinished.get(1, 0),
        runs_ended=db.execute("SELECT count(*) FROM run WHERE ended IS NOT NULL").get,
        leases=[Lease(Scope(s, k or None), owner, epoch) for s, k, owner, epoch in leases],
    )
