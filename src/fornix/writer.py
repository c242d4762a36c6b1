"""Where the changes of a memory go: the promise a set and a tree write to, and its plain keeper.

`CommitWriter` makes each call a commit of its own. A batch (`fornix.batch`) and, inside an action,
a run gather calls instead and commit them together.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from hashlib import blake2b
from itertools import count
from typing import Protocol, TypeAlias

from fornix import wire
from fornix.compaction import Compacted, Compactions, Given, kept
from fornix.definition import Plan
from fornix.embedding import EmbeddingWorker
from fornix.errors import DuplicateItem, StaleItem
from fornix.items import Hits, Item
from fornix.memory_events import Listeners
from fornix.moments import AsOf, Moment, check_set, expired, moment_of
from fornix.recall import Recall, SearchOptions
from fornix.records import Recorder
from fornix.store import (
    Batch,
    Commit,
    Compaction,
    Define,
    ItemChange,
    Limits,
    Record,
    Scope,
    SetInfo,
    SetRef,
    Store,
    StoredItem,
    records_of,
)
from fornix.values import Value, checked_name, moment

Where: TypeAlias = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Change:
    """What one call changes, and what it answers.

    Attributes:
        retry: Built on what was read: when that has moved on, building it again is right.
    """

    items: Sequence[ItemChange]
    result: Value
    define: Sequence[Define] = ()
    retry: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    """A call as the user made it: how a repetition under one idempotency key is recognised."""

    name: str
    arguments: Callable[[], Value]
    idempotency_key: str | None = None


class Writer(Protocol):
    """Where a set's changes go: a commit of their own, or a batch; reads see what it wrote."""

    def write(self, call: Call, build: Callable[[Callable[[], str]], Change]) -> Value:
        """Build a change (given a maker of ids), keep it, and return its result."""
        ...

    def records(self, items: Sequence[tuple[str, Item]]) -> list[Record]:
        """Return what a store keeps of items."""
        ...

    def get(self, ref: SetRef, ids: Sequence[str], *, at: Moment | None) -> list[StoredItem | None]:
        """Return live versions that have not expired, in the order asked."""
        ...

    def page(
        self,
        ref: SetRef,
        *,
        after: tuple[int, int] | None,
        limit: int,
        newest_first: bool,
        at: Moment | None,
    ) -> list[StoredItem]:
        """Return up to *limit* items that have not expired, by (time, first)."""
        ...

    def versions(self, ref: SetRef, item_id: str) -> list[tuple[StoredItem, datetime | None]]:
        """Return every version of an id, and when each was retired, or expired."""
        ...

    def info(self, ref: SetRef) -> SetInfo | None:
        """Return the set as it is now; its items are those that have not expired."""
        ...

    def sets(self, scope: Scope) -> list[str]:
        """Return the names of the sets of *scope*, sorted."""
        ...

    def moment_of(self, as_of: AsOf) -> Moment:
        """Return the moment that *as_of* means."""
        ...

    def now(self) -> int:
        """Return the time by which it is judged what has expired and what holds."""
        ...

    def search(self, sets: Sequence[SetRef] | Scope, query: str, options: SearchOptions) -> Hits:
        """Search sets together: those named, or all of a scope."""
        ...

    def touch(self, items: Sequence[StoredItem]) -> None:
        """Note that items were read."""
        ...

    def kept(self, compaction: Given) -> str | Plan:
        """Return how a set keeps what it is compacted by."""
        ...

    def compact(self, ref: SetRef, compaction: Given | None) -> Compacted | None:
        """Do one step of a set's compaction; None: there is nothing to do."""
        ...

    def compactions(self, ref: SetRef, *, before: int | None, limit: int) -> list[Compaction]:
        """Return compactions of a set, the latest first."""
        ...

    def compaction(self, number: int) -> Compaction | None:
        """Return a compaction, or None."""
        ...

    def sources(self, rows: Sequence[int]) -> list[tuple[int, int]]:
        """Return what versions were derived from: (row, source's row)."""
        ...

    def rows(self, rows: Sequence[int]) -> list[tuple[StoredItem, datetime | None]]:
        """Return versions that are kept, and when each was retired."""
        ...


# --- ids --------------------------------------------------------------------------------------


