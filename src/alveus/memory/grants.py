"""Who may use which space of a memory on a server: for the owner of its tables."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from alveus.errors import InvalidInput
from alveus.memory.opening import server_store
from alveus.values.urls import is_server

if TYPE_CHECKING:
    from alveus.store.postgres import PostgresStore
    from alveus.store.postgres.schema import RoleGrants


def grant(url: str, role: str, *, space: str, knowledge: str | None = None) -> RoleGrants:
    """Let *role* use a space, with the knowledge of that name; return all that it may use by now.

    Twice is fine.

    Args:
        knowledge: This knowledge alone, instead of the space.

    Raises:
        AccessDenied: The user of the URL does not own the tables.
        InvalidInput: It is no server, or the server has no such role.
    """
    with _opened(url) as store:
        return store.grant(role, space=space, knowledge=knowledge)


def revoke(url: str, role: str, *, space: str, knowledge: str | None = None) -> RoleGrants:
    """Take back what `grant` gave; raises as it does."""
    with _opened(url) as store:
        return store.revoke(role, space=space, knowledge=knowledge)


def grants(url: str) -> list[RoleGrants]:
    """Return what every role was granted; raises as `grant` does."""
    with _opened(url) as store:
        return store.grants()


@contextmanager
def _opened(url: str) -> Generator[PostgresStore]:
    if not is_server(url):
        raise InvalidInput(
            "only a server has users; who may use a file is up to its permissions: chmod 600 FILE"
        )
    store = server_store(url)
    try:
        yield store
    finally:
        store.close()
