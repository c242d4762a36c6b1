"""Adds of many threads, made by one of them.

To embed a text by itself takes about three times what it takes among others, and so it is with
the rest of an add: what many threads add at once is recorded in one call, and committed by whoever
leads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from threading import get_ident
from typing import Protocol

from alveus.errors import AlveusError, DuplicateItem, KeyBusy, SetFull, SetMoved, StaleItem
from alveus.store import Batch, Commit, ItemRecord, Store
from alveus.store.commit_queue import CommitQueue, CommitTicket
from alveus.store.items import Item
from alveus.store.records import RecordMaker
from alveus.store.times import DisciplinedClock
from alveus.values.forks import FORKS
from alveus.values.times import Zone

_MENDABLE = (DuplicateItem, KeyBusy, SetFull, SetMoved, StaleItem)
"""What refuses an add that may pass if its own thread makes it anew, or waits."""


class JointAdd(Protocol):
    """An add that others may record and commit."""

    @property
    def pairs(self) -> Sequence[tuple[str, Item]]:
        """The items, and their ids."""
        ...

    @property
    def zone(self) -> Zone:
        """Of items that come without a time."""
        ...

    def batch_of(self, records: Sequence[ItemRecord], *, time: int, corroborated: int) -> Batch:
        """Return what is to be committed, for the records of the items; times as in `Batch`."""
        ...


class JointAdds:
    """Where the adds of one open memory meet."""

    def __init__(self, store: Store, recorder: RecordMaker, clock: DisciplinedClock) -> None:
        self._store, self._recorder, self._clock = store, recorder, clock
        self._queue = CommitQueue[JointAdd](self._commit_group)
        self._leader = 0
        self._generation = FORKS.generation

    def commit(self, add: JointAdd) -> Commit | None:
        """Return the commit that an add became, beside those of others.

        None: nothing was done; making it alone says why, or mends it.

        Raises:
            AlveusError: All of the group failed alike: the disk is full, or the store is away.
        """
        if self._leader == get_ident():  # an embedder adds
            return None
        if FORKS.is_inherited(self._generation):  # whoever led at the fork is not there any more
            return None
        commit: Commit | None = self._queue.pass_in(add)
        return commit

    def _commit_group(self, group: list[CommitTicket[JointAdd]]) -> None:
        self._leader = get_ident()
        try:
            planned = self._planned(group)
        except BaseException:
            _leave(group)
            raise
        finally:
            self._leader = 0
        if len(group) == len(planned) == 1:
            self._commit_alone(group[0], planned[0][1])
            return
        answers = self._store.commit_many([batch for _, batch in planned])
        for (ticket, _), answer in zip(planned, answers, strict=True):
            if not isinstance(answer, AlveusError):
                ticket.settle(answer)
        _leave(group)

    def _commit_alone(self, ticket: CommitTicket[JointAdd], batch: Batch) -> None:
        try:
            ticket.settle(self._store.commit(batch))
        except _MENDABLE:
            ticket.settle(None)

    def _planned(
        self, group: Sequence[CommitTicket[JointAdd]]
    ) -> list[tuple[CommitTicket[JointAdd], Batch]]:
        """Return the batches of a group, but of those that raise alone, too."""
        zones = {ticket.work.zone: None for ticket in group}
        if len(zones) > 1:
            apart = ([t for t in group if t.work.zone == zone] for zone in zones)
            return [planned for some in apart for planned in self._planned(some)]
        times = self._clock.times()
        try:
            if len(group) == 1:
                work = group[0].work
                records = self._recorder.records(work.pairs, now=times[0], zone=work.zone)
                return [(group[0], work.batch_of(records, time=times[0], corroborated=times[1]))]
            pairs = [pair for ticket in group for pair in ticket.work.pairs]
            (zone,) = zones
            rest = iter(self._recorder.records(pairs, now=times[0], zone=zone))
            return [(ticket, _batch_of(ticket.work, rest, times)) for ticket in group]
        except Exception:  # noqa: BLE001 - each on its own below; who raises again is told then
            return [] if len(group) == 1 else [one for t in group for one in self._planned([t])]


def _leave(group: Sequence[CommitTicket[JointAdd]]) -> None:
    """Leave to their own threads what was not committed."""
    for ticket in group:
        if not ticket.settled:
            ticket.settle(None)


def _batch_of(add: JointAdd, records: Iterator[ItemRecord], times: tuple[int, int]) -> Batch:
    own = list(islice(records, len(add.pairs)))
    return add.batch_of(own, time=times[0], corroborated=times[1])
