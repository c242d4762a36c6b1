"""Erasures, their results, and the reads of a step: frozen values, no I/O.

An erasure leaves no content in the store: only counts, numbers of rows and commits, and salted
digests.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, Literal, NamedTuple, TypeAlias, cast

from alveus.errors import Forgotten
from alveus.store.changes import NamedRequest
from alveus.store.scope import Scope, SetRef
from alveus.values import wire
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import Path, Value


@dataclass(frozen=True, slots=True)
class Searched:
    """A search: the sets it went through, and its hits, best first, by set and id."""

    sets: Sequence[SetRef]
    query: str
    hits: Sequence[tuple[SetRef, str]]


@dataclass(frozen=True, slots=True)
class ReadSet:
    """The paths and items that a step looked up.

    `StepDone.read_set` has them in wire form; empty parts may be omitted::

        {"short_term": [path, …], "sensory": [path, …], "items": [[owner, set, [id, …]], …],
         "searches": [[owner, [set, …], query, [[set, id], …]], …]}

    The owner of a set is null for the key of the run, or the name of a knowledge.
    """

    short_term: Sequence[Path]
    sensory: Sequence[Path]
    items: Sequence[tuple[SetRef, Sequence[str]]]
    searches: Sequence[Searched]

    @classmethod
    def of(cls, text: str | None, scope: Scope) -> ReadSet:
        """Return the content of `StepDone.read_set`, of a step of a run of *scope*."""
        document = cast("dict[str, Any]", wire.decode(text)) if text else {}

        def ref(owner: str | None, name: str) -> SetRef:
            return SetRef(scope if owner is None else Scope(owner, None), name)

        return cls(
            short_term=[tuple(path) for path in document.get("short_term", ())],
            sensory=[tuple(path) for path in document.get("sensory", ())],
            items=[(ref(owner, name), ids) for owner, name, ids in document.get("items", ())],
            searches=[
                Searched(
                    [ref(owner, name) for name in names],
                    query,
                    [(ref(owner, name), one) for name, one in hits],
                )
                for owner, names, query, hits in document.get("searches", ())
            ],
        )

    def item_refs(self) -> Iterator[tuple[SetRef, str]]:
        """Yield each item that was looked up, or was a hit, by set and id."""
        for ref, ids in self.items:
            for one in ids:
                yield ref, one
        for search in self.searches:
            yield from search.hits


ReceiptState: TypeAlias = Literal["erased", "rewritten", "scrubbed"]
"""Erased: in no read. Rewritten: only in the log and side files. Scrubbed: in no file."""

STATES: tuple[ReceiptState, ...] = ("erased", "rewritten", "scrubbed")
"""The states by their number in a file."""

NO_SPACE = ""
"""The space of a forgotten key: no application has this name."""


class UnreachableCopy(NamedTuple):
    """A possible copy of erased data outside the reach of a store.

    Attributes:
        note: How much of it, or what to do.
        until: When it ends, if the store can know that; else "".
    """

    what: str
    note: str
    until: str = ""


ERASED_HOW = "{}"
"""The `how` of a compaction that was partly erased."""


@dataclass(frozen=True, slots=True)
class Erasure:
    """An erasure to be done.

    Attributes:
        receipt: The id of the receipt; a second erasure under it changes nothing.
        request: The request that the receipt keeps: JSON without content.
        whole_key: All of the key, with its name; else *items*, as ids by set.
        uncertain_runs: See `Erased.unsure`.
        dry_run: Only return what would be erased.
        named: The op of the erasure; a second one of that name has the same receipt.
    """

    scope: Scope
    time: int
    receipt: str
    request: str = "{}"
    whole_key: bool = False
    items: Sequence[tuple[SetRef, Sequence[str]]] = ()
    uncertain_runs: Sequence[int] = ()
    dry_run: bool = False
    named: NamedRequest | None = None


@dataclass(frozen=True, slots=True)
class Erased:
    """The result of an erasure; all of it in one commit.

    Attributes:
        commit: Its number. None means that there was nothing to erase, or it was a dry run.
        counts: Numbers of erased rows by kind; no zeros.
        derived: Erased items that were derived from others.
        restored: Live sources of the derived items, which came back.
        lost: Derived items that cannot be made again: some of their sources were purged before.
        unread: Erased outputs that a consumer had yet to read.
        delivered: Erased outputs that consumers had read.
        shared: Items of knowledge that commits of the key wrote, and that stay.
        sets: Numbers of the sets that lost rows.
        puts: Commits of erased runs that put values into an exact tree, which stay.
        open: Unfinished runs that wrote or read erased items, and keep their records until the end.
        unsure: Runs that failed in a task: their errors and durable results may hold erased data.
        marks: Sets of the restored items.
    """

    commit: int | None
    time: int
    counts: Mapping[str, int] = field(default_factory=dict[str, int])
    derived: int = 0
    restored: int = 0
    lost: int = 0
    unread: int = 0
    delivered: int = 0
    shared: int = 0
    sets: Sequence[int] = ()
    puts: Sequence[int] = ()
    open: Sequence[int] = ()
    unsure: Sequence[int] = ()
    marks: Sequence[SetRef] = ()

    def to_json(self) -> str:
        """Return the stored form: all but `marks`, which are names."""
        names = [name for name in self.__dataclass_fields__ if name != "marks"]
        plain = {name: getattr(self, name) for name in names}
        return json.dumps(
            {n: [*v] if isinstance(v, (tuple, list)) else v for n, v in plain.items()}
        )

    @classmethod
    def from_json(cls, text: str) -> Erased:
        """Return the value that `to_json` wrote, without `marks`."""
        plain = cast("dict[str, Any]", wire.decode_plain(text))
        listed = {n: tuple(cast("list[Any]", v)) for n, v in plain.items() if isinstance(v, list)}
        merged: dict[str, Any] = {**plain, **listed}
        return cls(**merged)


@dataclass(frozen=True, slots=True)
class StoredReceipt:
    """A receipt, as a store keeps it.

    Attributes:
        owner: See `owner_of`.
        open_runs: Runs whose records are erased once they have ended.
        blocked_by: The hindrances of the last scrub, in words.
        scrubbed: When the scrub was completed, if it was.
    """

    id: str
    owner: str
    request: str
    erased: Erased
    state: ReceiptState
    open_runs: Sequence[int] = ()
    blocked_by: Sequence[str] = ()
    scrubbed: int | None = None


def with_heirs(runs: Iterable[int], origins: Sequence[tuple[int, int]]) -> set[int]:
    """Return *runs*, and the earlier and later runs that had the same inputs.

    Args:
        origins: (run, the run whose input it took over), of all runs.
    """
    found, count = set(runs), 0
    while len(found) != count:
        count = len(found)
        for pair in origins:
            if not found.isdisjoint(pair):
                found.update(pair)
    return found


def hindrances_of(open_runs: Iterable[int]) -> tuple[str, ...]:
    """Return the hindrances of a scrub by runs that have not ended."""
    return tuple(f"run {run} has not ended; let it end, or discard it" for run in open_runs)


def owner_of(scope: Scope) -> str:
    """Return the name of a scope in a receipt, without its key."""
    return f"{'knowledge' if scope.key is None else 'space'} {scope.space}"


def hidden_key(scope: Scope, salt: bytes) -> str:
    """Return the digest that replaces the name of a forgotten key."""
    return wire.digest(["forgotten key", scope.space, scope.key], salt=salt).hex()


def hidden_scope(scope: Scope, salt: bytes) -> Scope:
    """Return the scope under which a forgotten key is kept."""
    return Scope(NO_SPACE, hidden_key(scope, salt))


def op_of_erasure(erasure: Erasure, salt: bytes) -> bytes:
    """Return the name of an erasure's op."""
    if erasure.named is not None:
        return erasure.named.op
    return wire.digest(["forgetting", erasure.receipt], salt=salt)


