"""Compactions of one memory: one commit per step, and one step at a time per set."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import cast

from alveus.errors import (
    AlveusError,
    ForkedStore,
    InvalidInput,
    SetBusy,
    SetFull,
    StaleItem,
    StoreClosed,
    Unavailable,
)
from alveus.errors.root import without_frames
from alveus.sets.compaction.planning import CompactionTools, next_step, refuse_inside
from alveus.sets.compaction.set_snapshot import (
    NOTHING,
    CompactionSnapshot,
    SetSize,
    StoreView,
    View,
    bytes_of,
    living,
    record_size,
)
from alveus.sets.compaction.strategies import (
    Given,
    LocalStrategies,
    Trim,
    name_of,
    restored,
    stored_form,
)
from alveus.store import (
    Add,
    Batch,
    Commit,
    Compact,
    Define,
    ItemChange,
    Replace,
    Retire,
    SetInfo,
    Store,
    StoredItem,
)
from alveus.store.checks import ROW_BITS
from alveus.store.scope import Lease, Scope, SetRef
from alveus.store.sets import IN_THE_COMMIT, Definition
from alveus.values import wire
from alveus.values.events import EventListeners
from alveus.values.forks import (
    NO_THREAD,
    BackgroundThread,
    Flag,
    HandleLock,
    KeyLocks,
    began,
    call_within,
    let_go,
)
from alveus.values.lazy_dataclass import dataclass

_LOG = logging.getLogger(__name__)

SEEN = "compactor"
"""The note with the last time at which a separate compactor worked."""

FAILED = "compaction failures"
"""The note that lists the sets whose compaction failed, by their numbers in the store."""

ABSENT_US = 600 * 1_000_000
"""A compactor counts as absent if it has given no sign of life for this time."""

BEAT_US = 60 * 1_000_000
"""How often a working compactor records a sign of life."""

MOST_FAILED = 100
"""Most sets in the note. Failures of further sets are left out."""

OVERFLOW = 1.5
"""Multiple of a set's capacity above which a warning reports that the compactor is absent."""

NOTE_ATTEMPTS = 10


def beat(store: Store, now: int) -> None:
    """Record a sign of life of a compactor, durably, but at most once per `BEAT_US`."""
    before = store.note(SEEN)
    if before is None or not 0 <= now - int(before) < BEAT_US:
        store.put_note(SEEN, str(now), expected=before)


def is_seen(store: Store, now: int) -> bool:
    """Return whether a compactor worked within the last `ABSENT_US`."""
    last = store.note(SEEN)
    return last is not None and abs(now - int(last)) < ABSENT_US


def failures(store: Store) -> dict[int, tuple[str, int]]:
    """Return, by set number, the error's class and the number of failures of each failed set."""
    text = store.note(FAILED)
    found = cast("dict[str, tuple[str, int]]", wire.decode_plain(text or "{}"))
    return {int(number): (kind, tries) for number, (kind, tries) in found.items()}


def put_failure(store: Store, number: int, failure: tuple[str, int] | None) -> None:
    """Record that the compaction of a set failed, or works again.

    If this cannot be recorded, the error is logged, not raised.

    Args:
        number: The number of the set in the store.
        failure: The kind of error and the number of failures; None if the compaction works again.
    """
    try:
        _put_failure(store, number, failure)
    except AlveusError as error:
        _LOG.warning("what became of a compaction is not noted: %s", type(error).__name__)


def _put_failure(store: Store, number: int, failure: tuple[str, int] | None) -> None:
    for _ in range(NOTE_ATTEMPTS):
        before = store.note(FAILED)
        found = cast("dict[str, tuple[str, int]]", wire.decode_plain(before or "{}"))
        if failure is None:
            if found.pop(str(number), None) is None:
                return
        elif str(number) in found or len(found) < MOST_FAILED:
            found[str(number)] = failure
        text = json.dumps(found) if found else None
        if store.put_note(FAILED, text, expected=before):
            return


@dataclass(frozen=True, slots=True)
class Compacted:
    """A compaction that was just committed.

    Attributes:
        id: The id that `MemorySet.undo` takes.
        retired: Ids of the retired items.
        added: Ids of the items that replace some of them.
    """

    id: int
    set: SetRef
    retired: tuple[str, ...]
    added: tuple[str, ...]


