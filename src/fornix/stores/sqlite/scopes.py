"""How rows are numbered, and which row is a scope's."""

from __future__ import annotations

import apsw

from fornix.store import Scope

ROW_BITS = 20
"""Rows begun by commit n are n << 20 and up: at most 1,048,576 items and nodes a commit."""


def scope_id(connection: apsw.Connection, scope: Scope) -> int | None:
    """Return the row of *scope*, or None while nothing was committed to it."""
    return connection.execute(
        "SELECT id FROM scope WHERE space = ? AND key = ?", (scope.space, scope.key or "")
    ).get
