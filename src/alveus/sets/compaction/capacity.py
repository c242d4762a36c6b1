"""Room in a set, made by an add before it adds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from alveus.errors import SetFull
from alveus.sets.compaction.planning import (
    CompactionTools,
    carried_out,
    freed,
    planned_step,
    refuse_inside,
)
from alveus.sets.compaction.set_snapshot import (
    CompactionSnapshot,
    SetSize,
    View,
    bytes_of,
    record_size,
)
from alveus.sets.compaction.strategies import LocalStrategies, name_of, restored
from alveus.store import Add, Compact, Define, Replace, Retire, SetInfo, StoredItem
from alveus.store.scope import SetRef
from alveus.store.sets import Definition

MOST_REWRITES = 100
"""Most steps that one add does of a strategy that rewrites items without reducing their number."""

RETIRES_NOTHING = "it retires nothing"
FREES_NOTHING = "what it retires frees nothing, as what stands for it takes as much"
TOO_LITTLE = f"{MOST_REWRITES} steps that retired no item freed too little"


def makes_room(definition: Definition) -> bool:
    """Return whether an add must make room in a set first."""
    return definition.bounded and definition.rejects_when_full and definition.compaction != "reject"


def step_making_room(
    snapshot: CompactionSnapshot, tools: CompactionTools, local_strategies: LocalStrategies
) -> Compact | None:
    """Return one step that makes room for the coming items; None if there is room.

    A step that frees anything is progress, even if it frees too little: the caller calls again.

    Raises:
        SetFull: The strategy frees nothing.
        InvalidPlan, StrategyFailed: A user's strategy failed.
        Unusable: A user's strategy adds to the set.
    """
    needed = snapshot.live_size + snapshot.coming
    if not needed.exceeds(snapshot.definition):
        return None
    refuse_inside(snapshot.ref, tools)
    strategy = restored(snapshot.definition.compaction, local_strategies)
    step = None if strategy is None else planned_step(snapshot, strategy, tools)
    if step is None:
        raise full(snapshot.definition, snapshot.ref, needed, RETIRES_NOTHING)
    change = carried_out(snapshot, step, tools, by="sync")
    if not frees(snapshot.definition, snapshot.live_size, freed(snapshot, step, change)):
        raise full(snapshot.definition, snapshot.ref, needed, FREES_NOTHING)
    return change


def frees(definition: Definition, before: SetSize, after: SetSize) -> bool:
    """Return whether a step brings a set nearer to its capacities, so that another step may follow.

    True if the set has fewer items. Also true if one measure with a capacity is lower and none is
    higher. Both cases end, whatever the strategy plans.
    """
    if after.items != before.items:
        return after.items < before.items
    counted = [
        (was, now)
        for was, now, most in (
            (before.tokens, after.tokens, definition.capacity_tokens),
            (before.bytes, after.bytes, definition.capacity_bytes),
        )
        if most is not None
    ]
    return all(now <= was for was, now in counted) and any(now < was for was, now in counted)


def shrunk(before: SetSize, after: SetSize) -> bool:
    """Return whether any measure of a set is lower than before."""
    return after.items < before.items or after.tokens < before.tokens or after.bytes < before.bytes


def full(definition: Definition, ref: SetRef, needed: SetSize, problem: str) -> SetFull:
    """Return the error of a set without room; *problem* says why."""
    what, most = definition.exceeded_capacity(needed.items, needed.tokens, needed.bytes) or (
        "items",
        0,
    )
    name = name_of(definition.compaction)
    return SetFull(
        ref.name, capacity=most, what=what, compacts=True, strategy=name, problem=problem
    )


class BatchCapacity:
    """The sizes of the sets in a batch's view, and the room that the batch makes in them.

    Only sets in which an add makes room are counted.
    """

    def __init__(
        self, view: View, tools: CompactionTools, local_strategies: LocalStrategies
    ) -> None:
        self._view, self._tools, self._local_strategies = view, tools, local_strategies
        self._sets: dict[SetRef, SetInfo | None] = {}
        self._last = 0

    def forget(self) -> None:
        """Drop all sizes: the batch discarded its changes."""
        self._sets.clear()

    def follow(self, ref: SetRef, defines: Sequence[Define]) -> None:
        """Read the size of a set before the batch changes it for the first time."""
        if ref in self._sets:
            return
        info = self._view.info(ref)
        defined = next((d.definition for d in reversed(defines) if d.set == ref), None)
        if info is None and defined is not None:
            info = SetInfo(0, ref, defined, 0, 0)
        elif info is not None and defined is not None:
            info = replace(info, definition=defined)
        self._sets[ref] = info if info is not None and makes_room(info.definition) else None

    def timed(self, add: Add) -> Add:
        """Return *add* with a time, if the batch may compact the added item.

        Without a time, all items of a batch have the same time, and their order in a summary is
        lost.
        """
        if self._sets.get(add.set) is None or add.record.time is not None:
            return add
        self._last = max(self._tools.clock(), self._last + 1)
        return replace(add, record=replace(add.record, time=self._last))

    def steps_for(self, add: Add) -> Iterator[Compact]:
        """Yield the steps that make room for *add*; the batch applies each before the next plan.

        Raises:
            SetFull: There is no room, and the strategy frees none.
            InvalidPlan, StrategyFailed: A user's strategy failed.
        """
        rewrites = 0
        while (info := self._sets.get(add.set)) is not None:
            snapshot = CompactionSnapshot(
                self._view, info, record_size(add.record), self._tools.clock()
            )
            step = step_making_room(snapshot, self._tools, self._local_strategies)
            if step is None:
                return
            rewrites += len(step.added) == len(step.retired)
            if rewrites > MOST_REWRITES:
                raise full(
                    info.definition, info.ref, snapshot.live_size + snapshot.coming, TOO_LITTLE
                )
            yield step

    def count(self, change: Add | Replace | Retire, before: StoredItem | None) -> None:
        """Count a change of the batch in the size of its set."""
        info = self._sets.get(change.set)
        if info is None:
            return
        size = SetSize.of(info)
        if before is not None:
            features = self._view.features(change.set, [before])
            size -= SetSize(1, sum(f.tokens for f in features.values()), bytes_of(before.record))
        if not isinstance(change, Retire):
            size += record_size(change.record)
        self._sets[change.set] = replace(
            info, items=size.items, tokens=size.tokens, bytes=size.bytes
        )
