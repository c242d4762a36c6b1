"""An open database file: its connections, its locks, and what happens to them at a fork."""

from __future__ import annotations

import ctypes
import logging
import os
import weakref
from collections.abc import Callable, Generator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Literal, Self, TypeAlias, cast

import apsw

from alveus.errors import (
    AlveusError,
    ForkedStore,
    NotAStore,
    NotFound,
    StoreBusy,
    StoreClosed,
    StoreReadOnly,
    StoreTooOld,
    Unusable,
)
from alveus.store import MAX_SWEPT_VERSIONS
from alveus.store.commit_queue import CommitTicket
from alveus.store.sql import past
from alveus.store.sql.connection import Connection
from alveus.store.sql.database import SqlDatabase, explaining
from alveus.store.sql.transaction import (
    Transaction,
    answer_of,
    answers_one_by_one,
    answers_together,
    is_alone,
)
from alveus.store.sql.writer import WriterCache
from alveus.store.sqlite import checksums, connection, locks, maintenance, schema
from alveus.store.sqlite.connection import (
    BUSY_MS,
    Borrowed,
    CallSubject,
    SqliteConnection,
    connect,
    contents,
    contents_at_rest,
    retried,
    translated,
    was_cut,
)
from alveus.store.sqlite.locks import (
    Owners,
    WriteLock,
    create_private,
    drop_locks,
    identity,
    private_folder,
    refuse_unsupported,
)
from alveus.store.sqlite.log_mover import LogMover
from alveus.values.forks import FORKS, call_between, call_within

logger = logging.getLogger(__name__)

Durability: TypeAlias = Literal["full", "normal"]

CHECKPOINT_PAGES = 4_000
"""Pages in the write-ahead log (16 MB) past which the log is moved into the main file."""

MOVED_BESIDE = 4
"""A thread moves a log of up to `MOVED_BESIDE` * `CHECKPOINT_PAGES` pages.

The writer itself moves a longer log.
"""

FEW = 16
"""The writer moves the log itself if at most `CHECKPOINT_PAGES` / `FEW` pages of it are new.

New pages were written since the thread last started.
"""

VERSION = "PRAGMA data_version"
"""Returns a number that changes for a connection when another connection commits."""

SWEEPS = 8
"""The most sweeps with each move of the log, so that deletion keeps up with retention."""

_HINDRANCES = (apsw.FullError, apsw.IOError, apsw.ReadOnlyError, apsw.CantOpenError, apsw.BusyError)
"""Errors, such as for a full disk, that may prevent the sweep or the moving of the log."""

_SYNCED = """
    INSERT INTO note (name, text) VALUES ('synced', '1') ON CONFLICT DO UPDATE SET text = text + 1
"""

_BEGIN, _COMMIT = [(statement, [()]) for statement in ("BEGIN IMMEDIATE", "COMMIT")]
"""The statements that begin and commit a transaction, as arguments of `SqliteConnection.write`."""

_LAST_SET = "SELECT seq FROM sqlite_sequence WHERE name = 'memory_set'"


State: TypeAlias = Literal["open", "closed", "forked"]


class Connections:
    """The idle connections of one open file, and the known length of its log."""

    def __init__(self) -> None:
        self.state: State = "open"
        self.log_identity: tuple[int, int] | None = None
        self.readers: list[SqliteConnection] = []
        self.writer: SqliteConnection | None = None

    def close(self) -> None:
        """Close the connections, without a checkpoint."""
        with FORKS.inside():
            try:
                while self.readers:
                    self.readers.pop().close()
            finally:
                if self.writer is not None:
                    self.writer.close()

    def leak(self) -> None:
        """Keep the connections open for ever: in a forked child, closing could hang."""
        for one in (*self.readers, self.writer):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(one))


