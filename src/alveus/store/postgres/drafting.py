"""Commits that nobody waits for: worked out without the lock, checked and made in one packet.

A draft runs a transaction on a `DraftConnection`: what it reads is asked at once, without the lock
of the ledger, and what it writes is noted. Then everything goes to the server together:
`alveus.begin_draft` takes the lock, each read is made once more, in its place among the writes, and
has to give the same rows; then come the writes and the COMMIT. So the lock is held while the server
works, and never while a host does. What would come out otherwise is refused, and nothing was done.

There are two kinds. An *exact* draft is for a host that writes alone: it goes by all that the host
has cached, its numbers and times are right, and it is refused if anybody wrote since. A *moving*
draft goes by what it reads. Its numbers follow the last commit that the host knows of; its SQL
moves them, and times, by as much as others have (see `draft_numbers`).

A host's row in the table `appender` says which of its attempts was the last to be committed. That
is asked for when an answer is lost; a fence is set then, so that what is still on its way comes to
nothing.

A key, a set, an agent or a lane that is new gets its number from its sequence before the lock is
taken; what reads that there is none is checked as all reads are. Numbers of a draft that came to
nothing are never given again.
"""

from __future__ import annotations

import functools
import itertools
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, cast

from alveus.errors import AlveusError
from alveus.store import (
    CLOCK_STEP_US,
    Accepted,
    Add,
    Batch,
    Commit,
    Past,
    commit_time,
)
from alveus.store.postgres.connection import (
    EPOCH,
    NO_ROWS,
    NeverRaised,
    NoRows,
    PostgresConnection,
    gives_rows,
)
from alveus.store.postgres.dialect import NumberArray, TextArray
from alveus.store.postgres.draft_numbers import (
    DraftNumber,
    DraftRow,
    DraftRows,
    DraftRun,
    DraftTime,
    NotADraft,
    TimeUse,
    is_moving,
    moved,
    with_moved,
)
from alveus.store.records import MINUTE_US
from alveus.store.sql.connection import OwnerRegistry, Query, Row, Write
from alveus.store.sql.items import HELD, LAST_VERSION, TAKEN_IDS
from alveus.store.sql.journal import BY_OP
from alveus.store.sql.lanes import CLAIM_EVENT_ID, INSERT_LANE
from alveus.store.sql.transaction import StoreTicket, Transaction, answer_of
from alveus.store.sql.writer import INSERT_AGENT, INSERT_SCOPE, INSERT_SET, LAST_RUN, WriterCache

REFUSED = "FX001"
"""SQLSTATE of a draft that others were faster than; another draft may do."""

SELF_REFUSED = "FX002"
"""SQLSTATE of a draft that read what it wrote itself: another would be no better."""

ENROL = "INSERT INTO appender (id, attempt) VALUES (?, 0) ON CONFLICT DO NOTHING"

ATTEMPT = """
    INSERT INTO appender (id, attempt) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET used = now(),
        attempt = CASE WHEN appender.fence < excluded.attempt THEN excluded.attempt END
"""
"""Says in any other commit which attempt it is; beyond a fence that is NULL, and refused."""

DISMISS = """
    DELETE FROM appender WHERE (id = ? AND fence = 0) OR used < now() - interval '7 days'
"""
"""Also of hosts that ended without a word; one that is still there enrols again.

A fence stays: a packet that it is to stop may still be on its way.
"""

FENCE = """
    WITH settings AS MATERIALIZED (SELECT set_config('lock_timeout', '5s', TRUE))
    INSERT INTO appender (id, attempt, fence) SELECT ?1, 0, ?2 FROM settings
    ON CONFLICT (id) DO UPDATE SET fence = excluded.fence
    RETURNING attempt, number, time, run
"""
"""Stops attempts up to one; waits for one that is in the middle of its commit."""

LOOK = f"SELECT version, structure, number, time, {EPOCH}, schema, least FROM ledger"  # noqa: S608 - ours

FOREVER_US = 1 << 62

TORN = (AttributeError, LookupError, TypeError, ValueError)
"""What comes of rows that were read at several moments, if one was gone by the time of another."""

MOST_RESERVED = 256  # numbers that are taken at once for rows of a table

_BEGIN = f"""
    SELECT begun.* FROM alveus.begin_draft(
        ?, ?, CASE WHEN {EPOCH} = ? THEN ?::bigint END, ?, ?, ?, ?, ?, ?, ?, ?, ?) AS begun
"""  # noqa: S608 - ours

