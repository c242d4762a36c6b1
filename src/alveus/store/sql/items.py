"""The item changes of a batch as SQL: adds, edits, compactions, and the limits of sets."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import field, replace
from typing import NamedTuple, TypeAlias

from alveus.errors import (
    CompactionChanged,
    DuplicateItem,
    NotFound,
    SetDefinitionConflict,
    SetMoved,
    StaleItem,
    TooLarge,
)
from alveus.store import (
    Add,
    AdmissionCheck,
    Batch,
    Compact,
    Define,
    Definition,
    ItemChange,
    ItemRecord,
    Link,
    Past,
    Replace,
    Retire,
    Revive,
    SetRef,
    Undo,
    unchecked_sets,
)
from alveus.store.changes import adds_to, begins_item, expiry_cutoff, grows, upserted
from alveus.store.checks import ROW_BITS, check_limits, check_rules, check_undo, needs_trimming
from alveus.store.records import MINUTE_US, read_at
from alveus.store.sets import DEFAULT
from alveus.store.sql.connection import Connection, Row, first, query
from alveus.store.sql.past import ALL, apply_past
from alveus.store.sql.rows import LIVE_OF_IDS, stored_compaction
from alveus.store.sql.writer import (
    COUNT,
    INHERIT_LINKS,
    INHERIT_STUBS,
    INSERT_ACCESS,
    INSERT_LINK,
    LOG_ADDED,
    PendingRows,
    ScopeRows,
)
from alveus.values.lazy_dataclass import dataclass

LAST_VERSION = """
    SELECT version, ended IS NULL, row, expires FROM item WHERE set_id = ?1 AND id IS ?2
    ORDER BY version DESC LIMIT 1
"""

_LIVE_COLUMNS = """
    version, row, first, created, tokens, coalesce(octet_length(value), 0)
        + coalesce(octet_length(text), 0) + octet_length(metadata), expires
"""

_LIVE = f"""
    SELECT {_LIVE_COLUMNS} FROM item
    WHERE set_id = ?1 AND id IS ?2 AND ended IS NULL AND version = (
        SELECT max(version) FROM item AS latest WHERE latest.set_id = ?1 AND latest.id IS ?2)
"""  # noqa: S608 - ours

_LIVE_AMONG = f"""
    SELECT id, {_LIVE_COLUMNS} FROM item WHERE {LIVE_OF_IDS} ORDER BY row
"""  # noqa: S608 - ours

_LIVE_ROW = f"SELECT {_LIVE_COLUMNS} FROM item WHERE row = ?"  # noqa: S608 - ours

_EXPIRED = """
    SELECT row, coalesce(octet_length(value), 0) + coalesce(octet_length(text), 0)
        + octet_length(metadata)
    FROM item
    WHERE set_id = ?1 AND ended IS NULL AND expires IS NOT NULL AND expires <= ?2
        AND expires <= ?3
"""

_LIVE_FROM_BEFORE = """
    SELECT 1 FROM item
    WHERE set_id = ? AND ended IS NULL AND begun < ? AND (expires IS NULL OR expires > ?) LIMIT 1
"""

_END_ITEMS = "UPDATE item SET ended = ?1 WHERE row IN (SELECT value FROM carray(?2))"

_END_FEATURES = """
    UPDATE feature SET ended = ?1 WHERE set_id = ?2 AND ended = 0
    AND row IN (SELECT row FROM item WHERE set_id = ?2 AND ended = ?1)
"""

_LAST_ROW = "SELECT row FROM item WHERE set_id = ?1 AND id IS ?2 ORDER BY version DESC LIMIT 1"

_VERSIONS = """
    SELECT one.row, one.id, max(CASE WHEN other.ended IS NULL THEN other.row END), one.tokens,
        coalesce(octet_length(one.value), 0) + coalesce(octet_length(one.text), 0)
        + octet_length(one.metadata)
    FROM item AS one JOIN item AS other ON other.set_id = ?1 AND other.id IS one.id
    WHERE one.set_id = ?1 AND one.row IN (SELECT value FROM carray(?2))
    GROUP BY one.row
