"""Drafts: commits that are computed without the lock, then checked and made in one packet.

A draft runs a `Transaction` on a `DraftConnection`. Reads are sent at once, without the lock of the
ledger, and writes are collected. Then one packet goes to the server. In it, `alveus.begin_draft`
takes the lock, the writes run, each read runs again at its position among the writes and must
return the same rows, and a COMMIT ends the transaction. So the lock is held while the server works,
never while a host works. If a read returns other rows, the server refuses the draft. After some
refused drafts, the group is committed under the lock.

An *exact* draft is for a host that writes alone. It uses the whole cache of the host, its numbers
and times are final, and the server refuses it if another host wrote meanwhile. A *moving* draft
counts its numbers from the last commit that the host knows. Its SQL adds the number of commits that
other hosts have made since, and makes its times later if needed; see `with_moved`.

A new key, set, agent or lane gets its number from a sequence before the lock is taken. The read
that did not find the row is checked like every read. Numbers of a refused draft are never reused.
"""

from __future__ import annotations

import functools
import itertools
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Self, cast

from alveus.errors import AlveusError
from alveus.store import CLOCK_STEP_US, Accepted, Add, Batch, Commit, Past, commit_time
from alveus.store.checks import ROW_BITS
from alveus.store.commit_queue import CommitTicket
from alveus.store.postgres.connection import (
    EPOCH,
    NO_ROWS,
    FetchedRows,
    NeverRaised,
    PostgresConnection,
    gives_rows,
)
from alveus.store.postgres.dialect import NumberArray, TextArray
from alveus.store.records import MINUTE_US
from alveus.store.sql.connection import OwnerRegistry, Query, Row, Write
from alveus.store.sql.items import HELD, LAST_VERSION, TAKEN_IDS
from alveus.store.sql.lanes import CLAIM_EVENT_ID, INSERT_LANE
from alveus.store.sql.rows import BY_OP
from alveus.store.sql.transaction import Transaction, answer_of
from alveus.store.sql.writer import INSERT_AGENT, INSERT_SCOPE, INSERT_SET, LAST_RUN, WriterCache

REFUSED = "FX001"
"""SQLSTATE of a draft that is refused because another host wrote. A new draft may succeed."""

SELF_REFUSED = "FX002"
"""SQLSTATE of a draft that is refused because it read its writes. A new draft would fail too."""

ATTEMPT = """
    INSERT INTO appender (id, attempt) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET used = now(),
        attempt = CASE WHEN appender.fence < excluded.attempt THEN excluded.attempt END
"""
"""Stores the number of an attempt to commit, or fails (as it is NULL) if a fence refuses it."""

DISMISS = """
    DELETE FROM appender WHERE (id = ? AND fence = 0) OR used < now() - interval '7 days'
"""
"""Deletes the row of a host that ends, and old rows of all hosts.

If the host of an old row still runs, its next commit inserts the row again. A young row with a
fence stays, because the packet that the fence refuses may still arrive.
"""

FENCE = """
    WITH settings AS MATERIALIZED (SELECT set_config('lock_timeout', '5s', TRUE))
    INSERT INTO appender (id, attempt, fence) SELECT ?1, 0, ?2 FROM settings
    ON CONFLICT (id) DO UPDATE SET fence = excluded.fence
    RETURNING attempt, number, time, run
"""
"""Sets a fence, which refuses all attempts of a host up to a number.

Waits for an attempt that is being committed. Returns the last attempt that was committed, and the
state of the ledger before it.
"""

LOOK = f"SELECT version, structure, number, time, {EPOCH}, schema, least FROM ledger"  # noqa: S608 - ours

FOREVER_US = 1 << 62

TORN = (AttributeError, LookupError, TypeError, ValueError)
"""Errors that may come from rows that were read at different moments, if some were deleted."""

MOST_RESERVED = 256  # the most numbers that are taken at once for rows of a table

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
"""Takes numbers for new rows of `_NUMBERED`: several, as drafts often make more than one."""

_NUMBERED = ("agent", "lane", "memory_set", "scope")

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
"""How writes of a draft may begin. None changes rows that other hosts cache, or makes a number."""

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
"""For beginnings of writes, the table that a draft must not read after the write.

The draft's read would not see the write, but the same read under the lock would.
"""


