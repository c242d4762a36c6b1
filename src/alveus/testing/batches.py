"""Batches for tests, with a default for everything that a test does not set."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Barrier
from typing import Literal, TypeAlias, TypedDict, TypeVar, Unpack

import pytest

from alveus.store import (
    Add,
    Batch,
    Commit,
    Compact,
    Compaction,
    Define,
    ItemChange,
    ItemRecord,
    Lease,
    Limits,
    Link,
    Progress,
    Scope,
    SetRef,
    Store,
    TreeDelta,
)
from alveus.testing.reads import differences, reads
from alveus.values.storable import Value

NOW = 1_800_000_000_000_000
"""The time of a test, in microseconds since 1970: a day in 2027."""

SECOND = 1_000_000
DAY = 86_400 * SECOND

ADA = Scope("app", "ada")
BOB = Scope("app", "bob")
HANDBOOK = Scope("handbook", None)
"""A scope of knowledge."""

NOTES = SetRef(ADA, "notes")
OTHERS = SetRef(ADA, "others")
BOOK = SetRef(HANDBOOK, "book")

HOW = '{"strategy": "merge"}'
"""The description of a test's compaction."""

VALUES: tuple[Value, ...] = (
    None, True, 1, 1.0, -0.0, float("nan"), 10**40, "text", "naïve 🦊 \0 \\ $", b"\0\xff", [], {},
    {"a": [b"\xff\1" * 40], "$bytes": b"z" * 30, "b": '{"$bytes":"'},
    {"$bytes": [1, {"b": None, "a": b""}], "": float("inf")},
)  # fmt: skip
"""Values of every kind, and values that are easily confused with others."""

T = TypeVar("T")
Opener: TypeAlias = Callable[[Path], Store]
E = TypeVar("E", bound=Exception)

AnyChange: TypeAlias = TreeDelta | Define | ItemChange | Progress


def record(item_id: str, text: str | None = None) -> ItemRecord:
    """Return the contents of an item whose value is its text. The default text names the id."""
    return ItemRecord(item_id, value=None, text=f"text of {item_id}" if text is None else text)


def add(
    item_id: str, text: str | None = None, *, to: SetRef = NOTES, time: int | None = None
) -> Add:
    """Return a change that adds `record(item_id, text)`."""
    made = record(item_id, text)
    return Add(to, ItemRecord(made.id, made.value, made.text, time=time))


def upsert(item_id: str, text: str, existing: Literal["keep", "update"] = "update") -> Add:
    """Return a change that adds `record(item_id, text)`, or updates or keeps an existing item."""
    return Add(NOTES, record(item_id, text), existing=existing)


def derived(item_id: str, *sources: str, to: SetRef = NOTES) -> Add:
    """Return a change that adds an item derived from other items of its set."""
    made = replace(record(item_id), sources=sources, compacted=True)
    return Add(to, made, links=[Link(to, source) for source in sources])


def compact(
    *retired: tuple[str, int], added: Sequence[Add] | None = None, of: SetRef = NOTES
) -> Compact:
    """Return a compaction of items into one item, whose id joins the ids of the retired items."""
    names = [item_id for item_id, _ in retired]
    made = [derived("+".join(names), *names, to=of)] if added is None else added
    return Compact(of, retired, made, HOW)


def into(name: str, source: str, *, of: SetRef = NOTES) -> Compact:
    """Return a compaction of the first version of one item into another."""
    return compact((source, 1), added=[derived(name, source, to=of)], of=of)


class BatchFields(TypedDict, total=False):
    """The fields of `Batch` that are not changes."""

    corroborated: int | None
    base: int | None
    epoch: int | None
    op: bytes | None
    request: bytes | None
    label: str
    limits: Limits | None
    result: Value
    release: bool
    fences: Sequence[Lease]
    expects: Sequence[tuple[str, str]]
    after: int
    history_start: tuple[int, int]