"""

_SAME_CONTENTS = """
    SELECT one.row, other.row FROM item AS one JOIN item AS other
        ON other.set_id = one.set_id AND other.id IS one.id AND other.ended IS NULL
    WHERE one.row IN (SELECT value FROM carray(?1))
        AND (other.first, other.updated, other.value, other.text, other.metadata,
        other.importance, other.speaker, other.role, other.session, other.time, other.sources,
        other.compacted, other.until, other.expires, other.valid_from, other.valid_to)
    IS NOT DISTINCT FROM (one.first, one.updated, one.value, one.text, one.metadata,
        one.importance, one.speaker, one.role, one.session, one.time, one.sources,
        one.compacted, one.until, one.expires, one.valid_from, one.valid_to)
"""

_REVIVE_ITEMS = """
    INSERT INTO item (row, set_id, id, first, version, begun, time, created, updated, value, text,
        metadata, importance, speaker, role, session, sources, compacted, tokens, until, expires,
        valid_from, valid_to)
    SELECT ?1 - 1 + row_number() OVER (ORDER BY one.row), set_id, id, first,
        (SELECT max(other.version) + 1 FROM item AS other
            WHERE other.set_id = one.set_id AND other.id IS one.id),
        ?2, time, created, updated, value, text, metadata, importance, speaker, role, session,
        sources, compacted, tokens, until, expires, valid_from, valid_to
    FROM item AS one WHERE one.row IN (SELECT value FROM carray(?3))
"""
"""Inserts copies of earlier versions as new versions, from row ?1 on."""

_REVIVED = """
    item AS one JOIN item AS made ON made.row BETWEEN ?1 AND ?2 AND made.set_id = one.set_id
        AND made.id IS one.id
"""

_REVIVE_FEATURES = f"""
    INSERT INTO feature (set_id, ended, row, first, id, begun, time, importance, speaker, role,
        session, metadata, terms, tokens, temporal, vectors)
    SELECT feature.set_id, 0, made.row, feature.first, feature.id, made.begun, feature.time,
        feature.importance, feature.speaker, feature.role, feature.session, feature.metadata,
        terms, feature.tokens, temporal, vectors
    FROM {_REVIVED} JOIN feature ON feature.set_id = one.set_id AND feature.ended = one.ended
        AND feature.row = one.row
    WHERE one.row IN (SELECT value FROM carray(?3))
"""  # noqa: S608 - ours

_REVIVE_LINKS = f"""
    INSERT INTO link (row, source) SELECT made.row, link.source
    FROM {_REVIVED} JOIN link ON link.row = one.row
    WHERE one.row IN (SELECT value FROM carray(?3))
"""  # noqa: S608 - ours

_REVIVE_STUBS = f"""
    INSERT INTO stub (row, set_id, source) SELECT made.row, stub.set_id, stub.source
    FROM {_REVIVED} JOIN stub ON stub.row = one.row
    WHERE one.row IN (SELECT value FROM carray(?3))
"""  # noqa: S608 - ours

_OLDEST = """
    SELECT row, tokens, coalesce(octet_length(value), 0) + coalesce(octet_length(text), 0)
        + octet_length(metadata), time, first
    FROM item WHERE set_id = ?1 AND ended IS NULL AND (expires IS NULL OR expires > ?2)
        AND time <= ?3 - ?4 AND (time, first) > (?5, ?6)
    ORDER BY time, first LIMIT ?7
"""

_USAGE = """
    SELECT items - count(gone.row), memory_set.tokens - coalesce(sum(gone.tokens), 0),
        bytes - coalesce(sum(coalesce(octet_length(value), 0) + coalesce(octet_length(text), 0)
            + octet_length(metadata)), 0)
    FROM memory_set LEFT JOIN item AS gone ON gone.set_id = memory_set.id AND gone.ended IS NULL
        AND gone.expires IS NOT NULL AND gone.expires <= ?2
    WHERE memory_set.id = ?1 GROUP BY memory_set.id
