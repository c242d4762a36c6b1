"""Compactions of one memory: a step at a time, each one commit, one at a time per set."""

from __future__ import annotations

import logging
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager

from alveus.errors import AlveusError, InvalidInput, SetBusy, SetFull, StaleItem, Unavailable
from alveus.sets.compaction import compactor_notes
from alveus.sets.compaction.background_worker import (
    BUSY_S,
    MOST_REMEMBERED,
    CompactionFailure,
    CompactionWorker,
)
from alveus.sets.compaction.capacity import (
    FREES_NOTHING,
    RETIRES_NOTHING,
    BatchCapacity,
    frees,
    full,
    shrunk,
)
from alveus.sets.compaction.compactor_notes import Compacted, CompactionListeners, compactions_of
from alveus.sets.compaction.planning import (
    CompactionTools,
    carried_out,
    freed,
    planned_step,
    refuse_inside,
)
from alveus.sets.compaction.set_snapshot import (
    NOTHING,
    CompactionSnapshot,
    SetSize,
    StoreView,
    View,
    living,
)
from alveus.sets.compaction.strategies import Given, LocalStrategies, Trim, restored, stored_form
from alveus.store import Add, Batch, Commit, Compact, ItemChange, SetInfo
from alveus.store.scope import Lease, Scope, SetRef
from alveus.store.sets import IN_THE_COMMIT
from alveus.values.forks import KeyLocks, call_within, let_go

_LOG = logging.getLogger(__name__)

LEASE = "compaction "
"""What the lease of a set's compaction is named by, before the set's number."""

PRESSED = 2.0
"""Times its capacity that a set holds before more has to wait until it was compacted."""

ATTEMPTS = 5
"""How often a step is planned anew, because somebody changed an item meanwhile."""


CALLED = "call"
"""Who compacts, where somebody asked for one step by `MemorySet.compact`."""


