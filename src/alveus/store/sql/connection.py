"""The interface of a connection to an SQL engine, and the look-up of migration scripts.

A store's `schema.sql` makes the newest schema at once. A change of the schema raises the store's
number `SCHEMA` by one and adds a script `migrations/NNNN_name.sql` beside `schema.sql`. The script
migrates a store from the schema before to schema NNNN. All stores have schema 1, so no script
exists yet.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeAlias

Row: TypeAlias = tuple[Any, ...]
"""A row as the engine returns it; the query defines the columns."""

Query: TypeAlias = tuple[str, Sequence[object]]
"""A statement that returns rows, and its bindings."""


Write: TypeAlias = tuple[str, Sequence[Row]]
"""A statement that returns no rows, and the bindings of each execution."""


class ResultRows(Protocol):
    """The rows that a statement returns."""

    @property
    def get(self) -> Any:  # noqa: ANN401 - as the query says
        """The first row, or only its value if the row has one column; None if there is no row.

        Use it only for a query that returns one row at most: `apsw` returns a list of several rows.
        """
        ...

    def fetchall(self) -> list[Row]:
        """Return all rows."""
        ...

    def __iter__(self) -> Iterator[Row]:
        """Yield the rows."""
        ...


class Connection(Protocol):
    """A connection; `apsw.Connection` has the same methods."""

    @property
    def taken(self) -> type[Exception]:
        """The error that the engine raises if a unique name or number exists already."""
        ...

    def execute(self, statement: str, bindings: Any = ..., /) -> ResultRows:  # noqa: ANN401 - a tuple
        """Run one statement."""
        ...

    def write(self, *writes: Write) -> None:
        """Run each statement once for each of its bindings, one statement after the other."""
        ...

    def changes(self) -> int:
        """Return how many rows the last statement inserted, changed or deleted."""
        ...

    def numbers(self, values: Sequence[int], /) -> object:
        """Return whole numbers as a binding for ``carray(?)``."""
        ...

    def texts(self, values: Sequence[str], /) -> object:
        """Return texts, at least one, as a binding for ``carray(?)``."""
        ...

    def json_of(self, rows: Sequence[int], /) -> str:
        """Return row numbers as a JSON array."""
        ...

    def query_all(self, *queries: Query) -> list[list[Row]]:
        """Return all rows of each query; a remote engine runs all in one round trip."""
        ...

    def settle(self) -> None:
        """Complete all statements: an engine may delay them until rows are needed."""
        ...

    def roll_back(self, statement: str, /) -> None:
        """Run a statement that rolls back changes."""
        ...

    def recover(self) -> None:
        """Make the connection readable again after a statement failed."""
        ...


class OwnerRegistry(Protocol):
    """Records which owners of leases are alive."""

    def enlist(self, owner: str, /) -> None:
        """Make *owner* count as alive until *owner* is dismissed or this process ends."""
        ...

    def is_alive(self, owner: str, /) -> bool:
        """Return whether *owner* counts as alive."""
        ...


def query(db: Connection, sql: str, *bindings: object) -> list[Row]:
    """Return all rows of a query."""
    return db.execute(sql, bindings).fetchall()


def first(db: Connection, sql: str, *bindings: object) -> Any:  # noqa: ANN401 - as the query says
    """Return the only row of a query, or only its value if the row has one column.

    Return None if there is no row.
    """
    return db.execute(sql, bindings).get


def migrations(folder: Path, *, after: int) -> dict[int, str]:
    """Return the migration scripts in *folder* with numbers above *after*, by number, in order."""
    numbered = {int(file.name.split("_", 1)[0]): file for file in sorted(folder.glob("*.sql"))}
    return {n: file.read_text(encoding="utf-8") for n, file in numbered.items() if n > after}
