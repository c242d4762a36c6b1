"""Compaction of a memory set: compact, list, undo; and the sources of items."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, TypeAlias, cast

from alveus.errors import CompactionChanged, NotFound
from alveus.sets.compaction import Compacted, Given
from alveus.sets.origins import Ancestor, CompactionInfo, Lineage, Undone
from alveus.sets.set_options import refuse_upkeep
from alveus.sets.set_writes import SetWrites
from alveus.sets.writer import NewId, PlannedWrite, PlannerCall, Writer
from alveus.store import Compaction, ItemChange, Scope, SetRef, StoredItem, Undo
from alveus.store.items import Item
from alveus.store.records import item_of
from alveus.values import wire
from alveus.values.keywords import suggest_names_in_part
from alveus.values.storable import Value, checked_name, counted, moment

LAST_ID = (1 << 63) - 1
"""Largest id of a compaction."""

MOST_NODES = 10_000
"""Most items in a lineage."""

MaySee: TypeAlias = Callable[[Scope], bool]
"""Returns whether the caller may read items of a key, or of knowledge."""


def checked_page(before: int | None, limit: int) -> None:
    """Raise unless *before* and *limit* name a page of compactions."""
    counted(limit, "limit", most=1000)
    if before is not None:
        counted(before, "before", least=0, most=LAST_ID)


class ItemOrigins(NamedTuple):
    """The sources of items of a set."""

    writer: Writer
    ref: SetRef
    title: str

    def sources(self, id: str, *, may_see: MaySee | None = None) -> list[Item]:
        """Return the items that an item was derived from, as they were then, oldest first.

        Items that are not live have `retired` set. Erased items are left out.

        Args:
            may_see: Decides which items of other keys, or knowledge, are returned. None means all.

        Raises:
            NotFound: The set never had such an item.
        """
        root = self._last(id)
        rows = [source for _, source in self.writer.sources([root.row])]
        found = [
            replace(item_of(stored), retired=at)
            for stored, at in self.writer.rows(rows)
            if may_see is None or may_see(stored.set.scope)
        ]
        return sorted(found, key=lambda item: (item.time, item.id))

    def lineage(self, id: str, *, may_see: MaySee | None = None) -> Lineage:
        """Return an item and all its ancestors as a graph.

        Args:
            may_see: Decides which items of other keys, or knowledge, are shown. Hidden ones look
                like erased items, and their sources are left out. None means that all are shown.

        Raises:
            NotFound: The set never had such an item.
        """
        root = self._last(id)
        nodes, edges = [_ancestor(root, 0)], list[tuple[int, int]]()
        positions, level, depth, cut = {root.row: 0}, [root.row], 0, False
        while level and not cut:
            depth += 1
            pairs = self.writer.sources(level)
            rows = sorted({source for _, source in pairs if source not in positions})
            cut = len(nodes) + len(rows) > MOST_NODES
            rows = rows[: MOST_NODES - len(nodes)]
            there = {
                stored.row: stored
                for stored, _ in self.writer.rows(rows)
                if may_see is None or may_see(stored.set.scope)
            }
            for row in rows:
                positions[row] = len(nodes)
                stored = there.get(row)
                nodes.append(_erased(depth) if stored is None else _ancestor(stored, depth))
            edges += [(positions[row], positions[s]) for row, s in pairs if s in positions]
            level = rows if may_see is None else [row for row in rows if row in there]
        return Lineage(tuple(nodes), tuple(edges), cut)

    def _last(self, item_id: str) -> StoredItem:
        checked_name(item_id, "an item's id")
        live = self.writer.get(self.ref, [item_id], at=None)[0]
        if live is not None:
            return live
        versions = self.writer.versions(self.ref, item_id)
        if not versions:
            raise NotFound(f"{self.title} has no item {item_id!r}")
        return versions[-1][0]


@suggest_names_in_part
class SetTidying(SetWrites):
    """The compactions of a set."""

    def compact(self, compaction: Given | None = None) -> Compacted | None:
        """Do one step of compaction now; return the step, or None if there was nothing to do.

        One step is one commit. A strategy without `n` has nothing to do while the set is below its
        low-water mark.

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
        """Return the compactions of the set, latest first; *before* is an id, for older ones."""
        checked_page(before, limit)
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

        One commit. Each restored item has its id, value, times and importance again, and a new
        version. Items erased since cannot be restored; the result names them. With an
        *idempotency_key* a second call changes nothing and returns the result of the first.

        Raises:
            NotFound: The set has no such compaction.
            CompactionChanged: It was undone before, its retired items are no longer kept, or an
                item that it added was changed, deleted or compacted since.
        """
        counted(compaction, "a compaction's id", least=0, most=LAST_ID)
        plan = partial(self._planned_undo, compaction)
        call = PlannerCall("undo", [self.name, compaction], plan)
        try:
            answer = self._writer.write(call, idempotency_key=idempotency_key)
        except CompactionChanged as error:
            raise self._explained(error, self._compaction(compaction)) from error
        restored, missing, removed, erased = cast("list[Any]", answer)
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
        changes: list[ItemChange] = [Undo(self._ref, compaction, done.erased)]
        ids: list[Value] = [stored.record.id for stored, _ in removed]
        answer: list[Value] = [[*restored], [*dict.fromkeys(missing)], ids, done.erased]
        return PlannedWrite(changes, answer)

    def _explained(self, error: CompactionChanged, done: Compaction) -> CompactionChanged:
        """Return the error; it names the later compaction to undo first, if there is one."""
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
        """Return the items that an item was derived from, as they were then, oldest first.

        Items that are not live have `retired` set. Erased items are left out.

        Raises:
            NotFound: The set never had such an item.
        """
        return self.inside.sources(id)

    def lineage(self, id: str) -> Lineage:
        """Return an item and all its ancestors as a graph.

        Raises:
            NotFound: The set never had such an item.
        """
        return self.inside.lineage(id)


def _ancestor(stored: StoredItem, depth: int) -> Ancestor:
    record = stored.record
    return Ancestor(
        record.id,
        stored.set.name,
        stored.version,
        record.text,
        depth,
        compacted=record.compacted,
        retired=stored.end_commit is not None,
    )


def _erased(depth: int) -> Ancestor:
    return Ancestor("", "", 0, None, depth, retired=True, erased=True)