def new_id() -> str:
    """Return a UUID of version 7: unique, and rising with time (RFC 9562, method 3)."""
    ns = time.time_ns()
    ms, fraction = divmod(ns, 1_000_000)
    random = int.from_bytes(os.urandom(8)) & ((1 << 62) - 1)
    sub_ms = (fraction << 12) // 1_000_000
    return _uuid((ms & ((1 << 48) - 1)) << 80 | 7 << 76 | sub_ms << 64 | 2 << 62 | random)


def derived_ids(op: bytes) -> Callable[[], str]:
    """Return a maker of ids that follow from the name of an op: the same for a repetition."""
    numbers = count()

    def make() -> str:
        digest = blake2b(op + next(numbers).to_bytes(8), digest_size=16).digest()
        bits = int.from_bytes(digest) & ~(0xF << 76) & ~(3 << 62)
        return _uuid(bits | 8 << 76 | 2 << 62)

    return make


def _uuid(bits: int) -> str:
    text = f"{bits:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


# --- the engine -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Engine:
    """What an open memory works with; made once by `Memory.open`, shared by all its handles.

    Attributes:
        expects: Notes that say which embedder this memory's space and knowledge remember.
        wait_s: How long a call tries again while others change what it is based on.
        lanes: A lock per key: its outside writes to the exact tree go one after the other.
        listeners: Who is told of memory events.
        owners: Names under which runners held leases that are closed by now; the next one takes
            such a name, since the store keeps a file open for each.
    """

    store: Store
    recorder: Recorder
    recall: Recall
    worker: EmbeddingWorker
    compactions: Compactions
    clock: Callable[[], int]
    limits: Limits | None
    wait_s: float
    expects: tuple[tuple[str, str], ...] = ()
    lanes: dict[Scope, threading.RLock] = field(default_factory=dict[Scope, threading.RLock])
    listeners: Listeners = field(default_factory=Listeners)
    owners: deque[str] = field(default_factory=deque[str])

    def op(self, scope: Scope, idempotency_key: str) -> bytes:
        """Return the name of the op that a caller's idempotency key stands for."""
        checked_name(idempotency_key, "an idempotency key")
        return wire.digest(
            ["idempotency key", scope.space, scope.key, idempotency_key], salt=self.store.salt()
        )

    def request(self, plain: Value) -> bytes:
        """Return the digest that tells a request from others."""
        return wire.digest(plain, salt=self.store.salt())

    def lane(self, scope: Scope) -> threading.RLock:
        """Return the lock of a key."""
        return self.lanes.setdefault(scope, threading.RLock())

    def written(self, items: Sequence[ItemChange], commit: Commit) -> None:
        """Have what waits for its vectors embedded, and what is full compacted, after a commit."""
        if any(record.vectors is None for item in items for record in records_of(item)):
            self.worker.notify()
        self.compactions.committed(items, commit)


