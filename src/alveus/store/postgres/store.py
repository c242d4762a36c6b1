"""The store on a PostgreSQL server: one memory for many hosts."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal, Self, TypeVar, cast

import psycopg

from alveus.errors import Unusable
from alveus.store import (
    MAX_SHRUNK_BYTES,
    Accepted,
    CandidateQuery,
    Commit,
    Feature,
    LargeSet,
    Lease,
    QueuedInput,
    Scope,
    SearchCache,
    SearchView,
    SetRef,
    StoredOutput,
    StoreStats,
    UnreachableCopy,
)
from alveus.store.postgres import erasing, health, large_sets, schema
from alveus.store.postgres.connection import EPOCH, PostgresConnection, ServerLocation
from alveus.store.postgres.database import FLUSH, POOL, PostgresDatabase
from alveus.store.postgres.finder import read_view
from alveus.store.postgres.health import HealthCheck
from alveus.store.postgres.schema import RoleGrants
from alveus.store.scope import end_of_prefix
from alveus.store.sql import erasing as sql_erasing
from alveus.store.sql import ledger, past
from alveus.store.sql.connection import Connection, first, query
from alveus.store.sql.database import SetSnapshot, explaining, reads
from alveus.store.sql.finder import SNAPSHOTS, SqlFinder
from alveus.store.sql.lanes import SqlLanes
from alveus.store.sql.ledger import SqlLedger

R = TypeVar("R")

_FLUSH = f"{FLUSH}, {EPOCH}"

_TOUCH = """
    INSERT INTO access (first, time) SELECT ?1, ?2
    WHERE EXISTS (SELECT 1 FROM item WHERE first = ?1)  -- else a policy refuses the row
    ON CONFLICT (first) DO UPDATE SET time = max(access.time, excluded.time)
"""

_SIZE = """
    SELECT sum(pg_total_relation_size(pg_class.oid)) FROM pg_catalog.pg_class
    WHERE relnamespace = ?::text::regnamespace AND relkind = 'r'
"""

_KEYS = """
    SELECT key FROM scope WHERE space IS ?1
        AND key_start >= greatest(left(?2, 64) COLLATE "C", left(?4, 64)) AND key > ?2 AND key >= ?4
        AND (?5::text IS NULL OR key_start <= left(?5, 64) AND key < ?5)
    ORDER BY key_start, key LIMIT ?3
"""

IN_ORDER = """
    SELECT set_config('enable_sort', 'off', TRUE), set_config('enable_seqscan', 'off', TRUE),
        set_config('enable_bitmapscan', 'off', TRUE)
"""
"""Settings for one transaction, which make the planner read an index in order.

The planner has no statistics of the columns. Without the settings, it would read and sort all later
keys for each page.
"""

_SPACES = """
    WITH RECURSIVE each (name) AS (
        (SELECT space_digest FROM scope ORDER BY space_digest LIMIT 1)
        UNION ALL
        SELECT (SELECT space_digest FROM scope WHERE space_digest > each.name
            ORDER BY space_digest LIMIT 1) FROM each WHERE each.name IS NOT NULL
    )
    SELECT found.space FROM each CROSS JOIN LATERAL (
        SELECT space FROM scope WHERE space_digest = each.name AND key_start > ''
        ORDER BY key_start LIMIT 1
    ) AS found ON TRUE WHERE found.space != '' ORDER BY found.space