class NotADraft(Exception):
    """The work needs rows or writes that a draft cannot foresee.

    Attributes:
        position: The index of the first ticket that cannot be in one draft with the tickets before
            it. If the server refused the draft, this ticket is unknown, and *position* is the
            middle of the group.
    """

    def __init__(self, position: int = 0) -> None:
        super().__init__(position)
        self.position = position


class Overtaken(Exception):
    """Another host changed the state from which this host began a draft, or a guess was wrong."""


# --- numbers and times that commits of other hosts move -------------------------------------------
#
# Each kind of number has a type, so that a number that was read is never moved, and arithmetic that
# would not be right after the move is refused.


def _refusing(self: object, other: object = None, /) -> Any:  # noqa: ANN401, ARG001 - any operator
    raise NotADraft


class _Moving(int):
    """A number that may move, as other hosts commit. It never equals a number that was read."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and int.__eq__(self, cast("int", other))

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return int.__hash__(self)

    def __bool__(self) -> bool:
        return True

    def __add__(self, other: int, /) -> Self:
        return type(self)(int(self) + int(other))

    def __sub__(self, other: int, /) -> Self:
        return type(self)(int(self) - int(other))

    __lt__ = __le__ = __gt__ = __ge__ = __or__ = __ror__ = __and__ = __mul__ = _refusing
    __floordiv__ = __mod__ = __radd__ = __rsub__ = __lshift__ = __rshift__ = _refusing


class DraftRow(_Moving):
    """The number of a row, output or compaction that a draft makes."""

    __slots__ = ()
    __sub__ = _refusing

    def __rshift__(self, bits: int) -> DraftNumber:
        return DraftNumber(int(self) >> bits)


class DraftNumber(_Moving):
    """The number of a drafted commit."""

    __slots__ = ()

    def __lshift__(self, bits: int) -> DraftRow:
        return DraftRow(int(self) << bits)


class DraftRun(_Moving):
    """The id of a run that a draft begins, counted from the last run before the draft."""

    __slots__ = ()


class TimeUse:
    """Notes if a result depends on the time of a commit (*decided*), so that it must not move."""

    decided = False


def _deciding(operator: Callable[[int, Any], Any]) -> Callable[[Any, object], Any]:
    def decide(time: DraftTime, other: object) -> object:
        time.use.decided = True
        return operator(int(time), other)

    return decide


class DraftTime(int):
    """The time of a drafted commit, which moves if another host has committed at a later time."""

    use: TimeUse

    def __new__(cls, value: int, use: TimeUse) -> Self:
        """Make the time *value*, whose comparisons and sums set `use.decided`."""
        self = super().__new__(cls, value)
        self.use = use
        return self

    __lt__, __le__ = _deciding(int.__lt__), _deciding(int.__le__)
    __gt__, __ge__ = _deciding(int.__gt__), _deciding(int.__ge__)
    __eq__, __ne__ = _deciding(int.__eq__), _deciding(int.__ne__)
    __add__, __radd__ = _deciding(int.__add__), _deciding(int.__radd__)
    __sub__, __rsub__ = _deciding(int.__sub__), _deciding(int.__rsub__)

    def __hash__(self) -> int:
        return int.__hash__(self)


class DraftRows(str):
    """A JSON list of numbers of rows that a draft makes."""

    __slots__ = ()


_MOVED = "current_setting('alveus.moved')::bigint"

_MOVED_SQL: dict[type, str] = {
    DraftNumber: f"(?{{}} + {_MOVED})",
    DraftRow: f"(?{{}} + ({_MOVED} << {ROW_BITS}))",
    DraftRows: f"""
        (SELECT '[' || string_agg((number::bigint + ({_MOVED} << {ROW_BITS}))::text, ', '
            ORDER BY position) || ']'
        FROM json_array_elements_text(?{{}}::json) WITH ORDINALITY AS made(number, position))
    """,  # noqa: S608 - ours
    DraftRun: "(?{} + current_setting('alveus.runs_moved')::bigint)",
    DraftTime: "greatest(?{}, current_setting('alveus.time')::bigint)",
}


def is_moving(value: object) -> bool:
    """Return whether commits of other hosts add an offset to the value of a binding."""
    return type(value) in _MOVED_SQL


def moved(statement: str, bindings: Sequence[object]) -> str:
    """Return *statement* with SQL that adds the offset to each binding that may move."""
    kinds = tuple(kind if kind in _MOVED_SQL else None for kind in map(type, bindings))
    return with_moved(statement, kinds) if any(kinds) else statement


@functools.lru_cache(maxsize=1024)
def with_moved(statement: str, kinds: tuple[type | None, ...]) -> str:
    """Return *statement* with numbered bindings, and SQL that adds the offset to some of them.

    Args:
        kinds: For each binding, its type in `_MOVED_SQL`, or None if it does not move.
    """
    last = 0

    def numbered(found: re.Match[str]) -> str:
        nonlocal last
        last = int(found[1]) if found[1] else last + 1
        kind = kinds[last - 1]
        return ("?{}" if kind is None else _MOVED_SQL[kind]).format(last)

    return re.sub(r"\?(\d*)", numbered, statement)


# --- reads and writes -----------------------------------------------------------------------------


class Known(NamedTuple):
    """The state of the database from which a draft starts.

    Attributes:
        version: The version of the ledger for an exact draft, or None for a moving draft.
        read_version: The version of the ledger before the first read, or None if it is not known
            yet.
        structure, epoch: See `_Seen` in `database`.
        cache: The cache of the host, with the rows that are still valid.
    """

    version: int | None
    read_version: int | None
    structure: int
    epoch: int
    cache: WriterCache


class DraftConnection:
    """A `Connection` that reads at once, without the lock, and collects writes.

    Attributes:
        guesses: Whether ids and ops that are usually new count as new without a read. The server
            refuses the draft if one is not new.
        statements: The statements to send after `alveus.begin_draft`.
        read_version: The version of the ledger before the first read, or None if nothing was read.
        gives_runs: Whether the draft begins a run, whose id the server gives.
        numbers_rows: Whether the draft gave numbers to rows that exist only after its commit.
    """

    taken: type[Exception] = NeverRaised

    def __init__(self, db: PostgresConnection, known: Known, *, guesses: bool) -> None:
        self._db, self.known, self.guesses = db, known, guesses
        self.statements: list[Query] = []
        self.read_version = known.read_version
        self.gives_runs = self.numbers_rows = False
        self._takes = 1
        self._reserved: dict[str, list[int]] = {table: [] for table in _NUMBERED}
        self._has_written = self._has_ended = False
        self._has_claimed = False
        self._too_late: set[str] = set()
        self._foreseen: dict[tuple[object, ...], list[Row]] = {}

    def execute(self, statement: str, bindings: Sequence[object] = (), /) -> FetchedRows:
        """Collect a write, or run a read and return its rows.

        Raises:
            NotADraft: A draft cannot make this write, or read this table now.
        """
        self._has_claimed = statement == CLAIM_EVENT_ID
        if self._has_claimed:  # the id counts as new; if not, the server refuses the draft
            statement = _CLAIM_NEW_ID
        elif statement == LAST_RUN and self.known.version is None:
            self.gives_runs = True
            return FetchedRows([(DraftRun(0),)])
        if not gives_rows(statement):
            self._write(statement, bindings)
            return NO_ROWS
        if statement in _NUMBERING:
            return self._number_row(statement, bindings)
        if self.guesses and statement in {LAST_VERSION, TAKEN_IDS}:
            self.statements.append((_CHECK_NEW, bindings))
            return NO_ROWS
        if self.guesses and statement == BY_OP:  # an op is unique in the journal
            return NO_ROWS
        return self._read(statement, bindings)

    def foresee(self, queries: Sequence[Query]) -> None:
        """Send the reads *queries* in one round trip, and keep their rows until `execute`."""
        if len(queries) > 1:
            asked = [(_READ.format(sql, _READ_NOW), bindings) for sql, bindings in queries]
            found = self._rows_of(*asked)
            self._foreseen = dict(zip(itertools.starmap(_named, queries), found, strict=True))

    def write(self, *writes: Write) -> None:
        """Collect each statement once for each of its rows of bindings."""
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

    def _number_row(self, statement: str, bindings: Sequence[object]) -> FetchedRows:
        """Collect the insert of a new row, and return the number that it gets."""
        table, numbered = _NUMBERING[statement]
        if not self._reserved[table]:
            (taken,) = self._rows_of((_RESERVE, (self._takes,)))
            self._takes = min(2 * self._takes, MOST_RESERVED)
            for name, numbers in zip(_NUMBERED, zip(*taken, strict=True), strict=True):
                self._reserved[name] = list(numbers)
        number = self._reserved[table].pop(0)
        self.numbers_rows = self._has_written = True
        self.statements.append((numbered, (number, *bindings)))
        return FetchedRows([(number,)])

    def _read(self, statement: str, bindings: Sequence[object]) -> FetchedRows:
        if "RETURNING" in statement or not self._too_late.isdisjoint(_tables(statement)):
            raise NotADraft
        if statement == HELD and self._has_ended:  # a trigger subtracts ended items
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
        return FetchedRows(row[1:] for row in found)

    def _rows_of(self, *queries: Query) -> list[list[Row]]:
        if self.read_version is not None:
            return self._db.query_all(*queries)
        ledger, *found = self._db.query_all((LOOK, ()), *queries)
        self.read_version, structure, _, _, epoch, *_ = ledger[0]
        if (structure, epoch) != (self.known.structure, self.known.epoch):
            raise Overtaken
        return found

    def is_overtaken(self) -> bool:
        """Return whether another host has written since the first read."""
        return self.read_version is not None and self._db.execute(LOOK).get[0] != self.read_version

    def query_all(self, *queries: Query) -> list[list[Row]]:
        """See `Connection.query_all`."""
        return [self.execute(*query).fetchall() for query in queries]

    def changes(self) -> int:
        """Return 1 after an event id was claimed.

        After other statements, raises `NotADraft`: their counts are unknown before the commit.
        """
        if not self._has_claimed:
            raise NotADraft
        return 1

    def roll_back(self, _: str, /) -> None:
        """Raise `NotADraft`, as collected writes cannot be rolled back."""
        raise NotADraft

    recover = _refusing

    def settle(self) -> None:
        """Do nothing: no statement waits."""

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
    """Return a hashable key for a query; `foresee` stores the query's rows under it."""
    values = [(*cast("list[object]", b),) if isinstance(b, list) else b for b in bindings]
    return statement, *values