def compactions_of(items: Sequence[ItemChange], commit: Commit) -> list[Compacted]:
    """Return the compactions among the changes of a commit."""
    return [
        Compacted(
            commit.number << ROW_BITS | position,
            change.set,
            tuple(item_id for item_id, _ in change.retired),
            tuple(add.record.id for add in change.added),
        )
        for position, change in enumerate(i for i in items if isinstance(i, Compact))
    ]


PAUSES_S = (1.0, 300.0)
"""First and longest pause before a retry after a failed compaction."""

BUSY_S = 0.05
"""Pause in seconds before a retry for a set that another process is compacting."""

MOST_REMEMBERED = 10_000
"""Most sets whose failures are remembered."""


def pause_after(tries: int) -> float:
    """Return the pause in seconds after *tries* failures in a row."""
    shortest, longest = PAUSES_S
    return min(longest, shortest * 2.0 ** min(tries - 1, 20))


@dataclass(frozen=True, slots=True)
class CompactionFailure:
    """A failed compaction of a set.

    Attributes:
        tries: Number of failures in a row.
        due: The time of the next try, by the monotonic clock.
    """

    error: AlveusError
    tries: int
    due: float


class CompactionWorker:
    """A thread that does steps of compactions, one after the other, until none is left.

    Attributes:
        failures: The last failure of each set that waits for a retry.
    """

    def __init__(
        self, step: Callable[[SetRef], bool], failed: Callable[[SetRef, CompactionFailure], None]
    ) -> None:
        self._step, self._failed = step, failed
        self._waiting: dict[SetRef, float] = {}
        self.failures: dict[SetRef, CompactionFailure] = {}
        self._mutex = HandleLock()
        self._changed = Flag()
        self._closed = False
        self._current_set: SetRef | None = None
        self._thread: threading.Thread | None = None

    def notify(self, ref: SetRef) -> None:
        """Queue a set for compaction, and start the thread if it is not running.

        If no thread can be started, the set stays queued, and the next call tries again.
        """
        with self._mutex:
            if self._closed:
                return
            failure = self.failures.get(ref)
            self._waiting.setdefault(ref, 0.0 if failure is None else failure.due)
            self._begin()
            self._changed.set()

    def _begin(self) -> None:
        """Start the thread unless it runs. If it cannot be started, `_thread` stays None."""
        if self._thread is None:
            thread = BackgroundThread(self._run, "alveus-compaction", self._ask_to_stop)
            self._thread = thread if began(thread) else None

    def settle(self, wait_s: float | None) -> bool:
        """Wait until no set is queued except sets that failed.

        Return True then, or if the worker is closed; return False if *wait_s* ends first.

        Raises:
            Unavailable: Sets are queued, and no thread can be started.
        """
        deadline = None if wait_s is None else time.monotonic() + wait_s
        while True:
            with self._mutex:
                if self._closed or not (self._current_set or self._fresh()):
                    return True
                self._begin()
                if self._thread is None:
                    raise Unavailable(f"sets cannot be compacted in the background: {NO_THREAD}")
                change = self._next_change()
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return False
            change.wait(left)

    def _fresh(self) -> bool:
        return any(ref not in self.failures for ref in self._waiting)

    def pause(self, seconds: float) -> None:
        """Wait until the queue changes, but at most *seconds*."""
        with self._mutex:
            change = self._next_change()
        change.wait(seconds)

    def close(self) -> None:
        """Stop the thread after its current step, and wait for its end."""
        self._ask_to_stop()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def leave(self) -> None:
        """Let the thread stop after its current step. A finalizer may call this in any thread.

        The method takes no lock, because the thread may hold one.
        """
        self._closed = True
        self._changed.set()

    def _ask_to_stop(self) -> None:
        with self._mutex:
            self._closed = True
            self._changed.set()

    def _next_change(self) -> Flag:
        """Return a flag that is set at the next change of the queue. The caller holds the lock."""
        if self._changed.is_set():
            self._changed = Flag()
        return self._changed

    def _run(self) -> None:
        while (ref := self._next()) is not None:
            more = self._tried(ref)
            with self._mutex:
                self._current_set = None
                if more is not None:
                    self._waiting.setdefault(ref, more)
                self._changed.set()

    def _next(self) -> SetRef | None:
        """Wait until a set is due, and return it. Return None after `close`."""
        while True:
            with self._mutex:
                if self._closed:
                    return None
                now = time.monotonic()
                ready = min(self._waiting, key=self._waiting.__getitem__, default=None)
                left = None if ready is None else self._waiting[ready] - now
                if ready is not None and self._waiting[ready] <= now:
                    del self._waiting[ready]
                    self._current_set = ready
                    return ready
                change = self._next_change()
            if not self._closed:  # `leave` takes no lock, and may have set the flag first
                change.wait(left)

    def _tried(self, ref: SetRef) -> float | None:
        """Do a step of a set's compaction.

        Return the time of the next step by the monotonic clock, or None if no step is left.
        """
        try:
            more = self._step(ref)
        except (StoreClosed, ForkedStore):  # the store is closed: nothing to compact
            with self._mutex:
                self._closed = True
            return None
        except SetBusy as error:
            _LOG.debug("compaction waits: %s", error)
            return time.monotonic() + BUSY_S
        except AlveusError as error:
            return self._again(ref, error)
        except BaseException as error:  # noqa: BLE001 - the edge of the thread: no caller sees it
            _LOG.exception("compaction raised, the set is unchanged")
            problem = f"the compaction of set {ref.name!r} raised {type(error).__name__}"
            return self._again(ref, Unavailable(problem))
        self.failures.pop(ref, None)
        return 0.0 if more else None

    def _again(self, ref: SetRef, error: AlveusError) -> float:
        before = self.failures.get(ref)
        tries = 1 if before is None else before.tries + 1
        due = time.monotonic() + pause_after(tries)
        if len(self.failures) >= MOST_REMEMBERED and before is None:
            self.failures.clear()
        failure = self.failures[ref] = CompactionFailure(without_frames(error), tries, due)
        _LOG.warning(
            "compaction failed, the set is unchanged: %s",
            type(error).__name__,
            extra={"set": ref.name, "tries": tries},
        )
        self._failed(ref, failure)
        return due


