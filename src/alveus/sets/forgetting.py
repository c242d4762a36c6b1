"""Forgetting: what is erased for good, and the receipt that says so without saying what it was.

Two steps. To erase is one commit: from then on no read of any time shows it. To scrub removes what
is left in the files of the store; where somebody still reads an old state, that waits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, cast, runtime_checkable

from alveus.errors import Forgotten, InvalidInput, KeyBusy, NotFound, Unavailable
from alveus.errors.short_repr import short_repr
from alveus.sets.admission.quarantine import held_as, quarantine_of
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
from alveus.values.storable import Value, checked_name, choice, flag, moment
from alveus.values.wire import fields_as_json

Scrub: TypeAlias = Literal["now", "later"]
"""When what is left in the files goes; None: now, if the store is small."""

SMALL = 200_000_000
"""Bytes of a store up to which it is scrubbed at once: that takes seconds at most."""

PAGE = 256

UNDONE: tuple[RunStatus, ...] = ("waiting", "parked", "discarded", "retried")
"""What runs are of which a task may have failed."""

ALWAYS = (
    ("backups", "made before: forget there too, or let them expire"),
    ("exports", "and copies of the file: as with backups"),
    ("models", "and other providers that were sent texts: ask those who run them"),
    ("free blocks", "of the disk, which the file system gave up: only its own means erase those"),
)
"""What no store can reach, with what to do."""


@runtime_checkable
class HasCopies(Protocol):
    """A store whose engine keeps copies that it cannot erase."""

    def copies(self, *, scrubbed: int | None) -> list[UnreachableCopy]:
        """Return what may hold what was erased, and was scrubbed then; None: it was not."""
        ...


@dataclass(frozen=True, slots=True)
class OutOfReach:
    """Something that may still hold what was forgotten, and that alveus cannot or must not change.

    Attributes:
        what: What it is.
        note: How many of it, or what to do.
        paths: Of values in an exact tree.
        until: When that ends, as far as the store can tell; "": nobody knows.
    """

    what: str
    note: str
    paths: tuple[str, ...] = ()
    until: str = ""

    def to_json(self) -> dict[str, Value]:
        """Return it as JSON."""
        return fields_as_json(self)


@dataclass(frozen=True, slots=True)
class Receipt:
    """What a `forget` did: counts and digests, nothing of what was there.

    Attributes:
        id: Its id; the store keeps it under that, if anything was erased.
        time: When it was erased.
        commit: The commit that did so; None: nothing was there, or it was a dry run.
        request: What was asked for: digests of the key, of sets and of ids.
        counts: What was erased, by kind; kinds of which nothing was there are left out.
        derived: Items among them that were erased since they were derived from others.
        restored: Sources of those that came back.
        lost: Derived items that cannot be made again, since sources of them were purged before.
        unread: Outputs that a consumer had yet to read.
        state: "scrubbed": gone from every file of the store. "pending": from every read only.
        blocked_by: Who or what is in the way, in words.
        open: Runs that still hold some of it; their records go with `Memory.scrub` once they end.
        out_of_reach: What may hold it outside of what was erased.
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
        """Whether anything was erased."""
        return self.commit is not None

    def to_json(self) -> dict[str, Value]:
        """Return it as JSON."""
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
        """Return whether this is the receipt for forgetting *key*, or *ids* of a set of it.

        And whether that holds: the store keeps the receipt as it is here, and has nothing of
        theirs from before. Without a key, *space* is the name of a knowledge.
        """
        checked_name(space, "a space")
        if key is not None:
            checked_name(key, "a key")
        checked_name(set, "a set's name")
        if not isinstance(ids, (list, tuple)):
            raise InvalidInput(f"ids must be a list of ids, not {short_repr(ids)}")
        for item_id in ids:
            checked_name(item_id, "an item's id")
        stored = store.receipt(self.id)
        if stored is None or self.commit is None or _facts(stored) != (self.request, self.counts):
            return False
        scope = Scope(space, key)
        if not ids:
            request = hashed_request(store, scope, None)
            return self.request == request and _is_empty(store, scope, self.commit)
        named = [digest for one in _listed(self.request.get("sets")) for digest in _ids_of(one)]
        ref = SetRef(scope, set)
        return all(
            _digest(store, scope, set, item_id) in named
            and all(version.begin_commit > self.commit for version in store.versions(ref, item_id))
            for item_id in ids
        )


