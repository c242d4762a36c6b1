"""The interface of an SQL engine, and the decorators that lend connections to a store's methods.

`reads` gives a method a connection that only reads, `writes` a connection inside a separate
transaction, `queued` a transaction shared with the commits of other threads. All three raise
alveus's errors instead of the engine's.

The statements are written for SQLite. Other engines accept the same words, or their connections
translate them (`store/postgres/dialect.py`): ``name IS ?`` compares names that may be long, ``IN
(SELECT value FROM carray(?))`` selects many numbers, and with ``AS names`` many names. Aliases such
as ``journal AS every_commit`` stand for the rows of all spaces, even if the user may see only some.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextlib import _GeneratorContextManager as GeneratorContextManager  # pyright: ignore[reportPrivateUsage] - what `contextmanager` makes
from operator import itemgetter
from typing import Concatenate, NamedTuple, ParamSpec, TypeVar

from alveus.errors import AlveusError, StoreDamaged
from alveus.store import Batch, Commit, Scope, SetInfo, SetRef
from alveus.store.commit_queue import CommitQueue, CommitTicket, JointAdd, JointAdds
from alveus.store.ledger import IGNORED, UNOBSERVED, Observed, Observer
from alveus.store.sql.connection import Connection
from alveus.store.sql.transaction import Transaction
from alveus.store.sql.tree import RecentTrees
from alveus.store.sql.writer import WriterCache
from alveus.values.forks import ProcessBound, call_within

TRIES = 4
"""How often a call is tried if its connection breaks; a pool may hold several broken ones."""

TOUCHES = 1_000
"""The most access times that are written with one group of commits."""

WAITING_TOUCHES = 100_000
"""The most access times that wait for a commit. If there are more, the oldest are dropped."""

_TOUCH = """
    INSERT INTO access (first, time) VALUES (?, ?)
    ON CONFLICT (first) DO UPDATE SET time = max(access.time, excluded.time)