# --- room in a set, made by an add before it adds ---------------------------------------------

MOST_REWRITES = 100
"""Most steps of one add that replace items by the same number of items."""

RETIRES_NOTHING = "it retires nothing"
FREES_NOTHING = "the items that it adds are as large as those that it retires"
TOO_LITTLE = f"{MOST_REWRITES} steps that retired no item freed too little"


def _makes_room(definition: Definition) -> bool:
    """Return whether an add to a full set with this definition first makes room by a strategy."""
    return definition.bounded and definition.rejects_when_full and definition.compaction != "reject"


def _step_making_room(
    snapshot: CompactionSnapshot, tools: CompactionTools, local_strategies: LocalStrategies
) -> Compact | None:
    """Return one step that makes room for the items to add, or None if there is room.

    One step may free too little: the caller applies the step, and calls again.

    Raises:
        SetFull: The strategy frees nothing.
        InvalidPlan, StrategyFailed: A user's strategy failed.
        Unusable: The add is a call by a user's strategy that is planning for this set.
    """
    needed = snapshot.live_size + snapshot.coming
    if not needed.exceeds(snapshot.definition):
        return None
    refuse_inside(snapshot.ref, tools)
    strategy = restored(snapshot.definition.compaction, local_strategies)
    step = None if strategy is None else next_step(snapshot, strategy, tools, by="sync")
    if step is None:
        raise full(snapshot.definition, snapshot.ref, needed, RETIRES_NOTHING)
    change, size_after = step
    if not frees(snapshot.definition, snapshot.live_size, size_after):
        raise full(snapshot.definition, snapshot.ref, needed, FREES_NOTHING)
    return change