def _facts(stored: StoredReceipt) -> tuple[Mapping[str, Value], Mapping[str, int]]:
    return cast("Mapping[str, Value]", wire.decode(stored.request)), stored.erased.counts


def _listed(value: Value) -> list[Value]:
    return value if isinstance(value, list) else []


def _ids_of(value: Value) -> list[Value]:
    return _listed(value.get("ids")) if isinstance(value, dict) else []


def _is_empty(store: Store, scope: Scope, commit: int) -> bool:
    """Whether nothing is there of a key from before a commit."""
    if store.children(scope, (), at=commit, now=0):
        return False
    return not any(
        v.begin_commit <= commit for ref in store.all_sets(scope) for v in _versions(store, ref)
    )


# --- what was asked, in digests ---------------------------------------------------------------


def _digest(store: Store, scope: Scope, *names: str) -> str:
    return wire.digest(["forgotten", *scope, *names], salt=store.salt()).hex()


def hashed_request(
    store: Store, scope: Scope, items: Sequence[tuple[SetRef, Sequence[str]]] | None
) -> dict[str, Value]:
    """Return what a receipt says was asked for; *items* None: a whole key."""
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
    """How something is forgotten; see `MemorySet.forget`."""

    scrub: Scrub | None = None
    dry_run: bool = False
    idempotency_key: str | None = None

    def name(self, engine: Engine, scope: Scope, plain: Value) -> NamedRequest | None:
        """Return the name of a request, if it has one."""
        if self.idempotency_key is None or self.dry_run:
            return None
        return engine.named(scope, self.idempotency_key, ["forget", plain])

    def check(self) -> None:
        """Refuse what cannot be asked for."""
        flag(self.dry_run, "dry_run")
        if self.scrub is not None:
            choice(self.scrub, "scrub", "now", "later")


def forget_key(engine: Engine, scope: Scope, how: HowForgotten) -> Receipt:
    """Erase a key whole; see `Memory.forget`."""
    named = how.name(engine, scope, None)
    return _repeated(engine, scope, named, how) or _forget(engine, scope, None, named, how)


def forget_items(
    engine: Engine,
    of: SetRef | Scope,
    ids: str | Sequence[str] | None,
    where: Where | None,
    how: HowForgotten,
) -> Receipt:
    """Erase items by id, or all that match, in a set or all of an owner; see `MemorySet.forget`."""
    check_chosen(ids, where)
    scope = of if isinstance(of, Scope) else of.scope
    id_list = None if ids is None else checked_ids(ids)
    Filter.parse(where)  # first: what is nested too deep is refused there
    asked = cast("Value", plain_filter(where) if id_list is None else id_list)
    named = how.name(engine, scope, [asked, None if isinstance(of, Scope) else of.name])
    earlier = _repeated(engine, scope, named, how)
    if earlier is not None:
        return earlier
    refs = engine.store.all_sets(of) if isinstance(of, Scope) else [of]
    return _forget(engine, scope, _chosen(engine.store, refs, id_list, where), named, how)


def check_chosen(ids: object, where: object) -> None:
    """Refuse what names no items of a set, or names them twice."""
    if (ids is None) == (where is None):
        raise InvalidInput("forget takes ids or where=, one of them; where={} is every item")


def _chosen(
    store: Store, refs: Sequence[SetRef], ids: list[str] | None, where: Where | None
) -> list[tuple[SetRef, list[str]]]:
    """Return ids by set, and by what is held back of it."""
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
    """Return the ids of items of which any version matches."""
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
        # Not a commit of the key: where nothing is to be erased, its name should not come in.
        answer: list[Value] = [erasure.request, erased.time]
        knowledge = Scope(engine.knowledge, None)
        engine.store.commit(named.answered(answer, scope=knowledge, time=engine.clock()))
    return _empty_receipt(engine, scope, erasure.receipt, erasure.request, erased)


