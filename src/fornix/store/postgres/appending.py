"""Commits that only add items, in one round trip: the server gives them their numbers.

Other commits read under the lock of the ledger, and all hosts wait meanwhile. These are drafted as
if nobody had written since this host's last commit; their SQL moves commit numbers, rows and times
by as much as others have. `fornix.begin_append` takes the lock, and refuses what a draft could not
know: then nothing was done, and the usual way says why.

A host's row in the table `appender` says which of its attempts was the last to be committed. That
is asked for when an answer is lost; a fence is set then, so that what is still on its way comes to
nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from fornix.errors import FornixError
from fornix.store import CLOCK_STEP_US, Add, Commit
from fornix.store.checks import ROW_BITS
from fornix.store.postgres.connection import EPOCH, NO_ROWS, NeverRaised, NoRows
from fornix.store.postgres.dialect import NumberArray, TextArray
from fornix.store.records import MINUTE_US
from fornix.store.sql.apply import Transaction
from fornix.store.sql.batched_inserts import (
    COUNT,
    INSERT_ACCESS,
    INSERT_FEATURE,
    INSERT_ITEM,
    INSERT_JOURNAL,
    LOG_ADDED,
)
from fornix.store.sql.connection import Row
from fornix.store.sql.group_commit import StoreTicket
from fornix.store.sql.items import LAST_VERSION, TAKEN_IDS
from fornix.store.sql.journal import BY_OP
from fornix.store.sql.scope_rows import WriterCache

REFUSED = "FX001"
"""What SQLSTATE the functions of the schema give where a draft could not know something."""

ENROL = "INSERT INTO appender (id, attempt) VALUES (?, 0) ON CONFLICT DO NOTHING"

ATTEMPT = """
    INSERT INTO appender (id, attempt) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET used = now(),
        attempt = CASE WHEN appender.fence < excluded.attempt THEN excluded.attempt END
"""
"""Says in any other commit which attempt it is; beyond a fence that is NULL, and refused."""

DISMISS = "DELETE FROM appender WHERE id = ? OR used < now() - interval '7 days'"
"""Also of hosts that ended without a word; one that is still there enrols again."""

FENCE = """
    WITH settings AS MATERIALIZED (SELECT set_config('lock_timeout', '5s', TRUE))
    INSERT INTO appender (id, attempt, fence) SELECT ?1, 0, ?2 FROM settings
    ON CONFLICT (id) DO UPDATE SET fence = excluded.fence
    RETURNING attempt, number, time
"""
"""Stops attempts up to one; waits for one that is in the middle of its commit."""

_BEGIN = f"""
    SELECT * FROM fornix.begin_append(
        ?, ?, CASE WHEN {EPOCH} = ? THEN ?::bigint END, ?, ?, ?, ?, ?)
