"""Forgetting: erasing items for good, and receipts that contain none of the erased data.

Forgetting has two steps. Erasing is one commit: after it, no read of any time returns the data.
Scrubbing removes the rest from the files of the store; it waits for open readers of older
snapshots.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, cast, runtime_checkable

from alveus.errors import Forgotten, InvalidInput, KeyBusy, NotFound, Unavailable
from alveus.sets.admission.barrier import held_as, quarantine_of
from alveus.sets.set_options import checked_ids
from alveus.sets.writer import Engine, Where
from alveus.state.committed_tree import Backoff
from alveus.store import (
    Commit,
    Effects,
    Erased,
    Erasure,
    NamedRequest,
    Run,
    RunStatus,
    Scope,
    SetRef,
    Store,
    StoredItem,
    StoredReceipt,
    UnreachableCopy,
)
from alveus.store.filters import Filter, plain_filter
from alveus.store.records import filter_fields
from alveus.values import wire
from alveus.values.ids import derived_ids, new_id
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import Value, as_dict, as_list, checked_name, choice, flag, moment
from alveus.values.wire import fields_as_json

Scrub: TypeAlias = Literal["now", "later"]
"""When `forget` scrubs the files of the store."""

SMALL = 200_000_000
"""Size in bytes below which a store is scrubbed at once. The scrub takes a few seconds at most."""

PAGE = 256

UNDONE: tuple[RunStatus, ...] = ("waiting", "parked", "discarded", "retried")
"""Statuses of runs in which a task may have failed."""

ALWAYS = (
    ("backups", "made before: forget there too, or let them expire"),
    ("exports", "and copies of the file: as with backups"),
    ("models", "and other providers that were sent texts: ask those who run them"),
    (
        "free blocks",
        "of the disk, which the file system gave up: only tools of the disk erase those",
    ),
)
"""Copies that no store can reach, each with advice."""


@runtime_checkable
class HasCopies(Protocol):
    """A store whose engine keeps copies that it cannot erase."""

    def copies(self, *, scrubbed: int | None) -> list[UnreachableCopy]:
        """Return copies that may contain the erased data.

        Args:
            scrubbed: The time at which the files were scrubbed, or None if they were not.
        """
        ...


@dataclass(frozen=True, slots=True)
class OutOfReach:
    """A copy that may still contain forgotten data and that alveus cannot or must not change.

    Attributes:
        what: The kind of copy.
        note: The number of copies, or advice.
        paths: Paths of values in an exact tree.
        until: When the copy expires, as far as the store knows; "" if unknown.
    """

    what: str
    note: str
    paths: tuple[str, ...] = ()
    until: str = ""

    def to_json(self) -> dict[str, Value]:
        """Return the copy as JSON."""
        return fields_as_json(self)


@dataclass(frozen=True, slots=True)
class Receipt:
    """The result of a `forget`: counts and digests, none of the erased data.

    Attributes:
        id: The id of the receipt. The store keeps the receipt if data was erased.
        time: The time of the erasing.
        commit: The number of the commit that erased the data; None if no data existed, or for a dry
            run.
        request: Digests of the key, of sets and of ids in the request.
        counts: The number of erased records by kind; kinds without records are left out.
        derived: Number of items erased because they were derived from erased items.
        restored: Number of sources of the derived items that are live again.
        lost: Number of derived items that cannot be made again, because their sources were purged.
        unread: Number of erased outputs that a consumer had not read.
        state: "scrubbed" if every file of the store is free of the data. "pending" if the files
            may still contain the data, but no read returns it.
        blocked_by: The causes that block the scrub, in words.
        open: Unfinished runs that contain erased data. `Memory.scrub` deletes their records after
            they end.
        out_of_reach: Copies that may still contain the data.
    """

    id: str
    time: datetime
    commit: int | None
    request: Mapping[str, Value]
    counts: Mapping[str, int]
    derived: int
    restored: int
    lost: int
    unread: int
    state: Literal["scrubbed", "pending"]
    blocked_by: tuple[str, ...]
    open: tuple[int, ...]
    out_of_reach: tuple[OutOfReach, ...]

    @property
    def changed(self) -> bool:
        """Whether data was erased."""
        return self.commit is not None

    def to_json(self) -> dict[str, Value]:
        """Return the receipt as JSON."""
        return fields_as_json(self)

    def verify(
        self,
        store: Store,
        *,
        space: str = "default",
        key: str | None = None,
        set: str = "default",
        ids: Sequence[str] = (),
    ) -> bool:
        """Return whether *key*, or the items *ids* of a set, were forgotten with this receipt.

        The answer is True if the receipt is for this request, the store keeps the same receipt, and
        the store has no data of the request from before the commit that erased it.

        Args:
            space: The space of the key; without a key, the name of a knowledge.
            ids: Ids of items. Without ids, the request is to forget all of the key.
        """
        checked_name(space, "a space")
        if key is not None:
            checked_name(key, "a key")
        checked_name(set, "a set's name")
        ids = checked_ids(ids)
        stored = store.receipt(self.id)
        if stored is None or self.commit is None:
            return False
        if (wire.decode(stored.request), stored.erased.counts) != (self.request, self.counts):
            return False
        scope = Scope(space, key)
        if not ids:
            request = hashed_request(store, scope, None)
            return self.request == request and _is_empty(store, scope, self.commit)
        sets = map(as_dict, as_list(self.request.get("sets")))
        named = [digest for one in sets for digest in as_list(one.get("ids"))]
        ref = SetRef(scope, set)
        return all(
            _digest(store, scope, set, item_id) in named
            and all(version.begin_commit > self.commit for version in store.versions(ref, item_id))
            for item_id in ids
        )


def _is_empty(store: Store, scope: Scope, commit: int) -> bool:
    """Return whether a key has no data from before a commit."""
    if store.children(scope, (), at=commit, now=0):
        return False
    return not any(
        v.begin_commit <= commit for ref in store.all_sets(scope) for v in _versions(store, ref)
    )


# --- digests of requests ----------------------------------------------------------------------


def _digest(store: Store, scope: Scope, *names: str) -> str:
    return wire.digest(["forgotten", *scope, *names], salt=store.salt()).hex()


def hashed_request(
    store: Store, scope: Scope, items: Sequence[tuple[SetRef, Sequence[str]]] | None
) -> dict[str, Value]:
    """Return the digests of a request, for its receipt.

    Args:
        items: The sets and the ids of their items, or None to forget a whole key.
    """
    owner: Value = None if scope.key is None else _digest(store, scope)
    if items is None:
        return {"kind": "key", "key": owner}
    sets: list[Value] = [
        {
            "set": _digest(store, scope, ref.name),
            "ids": [_digest(store, scope, ref.name, item_id) for item_id in ids],
        }
        for ref, ids in items
    ]
    return {"kind": "items", "key": owner, "sets": sets}


# --- forgetting -------------------------------------------------------------------------------


class HowForgotten(NamedTuple):
    """The options of a `forget`; see `MemorySet.forget`."""

    scrub: Scrub | None = None
    dry_run: bool = False
    idempotency_key: str | None = None

    def name(self, engine: Engine, scope: Scope, plain: Value) -> NamedRequest | None:
        """Return the name under which a request runs once.

        Return None if there is no idempotency key, or for a dry run.
        """
        if self.idempotency_key is None or self.dry_run:
            return None
        return engine.named(scope, self.idempotency_key, ["forget", plain])

    def check(self) -> None:
        """Raise for options that cannot be used."""
        flag(self.dry_run, "dry_run")
        if self.scrub is not None:
            choice(self.scrub, "scrub", "now", "later")


def forget_key(engine: Engine, scope: Scope, how: HowForgotten) -> Receipt:
    """Erase a whole key; see `Memory.forget`."""
    named = how.name(engine, scope, None)
    return _repeated(engine, scope, named, how) or _forget(engine, scope, None, named, how)


def forget_items(
    engine: Engine,
    of: SetRef | Scope,
    ids: str | Sequence[str] | None,
    where: Where | None,
    how: HowForgotten,
) -> Receipt:
    """Erase items by id or filter, in one set or all sets of an owner; see `MemorySet.forget`."""
    if (ids is None) == (where is None):
        raise InvalidInput("forget() takes either ids or where=; where={} selects every item")
    scope = of if isinstance(of, Scope) else of.scope
    id_list = None if ids is None else checked_ids(ids)
    Filter.parse(where)  # first: refuse a filter that is nested too deep
    asked = cast("Value", plain_filter(where) if id_list is None else id_list)
    named = how.name(engine, scope, [asked, None if isinstance(of, Scope) else of.name])
    earlier = _repeated(engine, scope, named, how)
    if earlier is not None:
        return earlier
    refs = engine.store.all_sets(of) if isinstance(of, Scope) else [of]
    return _forget(engine, scope, _chosen(engine.store, refs, id_list, where), named, how)


def _chosen(
    store: Store, refs: Sequence[SetRef], ids: list[str] | None, where: Where | None
) -> list[tuple[SetRef, list[str]]]:
    """Return the sets with chosen items, each with the ids; includes quarantined items."""
    existing = {ref for scope in {ref.scope for ref in refs} for ref in store.all_sets(scope)}
    hidden = existing.intersection(map(quarantine_of, refs))
    if ids is None:
        chosen = Filter.parse(where)
        every = dict.fromkeys([*refs, *sorted(hidden, key=lambda ref: ref.name)])
        items = [(ref, _matching(store, ref, chosen)) for ref in every]
    else:
        items = [(ref, ids) for ref in refs]
        for ref in sorted(hidden, key=lambda ref: ref.name):
            items.append((ref, held_as(_versions(store, ref), ids)))
    return [(ref, item_ids) for ref, item_ids in items if item_ids]


def _versions(store: Store, ref: SetRef) -> Iterator[StoredItem]:
    after: tuple[str, int] | None = None
    while page := store.all_versions(ref, after=after, limit=PAGE):
        yield from page
        after = (page[-1].record.id, page[-1].version)


def _matching(store: Store, ref: SetRef, chosen: Filter | None) -> list[str]:
    """Return the ids of the items that have at least one matching version."""
    item_ids = (
        version.record.id
        for version in _versions(store, ref)
        if chosen is None or chosen.matches(*filter_fields(version))
    )
    return list(dict.fromkeys(item_ids))


def _forget(
    engine: Engine,
    scope: Scope,
    items: Sequence[tuple[SetRef, Sequence[str]]] | None,
    named: NamedRequest | None,
    how: HowForgotten,
) -> Receipt:
    how.check()
    request = hashed_request(engine.store, scope, items)
    erasure = Erasure(
        scope=scope,
        time=engine.clock(),
        receipt=new_id() if named is None else _receipt_id(named),
        request=wire.encode(request),
        whole_key=items is None,
        items=items or (),
        uncertain_runs=() if items is None else _unsure(engine.store, scope),
        dry_run=how.dry_run,
        named=named,
    )
    erased, hindrances = _erased(engine, erasure), ()
    if not how.dry_run:
        engine.recall.forget(erased.sets)
        _tell(engine, erased)
        hindrances = _scrub(engine, how)
    stored = engine.store.receipt(erasure.receipt)
    if stored is not None:
        return receipt_of(engine.store, stored, hindrances)
    if named is not None:
        # No commit of the key: if there is nothing to erase, the store must not record its name.
        answer: list[Value] = [erasure.request, erased.time]
        knowledge = Scope(engine.knowledge, None)
        engine.store.commit(named.answered(answer, scope=knowledge, time=engine.clock()))
    return _empty_receipt(engine, scope, erasure.receipt, erasure.request, erased)


def _receipt_id(named: NamedRequest) -> str:
    return derived_ids(named.op)()


def _scrub(engine: Engine, how: HowForgotten) -> tuple[str, ...]:
    """Scrub the files if *how* asks for it; return the causes that blocked the scrub.

    The data stays erased even if the scrub is blocked.
    """
    if how.scrub == "now" or (how.scrub is None and engine.store.size_bytes() < SMALL):
        try:
            engine.store.scrub(now=engine.clock())
        except Unavailable as error:
            return (str(error),)
    return ()


def _repeated(
    engine: Engine, scope: Scope, named: NamedRequest | None, how: HowForgotten
) -> Receipt | None:
    """Return the current receipt of a repeated request, or None if the request is new."""
    done = None if named is None else engine.done(named)
    if named is None or done is None:
        return None
    hindrances = _scrub(engine, how)
    stored = engine.store.receipt(_receipt_id(named))
    if stored is not None:
        return receipt_of(engine.store, stored, hindrances)
    request, time = cast("tuple[str, int]", done.result)
    return _empty_receipt(engine, scope, _receipt_id(named), request, Erased(None, time))


def _empty_receipt(
    engine: Engine, scope: Scope, receipt: str, request: str, erased: Erased
) -> Receipt:
    """Return a receipt for a request that erased nothing: no data existed, or it was a dry run.

    The store does not keep the receipt.
    """
    waits = [one for one in engine.store.receipts(_owners(scope)) if one.scrubbed is None]
    unstored = StoredReceipt(
        receipt,
        "",
        request,
        erased,
        "erased" if waits else "scrubbed",
        blocked_by=tuple(dict.fromkeys(words for one in waits for words in one.blocked_by)),
        scrubbed=None if waits else erased.time,
    )
    return receipt_of(engine.store, unstored)


def _unsure(store: Store, scope: Scope) -> list[int]:
    """Return the ids of runs of a key in which a task failed.

    The reads of a failed task were not recorded.
    """
    failed = (run for status in UNDONE for run in _runs(store, scope, status))
    return [
        run.id
        for run in failed
        if not run.forgotten
        and (run.error is not None or store.durable_calls(run.id, len(store.steps(run.id))))
    ]


def _runs(store: Store, scope: Scope, status: RunStatus) -> Iterator[Run]:
    before: int | None = None
    if scope.key is None:
        return
    while page := store.runs(scope.space, key=scope.key, status=status, before=before, limit=PAGE):
        yield from page
        before = page[-1].id


def _tell(engine: Engine, erased: Erased) -> None:
    """Drop erased data from RAM, and queue compactions of sets that restored items overfill."""
    engine.recent_hits.clear()
    engine.alike.clear()
    if erased.commit is not None and erased.marks:
        marks = tuple(erased.marks)
        commit = Commit(
            erased.commit, erased.time, adopted=False, result=None, sets_to_compact=marks
        )
        engine.compactions.committed((), commit)
        engine.worker.notify()


def _owners(scope: Scope) -> list[str]:
    return [f"{'knowledge' if scope.key is None else 'space'} {scope.space}"]


def _erased(engine: Engine, erasure: Erasure) -> Erased:
    """Erase the data as soon as no run holds the key.

    Raises:
        KeyBusy: A run held the key longer than the memory's wait time.
    """
    backoff = Backoff(erasure.scope, engine.wait_s)
    while True:
        try:
            return engine.store.erase(erasure)
        except KeyBusy as error:
            backoff.wait(error)


# --- receipts ---------------------------------------------------------------------------------


def receipt_of(store: Store, stored: StoredReceipt, hindrances: Sequence[str] = ()) -> Receipt:
    """Return a stored receipt in the form that callers get.

    Args:
        hindrances: Causes that blocked the scrub of this call.
    """
    erased = stored.erased
    return Receipt(
        id=stored.id,
        time=moment(erased.time),
        commit=erased.commit,
        request=cast("dict[str, Value]", wire.decode(stored.request)),
        counts=dict(erased.counts),
        derived=erased.derived,
        restored=erased.restored,
        lost=erased.lost,
        unread=erased.unread,
        state="pending" if stored.scrubbed is None else "scrubbed",
        blocked_by=(*stored.blocked_by, *(() if stored.scrubbed is not None else hindrances)),
        open=tuple(stored.open_runs),
        out_of_reach=tuple(_out_of_reach(store, stored)),
    )


def _out_of_reach(store: Store, stored: StoredReceipt) -> Iterator[OutOfReach]:
    erased = stored.erased
    if erased.delivered:
        yield OutOfReach("outputs", f"{erased.delivered} that consumers have read already")
    if erased.shared:
        note = f"{erased.shared} that its commits wrote and that nothing says were derived from it"
        yield OutOfReach("items of knowledge", note)
    unsure = [n for n in erased.unsure if (run := store.run(n)) and not run.forgotten]
    if unsure:
        listed = ", ".join(map(str, unsure))
        note = (
            f"{listed}, which failed: they may hold what they read; forget the key, or prune them"
        )
        yield OutOfReach("errors and durable results of runs", note)
    paths = tuple(sorted({path for number in erased.puts for path in _paths(store, number)}))
    if paths:
        note = f"{len(paths)} that runs wrote which had read or written it: look at them"
        yield OutOfReach("values in the exact tree", note, paths)
    processes: Sequence[int] = getattr(store, "open_elsewhere", ())
    if processes:
        listed = ", ".join(map(str, processes))
        note = f"of processes {listed}, which have the store open: until they read it again"
        yield OutOfReach("RAM", note)
    if isinstance(store, HasCopies):
        for copy in store.copies(scrubbed=stored.scrubbed):
            yield OutOfReach(copy.what, copy.note, until=copy.until)
    for what, note in ALWAYS:
        yield OutOfReach(what, note)


def _paths(store: Store, number: int) -> list[str]:
    effects = store.effects(number)
    put = () if effects is None else effects.put_nodes
    return [".".join(path) for path, node in put if not node.is_object]


def receipts_of(
    store: Store, owners: Sequence[str], *, before: int | None, limit: int
) -> list[Receipt]:
    """Return receipts, the latest first."""
    return [
        receipt_of(store, stored) for stored in store.receipts(owners, before=before, limit=limit)
    ]


def receipt_named(store: Store, receipt: str) -> Receipt:
    """Return the receipt with an id.

    Raises:
        NotFound: The store has no receipt with this id.
    """
    stored = store.receipt(checked_name(receipt, "a receipt's id"))
    if stored is None:
        raise NotFound(f"there is no receipt {receipt!r} in this memory; receipts() lists them")
    return receipt_of(store, stored)


def scrub(engine: Engine, owners: Sequence[str]) -> list[Receipt]:
    """Scrub the store; return the receipts that waited for the scrub, in their new state."""
    store = engine.store
    waiting = [stored.id for stored in _unfinished(store, owners)]
    store.scrub(now=engine.clock())
    return [
        receipt_of(store, stored) for one in waiting if (stored := store.receipt(one)) is not None
    ]


def _unfinished(store: Store, owners: Sequence[str]) -> Iterator[StoredReceipt]:
    before: int | None = None
    while page := store.receipts(owners, before=before, limit=PAGE):
        yield from (stored for stored in page if stored.scrubbed is None)
        before = page[-1].erased.commit


def is_bare(done: Effects) -> bool:
    """Return whether the store keeps no changes of a commit in the commit's key."""
    changes = (*done.begun_items, *done.ended_items, *done.compactions)
    has_changes = any(change.set.scope == done.scope for change in changes)
    return not (has_changes or done.put_nodes or done.removed_paths or done.undone_compactions)


