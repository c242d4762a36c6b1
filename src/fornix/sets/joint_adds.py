"""Adds of many threads, made by one of them.

To embed a text by itself takes about three times what it takes among others, and so it is with
the rest of an add: what many threads add at once is embedded in one call, and planned and committed
by whoever leads. With one thread, an add is planned and committed as any other change.
"""

from __future__ import annotations

from collections.abc import Mapping
from threading import get_ident
from typing import Protocol, cast

from fornix.errors import FornixError
from fornix.store import Batch, Commit, Store
from fornix.store.commit_queue import CommitQueue, CommitTicket
from fornix.store.records import RecordMaker


class JointAdd(Protocol):
    """An add that others may plan."""

    def texts(self) -> list[str]:
        """Return what has to be embedded, as far as that is told at a glance."""
        ...

    def batch_with(self, vectors: Mapping[str, bytes]) -> Batch | None:
        """Return what is to be committed; it is planned with the vectors of some texts.

        None: it has to be made alone.
        """
        ...


class JointAdds:
    """Where the adds of one open memory meet."""

    def __init__(self, store: Store, recorder: RecordMaker) -> None:
        self._store, self._recorder = store, recorder
        self._queue = CommitQueue[JointAdd](self._commit_group)
        self._leader = 0

    def commit(self, add: JointAdd) -> Commit | None:
        """Return the commit that an add became, beside those of others.

        None: nothing was done; making it alone says why, or mends it.

        Raises:
            FornixError: All of the group failed alike: the disk is full, or the store is away.
        """
        if self._leader == get_ident():  # an embedder adds
            return None
        return cast("Commit | None", self._queue.pass_in(add))

    def _commit_group(self, group: list[CommitTicket[JointAdd]]) -> None:
        self._leader = get_ident()
        try:
            vectors: Mapping[str, bytes] = {}
            if len(group) > 1:
                texts = [text for ticket in group for text in ticket.work.texts()]
                vectors = self._recorder.vectors_of(texts)
            planned = [(ticket, _planned(ticket.work, vectors)) for ticket in group]
            tickets = [ticket for ticket, batch in planned if batch is not None]
            answers = self._store.commit_many([batch for _, batch in planned if batch is not None])
        finally:
            self._leader = 0
        for ticket, answer in zip(tickets, answers, strict=True):
            ticket.settle(None if isinstance(answer, FornixError) else answer)
        for ticket in group:
            if not ticket.settled:
                ticket.settle(None)


def _planned(add: JointAdd, vectors: Mapping[str, bytes]) -> Batch | None:
    try:
        return add.batch_with(vectors)
    except FornixError:  # its own thread plans it again, and raises it
        return None
