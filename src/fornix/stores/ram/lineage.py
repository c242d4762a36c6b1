"""What was derived from what, and the compactions that were done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fornix.store import Compaction, SetRef
from fornix.stores.ram.rows import ItemRow, Work


class Lineage:
    """Links between versions, by their rows, and compactions by id.

    Attributes:
        sources: Rows that a version was derived from.
        derived: Rows that were derived from a version.
        compactions: By id, in the order they were done.
        stubs: What a version came from, to any depth, that is purged by now: sets and ids.
        accessed: When an item was last read, by its first row.
    """

    def __init__(self) -> None:
        self.sources: dict[int, list[int]] = {}
        self.derived: dict[int, list[int]] = {}
        self.stubs: dict[int, frozenset[tuple[SetRef, str]]] = {}
        self.compactions: dict[int, Compaction] = {}
        self.accessed: dict[int, int] = {}

    def link(self, row: int, sources: Sequence[int], work: Work) -> None:
        """Note that *row* was derived from *sources*."""
        before = self.sources.get(row, [])
        new = sorted(set(sources).difference(before))
        if not new:
            return
        self.sources[row] = sorted([*before, *new])
        for source in new:
            self.derived.setdefault(source, []).append(row)
        work.undo.append(lambda: self._unlink(row, before, new))

    def _unlink(self, row: int, before: list[int], sources: Sequence[int]) -> None:
        self.sources[row] = before
        for source in sources:
            self.derived[source].remove(row)

    def forget(self, row: int) -> None:
        """Drop all links of a version that is removed."""
        self.stubs.pop(row, None)
        for source in self.sources.pop(row, []):
            self.derived[source].remove(row)
        for other in self.derived.pop(row, []):
            self.sources[other].remove(row)

    def inherit(self, row: ItemRow, before: ItemRow, work: Work) -> None:
        """Give a later version the sources of an earlier one."""
        self.link(row.row, self.sources.get(before.row, []), work)
        if before.row in self.stubs:
            self.stubs[row.row] = self.stubs[before.row]
            work.undo.append(lambda: self.stubs.pop(row.row))

    def access(self, first: int, time: int, work: Work) -> None:
        """Note that an item that is being added counts as read at *time*."""
        self.accessed[first] = time
        work.undo.append(lambda: self.accessed.pop(first))

    def keep(self, compaction: Compaction, work: Work) -> None:
        """Keep a compaction: a new one, or what became of it."""
        before = self.compactions.get(compaction.id)
        self.compactions[compaction.id] = compaction

        def take_back() -> None:
            if before is None:
                del self.compactions[compaction.id]
            else:
                self.compactions[compaction.id] = before

        work.undo.append(take_back)

    def done_by(self, number: int) -> list[Compaction]:
        """Return the compactions that commit *number* did."""
        return [done for done in self.compactions.values() if done.commit == number]

    def undone_by(self, number: int) -> list[int]:
        """Return the ids of those that it undid."""
        return [done.id for done in self.compactions.values() if done.undone == number]

    def purge(self, row: ItemRow) -> None:
        """Drop what is known of a version that is removed, whose set's compactions it was in."""
        stub = {(row.home.ref, row.record.id)} | self.stubs.get(row.row, frozenset())
        for other in self.derived.get(row.row, []):
            self.stubs[other] = self.stubs.get(other, frozenset()) | stub
        self.forget(row.row)
        for done in list(self.compactions.values()):
            if (done.set, done.commit) == (row.home.ref, row.ended):
                self.compactions[done.id] = replace(done, purged=True)
        versions = row.home.versions.get(row.record.id, ())
        if all(other.first != row.first for other in versions):
            self.accessed.pop(row.first, None)

    def of(self, ref: SetRef, *, before: int | None, limit: int) -> list[Compaction]:
        """Return compactions of a set, the latest first."""
        found = [
            c
            for c in reversed(self.compactions.values())
            if c.set == ref and (before is None or c.id < before)
        ]
        return found[:limit]