class ForgottenKeys:
    """The keys that were forgotten in commits after number *after*; read at the first use.

    If a forgotten key is used again, the commits from before the forgetting have its name again.
    `cover` finds them.
    """

    def __init__(self, store: Store, *, after: int = 0) -> None:
        self._store, self._after = store, after
        self._commits: dict[str, dict[str, int]] = {}

    def cover(self, number: int, scope: Scope) -> bool:
        """Return whether the key of a bare commit was forgotten by this commit or a later one.

        Args:
            number: The number of the commit.
            scope: The key or knowledge of the commit; knowledge is never covered.
        """
        if scope.key is None:
            return False
        (owner,) = _owners(scope)
        if owner not in self._commits:
            self._commits[owner] = dict(self._read(owner))
        request = wire.encode(hashed_request(self._store, scope, None))
        return number <= self._commits[owner].get(request, 0)

    def _read(self, owner: str) -> Iterator[tuple[str, int]]:
        """Yield the stored request and the commit number of each forgetting, the latest last."""
        found: list[tuple[str, int]] = []
        before: int | None = None
        while page := self._store.receipts([owner], before=before, limit=PAGE):
            found += [(stored.request, stored.erased.commit or 0) for stored in page]
            before = found[-1][1]
            if before <= self._after:
                break
        yield from reversed(found)


def refuse_forgotten(run: Any) -> None:  # noqa: ANN401 - a run, of the store or of a listing
    """Raise `Forgotten` if the records of a run were erased."""
    if run.forgotten:
        raise Forgotten(
            f"the input and results of run {run.id} were forgotten; only its number is kept"
        )
