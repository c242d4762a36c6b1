"""A connection that only reads, lent by an open file for the length of a ``with`` block."""

from __future__ import annotations

from types import TracebackType
from typing import Protocol

from alveus.store.sqlite.connection import SqliteConnection
from alveus.values.forks import FORKS

_leave = FORKS.leave
"""Looked up once, as that takes memory: without any, the gate is left all the same."""


class Lender(Protocol):
    """An open file."""

    def lend(self) -> SqliteConnection:
        """Return a connection that only reads, to be given back by `take_back`."""
        ...

    def take_back(self, db: SqliteConnection) -> None:
        """Keep what `lend` lent for the next one, or close it."""
        ...


class Borrowed:
    """A reading connection, lent for a ``with`` block."""

    __slots__ = ("_db", "_file")

    def __init__(self, file: Lender) -> None:
        self._file = file

    def __enter__(self) -> SqliteConnection:
        try:
            FORKS.enter(self)
            self._db = self._file.lend()
        except BaseException:
            _leave(self)
            raise
        return self._db

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self._file.take_back(self._db)
        finally:
            try:
                _leave(self)
            except BaseException:  # an interrupt: what stayed inside would hold up every fork
                _leave(self)
                raise
