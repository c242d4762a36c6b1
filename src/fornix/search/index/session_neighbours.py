"""Neighbours in a session: what was said before, and what after."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fornix.search.index.arrays import Columns
from fornix.search.index.feature_arrays import NONE, linked


class ByName(Protocol):
    """What gives a column by its name, to be written to."""

    def __getitem__(self, name: str, /) -> NDArray[Any]: ...


def link(columns: ByName, docs: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
    """Fill in the links among *docs*, which are all live ones of their sessions.

    Returns:
        What `linked` does.
    """
    order, followed = linked(docs, columns["session"], columns["time"], columns["first"])
    before, after = order[:-1][followed[:-1]], order[1:][followed[:-1]]
    columns["next"][before] = after
    columns["previous"][after] = before
    return order, followed


class Links:
    """Keeps the columns ``previous`` and ``next``: live neighbours by (time, first) in a session.

    Appending at the end of a session and ending a document are done at once; anything else tears
    the session, whose links are made anew when they are next read.
    """

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self._last: dict[int, int] | None = None
        self._torn: set[int] = set()
        self._all_torn = False

    def tear(self) -> None:
        """Have all links made anew."""
        self._all_torn = True
        self._torn.clear()
        self._last = None

    def append(self, doc: int) -> None:
        """Take in the last document, which has no links yet."""
        columns = self._columns
        session = int(columns["session"][doc])
        if session < 0 or self._all_torn or session in self._torn:
            return
        lasts = self._lasts(doc)
        last = lasts.get(session, NONE)
        if last != NONE:
            time, first = columns["time"], columns["first"]
            if (time[last], first[last]) > (time[doc], first[doc]):
                self._torn.add(session)
                return
            columns["previous"][doc] = last
            columns["next"][last] = doc
        lasts[session] = doc

    def end(self, doc: int) -> None:
        """Take a document, which is no longer alive, out of its session."""
        session = int(self._columns["session"][doc])
        if session < 0 or self._all_torn or session in self._torn:
            return
        previous, following = self._columns["previous"], self._columns["next"]
        lasts = self._lasts(self._columns.size)
        before, after = int(previous[doc]), int(following[doc])
        if before != NONE:
            following[before] = after
        if after != NONE:
            previous[after] = before
        elif before != NONE:
            lasts[session] = before
        else:
            lasts.pop(session, None)
        previous[doc] = following[doc] = NONE

    def mend(self) -> None:
        """Make the links of torn sessions anew."""
        if not self._all_torn and not self._torn:
            return
        columns = self._columns
        chosen = columns["session"] >= 0
        if not chosen.any():
            self._all_torn = False
            self._torn.clear()
            return
        if not self._all_torn:
            torn = np.fromiter(self._torn, np.int32, len(self._torn))
            chosen &= np.isin(columns["session"], torn)
        columns["previous"][chosen] = columns["next"][chosen] = NONE
        order, followed = link(columns, np.flatnonzero(chosen & columns["alive"]).astype(np.int32))
        if self._last is not None:
            for session in self._torn:
                self._last.pop(session, None)
            lasts = order[~followed]
            self._last.update(zip(columns["session"][lasts].tolist(), lasts.tolist(), strict=True))
        self._all_torn = False
        self._torn.clear()

    def _lasts(self, size: int) -> dict[int, int]:
        """Return the last document of each session that is not torn, among the first *size*."""
        if self._last is None:
            columns = self._columns
            session = columns["session"][:size]
            last = columns["alive"][:size] & (session >= 0) & (columns["next"][:size] == NONE)
            docs = np.flatnonzero(last)
            self._last = dict(zip(session[docs].tolist(), docs.tolist(), strict=True))
        return self._last

    @property
    def nbytes(self) -> int:
        """Bytes of RAM it takes beside its columns, roughly."""
        return 100 * len(self._last or ())
