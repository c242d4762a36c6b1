"""The owners of leases, and whether they are alive, by the server's clock.

Each owner has a row with the time until which the owner counts as alive. A thread of its process
renews this time. The owners of a process that dies, or cannot reach the server, count as dead
`LEASE_S` seconds later.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from typing import NamedTuple

import psycopg

from alveus.errors import AlveusError, Unavailable
from alveus.store.postgres.connection import PostgresConnection
from alveus.store.sql.connection import Connection, first
from alveus.values.forks import NO_THREAD, Flag, began

LEASE_S = 5.0
"""How long an owner counts as alive after its process last renewed its row."""

BEATS = 3
"""How often a process renews its owners' rows in `LEASE_S` seconds."""

_EXPIRY = f"clock_timestamp() + interval '{LEASE_S} seconds'"

_ENLIST = f"""
    INSERT INTO owner (name, expires) VALUES (?, {_EXPIRY})
    ON CONFLICT (name) DO UPDATE SET expires = excluded.expires, role = excluded.role
"""  # noqa: S608 - ours

_TAKE = f"{_ENLIST} WHERE owner.expires < clock_timestamp() RETURNING name"

_BEAT = f"UPDATE owner SET expires = {_EXPIRY} WHERE name IN (SELECT unnest(?::text[]))"  # noqa: S608 - ours

_ALIVE = "SELECT expires > clock_timestamp() FROM owner WHERE name = ?"

_FORGET_DEAD = "DELETE FROM owner WHERE expires < clock_timestamp() - interval '1 day'"

Lender = Callable[[], AbstractContextManager[PostgresConnection]]


class ServerOwners:
    """Registers the owners of this process, and knows whether other owners are alive.

    Args:
        lend: Lends a connection for a block.
    """

    def __init__(self, lend: Lender) -> None:
        self._lend = lend
        self._mine: set[str] = set()
        self._stopped = Flag()
        self._mutex = threading.Lock()
        self._thread: threading.Thread | None = None

    def enlist(self, owner: str) -> None:
        """Make *owner* count as alive until it is dismissed, or this process dies.

        The owner's row is committed separately, so that the row exists before the lease.

        Raises:
            Unavailable: This process cannot start the thread that renews rows.
        """
        if owner not in self._mine:
            with self._lend() as db:
                self.enlist_by(db, owner)

    def enlist_by(self, db: PostgresConnection, owner: str) -> None:
        """Do the same as `enlist`, on *db*, which must not be in a transaction."""
        db.execute(_FORGET_DEAD)
        db.execute(_ENLIST, (owner,))
        db.finish()
        with self._mutex:
            if self._thread is None:
                keep = weakref.WeakMethod(self._beat)
                thread = threading.Thread(
                    target=_beating, args=(keep, self._stopped), name="alveus leases", daemon=True
                )
                if not began(thread):
                    raise Unavailable(f"no key can be leased: {NO_THREAD}")
                self._thread = thread
            self._mine.add(owner)

    def has(self, owner: str) -> bool:
        """Return whether *owner* belongs to this process."""
        return owner in self._mine

    def take(self, owner: str) -> bool:
        """Enlist *owner* and return True, or return False if it is alive in any process."""
        with self._lend() as db:
            taken = db.execute(_TAKE, (owner,)).get is not None
        if taken:
            self.enlist(owner)
        return taken

    def is_alive(self, owner: str) -> bool:
        """Return whether *owner* counts as alive."""
        if owner in self._mine:
            return True
        with self._lend() as db:
            return bool(first(db, _ALIVE, owner))

    def within(self, db: Connection) -> OwnersWithin:
        """Return an object for the same owners that uses *db*, which is in a transaction."""
        return OwnersWithin(self, db)

    def dismiss(self, owner: str) -> None:
        """Make *owner* count as dead."""
        with self._mutex:
            self._mine.discard(owner)
        with self._lend() as db:
            db.execute("DELETE FROM owner WHERE name = ?", (owner,))

    def close(self) -> None:
        """Dismiss all owners of this process."""
        self._stopped.set()
        for owner in list(self._mine):
            with suppress(AlveusError, psycopg.Error):  # the owner soon counts as dead anyway
                self.dismiss(owner)

    def _beat(self) -> None:
        with self._mutex:
            mine = sorted(self._mine)
        if mine:
            with suppress(AlveusError, psycopg.Error), self._lend() as db:  # the next beat follows
                db.execute(_BEAT, (db.texts(mine),))


class OwnersWithin(NamedTuple):
    """The owners of a process, for a transaction that holds the lock.

    `is_alive` uses the connection of the transaction, because threads that wait for the lock may
    use all other connections of the pool.
    """

    owners: ServerOwners
    db: Connection

    def enlist(self, owner: str) -> None:
        """See `ServerOwners.enlist`."""
        self.owners.enlist(owner)

    def is_alive(self, owner: str) -> bool:
        """Return whether *owner* counts as alive."""
        return bool(first(self.db, _ALIVE, owner))


def _beating(beat: weakref.WeakMethod[Callable[[], None]], stopped: Flag) -> None:
    """Call *beat*, which renews rows, until *stopped* is set or its object is garbage-collected."""
    while not stopped.wait(LEASE_S / BEATS):
        method = beat()
        if method is None:
            return
        method()
        del method