def _receipt_id(named: NamedRequest) -> str:
    return derived_ids(named.op)()


def _scrub(engine: Engine, how: HowForgotten) -> tuple[str, ...]:
    """Scrub, if that is due now; return what made it impossible: what was erased stays so."""
    if how.scrub == "now" or (how.scrub is None and _is_small(engine.store)):
        try:
            engine.store.scrub(now=engine.clock())
        except Unavailable as error:
            return (str(error),)
    return ()


def _repeated(
    engine: Engine, scope: Scope, named: NamedRequest | None, how: HowForgotten
) -> Receipt | None:
    """Return the receipt of the request of this name, as it is now; None: there was none."""
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
    """Return the receipt of what the store keeps none of: nothing was there, or it was a trial."""
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
    """Return runs of a key that failed in a task: what that had read was not recorded."""
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
    """Keep nothing of it in RAM, and have sets that items came back to seen to.

    They may be at their mark again.
    """
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
    """Erase as soon as nobody runs the key."""
    backoff = Backoff(erasure.scope, engine.wait_s)
    while True:
        try:
            return engine.store.erase(erasure)
        except KeyBusy as error:
            backoff.wait(error)


def _is_small(store: Store) -> bool:
    return store.size_bytes() < SMALL


# --- receipts ---------------------------------------------------------------------------------


def receipt_of(store: Store, stored: StoredReceipt, hindrances: Sequence[str] = ()) -> Receipt:
    """Return a receipt as users see it.

    Args:
        hindrances: What made a scrub impossible just now.
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
    """Return a receipt by its id.

    Raises:
        NotFound: The store keeps none of this id.
    """
    stored = store.receipt(checked_name(receipt, "a receipt's id"))
    if stored is None:
        raise NotFound(f"there is no receipt {receipt!r} in this memory; list them with receipts()")
    return receipt_of(store, stored)


def scrub(engine: Engine, owners: Sequence[str]) -> list[Receipt]:
    """Scrub the store; return the receipts that waited for it, as they are now."""
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
    """Return whether a commit changed nothing of its key that is still kept."""
    changes = (*done.begun_items, *done.ended_items, *done.compactions)
    has_changes = any(change.set.scope == done.scope for change in changes)
    return not (has_changes or done.put_nodes or done.removed_paths or done.undone_compactions)


class ForgottenKeys:
    """Which commits past *after* are of keys that were forgotten since; read when first asked.

    Once such a key is used again, these commits bear its name as they did before.
    """

    def __init__(self, store: Store, *, after: int = 0) -> None:
        self._store, self._after = store, after
        self._commits: dict[str, dict[str, int]] = {}

    def cover(self, number: int, scope: Scope) -> bool:
        """Return whether a bare commit is of such a key, or is that forgetting."""
        if scope.key is None:
            return False
        (owner,) = _owners(scope)
        if owner not in self._commits:
            self._commits[owner] = dict(self._read(owner))
        request = wire.encode(hashed_request(self._store, scope, None))
        return number <= self._commits[owner].get(request, 0)

    def _read(self, owner: str) -> Iterator[tuple[str, int]]:
        """Yield what was forgotten, and by which commits: of one request the last comes last."""
        found: list[tuple[str, int]] = []
        before: int | None = None
        while page := self._store.receipts([owner], before=before, limit=PAGE):
            found += [(stored.request, stored.erased.commit or 0) for stored in page]
            before = found[-1][1]
            if before <= self._after:
                break
        yield from reversed(found)


def refuse_forgotten(run: Any) -> None:  # noqa: ANN401 - a run, of the store or of a listing
    """Raise `Forgotten` for a run whose records were erased."""
    if run.forgotten:
        raise Forgotten(
            f"what run {run.id} was given and did was forgotten; only its number is kept"
        )