def frees(definition: Definition, before: SetSize, after: SetSize) -> bool:
    """Return whether a step brings a set nearer to its capacities, so that another step may follow.

    The step does so if the set has fewer items afterwards; or if it has as many items, and of the
    tokens and bytes that have a capacity one is lower and none is higher. Steps of both kinds come
    to an end, whatever the strategy plans.
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
    """Return the error for a set without room; *problem* says why its strategy made none."""
    what, most = definition.exceeded_capacity(needed.items, needed.tokens, needed.bytes) or (
        "items",
        0,
    )
    name = name_of(definition.compaction)
    return SetFull(
        ref.name, capacity=most, what=what, compacts=True, strategy=name, problem=problem
    )


class BatchCapacity:
    """The sizes of sets as a batch changes them, and the steps that make room in them.

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
        self._sets[ref] = info if info is not None and _makes_room(info.definition) else None

    def timed(self, add: Add) -> Add:
        """Return *add* with a time if the batch may compact the added item, otherwise unchanged.

        Without this time, all items of a batch would have the same time, and a summary could not
        keep their order.
        """
        if self._sets.get(add.set) is None or add.record.time is not None:
            return add
        self._last = max(self._tools.clock(), self._last + 1)
        return replace(add, record=replace(add.record, time=self._last))

    def steps_for(self, add: Add) -> Iterator[Compact]:
        """Yield the steps that make room for *add*. The batch must apply each before the next.

        Raises:
            SetFull: There is no room, and the strategy frees none or too little.
            InvalidPlan, StrategyFailed: A user's strategy failed.
        """
        rewrites = 0
        while (info := self._sets.get(add.set)) is not None:
            snapshot = CompactionSnapshot(
                self._view, info, record_size(add.record), self._tools.clock()
            )
            step = _step_making_room(snapshot, self._tools, self._local_strategies)
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


# --- compactions of a memory ------------------------------------------------------------------

LEASE = "compaction "
"""Prefix of the name of a compaction lease. The number of the set follows the prefix."""

PRESSED = 2.0
"""Multiple of a set's capacity above which adds to the set wait for a compaction."""

ATTEMPTS = 5
"""Most times that one step is planned, if another process changes an item each time."""


CALLED = "call"
"""The executor name of a step that `MemorySet.compact` requested."""


