"""An open PostgreSQL database: its pool, its transactions, and commits whose answer was lost.

No setting must last longer than a transaction, so a pooler may be used.
"""

from __future__ import annotations

import itertools
import os
import secrets
import time
import weakref
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Literal, NamedTuple, cast

import psycopg
from psycopg import errors
from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout

from alveus.errors import (
    AccessDenied,
    AlveusError,
    ForkedStore,
    StoreBusy,
    StoreClosed,
    StoreReadOnly,
    StoreTooNew,
    Unavailable,
)
from alveus.store.commit_queue import CommitTicket
from alveus.store.postgres import connection
from alveus.store.postgres.connection import (
    BEGIN,
    EPOCH,
    OutageLog,
    PipelinedConnection,
    PostgresConnection,
    ServerLocation,
    is_lost,
)
from alveus.store.postgres.dialect import adapt
from alveus.store.postgres.drafting import (
    ATTEMPT,
    DISMISS,
    FENCE,
    LOOK,
    REFUSED,
    SELF_REFUSED,
    DraftBase,
    DraftConnection,
    GroupDraft,
    Known,
    NotADraft,
    Overtaken,
    drafted,
    may_be_drafted,
    only_adds,
)
from alveus.store.postgres.large_sets import LargeSetBuilder
from alveus.store.postgres.owners import ServerOwners
from alveus.store.postgres.schema import SCHEMA, check_least
from alveus.store.sql.connection import Connection, Query, first
from alveus.store.sql.database import TRIES, SqlDatabase, explaining
from alveus.store.sql.transaction import Transaction, answers_of
from alveus.store.sql.writer import WriterCache
from alveus.values.forks import HandleLock

POOL = 8
"""The most connections of one open store."""

IDLE_S = 10.0
"""The longest time that the server waits for a host's next statement within a transaction.

See docs/postgres.md.
"""

UNKNOWN_S = 30.0
"""The longest wait for the outcome of a commit whose answer was lost."""

REDRAFTS = 3
"""How often a group is drafted again after other hosts were faster, before it takes the lock."""

DRAFT_S = 60.0
"""The longest time of a small draft from the lock to its COMMIT; see `_limit_ms`."""

SLOWEST_BYTES_S = 100_000
"""The slowest accepted speed at which a host sends a draft, in bytes per second."""

UTF8_BYTES = 4
"""The most bytes of a character in UTF-8."""

LIMITS_TRANSACTIONS = 170_000
"""The first version of PostgreSQL that can end a transaction which takes too long."""

POLL_S = 0.02
"""The pause between two polls for the outcome of a commit, or for an exclusive right."""

_LOCK = f"""
    WITH settings AS MATERIALIZED (
        SELECT set_config('lock_timeout', ?, TRUE),
            set_config('idle_in_transaction_session_timeout', ?, TRUE),
            set_config('synchronous_commit', 'off', TRUE))
    SELECT version, structure, number, time, {EPOCH}, schema, least
    FROM ledger, settings FOR UPDATE OF ledger
"""  # noqa: S608 - ours
"""Makes the settings of the transaction, waits for the lock, and reads the ledger."""

_NUMBER = """
    UPDATE ledger SET version = version + 1,
        number = coalesce((SELECT max(n) FROM journal AS every_commit), 0),
        time = coalesce((SELECT time FROM journal AS every_commit ORDER BY n DESC LIMIT 1), 0)
"""

FLUSH = "SELECT pg_logical_emit_message(TRUE, 'alveus', '')"
"""A statement without effects, whose commit waits until the disk has all earlier commits."""

_UNKNOWN = (
    "{}: the connection broke during a commit, which may have been made; check the data, or "
    "repeat the call with an idempotency key"
)

_NOT_FLUSHED = (
    "{}: a commit was made, but the server did not confirm that it is on disk ({}); correct the "
    "cause, and do not repeat the commit"
)


class ConnectionLost(Exception):
    """The connection broke before anything was committed."""


class _Seen(NamedTuple):
    """The state of the database that the cache of this host reflects.

    Attributes:
        version: The version of the ledger, which changes with every transaction that writes. None
            if the cache may be outdated.
        structure: A number that changes with the numbers of keys and sets, and with notes. None if
            nothing is known.
        epoch: See `SearchView`.
        losses: How many connections had broken. A broken connection may mean a crash, and
            PostgreSQL 14 does not show every crash in *epoch*.
    """

    version: int | None = None
    structure: int | None = None
    epoch: int = 0
    losses: int = 0