_ONE_ROW = re.compile(r"INSERT INTO (\w+) \((.*?)\) VALUES \((.*)\) RETURNING id")


def _numbering(statement: str) -> tuple[str, str]:
    """Return the table into which *statement* inserts a row, and an insert that gives the number.

    The number is the first binding of the returned statement.
    """
    found = _ONE_ROW.search(statement)
    if found is None:
        raise ValueError(f"the statement must insert one row and return its number: {statement}")
    numbered = r"INSERT INTO \1 (id, \2) OVERRIDING SYSTEM VALUE VALUES (?, \3)"
    return found[1], _ONE_ROW.sub(numbered, statement)


_NUMBERING = {
    statement: _numbering(statement)
    for statement in (INSERT_AGENT, INSERT_LANE, INSERT_SET, INSERT_SCOPE)
}


@functools.lru_cache(maxsize=256)
def _read_again(statement: str, bindings: int, *, always: bool) -> str:
    """Return SQL that runs a read again, and refuses the draft if its rows have changed.

    The last binding of the SQL is the digest of the rows that the draft has read.

    Args:
        bindings: The number of the read's bindings.
        always: Check even if no other host wrote.
    """
    numbered = with_moved(statement, (None,) * bindings)
    same = f"alveus.check_same(?{bindings + 1}::bytea, {_DIGEST})"
    again = _READ.format(numbered, same)
    return again if always else _IF_CHANGED.format(again)