_BEGIN_LIMITED = _BEGIN.replace("begun.*", "begun.*, set_config('transaction_timeout', ?, TRUE)", 1)

_RESERVE = """
    SELECT nextval('alveus.agent_id_seq'), nextval('alveus.lane_id_seq'),
        nextval('alveus.memory_set_id_seq'), nextval('alveus.scope_id_seq')
    FROM generate_series(1, ?)
"""
"""Takes numbers for rows; what makes one row is about to make others, and no number is scarce."""

_NUMBERED = ("agent", "lane", "memory_set", "scope")
"""Tables whose rows get them, in that order."""

_CHECK_NEW = "SELECT alveus.check_new(?, ?)"

_CLAIM_NEW_ID = CLAIM_EVENT_ID.replace(" ON CONFLICT DO NOTHING", "")

_IF_CHANGED = "SELECT CASE current_setting('alveus.unchanged') WHEN 'false' THEN ({}) END"
_READ = "WITH found AS MATERIALIZED ({}) SELECT {}"
_DIGEST = """
    (SELECT sha256(convert_to(string_agg(found::text, chr(10)), 'UTF8')) FROM found)
"""
_READ_NOW = f"{_DIGEST} AS digest, found.* FROM found"

_WRITES = (
    *("INSERT INTO access (", "INSERT INTO change (", "INSERT INTO compaction ("),
    *("INSERT INTO durable_call (", "INSERT INTO feature (", "INSERT INTO item ("),
    *("INSERT INTO journal (", "INSERT INTO lease (", "INSERT INTO link ", "INSERT INTO node ("),
    *("INSERT INTO output (", "INSERT INTO setback (", "INSERT INTO event_id ("),
    *("INSERT INTO run (", "INSERT INTO step (", "INSERT INTO stub "),
    *("UPDATE compaction SET undone", "UPDATE feature SET ended", "UPDATE item SET ended"),
    *("UPDATE lane SET next", "UPDATE lease SET owner", "UPDATE memory_set SET items"),
    *("UPDATE node SET ", "UPDATE run SET ", "UPDATE scope SET head", "UPDATE step SET sensory"),
    *("DELETE FROM durable_call ", "DELETE FROM lease ", "DELETE FROM node "),
    *("INSERT INTO consumer (", "UPDATE consumer SET position", "DELETE FROM consumer "),
)
"""What a draft may write: nothing that others remember by its number, or that gives one."""

_READ_TOO_LATE = {
    "DELETE FROM consumer ": "consumer",
    "INSERT INTO consumer (": "consumer",
    "UPDATE consumer SET position": "consumer",
    "INSERT INTO item (": "item",
    "INSERT INTO journal (": "journal",
    "INSERT INTO feature (": "feature",
    "INSERT INTO node (": "node",
    "UPDATE memory_set SET items": "memory_set",
}
"""What a table is not worth reading after: it would hardly be the same under the lock."""


# --- what a draft reads and writes ----------------------------------------------------------------


class Known(NamedTuple):
    """What a draft goes by.

    Attributes:
        version: Of the ledger, where the draft is exact; None: it is moving.
        read_version: Of the ledger, before anything is read; None: it is to be asked for.
        structure: See `alveus.ledger`.
        epoch: Of the server.
        cache: What of the database the host has cached, and still holds.
    """

    version: int | None
    read_version: int | None
    structure: int
    epoch: int
    cache: WriterCache


class _ReadRows:
    """The rows of a read."""

    def __init__(self, rows: list[Row]) -> None:
        self._rows = iter(rows)

    @property
    def get(self) -> Any:  # noqa: ANN401 - as the query says
        """The next row, or its only column; None: no row."""
        row = next(self._rows, None)
        return None if row is None else row[0] if len(row) == 1 else row

    def fetchall(self) -> list[Row]:
        """Return all rows that are left."""
        return list(self._rows)

    def __iter__(self) -> Iterator[Row]:
        """Yield the rows that are left."""
        return self._rows


