"""What a connection to an engine does for the shared statements.

Scripts that bring a store from an earlier schema to the newest one.

A store's `schema.sql` makes the newest schema at once. A change of it raises the number `SCHEMA` of
the store by one and adds a script `migrations/NNNN_name.sql` beside `schema.sql`, which leads from
the schema before to number NNNN. Schema 1 is the first, so no store has a script yet.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeAlias

Row: TypeAlias = tuple[Any, ...]
"""A row as the engine gives it: the query beside its use says what each column is."""

Query: TypeAlias = tuple[str, Sequence[object]]
"""A statement that gives rows, and its bindings."""


Write: TypeAlias = tuple[str, Sequence[Row]]
"""A statement that gives no rows, and what is bound to it each time that it runs."""


class ResultRows(Protocol):
    """What a statement gives."""

    @property
    def get(self) -> Any:  # noqa: ANN401 - as the query says
        """The first row, or its only column; None: no row."""
        ...

    def fetchall(self) -> list[Row]:
        """Return all rows."""
        ...

    def __iter__(self) -> Iterator[Row]:
        """Yield the rows."""
        ...


class Connection(Protocol):
    """A connection, as `apsw.Connection` is one."""

    @property
    def taken(self) -> type[Exception]:
        """What is raised where a name or number has to be unique, and is there already."""
        ...

    def execute(self, statement: str, bindings: Any = ..., /) -> ResultRows:  # noqa: ANN401 - a tuple
        """Run one statement."""
        ...

    def write(self, *writes: Write) -> None:
        """Run statements, one after the other, each for all of its rows."""
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
        """Return numbers of rows as JSON."""
        ...

    def query_all(self, *queries: Query) -> list[list[Row]]:
        """Return all rows of each query; an engine that is far away is asked once for all."""
        ...

    def settle(self) -> None:
        """Have everything done that was asked for: an engine may wait until rows are needed."""
        ...

    def roll_back(self, statement: str, /) -> None:
        """Run a statement that undoes what was done."""
        ...

    def recover(self) -> None:
        """Be able to read again after a statement was refused."""
        ...


class OwnerRegistry(Protocol):
    """Which owners of leases are alive."""

    def enlist(self, owner: str, /) -> None:
        """Make *owner* count as alive until it is dismissed or this process ends."""
        ...

    def is_alive(self, owner: str, /) -> bool:
        """Return whether *owner* counts as alive."""
        ...


def query(db: Connection, sql: str, *bindings: object) -> list[Row]:
    """Return all rows of a query."""
    return db.execute(sql, bindings).fetchall()


def first(db: Connection, sql: str, *bindings: object) -> Any:  # noqa: ANN401 - as the query says
    """Return the first row of a query, or its only column; None: no row."""
    return db.execute(sql, bindings).get


def migrations(folder: Path, *, after: int) -> dict[int, str]:
    """Return the scripts in *folder* that lead past schema *after*, in order, by their numbers."""
    numbered = {int(file.name.split("_", 1)[0]): file for file in sorted(folder.glob("*.sql"))}
    return {n: file.read_text(encoding="utf-8") for n, file in numbered.items() if n > after}
