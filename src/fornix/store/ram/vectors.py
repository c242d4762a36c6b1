"""Vectors that come after their items: those that are missing, and staged ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from fornix.store import PendingVectors
from fornix.store.ram.row_versions import ItemRow, SetRows


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