class DraftConnection:
    """Reads at once, without the lock, and notes what is to be written.

    Attributes:
        known: What it goes by.
        guesses: Whether ids are taken to be new that are to be, in place of asking.
        statements: What is to be sent after `alveus.begin_draft`.
        read_version: Of the ledger, before the first read; None: nothing was read.
        gives_runs: Whether a run is begun whose id the server is to give.
        numbers_rows: Whether numbers were given to rows that are there once it is committed: if
            it is not, nobody may go by them.
    """

    taken: type[Exception] = NeverRaised

    def __init__(self, db: PostgresConnection, known: Known, *, guesses: bool) -> None:
        self._db, self.known, self.guesses = db, known, guesses
        self.statements: list[tuple[str, Sequence[object]]] = []
        self.read_version = known.read_version
        self.gives_runs = self.numbers_rows = False
        self._takes = 1
        self._reserved: dict[str, list[int]] = {table: [] for table in _NUMBERED}
        self._has_written = self._has_ended = False
        self._has_claimed = False
        self._too_late: set[str] = set()
        self._foreseen: dict[tuple[object, ...], list[Row]] = {}

    def execute(self, statement: str, bindings: Sequence[object] = (), /) -> _ReadRows | NoRows:
        """Note what is to be written; answer what is read."""
        self._has_claimed = statement == CLAIM_EVENT_ID
        if self._has_claimed:  # an id is new: it is unique, and one that is not refuses the draft
            statement = _CLAIM_NEW_ID
        elif statement == LAST_RUN and self.known.version is None:
            self.gives_runs = True
            return _ReadRows([(DraftRun(0),)])
        if not gives_rows(statement):
            self._write(statement, bindings)
            return NO_ROWS
        if statement in _NUMBERING:
            return self._number_row(statement, bindings)
        if self.guesses and statement in {LAST_VERSION, TAKEN_IDS}:  # that an id is new
            self.statements.append((_CHECK_NEW, bindings))
            return NO_ROWS
        if self.guesses and statement == BY_OP:  # an op is unique in the journal
            return NO_ROWS
        return self._read(statement, bindings)

    def foresee(self, queries: Sequence[Query]) -> None:
        """Ask together what is about to be read one after the other, which this will answer."""
        if len(queries) > 1:
            asked = [(_READ.format(sql, _READ_NOW), bindings) for sql, bindings in queries]
            found = self._rows_of(*asked)
            self._foreseen = dict(zip(itertools.starmap(_named, queries), found, strict=True))

    def write(self, *writes: Write) -> None:
        """Note what is to be written."""
        for statement, rows in writes:
            for row in rows:
                self._write(statement, row)

    def _write(self, statement: str, bindings: Sequence[object]) -> None:
        start = _start(statement)
        if start is None:
            raise NotADraft
        self._has_written = True
        self._has_ended = self._has_ended or start == "UPDATE item SET ended"
        if start in _READ_TOO_LATE:
            self._too_late.add(_READ_TOO_LATE[start])
        self.statements.append((moved(statement, bindings), bindings))

    def _number_row(self, statement: str, bindings: Sequence[object]) -> _ReadRows:
        """Note that a row is to be made; answer its number."""
        table, numbered = _NUMBERING[statement]
        number = self._reserve(table)
        self.numbers_rows = self._has_written = True
        self.statements.append((numbered, (number, *bindings)))
        return _ReadRows([(number,)])

    def _reserve(self, table: str) -> int:
        """Take a number that no other row of a table has, or will have."""
        if not self._reserved[table]:
            (taken,) = self._rows_of((_RESERVE, (self._takes,)))
            self._takes = min(2 * self._takes, MOST_RESERVED)
            for name, numbers in zip(_NUMBERED, zip(*taken, strict=True), strict=True):
                self._reserved[name] = list(numbers)
        return self._reserved[table].pop(0)

    def _read(self, statement: str, bindings: Sequence[object]) -> _ReadRows:
        if "RETURNING" in statement or not self._too_late.isdisjoint(_tables(statement)):
            raise NotADraft
        if statement == HELD and self._has_ended:  # which the server counts out
            raise NotADraft
        found = self._foreseen.pop(_named(statement, bindings), None)
        if found is None:
            (found,) = self._rows_of((_READ.format(statement, _READ_NOW), bindings))
        digest = found[0][0] if found else None
        if self._has_written or self.known.version is None:
            always = self._has_written or any(map(is_moving, bindings))
            again = _read_again(statement, len(bindings), always=always)
            bound = (*bindings, digest)
            self.statements.append((moved(again, bound), bound))
        return _ReadRows([row[1:] for row in found])

    def _rows_of(self, *queries: Query) -> list[list[Row]]:
        if self.read_version is not None:
            return self._db.query_all(*queries)
        ledger, *found = self._db.query_all((LOOK, ()), *queries)
        self.read_version, structure, _, _, epoch, *_ = ledger[0]
        if (structure, epoch) != (self.known.structure, self.known.epoch):
            raise Overtaken
        return found

    def is_overtaken(self) -> bool:
        """Whether others have written since the first read."""
        return self.read_version is not None and self._db.execute(LOOK).get[0] != self.read_version

    def query_all(self, *queries: Query) -> list[list[Row]]:
        """See `Connection.query_all`."""
        return [self.execute(*query).fetchall() for query in queries]

    def changes(self) -> int:
        """Tell that an event id is new; refuse to tell of all else: nothing was written yet."""
        if not self._has_claimed:
            raise NotADraft
        return 1

    def roll_back(self, _: str, /) -> None:
        """Refuse what a draft cannot do."""
        raise NotADraft

    def recover(self) -> None:
        """Refuse what a draft cannot do."""
        raise NotADraft

    def settle(self) -> None:
        """Nothing waits."""

    def numbers(self, values: Sequence[int], /) -> NumberArray:
        """See `Connection.numbers`."""
        if any(map(is_moving, values)):
            raise NotADraft
        return NumberArray(values)

    def json_of(self, rows: Sequence[int], /) -> str:
        """See `Connection.json_of`."""
        if set(map(type, rows)) == {DraftRow}:
            return DraftRows(json.dumps([int(row) for row in rows]))
        if any(map(is_moving, rows)):
            raise NotADraft
        return json.dumps(rows)

    def texts(self, values: Sequence[str], /) -> TextArray:
        """See `Connection.texts`."""
        return TextArray(values)