@functools.lru_cache(maxsize=256)
def _start(statement: str) -> str | None:
    """Return the entry of `_WRITES` with which a statement begins, or None if there is none."""
    words = " ".join(statement.split())
    return next((start for start in _WRITES if words.startswith(start)), None)


@functools.lru_cache(maxsize=256)
def _tables(statement: str) -> frozenset[str]:
    return frozenset(re.findall(r"\b(?:FROM|JOIN)\s+(\w+)", statement))


# --- drafts ---------------------------------------------------------------------------------------


class DraftBase(NamedTuple):
    """The state of the ledger before a draft was committed.

    Attributes:
        number: The number of the last commit.
        time: The time of the last commit.
        version: The version of the ledger, or None if it is not known.
        run: The id of the last run. Set only if the draft begins a run.
    """

    number: int
    time: int
    version: int | None
    run: int | None


class GroupDraft(NamedTuple):
    """The draft of a group of tickets, which the server commits if no read has changed.

    Attributes:
        cache: The cache after the draft; for an exact draft, it includes the changes of the draft.
        number: The last commit that the host knew before the draft.
        commits: The number of commits that the draft makes.
        answers: An answer for each ticket of the group. An answer is an error only if the group has
            one ticket.
        is_empty: Whether there is nothing to commit, as the work is refused or was done before.
        least, latest: The earliest and the latest time that the last commit before the draft may
            have. If it has another time, the server refuses the draft.
        last_time: The time of the last commit of the draft.
    """

    connection: DraftConnection
    cache: WriterCache
    number: int
    commits: int
    answers: Sequence[object]
    is_empty: bool
    least: int
    latest: int
    last_time: int

    @property
    def is_refused(self) -> bool:
        """Whether every answer is an error, so that no caller relies on a commit."""
        return all(isinstance(answer, AlveusError) for answer in self.answers)

    @property
    def is_exact(self) -> bool:
        """Whether this is an exact draft, whose numbers and times are final."""
        return self.connection.known.version is not None

    def begin(self, host: int, attempt: int, wait_s: float, limit_ms: int | None) -> Query:
        """Return the statement that takes the lock, and that reads a `DraftBase`.

        Args:
            wait_s: The longest wait for the lock.
            limit_ms: The longest time for which the draft may hold the lock, or None for no limit.
        """
        known, connection = self.connection.known, self.connection
        bindings = (
            *(host, attempt, known.epoch, known.structure, known.version, connection.read_version),
            *(self.number, 0 if connection.gives_runs else None, self.commits),
            *(self.least, self.latest, self.last_time),
            str(max(1, round(wait_s * 1000))),
        )
        if limit_ms is None:
            return _BEGIN, bindings
        return _BEGIN_LIMITED, (str(limit_ms), *bindings)

    def answers_after(self, base: DraftBase) -> Sequence[object]:
        """Return the answers with final numbers and times, after a commit upon *base*."""
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
    """A transaction that does not know which commits other hosts make before it.

    Args:
        earliest: The earliest clock reading of its batches, or None if it has no batches.
    """

    def __init__(
        self, connection: DraftConnection, known: Known, earliest: int | None, owners: OwnerRegistry
    ) -> None:
        known.cache.limit_size()  # now, as the copy below shares most of the cache
        cache = known.cache.without_versions()
        cache.number = DraftNumber(known.cache.number or 0)
        cache.time = -FOREVER_US if earliest is None else earliest
        self.least = -FOREVER_US
        if earliest is not None and known.read_version is not None and known.cache.time > earliest:
            cache.time = self.least = known.cache.time  # an earlier time would set the clock back
        self._earliest, self._first_time, self._use = earliest, cache.time, TimeUse()
        super().__init__(connection, cache, owners)

    @property
    def latest(self) -> int:
        """See `GroupDraft.latest`. After a later commit, the draft's times would not be valid.

        The clock would go back, `read_at` be in another minute, or a decision rest on a wrong time.
        """
        if self._earliest is None:
            return FOREVER_US
        if self._use.decided:
            return self._first_time
        end_of_minute = self._first_time - self._first_time % MINUTE_US + MINUTE_US - 1
        return min(self._earliest + CLOCK_STEP_US, end_of_minute)

    def _time(self, batch: Batch, number: int) -> int:  # noqa: ARG002 - the signature of `Transaction._time`
        if batch.corroborated is not None:
            self.cache.corroborated = batch.corroborated
        last = int(self.cache.time)
        time = commit_time(batch.time, last)
        if time < last:
            raise NotADraft
        return DraftTime(time, self._use)

    def _ended(self, ended: dict[str, list[int]]) -> str | None:
        if any(is_moving(row) for rows in ended.values() for row in rows):
            raise NotADraft
        return super()._ended(ended)