class SqliteFile(SqlDatabase):
    """An open file with one writer at a time, and readers beside it; opened by `open`."""

    keeps_commits = True

    def __init__(
        self, path: Path, *, read_only: bool, durability: Durability, wait_s: float, immutable: bool
    ) -> None:
        super().__init__(read_only=read_only)
        self._path, self.is_immutable = path, immutable
        self._location, self._log_location = str(path), f"{path}-wal"
        self._schema = schema.SCHEMA
        self._connections = Connections()
        self._readers = self._connections.readers
        self._durability: Durability = durability
        self._log_mover: LogMover | None = None
        self._lock: WriteLock | None = None
        self._owners: Owners | None = None
        self._last_transaction: Transaction | None = None
        # A memory that is collected without close() leaves nothing open.
        self._collected = weakref.finalize(self, _collect, self._connections)
        self._collected.atexit = False
        FORKS.register(self)
        try:
            self._guard = locks.join_guard(path, self._connections)
            if not read_only:
                folder = private_folder(self.folder, path)
                self._lock = WriteLock(folder, wait_s=wait_s)
                self._owners = Owners(folder)
                self._log_mover = LogMover(path, folder)
                self._open_writer(durability)
            self._identity = identity(str(path))
        except BaseException:  # no traceback may keep files open until it is collected
            if self._lock is not None:
                self._lock.close()
            if self._log_mover is not None:
                self._log_mover.close()
            self._collected()
            raise

    @classmethod
    @translated
    @retried
    def open(
        cls,
        path: Path | str,
        *,
        read_only: bool = False,
        durability: Durability = "full",
        wait_s: float = 10,
        still: bool = False,
    ) -> Self:
        """Open the store at *path*; make the store if nothing exists and *path* may be written.

        Args:
            durability: "full": a returned commit survives loss of power. "normal": loss of power,
                but not the death of a process, may lose the last commits.
            wait_s: Longest wait for other writers.
            still: Whether no process writes to the store while it is open. Then a store at rest is
                read without making a file beside it.

        Raises:
            NotFound: Nothing exists at *path*, and *read_only* is true. Or the folder of *path*
                does not exist.
            NotAStore: The file is something else.
            StoreDamaged: The store cannot be read.
            StoreTooNew: A newer alveus made the store.
            StoreReadOnly: The store cannot be written; ``mode="ro"`` may still open it.
            Unsupported: The platform or file system has no reliable locks.
        """
        path = Path(os.path.realpath(path))
        FORKS.check_sound(path)
        refuse_unsupported(path)
        locks.refuse_other_log(folder_of(path), path)
        if path.exists() and not path.is_file():
            raise NotAStore(path, "is not a file; pass another path")
        immutable = False
        if read_only:
            if not path.exists():
                raise NotFound(f"there is no store {path}; open it without mode='ro' to create it")
            # A log made beside a file that only other users may write would block those users.
            may_write = os.access(path.parent, os.W_OK) and os.access(path, os.W_OK)
            immutable = contents_at_rest(path) is not None and (still or not may_write)
        elif not path.parent.is_dir():
            raise NotFound(f"there is no folder {path.parent}; create it first")
        elif path.exists() and path.stat().st_size:
            _refuse_other(path)  # before any file is made beside a file that is no store
        else:
            create_private(path)
            path.chmod(0o600)
        store = cls(
            path, read_only=read_only, durability=durability, wait_s=wait_s, immutable=immutable
        )
        try:
            with store.reader() as db:
                store._schema = _not_empty(path, number=schema.check(db, path))
                if read_only and not immutable:
                    store._join_readers(db)
        except BaseException:
            store.close()
            raise
        return store

    @property
    def location(self) -> str:
        """The path of the file."""
        return self._location

    def explained(self, error: Exception) -> AlveusError | None:
        """See `SqlDatabase.explained`."""
        if isinstance(error, apsw.SQLError) and self._read_only and self._schema < schema.SCHEMA:
            return StoreTooOld(self._location, found=self._schema, needed=schema.SCHEMA)
        return connection.explained(
            error, CallSubject(self._location, self._read_only, self.last_errno), self
        )

    def is_worth_another_try(self, error: Exception) -> bool:
        """See `SqlDatabase.is_worth_another_try`."""
        return was_cut(error)

    @property
    def last_errno(self) -> int:
        """The system's error number of SQLite's last failed write; 0 if no write failed."""
        writer = self._writer  # None if another thread closed this handle
        with suppress(apsw.Error):
            return 0 if writer is None else writer.system_errno
        return 0

    @property
    def folder(self) -> Path:
        """The folder beside the database: locks, and side files that can be deleted."""
        return folder_of(self._path)

    @property
    def _state(self) -> State:
        return self._connections.state

    @property
    def _writer(self) -> SqliteConnection | None:
        return self._connections.writer

    def check_open(self) -> None:
        """Raise if this handle was closed, or if this process inherited the handle by a fork."""
        FORKS.check_process()
        if self._connections.state != "open":
            self._refuse_use()

    def _refuse_use(self) -> None:
        if self._state == "closed":
            raise StoreClosed(f"{self._path} was closed; open it again")
        raise ForkedStore(f"{self._path} was opened before a fork; open it again in the child")

    def _open_writer(self, durability: Durability) -> None:
        assert self._lock is not None  # noqa: S101 - only called where it was made
        with self._lock, FORKS.inside():
            writer = connect(self._path)
            try:
                found = schema.check(writer, self._path)
                if not found:
                    checksums.reserve(writer)  # before all else: it writes the head
                    writer.execute("PRAGMA auto_vacuum = INCREMENTAL")
                writer.execute("PRAGMA journal_mode = WAL")
                writer.execute(f"PRAGMA synchronous = {durability}")
                self._guard_log(self._connections, writer)  # before anything is written to it
                if found != schema.SCHEMA:  # else opening would write
                    schema.migrate(writer, from_version=found)
                writer.execute(
                    "INSERT INTO note (name, text) VALUES ('salt', ?) ON CONFLICT DO NOTHING",
                    (os.urandom(16).hex(),),
                )
                checksums.mark(writer)
                writer.count_pages()
            except BaseException:
                writer.close()
                raise
            self._connections.writer = writer

    def _guard_log(self, connections: Connections, writer: SqliteConnection) -> None:
        """Prevent other processes from deleting the log that the writer opens or has open."""
        writer.pragma("user_version")
        self._guard.lock()
        connections.log_identity = identity(self._log_location)
        if connections.log_identity is None:
            raise StoreBusy(f"{self._path} is being closed by another program; try again")
        locks.note_log(self.folder, self._path)

    def _join_readers(self, db: SqliteConnection) -> None:
        """Guard the log of a file that was opened read-only.

        A file that is not in WAL mode, such as a backup, has no log and is read as a file at rest.
        """
        if db.pragma("journal_mode") != "wal":
            self.is_immutable, db.at_rest = True, contents(self._path)
            return
        with suppress(StoreBusy):  # a restore is running, which does not matter here
            self._guard.lock()

    def reader(self) -> Borrowed:
        """Lend a connection that only reads, for a ``with`` block."""
        return Borrowed(self)

    def lend(self) -> SqliteConnection:
        """Return a connection that only reads. The caller gives it back to `take_back`.

        The caller must be inside the fork gate, `FORKS`.
        """
        if self._connections.state != "open":
            self.check_open()
        if self.is_immutable:
            return self._lend_at_rest()
        try:
            return self._readers.pop()
        except IndexError:
            return connect(self._path, read_only=True)

    def _lend_at_rest(self) -> SqliteConnection:
        """Return a connection to a file at rest that reads its present contents.

        Other processes may have written to the file since the last call.
        """
        found = contents_at_rest(self._path)
        while self._readers:
            db = self._readers.pop()
            if db.at_rest == found:
                return db
            db.close()
        self._snapshots.clear()
        self._known.trees.clear()
        db = connect(self._path, read_only=True, immutable=found is not None)
        db.at_rest = found
        if found is None:
            with suppress(StoreBusy):
                self._guard.lock()
        return db

    def take_back(self, db: SqliteConnection) -> None:
        """Keep a connection from `lend` for the next caller, or close it.

        Raises:
            StoreBusy: The connection read a file at rest, and another process wrote to the file
                meanwhile.
        """
        state = self._connections.state
        if state == "open" and not db.in_transaction:  # as after an interrupt in a snapshot
            self._readers.append(db)
        elif state != "forked":
            db.close()
        if db.at_rest is not None and db.at_rest != contents(self._path):
            raise StoreBusy(f"{self._path} changed while it was read; try again")

    def is_at_path(self) -> bool:
        """Return whether the file is open, and the file and its log are still at their paths."""
        if self._state != "open" or identity(self._location) != self._identity:
            return False
        return self._read_only or identity(self._log_location) == self._connections.log_identity

    def _check_files(self) -> None:
        """Raise if the handle was closed, or if the file or its log is no longer at its path."""
        connections = self._connections  # closing the handle replaces them
        if connections.state != "open":
            self._refuse_use()
        if identity(self._location) != self._identity:
            raise Unusable(
                f"{self._path} was moved, deleted or replaced while it was open; "
                "close this memory and open it again"
            )
        if identity(self._log_location) != connections.log_identity:
            raise Unusable(
                f"{self._log_location}, the write-ahead log, was deleted or replaced while it "
                "was open, and its data may be lost; close this memory in all processes and "
                "open it again"
            )

    @property
    def _mover(self) -> LogMover:
        assert self._log_mover is not None  # noqa: S101 - a writable store has one
        return self._log_mover

    def _writable(self) -> tuple[SqliteConnection, WriteLock]:
        """Return the writer and its write lock. Raise if the store is closed or read-only."""
        connections = self._connections
        self.check_open()
        writer = connections.writer
        if writer is None or self._lock is None:
            raise StoreReadOnly(f"{self._path} was opened read-only; open it without mode='ro'")
        return writer, self._lock

    def _transaction(self, db: Connection, cache: WriterCache | None = None) -> Transaction:
        assert self._owners is not None  # noqa: S101 - a writable store has them
        if cache is not None:
            return Transaction(db, cache, self._owners).begun()
        tx = self._last_transaction
        if tx is None or tx.cache is not self._cache:  # a failure replaces the cache
            tx = self._last_transaction = Transaction(db, self._cache, self._owners)
        return tx.begun()

    @explaining
    def _commit_group(self, group: list[CommitTicket]) -> None:
        try:
            answers = self._answers(group, answers_together)
        except _GroupRefused:
            answers = None  # everything was undone
        if answers is None:  # one by one, so that each thread gets only its error
            answers = self._answers(group, answers_one_by_one)
        for ticket, answer in zip(group, answers, strict=True):
            ticket.settle(answer)

    def _answers(
        self,
        group: Sequence[CommitTicket],
        answers_of: Callable[[Transaction, Sequence[CommitTicket]], Sequence[object]],
    ) -> Sequence[object]:
        """Do the work of a group of tickets in one transaction. Return the answers.

        Raises:
            _GroupRefused: A ticket is refused; nothing was done.
        """

        def answered(db: SqliteConnection) -> tuple[Sequence[object], dict[int, int]]:
            touched = self._flush_touches(db)
            tx = self._transaction(db)
            try:
                return (
                    [answer_of(tx, group[0])] if is_alone(group) else answers_of(tx, group)
                ), touched
            except (AlveusError, db.taken) as error:
                if is_alone(group) or answers_of is not answers_together:
                    raise
                raise _GroupRefused from error

        answers, touched = call_between(self._written(), answered)
        if touched:
            self._drop_touches(touched)
        return answers

    @contextmanager
    def writing(self) -> Generator[SqliteConnection]:
        """Lend the writer inside a transaction, which commits unless the block raises."""
        yield from self._written()

    def _written(self) -> Generator[SqliteConnection]:  # noqa: PLR0915 - a frame fewer for each commit
        writer, lock = self._writable()
        region = FORKS.inside()
        try:
            with lock, region:
                self._check_files()
                if writer.in_transaction:  # the last writer had no stack left to end it
                    writer.execute("ROLLBACK")
                try:
                    writer.write(_BEGIN)
                    if writer.data_version() != self._cache.version:
                        self._cache = WriterCache()
                    yield writer
                    if self._connections.state != "open":
                        self._refuse_use()
                    writer.write(_COMMIT)
                except BaseException:
                    self._cache.version = None
                    if self._state != "forked" and writer.in_transaction:
                        writer.execute("ROLLBACK")
                    raise
                pages = writer.log_pages()
                if pages > CHECKPOINT_PAGES and not self._mover.is_at_work:
                    self._care_unless_hindered(writer, pages)
                self._cache.version = writer.data_version()
        except BaseException:  # an interrupt may have come as the blocks ended
            try:
                region.__exit__(None, None, None)
                lock.__exit__(None, None, None)
            except BaseException:  # and one more
                region.__exit__(None, None, None)
                lock.__exit__(None, None, None)
                raise
            raise

    @explaining
    def sync(self) -> None:
        """See `Finder.sync`: writes a commit that waits for the disk, after all earlier commits."""
        call_within(self._between_commits(), self._sync)

    def _sync(self, writer: SqliteConnection) -> None:
        writer.execute("PRAGMA synchronous = FULL")
        try:
            writer.execute(_SYNCED)
        finally:
            writer.execute(f"PRAGMA synchronous = {self._durability}")

    def _locked(
        self, block: Callable[[SqliteConnection], Generator[SqliteConnection]]
    ) -> Generator[SqliteConnection]:
        """Run *block* outside a transaction, while no other process writes or moves the log."""
        writer, lock = self._writable()
        region = FORKS.inside()
        try:
            with lock:
                self._mover.wait()
                with region:
                    yield from block(writer)
        except BaseException:  # see `writing`
            try:
                region.__exit__(None, None, None)
                lock.__exit__(None, None, None)
            except BaseException:
                region.__exit__(None, None, None)
                lock.__exit__(None, None, None)
                raise
            raise

    @contextmanager
    def _between_commits(self) -> Generator[SqliteConnection]:
        """Lend the connection that writes, outside a transaction, while no other process writes.

        Only `call_within` may enter this context.
        """
        yield from self._locked(self._given)

    def _given(self, writer: SqliteConnection) -> Generator[SqliteConnection]:
        self._check_files()
        self._cache = WriterCache()
        try:
            yield writer
        finally:
            self._cache = WriterCache()

    @contextmanager
    def _alone(self) -> Generator[SqliteConnection]:
        """Lend the writer outside a transaction, as the only user of the store.

        Only `call_within` may enter this context. SQLite makes sure that there is no other user: it
        leaves WAL mode only for the last user.
        """
        self._refuse_handles()
        # Closing this handle replaces its connections, so they are looked up now.
        yield from self._locked(partial(self._given_alone, self._connections))

    def _refuse_handles(self) -> None:
        """Raise if this file has other handles."""

    def _given_alone(
        self, connections: Connections, writer: SqliteConnection
    ) -> Generator[SqliteConnection]:
        while self._readers:
            self._readers.pop().close()
        self._guard.unlock()
        writer.set_busy_timeout(0)
        checksums.head(writer)
        try:
            writer.execute("PRAGMA journal_mode = DELETE")
            yield writer
        except apsw.BusyError as error:
            raise StoreBusy(f"{self._path} is open elsewhere; close it there first") from error
        finally:
            writer.set_busy_timeout(BUSY_MS)
            writer.execute("PRAGMA journal_mode = WAL")
            schema.migrate(writer, from_version=schema.check(writer, self._path))
            self._guard_log(connections, writer)

    def _add_checksums(self, writer: SqliteConnection) -> bool:
        """Add checksums to a file that no other process has open. Return whether this worked."""
        writer.execute("PRAGMA journal_mode = WAL")
        return checksums.add(writer)

    def _care_unless_hindered(self, writer: SqliteConnection, pages: int) -> None:
        """Call `_care`. After an error, the commit before stands, and the next commit tries again.

        Only a page that does not match its checksum raises.
        """
        try:
            self._care(writer, pages)
        except _HINDRANCES as error:
            self._cache = WriterCache()  # some of the work may have been done
            if writer.in_transaction:
                writer.execute("ROLLBACK")
            if checksums.is_mismatch(error):
                raise
            logger.warning("the write-ahead log of a store could not be moved: %s", error)

    def _care(self, writer: SqliteConnection, pages: int) -> None:
        """Sweep, give back free pages, and move a log of *pages* pages into the main file."""
        for _ in range(SWEEPS):
            with writer:
                cache = self._cache
                done = past.sweep_unasked(writer, last=cache.time, corroborated=cache.corroborated)
                if done < MAX_SWEPT_VERSIONS:
                    break
        with writer:
            maintenance.give_back(writer, pages=maintenance.IN_PASSING, spare=maintenance.SPARE)
        self._cache.nodes.clear()
        writer.log_pages()  # forget the pages that the sweep committed
        if pages <= MOVED_BESIDE * CHECKPOINT_PAGES and self._mover.begin(
            pages, few=CHECKPOINT_PAGES // FEW, is_at_path=self.is_at_path
        ):
            return
        checksums.head(writer)
        call_within(self._mover.moving(), partial(self._move_log, writer))

    def _move_log(self, writer: SqliteConnection, is_alone: bool) -> None:  # noqa: FBT001 - of a block
        """Move the log into the main file, as far as readers allow, unless another process does."""
        if is_alone:
            with suppress(apsw.BusyError):
                all_of, moved = writer.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
                self._mover.moved(all_of=all_of, pages=moved)

    def close(self) -> None:
        """Write the access times, close all connections and release all locks.

        A second call does nothing.
        """
        if self._state != "open":
            return
        if self._writer is not None and self._touch_times:
            with suppress(AlveusError, apsw.Error, OSError), self.writing() as db:
                self._flush_touches(db, all_of=True)
        self._connections.state = "closed"
        if self._owners is not None:
            self._owners.close()
        try:
            if self._writer is not None and self._lock is not None:
                # The last connection checkpoints as it closes, so it queues with the writers.
                with suppress(AlveusError, OSError), self._lock:
                    self._mover.wait()
                    with FORKS.inside():
                        checksums.head(self._writer)
                        if self._guard.unlock():
                            self._leave_log(self._writer)
                        self._connections.close()
                        locks.forget_log(self.folder, self._path)
                self._lock.close()
                self._mover.close()
        finally:
            self._collected()

    def _leave_log(self, writer: SqliteConnection) -> None:
        """Let SQLite move the log into the file on closing, if no other process has the file open.

        If the file was moved to another path, move the log now.
        """
        if identity(self._location) == self._identity:
            writer.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)
        elif identity(self._log_location) == self._connections.log_identity:
            call_within(self._mover.moving(), partial(_empty_log, writer))

    def dismiss(self, owners: set[str]) -> None:
        """Make *owners* count as dead, without waiting, and empty the set *owners*."""
        while owners and self._owners is not None:
            self._owners.dismiss(owners.pop())

    def collect(self) -> None:
        """Close the file when no handle exists any more, without writing and without waiting."""
        if self._state != "open":
            return
        self._connections.state = "closed"
        self._collected()
        if self._lock is not None:
            self._lock.abandon()
        if self._log_mover is not None:
            self._log_mover.collect()
        if self._owners is not None:
            self._owners.abandon()

    def forked(self, *, quiet: bool) -> None:
        """In a forked child, drop the inherited connections and locks.

        SQLite would treat the locks of an inherited connection as the child's. The connections are
        closed if *quiet*; otherwise they stay open for ever.
        """
        if self._state != "open":
            return
        self._connections.state = "forked"
        self._collected.detach()
        if quiet:
            try:
                self._connections.close()
            except apsw.Error:
                FORKS.harm()
        else:
            self._connections.leak()
        drop_locks(self.folder)
        if self._lock is not None:
            self._lock.abandon()
        if self._log_mover is not None:
            self._log_mover.abandon()
        if self._owners is not None:
            self._owners.abandon()

    local_notes = frozenset({checksums.MARK, "synced"})

    def check_whole(self, db: Connection) -> None:
        """See `SqlDatabase.check_whole`."""
        found = db.execute("PRAGMA user_version").get
        if found != schema.SCHEMA:
            raise StoreTooOld(self._location, found=found, needed=schema.SCHEMA)

    def last_set(self, db: Connection) -> int:
        """See `SqlDatabase.last_set`."""
        return db.execute(_LAST_SET).get or 0

    def number_after(self, db: Connection, last_set: int) -> None:
        """See `SqlDatabase.number_after`."""
        db.execute("DELETE FROM sqlite_sequence WHERE name = 'memory_set'")
        db.execute("INSERT INTO sqlite_sequence (name, seq) VALUES ('memory_set', ?)", (last_set,))

    def _version(self, db: Connection) -> object:
        return db.execute(VERSION).get

    def _snapshot_key(self, db: Connection) -> object:
        return db

    @contextmanager
    def _snapshot(self, db: Connection) -> Generator[None]:
        db.execute("BEGIN")
        try:
            yield
        finally:
            if cast("SqliteConnection", db).in_transaction:  # some errors end it
                db.execute("ROLLBACK")


def _empty_log(writer: SqliteConnection, is_alone: bool) -> None:  # noqa: FBT001 - of a block
    """Move the whole log, and truncate it, if that is possible at once."""
    if is_alone:
        with suppress(apsw.BusyError):
            writer.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)


def folder_of(path: Path) -> Path:
    """Return the folder beside a database."""
    return Path(f"{path}.alveus")


class _GroupRefused(Exception):
    """Raised if one ticket is refused in a group whose tickets share a transaction."""


def _refuse_other(path: Path) -> None:
    # Only a process that may write rolls back the transaction of a killed restore.
    at_rest = not Path(f"{path}-journal").exists()
    with FORKS.inside(), closing(connect(path, read_only=at_rest)) as db:
        schema.check(db, path)


def _not_empty(path: Path, *, number: int) -> int:
    if not number:
        raise NotAStore(path, "is empty; open it once without mode='ro' to make it a store")
    return number


def _collect(connections: Connections) -> None:
    try:
        connections.close()
    finally:
        locks.leave_guard(connections)