def _named(statement: str, bindings: Sequence[object]) -> tuple[object, ...]:
    """Return what tells a query from others."""
    values = [(*cast("list[object]", b),) if isinstance(b, list) else b for b in bindings]
    return statement, *values


_ONE_ROW = re.compile(r"INSERT INTO (\w+) \((.*?)\) VALUES \((.*)\) RETURNING id")


def _numbering(statement: str) -> tuple[str, str]:
    """Return of which table a statement makes a row, and the one that also says its number."""
    found = _ONE_ROW.search(statement)
    if found is None:
        raise ValueError(f"it makes no row of which it gives the number: {statement}")
    numbered = r"INSERT INTO \1 (id, \2) OVERRIDING SYSTEM VALUE VALUES (?, \3)"
    return found[1], _ONE_ROW.sub(numbered, statement)


_NUMBERING = {
    statement: _numbering(statement)
    for statement in (INSERT_AGENT, INSERT_LANE, INSERT_SET, INSERT_SCOPE)
}


class Overtaken(Exception):
    """Others have changed what the host knew when it began to draft."""


@functools.lru_cache(maxsize=256)
def _read_again(statement: str, bindings: int, *, always: bool) -> str:
    """Return what checks that a read gives what it gave; the digest of that is one binding more.

    Args:
        always: Even where nobody has written since: the draft has, or asked by a number or time
            that moves by what others wrote before it read anything.
    """
    numbered = with_moved(statement, (None,) * bindings)
    same = f"alveus.check_same(?{bindings + 1}::bytea, {_DIGEST})"
    again = _READ.format(numbered, same)
    if always:
        return again
    return _IF_CHANGED.format(again)


@functools.lru_cache(maxsize=256)
def _start(statement: str) -> str | None:
    """Return with what of `_WRITES` a statement begins."""
    words = " ".join(statement.split())
    return next((start for start in _WRITES if words.startswith(start)), None)


@functools.lru_cache(maxsize=256)
def _tables(statement: str) -> frozenset[str]:
    return frozenset(re.findall(r"\b(?:FROM|JOIN)\s+(\w+)", statement))


# --- drafts ---------------------------------------------------------------------------------------


class DraftBase(NamedTuple):
    """What the server gave a draft.

    Attributes:
        number: The last commit before.
        time: When that was.
        version: Of the ledger, before; None: nobody knows.
        run: The last run before, where the draft begins one.
    """

    number: int
    time: int
    version: int | None
    run: int | None


