"""Adds of many threads, made by one of them.

To embed a text by itself takes about three times what it takes among others, and so it is with
the rest of an add: what many threads add at once is embedded in one call, and planned and committed
by whoever leads. With one thread, an add is planned and committed as any other change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from threading import get_ident
from typing import Protocol, cast

from fornix.errors import FornixError
from fornix.store import Batch, Commit, Store
from fornix.store.commit_queue import CommitQueue, CommitTicket
from fornix.store.records import RecordMaker
from fornix.values.forks import FORKS


class JointAdd(Protocol):
    """An add that others may plan."""

    @property
    def texts(self) -> Sequence[str]:
        """What has to be embedded, as far as that is told at a glance."""
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
        self._generation = FORKS.generation

    def commit(self, add: JointAdd) -> Commit | None:
        """Return the commit that an add became, beside those of others.

        None: nothing was done; making it alone says why, or mends it.

        Raises:
            FornixError: All of the group failed alike: the disk is full, or the store is away.
        """
        if self._leader == get_ident():  # an embedder adds
            return None
        if self._generation != FORKS.generation:  # whoever led at the fork is not there any more
            return None
        return cast("Commit | None", self._queue.pass_in(add))

    def _commit_group(self, group: list[CommitTicket[JointAdd]]) -> None:
        self._leader = get_ident()
        try:
            batches = self._planned([ticket.work for ticket in group])
        except BaseException:
            _leave(group)
            raise
        finally:
            self._leader = 0
        planned = [
            (ticket, batch)
            for ticket, batch in zip(group, batches, strict=True)
            if isinstance(batch, Batch)
        ]
        answers = self._store.commit_many([batch for _, batch in planned])
        for (ticket, _), answer in zip(planned, answers, strict=True):
            if not isinstance(answer, FornixError):
                ticket.settle(answer)
        _leave(group)

    def _planned(self, adds: Sequence[JointAdd]) -> list[Batch | Exception | None]:
        vectors: Mapping[str, bytes] = {}
        if len(adds) > 1:
            vectors = self._recorder.vectors_of([text for add in adds for text in add.texts])
        return [_batch_of(add, vectors) for add in adds]


def _leave(group: Sequence[CommitTicket[JointAdd]]) -> None:
    """Leave to their own threads what was not committed."""
    for ticket in group:
        if not ticket.settled:
            ticket.settle(None)


def _batch_of(add: JointAdd, vectors: Mapping[str, bytes]) -> Batch | Exception | None:
    try:
        return add.batch_with(vectors)
    except Exception as error:  # noqa: BLE001 - its own thread plans it again, and raises it
        return error
