"""What the pool of connections logs while a server is away, said once."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from alveus.store.postgres.pipeline import PipelinedConnection
from alveus.values.forks import FreshLock

_LOG = logging.getLogger(__name__)

_POOL = logging.getLogger("psycopg.pool")

_REPEATED = ("error connecting", "reconnection attempt")
"""How records begin that the pool writes at each of its attempts."""

_LOST = ("discarding broken connection", "discarding closed connection")
"""How records begin that name no pool: whoever used the connection is told, and tries again."""


class OutageLog(logging.Filter):
    """Logs one warning when a server is away, and one line when it is back.

    The pool tries again for minutes, and writes a warning at each attempt, which goes to stderr
    where a program has set up no logging. Records of other pools pass.

    Args:
        pool: The name of the pool, which no other one has.
        location: The URL of the store, without a password.
    """

    def __init__(self, pool: str, location: str) -> None:
        super().__init__()
        self._pool, self._location = pool, location
        self._lock, self._is_away = FreshLock(), False

    def begin(self) -> None:
        """Look at what the pool logs from now on."""
        _POOL.addFilter(self)

    def end(self) -> None:
        """Look no more."""
        _POOL.removeFilter(self)

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a record of a pool is to be logged."""
        told: Sequence[object] = [*record.args] if isinstance(record.args, tuple) else []
        said = str(record.msg)
        if said.startswith(_LOST):
            return not any(isinstance(each, PipelinedConnection) for each in told)
        if self._pool not in told or not said.startswith(_REPEATED):
            return True
        if self._changes(is_away=True):
            why = " ".join(str(told[-1]).split())
            _LOG.warning("%s is away: %s; it is asked until it answers", self._location, why)
        return False

    def connected(self) -> None:
        """Note that the server answers."""
        if self._changes(is_away=False):
            _LOG.warning("%s is back", self._location)

    def _changes(self, *, is_away: bool) -> bool:
        with self._lock:
            changes, self._is_away = self._is_away != is_away, is_away
        return changes