def stub_of(item_id: str, salt: bytes) -> bytes:
    """Return the digest of a purged item's id, by which items derived from it are found."""
    return wire.digest(["purged", item_id], salt=salt)


def has_read(
    read_set: str | None, ids_by_set: Mapping[SetRef, Collection[str]], scope: Scope
) -> bool:
    """Return whether a step of a run of *scope* looked up one of the items, given as ids by set."""
    if read_set is None:
        return False
    try:
        return any(
            one in ids_by_set.get(ref, ()) for ref, one in ReadSet.of(read_set, scope).item_refs()
        )
    except (AttributeError, TypeError, ValueError):  # another program may have stored another form
        document = wire.decode(read_set)
    read_parts = (
        [document.get(part) for part in ("items", "searches")]
        if isinstance(document, dict)
        else document
    )
    names = names_in(read_parts)
    return any(
        ref.name in names and not names.isdisjoint(ids)
        for ref, ids in ids_by_set.items()
        if ref.scope.key is None or ref.scope == scope
    )


def mentions_erased(
    result: Value, erased_ids: Collection[str], written_ids: Collection[str]
) -> bool:
    """Return whether an answer names an erased item, and none of that id that its commit wrote."""
    return any(name in erased_ids and name not in written_ids for name in names_in(result))


def names_in(value: Value) -> frozenset[str]:
    """Return every text in *value*, names of fields too."""
    texts: set[str] = set()
    unvisited: list[Value] = [value]
    while unvisited:
        value = unvisited.pop()
        if isinstance(value, str):
            texts.add(value)
        elif isinstance(value, list):
            unvisited.extend(value)
        elif isinstance(value, dict):
            unvisited.extend([*value, *value.values()])
    return frozenset(texts)


def forgotten(what: str) -> Forgotten:
    """Return the error for a repeated *what* whose results were erased."""
    return Forgotten(f"{what} was carried out before, and what it made was forgotten since")