def only_adds(group: Sequence[CommitTicket]) -> bool:
    """Return whether a group only adds items, so that cached trees and runs stay unchanged."""
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


def may_be_drafted(ticket: CommitTicket) -> bool:
    """Return whether a draft of *ticket* is worth a try. The draft may still raise `NotADraft`."""
    return bool(ticket.drafts or ticket.batches) and all(map(_may_be_drafted, ticket.batches))


def _may_be_drafted(batch: Batch) -> bool:
    if batch.after is not None or batch.history_start != (0, 0):
        return False
    if any(define.replace for define in batch.define):
        return False
    return all(type(change) is not Past for change in batch.items)


def drafted(
    group: Sequence[CommitTicket], connection: DraftConnection, owners: OwnerRegistry
) -> GroupDraft:
    """Return the draft of a group.

    Adds numbers of keys, sets and new rows, and notes, to the cache. An exact draft also makes the
    changes of its commits in the cache.

    Raises:
        NotADraft: A ticket needs a separate draft, or the lock.
        Overtaken: Another host has changed the known state, or a guess may be wrong.
    """
    known = connection.known
    batches = [batch for ticket in group for batch in ticket.batches]
    if known.version is not None:
        tx = Transaction(connection, known.cache, owners).begun()
    else:
        earliest = min((batch.time for batch in batches), default=None)
        tx = MovingTransaction(connection, known, earliest, owners)
    number = int(tx.cache.number or 0)
    connection.foresee([query for batch in batches for query in tx.lookups(batch)])
    try:
        answers = _answers(tx, group)
    except AlveusError as error:
        if connection.guesses:
            raise Overtaken from error  # a guess may have caused it
        answers = [error]
    except TORN as error:
        if connection.is_overtaken():
            raise Overtaken from error
        raise
    return _draft(tx, connection, number, answers)