"""

F = TypeVar("F", bound="SqlDatabase")
P = ParamSpec("P")
R = TypeVar("R")


class SetSnapshot(NamedTuple):
    """Cached data of sets, as of one version of the database.

    Attributes:
        version: See `SqlDatabase._version`.
        seq: The number of the last line of the change log.
        sets: Data of sets, by the scope or the references that a caller asked for.
    """

    version: object
    seq: int
    sets: dict[Scope | tuple[SetRef, ...], list[SetInfo]]


class KnownRows:
    """Cached rows, valid until another connection commits."""

    def __init__(self) -> None:
        self.cache = WriterCache()
        self.salt: bytes | None = None
        self.trees = RecentTrees()


class SqlDatabase(ProcessBound, ABC):
    """An open database: the code that all engines share, and the methods that each implements."""

    keeps_commits = False
    """Whether no commit can vanish while the database is open."""

    is_owner = True
    """Whether this user owns the tables, and so sees every row."""

    observer: Observer = UNOBSERVED

    touch_sql = _TOUCH
    """The statement that stores when an item was last read. The item may be deleted already."""

    def __init__(self, *, read_only: bool) -> None:
        self._read_only = read_only
        self._known = KnownRows()
        self._snapshots: dict[object, SetSnapshot] = {}
        self._touch_times: dict[int, int] = {}
        self.commit_queue = CommitQueue(self._commit_observed)

    @property
    def _cache(self) -> WriterCache:
        return self._known.cache

    @_cache.setter
    def _cache(self, cache: WriterCache) -> None:
        self._known.cache = cache

    @property
    @abstractmethod
    def location(self) -> str:
        """The path of the database, or its URL without the password."""

    @property
    def read_only(self) -> bool:
        """Whether commits are refused."""
        return self._read_only

    @abstractmethod
    def check_open(self) -> None:
        """Raise if this handle was closed, or if this process inherited the handle by a fork."""

    @abstractmethod
    def reader(self) -> AbstractContextManager[Connection]:
        """Lend a connection that only reads, for a ``with`` block."""

    @abstractmethod
    def writing(self) -> GeneratorContextManager[Connection]:
        """Lend a connection inside a transaction for a ``with`` block.

        The transaction commits after the block. If the block raises, it is rolled back.
        """

    def commit(self, batch: Batch) -> Commit:
        """See `Ledger.commit`."""
        self.check_open()
        with self.observer.commit([batch]) as observed:
            answers: list[Commit] = self.commit_queue.do(
                CommitTicket(None, (batch,), caller=observed)
            )
            commit = observed.answered(answers)[0]
        if batch.state and not commit.adopted:
            self._known.trees.committed(batch.scope, batch.base, batch.state, commit.number)
        return commit

    def commit_many(self, batches: Sequence[Batch]) -> list[Commit | AlveusError]:
        """See `Ledger.commit_many`."""
        self.check_open()
        if not batches:
            return []
        with self.observer.commit(batches) as observed:
            ticket = CommitTicket(None, batches, raises=False, caller=observed)
            return observed.answered(self.commit_queue.do(ticket))

    def commit_planned(self, add: JointAdd, planner: JointAdds) -> Commit | None:
        """See `Queued.commit_planned`."""
        self.check_open()
        answers: list[Commit] | None = self.commit_queue.do(CommitTicket(add, planner=planner))
        return None if answers is None else answers[0]

    def in_queue(
        self, work: Callable[[Transaction], R], *, drafts: bool = True, caller: Observed = IGNORED
    ) -> R:
        """Run *work* in a transaction that waiting commits share. Return its result once durable.

        Args:
            drafts, caller: See `CommitTicket`.

        Raises:
            AlveusError: *work* raised it; its changes are undone.
        """
        self.check_open()
        return self.commit_queue.do(CommitTicket(work, drafts=drafts, caller=caller))

    def _commit_observed(self, group: list[CommitTicket]) -> None:
        if self.observer is UNOBSERVED:  # as mostly
            self._commit_group(group)
            return
        with self.observer.transaction([ticket.caller for ticket in group]):
            self._commit_group(group)

    @abstractmethod
    def _commit_group(self, group: list[CommitTicket]) -> None:
        """Do the work of tickets in one transaction, and give each ticket its result or error."""

    @abstractmethod
    def _transaction(self, db: Connection, cache: WriterCache | None = None) -> Transaction:
        """Return a `Transaction` on a connection whose SQL transaction is open."""

    @abstractmethod
    def explained(self, error: Exception) -> AlveusError | None:
        """Return the alveus error for an error of the engine, or None for a fault in alveus."""

    def is_worth_another_try(self, error: Exception) -> bool:  # noqa: ARG002 - some engines look
        """Return whether the call may be repeated: the connection failed, and nothing changed."""
        return False

    @abstractmethod
    def _version(self, db: Connection) -> object:
        """Return a value that changes with every commit that *db* can see."""

    @abstractmethod
    def _snapshot(self, db: Connection) -> AbstractContextManager[None]:
        """Make *db* read one state of the database for a ``with`` block."""

    @abstractmethod
    def _snapshot_key(self, db: Connection) -> object:
        """Return the object whose `_version` values can be compared: a connection or a database."""

    identity_override = ""
    """The words that an INSERT needs to set numbers that the engine would otherwise assign."""

    local_notes: frozenset[str] = frozenset()
    """Names of notes that describe only this database; `copy_store` leaves them out."""

    @contextmanager
    def snapshot_reader(self) -> Generator[Connection]:
        """Lend a connection that reads one state of the database for a block."""
        with self.reader() as db, self._snapshot(db):
            yield db

    @abstractmethod
    def check_whole(self, db: Connection) -> None:
        """Raise if not all rows of the database are visible.

        Raises:
            AccessDenied: This user is not the owner of the tables.
            Unusable: The schema is not the newest that this program knows.
        """

    @abstractmethod
    def last_set(self, db: Connection) -> int:
        """Return the highest number that a set has or had."""

    @abstractmethod
    def number_after(self, db: Connection, last_set: int) -> None:
        """Make the next set get a number above *last_set*, and other new rows unused numbers."""

    @abstractmethod
    def salt(self) -> bytes:
        """See `Ledger.salt`."""

    def _touches(self) -> dict[int, int]:
        """Return the access times that the next group of commits will write."""
        return dict(list(self._touch_times.items())[:TOUCHES]) if self._touch_times else {}

    def touch(self, rows: Sequence[int], *, time: int) -> None:
        """See `Ledger.touch`."""
        self.check_open()
        if self._read_only:
            return
        self._touch_times.update(dict.fromkeys(rows, time))
        if len(self._touch_times) > WAITING_TOUCHES:
            by_time = sorted(self._touch_times.items(), key=itemgetter(1))
            self._drop_touches(dict(by_time[: WAITING_TOUCHES // 10]))

    def _flush_touches(self, db: Connection, *, all_of: bool = False) -> dict[int, int]:
        """Write the next access times, or all. Return them for `_drop_touches` after the commit."""
        rows = self._touch_times.copy() if all_of else self._touches()
        if rows:
            db.write((self.touch_sql, list(rows.items())))
        return rows

    def _drop_touches(self, rows: dict[int, int]) -> None:
        for row, time in rows.items():
            if self._touch_times.get(row) == time:
                self._touch_times.pop(row, None)


@contextmanager
def explained_errors(database: SqlDatabase) -> Generator[None]:
    """Make a block raise alveus's errors instead of the engine's.

    An error that the engine's errors do not explain becomes `StoreDamaged` if the file is damaged.
    If the file is sound, the error is a fault in alveus, and is raised unchanged.
    """
    try:
        yield
    except StoreDamaged as error:
        if error.path is not None:
            raise
        raise StoreDamaged(database.location, error.problem) from error
    except AlveusError:
        raise
    except Exception as error:
        found = database.explained(error)
        if found is None:
            raise
        raise found from error


def explaining(method: Callable[Concatenate[F, P], R]) -> Callable[Concatenate[F, P], R]:
    """Return *method*, run in `explained_errors`."""

    @functools.wraps(method)
    def call(self: F, *args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return method(self, *args, **kwargs)
        except Exception:
            with explained_errors(self):  # only now: to enter it takes a fiftieth of a commit
                raise

    return call


def reads(method: Callable[Concatenate[F, Connection, P], R]) -> Callable[Concatenate[F, P], R]:
    """Give *method* a connection that only reads, for the length of a call."""

    @explaining
    def go_on(self: F, failed: Exception, *args: P.args, **kwargs: P.kwargs) -> R:
        """Try the call again. A separate function keeps the common path short."""
        for _ in range(TRIES - 1):
            if not self.is_worth_another_try(failed):
                break
            try:
                with self.reader() as db:
                    return method(self, db, *args, **kwargs)
            except Exception as error:  # noqa: BLE001 - raised below, unless a try succeeds
                failed = error
        raise failed

    @functools.wraps(method)
    def call(self: F, *args: P.args, **kwargs: P.kwargs) -> R:
        try:
            with self.reader() as db:
                return method(self, db, *args, **kwargs)
        except Exception as error:  # noqa: BLE001 - explained and raised by go_on
            failed = error
        return go_on(self, failed, *args, **kwargs)

    return call


def writes(method: Callable[Concatenate[F, Connection, P], R]) -> Callable[Concatenate[F, P], R]:
    """Give *method* a connection inside a transaction, which commits unless *method* raises."""

    @explaining
    @functools.wraps(method)
    def call(self: F, *args: P.args, **kwargs: P.kwargs) -> R:
        tries_left = TRIES
        while True:
            tries_left -= 1
            try:
                return call_within(self.writing(), lambda db: method(self, db, *args, **kwargs))
            except Exception as error:
                if not (tries_left and self.is_worth_another_try(error)):
                    raise

    return call


def queued(method: Callable[Concatenate[F, Transaction, P], R]) -> Callable[Concatenate[F, P], R]:
    """Give *method* a transaction that waiting commits share; see `SqlDatabase.in_queue`."""

    @functools.wraps(method)
    def call(self: F, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.in_queue(lambda tx: method(self, tx, *args, **kwargs))

    return call
