"""How rows are numbered, and which row is a scope's."""

from __future__ import annotations

import apsw

from fornix.erasures import NO_SPACE, hidden_scope
from fornix.store import Scope

ROW_BITS = 20
"""Rows begun by commit n are n << 20 and up: at most 1,048,576 items and nodes a commit."""


def scope_id(connection: apsw.Connection, scope: Scope) -> int | None:
    """Return the row of *scope*, or None while nothing was committed to it."""
    return connection.execute(
        "SELECT id FROM scope WHERE space = ? AND key = ?", (scope.space, scope.key or "")
    ).get


def salt_of(connection: apsw.Connection) -> bytes:
    """Return the salt of the store."""
    return bytes.fromhex(connection.execute("SELECT text FROM note WHERE name = 'salt'").get or "")


def hidden_id(connection: apsw.Connection, scope: Scope) -> int | None:
    """Return the row of a key that was forgotten, and not used since; None: it was not."""
    any_hidden = "SELECT 1 FROM scope WHERE space = ? LIMIT 1"
    if scope.key is None or connection.execute(any_hidden, (NO_SPACE,)).get is None:
        return None
    return scope_id(connection, hidden_scope(scope, salt_of(connection)))


def found_again(connection: apsw.Connection, scope: Scope) -> int | None:
    """Give a forgotten key that is used again its name back; return its row, or None."""
    number = hidden_id(connection, scope)
    if number is not None:
        rename(connection, hidden_scope(scope, salt_of(connection)), scope)
    return number


def rename(connection: apsw.Connection, scope: Scope, to: Scope) -> None:
    """Give a key, and its lease, another name."""
    names = (to.space, to.key, scope.space, scope.key)
    connection.execute("UPDATE scope SET space = ?, key = ? WHERE space = ? AND key = ?", names)
    connection.execute("UPDATE lease SET space = ?, key = ? WHERE space = ? AND key = ?", names)


def head_of(connection: apsw.Connection, scope: Scope) -> int:
    """Return the last commit that changed the tree of *scope*, also of a forgotten key."""
    names = (scope.space, scope.key or "")
    head = connection.execute("SELECT head FROM scope WHERE space = ? AND key = ?", names).get
    if head is not None:
        return head
    hidden = hidden_id(connection, scope)
    return connection.execute("SELECT head FROM scope WHERE id = ?", (hidden,)).get or 0