def _draft(
    tx: Transaction, connection: DraftConnection, number: int, answers: Sequence[object]
) -> GroupDraft:
    is_repeated = all(map(_was_made, answers))  # then no commit is made, and times do not matter
    moving = tx if isinstance(tx, MovingTransaction) and not is_repeated else None
    commits = int(tx.cache.number or 0) - number
    is_timed = commits or connection.known.version is not None  # else no commit has this time
    return GroupDraft(
        connection,
        tx.cache,
        number,
        commits,
        answers,
        is_empty=is_repeated or all(isinstance(answer, AlveusError) for answer in answers),
        least=-FOREVER_US if moving is None else moving.least,
        latest=FOREVER_US if moving is None else moving.latest,
        last_time=int(tx.cache.time) if is_timed else -FOREVER_US,
    )


def _was_made(answer: object) -> bool:
    """Return whether *answer* is a list of commits that were all made before."""
    commits = cast("list[object]", answer) if isinstance(answer, list) else [None]
    return all(isinstance(each, Commit) and each.adopted for each in commits)


def _answers(tx: Transaction, group: Sequence[CommitTicket]) -> Sequence[object]:
    """Do the work of a group, and return an answer for each ticket.

    Raises:
        AlveusError: The only ticket is refused.
        NotADraft: One of several tickets is refused, or a ticket reads rows that earlier tickets
            write.
    """
    answers: list[object] = []
    for position, ticket in enumerate(group):
        try:
            answers.append(
                [tx.apply_unflushed(batch) for batch in ticket.batches]
                if ticket.batches
                else answer_of(tx, ticket)
            )
        except NotADraft as error:
            raise NotADraft(position) from error
        except AlveusError as error:
            if len(group) > 1 or not ticket.raises:
                raise NotADraft(position) from error
            raise
    tx.pending_rows.flush()
    return answers
