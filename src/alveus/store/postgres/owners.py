"""Which owners of leases are alive, by the server's clock.

Each owner has a row that says until when it counts as alive, and a thread of its process moves
that on. A process that dies, or that cannot reach the server, counts as dead `LEASE_S` later; what
it still commits is refused once another has taken its lease over, since that raises the epoch.
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
"""How long an owner counts as alive after its process was heard of last."""

BEATS = 3
"""How often in that time a process says that it is alive."""

_EXPIRY = f"clock_timestamp() + interval '{LEASE_S} seconds'"

_ENLIST = f"""
    INSERT INTO owner (name, expires) VALUES (?, {_EXPIRY})
    ON CONFLICT (name) DO UPDATE SET expires = excluded.expires, role = excluded.role
"""  # noqa: S608 - ours

_TAKE = f"""
    INSERT INTO owner (name, expires) VALUES (?, {_EXPIRY})
    ON CONFLICT (name) DO UPDATE SET expires = excluded.expires, role = excluded.role
        WHERE owner.expires < clock_timestamp()
    RETURNING name
"""  # noqa: S608 - ours

_BEAT = f"UPDATE owner SET expires = {_EXPIRY} WHERE name IN (SELECT unnest(?::text[]))"  # noqa: S608 - ours

_ALIVE = "SELECT expires > clock_timestamp() FROM owner WHERE name = ?"

_FORGET_DEAD = "DELETE FROM owner WHERE expires < clock_timestamp() - interval '1 day'"

Lender = Callable[[], AbstractContextManager[PostgresConnection]]


class ServerOwners:
    """The owners of this process, and whether others are alive; *lend* gives a connection."""

    def __init__(self, lend: Lender) -> None:
        self._lend = lend
        self._mine: set[str] = set()
        self._stopped = Flag()
        self._mutex = threading.Lock()
        self._thread: threading.Thread | None = None

    def enlist(self, owner: str) -> None:
        """Make *owner* count as alive until it is dismissed, or this process is heard of no more.

        The row is there before the lease is: it is committed by itself.
        """
        if owner not in self._mine:
            with self._lend() as db:
                self.enlist_by(db, owner)

    def enlist_by(self, db: PostgresConnection, owner: str) -> None:
        """Do what `enlist` does, by a connection without a transaction."""
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
        """Return whether *owner* is one of this process."""
        return owner in self._mine

    def take(self, owner: str) -> bool:
        """Make *owner* count as alive, as `enlist` does, unless it does so for another process."""
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
        """Return the same owners for the transaction of *db*, which may be the last connection."""
        return OwnersWithin(self, db)

    def dismiss(self, owner: str) -> None:
        """Make *owner* count as dead."""
        with self._mutex:
            self._mine.discard(owner)
        with self._lend() as db:
            db.execute("DELETE FROM owner WHERE name = ?", (owner,))

    def close(self) -> None:
        """Dismiss everyone enlisted here."""
        self._stopped.set()
        for owner in list(self._mine):
            with suppress(AlveusError, psycopg.Error):  # then it counts as dead soon anyway
                self.dismiss(owner)

    def _beat(self) -> None:
        with self._mutex:
            mine = sorted(self._mine)
        if mine:
            with suppress(AlveusError, psycopg.Error), self._lend() as db:  # the next beat may come
                db.execute(_BEAT, (db.texts(mine),))


class OwnersWithin(NamedTuple):
    """The owners of a process, asked for by the connection of a transaction.

    It holds the lock of all others: were it to wait for another connection, those who have them
    may wait for it.
    """

    owners: ServerOwners
    db: Connection

    def enlist(self, owner: str) -> None:
        """See `ServerOwners.enlist`: committed by itself, and only once for each owner."""
        self.owners.enlist(owner)

    def is_alive(self, owner: str) -> bool:
        """Return whether *owner* counts as alive."""
        return bool(first(self.db, _ALIVE, owner))


def _beating(beat: weakref.WeakMethod[Callable[[], None]], stopped: Flag) -> None:
    """Beat until told to stop, or until nobody has the owners any more."""
    while not stopped.wait(LEASE_S / BEATS):
        method = beat()
        if method is None:
            return
        method()
        del method