class Reads:
    """The reads of a writer that has nothing of its own: straight from the store."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def now(self) -> int:
        """See `Writer.now`."""
        return self._engine.clock()

    def _is_gone(self, stored: StoredItem, at: Moment | None) -> bool:
        """Whether an item has expired; the clock is asked only where one can."""
        if stored.record.expires is None:
            return False
        return expired(stored.record, self.now() if at is None else at.time)

    def records(self, items: Sequence[tuple[str, Item]]) -> list[Record]:
        """See `Writer.records`."""
        return self._engine.recorder.records(items, now=self._engine.clock())

    def get(self, ref: SetRef, ids: Sequence[str], *, at: Moment | None) -> list[StoredItem | None]:
        """See `Writer.get`."""
        store = self._engine.store
        if at is not None:
            check_set(store, ref, at)
        found = store.get(ref, ids, at=None if at is None else at.commit)
        return [None if s is None or self._is_gone(s, at) else s for s in found]

    def page(
        self,
        ref: SetRef,
        *,
        after: tuple[int, int] | None,
        limit: int,
        newest_first: bool,
        at: Moment | None,
    ) -> list[StoredItem]:
        """See `Writer.page`."""
        store, commit = self._engine.store, None if at is None else at.commit
        if at is not None:
            check_set(store, ref, at)
        kept: list[StoredItem] = []
        while True:
            wanted = limit - len(kept)
            some = store.page(ref, after=after, limit=wanted, newest_first=newest_first, at=commit)
            kept += [stored for stored in some if not self._is_gone(stored, at)]
            if len(kept) >= limit or len(some) < wanted:
                return kept
            time = some[-1].record.time
            after = some[-1].updated if time is None else time, some[-1].first

    def versions(self, ref: SetRef, item_id: str) -> list[tuple[StoredItem, datetime | None]]:
        """See `Writer.versions`."""
        return self._retired(self._engine.store.versions(ref, item_id))

    def _retired(self, found: Sequence[StoredItem]) -> list[tuple[StoredItem, datetime | None]]:
        store = self._engine.store
        commits = {s.ended for s in found if s.ended is not None}
        times = {commit: store.time_of(commit) for commit in commits}
        ends: list[tuple[StoredItem, datetime | None]] = []
        for stored in found:
            end = None if stored.ended is None else times[stored.ended]
            if end is None and self._is_gone(stored, None):
                end = stored.record.expires
            ends.append((stored, None if end is None else moment(end)))
        return ends

    def kept(self, compaction: Given) -> str | Plan:
        """See `Writer.kept`."""
        return kept(compaction, self._engine.compactions.known)

    def compact(self, ref: SetRef, compaction: Given | None) -> Compacted | None:
        """See `Writer.compact`."""
        return self._engine.compactions.step(ref, by="call", given=compaction)

    def compactions(self, ref: SetRef, *, before: int | None, limit: int) -> list[Compaction]:
        """See `Writer.compactions`."""
        return self._engine.store.compactions(ref, before=before, limit=limit)

    def compaction(self, number: int) -> Compaction | None:
        """See `Writer.compaction`."""
        return self._engine.store.compaction(number)

    def sources(self, rows: Sequence[int]) -> list[tuple[int, int]]:
        """See `Writer.sources`."""
        return self._engine.store.links(rows)

    def rows(self, rows: Sequence[int]) -> list[tuple[StoredItem, datetime | None]]:
        """See `Writer.rows`."""
        return self._retired(self._engine.store.stored(rows))

    def info(self, ref: SetRef) -> SetInfo | None:
        """See `Writer.info`."""
        info = self._engine.store.set_info(ref)
        if info is None or info.expiring is None or info.expiring > (now := self.now()):
            return info
        gone = self._engine.store.out_of_time(info.number, now=now, valid_at=None)
        return replace(info, items=info.items - len(gone))

    def sets(self, scope: Scope) -> list[str]:
        """See `Writer.sets`."""
        return [info.ref.name for info in self._engine.store.set_infos(scope)]

    def moment_of(self, as_of: AsOf) -> Moment:
        """See `Writer.moment_of`."""
        return moment_of(self._engine.store, as_of, now=self.now())

    def search(self, sets: Sequence[SetRef] | Scope, query: str, options: SearchOptions) -> Hits:
        """See `Writer.search`."""
        return self._engine.recall.search(sets, query, options, now=self.now())

    def touch(self, items: Sequence[StoredItem]) -> None:
        """See `Writer.touch`."""
        self._engine.recall.touch([s.first for s in items])


class CommitWriter(Reads):
    """Makes each call a commit of its own: atomic, durable when it returns."""

    def __init__(self, engine: Engine, scope: Scope) -> None:
        super().__init__(engine)
        self._scope = scope

    def write(self, call: Call, build: Callable[[Callable[[], str]], Change]) -> Value:
        """See `Writer.write`."""
        engine, op, request = self._engine, None, None
        if call.idempotency_key is not None:
            op = engine.op(self._scope, call.idempotency_key)
            request = engine.request([call.name, call.arguments()])
            earlier = engine.store.adopted(op, request=request, label=call.idempotency_key)
            if earlier is not None:
                return earlier.result
        deadline = time.monotonic() + engine.wait_s
        while True:
            change = build(new_id if op is None else derived_ids(op))
            if not (change.items or change.define or op):
                return change.result
            batch = Batch(
                scope=self._scope,
                time=engine.clock(),
                op=op,
                request=request,
                label=call.idempotency_key or "",
                expects=engine.expects if change.items else (),
                define=change.define,
                items=change.items,
                limits=engine.limits,
                result=change.result if op is not None else None,
            )
            try:
                commit = self._commit(batch, deadline)
            except (StaleItem, DuplicateItem):
                if not change.retry or time.monotonic() > deadline:
                    raise
                continue
            return commit.result if commit.adopted else change.result

    def _commit(self, batch: Batch, deadline: float) -> Commit:
        """Commit one call; a writer that can make room in a full set does so first."""
        _ = deadline
        commit = self._engine.store.commit(batch)
        self._engine.written(batch.items, commit)
        return commit