class PostgresDatabase(SqlDatabase):
    """An open database, to which one thread of all hosts writes at a time, while others read."""

    def __init__(
        self,
        server: ServerLocation,
        *,
        read_only: bool,
        durability: Literal["full", "normal"],
        wait_s: float,
    ) -> None:
        super().__init__(read_only=read_only)
        self._server, self._durability, self._wait_s = server, durability, wait_s
        self._seen = _Seen()
        self._losses = 0
        self._turn = HandleLock()
        self._host = secrets.randbits(63)
        self._attempts = itertools.count(1)
        self._is_alone = False  # no other host wrote between this host's last two commits
        self._written: tuple[int | None, int] = None, 0  # version and epoch after the last commit
        self._process = os.getpid()
        self._closed = False
        name = f"alveus-{self._host:x}"
        log = OutageLog(name, server.display_url)
        self._pool: ConnectionPool[PipelinedConnection] = ConnectionPool(
            server.conninfo,
            connection_class=PipelinedConnection,
            min_size=1,
            max_size=POOL,
            timeout=max(wait_s, 1.0),
            open=False,
            name=name,
            num_workers=1,
            kwargs={"autocommit": True, "prepare_threshold": None, **server.defaults},
            configure=partial(_configure, log),
        )
        self._owners = ServerOwners(self._lend)
        self._builder = LargeSetBuilder(
            server.schema, lend=self._lend, write=self.writing, alone=self.alone
        )
        self._collected = weakref.finalize(self, _close, self._pool, log)
        self._collected.atexit = False
        log.begin()

    @property
    def location(self) -> str:
        """The URL, without its password."""
        return self._server.display_url

    def explained(self, error: Exception) -> AlveusError | None:
        """See `SqlDatabase.explained`."""
        if isinstance(error, ConnectionLost):
            error = cast("Exception", error.__cause__)
        if isinstance(error, PoolTimeout):
            return Unavailable(
                f"{self.location}: no connection within {self._wait_s:g} s; the server is away, or "
                "all connections are in use"
            )
        if isinstance(error, PoolClosed):
            return StoreClosed(f"{self.location} was closed; open it again")
        return connection.explained(error, self.location)

    def is_worth_another_try(self, error: Exception) -> bool:
        """See `SqlDatabase.is_worth_another_try`. Also replaces all broken connections."""
        if not isinstance(error, ConnectionLost):
            return False
        with suppress(psycopg.Error, PoolTimeout):  # the next try raises the error
            self._pool.check()
        return True

    def check_open(self) -> None:
        """See `SqlDatabase.check_open`."""
        if self._process != os.getpid():
            raise ForkedStore(
                f"{self.location} was opened before a fork; open it again in the child"
            )
        if self._closed:
            raise StoreClosed(f"{self.location} was closed; open it again")

    @contextmanager
    def _lend(self) -> Generator[PostgresConnection]:
        """Yield a connection for a block, in which each round trip is a transaction."""
        self.check_open()
        try:
            with self._pool.connection() as raw:
                db = PostgresConnection(raw, self._server.schema)
                yield db
                db.settle()
        except (psycopg.Error, ConnectionLost) as error:
            if isinstance(error, ConnectionLost) or is_lost(error):
                self._losses += 1
            raise

    @contextmanager
    def reader(self) -> Generator[PostgresConnection]:
        """Yield a connection for a block, in which each round trip is a transaction.

        Raises:
            ConnectionLost: The connection broke.
        """
        with self._lend() as db:
            try:
                yield db
            except psycopg.Error as error:
                if is_lost(error):
                    raise ConnectionLost from error
                raise

    @contextmanager
    def writing(self, *, together: bool = False) -> Generator[PostgresConnection]:
        """Yield a connection in a transaction that holds the lock of the ledger.

        The transaction is committed after the block, or rolled back if the block raises.

        Args:
            together: See `PostgresConnection`. If True, the transaction has no savepoint.

        Raises:
            ConnectionLost: The connection broke, and nothing was committed.
            Unavailable: The connection broke, and the server does not say whether the transaction
                was committed.
            StoreBusy: Another thread of this host was writing for too long.
            StoreReadOnly: The store was opened read-only.
        """
        if self._read_only:
            raise StoreReadOnly(f"{self.location} was opened read-only; open it without mode='ro'")
        with self._one_writer(), self.reader() as db:
            try:
                seen = self._begin(db)
                db.together = together
                if not together:
                    db.execute("SAVEPOINT batch")
                yield db
            except BaseException:
                _roll_back(db)
                raise
            self._commit(db)
            self._seen, self._written = seen, (seen.version, seen.epoch)

    @contextmanager
    def _one_writer(self) -> Generator[None]:
        """Let one thread of this host write at a time, because threads share the cache.

        Raises:
            StoreBusy: Another thread was writing for too long.
        """
        if not self._turn.acquire(timeout=self._wait_s):
            raise StoreBusy(
                f"{self.location}: another thread has been writing for too long; try again, or "
                "raise wait_s"
            )
        try:
            yield
        finally:
            self._turn.release()

    def _begin(self, db: PostgresConnection) -> _Seen:
        """Take the lock, and return the state that the cache will reflect after the commit.

        If another host has written, versions are dropped from the cache, and everything is dropped
        if the structure has changed.
        """
        losses, seen = self._losses, self._take_seen()
        db.execute(BEGIN)
        waits = [str(max(1, round(seconds * 1000))) for seconds in (self._wait_s, IDLE_S)]
        version, structure, number, time, epoch, *schemas = db.execute(_LOCK, waits).get
        check_least(self._server, *schemas)
        self._is_alone = (version, epoch) == self._written
        if (version, epoch) != (seen.version, seen.epoch):
            same = (structure, epoch) == (seen.structure, seen.epoch)
            self._cache = self._cache.without_versions() if same else WriterCache()
            self._cache.number, self._cache.time = number, time
        return _Seen(version + 1, structure, epoch, losses)

    def _take_seen(self) -> _Seen:
        """Return the state that the cache reflects, and forget it until the next commit succeeds.

        After a connection broke, the returned state is empty: a crashed server may have lost rows,
        and may give their numbers to other rows.
        """
        seen, self._seen = self._seen, _Seen()
        return seen if seen.losses == self._losses else self._seen

    def _commit(self, db: PostgresConnection) -> None:
        attempt = next(self._attempts)
        last = [(_NUMBER, ()), (ATTEMPT, (self._host, attempt)), ("COMMIT", ())]
        before = db.waiting + len(last) - 1
        try:
            db.query_all(*last, *self._flushes())
        except psycopg.Error as error:
            if self._outcome(db, error, attempt, before_commit=before) is None:
                raise

    def _flushes(self) -> list[Query]:
        """Return the statements that must follow a COMMIT for the store's durability."""
        return [(FLUSH, ())] if self._durability == "full" else []

    def _outcome(
        self, db: PostgresConnection, error: psycopg.Error, attempt: int, *, before_commit: int
    ) -> DraftBase | None:
        """Find out whether the commit of *attempt* was made, although sending it raised *error*.

        Returns the state of the ledger before the commit if it was made, or None if the server
        refused it.

        Args:
            before_commit: How many statements were sent before the COMMIT.

        Raises:
            ConnectionLost: The connection broke, and nothing was committed.
            Unavailable: The server does not answer, or did not write the commit to its disk.
        """
        lost, done = is_lost(error), db.raw.done
        if not lost:
            _roll_back(db)
            if done < before_commit:
                return None  # else the error may come from a statement after the COMMIT
        base = self._appended(attempt)
        if base is None and lost:
            raise ConnectionLost from error
        return base

    def _appended(self, attempt: int) -> DraftBase | None:
        """Return the state of the ledger before the commit of *attempt*, whose answer was lost.

        Returns None if the commit was not made; a fence then makes the server refuse the attempt
        if it still arrives.

        Raises:
            Unavailable: The server does not answer, or did not write the commit to its disk.
        """
        deadline = time.monotonic() + UNKNOWN_S
        while time.monotonic() < deadline:
            is_made = False
            try:
                with self._lend() as db:
                    last, number, then, run = db.execute(FENCE, (self._host, attempt)).get
                    if last != attempt:
                        return None
                    is_made = True
                    db.execute(FLUSH)  # the caller will rely on the commit
                    db.finish()
                    return DraftBase(number, then, None, run)
            except psycopg.Error as error:
                if is_made and not is_lost(error):
                    raise Unavailable(_NOT_FLUSHED.format(self.location, error)) from error
            time.sleep(POLL_S)
        raise Unavailable(_UNKNOWN.format(self.location))

    def _transaction(self, db: Connection, cache: WriterCache | None = None) -> Transaction:
        owners = self._owners.within(db)
        return Transaction(db, self._cache if cache is None else cache, owners).begun()

    @explaining
    def _commit_group(self, group: list[CommitTicket]) -> None:
        for tries_left in range(TRIES - 1, -1, -1):
            try:
                self._commit_once([ticket for ticket in group if not ticket.settled])
            except ConnectionLost as error:
                if not (tries_left and self.is_worth_another_try(error)):
                    raise
            else:
                return

    def _commit_once(self, group: list[CommitTicket]) -> None:
        drafts = [ticket for ticket in group if may_be_drafted(ticket)]
        # inputs first, so that none reads rows that a commit ends
        drafts.sort(key=lambda ticket: bool(ticket.batches))
        if drafts and not self._read_only:
            self._commit_drafts(drafts)
            group = [ticket for ticket in group if not ticket.settled]
            if not group:
                return
        try:
            self._try_group(group, together=True)
        except errors.UniqueViolation:  # nothing was committed; find the commit that is refused
            self._try_group(group, together=False)

    def _try_group(self, group: list[CommitTicket], *, together: bool) -> None:
        """Do the work of a group under the lock.

        Args:
            together: Send writes with the COMMIT. This saves round trips, but if the server refuses
                a write, it refuses the whole group.
        """
        with self.writing(together=together) as db:
            touched = self._flush_touches(db)
            if not together:
                db.execute("SAVEPOINT batch")
            answers = answers_of(self._transaction(db), group)
        self._drop_touches(touched)
        for ticket, answer in zip(group, answers, strict=True):
            ticket.settle(answer)

    def _commit_drafts(self, group: list[CommitTicket]) -> None:
        """Commit the tickets of a group that can be drafted. The other tickets stay unsettled.

        A group that cannot be drafted is split, and each part is tried. But if this host writes
        alone, no other host waits for the lock; then the group is not split, and its tickets stay
        unsettled. Raises the errors of `writing`.
        """
        parts, others_wait = [group], False
        while parts:
            part = parts.pop()
            try:
                self._commit_part(part)
            except NotADraft as found:
                others_wait = others_wait or not self._is_alone
                if others_wait and len(part) > 1:
                    apart = found.position or 1
                    parts += [part[apart:], part[:apart]]
            except Overtaken:
                pass  # other hosts were faster each time: the part must take the lock

    def _commit_part(self, group: list[CommitTicket]) -> None:
        """Commit a group as one draft, in several tries.

        Raises:
            NotADraft: The group cannot be drafted; nothing was done.
            Overtaken: Other hosts were faster each time; nothing was done.
        """
        with self._one_writer():
            was_alone = self._is_alone
            for tries_left in range(REDRAFTS, -1, -1):
                is_first = tries_left == REDRAFTS
                try:
                    with self.reader() as db:
                        self._commit_draft(db, group, is_first=is_first, was_alone=was_alone)
                        return
                except Overtaken:
                    self._is_alone = False
                    if not tries_left:
                        raise

    def _commit_draft(
        self, db: PostgresConnection, group: list[CommitTicket], *, is_first: bool, was_alone: bool
    ) -> None:
        """Commit a group as one draft, in one try.

        Args:
            is_first: Whether this is the first try. Only the first draft may guess, and may rely on
                the cache of this host.
            was_alone: Whether this host wrote alone until the first try, which may have failed by a
                wrong guess only.

        Raises:
            NotADraft: The group cannot be drafted; nothing was done.
            Overtaken: Other hosts were faster, or a guess was wrong; nothing was done.
        """
        losses, seen = self._losses, self._take_seen()
        known = self._draft_basis(db, seen, exact=not only_adds(group), look=not is_first)
        if was_alone and not is_first:
            self._is_alone = (known.read_version, known.epoch) == self._written
        before = _Seen(None, known.structure, known.epoch, losses)
        drafts_on = DraftConnection(db, known, guesses=is_first)
        self._cache, draft, is_made = known.cache, None, False
        try:
            draft = drafted(group, drafts_on, self._owners)
            touches = {} if draft.is_empty else self._touches()
            base = self._send_draft(db, draft, touches)
            is_made = not draft.is_empty
        except NotADraft:
            self._forget(seen if draft is None and known.version is None else before)
            raise
        except Overtaken:
            self._forget(before)
            raise
        finally:
            if drafts_on.numbers_rows and not is_made:  # the cache has numbers without a row
                self._seen, self._cache = _Seen(), WriterCache()
        self._keep(draft, base, seen, before, adds=only_adds(group))
        self._drop_touches(touches)
        for ticket, answer in zip(group, draft.answers_after(base), strict=True):
            ticket.settle(answer)

    def _draft_basis(
        self, db: PostgresConnection, seen: _Seen, *, exact: bool, look: bool
    ) -> Known:
        """Return the state from which a draft starts.

        Args:
            exact: Prefer an exact draft (see `drafting`) if this host writes alone.
            look: Read the ledger first, because the cache of this host may be outdated.
        """
        if not look and seen.structure is not None:
            version = seen.version if exact and self._is_alone else None
            return Known(version, version, seen.structure, seen.epoch, self._cache)
        version, structure, number, time, epoch, *schemas = db.execute(LOOK).get
        check_least(self._server, *schemas)
        same = (structure, epoch) == (seen.structure, seen.epoch)
        cache = self._cache.without_versions() if same else WriterCache()
        cache.number, cache.time = number, time
        return Known(None, version, structure, epoch, cache)

    def _forget(self, seen: _Seen) -> None:
        """Set the state that the cache reflects back to *seen*, after a draft was not committed."""
        self._seen = seen
        if seen.version is None:
            self._cache = self._cache.without_versions()

    def _keep(
        self, draft: GroupDraft, base: DraftBase, seen: _Seen, before: _Seen, *, adds: bool
    ) -> None:
        """Update the cache after a draft was committed, or was found to be empty."""
        if draft.is_empty:
            self._forget(before)
            return
        is_known = base.version is not None
        self._is_alone = is_known and (base.version, before.epoch) == self._written
        cache = self._cache
        if not draft.is_exact:
            if not (adds and is_known and base.version == seen.version):
                cache = cache.without_versions()
            cache.number, cache.time = base.number + draft.commits, max(draft.last_time, base.time)
            cache.corroborated = draft.cache.corroborated or cache.corroborated
        self._cache = cache
        version = None if base.version is None else base.version + 1
        self._seen, self._written = before._replace(version=version), (version, before.epoch)

    def _send_draft(
        self, db: PostgresConnection, draft: GroupDraft, touches: dict[int, int]
    ) -> DraftBase:
        """Send a draft, and return the state of the ledger before it.

        Raises the errors of `_commit_draft` and `_outcome`.
        """
        attempt, drafts_on = next(self._attempts), draft.connection
        is_limited = db.raw.info.server_version >= LIMITS_TRANSACTIONS
        limit_ms = _limit_ms(drafts_on.statements) if is_limited else None
        statements = [
            (BEGIN, ()),
            draft.begin(self._host, attempt, self._wait_s, limit_ms),
            *((self.touch_sql, row) for row in touches.items()),
            *drafts_on.statements,
        ]
        end = "ROLLBACK" if draft.is_empty else "COMMIT"
        flushes = [] if draft.is_refused else self._flushes()
        try:
            rows = db.query_all(*statements, (end, ()), *flushes)
        except psycopg.Error as error:
            if error.sqlstate == REFUSED:
                _roll_back(db)
                raise Overtaken from error
            if error.sqlstate == SELF_REFUSED or isinstance(error, errors.UniqueViolation):
                _roll_back(db)
                if drafts_on.guesses:  # a draft without guesses may succeed
                    raise Overtaken from error
                raise NotADraft(len(draft.answers) // 2) from error  # the bad ticket is unknown
            base = self._outcome(db, error, attempt, before_commit=len(statements))
            if base is None:
                raise
            return base
        return DraftBase(*rows[1][0][: len(DraftBase._fields)])

    @contextmanager
    def alone(self, what: str, *, wait_s: float) -> Generator[None]:
        """Hold an exclusive right, which one process of all hosts can hold, during a block.

        Args:
            what: The name of the right.

        Raises:
            StoreBusy: Another process held the right for longer than *wait_s*.
        """
        deadline = time.monotonic() + wait_s
        while not self._owners.take(what):
            if time.monotonic() > deadline:
                raise StoreBusy(
                    f"{self.location}: another process is doing this ({what}); try again when "
                    "it has ended"
                )
            time.sleep(POLL_S)
        try:
            yield
        finally:
            self._owners.dismiss(what)

    identity_override = "OVERRIDING SYSTEM VALUE"

    def check_whole(self, db: Connection) -> None:
        """See `SqlDatabase.check_whole`."""
        if not self.is_owner:
            raise AccessDenied(
                f"{self.location}: only the owner of the tables sees every row; connect as that "
                "user"
            )
        found = first(db, "SELECT schema FROM ledger")
        if found != SCHEMA:
            raise StoreTooNew(self.location, found=found, known=SCHEMA)

    def last_set(self, db: Connection) -> int:
        """See `SqlDatabase.last_set`."""
        return first(db, "SELECT last_value FROM alveus.memory_set_id_seq")

    def number_after(self, db: Connection, last_set: int) -> None:
        """See `SqlDatabase.number_after`."""
        for table in ("scope", "memory_set", "agent", "lane"):
            last = first(db, f"SELECT coalesce(max(id), 1) FROM {table}")  # noqa: S608 - ours
            if table == "memory_set":
                last = max(last, last_set)
            sequence = f"alveus.{table}_id_seq"
            sql = f"SELECT setval('{sequence}', greatest(last_value, ?)) FROM {sequence}"  # noqa: S608 - ours
            first(db, sql, last)

    def _version(self, db: Connection) -> object:
        return db.execute(f"SELECT version, {EPOCH} FROM ledger").get  # noqa: S608 - ours

    def _snapshot_key(self, db: Connection) -> object:  # noqa: ARG002 - one snapshot for all connections
        return None

    @contextmanager
    def _snapshot(self, db: Connection) -> Generator[None]:
        db.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        try:
            yield
        finally:
            db.roll_back("ROLLBACK")

    @explaining
    def sync(self) -> None:
        """See `Finder.sync`. A commit that waits for the disk also waits for earlier commits."""
        with self.reader() as db:
            db.execute(FLUSH)

    def close(self) -> None:
        """Write access times, dismiss owners, and close all connections. May be called twice."""
        if self._closed or self._process != os.getpid():
            return
        if self._touch_times and not self._read_only:
            with suppress(AlveusError, psycopg.Error, ConnectionLost), self.writing() as db:
                self._flush_touches(db, all_of=True)
        self._builder.stop()
        if next(self._attempts) > 1:  # a thread may ask for the outcome of its attempt
            with suppress(AlveusError, psycopg.Error), self._one_writer(), self._lend() as db:
                db.execute(DISMISS, (self._host,))
        self._owners.close()
        self._closed = True
        self._collected()


def _limit_ms(statements: Sequence[Query]) -> int:
    """Return the longest time that a draft may hold the lock, in milliseconds.

    A draft with more bytes gets more time, for hosts with a slow connection.
    """
    size = 100 * len(statements)
    for _, bindings in statements:
        for value in bindings:
            if isinstance(value, (str, bytes)):
                size += UTF8_BYTES * len(value)
            elif isinstance(value, list):
                size += sum(len(str(each)) for each in cast("list[object]", value))
    return round((DRAFT_S + size / SLOWEST_BYTES_S) * 1000)


def _configure(log: OutageLog, raw: PipelinedConnection) -> None:
    adapt(raw.adapters)
    raw.look_for_pooler()
    log.connected()


def _roll_back(db: PostgresConnection) -> None:
    with suppress(psycopg.Error):  # if the connection broke, the server rolls back
        db.roll_back("ROLLBACK")


def _close(pool: ConnectionPool[PipelinedConnection], log: OutageLog) -> None:
    pool.close(timeout=1.0)
    log.end()