"""

HELD = """
    SELECT CAST(coalesce(sum(items), 0) AS BIGINT), CAST(coalesce(sum(bytes), 0) AS BIGINT)
    FROM memory_set WHERE scope = ?
"""

TAKEN_IDS = """
    SELECT asked FROM (SELECT value AS asked FROM carray(?2)) AS ids
    WHERE (SELECT 1 FROM item WHERE item.set_id = ?1 AND item.id IS ids.asked LIMIT 1) IS NOT NULL
"""

_LIVE_AFTER = "SELECT 1 FROM feature WHERE set_id = ? AND ended = 0 AND row > ? LIMIT 1"

MIN_BULK_IDS = 8
"""The fewest ids that one query looks up together; fewer ids are looked up one by one."""

TRIM_BATCH = 256
"""The most items that a trim reads at a time, the oldest first."""


_Redefined: TypeAlias = tuple[int, Define, Definition]
"""The number of a set, its new definition, and its old one."""


KeyUsage: TypeAlias = tuple[int, int]
"""Number of items in all sets of a key, and their bytes."""

SetUsage: TypeAlias = tuple[int, int, int]
"""Number of unexpired items in a set, their tokens and bytes."""


class LiveVersion(NamedTuple):
    """A version of an item that has not ended."""

    version: int
    row: int
    first: int
    created: int
    tokens: int
    size: int
    expires: int | None


def _sum(usage: SetUsage, other: SetUsage) -> SetUsage:
    return usage[0] + other[0], usage[1] + other[1], usage[2] + other[2]


class _Version(NamedTuple):
    """An existing version, and the state of its item.

    Attributes:
        live_row: The row of the item's live version, or None if the item has no live version.
        size: Bytes of this version's value, text and metadata.
    """

    row: int
    id: str
    live_row: int | None
    tokens: int
    size: int


@dataclass(slots=True, eq=False)
class Changes:
    """Applies the item changes of one batch, which becomes commit `_number` at `_time`."""

    _db: Connection
    _rows: ScopeRows
    _gathered: PendingRows
    _batch: Batch
    _number: int
    _time: int
    _next_row: int
    _last_set: SetRef | None = None
    _last_number: int = 0
    _last_definition: Definition = DEFAULT
    _sets_added_to: dict[int, tuple[SetRef, Definition]] = field(
        default_factory=dict[int, "tuple[SetRef, Definition]"]
    )
    _ended_rows: list[int] = field(default_factory=list[int])
    _taken_ids: set[tuple[int, str]] | None = None
    _compaction_count: int = 0
    _replaced_ids: set[tuple[int, str]] = field(default_factory=set[tuple[int, str]])
    _unchanged_ids: set[tuple[int, str]] = field(default_factory=set[tuple[int, str]])
    _retired: dict[tuple[int, str], int] = field(default_factory=dict[tuple[int, str], int])
    _usage: dict[int, SetUsage | None] = field(default_factory=dict[int, "SetUsage | None"])
    _held: KeyUsage | None = None
    sets_to_compact: list[SetRef] = field(default_factory=list[SetRef])

    def run(self) -> list[int]:
        """Apply definitions and item changes, then enforce capacities and limits.

        Return the rows of the versions that ended.
        """
        batch, items = self._batch, self._batch.items
        redefined = [one for define in batch.define if (one := self._define(define))]
        if batch.admission_checks:
            self._check_admission(batch.admission_checks)
        if batch.limits is not None or self._gathered.key_usages:
            self._begin_held()
        if len(items) < MIN_BULK_IDS or not self._add_all_new():
            for change in items:
                self._change(change)
        self._check_redefined(redefined)
        for number, (ref, definition) in self._sets_added_to.items():
            if definition is not DEFAULT and definition.bounded:
                self._enforce_capacity(ref, number, definition)
        if batch.limits is not None:
            self._check_limits()
        if items:
            self._gathered.item_scopes.add(batch.scope)
        return self._ended_rows

    def _define(self, define: Define) -> _Redefined | None:
        """Make or redefine a set. If it must hold no earlier items, return the redefinition."""
        set_row = self._rows.set_row(define.set)
        is_different = set_row is not None and set_row[1] != define.definition
        if (
            set_row is None
            or define.replace
            or not is_different
            or not adds_to(self._batch, define.set)
        ):
            self._rows.define(define)
            return None
        self._rows.define(Define(define.set, define.definition, replace=True))
        return set_row[0], define, set_row[1]

    def _check_redefined(self, redefined: Sequence[_Redefined]) -> None:
        """Raise `SetDefinitionConflict` if a redefined set holds items from before this batch."""
        for number, define, old_definition in redefined:
            until = expiry_cutoff(self._batch, self._time)  # now, because a draft depends on it
            if first(self._db, _LIVE_FROM_BEFORE, number, self._number, until):
                raise SetDefinitionConflict(
                    define.set.name, asked=define.definition, found=old_definition
                )

    def _check_admission(self, checks: Sequence[AdmissionCheck]) -> None:
        """Raise if adds were checked by other rules than the set's, or before it got new items."""
        for check in checks:
            set_row = self._rows.set_row(check.set)
            check_rules(check, None if set_row is None else set_row[1])
            if set_row is None or check.last_row is None:
                continue
            self._gathered.flush()
            if first(self._db, _LIVE_AFTER, set_row[0], check.last_row):
                raise SetMoved(check.set.name)

    def _change(self, change: ItemChange) -> None:
        if change.set is not self._last_set:  # cached: finding its number takes as long as the rest
            self._begin_set(change)
        number = self._last_number
        match change:
            case Add() | Replace(upsert=True):
                self._add(number, change if isinstance(change, Add) else upserted(change))
            case Replace(record=record, version=version):
                live = self._live(number, record.id, version)
                self._replace(number, live, record, change.links)
            case Retire(id=item_id, version=version):
                self._end_live(number, self._live(number, item_id, version))
            case Compact():
                self._compact(number, change)
            case Undo():
                self._undo(number, change)
            case Past():
                self._retired.clear()
                self._forget_usage(number)
                self._ended_rows += apply_past(
                    self._db, self._gathered, number, change, self._number
                )
            case Revive():
                self._revive_row(number, change)

    def _begin_set(self, change: ItemChange) -> None:
        """Find or make the set that the next changes affect."""
        self._last_number, self._last_definition = self._set_row(change)
        self._last_set = change.set
        if self._last_definition is not DEFAULT and self._last_definition.bounded:
            self._begin_usage(self._last_number, change.set)

    def _set_row(self, change: ItemChange) -> tuple[int, Definition]:
        set_row = self._rows.set_row(change.set)
        if set_row is not None:
            if set_row[1].admission is not None and change.set in unchecked_sets(self._batch):
                raise SetMoved(change.set.name, what="rules")
            return set_row
        match change:
            case Add() | Past() | Replace(upsert=True):
                self._rows.define(Define(change.set, DEFAULT))
            case Replace(record=record):
                raise StaleItem(record.id, expected=change.version, found=None)
            case Retire(id=item_id, version=version) | Compact(retired=[(item_id, version), *_]):
                raise StaleItem(item_id, expected=version, found=None)
            case _:
                raise NotFound(f"there is no set {change.set.name!r}")
        return self._set_row(change)

    def _add(self, number: int, add: Add) -> int:
        version, item_id = 1, add.record.id
        if self._gathered.has_item(number, item_id):
            self._gathered.flush()
        if not add.fresh and (self._taken_ids is None or (number, item_id) in self._taken_ids):
            last, live, row, expires = first(self._db, LAST_VERSION, number, item_id) or (
                *(0, 0, 0, None),
            )
            if live and (expires is None or expires > self._time):
                return self._add_existing(number, add, row)
            if live:
                self._end(number, row)
                self._held = None
            version = last + 1
        self._sets_added_to[number] = add.set, self._last_definition
        sources = self._sources(add.links) if add.links else ()
        row = self._insert(number, add.record, version=version, first=None, created=None)
        if sources:
            self._link(row, sources)
        if add.accessed is not None:
            self._gathered.add(INSERT_ACCESS, (row, add.accessed))
        return row

    def _add_all_new(self) -> bool:
        """Add all items at once, if the batch only adds items with new ids to one set.

        Return whether the items were added; if not, nothing was changed.
        """
        adds = self._batch.items
        ref, self._taken_ids = adds[0].set, self._find_taken_ids()
        if self._taken_ids != set():
            return False
        records = [
            change.record
            for change in adds
            if type(change) is Add
            and change.set is ref
            and not change.links
            and change.accessed is None
        ]
        if len(records) < len(adds):
            return False
        self._begin_set(adds[0])
        number = self._last_number
        self._sets_added_to[number] = ref, self._last_definition
        row, now = self._take_rows(len(records)), self._time
        minute = now // MINUTE_US
        read = [r if r.minute is None or r.minute == minute else read_at(r, now) for r in records]
        self._gathered.add_items(number, self._number, read, row, now)
        self._count_last(number, len(records))
        return True

    def _add_existing(self, number: int, add: Add, row: int) -> int:
        """Refuse an add of the id of a live item, or keep or replace that item, as *add* says.

        Return the row of the item's live version.
        """
        item_id = add.record.id
        if add.existing == "error":
            raise DuplicateItem(item_id, set_name=add.set.name)
        if add.existing == "keep":
            self._unchanged_ids.add((number, item_id))
            return row
        self._unchanged_ids.discard((number, item_id))
        self._replaced_ids.add((number, item_id))
        old_sources = first(self._db, "SELECT sources FROM item WHERE row = ?", row)
        names = dict.fromkeys(
            (*(json.loads(old_sources) if old_sources else ()), *add.record.sources)
        )
        live = LiveVersion(*first(self._db, _LIVE_ROW, row))
        return self._replace(number, live, replace(add.record, sources=tuple(names)), add.links)

    def _replace(
        self, number: int, live: LiveVersion, record: ItemRecord, links: Sequence[Link]
    ) -> int:
        sources = self._sources(links) if links else ()
        self._end_live(number, live)
        new = self._insert(
            number, record, version=live.version + 1, first=live.first, created=live.created
        )
        self._gathered.add(INHERIT_LINKS, (new, live.row))
        self._gathered.add(INHERIT_STUBS, (new, live.row))
        self._link(new, sources)
        return new

    def _link(self, row: int, sources: Iterable[int]) -> None:
        self._gathered.add(INSERT_LINK, *[(row, source) for source in sources])

    def _sources(self, links: Sequence[Link]) -> set[int]:
        source_rows: set[int] = set()
        for link in links:
            set_row = self._rows.set_row(link.set)
            row = None if set_row is None else self._last_row(set_row[0], link.id)
            if row is None:
                raise NotFound(f"set {link.set.name!r} has no item {link.id!r} to derive from")
            source_rows.add(row)
        return source_rows

    def _last_row(self, number: int, item_id: str) -> int | None:
        """Return the row of the last version of an item, or None if the item has no version."""
        if self._gathered.has_item(number, item_id):
            self._gathered.flush()
        elif (number, item_id) in self._retired:
            return self._retired[number, item_id]
        return first(self._db, _LAST_ROW, number, item_id)

    def _revive_row(self, number: int, change: Revive) -> None:
        self._gathered.flush()
        self._forget_usage(number)
        version = self._versions(number, [change.row]).get(change.row)
        if version is None:
            raise NotFound(f"set {change.set.name!r} has no version of row {change.row}")
        if version.live_row is not None:
            raise DuplicateItem(version.id, set_name=change.set.name)
        self._revive(number, [version])

    # --- compactions

    def _compact(self, number: int, change: Compact) -> None:
        live = self._live_among(number, [item_id for item_id, _ in change.retired])
        retired: dict[str, LiveVersion] = {}
        for item_id, version in change.retired:
            again = None if item_id in retired else live.get(item_id)  # an id given twice is stale
            retired[item_id] = self._checked(number, item_id, version, again)
        rows = [ended.row for ended in retired.values()]
        self._end_rows(number, rows)
        self._count_out(number, list(retired.values()))
        self._retired |= {(number, item_id): ended.row for item_id, ended in retired.items()}
        added = [self._add(number, add) for add in change.added]
        self._db.execute(
            "INSERT INTO compaction (id, set_id, how, retired, added) VALUES (?, ?, ?, ?, ?)",
            (
                (self._number << ROW_BITS) + self._compaction_count,
                number,
                change.how,
                self._db.json_of(rows),
                self._db.json_of(added),
            ),
        )
        self._compaction_count += 1

    def _undo(self, number: int, change: Undo) -> None:
        self._gathered.flush()
        self._forget_usage(number)
        done = check_undo(change, stored_compaction(self._db, change.compaction))
        versions = self._versions(number, [*done.added, *done.retired])
        same = dict(query(self._db, _SAME_CONTENTS, self._db.numbers(done.added)))
        ending: dict[int, None] = {}
        for row in done.added:  # its item may have been compacted and revived since
            if same.get(row) is None or same[row] in ending:
                name = versions[row].id
                raise CompactionChanged(done.id, f"item {name!r} has changed since")
            ending[same[row]] = None
        reviving = [versions[row] for row in done.retired]
        for version in reviving:
            if version.live_row is not None and version.live_row not in ending:
                raise CompactionChanged(done.id, f"the set has an item {version.id!r} again")
        self._end_rows(number, list(ending))
        self._revive(number, reviving)
        self._db.execute("UPDATE compaction SET undone = ? WHERE id = ?", (self._number, done.id))

    def _versions(self, number: int, rows: Sequence[int]) -> dict[int, _Version]:
        """Return the versions among *rows* that still exist, by row."""
        found = query(self._db, _VERSIONS, number, self._db.numbers(rows))
        return {row[0]: _Version(*row) for row in found}

    def _revive(self, number: int, versions: Sequence[_Version]) -> None:
        """Make new live versions that are copies of *versions*."""
        for version in versions:
            self._retired.pop((number, version.id), None)
        count, old = len(versions), self._db.numbers([version.row for version in versions])
        first = self._take_rows(count)
        self._db.execute(_REVIVE_ITEMS, (first, self._number, old))
        for statement in (_REVIVE_FEATURES, _REVIVE_LINKS, _REVIVE_STUBS):
            self._db.execute(statement, (first, first + (count - 1), old))
        size, tokens = sum(v.size for v in versions), sum(v.tokens for v in versions)
        self._db.execute(LOG_ADDED, (number, first, count))
        self._db.execute(COUNT, (number, count, size, tokens))

    def _find_taken_ids(self) -> set[tuple[int, str]] | None:
        """Return (set number, id) of the added ids that already have a version; one query a set.

        Return None, without an answer, if the batch does not only add, or if the ids of a set are
        few, repeated or contain a NUL.
        """
        ids_by_set: dict[SetRef, list[str]] = {}
        last_set, ids = None, list[str]()
        for change in self._batch.items:
            if type(change) is not Add:
                return None
            if change.fresh:
                continue
            if change.set is not last_set:
                last_set, ids = change.set, ids_by_set.setdefault(change.set, [])
            ids.append(change.record.id)
        taken: set[tuple[int, str]] = set()
        self._gathered.flush()
        for ref, ids in ids_by_set.items():
            if len(set(ids)) < len(ids) or len(ids) < MIN_BULK_IDS or "\0" in "".join(ids):
                return None  # a carray ends its texts at a NUL
            set_row = self._rows.set_row(ref)
            if set_row is not None:
                rows = query(self._db, TAKEN_IDS, set_row[0], self._db.texts(ids))
                taken.update((set_row[0], item_id) for (item_id,) in rows)
        return taken

    def _live(self, number: int, item_id: str, version: int) -> LiveVersion:
        if self._gathered.has_item(number, item_id):
            self._gathered.flush()
        return self._checked(number, item_id, version, first(self._db, _LIVE, number, item_id))

    def _live_among(self, number: int, ids: Sequence[str]) -> dict[str, Row]:
        """Return the `_LIVE` rows of the live items among *ids*, by id."""
        if any(self._gathered.has_item(number, item_id) for item_id in ids):
            self._gathered.flush()
        if len(ids) < MIN_BULK_IDS or "\0" in "".join(ids):  # a carray ends its texts at a NUL
            found = ((item_id, first(self._db, _LIVE, number, item_id)) for item_id in ids)
            return {item_id: live for item_id, live in found if live is not None}
        rows = query(self._db, _LIVE_AMONG, number, self._db.texts(ids))
        return {item_id: tuple(live) for item_id, *live in rows}

    def _checked(self, number: int, item_id: str, version: int, live: Row | None) -> LiveVersion:
        """Return *live*, a row of `_LIVE`, as a `LiveVersion`.

        Raises:
            StaleItem: *live* is None, or its number is not *version*. If an add of this batch
                replaced the item, any number will do; if an add kept the item, none will.
        """
        if live is None:
            raise StaleItem(item_id, expected=version, found=None)
        was_replaced = (number, item_id) in self._replaced_ids
        if (live[0] != version and not was_replaced) or (number, item_id) in self._unchanged_ids:
            raise StaleItem(item_id, expected=version, found=live[0])
        return LiveVersion(*live)

    def _take_rows(self, count: int = 1) -> int:
        """Reserve *count* consecutive row numbers; return the first."""
        row = self._next_row
        self._next_row += count
        if self._next_row >> ROW_BITS != self._number:
            raise TooLarge(f"a batch may change at most {1 << ROW_BITS:,} items; commit in parts")
        return row

    def _insert(
        self,
        number: int,
        record: ItemRecord,
        *,
        version: int,
        first: int | None,
        created: int | None,
    ) -> int:
        row, now = self._take_rows(), self._time
        first = row if first is None else first
        created = now if created is None else created
        self._retired.pop((number, record.id), None)
        version_of = (row, first, version, created, now)
        self._gathered.add_item(number, self._number, read_at(record, now), version_of)
        self._count_last(number, 1)
        return row

    def _end(self, number: int, row: int) -> None:
        self._db.execute("UPDATE item SET ended = ? WHERE row = ?", (self._number, row))
        self._db.execute(
            "UPDATE feature SET ended = ? WHERE set_id = ? AND ended = 0 AND row = ?",
            (self._number, number, row),
        )
        self._ended_rows.append(row)

    def _end_live(self, number: int, live: LiveVersion) -> None:
        self._end(number, live.row)
        self._count_out(number, [live])

    def _end_rows(self, number: int, rows: Sequence[int]) -> None:
        if not rows:
            return
        self._db.execute(_END_ITEMS, (self._number, self._db.numbers(rows)))
        self._db.execute(_END_FEATURES, (self._number, number))
        self._ended_rows.extend(rows)

    # --- capacities and limits

    def _begin_usage(self, number: int, ref: SetRef) -> None:
        """Read the usage of a set with a capacity before the batch first adds to the set."""
        is_new = self._rows.is_first_used(number)
        if number in self._usage or not grows(self._batch, ref):
            return
        if is_new:
            self._usage[number] = (0, 0, 0)
            return
        if number in self._gathered.item_ids:
            self._gathered.flush()
        self._usage[number] = self._db.execute(_USAGE, (number, self._time)).get

    def _forget_usage(self, number: int) -> None:
        """Forget the counted usage of a set and of the key; it is read again after all writes.

        Versions that SQL copies are not counted.
        """
        self._usage[number] = self._held = None

    def _count_last(self, number: int, count: int) -> None:
        """Add the *count* items that were collected last to the usage of the set and of the key."""
        if self._held is not None:
            self._count_held(self._last_set, count, self._gathered.usage_of_last[2])
        usage = self._usage.get(number)
        if usage is None:
            return
        has_expired = self._gathered.has_expired(count, self._time)
        self._usage[number] = None if has_expired else _sum(usage, self._gathered.usage_of_last)

    def _count_out(self, number: int, versions: Sequence[LiveVersion]) -> None:
        """Subtract ended versions from the usage of the key, and of the set.

        The usage of the set does not include expired items.
        """
        self._count_held(self._last_set, -len(versions), -sum(live.size for live in versions))
        usage = self._usage.get(number)
        if usage is None:
            return
        for live in versions:
            if live.expires is None or live.expires > self._time:
                usage = _sum(usage, (-1, -live.tokens, -live.size))
        self._usage[number] = usage

    def _enforce_capacity(self, ref: SetRef, number: int, definition: Definition) -> None:
        usage = self._usage.get(number)
        if usage is None:
            self._gathered.flush()
        cutoff = self._time if self._batch.corroborated is None else self._batch.corroborated
        for row, size in query(self._db, _EXPIRED, number, self._time, cutoff):
            self._end(number, row)
            self._count_held(ref, -1, -size)
        if usage is None:
            usage = self._db.execute(_USAGE, (number, self._time)).get
        if definition.needs_compaction(*usage):
            self.sets_to_compact.append(ref)
        if needs_trimming(ref, definition, usage):
            kept = self._trim(number, definition, usage, *self._gathered.until(number, self._time))
            if definition.exceeded_capacity(*kept):  # this commit's items are among the oldest
                self._gathered.flush()
                kept = self._trim(number, definition, kept, ALL, 0)
            self._count_held(ref, kept[0] - usage[0], kept[2] - usage[2])

    def _trim(
        self, number: int, definition: Definition, usage: SetUsage, until: int, less: int
    ) -> SetUsage:
        """Retire the oldest written items until the set is within its capacity. Return its usage.

        Args:
            until, less: Only items whose time is *until* minus *less* microseconds, or earlier, are
                retired.
        """
        last = (-ALL, 0)
        while definition.exceeded_capacity(*usage):
            over = usage[0] - (definition.capacity or 0)  # if 0 or less, tokens or bytes are over
            most = min(TRIM_BATCH, over) if over > 0 else TRIM_BATCH
            oldest = query(self._db, _OLDEST, number, self._time, until, less, *last, most)
            if not oldest:
                break
            last = oldest[-1][3:]  # a draft still reads the ended rows
            for row, tokens, size, *_ in oldest:
                if not definition.exceeded_capacity(*usage):
                    break
                self._end(number, row)
                usage = _sum(usage, (-1, -tokens, -size))
        return usage

    def _begin_held(self) -> None:
        """Read the usage of a key that has limits, before the batch first adds to the key."""
        batch, key_usages = self._batch, self._gathered.key_usages
        held = key_usages.pop(batch.scope, None) if key_usages else None
        if batch.limits is None or batch.scope.key is None:
            return
        if not any(map(begins_item, batch.items)):
            return
        if held is None and batch.scope in self._gathered.item_scopes:
            self._gathered.flush()
        self._held = held or self._read_held()

    def _read_held(self) -> KeyUsage:
        return self._db.execute(HELD, (self._rows.scope_row_of(self._batch.scope),)).get

    def _count_held(self, ref: SetRef | None, items: int, size: int) -> None:
        """Add *items* items of *size* bytes to the key's usage; negative numbers subtract."""
        if self._held is not None and ref is not None and ref.scope.key is not None:
            self._held = self._held[0] + items, self._held[1] + size

    def _check_limits(self) -> None:
        limits, scope = self._batch.limits, self._batch.scope
        if (
            limits is None
            or scope.key is None
            or all(ref.scope.key is None for ref, _ in self._sets_added_to.values())
        ):
            return
        if self._held is None:
            self._gathered.flush()
        held = self._held or self._read_held()
        check_limits(scope.key, limits, items=held[0], size=held[1])
        self._gathered.key_usages[scope] = held