class Compactions:
    """Compacts sets: in an add to a full set, on demand, and in the background.

    Attributes:
        local_strategies: Strategies that exist only in this process.
        listeners: The listeners to each `Compacted`.
        pressed: Sets at twice their capacity. The next add to such a set compacts the set first.
    """

    def __init__(self, tools: CompactionTools) -> None:
        self.tools = tools
        self.local_strategies: LocalStrategies = {}
        self.listeners = EventListeners((Compacted,))
        self.worker = CompactionWorker(self._in_background, self._note)
        self._locks = KeyLocks[SetRef]()
        self.pressed: set[SetRef] = set()
        self._warned: set[SetRef] = set()

    # --- in an add ----------------------------------------------------------------------------

    def relieve(self, items: Sequence[ItemChange]) -> None:
        """Compact the sets that are at twice their capacity, before *items* are added to them.

        Raises:
            SetFull: A compaction failed, and its error is the cause; or another process compacted
                the set for longer than the wait time.
        """
        for ref in dict.fromkeys(item.set for item in items if isinstance(item, Add)):
            if ref in self.pressed:
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
                    problem = f"another thread or process compacts the set ({error})"
                    raise full(info.definition, ref, SetSize.of(info), problem) from error
                self.worker.pause(BUSY_S)
            except AlveusError as error:
                problem = f"{type(error).__name__}: {error}"
                raise full(info.definition, ref, SetSize.of(info), problem) from error
        self.pressed.discard(ref)

    def committed(self, items: Sequence[ItemChange], commit: Commit) -> None:
        """After a commit, call the listeners with its compactions, and queue full sets."""
        if commit.adopted:
            return
        if self.listeners.kinds:
            self.listeners.tell(compactions_of(items, commit))
        for ref in commit.sets_to_compact:
            info = self.tools.store.set_info(ref)
            if info is None:
                continue
            if info.definition.execution == "background":
                self.tools.store.observer.compaction_due(ref)
                self.worker.notify(ref)
                if pressed(info):
                    self.pressed.add(ref)
            elif info.definition.execution == "external":
                self._look_for_compactor(info)

    # --- in the background --------------------------------------------------------------------

    def _in_background(self, ref: SetRef) -> bool:
        """Do a step if the set is above its high-water mark.

        Return whether another step may be needed.
        """
        info = self._info(ref)
        if info is None or info.definition.execution != "background" or not due(info):
            self.pressed.discard(ref)
            return False
        return self.step(ref, by="background") is not None

    def _note(self, ref: SetRef, failure: CompactionFailure) -> None:
        """Record for `alveus doctor` that a set could not be compacted."""
        says = (type(failure.error).__name__, failure.tries)
        try:
            info = self.tools.store.set_info(ref)
        except AlveusError as error:
            _LOG.warning("a failed compaction could not be noted: %s", type(error).__name__)
            return
        if info is not None:
            put_failure(self.tools.store, info.number, says)

    def _look_for_compactor(self, info: SetInfo) -> None:
        """Log once that a set overflows because its external compactor is absent."""
        if info.ref in self._warned or not due(info, OVERFLOW):
            return
        if not is_seen(self.tools.store, self.tools.clock()):
            if len(self._warned) >= MOST_REMEMBERED:
                self._warned.clear()
            self._warned.add(info.ref)
            _LOG.warning(
                "set %r holds more than %.1f times its capacity, its execution is 'external', and "
                "no compactor was seen lately; start one: alveus compact --watch",
                info.ref.name,
                OVERFLOW,
                extra={"set": info.ref.name, "items": info.items},
            )

    # --- a step -------------------------------------------------------------------------------

    def step(self, ref: SetRef, *, by: str, given: Given | None = None) -> Compacted | None:
        """Do one step of a set's compaction; return None if the strategy has nothing to do.

        Args:
            by: The executor, which is stored with the compaction. All executors except "call"
                repeat steps until there is room.
            given: A strategy to use instead of the set's strategy.

        Raises:
            SetFull: *by* is not "call", the set exceeds a capacity, and its strategy frees nothing.
            InvalidPlan, StrategyFailed: A user's strategy failed.
            SetBusy: Another process or thread compacts the set now.
            Unusable: A strategy called this while it was planning for the same set.
            AlveusError: A model, an embedder or the store failed. The set is unchanged.
        """

        def compacted(lease: Lease) -> Compacted | None:
            for _ in range(ATTEMPTS):
                change = self._planned(ref, by, given)
                if change is None:
                    return None
                try:
                    return self._commit(ref, change, lease)
                except StaleItem:  # another process was first; plan the set again
                    continue
            raise Unavailable(
                f"set {ref.name!r} was changed by others during each attempt to compact it; try "
                "again"
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
                f"set {ref.name!r} has compaction='reject', so compact() needs a strategy: "
                "compact(Trim(n=10))"
            )
        snapshot = CompactionSnapshot(StoreView(tools.store), info, NOTHING, tools.clock())
        step = next_step(snapshot, strategy, tools, by=by)
        if step is None:
            return _no_step(info, by, RETIRES_NOTHING)
        change, size_after = step
        if by == CALLED:
            return change if shrunk(snapshot.live_size, size_after) else None
        progress = frees(info.definition, snapshot.live_size, size_after)
        return change if progress else _no_step(info, by, FREES_NOTHING)

    def _info(self, ref: SetRef) -> SetInfo | None:
        """Return a set, with counts that exclude expired items, or None if it does not exist."""
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
        number = int((lease.scope.key or "").removeprefix(LEASE))  # of the set
        put_failure(tools.store, number, None)
        return compactions_of(batch.items, commit)[0]

    @contextmanager
    def _alone(self, ref: SetRef) -> Generator[Lease]:
        """Hold the lease for compacting a set. Only one thread of one process can hold it.

        Raises:
            SetBusy: Another process holds the lease, or another thread held it for the whole wait
                time.
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


def due(info: SetInfo, share: float | None = None) -> bool:
    """Return whether a set is above its high-water mark, or above *share* of a capacity.

    A set below the mark is not compacted, so that a strategy with `n` leaves the same items however
    late it runs.
    """
    definition = info.definition
    if not definition.bounded or definition.compaction in IN_THE_COMMIT:
        return False
    return SetSize.of(info).exceeds(definition, definition.high_water if share is None else share)


def pressed(info: SetInfo) -> bool:
    """Return whether adds to a set must wait for a compaction."""
    return due(info, PRESSED)


def _no_step(info: SetInfo, by: str, problem: str) -> None:
    """Raise if a set still needs room although its strategy has no further step.

    Raises:
        SetFull: The set exceeds a capacity, and *by* is not "call".
    """
    if by != CALLED and SetSize.of(info).exceeds(info.definition):
        raise full(info.definition, info.ref, SetSize.of(info), problem)