def batch(
    *changes: AnyChange,
    scope: Scope | None = None,
    time: int = NOW,
    under: Lease | None = None,
    **fields: Unpack[BatchFields],
) -> Batch:
    """Return a batch of *changes* in any mixture. Each kind keeps its order.

    Args:
        scope: None means the scope of the lease, or `ADA`.
        under: The lease whose epoch the batch names.
    """
    if under is not None:
        fields["epoch"] = under.epoch
    progress = [change for change in changes if isinstance(change, Progress)]
    return Batch(
        scope=scope or (under.scope if under else ADA),
        time=time,
        state=tuple(change for change in changes if isinstance(change, TreeDelta)),
        define=tuple(change for change in changes if isinstance(change, Define)),
        items=tuple(change for change in changes if isinstance(change, ItemChange)),
        run=progress[0] if progress else None,
        **fields,
    )


def write(
    store: Store,
    *changes: AnyChange,
    scope: Scope = ADA,
    time: int = NOW,
    limits: Limits | None = None,
) -> Commit:
    """Commit *changes* on the latest state."""
    base = store.head(scope)
    return store.commit(batch(*changes, scope=scope, time=time, base=base, limits=limits))


def last(store: Store, ref: SetRef = NOTES) -> Compaction:
    """Return the latest compaction of a set."""
    return store.compactions(ref)[0]


def refused(
    store: Store,
    error: type[E],
    *work: Batch | AnyChange,
    scope: Scope = ADA,
    time: int = NOW,
    limits: Limits | None = None,
) -> E:
    """Return the error with which a store refuses a batch, or changes committed by `write`.

    Also checks that every read is the same afterwards.
    """
    if isinstance(work[0], Batch):
        given = work[0]
    else:
        changes = [change for change in work if not isinstance(change, Batch)]
        given = batch(*changes, scope=scope, time=time, base=store.head(scope), limits=limits)
    before, seq = reads(store, now=NOW), store.seq()
    with pytest.raises(error) as caught:
        store.commit(given)
    assert not differences(before, reads(store, now=NOW))
    assert store.seq() == seq
    return caught.value


LONG_S = 120.0
"""The longest time that threads wait for each other: a guard against hanging."""


def at_once(count: int, work: Callable[[int], T]) -> list[T]:
    """Return the results of *count* threads that all start *work* at the same time."""
    barrier = Barrier(count)

    def run(i: int) -> T:
        barrier.wait(LONG_S)
        return work(i)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))


def present(value: T | None) -> T:
    """Return *value*. Fail if it is None."""
    assert value is not None
    return value


START = datetime(2026, 1, 1, tzinfo=UTC)


class Clock:
    """A `SteadyClock` that a test moves. It starts at *start*, and each call is *step* later.

    Attributes:
        now: The time of the last call, or the time that the clock was moved to since.
    """

    def __init__(
        self, start: datetime = START, *, step: timedelta = timedelta(milliseconds=1)
    ) -> None:
        self.now, self._step = start, step
        self._elapsed = timedelta(0)

    def __call__(self) -> datetime:
        """Move the clock by one step, and return the time."""
        self.now += self._step
        self._elapsed += self._step
        return self.now

    def elapsed(self) -> timedelta:
        """Return the elapsed time, independent of moves of the clock."""
        return self._elapsed

    def elapse(self, **by: float) -> None:
        """Let time pass: ``clock.elapse(days=91)``."""
        self.now += timedelta(**by)
        self._elapsed += timedelta(**by)

    def move(self, **by: float) -> None:
        """Set the clock forward or back while no time passes: ``clock.move(hours=1)``."""
        self.now += timedelta(**by)


class Laws:
    """A group of tests. A backend's test class defines how its stores are opened."""

    def open(self, path: Path) -> Store:
        """Open the store at *path*, a file name in an empty folder."""
        raise NotImplementedError

    def location(self, path: Path) -> str:
        """Return the location that a store opened at *path* reports."""
        return str(path)

    def kill_owner(self, store: Store, owner: str) -> None:
        """Make *owner* count as dead from now on. The owner may hold leases."""
        raise NotImplementedError

    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        """The path of a test's store."""
        return tmp_path / "memory.db"

    @pytest.fixture
    def opened(self) -> Iterator[Opener]:
        """A function that opens stores. They are closed at the end of the test."""
        with ExitStack() as stack:
            yield lambda path: stack.enter_context(closing(self.open(path)))

    @pytest.fixture
    def store(self, opened: Opener, path: Path) -> Store:
        """A new store."""
        return opened(path)