class GroupDraft(NamedTuple):
    """A group of commits, as they are made if nothing of what was read has changed.

    Attributes:
        known: What it goes by.
        read_version: See `DraftConnection`.
        number: Of the commit before it.
        answers: For each ticket of the group; an error: to the only one.
        is_empty: Whether there is nothing to commit, but answers are certain once reads were
            checked: what was asked for is refused, or was done before.
        least: The time at which the last commit before may have been made, at the earliest.
        latest: And at the latest.
        guesses, gives_runs: See `DraftConnection`.
        cache: Updated with what the draft does, if it is exact.
    """

    known: Known
    guesses: bool
    read_version: int | None
    number: int
    gives_runs: bool
    commits: int
    answers: Sequence[object]
    is_empty: bool
    least: int
    latest: int
    last_time: int
    cache: WriterCache
    statements: Sequence[tuple[str, Sequence[object]]]

    @property
    def is_refused(self) -> bool:
        """Whether nobody is told of a commit, so that nobody relies on one."""
        return all(isinstance(answer, AlveusError) for answer in self.answers)

    @property
    def is_exact(self) -> bool:
        """Whether numbers and times are right as they are."""
        return self.known.version is not None

    def begin(
        self, host: int, attempt: int, wait_s: float, limit_ms: int | None
    ) -> tuple[str, Sequence[object]]:
        """Return the statement that takes the lock, and gives a `DraftBase`.

        Args:
            limit_ms: How long the server lets the transaction last from then on; None: for ever.
        """
        known = self.known
        bindings = (
            *(host, attempt, known.epoch, known.structure, known.version, self.read_version),
            *(self.number, 0 if self.gives_runs else None, self.commits),
            *(self.least, self.latest, self.last_time),
            str(max(1, round(wait_s * 1000))),
        )
        if limit_ms is None:
            return _BEGIN, bindings
        return _BEGIN_LIMITED, (str(limit_ms), *bindings)

    def answers_after(self, base: DraftBase) -> Sequence[object]:
        """Return the answers with the numbers and times that the server gave."""
        if self.is_exact or self.is_empty:
            return self.answers
        return [self._settled(answer, base) for answer in self.answers]

    def _settled(self, answer: object, base: DraftBase) -> object:
        if isinstance(answer, Commit):
            if answer.adopted:
                return answer
            number = int(answer.number) + base.number - self.number
            return replace(answer, number=number, time=max(int(answer.time), base.time))
        if isinstance(answer, Accepted) and type(answer.run) is DraftRun:
            return replace(answer, run=int(answer.run) + (base.run or 0))
        if isinstance(answer, list):
            return [self._settled(each, base) for each in cast("list[object]", answer)]
        return answer


class MovingTransaction(Transaction):
    """A transaction that does not know which commits come before it.

    Attributes:
        least: See `GroupDraft`.
    """

    def __init__(
        self,
        connection: DraftConnection,
        known: Known,
        earliest: int | None,
        owners: OwnerRegistry,
    ) -> None:
        known.cache.limit_size()  # most of it is shared
        cache = known.cache.without_versions()
        cache.number = DraftNumber(known.cache.number or 0)
        cache.time = -FOREVER_US if earliest is None else earliest
        self.least = -FOREVER_US
        if earliest is not None and known.read_version is not None and known.cache.time > earliest:
            cache.time = self.least = known.cache.time  # unless that goes back
        self._earliest, self._first_time, self._use = earliest, cache.time, TimeUse()
        super().__init__(connection, cache, owners)

    @property
    def latest(self) -> int:
        """The time at which the last commit before may have been made.

        After a later one, times would go back, or the words of an item be of another minute (see
        `read_at`).
        """
        if self._earliest is None:
            return FOREVER_US
        if self._use.decided:
            return self._first_time
        end_of_minute = self._first_time - self._first_time % MINUTE_US + MINUTE_US - 1
        return min(self._earliest + CLOCK_STEP_US, end_of_minute)

    def _time(self, batch: Batch, number: int) -> int:  # noqa: ARG002 - as the other
        if batch.corroborated is not None:
            self.cache.corroborated = batch.corroborated
        last = int(self.cache.time)
        time = commit_time(batch.time, last)
        if time < last:
            raise NotADraft
        return DraftTime(time, self._use)

    def _ended(self, nodes: list[int], items: list[int]) -> str:
        if any(map(is_moving, (*nodes, *items))):
            raise NotADraft
        return super()._ended(nodes, items)


