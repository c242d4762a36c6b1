"""The first read of a search: the sets and the changes in them, in one round trip.

All queries see the database as of one moment. Queries that are needed only after a change have a
condition that the server checks first. So these queries are cheap while no host commits.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import cast

from alveus.store import Feature, Scope, SearchCache, SearchView, SetRef
from alveus.store.postgres.connection import EPOCH
from alveus.store.sql.connection import Connection, Query, Row
from alveus.store.sql.database import SetSnapshot
from alveus.store.sql.rows import FEATURE_COLUMNS, SETS_OF, feature_changes, info_of

LINES = 2_000
"""The view omits the changes if the change log has this many new lines or more."""

FEATURES = 5_000
"""The view omits the features of unknown sets, or of changed items, if there are more than this."""

SMALL = 2_000
"""The view has the features of an unknown set only if the set has at most this many items."""

Names = Scope | tuple[SetRef, ...]
"""The sets of a search: a scope for all its sets, or a tuple of sets."""

_BEGIN = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"

_STATE = f"SELECT version, coalesce((SELECT max(seq) FROM change), 0), {EPOCH} FROM ledger"  # noqa: S608 - ours

_IS_NEW = "(SELECT version FROM ledger) != ?"

_SETS = f"""
    {SETS_OF} AND (?::text[] IS NULL OR name = ANY(?::text[]))
    AND {_IS_NEW} ORDER BY name
"""

_OLDEST = "SELECT seq - rows FROM change ORDER BY seq LIMIT 1"

_LINES = "SELECT seq, set_id, row, kind, rows FROM change WHERE seq > ? ORDER BY seq LIMIT ?"

_CHANGED = f"""
    SELECT set_id, {FEATURE_COLUMNS}
    FROM (SELECT set_id AS its_set, row AS its_first, row + rows - 1 AS its_last FROM change
        WHERE seq > ? AND kind IN (0, 2) AND set_id = ANY(?::bigint[])) AS changed
    JOIN feature ON set_id = its_set AND ended = 0 AND row BETWEEN its_first AND its_last
    LIMIT {FEATURES + 1}
"""  # noqa: S608 - ours

_UNKNOWN = f"""
    SELECT set_id, {FEATURE_COLUMNS} FROM feature WHERE ended = 0 AND set_id IN (
        SELECT id FROM memory_set
        WHERE scope = (SELECT id FROM scope WHERE space IS ? AND key IS ?)
            AND (?::text[] IS NULL OR name = ANY(?::text[]))
            AND items <= {SMALL} AND id != ALL(?::bigint[]))
    AND {_IS_NEW} ORDER BY set_id, row LIMIT {FEATURES + 1}
"""  # noqa: S608 - ours

_NOTES = "SELECT name, text FROM note WHERE name IN (SELECT value FROM carray(?) AS names)"

_END = "COMMIT"


class _Reading:
    """The queries of one read, and the view that their answers give."""

    def __init__(
        self, db: Connection, names: Names, known: SearchCache, last: SetSnapshot | None
    ) -> None:
        self._db, self._names, self._known = db, names, known
        self._before = None if last is None else last.sets.get(names)
        version = (-1, 0) if last is None or self._before is None else last.version
        self._version, _ = cast("tuple[int, int]", version)
        self._mine = [info.number for info in self._before or () if info.number in known.sets]
        self._scopes = _scopes_of(names)

    def queries(self) -> list[Query]:
        """Return the queries, which must be sent together."""
        since = self._known.seq
        lines = LINES if since else 0  # an empty cache needs no changes
        asked: list[Query] = [(_BEGIN, ()), (_STATE, ()), (_OLDEST, ()), (_LINES, (since, lines))]
        asked.append((_CHANGED, (since, self._db.numbers(self._mine))))
        asked.append((_NOTES, (self._db.texts(self._known.notes),)))
        for scope, names in self._scopes:
            where = scope.space, scope.key or ""
            some = None if names is None else self._db.texts(names)
            asked.append((_SETS, (*where, some, some, self._version)))
            asked.append(
                (_UNKNOWN, (*where, some, some, self._db.numbers(self._mine), self._version))
            )
        return [*asked, (_END, ())]

    def view(self, answers: Sequence[list[Row]]) -> tuple[object, SearchView]:
        """Return the version of the database, and the view that *answers* give."""
        _, ((version, seq, epoch),), oldest, lines, changed, notes, *of_scopes, _ = answers
        if version == self._version:
            sets = self._before or []
        else:
            found = {
                info.ref: info
                for (scope, _), rows in zip(self._scopes, of_scopes[::2], strict=True)
                for info in [info_of(scope, row) for row in rows]
            }
            wanted = found if isinstance(self._names, Scope) else self._names
            sets = [found[ref] for ref in wanted if ref in found]
        since = self._known.seq
        whole = since > 0 and len(lines) < LINES and (not oldest or oldest[0][0] <= since)
        return (version, epoch), SearchView(
            seq,
            sets,
            since,
            list(feature_changes(lines, since)) if whole else None,
            {row[1]: Feature._make(row[1:]) for row in changed if len(changed) <= FEATURES},
            {
                number: features
                for rows in of_scopes[1::2]
                if len(rows) <= FEATURES
                for number, features in _by_set(rows).items()
            }
            | {info.number: [] for info in sets if not info.items},
            dict.fromkeys(self._known.notes) | dict(notes),
            epoch,
        )


def read_view(
    db: Connection, names: Names, cache: SearchCache, last: SetSnapshot | None
) -> tuple[object, SearchView]:
    """Return the version of the database, as in `SetSnapshot`, and the view of a search.

    Args:
        names: The sets of the search.
        cache: The data that the searcher has read before.
        last: The sets that were read last, or None.
    """
    reading = _Reading(db, names, cache, last)
    return reading.view(db.query_all(*reading.queries()))


def _scopes_of(names: Names) -> list[tuple[Scope, list[str] | None]]:
    """Return each scope with the names of its searched sets, or with None for all its sets."""
    if isinstance(names, Scope):
        return [(names, None)]
    found: dict[Scope, list[str]] = {}
    for ref in names:
        found.setdefault(ref.scope, []).append(ref.name)
    return list(found.items())


def _by_set(rows: Sequence[Row]) -> dict[int, list[Feature]]:
    """Return a dict from set numbers to features. *rows* must be sorted by set number."""
    return {
        number: [Feature._make(row[1:]) for row in some]
        for number, some in groupby(rows, key=lambda row: row[0])
    }
