"""Exact trees in the store: now, in the past, under the lease of a key, and inside a batch."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from functools import partial
from typing import Any, NamedTuple, NoReturn, TypeVar, cast

from alveus.errors import Conflict, KeyBusy, StaleRun, StoreReadOnly, Unavailable
from alveus.state.cells import deep_copy
from alveus.state.overlay import Overlay
from alveus.state.paths import MemoryKind, ParsedPath, PathCache, Resolver
from alveus.state.tree_values import (
    MISSING,
    Expiry,
    NonValue,
    Snapshot,
    TreeLimits,
    Ttl,
    put_request,
    ttl_us,
)
from alveus.store import Batch, Clear, Create, Delete, Ledger, Node, Put, Refresh, Scope, TreeDelta
from alveus.store.running_keys import refuse_tree_in_run
from alveus.store.scope import NameRange
from alveus.store.times import FOREVER, AsOf, check_tree, moment_of
from alveus.values import wire
from alveus.values.forks import HandleLock, call_within, let_go
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import Path, Value, checked, checked_name

Result = TypeVar("Result")

RENEWAL_PARTS = 10
"""A read outside a run renews an expiry after 1/10 of the time to live."""


MAX_CACHED_NODES = 64
"""Nodes that a `LeasedTree` caches."""


MAX_PAUSE_S = 0.005
"""Longest pause between two tries while a run has the key."""


class Backoff:
    """The pauses and the deadline of a change that waits for other writers of its key."""

    def __init__(self, scope: Scope, wait_s: float) -> None:
        self._scope, self._wait_s = scope, wait_s
        self._deadline = time.monotonic() + wait_s
        self._pause = MAX_PAUSE_S / 10

    @property
    def expired(self) -> bool:
        """Whether the deadline has passed."""
        return time.monotonic() > self._deadline

    def wait(self, error: Conflict | KeyBusy) -> None:
        """Wait until the next try; raise `KeyBusy` after the deadline.

        A stale change is repeated at once: another writer has just finished.
        """
        remaining_s = self._deadline - time.monotonic()
        if remaining_s <= 0:
            raise key_busy(self._scope, self._wait_s) from None
        if isinstance(error, KeyBusy):
            time.sleep(min(self._pause, remaining_s))
            self._pause = min(self._pause * 2, MAX_PAUSE_S)


def key_busy(scope: Scope, wait_s: float) -> KeyBusy:
    """Return the error of a change that has waited for *wait_s*."""
    return KeyBusy(scope.key or scope.space, wait_s=wait_s)


@dataclass(frozen=True, slots=True, eq=False)
class CommittedTree:
    """The exact memory of a key as it is now. May be used from any thread.

    A read sees every commit before it. A change is atomic, and durable when the call returns. It
    waits for other writers of the key and for a run of it, and raises `KeyBusy` after `wait_s`. A
    call that changes nothing makes no commit.

    With ``Ttl(refresh="read")`` a read also renews the nodes that it read, after a tenth of the
    time to live. A read never waits for the renewal: if the key is busy, a later read renews.

    Attributes:
        clock: Returns the time, in microseconds.
        writer_lock: A reentrant lock per scope. The caller makes and keeps it.
        op: Digest of the idempotency key *label*. All changes through this handle count as one.
    """

    ledger: Ledger
    scope: Scope
    clock: Callable[[], int]
    writer_lock: HandleLock
    wait_s: float = 10.0
    ttl: Ttl | None = None
    limits: TreeLimits = field(default_factory=TreeLimits)
    paths: PathCache = field(default_factory=partial(PathCache, MemoryKind.SHORT_TERM))
    resolver: Resolver | None = None
    op: bytes | None = None
    label: str = ""

    @property
    def identity(self) -> object:
        """An identity: handles with equal identities are of the same memory."""
        return id(self.ledger), self.scope

    def tree_as_of(self, as_of: AsOf) -> PastTree:
        """Return the memory as of a moment. Raise `HistoryPruned` if that state is not kept."""
        moment = moment_of(self.ledger, as_of, now=self.clock(), what="at")
        check_tree(self.ledger, self.scope, moment)
        return PastTree(self.ledger, self.scope, moment.commit, moment.time, resolver=self.resolver)

    # --- reading ---

    def has(self, location: ParsedPath) -> bool:
        """Return whether a value or an object is at *location*."""
        return Snapshot(self.ledger, self.scope, None).node(location.path, self.clock()) is not None

    def read(self, location: ParsedPath) -> Value | NonValue:
        """Return the value at *location*, or a `NonValue` if nothing or an object is there."""
        if self.ttl is not None and self.ttl.refresh == "read":
            return self.query(lambda tree: tree.read(location))
        node = Snapshot(self.ledger, self.scope, None).node(location.path, self.clock())
        if node is None:
            return MISSING
        return NonValue.OBJECT if node.is_object else deep_copy(node.value)

    def chosen_names(self, location: ParsedPath, chosen: NameRange) -> list[str]:
        """Return the names of the fields in the range *chosen*, in the order of names.

        The kind of the node is read only if no name is found.
        """
        if self.ttl is None or self.ttl.refresh != "read":
            found = Snapshot(self.ledger, self.scope, None).names_in_range(
                location.path, chosen, self.clock()
            )
            if found:
                return found
        return self.query(lambda tree: tree.chosen_names(location, chosen))

    def query(self, operation: Callable[[Overlay], Result]) -> Result:
        """Return the result of *operation*, a read, on the state after the latest commit."""
        now, base = self.clock(), self.ledger.head(self.scope)
        tree = self._overlay(base, now)
        result = operation(tree)
        renewals = tree.deltas()
        if renewals:
            self._renew(renewals, now, base)
        return result

    # --- changing ---

    def put(self, location: ParsedPath, value: object, expiry: Expiry = None) -> None:
        """Put *value* at *location*."""
        self.change(
            lambda tree: tree.put(location, value, expiry), put_request(location, value, expiry)
        )

    def change(
        self, operation: Callable[[Overlay], Result], request: Sequence[object] = ()
    ) -> Result:
        """Apply *operation* to the latest state, as one commit, and return the operation's result.

        Args:
            request: The call and its arguments. With an idempotency key, a repetition of the same
                request changes nothing and returns the first result.

        Raises:
            KeyBusy: Other writers kept the key busy for longer than `wait_s`.
            InvalidInput: An action of the same key made the call.
            IdempotencyConflict: The idempotency key was used for another request.
            Unavailable: The store cannot be written now.
        """
        refuse_tree_in_run(self.ledger, self.scope)
        backoff = Backoff(self.scope, self.wait_s)
        request_digest = (
            self._digest([checked(part, nan=True) for part in request]) if self.op else None
        )

        def attempted(_locked: None) -> Result:
            while True:
                try:
                    return self._attempt(operation, request_digest)
                except (StaleRun, KeyBusy) as error:
                    backoff.wait(error)

        return call_within(self._locked(), attempted)

    def once(self, idempotency_key: str) -> CommittedTree:
        """Return the same memory, for one change under *idempotency_key*."""
        name = checked_name(idempotency_key, "an idempotency key")
        op = self._digest(["idempotency key", self.scope.space, self.scope.key, name])
        return replace(self, op=op, label=name)

    # --- inside ---

    def _attempt(
        self, operation: Callable[[Overlay], Result], request_digest: bytes | None
    ) -> Result:
        if self.op is not None:
            earlier = self.ledger.commit_of_op(self.op, request=request_digest, label=self.label)
            if earlier is not None:
                return cast("Result", earlier.result)
        now, base = self.clock(), self.ledger.head(self.scope)
        tree = self._overlay(base, now)
        result = operation(tree)
        batch = self._batch(now, base, tree.deltas())
        if self.op is None:
            if batch.state:
                self.ledger.commit(batch)
            return result
        answer = cast("Value", result)
        commit = self.ledger.commit(replace(batch, request=request_digest, result=answer))
        return cast("Result", commit.result) if commit.adopted else result

    def _batch(self, now: int, base: int, state: Sequence[TreeDelta]) -> Batch:
        return Batch(
            scope=self.scope, time=now, op=self.op, label=self.label, base=base, state=state
        )

    def _renew(self, deltas: Sequence[TreeDelta], now: int, base: int) -> None:
        if self.writer_lock.acquire(blocking=False):
            try:
                self.ledger.commit(replace(self._batch(now, base, deltas), op=None))
            except (StaleRun, Unavailable):
                pass  # promised: a failed renewal never fails a read
            finally:
                self.writer_lock.release()

    def _overlay(self, base: int, now: int) -> Overlay:
        tree = Overlay.over(
            Snapshot(self.ledger, self.scope, base),
            kind=self.paths.kind,
            now=now,
            limits=self.limits,
            ttl=self.ttl,
            paths=self.paths,
        )
        if self.ttl is not None:
            tree.min_renewal_us = max(1, ttl_us(self.ttl.after) // RENEWAL_PARTS)
        return tree

    @contextmanager
    def _locked(self) -> Generator[None]:
        locks = () if self.writer_lock.is_mine() else (self.writer_lock,)
        try:
            for lock in locks:
                if not lock.acquire(timeout=self.wait_s):
                    raise key_busy(self.scope, self.wait_s)
            yield
        finally:
            let_go(locks)

    def _digest(self, value: Value) -> bytes:
        return wire.digest(value, salt=self.ledger.salt())


@dataclass(frozen=True, slots=True, eq=False)
class PastTree:
    """The exact memory of a key after commit *at*, read-only. May be used from any thread.

    Attributes:
        now: The time in microseconds that decides what had expired.
    """

    ledger: Ledger
    scope: Scope
    at: int
    now: int
    paths: PathCache = field(default_factory=partial(PathCache, MemoryKind.SHORT_TERM))
    resolver: Resolver | None = None

    @property
    def identity(self) -> object:
        """An identity: handles with equal identities are of the same memory at the same commit."""
        return id(self.ledger), self.scope, self.at

    def has(self, location: ParsedPath) -> bool:
        """Return whether a value or an object was at *location*."""
        return self._tree().has(location)

    def read(self, location: ParsedPath) -> Value | NonValue:
        """Return the value that was at *location*, or a `NonValue` if no value was there."""
        return self._tree().read(location)

    def chosen_names(self, location: ParsedPath, chosen: NameRange) -> list[str]:
        """Return the names of the fields in the range *chosen*, in the order of names."""
        return self._tree().chosen_names(location, chosen)

    def query(self, operation: Callable[[Overlay], Result]) -> Result:
        """Return the result of *operation*, a read, on the past state."""
        return operation(self._tree())

    def put(self, location: ParsedPath, value: object, expiry: Expiry = None) -> None:
        """Raise `StoreReadOnly`."""
        self.change(None, put_request(location, value, expiry))

    def change(self, operation: object, request: Sequence[object] = ()) -> NoReturn:  # noqa: ARG002 - never done
        """Raise `StoreReadOnly`."""
        what = " ".join(str(part) for part in request[:1])
        raise StoreReadOnly(
            f"{what}: memory of key {self.scope.key!r} as of commit {self.at} cannot be "
            "changed; write to the present memory"
        )

    def tree_as_of(self, as_of: AsOf) -> PastTree:
        """Return the memory as of another moment."""
        latest = max(self.now, self.ledger.time_of_commit(FOREVER))
        moment = moment_of(self.ledger, as_of, now=latest, what="at")
        check_tree(self.ledger, self.scope, moment)
        return replace(self, at=moment.commit, now=moment.time)

    def once(self, idempotency_key: str) -> NoReturn:
        """Raise `StoreReadOnly`."""
        self.change(None, [f"once({idempotency_key!r})"])

    def _tree(self) -> Overlay:
        tree = Snapshot(self.ledger, self.scope, self.at)
        return Overlay.over(tree, kind=self.paths.kind, now=self.now, paths=self.paths)


class LeasedTree(Snapshot):
    """The tree of a key while its lease is held: no other writer changes it.

    A small value is read from the store once. One thread at a time may use the tree.

    Attributes:
        epoch: Epoch of the lease under which the cached nodes are valid.
    """

    __slots__ = ("_head", "_nodes", "epoch")

    def __init__(self, ledger: Ledger, scope: Scope, epoch: int) -> None:
        super().__init__(ledger, scope, None)
        self.epoch = epoch
        self._nodes: dict[Path, Node | None] = {}
        self._head: int | None = None

    def head(self) -> int:
        """Return the number of the last commit that changed the tree; 0 if none did."""
        if self._head is None:
            self._head = self.ledger.head(self.scope)
        return self._head

    def node(self, path: Path, now: int) -> Node | None:
        """Return the node at *path*; see `ExactTree`."""
        if path in self._nodes:
            return self._nodes[path]
        node = self.ledger.node(self.scope, path, at=None, now=now)
        if node is None or node.is_lasting:
            self._cache_node(path, node)
        return node

    def few_fields(self, path: Path) -> None:
        """Return None, because each node is cached when it is read."""

    def apply(self, deltas: Iterable[TreeDelta], number: int) -> None:
        """Apply the changes of commit *number* to the cached nodes."""
        self._head = number
        for delta in deltas:
            if not isinstance(delta, Put):
                self._nodes.clear()  # more than one node may have changed
                continue
            node = Node(is_object=False, value=delta.value, expires=delta.expires)
            if node.is_lasting:
                self._cache_node(delta.path, node)
            else:
                self._nodes.pop(delta.path, None)

    def _cache_node(self, path: Path, node: Node | None) -> None:
        if len(self._nodes) >= MAX_CACHED_NODES:
            self._nodes.clear()
        self._nodes[path] = node


_KINDS: dict[str, type[Any]] = {
    kind.__name__.lower(): kind for kind in (Put, Create, Delete, Clear, Refresh)
}


def deltas_to_json(deltas: Iterable[TreeDelta]) -> list[Value]:
    """Return changes as JSON: for each, a list of its kind, its path and its arguments."""
    return [[type(delta).__name__.lower(), [*delta.path], *_arguments(delta)] for delta in deltas]


def _arguments(delta: TreeDelta) -> list[Value]:
    return [getattr(delta, name) for name in delta.__match_args__[1:]]


def deltas_from_json(stored: Value) -> list[TreeDelta]:
    """Return the changes that `deltas_to_json` wrote."""
    lines = cast("list[list[Any]]", stored)
    return [_KINDS[kind](tuple(path), *rest) for kind, path, *rest in lines]


class SetValue(NamedTuple):
    """A value that a block set: its path, the value and its expiry."""

    location: ParsedPath
    value: Value
    expiry: Expiry


@dataclass(slots=True, eq=False)
class BatchTree(Overlay):
    """The overlay of a batch block. It records whether the block did more than set values.

    A block that only set values, without reading the tree, does not depend on the tree: its values
    can be set in any state.
    """

    _only_sets: bool = True
    _set: dict[Path, tuple[ParsedPath, Expiry]] = field(
        default_factory=dict[Path, "tuple[ParsedPath, Expiry]"]
    )

    @property
    def identity(self) -> object:
        """An identity that nothing but this batch has: a batch counts as a separate memory."""
        return id(self)

    def put(self, location: ParsedPath, value: object, expiry: Expiry = None) -> None:
        """Put *value* at *location*; see `Overlay.put`."""
        Overlay.put(self, location, value, expiry)
        self._set.pop(location.path, None)  # the value set last comes last
        self._set[location.path] = location, expiry

    def has(self, location: ParsedPath) -> bool:
        """Return whether a value or an object is at *location*."""
        self._only_sets = False
        return Overlay.has(self, location)

    def read(self, location: ParsedPath) -> Value | NonValue:
        """Return a copy of the value at *location*, or a `NonValue` if no value is there."""
        self._only_sets = False
        return Overlay.read(self, location)

    def chosen_names(self, location: ParsedPath, chosen: NameRange) -> list[str]:
        """Return the names of the fields in the range *chosen*, in the order of names."""
        self._only_sets = False
        return Overlay.chosen_names(self, location, chosen)

    def query(self, operation: Callable[[Overlay], Result]) -> Result:
        """Call *operation*, a read, with this tree and return its result."""
        self._only_sets = False
        return operation(self)

    def change(
        self, operation: Callable[[Overlay], Result], request: Sequence[object] = ()
    ) -> Result:
        """Call *operation*, a change, with this tree and return its result."""
        self._only_sets = False
        return Overlay.change(self, operation, request)

    def finish(self, reason: str) -> tuple[tuple[TreeDelta, ...], list[SetValue] | None]:
        """End the block: make every later use of the tree raise `Unusable` with *reason*.

        Returns:
            The changes of the tree, and the values that the block set. The latter is None if the
            block did anything else, or changed nothing.
        """
        deltas = self.deltas()
        values = self._values() if self._only_sets and deltas else None
        self.seal(reason)
        return deltas, values

    def _values(self) -> list[SetValue]:
        nodes = [(self.node(path, self.now), *kept) for path, kept in self._set.items()]
        return [SetValue(at, node.value, expiry) for node, at, expiry in nodes if node is not None]