"""  # noqa: S608 - ours

_CHECK_NEW = "SELECT fornix.check_new(?, ?)"


def _moved(
    sql: str, *, rows: Sequence[int] = (), commits: Sequence[int] = (), times: Sequence[int] = ()
) -> str:
    """Return a statement that moves some of its bindings as `fornix.begin_append` says."""
    moved = "current_setting('fornix.moved')::bigint"
    ways = {
        **dict.fromkeys(rows, f"(?{{}} + ({moved} << {ROW_BITS}))"),
        **dict.fromkeys(commits, f"(?{{}} + {moved})"),
        **dict.fromkeys(times, "greatest(?{}, current_setting('fornix.time')::bigint)"),
    }
    return re.sub(r"\?(\d+)", lambda found: ways.get(int(found[1]), "?{}").format(found[1]), sql)


_INSERTS = {
    INSERT_ITEM: _moved(INSERT_ITEM, rows=(1, 4), commits=(6,), times=(8, 9)),
    INSERT_FEATURE: _moved(INSERT_FEATURE, rows=(3, 4), commits=(6,), times=(17,)),
    LOG_ADDED: _moved(LOG_ADDED, rows=(2,)),
    COUNT: COUNT,
    INSERT_ACCESS: _moved(INSERT_ACCESS, rows=(1,)),
    INSERT_JOURNAL: _moved(INSERT_JOURNAL, commits=(1,), times=(2,)),
}
"""The statements that a draft may hold, and what is sent in their place."""


class _NotAnAppend(Exception):
    """A transaction reads, or writes what a draft cannot hold."""


class _DraftConnection:
    """Takes the statements of a transaction, as if it were a connection, and answers none.

    What is looked up because it may be there already is taken to be new; the server checks that.
    """

    taken: type[Exception] = NeverRaised

    def __init__(self) -> None:
        self.statements: list[tuple[str, Sequence[object]]] = []

    def execute(self, statement: str, bindings: Sequence[object] = (), /) -> NoRows:
        if statement in {LAST_VERSION, TAKEN_IDS}:
            self.statements.append((_CHECK_NEW, bindings))
        elif statement != BY_OP:  # an op is unique in the journal
            raise _NotAnAppend
        return NO_ROWS

    def executemany(self, statement: str, bindings: Iterable[Sequence[object]], /) -> None:
        if statement not in _INSERTS:
            raise _NotAnAppend
        sql = _INSERTS[statement]
        self.statements.extend((sql, each) for each in bindings)

    def query_all(self, *_: tuple[str, Sequence[object]]) -> list[list[Row]]:
        raise _NotAnAppend

    def changes(self) -> int:
        raise _NotAnAppend

    def roll_back(self, _: str, /) -> None:
        raise _NotAnAppend

    def recover(self) -> None:
        raise _NotAnAppend

    def settle(self) -> None:
        """Nothing waits."""

    def numbers(self, values: Sequence[int], /) -> NumberArray:
        return NumberArray(values)

    def texts(self, values: Sequence[str], /) -> TextArray:
        return TextArray(values)


class _NoOwners:
    """Owners of leases, which nothing that only adds is about."""

    def enlist(self, _: str, /) -> None:
        raise _NotAnAppend

    def is_alive(self, _: str, /) -> bool:
        raise _NotAnAppend


class AppendBase(NamedTuple):
    """What the server gave an append.

    Attributes:
        number: The last commit before.
        time: When that was.
        version: Of the ledger, before.
    """

    number: int
    time: int
    version: int | None


class AppendDraft(NamedTuple):
    """A group of commits that only add, as this host would make them if it wrote alone.

    Attributes:
        number: The last commit that this host knows.
        answers: For each ticket of the group.
        earliest: The least that the clock read for one of them.
        corroborated: The last time of which a batch said that it is.
    """

    number: int
    answers: Sequence[list[Commit]]
    earliest: int
    corroborated: int | None
    statements: Sequence[tuple[str, Sequence[object]]]

    def begin(
        self, host: int, attempt: int, *, structure: int, epoch: int, wait_s: float
    ) -> tuple[str, Sequence[object]]:
        """Return the statement that takes the lock, and gives (number, time, version) before."""
        commits = [commit for answer in self.answers for commit in answer]
        end_of_minute = self.earliest - self.earliest % MINUTE_US + MINUTE_US - 1  # see `read_at`
        latest = min(self.earliest + CLOCK_STEP_US, end_of_minute)
        return _BEGIN, (
            *(host, attempt, epoch, structure, self.number, len(commits), latest),
            commits[-1].time,
            str(max(1, round(wait_s * 1000))),
        )

    def answers_after(self, base: AppendBase) -> list[list[Commit]]:
        """Return the answers with the numbers and times that the server gave."""
        moved = base.number - self.number
        return [
            [
                replace(commit, number=commit.number + moved, time=max(commit.time, base.time))
                for commit in answer
            ]
            for answer in self.answers
        ]


def draft_of(group: Sequence[StoreTicket], cache: WriterCache) -> AppendDraft | None:
    """Return a group as an append; None: it has to be done under the lock.

    Args:
        cache: What this host knew after its last commit; it stays as it is.
    """
    if cache.number is None or not all(map(_only_adds, group)):
        return None
    earliest = min(batch.time for ticket in group for batch in ticket.batches)
    drafted = WriterCache(
        number=cache.number,
        time=earliest,  # what the clocks read; the server compares it with the last commit
        scopes=cache.scopes,
        sets=cache.sets,
        notes=cache.notes,
    )
    db = _DraftConnection()
    try:
        tx = Transaction(db, drafted, _NoOwners())
        answers = [[tx.apply_unflushed(batch) for batch in ticket.batches] for ticket in group]
        tx.pending_rows.flush()
    except (FornixError, _NotAnAppend):  # the usual way says what is wrong with which
        return None
    return AppendDraft(cache.number, answers, earliest, drafted.corroborated, db.statements)


def _only_adds(ticket: StoreTicket) -> bool:
    return bool(ticket.batches) and all(
        batch.items
        and batch.base is None
        and batch.run is None
        and all(type(change) is Add and not change.links for change in batch.items)
        for batch in ticket.batches
    )