"""


class PostgresStore(SqlLedger, SqlFinder, SqlLanes, PostgresDatabase):
    """A `Store` on a PostgreSQL server. `PostgresStore.open` opens it."""

    touch_sql = _TOUCH

    _has_large_sets = False
    _epoch = 0

    @classmethod
    def open(
        cls,
        url: str,
        *,
        read_only: bool = False,
        durability: Literal["full", "normal"] = "full",
        wait_s: float = 10,
    ) -> Self:
        """Open the store at *url*, and create or migrate its tables if needed.

        Args:
            url: See `ServerLocation.of`.
            durability: With "full", a commit is on the server's disk when it is returned. With
                "normal", a crash of the server may lose the last commits.
            wait_s: The longest wait for a connection, and for other writers.

        Raises:
            InvalidInput: The URL cannot be parsed.
            NotAStore: The schema has no tables of alveus, and the store is opened read-only.
            StoreTooNew: The tables have a schema that only a newer alveus may use.
            StoreTooOld: The tables have an older schema, and this user or handle may not migrate
                them.
            Unavailable: The server cannot be reached.
        """
        store = cls(
            ServerLocation.of(url), read_only=read_only, durability=durability, wait_s=wait_s
        )
        try:
            store._connect()
            store._prepare()
        except BaseException:
            store.close()
            raise
        return store

    @reads
    def _prepare(self, db: Connection) -> None:
        """Create or migrate the tables. Each step is one transaction, and may be retried."""
        schema.prepare(
            cast("PostgresConnection", db),
            self._server,
            read_only=self._read_only,
            wait_s=self._wait_s,
        )
        self.is_owner = schema.is_owner(db, self._server.schema)
        if not self.is_owner:
            self._eraser = erasing.GuestEraser

    @explaining
    def _connect(self) -> None:
        """Make a first connection, so that the caller gets its error, and open the pool."""
        try:
            with psycopg.connect(
                self._server.conninfo, **dict[str, Any](self._server.defaults)
            ) as first:
                encoding = first.info.parameter_status("server_encoding")
        except psycopg.ProgrammingError as error:
            raise Unusable(f"{self.location} is not a URL of PostgreSQL: {error}") from None
        if encoding not in {"UTF8", None}:  # a pooler may not say
            raise Unusable(
                f"{self.location}: the encoding {encoding} of the database cannot hold every "
                "text; create a database with: createdb --encoding=UTF8 --template=template0 "
                "NAME"
            )
        self._pool.open()

    def acquire_lease(self, scope: Scope, owner: str) -> Lease | None:
        """See `Ledger.acquire_lease`."""
        self._enlist(owner)
        return super().acquire_lease(scope, owner)

    def accept(
        self, agent: str, inputs: Sequence[QueuedInput], *, owner: str | None = None
    ) -> list[Accepted]:
        """See `Lanes.accept`."""
        if owner is not None:
            self._enlist(owner)
        return super().accept(agent, inputs, owner=owner)

    def _enlist(self, owner: str) -> None:
        """Enlist an owner before the lock is taken.

        If it were enlisted under the lock, this thread could wait for a connection that another
        thread uses, which waits for the lock.
        """
        if not (self._read_only or self._owners.has(owner)):
            self._enlist_now(owner)

    @reads
    def _enlist_now(self, db: Connection, owner: str) -> None:
        self._owners.enlist_by(cast("PostgresConnection", db), owner)

    @reads
    def check_access(self, db: Connection, space: str, knowledge: str) -> None:
        """Raise `AccessDenied` unless this user was granted both the space and the knowledge."""
        if not self.is_owner:
            homes = [*schema.homes_of(space, None)[:1], *schema.homes_of(space, knowledge)]
            schema.check_access(db, self.location, homes)

    @reads
    def grants(self, db: Connection) -> list[RoleGrants]:
        """Return the grants of all roles.

        Raises:
            AccessDenied: This user is not the owner of the tables.
        """
        return schema.grants(db)

    @explaining
    def grant(self, role: str, *, space: str = "", knowledge: str | None = None) -> RoleGrants:
        """Let *role* use *knowledge* or, if that is None, *space* and the knowledge of its name.

        Returns everything that the role may use after the call.

        Raises:
            AccessDenied: This user is not the owner of the tables.
            InvalidInput: The server has no such role.
        """
        with self.writing() as db:
            schema.grant(db, self._server.schema, role, schema.homes_of(space, knowledge))
            return schema.granted_to(db, role)

    @explaining
    def revoke(self, role: str, *, space: str = "", knowledge: str | None = None) -> RoleGrants:
        """Take a grant back from *role*, and return everything that the role may still use.

        Open handles of the role then find no data in the space or the knowledge.

        Raises:
            AccessDenied, InvalidInput: See `grant`.
        """
        with self.writing() as db:
            schema.revoke(db, self._server.schema, role, schema.homes_of(space, knowledge))
            return schema.granted_to(db, role)

    @reads
    def search_view(
        self, db: Connection, sets: Sequence[SetRef] | Scope, cached: SearchCache
    ) -> SearchView:
        names = sets if isinstance(sets, Scope) else tuple(sets)
        last = self._snapshots.get(None)
        version, view = read_view(db, names, cached, last)
        if last is not None and cast("tuple[int, int]", last.version)[1] != view.epoch:
            last = None
            version, view = read_view(db, names, SearchCache(notes=cached.notes), None)
        if last is None or last.version != version or len(last.sets) >= SNAPSHOTS:
            last = self._snapshots[None] = SetSnapshot(version, view.seq, {})
        last.sets[names] = view.sets
        return view

    @property
    def large_items(self) -> int | None:
        """See `Finder.large_items`."""
        return self._builder.large

    @reads
    def large_set(
        self, db: Connection, set_number: int, terms: Sequence[int], *, dimensions: int
    ) -> LargeSet | None:
        def wake() -> None:
            if not self._read_only:
                self._builder.wake(dimensions)

        if not self._has_large_sets:
            name = f"{self._server.schema}.large_set"
            self._has_large_sets = first(db, large_sets.IS_THERE, name)
        if not self._has_large_sets or not dimensions:
            wake()
            return None
        return large_sets.read_large_set(db, set_number, terms, dimensions=dimensions, wake=wake)

    @reads
    def features_of(self, db: Connection, set_number: int, rows: Sequence[int]) -> list[Feature]:
        found = query(db, large_sets.FEATURES_OF, set_number, db.numbers(rows)) if rows else ()
        return [Feature._make(row) for row in found]

    @reads
    def candidates(
        self, db: Connection, set_number: int, wanted: CandidateQuery, *, dimensions: int
    ) -> list[Feature]:
        rows = large_sets.read_candidates(db, set_number, wanted, dimensions=dimensions)
        return [Feature._make(row) for row in rows]

    @reads
    def neighbours(self, db: Connection, set_number: int, rows: Sequence[int]) -> list[list[int]]:
        (windows,) = db.query_all((large_sets.AROUND, (set_number, db.numbers(rows))))
        return [window for (window,) in windows]

    @explaining
    def build_large_sets(self, dimensions: int) -> bool:
        """Bring the server's index of large sets up to date.

        Returns False if the server lacks pgvector, or this user may not create tables.

        Raises:
            StoreBusy: Another process does this.
        """
        return self._builder.build(dimensions)

    def outputs(
        self, agent: str, space: str, *, after: int = 0, limit: int = 100
    ) -> list[StoredOutput]:
        """See `Lanes.outputs`. The returned outputs are on the server's disk."""
        return self._on_disk(
            functools.partial(super().outputs, agent, space, after=after, limit=limit)
        )

    def run_outputs(self, run: int) -> list[StoredOutput]:
        """See `Lanes.run_outputs`. The returned outputs are on the server's disk."""
        return self._on_disk(functools.partial(super().run_outputs, run))

    def commit_of_op(self, op: bytes, *, request: bytes | None, label: str) -> Commit | None:
        """See `Ledger.commit_of_op`. The returned commit is on the server's disk."""
        return self._on_disk(
            functools.partial(super().commit_of_op, op, request=request, label=label)
        )

    def _on_disk(self, read: Callable[[], R]) -> R:
        """Call *read*, and return its result once the commits that it saw are on the server's disk.

        Other hosts see a commit a moment before it is on the disk. A crash in that moment may lose
        the commit. If the server may have crashed, *read* is called again.
        """
        while True:
            known = self._epoch, self._losses
            found = read()
            if not found or known == (self._flush(), self._losses):
                return found

    @reads
    def _flush(self, db: Connection) -> int:
        """Wait until all commits so far are on the server's disk, and return the epoch.

        With the durability "normal", or in a read-only store, does not wait, and returns the last
        known epoch.
        """
        if self._durability == "full" and not self._read_only:
            _, self._epoch = db.execute(_FLUSH).get
        return self._epoch

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
        page = _KEYS, (space, after or "", limit, prefix, end_of_prefix(prefix))
        *_, keys, _ = db.query_all(("BEGIN READ ONLY", ()), (IN_ORDER, ()), page, ("COMMIT", ()))
        return [key for (key,) in keys]

    @reads
    def spaces(self, db: Connection) -> list[str]:
        return [space for (space,) in query(db, _SPACES)]

    @reads
    def health(self, db: Connection) -> list[HealthCheck]:
        """Return the results of the checks that `alveus doctor` makes."""
        schema = self._server.schema
        return list(health.health(db, schema, is_owner=self.is_owner, pool=POOL))

    @reads
    def size_bytes(self, db: Connection) -> int:
        return first(db, _SIZE, self._server.schema) or 0

    @reads
    def stats(self, db: Connection) -> StoreStats:
        return replace(
            ledger.table_stats(db),
            file_bytes=first(db, _SIZE, self._server.schema) or 0,
            details={
                "postgresql": first(db, "SHOW server_version"),
                "schema": first(db, "SELECT schema FROM ledger"),
                "versions_to_sweep": past.count_overdue(db),
            },
        )

    def shrink(self, *, limit: int = MAX_SHRUNK_BYTES, keep_free: float = 0.0) -> int:  # noqa: ARG002 - the signature of `Ledger.shrink`
        """Return 0, as autovacuum makes the space of deleted rows reusable."""
        self.check_open()
        return 0

    @reads
    def copies(self, db: Connection, *, scrubbed: int | None) -> list[UnreachableCopy]:
        """Return possible copies outside the tables of rows that were erased before *scrubbed*."""
        return list(erasing.copies(db, scrubbed))

    @explaining
    def scrub(self, *, now: int) -> list[str]:
        """See `Ledger.scrub`."""
        began = time.monotonic()
        with self.writing() as db:
            unfinished = sql_erasing.tidy_receipts(db, now=now)
        if not unfinished:
            return []
        if self.is_owner:
            with self._lend() as db:
                hindrances = erasing.vacuum(db, self._server.schema)
                erasing.end_segment(db)
        else:
            hindrances = ["only the owner of the tables may vacuum them: have it run alveus scrub"]
        now += round((time.monotonic() - began) * 1_000_000)  # the log may hold rows until then
        with self.writing() as db:
            unfinished = sql_erasing.unfinished_receipts(db)
            return sql_erasing.finish_receipts(db, unfinished, hindrances, now=now)
