"""The base class of a `RamStore`: its lock, its tables, and the state of its handle."""

from __future__ import annotations

import os
import secrets
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import wraps
from threading import RLock
from typing import Concatenate, ParamSpec, TypeVar

from alveus.errors import ForkedStore, StoreClosed
from alveus.store import ChangeKind, FeatureChange, Scope, StoredItem, StoredReceipt
from alveus.store.checks import check_note
from alveus.store.ledger import UNOBSERVED, Observer
from alveus.store.ram.items import SetTable
from alveus.store.ram.rows import ItemRow, Journal
from alveus.store.ram.runs import RunTable
from alveus.store.ram.tree import TreeRows
from alveus.values.forks import ProcessBound

T = TypeVar("T", bound="RamTables")
P = ParamSpec("P")
R = TypeVar("R")


def locked(method: Callable[Concatenate[T, P], R]) -> Callable[Concatenate[T, P], R]:
    """Make *method* hold the store's lock, and raise the errors of `RamTables.ready`."""

    @wraps(method)
    def call(self: T, *args: P.args, **kwargs: P.kwargs) -> R:
        with self.ready():
            return method(self, *args, **kwargs)

    return call


class RamTables(ProcessBound):
    """The tables of a store, and the changes that several parts of the store make to them.

    Args:
        alive: Returns whether the owner of a lease is alive. By default, every owner is.
        log_lines: How many lines of the change log are kept.
        salt: The key of all digests, or None for a random key.
    """

    observer: Observer = UNOBSERVED

    def __init__(
        self,
        *,
        alive: Callable[[str], bool] = bool,
        log_lines: int = 100_000,
        salt: bytes | None = None,
    ) -> None:
        self._alive = alive
        self._lock = RLock()
        self._process = os.getpid()
        self._closed = False
        self._salt = secrets.token_bytes(16) if salt is None else salt
        self._keys: dict[str, list[str]] = {}
        self._named: set[Scope] = set()
        self._hidden: dict[Scope, Scope] = {}
        self._leases: dict[Scope, tuple[str | None, int]] = {}
        self._runs = RunTable()
        self._journal = Journal()
        self._ops: dict[bytes, int] = {}
        self._trees: dict[Scope, TreeRows] = {}
        self._sets = SetTable()
        self._rows: dict[int, ItemRow] = {}
        self._accessed = self._sets.access_times
        self._pending: dict[int, ItemRow] = {}  # versions that wait for their vectors
        self._staged: dict[int, bytes] = {}
        self._log: deque[FeatureChange] = deque(maxlen=log_lines)
        self._seq = 0
        self._notes: dict[str, str] = {}
        self._receipts: dict[str, StoredReceipt] = {}

    def ready(self) -> RLock:
        """Return the lock of the store.

        Raises:
            ForkedStore: The store was made before this process was forked.
            StoreClosed: The store was closed.
        """
        if os.getpid() != self._process:
            raise ForkedStore("this RamStore was made before a fork; make another one in the child")
        if self._closed:
            raise StoreClosed("this RamStore was closed and its data is lost; make another one")
        return self._lock

    def _name(self, scope: Scope) -> None:
        """Add a scope to the keys that `keys` lists, unless it is knowledge."""
        key = scope.key
        if key is None or scope in self._named:
            return
        self._hidden.pop(scope, None)
        self._named.add(scope)
        keys = self._keys.setdefault(scope.space, [])
        index = bisect_left(keys, key)
        if index == len(keys) or keys[index] != key:
            keys.insert(index, key)

    def _holder(self, scope: Scope) -> tuple[str | None, int]:
        """Return the owner of the lease of *scope* (None if it has none), and its epoch."""
        return self._leases.get(scope, (None, 0))

    def _check_notes(self, expects: Sequence[tuple[str, str]]) -> None:
        for name, text in expects:
            check_note(name, expected=text, actual=self._notes.get(name))

    def _line(self, row: ItemRow, kind: ChangeKind) -> None:
        self._seq += 1
        self._log.append(FeatureChange(self._seq, row.set_rows.number, row.row, kind))

    def _add_rows(self, rows: Sequence[ItemRow]) -> None:
        """Add the versions that a commit began to the store's tables and to the change log."""
        for row in rows:
            self._rows[row.row] = row
            if row.record.vectors is None:
                self._pending[row.row] = row
            self._line(row, "added")

    def _drop_row(self, row: ItemRow) -> None:
        """Remove a version from the store's tables, after it was removed from its set."""
        del self._rows[row.row]
        self._staged.pop(row.row, None)
        self._pending.pop(row.row, None)
        self._line(row, "removed")

    def _stored(self, row: ItemRow) -> StoredItem:
        """Return the stored item of a version, without the fields that only search reads."""
        return StoredItem(
            row=row.row,
            first=row.first,
            set=row.set_rows.ref,
            begin_commit=row.begin_commit,
            end_commit=row.end_commit,
            version=row.version,
            created=row.created,
            updated=row.updated,
            accessed=self._accessed.get(row.first),
            record=replace(row.record, time=row.time, terms=b"", tokens=0, temporal=0, vectors=b""),
        )