def only_adds(group: Sequence[StoreTicket]) -> bool:
    """Return whether a group changes nothing of what a host caches of exact memory and runs."""
    return all(ticket.batches for ticket in group) and all(
        batch.items
        and batch.base is None
        and batch.epoch is None
        and batch.run is None
        and not batch.state
        and all(type(change) is Add and not change.links for change in batch.items)
        for ticket in group
        for batch in ticket.batches
    )


def may_be_drafted(ticket: StoreTicket) -> bool:
    """Return whether it is worth trying: a draft may still turn out not to be one."""
    return bool(ticket.drafts or ticket.batches) and all(map(_may_be_drafted, ticket.batches))


def _may_be_drafted(batch: Batch) -> bool:
    if batch.after is not None or batch.history_start != (0, 0):
        return False
    if any(define.replace for define in batch.define):
        return False
    return all(type(change) is not Past for change in batch.items)


def drafted(
    group: Sequence[StoreTicket], connection: DraftConnection, owners: OwnerRegistry
) -> GroupDraft:
    """Return a group as a draft.

    What is known is changed only where the draft is exact; numbers of keys and sets, and notes,
    that are looked up are added to it in any case, and those of rows that are to be made.

    Raises:
        NotADraft: A part of it has to be done by itself, or under the lock.
        Overtaken: Others have changed what is known.
    """
    known = connection.known
    tx = _transaction(connection, known, group, owners)
    number = int(tx.cache.number or 0)
    batches = [batch for ticket in group for batch in ticket.batches]
    connection.foresee([query for batch in batches for query in tx.lookups(batch)])
    try:
        answers = _answers(tx, group)
    except AlveusError as error:
        if connection.guesses:
            raise Overtaken from error  # it may come from a guess
        return _draft(tx, connection, number, [error])
    except TORN as error:
        if connection.is_overtaken():
            raise Overtaken from error
        raise
    return _draft(tx, connection, number, answers)


def _transaction(
    connection: DraftConnection,
    known: Known,
    group: Sequence[StoreTicket],
    owners: OwnerRegistry,
) -> Transaction:
    if known.version is not None:
        return Transaction(connection, known.cache, owners).begun()
    readings = [batch.time for ticket in group for batch in ticket.batches]
    return MovingTransaction(connection, known, min(readings, default=None), owners)


def _draft(
    tx: Transaction, connection: DraftConnection, number: int, answers: Sequence[object]
) -> GroupDraft:
    is_repeated = all(map(_was_made, answers))  # whatever the time is now
    moving = tx if isinstance(tx, MovingTransaction) and not is_repeated else None
    commits = int(tx.cache.number or 0) - number
    is_timed = commits or connection.known.version is not None  # else it has the time of no commit
    return GroupDraft(
        known=connection.known,
        guesses=connection.guesses,
        read_version=connection.read_version,
        number=number,
        gives_runs=connection.gives_runs,
        commits=commits,
        answers=answers,
        is_empty=is_repeated or all(isinstance(answer, AlveusError) for answer in answers),
        least=-FOREVER_US if moving is None else moving.least,
        latest=FOREVER_US if moving is None else moving.latest,
        last_time=int(tx.cache.time) if is_timed else -FOREVER_US,
        cache=tx.cache,
        statements=connection.statements,
    )


def _was_made(answer: object) -> bool:
    """Return whether an answer is of commits that were there before."""
    commits = cast("list[object]", answer) if isinstance(answer, list) else [None]
    return all(isinstance(each, Commit) and each.adopted for each in commits)


def _answers(tx: Transaction, group: Sequence[StoreTicket]) -> Sequence[object]:
    """Do the work of a group.

    Raises:
        AlveusError: It refuses the only ticket.
        NotADraft: One of several is refused, or reads what those before it write.
    """
    answers: list[object] = []
    for place, ticket in enumerate(group):
        try:
            answers.append(
                [tx.apply_unflushed(batch) for batch in ticket.batches]
                if ticket.batches
                else answer_of(tx, ticket)
            )
        except NotADraft as error:
            raise NotADraft(place) from error
        except AlveusError as error:
            if len(group) > 1 or not ticket.raises:
                raise NotADraft(place) from error
            raise
    tx.pending_rows.flush()
    return answers
