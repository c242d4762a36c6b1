"""An open PostgreSQL database: its pool, its transactions, and what happens when they break.

Every transaction that writes locks the one row of the table `ledger`, so that commits are in one
order for all hosts; commits of one host share transactions. The lock is given back before the
disk is waited for: that is done by a second, empty transaction, which is sent with the first.
No setting of a session is needed outside a transaction, so that a pooler may stand between.

Every commit writes the number of the attempt into this host's row of the table `appender`. A commit
whose answer was lost is asked for there, so it is never a guess. PostgreSQL's own numbers of
transactions would not do: after a crash, it gives those that were lost to other transactions.
"""

from __future__ import annotations

import itertools
import os
import secrets
import time
import weakref
from collections.abc import Generator
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
from alveus.store.postgres import connection
from alveus.store.postgres.access import is_owner
from alveus.store.postgres.connection import PostgresConnection, is_lost
from alveus.store.postgres.dialect import NumberArray, TextArray, adapt
from alveus.store.postgres.draft_numbers import NotADraft
from alveus.store.postgres.drafting import (
    ATTEMPT,
    DISMISS,
    ENROL,
    FENCE,
    LOOK,
    REFUSED,
    SELF_REFUSED,
    DraftBase,
    DraftConnection,
    GroupDraft,
    Known,
    Overtaken,
    drafted,
    may_be_drafted,
    only_adds,
)
from alveus.store.postgres.large_set_builder import LargeSetBuilder
from alveus.store.postgres.location import ServerLocation
from alveus.store.postgres.outages import OutageLog
from alveus.store.postgres.owners import ServerOwners
from alveus.store.postgres.pipeline import PipelinedConnection
from alveus.store.postgres.schema import SCHEMA, check_least
from alveus.store.sql.connection import Connection, first
from alveus.store.sql.database import TRIES, SqlDatabase, explaining
from alveus.store.sql.transaction import StoreTicket, Transaction, answers_of
from alveus.store.sql.writer import WriterCache
from alveus.values.forks import HandleLock

POOL = 8
"""Connections of one open store at most."""

IDLE_S = 10.0
"""How long the server is to wait for a host in the middle of a transaction.

After statements that were sent together, PostgreSQL 18 does not always start that timer:
docs/postgres.md says what helps.
"""

UNKNOWN_S = 30.0
"""How long the outcome of a commit is asked for whose answer was lost."""

REDRAFTS = 3
"""How often a group is drafted again that others were faster than; then it takes the lock."""

DRAFT_S = 60.0
"""How long a draft may take from taking the lock to its COMMIT, if it is small; see `_limit_ms`."""

SLOWEST_BYTES_S = 100_000
"""What a host is to send of a draft in a second, at least."""

UTF8_BYTES = 4
"""What a character takes at most."""

LIMITS_TRANSACTIONS = 170_000
"""The version of PostgreSQL from which on it ends a transaction that takes too long."""

POLL_S = 0.02
"""Pause between two such questions."""

_LOCK = f"""
    WITH settings AS MATERIALIZED (
        SELECT set_config('lock_timeout', ?, TRUE),
            set_config('idle_in_transaction_session_timeout', ?, TRUE),
            set_config('synchronous_commit', 'off', TRUE))
    SELECT version, structure, number, time, {connection.EPOCH}, schema, least
    FROM ledger, settings FOR UPDATE OF ledger
"""  # noqa: S608 - ours
"""Takes the lock, with settings of the transaction that are made before it is waited for."""

_NUMBER = """
    UPDATE ledger SET version = version + 1,
        number = coalesce((SELECT max(n) FROM journal AS every_commit), 0),
        time = coalesce((SELECT time FROM journal AS every_commit ORDER BY n DESC LIMIT 1), 0)
"""

FLUSH = "SELECT pg_logical_emit_message(TRUE, 'alveus', '')"
"""A transaction without effects: its commit waits until the disk has all that came before it."""

_UNKNOWN = (
    "{}: the connection broke during a commit, and the server does not say whether it was made; "
    "look whether it is there, or use a key"
)

_NOT_FLUSHED = (
    "{}: a commit was made, but the server did not wait for its disk ({}); correct that, and do "
    "not repeat what was committed"
)


class ConnectionLost(Exception):
    """The connection broke before anything was committed."""


class _Seen(NamedTuple):
    """What the database was like when something was cached; None: nothing is.

    Attributes:
        version: Of all of it.
        structure: Of the numbers of keys and sets, and of notes.
        epoch: See `SearchView`.
        losses: How many connections had broken: PostgreSQL 14 does not tell of every crash.
    """

    version: int | None
    structure: int | None
    epoch: int = 0
    losses: int = 0


