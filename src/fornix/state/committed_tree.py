"""Short-term memory in the store: as it is now, as it was, and under the lease of its key."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from functools import partial
from typing import Any, NoReturn, Protocol, TypeVar, cast

from fornix.errors import KeyBusy, StaleRun, StoreReadOnly, Unavailable
from fornix.state.cells import ATOMS, copied
from fornix.state.overlay import Overlay
from fornix.state.paths import MemoryKind, ParsedPath, Places, Resolver
from fornix.state.tree_values import (
    MISSING,
    Expiry,
    Mark,
    Snapshot,
    TreeLimits,
    Ttl,
    lasting,
    put_request,
)
from fornix.store import (
    Batch,
    Clear,
    Create,
    Delete,
    Ledger,
    Node,
    Put,
    Refresh,
    Scope,
    TreeDelta,
)
from fornix.store.as_of import FOREVER, AsOf, check_tree, moment_of
from fornix.store.running_keys import refuse_own_tree
from fornix.values import wire
from fornix.values.lazy_dataclass import dataclass
from fornix.values.storable import Path, Value, checked, checked_name

Result = TypeVar("Result")

PATIENCE = 10
"""A read outside a run renews an expiry once this part of its time to live has passed: 1/10."""


LEASED_NODES = 64
"""Nodes that a `LeasedTree` remembers."""


class WriterLock(Protocol):
    """What keeps the writers of one key apart: a `threading.Lock`, or more."""

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:  # noqa: FBT001, FBT002 - threading's
        """Take it; return whether that worked within *timeout* seconds."""
        ...

    def release(self) -> None:
        """Give it back."""
        ...


PAUSE_S = 0.005
"""Longest pause between two tries while somebody runs the key."""


class Patience:
    """How long a change waits for others that write to its key, or run it."""

    def __init__(self, scope: Scope, wait_s: float) -> None:
        self._scope, self._wait_s = scope, wait_s
        self._deadline = time.monotonic() + wait_s
        self._pause = PAUSE_S / 10

    @property
    def over(self) -> bool:
        """Whether all of it has been waited."""
        return time.monotonic() > self._deadline

    def wait(self, error: StaleRun | KeyBusy) -> None:
        """Return when it is time to try again; raise `KeyBusy` once all has been waited for.

        What became stale is repeated at once: somebody has just finished.
        """
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise busy(self._scope, self._wait_s) from None
        if isinstance(error, KeyBusy):
            time.sleep(min(self._pause, left))
            self._pause = min(self._pause * 2, PAUSE_S)


def busy(scope: Scope, wait_s: float) -> KeyBusy:
    """Return what is raised when all of *wait_s* has been waited."""
    return KeyBusy(scope.key or scope.space, wait_s=wait_s)


@dataclass(frozen=True, slots=True, eq=False)
class CommittedTree:
    """The exact memory of a key as it is now. May be used from any thread.

    A read sees every commit before it. A change is atomic, and durable when the call returns; it
    waits for other writers of the key, in the key's lane and elsewhere, and for whoever runs it,
    and raises `KeyBusy` after `wait_s`. A call that changes nothing makes no commit.

    With ``Ttl(refresh="read")`` a read also renews what it read, once a tenth of the time to live
    has passed. It never waits for that: if the key is busy, the renewal is left to a later read.

    Attributes:
        clock: Tells the time, in microseconds.
        lane: Kept by whoever makes this, one per scope.
        op: Digest of an idempotency key, named *label*; the changes made here are one.
    """

    ledger: Ledger
    scope: Scope
    clock: Callable[[], int]
    lane: WriterLock
    wait_s: float = 10.0
    ttl: Ttl | None = None
    limits: TreeLimits = field(default_factory=TreeLimits)
    places: Places = field(default_factory=partial(Places, MemoryKind.SHORT_TERM))
    resolver: Resolver | None = None
    op: bytes | None = None
    label: str = ""

    @property
    def kind(self) -> MemoryKind:
        """Which exact memory it is."""
        return self.places.kind

    @property
    def home(self) -> object:
        """Equal for all handles of this memory."""
        return id(self.ledger), self.scope

    def past(self, as_of: AsOf) -> PastTree:
        """Return the memory as it was at a moment; `HistoryPruned` where that is not kept."""
        then = moment_of(self.ledger, as_of, now=self.clock(), what="at")
        check_tree(self.ledger, self.scope, then)
        return PastTree(self.ledger, self.scope, then.commit, then.time, resolver=self.resolver)

    # --- reading ---

    def has(self, place: ParsedPath) -> bool:
        """Return whether a value or an object is at *place*."""
        return self._latest().node(place.path, self.clock()) is not None

    def read(self, place: ParsedPath) -> Value | Mark:
        """Return the value at *place*, or what is there instead."""
        if self.ttl is not None and self.ttl.refresh == "read":
            return self.look(lambda tree: tree.read(place))
        node = self._latest().node(place.path, self.clock())
        if node is None:
            return MISSING
        return Mark.OBJECT if node.is_object else copied(node.value)

    def look(self, operation: Callable[[Overlay], Result]) -> Result:
        """Return what *operation* reads from the latest commit."""
        now, base = self.clock(), self.ledger.head(self.scope)
        tree = self._overlay(base, now)
        found = operation(tree)
        renewed = tree.deltas()
        if renewed:
            self._renew(renewed, now, base)
        return found

    # --- changing ---

    def put(self, place: ParsedPath, value: object, expiry: Expiry = None) -> None:
        """Put *value* at *place*."""
        self.change(lambda tree: tree.put(place, value, expiry), put_request(place, value, expiry))

    def change(
        self, operation: Callable[[Overlay], Result], request: Sequence[object] = ()
    ) -> Result:
        """Return what *operation* does to the latest commit, which is one commit.

        Raises:
            KeyBusy: Others wrote to the key for longer than `wait_s`.
            InvalidInput: It is called by an action of this very key.
            IdempotencyConflict: The idempotency key was used for another request.
            Unavailable: The store cannot be written now.
        """
        refuse_own_tree(self.ledger, self.scope)
        patience = Patience(self.scope, self.wait_s)
        asked = self._digest([checked(part, nan=True) for part in request]) if self.op else None
        with self._held():
            while True:
                try:
                    return self._attempt(operation, asked)
                except (StaleRun, KeyBusy) as error:
                    patience.wait(error)

    def once(self, idempotency_key: str) -> CommittedTree:
        """Return the same memory, for one change under *idempotency_key*."""
        name = checked_name(idempotency_key, "an idempotency key")
        op = self._digest(["idempotency key", self.scope.space, self.scope.key, name])
        return replace(self, op=op, label=name)

    # --- inside ---

    def _attempt(self, operation: Callable[[Overlay], Result], asked: bytes | None) -> Result:
        if self.op is not None:
            earlier = self.ledger.adopted(self.op, request=asked, label=self.label)
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
        commit = self.ledger.commit(replace(batch, request=asked, result=answer))
        return cast("Result", commit.result) if commit.adopted else result

    def _batch(self, now: int, base: int, state: Sequence[TreeDelta]) -> Batch:
        return Batch(
            scope=self.scope, time=now, op=self.op, label=self.label, base=base, state=state
        )

    def _renew(self, deltas: Sequence[TreeDelta], now: int, base: int) -> None:
        if self.lane.acquire(blocking=False):
            try:
                self.ledger.commit(replace(self._batch(now, base, deltas), op=None))
            except (StaleRun, Unavailable):
                pass  # promised: a renewal never stands in the way of a read
            finally:
                self.lane.release()

    def _overlay(self, base: int, now: int) -> Overlay:
        tree = Overlay(
            Snapshot(self.ledger, self.scope, base),
            kind=self.kind,
            now=now,
            limits=self.limits,
            ttl=self.ttl,
            places=self.places,
        )
        if self.ttl is not None:
            tree.patience_us = max(1, lasting(self.ttl.after) // PATIENCE)
        return tree

    def _latest(self) -> Snapshot:
        return Snapshot(self.ledger, self.scope, None)

    @contextmanager
    def _held(self) -> Generator[None]:
        if not self.lane.acquire(timeout=self.wait_s):
            raise busy(self.scope, self.wait_s)
        try:
            yield
        finally:
            self.lane.release()

    def _digest(self, value: Value) -> bytes:
        return wire.digest(value, salt=self.ledger.salt())


@dataclass(frozen=True, slots=True, eq=False)
class PastTree:
    """The exact memory of a key after commit *at*, to be read only. May be used from any thread.

    Attributes:
        now: The time in microseconds that decides what had expired.
    """

    ledger: Ledger
    scope: Scope
    at: int
    now: int
    places: Places = field(default_factory=partial(Places, MemoryKind.SHORT_TERM))
    resolver: Resolver | None = None

    @property
    def kind(self) -> MemoryKind:
        """Which exact memory it is."""
        return self.places.kind

    @property
    def home(self) -> object:
        """Equal for all handles of this memory."""
        return id(self.ledger), self.scope, self.at

    def has(self, place: ParsedPath) -> bool:
        """Return whether a value or an object was at *place*."""
        return self._tree().has(place)

    def read(self, place: ParsedPath) -> Value | Mark:
        """Return the value that was at *place*, or what was there instead."""
        return self._tree().read(place)

    def look(self, operation: Callable[[Overlay], Result]) -> Result:
        """Return what *operation* reads."""
        return operation(self._tree())

    def put(self, place: ParsedPath, value: object, expiry: Expiry = None) -> None:
        """Raise `StoreReadOnly`."""
        self.change(None, put_request(place, value, expiry))

    def change(self, operation: object, request: Sequence[object] = ()) -> NoReturn:  # noqa: ARG002 - never done
        """Raise `StoreReadOnly`."""
        what = " ".join(str(part) for part in request[:1])
        raise StoreReadOnly(
            f"{what}: this is the memory of key {self.scope.key!r} as it was after commit "
            f"{self.at}; write to the memory of the present"
        )

    def past(self, as_of: AsOf) -> PastTree:
        """Return the memory as it was at another moment."""
        latest = max(self.now, self.ledger.time_of(FOREVER))
        then = moment_of(self.ledger, as_of, now=latest, what="at")
        check_tree(self.ledger, self.scope, then)
        return replace(self, at=then.commit, now=then.time)

    def once(self, idempotency_key: str) -> NoReturn:
        """Raise `StoreReadOnly`."""
        self.change(None, [f"once({idempotency_key!r})"])

    def _tree(self) -> Overlay:
        tree = Snapshot(self.ledger, self.scope, self.at)
        return Overlay(tree, kind=self.kind, now=self.now, places=self.places)


class LeasedTree:
    """The tree of a key while its lease is held: nobody else changes it.

    It reads no small value twice. It serves one thread at a time.

    Attributes:
        epoch: Of the lease under which the nodes that it remembers are valid.
    """

    __slots__ = ("_head", "_ledger", "_nodes", "_scope", "epoch")

    def __init__(self, ledger: Ledger, scope: Scope, epoch: int) -> None:
        self._ledger, self._scope, self.epoch = ledger, scope, epoch
        self._nodes: dict[Path, Node | None] = {}
        self._head: int | None = None

    def head(self) -> int:
        """Return the number of the last commit that changed the tree; 0: none yet."""
        if self._head is None:
            self._head = self._ledger.head(self._scope)
        return self._head

    def node(self, path: Path, now: int) -> Node | None:
        """Return the node at *path*; see `ExactTree`."""
        if path in self._nodes:
            return self._nodes[path]
        node = self._ledger.node(self._scope, path, at=None, now=now)
        if node is None or _lasts(node):
            self._remember(path, node)
        return node

    def children(self, path: Path, now: int) -> list[tuple[str, Node]]:
        """Return the fields of the object at *path*; see `ExactTree`."""
        return self._ledger.children(self._scope, path, at=None, now=now)

    def field_names(self, path: Path, now: int) -> list[tuple[str, int | None]]:
        """Return the names of its fields; see `ExactTree`."""
        return self._ledger.field_names(self._scope, path, at=None, now=now)

    def changed(self, deltas: Iterable[TreeDelta], number: int) -> None:
        """Note that commit *number* changed the tree so."""
        self._head = number
        for delta in deltas:
            if not isinstance(delta, Put):
                self._nodes.clear()  # more than one node may be another one now
                continue
            node = Node(is_object=False, value=delta.value, expires=delta.expires)
            if _lasts(node):
                self._remember(delta.path, node)
            else:
                self._nodes.pop(delta.path, None)

    def _remember(self, path: Path, node: Node | None) -> None:
        if len(self._nodes) >= LEASED_NODES:
            self._nodes.clear()
        self._nodes[path] = node


def _lasts(node: Node) -> bool:
    """Return whether a node is a value that nothing but a commit changes."""
    return not node.is_object and node.expires is None and type(node.value) in ATOMS


_KINDS: dict[str, type[Any]] = {
    "put": Put,
    "create": Create,
    "delete": Delete,
    "clear": Clear,
    "refresh": Refresh,
}


def plain(deltas: Iterable[TreeDelta]) -> list[Value]:
    """Return changes as lists: what is done, where, and with what."""
    return [_plain(delta) for delta in deltas]


def _plain(delta: TreeDelta) -> list[Value]:
    path: list[Value] = [*delta.path]
    match delta:
        case Put():
            return ["put", path, delta.value, delta.expires]
        case Create():
            return ["create", path, delta.expires]
        case Refresh():
            return ["refresh", path, delta.expires]
        case Delete():
            return ["delete", path]
        case Clear():
            return ["clear", path]


def restored(stored: Value) -> list[TreeDelta]:
    """Return the changes that `plain` wrote."""
    lines = cast("list[list[Any]]", stored)
    return [_KINDS[kind](tuple(path), *rest) for kind, path, *rest in lines]
