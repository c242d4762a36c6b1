"""What search reads of a `RamStore`: its sets, their features, and what changed in them."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice

from fornix.errors import EmbedderConflict
from fornix.store import (
    ChangeKind,
    Feature,
    FeatureChange,
    ItemRecord,
    PendingVectors,
    Scope,
    SetInfo,
    SetRef,
    StoredItem,
)
from fornix.store.ram.lanes import RamLanes
from fornix.store.ram.row_versions import ItemRow, SetRows, number_of
from fornix.store.ram.sets import SetTable, info_of


class VectorQueue:
    """What comes after its item: vectors that are missing, and staged ones of a new embedder."""

    def __init__(self) -> None:
        self.staged: dict[int, bytes] = {}
        self._waiting: dict[int, ItemRow] = {}

    def begin(self, row: ItemRow) -> None:
        """Take note of a new version."""
        if row.record.vectors is None:
            self._waiting[row.row] = row

    def begun(self) -> list[int]:
        """Return the commits that began what waits."""
        return [row.begun for row in self._waiting.values()]

    def waiting(self, limit: int, set_numbers: Sequence[int] | None) -> list[PendingVectors]:
        """Return what waits, of any set or of those given."""
        rows = self._waiting.values()
        return _first(
            [r for r in rows if set_numbers is None or r.home.number in set_numbers], limit
        )

    def fill(self, vectors: Sequence[tuple[int, int, bytes]]) -> Iterator[ItemRow]:
        """Fill in what is missing; yield the rows that waited for it."""
        for set_number, number, new in vectors:
            row = self._waiting.get(number)
            if row is not None and row.home.number == set_number:
                self._put(row, new)
                yield row

    def drop(self, row: int) -> None:
        """Drop what is known of a version that is removed."""
        self.staged.pop(row, None)
        self._waiting.pop(row, None)

    def unstaged(self, homes: Sequence[SetRows], limit: int) -> list[PendingVectors]:
        """Return versions that meaning can read and that have no staged vectors."""
        return _first([row for row in _meant(homes) if row.row not in self.staged], limit)

    def swap(self, homes: Sequence[SetRows]) -> Iterator[ItemRow]:
        """Put staged vectors in place; what has none waits from now on. Yield all such rows."""
        for row in _meant(homes):
            self._put(row, self.staged.get(row.row))
            yield row
        self.staged.clear()

    def _put(self, row: ItemRow, vectors: bytes | None) -> None:
        row.record = replace(row.record, vectors=vectors)
        self._waiting.pop(row.row, None)
        self.begin(row)


def _meant(homes: Sequence[SetRows]) -> list[ItemRow]:
    return [row for home in homes for row in home.rows if row.is_meant()]


def _first(rows: list[ItemRow], limit: int) -> list[PendingVectors]:
    """Return what an embedder needs of *limit* rows: live ones first, then as they ended."""
    chosen = sorted(rows, key=lambda row: (row.ended or 0, row.row))[:limit]
    return [
        PendingVectors(r.home.number, r.row, r.record.text or "", r.record.metadata) for r in chosen
    ]


class RamFinder(RamLanes):
    """What `Finder` promises; the rows are those of the store's commits."""

    def __init__(self, alive: Callable[[str], bool], log_lines: int) -> None:
        super().__init__(alive)
        self._sets = SetTable()
        self._rows: dict[int, ItemRow] = {}
        self._accessed = self._sets.lineage.accessed
        self._vectors = VectorQueue()
        self._log: deque[FeatureChange] = deque(maxlen=log_lines)
        self._seq = 0
        self._notes: dict[str, str] = {}

    def _expect(self, expects: Sequence[tuple[str, str]]) -> None:
        for name, text in expects:
            found = self._notes.get(name)
            if found != text:
                raise EmbedderConflict(name, asked=text, found=str(found))

    def _line(self, row: ItemRow, kind: ChangeKind) -> None:
        self._seq += 1
        self._log.append(FeatureChange(self._seq, row.home.number, row.row, kind))

    def _stored(self, row: ItemRow) -> StoredItem:
        """Return a row without what only search reads of it."""
        return StoredItem(
            row=row.row,
            first=row.first,
            set=row.home.ref,
            begun=row.begun,
            ended=row.ended,
            version=row.version,
            created=row.created,
            updated=row.updated,
            accessed=self._accessed.get(row.first),
            record=replace(row.record, terms=b"", tokens=0, temporal=0, vectors=b""),
        )

    def set_info(self, ref: SetRef) -> SetInfo | None:
        """Return the set, or None while nobody added to it."""
        with self._ready():
            found = self._sets.named(ref)
            return None if found is None else info_of(found)

    def set_infos(self, scope: Scope) -> list[SetInfo]:
        """Return the sets of *scope*, by name."""
        with self._ready():
            return [info_of(found) for found in self._sets.of(scope)]

    def seq(self) -> int:
        """Return the number of the last line of the change log; 0: none yet."""
        with self._ready():
            return self._seq

    def glance(self, sets: Sequence[SetRef] | Scope) -> tuple[int, list[SetInfo]]:
        """Return `seq`, and those of *sets* (or all of a scope, by name) that exist."""
        with self._ready():
            if isinstance(sets, Scope):
                return self._seq, self.set_infos(sets)
            found = [self.set_info(ref) for ref in sets]
            return self._seq, [info for info in found if info is not None]

    def changes(self, since: int, *, limit: int = 10_000) -> list[FeatureChange] | None:
        """Return lines past *since*, in order; None if the log no longer goes back that far."""
        with self._ready():
            dropped = self._seq - len(self._log)
            if since < dropped:
                return None
            newest = list(islice(reversed(self._log), max(0, self._seq - since)))
            return newest[::-1][:limit]

    def features(
        self, set_number: int, *, after: int = 0, at: int | None = None
    ) -> Iterator[Feature]:
        """Return features of live items with rows past *after*, by row, as they are now."""
        with self._ready():
            home = self._sets.numbered(set_number)
            rows = [] if home is None else home.rows
            start = bisect_right(rows, after, key=number_of)
            return iter([row.feature() for row in rows[start:] if row.lives(at)])

    def features_of(self, set_number: int, rows: Sequence[int]) -> list[Feature]:
        """Return the features of the rows that exist in the set, live or ended."""
        with self._ready():
            found = [self._rows[row] for row in rows if row in self._rows]
            return [row.feature() for row in found if row.home.number == set_number]

    def stored(self, rows: Sequence[int]) -> list[StoredItem]:
        """Return the versions of the rows that exist, in the order asked."""
        with self._ready():
            return [self._stored(self._rows[row]) for row in rows if row in self._rows]

    def out_of_time(
        self, set_number: int, *, now: int, valid_at: int | None, at: int | None = None
    ) -> list[int]:
        """Return rows of live items that have expired, or are not valid; see `Finder`."""
        with self._ready():
            home = self._sets.numbered(set_number)
            rows = [] if home is None else home.timed.values() if at is None else home.rows
            there = [row for row in rows if row.timed() and row.lives(at)]
            return sorted(row.row for row in there if _out_of_time(row.record, now, valid_at))

    def accessed(self, set_number: int) -> list[tuple[int, int]]:
        """Return (row, when it was last read) of live items of a set that ever were."""
        with self._ready():
            home = self._sets.numbered(set_number)
            live = {} if home is None else home.live
            found = [(row.row, self._accessed.get(first)) for first, row in live.items()]
            return [(row, time) for row, time in found if time is not None]

    def pending(
        self, *, limit: int, set_numbers: Sequence[int] | None = None
    ) -> list[PendingVectors]:
        """Return versions that wait for their vectors, live ones and earlier ones first."""
        with self._ready():
            return self._vectors.waiting(limit, set_numbers)

    def embed(
        self, vectors: Sequence[tuple[int, int, bytes]], *, expects: Sequence[tuple[str, str]] = ()
    ) -> None:
        """Fill in vectors where they are missing; see `Finder.embed`."""
        with self._ready():
            self._expect(expects)
            for row in self._vectors.fill(vectors):
                self._line(row, "embedded")

    def unstaged(self, set_numbers: Sequence[int], *, limit: int) -> list[PendingVectors]:
        """Return versions of sets that have no staged vectors yet; see `Finder.unstaged`."""
        with self._ready():
            return self._vectors.unstaged(self._numbered(set_numbers), limit)

    def stage(self, vectors: Sequence[tuple[int, int, bytes]]) -> None:
        """Keep vectors beside those in use, as (set number, row, vectors)."""
        with self._ready():
            there = {row: new for _, row, new in vectors if row in self._rows}
            self._vectors.staged.update(there)

    def sync(self) -> None:
        """Do nothing: RAM survives no loss of power; see `Finder.sync`."""
        with self._ready():
            pass

    def unstage(self) -> None:
        """Drop everything staged."""
        with self._ready():
            self._vectors.staged.clear()

    def swap(
        self, set_numbers: Sequence[int], *, notes: Sequence[tuple[str, str | None, str]]
    ) -> bool:
        """Put the staged vectors of sets in place, and change notes; see `Finder.swap`."""
        with self._ready():
            if any(self._notes.get(name) != expected for name, expected, _ in notes):
                return False
            self._notes.update({name: text for name, _, text in notes})
            for row in self._vectors.swap(self._numbered(set_numbers)):
                self._line(row, "embedded")
            return True

    def _numbered(self, set_numbers: Sequence[int]) -> list[SetRows]:
        return [home for home in self._sets.every() if home.number in set_numbers]


def _out_of_time(record: ItemRecord, now: int, valid_at: int | None) -> bool:
    if record.expires is not None and record.expires <= now:
        return True
    if valid_at is None:
        return False
    return (record.valid_from is not None and record.valid_from > valid_at) or (
        record.valid_to is not None and record.valid_to <= valid_at
    )