class PostgresDatabase(SqlDatabase):
    """One writer at a time among all hosts, readers beside it."""

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
        self._seen = _Seen(None, None)
        self._losses = 0
        self._turn = HandleLock()
        self._host = secrets.randbits(63)
        self._attempts = itertools.count(1)
        self._is_enrolled = False
        self._is_alone = False  # whether nobody else wrote between this host's last two commits
        self._written: tuple[int | None, int] = None, 0  # version and epoch after the last of them
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
        """The URL, without a password."""
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
        """See `SqlDatabase.is_worth_another_try`."""
        return isinstance(error, ConnectionLost) and self._renew()

    def _renew(self) -> bool:
        """Replace the connections that broke; where one did, others may have."""
        with suppress(psycopg.Error, PoolTimeout):  # the next try says what is wrong
            self._pool.check()
        return True

    def check_open(self) -> None:
        """Refuse a handle that was closed, or that a forked child inherited."""
        if self._process != os.getpid():
            raise ForkedStore(
                f"{self.location} was opened before a fork; open it again in the child"
            )
        if self._closed:
            raise StoreClosed(f"{self.location} was closed; open it again")

    # --- transactions -------------------------------------------------------------------------

    @contextmanager
    def _lend(self) -> Generator[PostgresConnection]:
        """Lend a connection; each statement is a transaction of its own."""
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
        """Lend a connection for reading.

        Raises:
            ConnectionLost: It broke; nothing was done.
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
        """Give a connection inside a transaction, which commits unless the block raises.

        Args:
            together: See `PostgresConnection`; there is no savepoint then.

        Raises:
            ConnectionLost: It broke, and nothing was committed for certain.
            Unavailable: Nobody can tell whether it was committed.
        """
        if self._read_only:
            raise StoreReadOnly(f"{self.location} was opened read-only; open it without mode='ro'")
        with self._one_writer(), self._lend() as db:
            try:
                seen = self._begin(db)
                db.together = together
                if not together:
                    db.execute("SAVEPOINT batch")
                yield db
            except psycopg.Error as error:
                if is_lost(error):
                    raise ConnectionLost from error
                _roll_back(db)
                raise
            except BaseException:
                _roll_back(db)
                raise
            self._commit(db)
            self._seen, self._written = seen, (seen.version, seen.epoch)

    @contextmanager
    def _one_writer(self) -> Generator[None]:
        """Have this host's writers wait for each other here: the cache is for one at a time."""
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
        """Begin a transaction; return what the cache is of once it is committed.

        What is cached is dropped if others wrote since; the numbers of keys and sets stay, unless
        some were changed.
        """
        losses, seen = self._losses, self._take_seen()
        db.execute(connection.BEGIN)
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
        """Return what the cache is of, until the next commit is known to have been made.

        It is of nothing once a connection broke: a server that crashed may have lost what this
        host read, and may count up to the same numbers again with other contents.
        """
        seen, self._seen = self._seen, _Seen(None, None)
        return seen if seen.losses == self._losses else self._seen

    def _commit(self, db: PostgresConnection) -> None:
        attempt = next(self._attempts)
        flush = [(FLUSH, ())] if self._durability == "full" else []
        last = [(_NUMBER, ()), (ATTEMPT, (self._host, attempt)), ("COMMIT", ()), *flush]
        before = db.waiting + len(last) - 1 - len(flush)
        try:
            for statement in last:
                db.execute(*statement)
            db.finish()
        except psycopg.Error as error:
            if self._outcome(db, error, attempt, before_commit=before) is None:
                raise

    def _outcome(
        self, db: PostgresConnection, error: psycopg.Error, attempt: int, *, before_commit: int
    ) -> DraftBase | None:
        """Return what an attempt was given in spite of an error; None: nothing was done.

        Args:
            before_commit: How many statements were sent before the COMMIT.

        Raises:
            ConnectionLost: The connection broke, and nothing was done.
            Unavailable: The server cannot be asked.
        """
        lost, done = is_lost(error), db.done
        if not lost:
            _roll_back(db)
            if done < before_commit:
                return None  # what is refused later may come from what follows the COMMIT
        base = self._appended(attempt)
        if base is None and lost:
            raise ConnectionLost from error
        return base

    def _transaction(self, db: Connection, cache: WriterCache | None = None) -> Transaction:
        owners = self._owners.within(db)
        return Transaction(db, self._cache if cache is None else cache, owners).begun()

    @explaining
    def _commit_group(self, group: list[StoreTicket]) -> None:
        for _ in range(TRIES - 1):
            try:
                self._commit_once(group)
            except ConnectionLost:
                self._renew()
                group = [ticket for ticket in group if not ticket.settled]
            else:
                return
        self._commit_once(group)

    def _commit_once(self, group: list[StoreTicket]) -> None:
        drafts = [ticket for ticket in group if may_be_drafted(ticket)]
        drafts.sort(key=lambda ticket: bool(ticket.batches))  # inputs do not read what commits end
        if drafts and not self._read_only:
            self._commit_drafts(drafts)
            group = [ticket for ticket in group if not ticket.settled]
            if not group:
                return
        try:
            self._try_group(group, together=True)
        except errors.UniqueViolation:  # nothing was committed; this finds out who is refused
            self._try_group(group, together=False)

    def _try_group(self, group: list[StoreTicket], *, together: bool) -> None:
        """Do the work of a group.

        Args:
            together: What gives no rows is sent with the COMMIT: less to wait for, but what is
                refused then is refused for all.
        """
        with self.writing(together=together) as db:
            touched = self._flush_touches(db)
            if not together:
                db.execute("SAVEPOINT batch")
            answers = answers_of(self._transaction(db), group)
        self._drop_touches(touched)
        for ticket, answer in zip(group, answers, strict=True):
            ticket.settle(answer)

    def _commit_drafts(self, group: list[StoreTicket]) -> None:
        """Commit what of a group can be without holding the lock while this host works.

        What cannot be drafted together is drafted apart, unless this host writes alone: then
        nobody waits for the lock, under which it is done together.

        Raises:
            ConnectionLost: A connection broke, and nothing more was committed for certain.
            Unavailable: Nobody can tell whether it was committed.
        """
        parts, others_wait = [group], False
        while parts:
            part = parts.pop()
            try:
                self._commit_part(part)
            except NotADraft as found:
                others_wait = others_wait or not self._is_alone
                if others_wait and len(part) > 1:
                    apart = found.place or 1
                    parts += [part[apart:], part[:apart]]
            except Overtaken:
                pass  # so often that it takes the lock

    def _commit_part(self, group: list[StoreTicket]) -> None:
        """Commit a group as one draft, in several tries.

        Raises:
            NotADraft: It is none, and nothing was done.
            Overtaken: Others were faster each time; nothing was done.
        """
        with self._one_writer():
            was_alone = self._is_alone
            for tries_left in range(REDRAFTS, -1, -1):
                try:
                    with self._lend() as db:
                        is_first = tries_left == REDRAFTS
                        self._commit_draft(db, group, is_first=is_first, was_alone=was_alone)
                        return
                except Overtaken:
                    self._is_alone = False
                    if not tries_left:
                        raise
                except PoolTimeout:  # the server was waited for already
                    raise
                except psycopg.Error as error:
                    if is_lost(error):
                        raise ConnectionLost from error
                    raise

    def _commit_draft(
        self, db: PostgresConnection, group: list[StoreTicket], *, is_first: bool, was_alone: bool
    ) -> None:
        """Commit a group as one draft.

        Args:
            is_first: It may guess.
            was_alone: This host wrote alone until the first draft, which a wrong guess may have
                refused.

        Raises:
            NotADraft: It is none, and nothing was done.
            Overtaken: Others were faster; nothing was done.
        """
        losses, seen = self._losses, self._take_seen()
        known = self._draft_basis(db, seen, exact=not only_adds(group), look=not is_first)
        if was_alone and not is_first:
            self._is_alone = (known.read_version, known.epoch) == self._written
        before = _Seen(None, known.structure, known.epoch, losses)
        connection = DraftConnection(db, known, guesses=is_first)
        self._cache, draft, is_made = known.cache, None, False
        try:
            draft = drafted(group, connection, self._owners)
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
            if connection.numbers_rows and not is_made:  # it may have numbers of no row
                self._seen, self._cache = _Seen(None, None), WriterCache()
        self._keep(draft, base, seen, before, adds=only_adds(group))
        self._drop_touches(touches)
        for ticket, answer in zip(group, draft.answers_after(base), strict=True):
            ticket.settle(answer)

    def _draft_basis(
        self, db: PostgresConnection, seen: _Seen, *, exact: bool, look: bool
    ) -> Known:
        """Return what a draft may go by.

        Args:
            exact: It would be better exact, if this host writes alone.
            look: What this host knows has proved to be old.
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
        """Go by what was *seen* before a draft that came to nothing."""
        self._seen = seen
        if seen.version is None:
            self._cache = self._cache.without_versions()

    def _keep(
        self, draft: GroupDraft, base: DraftBase, seen: _Seen, before: _Seen, *, adds: bool
    ) -> None:
        """Remember what is so after a draft that was committed."""
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
        """Send a draft.

        Raises:
            NotADraft: It can be none, and nothing was done.
            Overtaken: Others were faster; nothing was done.
        """
        attempt = next(self._attempts)
        enrol = [] if self._is_enrolled else [(ENROL, (self._host,))]
        flush = [(FLUSH, ())] if self._durability == "full" and not draft.is_refused else []
        limit_ms = _limit_ms(draft) if db.server_version >= LIMITS_TRANSACTIONS else None
        statements = [
            (connection.BEGIN, ()),
            *enrol,
            draft.begin(self._host, attempt, self._wait_s, limit_ms),
            *((self.touch_sql, row) for row in touches.items()),
            *draft.statements,
            ("ROLLBACK" if draft.is_empty else "COMMIT", ()),
            *flush,
        ]
        try:
            rows = db.query_all(*statements)
        except psycopg.Error as error:
            if error.sqlstate == REFUSED:
                _roll_back(db)
                self._is_enrolled = False
                raise Overtaken from error
            if error.sqlstate == SELF_REFUSED or isinstance(error, errors.UniqueViolation):
                _roll_back(db)
                if draft.guesses:  # one without may do it
                    raise Overtaken from error
                raise NotADraft(len(draft.answers) // 2) from error  # nobody knows which it is
            before = len(statements) - 1 - len(flush)
            base = self._outcome(db, error, attempt, before_commit=before)
            if base is None:
                raise
            return base
        self._is_enrolled = self._is_enrolled or not draft.is_empty
        return DraftBase(*rows[1 + len(enrol)][0][: len(DraftBase._fields)])

    def _appended(self, attempt: int) -> DraftBase | None:
        """Return what an attempt was given whose answer was lost; None: it comes to nothing.

        Raises:
            Unavailable: The server cannot be asked, or does not get the commit onto its disk.
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
                    db.execute(FLUSH)  # whoever is told that it was committed may rely on it
                    db.finish()
                    return DraftBase(number, then, None, run)
            except psycopg.Error as error:
                if is_made and not is_lost(error):
                    raise Unavailable(_NOT_FLUSHED.format(self.location, error)) from error
            time.sleep(POLL_S)
        raise Unavailable(_UNKNOWN.format(self.location))

    @contextmanager
    def alone(self, what: str, *, wait_s: float) -> Generator[None]:
        """Hold the right to do *what*, among all hosts, for a block.

        Raises:
            StoreBusy: Another had it for longer than *wait_s*.
        """
        deadline = time.monotonic() + wait_s
        while not self._owners.take(what):
            if time.monotonic() > deadline:
                raise StoreBusy(
                    f"{self.location}: another process does this ({what}); wait until that has "
                    "ended, then try again"
                )
            time.sleep(POLL_S)
        try:
            yield
        finally:
            self._owners.dismiss(what)

    # --- what a copy of all rows needs --------------------------------------------------------

    identity_override = "OVERRIDING SYSTEM VALUE"

    def check_whole(self, db: Connection) -> None:
        """See `SqlDatabase.check_whole`."""
        if not is_owner(db, self._server.schema):
            raise AccessDenied(
                f"{self.location}: only the owner of the tables sees every row; give its user in "
                "the URL"
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

    # --- what reads need ----------------------------------------------------------------------

    def _version(self, db: Connection) -> object:
        return db.execute(f"SELECT version, {connection.EPOCH} FROM ledger").get  # noqa: S608 - ours

    def _snapshot_key(self, db: Connection) -> object:  # noqa: ARG002 - it is the same for all
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
        """See `Finder.sync`: a commit that waits for the disk has it keep all before it too."""
        with self.reader() as db:
            db.execute(FLUSH)

    def close(self) -> None:
        """Flush touches, close every connection, and let owners count as dead; twice is fine."""
        if self._closed or self._process != os.getpid():
            return
        if self._touch_times and not self._read_only:
            with suppress(AlveusError, psycopg.Error, ConnectionLost), self.writing() as db:
                self._flush_touches(db, all_of=True)
        self._builder.stop()
        if next(self._attempts) > 1:  # a thread may be asking what became of its attempt
            with suppress(AlveusError, psycopg.Error), self._one_writer(), self._lend() as db:
                db.execute(DISMISS, (self._host,))
        self._owners.close()
        self._closed = True
        self._collected()


def _limit_ms(draft: GroupDraft) -> int:
    """Return for how long a draft may hold the lock, its host sending however slowly."""
    size = 100 * len(draft.statements)
    for _, bindings in draft.statements:
        for value in bindings:
            if isinstance(value, str):
                size += len(value) if value.isascii() else UTF8_BYTES * len(value)
            elif isinstance(value, bytes):
                size += len(value)
            elif isinstance(value, NumberArray | TextArray):
                size += sum(len(str(each)) for each in value)
    return round((DRAFT_S + size / SLOWEST_BYTES_S) * 1000)


def _configure(log: OutageLog, raw: PipelinedConnection) -> None:
    adapt(raw.adapters)
    raw.look_for_pooler()
    log.connected()


def _roll_back(db: PostgresConnection) -> None:
    with suppress(psycopg.Error):  # then the server rolls it back
        db.roll_back("ROLLBACK")


def _close(pool: ConnectionPool[PipelinedConnection], log: OutageLog) -> None:
    pool.close(timeout=1.0)
    log.end()
