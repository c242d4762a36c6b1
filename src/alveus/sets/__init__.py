"""Memory sets: long-term memory. A set uses a writer and depends on no run and no store."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import cast

from alveus.errors import CompactionChanged, NotFound
from alveus.sets.compaction import Compacted, Given
from alveus.sets.origins import CompactionInfo, ItemOrigins, Lineage, Undone
from alveus.sets.set_options import Execution, clearing, definition, refuse_upkeep
from alveus.sets.set_writes import OnExisting, SetWrites
from alveus.sets.writer import NewId, PlannedWrite
from alveus.store import Compaction, Undo
from alveus.store.items import Item
from alveus.values import wire
from alveus.values.keywords import suggest_names_in_part
from alveus.values.storable import Value, counted, moment

__all__ = [
    "Execution",
    "KnowledgeSet",
    "MemorySet",
    "OnExisting",
    "clearing",
    "definition",
    "refuse_upkeep",
]

LAST_ID = (1 << 63) - 1
"""Largest id of a compaction."""


@suggest_names_in_part
class MemorySet(SetWrites):
    """A named set of items. Searches find an item by its words and by its meaning.

    Opening a set writes nothing; the first add creates the set. Each change is atomic and durable
    when the call returns. Search finds an item by its words at once, and by its meaning after
    embedding.
    """

    def compact(self, compaction: Given | None = None) -> Compacted | None:
        """Do one step of compaction now; return the step, or None if there was nothing to do.

        One step is one commit. If the strategy has no `n`, it has nothing to do while the set is
        below its low-water mark.

        Args:
            compaction: A strategy to use instead of the set's strategy.

        Raises:
            InvalidPlan, StrategyFailed: A user's strategy failed; the set is unchanged.
            SetBusy: Another process or thread compacts the set now.
        """
        if not self._upkeep:
            refuse_upkeep({"compaction": "compact()" if compaction is None else compaction})
        return self._writer.compact(self._ref, compaction)

    def compactions(self, *, before: int | None = None, limit: int = 100) -> list[CompactionInfo]:
        """Return the compactions of the set, latest first.

        Args:
            before: Return only compactions older than the one with this id. By default all.
        """
        counted(limit, "limit", most=1000)
        if before is not None:
            counted(before, "before", least=0, most=LAST_ID)
        found = self._writer.compactions(self._ref, before=before, limit=limit)
        return [self._compaction_info(done) for done in found]

    def _compaction_info(self, done: Compaction) -> CompactionInfo:
        how = cast("dict[str, Value]", wire.decode(done.how))
        strategy = cast("dict[str, Value]", how.pop("strategy", {}))
        return CompactionInfo(
            id=done.id,
            commit=done.commit,
            time=moment(done.time),
            strategy=strategy,
            by=str(how.pop("by", "")),
            retired=len(done.retired),
            added=tuple(self._ids(done.added)),
            erased=done.erased,
            undone=done.undo_commit,
            notes=how,
        )

    def _ids(self, rows: Sequence[int]) -> list[str]:
        return [stored.record.id for stored, _ in self._writer.rows(rows)]

    def undo(self, compaction: int, *, idempotency_key: str | None = None) -> Undone:
        """Restore the items that a compaction retired, and remove the items that replaced them.

        The undo is one commit. Each restored item has its id, value, times and importance again,
        and a new version. Items that were erased after the compaction cannot be restored; the
        result names them. With an *idempotency_key* a second call changes nothing and returns the
        result of the first.

        Args:
            compaction: The id of the compaction, as `Compacted` and `CompactionInfo` have it.

        Raises:
            NotFound: The set has no compaction with this id.
            CompactionChanged: The compaction was undone before, the set no longer keeps the items
                that it retired, or an item that it added was changed, deleted or compacted since.
        """
        counted(compaction, "a compaction's id", least=0, most=LAST_ID)
        plan = partial(self._planned_undo, compaction)
        try:
            answer = self._editor.commit(
                "undo", [compaction], plan, idempotency_key=idempotency_key
            )
        except CompactionChanged as error:
            raise self._explained(error, self._compaction(compaction)) from error
        restored, missing, removed, erased = answer
        return Undone(tuple(restored), tuple(missing), tuple(removed), erased)

    def _compaction(self, compaction: int) -> Compaction:
        done = self._writer.compaction(compaction)
        if done is None or done.set != self._ref:
            raise NotFound(f"set {self.name!r} of {self._owner} has no compaction {compaction}")
        return done

    def _planned_undo(self, compaction: int, _new_id: NewId) -> PlannedWrite:
        done = self._compaction(compaction)
        restored, removed = self._ids(done.retired), self._writer.rows(done.added)
        known = set(restored)
        missing = [
            source
            for stored, _ in removed
            for source in stored.record.sources
            if source not in known
        ]
        ids: list[Value] = [stored.record.id for stored, _ in removed]
        answer: list[Value] = [[*restored], [*dict.fromkeys(missing)], ids, done.erased]
        return PlannedWrite([Undo(self._ref, compaction, done.erased)], answer)

    def _explained(self, error: CompactionChanged, done: Compaction) -> CompactionChanged:
        """Return an error that names the later compaction to undo first.

        If there is no later compaction of an item that *done* added, return *error*.
        """
        before: int | None = None
        while page := self._writer.compactions(self._ref, before=before, limit=100):
            for later in page:
                if later.id <= done.id:
                    return error
                if later.undo_commit is None and (
                    again := {*self._ids(later.retired)} & {*self._ids(done.added)}
                ):
                    problem = (
                        f"item {min(again)!r}, which it added, was compacted again by "
                        f"{later.id}; undo that first"
                    )
                    return CompactionChanged(done.id, problem)
            before = page[-1].id
        return error

    # --- sources of items ---------------------------------------------------------------------

    @property
    def inside(self) -> ItemOrigins:
        """The sources of items, for other parts of alveus that filter by reader."""
        return ItemOrigins(self._writer, self._ref, f"set {self.name!r} of {self._owner}")

    def sources(self, id: str) -> list[Item]:
        """Return the items from which an item was derived, as they were then, oldest first.

        Items that are not live have `retired` set. Erased items are left out.

        Raises:
            NotFound: The set never had an item with this id.
        """
        return self.inside.sources(id)

    def lineage(self, id: str) -> Lineage:
        """Return an item and all its ancestors as a graph.

        Raises:
            NotFound: The set never had an item with this id.
        """
        return self.inside.lineage(id)


class KnowledgeSet(MemorySet):
    """A set that belongs to no key: all memories with the same knowledge share it.

    The set changes only by explicit calls: it has no capacity and is never compacted.
    """

    _upkeep = False