class Compactions:
    """Compacts sets: for whoever adds to a full one, on demand, in the background.

    Attributes:
        local_strategies: Strategies that only this process knows.
        listeners: Who is told of compactions.
    """

    def __init__(self, tools: CompactionTools) -> None:
        self.tools = tools
        self.local_strategies: LocalStrategies = {}
        self.listeners = CompactionListeners()
        self.worker = CompactionWorker(self._in_background, self._note)
        self._locks = KeyLocks[SetRef]()
        self._pressed: set[SetRef] = set()
        self._warned: set[SetRef] = set()

    # --- for whoever adds ---------------------------------------------------------------------

    def capacity_of(self, view: View) -> BatchCapacity:
        """Return what makes room in the sets of a batch, which sees them as *view* does."""
        return BatchCapacity(view, self.tools, self.local_strategies)

    def relieve(self, items: Sequence[ItemChange]) -> None:
        """Compact, before more is added to them, sets that hold twice their capacity.

        Raises:
            SetFull: It failed; the cause says why.
        """
        if self._pressed:
            for ref in adds(items):
                if ref in self._pressed:
                    self._relieve(ref)

    def _relieve(self, ref: SetRef) -> None:
        deadline = time.monotonic() + self.tools.wait_s
        while (info := self._info(ref)) is not None and pressed(info):
            try:
                self.step(ref, by="background")
            except SetFull:
                raise
            except SetBusy as error:
                if time.monotonic() > deadline:
                    problem = f"somebody else is at it ({error})"
                    raise full(info.definition, ref, SetSize.of(info), problem) from error
                self.worker.pause(BUSY_S)
            except AlveusError as error:
                problem = f"{type(error).__name__}: {error}"
                raise full(info.definition, ref, SetSize.of(info), problem) from error
        self._pressed.discard(ref)

    def committed(self, items: Sequence[ItemChange], commit: Commit) -> None:
        """Take note of a commit: tell of its compactions, and see to sets at their mark."""
        if commit.adopted:
            return
        self.listeners.tell(items, commit)
        for ref in commit.sets_to_compact:
            info = self.tools.store.set_info(ref)
            if info is None:
                continue
            if info.definition.execution == "background":
                self.tools.store.observer.compaction_due(ref)
                self.worker.notify(ref)
                if pressed(info):
                    self._pressed.add(ref)
            elif info.definition.execution == "external":
                self._look_for_compactor(info)

    # --- in the background --------------------------------------------------------------------

    def _in_background(self, ref: SetRef) -> bool:
        """Do a step if the set is at its mark; return whether it may need another one."""
        info = self._info(ref)
        if info is None or info.definition.execution != "background" or not due(info):
            self._pressed.discard(ref)
            return False
        return self.step(ref, by="background") is not None

    def _note(self, ref: SetRef, failure: CompactionFailure) -> None:
        """Keep for `alveus doctor` that a set could not be compacted."""
        says = (type(failure.error).__name__, failure.tries)
        try:
            info = self.tools.store.set_info(ref)
        except AlveusError as error:
            _LOG.warning("a failed compaction could not be noted: %s", type(error).__name__)
            return
        if info is not None:
            compactor_notes.put_failure(self.tools.store, info.number, says)

    def _look_for_compactor(self, info: SetInfo) -> None:
        """Say once that a set overflows which another process should compact, and none does."""
        if info.ref in self._warned or not due(info, compactor_notes.OVERFLOW):
            return
        if not compactor_notes.is_seen(self.tools.store, self.tools.clock()):
            if len(self._warned) >= MOST_REMEMBERED:
                self._warned.clear()
            self._warned.add(info.ref)
            _LOG.warning(
                "set %r holds more than %.1f times its capacity, its execution is 'external', and "
                "no compactor was seen lately; start one: alveus compact --watch",
                info.ref.name,
                compactor_notes.OVERFLOW,
                extra={"set": info.ref.name, "items": info.items},
            )

    # --- a step -------------------------------------------------------------------------------

    def step(self, ref: SetRef, *, by: str, given: Given | None = None) -> Compacted | None:
        """Do one step of what a set's strategy has to do; None: it has nothing to do.

        Args:
            by: Who does it; it is kept with the compaction. Whoever does not "call" for one step
                asks again until there is room.
            given: Another strategy than the set's own, for this once.

        Raises:
            SetFull: Nobody "calls", the set is over a capacity, and its strategy frees nothing.
            InvalidPlan, StrategyFailed: A user's strategy failed.
            SetBusy: Somebody else compacts the set now.
            Unusable: A strategy that is being asked about the set called this.
            AlveusError: A model, an embedder or the store failed. The set is as it was.
        """

        def compacted(lease: Lease) -> Compacted | None:
            for _ in range(ATTEMPTS):
                change = self._planned(ref, by, given)
                if change is None:
                    return None
                try:
                    return self._commit(ref, change, lease)
                except StaleItem:  # somebody was first; the set is planned anew
                    continue
            raise Unavailable(
                f"set {ref.name!r} changed each time before its compaction was done; try again"
            )

        with self.tools.store.observer.compaction(ref, by) as observed:
            refuse_inside(ref, self.tools)
            return observed.answered(call_within(self._alone(ref), compacted))

    def _planned(self, ref: SetRef, by: str, strategy_given: Given | None) -> Compact | None:
        tools, info = self.tools, self._info(ref)
        if info is None or not info.items:
            return None
        compaction = (
            info.definition.compaction
            if strategy_given is None
            else stored_form(strategy_given, self.local_strategies)
        )
        strategy = Trim() if compaction == "trim" else restored(compaction, self.local_strategies)
        if strategy is None:
            raise InvalidInput(
                f"set {ref.name!r} has compaction='reject'; name a strategy: compact(Trim(n=10))"
            )
        snapshot = CompactionSnapshot(StoreView(tools.store), info, NOTHING, tools.clock())
        step = planned_step(snapshot, strategy, tools)
        if step is None:
            return _no_step(info, by, RETIRES_NOTHING)
        change = carried_out(snapshot, step, tools, by=by)
        size_after = freed(snapshot, step, change)
        if by == CALLED:
            return change if shrunk(snapshot.live_size, size_after) else None
        progress = frees(info.definition, snapshot.live_size, size_after)
        return change if progress else _no_step(info, by, FREES_NOTHING)

    def _info(self, ref: SetRef) -> SetInfo | None:
        """Return a set, without what has expired."""
        tools = self.tools
        info = tools.store.set_info(ref)
        return None if info is None else living(tools.store, info, tools.clock())

    def _commit(self, ref: SetRef, change: Compact, lease: Lease) -> Compacted:
        tools = self.tools
        batch = Batch(
            scope=ref.scope,
            time=tools.clock(),
            expects=tools.expects if change.added else (),
            fences=(lease,),
            items=(change,),
        )
        commit = tools.store.commit(batch)
        self.committed(batch.items, commit)
        compactor_notes.put_failure(tools.store, number_of(lease), None)
        return compactions_of(batch.items, commit)[0]

    @contextmanager
    def _alone(self, ref: SetRef) -> Generator[Lease]:
        """Be the only one who compacts a set, in this process and among all.

        Raises:
            SetBusy: Another process does, or another thread for as long as may be waited.
        """
        store = self.tools.store
        lock = self._locks.of(ref)
        locks = () if lock.is_mine() else (lock,)
        try:
            for one in locks:
                if not one.acquire(timeout=self.tools.wait_s):
                    raise SetBusy(ref.name)
            info = store.set_info(ref)
            number = 0 if info is None else info.number
            lease = store.acquire_lease(Scope("", f"{LEASE}{number}"), self.tools.owner)
            if lease is None:
                raise SetBusy(ref.name)
            try:
                yield lease
            finally:
                store.release_lease(lease)
        finally:
            let_go(locks)


def number_of(lease: Lease) -> int:
    """Return the number of the set that a lease is for the compaction of."""
    return int((lease.scope.key or "").removeprefix(LEASE))


def due(info: SetInfo, share: float | None = None) -> bool:
    """Return whether a set holds more than its mark, or than *share* of a capacity.

    One that is below goes on filling: so a strategy that takes `n` at a time ends at the same
    items, however late somebody came to look.
    """
    definition = info.definition
    if not definition.bounded or definition.compaction in IN_THE_COMMIT:
        return False
    return SetSize.of(info).exceeds(definition, definition.high_water if share is None else share)


def pressed(info: SetInfo) -> bool:
    """Return whether a set holds so much that more has to wait."""
    return due(info, PRESSED)


def _no_step(info: SetInfo, by: str, problem: str) -> None:
    """Say that a strategy has nothing to do, or that it has, and does not do it.

    Raises:
        SetFull: The set is over a capacity, and is not compacted by a call.
    """
    if by != CALLED and SetSize.of(info).exceeds(info.definition):
        raise full(info.definition, info.ref, SetSize.of(info), problem)


def adds(items: Sequence[ItemChange]) -> Iterator[SetRef]:
    """Yield the sets that changes add to."""
    seen = set[SetRef]()
    for item in items:
        if isinstance(item, Add) and item.set not in seen:
            seen.add(item.set)
            yield item.set
