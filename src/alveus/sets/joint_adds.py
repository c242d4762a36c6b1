"""Adds of many threads, recorded and embedded in one call by the thread that commits them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Protocol

from alveus.errors import DuplicateItem, KeyBusy, SetFull, SetMoved, StaleItem
from alveus.store import Batch, Commit, ItemRecord, Store
from alveus.store.commit_queue import CommitQueue, CommitTicket, Planner, Queued
from alveus.store.items import Item
from alveus.store.records import RecordMaker
from alveus.store.times import DisciplinedClock
from alveus.values.forks import FORKS
from alveus.values.times import Zone

_MENDABLE = (DuplicateItem, KeyBusy, SetFull, SetMoved, StaleItem)
"""Errors of an add that may pass if its thread makes it anew, or waits."""


class JointAdd(Protocol):
    """An add that another thread may record and commit."""

    @property
    def pairs(self) -> Sequence[tuple[str, Item]]:
        """The items, and their ids."""
        ...

    @property
    def zone(self) -> Zone:
        """The zone of items that come without a time."""
        ...

    def batch_of(self, records: Sequence[ItemRecord], *, time: int, corroborated: int) -> Batch:
        """Return the batch that adds the records of the items; times as in `Batch`."""
        ...


class JointAdds:
    """Adds of one open memory, in the commit queue of its store; see `Planner`."""

    def __init__(self, store: Store, recorder: RecordMaker, clock: DisciplinedClock) -> None:
        self._store, self._recorder, self._clock = store, recorder, clock
        self._generation = FORKS.generation
        self._queue = CommitQueue[JointAdd](self._commit_group)
        self._pass_on = store.commit_planned if isinstance(store, Queued) else self._queue_here

    def commit(self, add: JointAdd) -> Commit | None:
        """Return the commit that an add became, beside those of others.

        None: nothing was done; making it alone says why, or mends it.

        Raises:
            AlveusError: The commit failed: the disk is full, or the store is away or closed.
        """
        if FORKS.is_inherited(self._generation):  # a leader at the fork is not in the child
            return None
        try:
            return self._pass_on(add, self)
        except _MENDABLE:
            return None

    def _queue_here(self, add: JointAdd, planner: Planner) -> Commit | None:
        """Do what `Queued.commit_planned` does, for a store without a queue."""
        return self._queue.do(CommitTicket(add, planner=planner))

    def _commit_group(self, group: Sequence[CommitTicket[JointAdd]]) -> None:
        batches = [batch for ticket in group for batch in ticket.batches]
        alone = len(batches) == 1
        answers = [self._store.commit(batches[0])] if alone else self._store.commit_many(batches)
        for ticket, answer in zip(group, answers, strict=True):
            ticket.settle(answer)

    def batches(self, adds: Sequence[JointAdd], /) -> list[Batch | None]:
        """Return the batch of each add; None: it raises alone, too, which its thread will see."""
        zones = {add.zone for add in adds}
        if len(zones) > 1:
            apart = {zone: [add for add in adds if add.zone == zone] for zone in zones}
            made = {zone: iter(self.batches(some)) for zone, some in apart.items()}
            return [next(made[add.zone]) for add in adds]
        now, corroborated = self._clock.times()
        pairs = [pair for add in adds for pair in add.pairs]
        try:
            records = iter(self._recorder.records(pairs, now=now, zone=adds[0].zone))
            return [
                add.batch_of(_next(records, add), time=now, corroborated=corroborated)
                for add in adds
            ]
        except Exception:  # noqa: BLE001 - each on its own below; who raises again is told then
            return (
                [None] if len(adds) == 1 else [one for add in adds for one in self.batches([add])]
            )


def _next(records: Iterator[ItemRecord], add: JointAdd) -> list[ItemRecord]:
    return list(islice(records, len(add.pairs)))
