"""Erasures and their results, and what a step of a run read: frozen values, no I/O.

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
    """A search that a step made.

    Attributes:
        sets: The sets that were searched.
        hits: The (set, id) of each hit, best first.
    """

    sets: Sequence[SetRef]
    query: str
    hits: Sequence[tuple[SetRef, str]]


@dataclass(frozen=True, slots=True)
class ReadSet:
    """The paths and items that a step looked up.

    `StepDone.read_set` has them in wire form; empty parts may be omitted::

        {"short_term": [path, …], "sensory": [path, …], "items": [[owner, set, [id, …]], …],
         "searches": [[owner, [set, …], query, [[set, id], …]], …]}

    The owner of a set is the name of a knowledge, or null if the set belongs to the run's key.
    """

    short_term: Sequence[Path]
    sensory: Sequence[Path]
    items: Sequence[tuple[SetRef, Sequence[str]]]
    searches: Sequence[Searched]

    @classmethod
    def of(cls, text: str | None, scope: Scope) -> ReadSet:
        """Return the read set that *text* describes.

        Args:
            text: `StepDone.read_set`; None returns an empty read set.
            scope: The scope of the step's run.
        """
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
        """Yield the (set, id) of each item that was looked up or was a hit of a search."""
        for ref, ids in self.items:
            for one in ids:
                yield ref, one
        for search in self.searches:
            yield from search.hits


ReceiptState: TypeAlias = Literal["erased", "rewritten", "scrubbed"]
"""Where erased data may still be.

Erased: no read returns the data. Rewritten: only the log and side files may contain the data.
Scrubbed: no file of the store contains the data.
"""

STATES: tuple[ReceiptState, ...] = ("erased", "rewritten", "scrubbed")
"""The states of a receipt; a file stores the index of the state in this tuple."""

NO_SPACE = ""
"""The space in which a store keeps forgotten keys. No application has this name."""


class UnreachableCopy(NamedTuple):
    """A possible copy of erased data that a store cannot erase.

    Attributes:
        what: What may hold the copy.
        note: How much data it holds, or what the user can do.
        until: When the copy ceases to exist, or "" if the store cannot know.
    """

    what: str
    note: str
    until: str = ""


ERASED_HOW = "{}"
"""The `Compaction.how` of a compaction that added or retired an erased item."""


@dataclass(frozen=True, slots=True)
class Erasure:
    """An erasure to be done.

    Attributes:
        receipt: The id of the receipt. A second erasure with the same id changes nothing.
        request: The request that the receipt keeps: JSON without content.
        whole_key: Whether to erase the whole key, including its name. If not, *items* are erased.
        items: The items to erase, as (set, ids).
        uncertain_runs: The runs that the result returns as `Erased.unsure`.
        dry_run: Only return what would be erased.
        named: The op of the erasure. A second erasure with the same op changes nothing.
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
    """The result of an erasure, which is one commit.

    Attributes:
        commit: The number of the commit. None if there was nothing to erase, or for a dry run.
        counts: The number of erased rows by kind; kinds without erased rows are left out.
        derived: How many erased items were derived from the requested ones, directly or not.
        restored: How many other sources of the derived items became live again.
        lost: How many derived items cannot be made again, as some of their sources were purged.
        unread: How many erased outputs some consumer had not read yet.
        delivered: How many erased outputs all consumers had read.
        shared: How many items of knowledge commits of the key wrote. These items stay.
        sets: Numbers of the sets from which rows were erased.
        puts: Commits of erased runs that put values into an exact tree. The values stay.
        open: Unfinished runs that wrote or read erased items. Their records stay until they end.
        unsure: Runs that failed in a task: their errors and durable results may hold erased data.
        marks: The sets of the restored items.
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
        """Return the form that a receipt stores: all fields except `marks`, which holds names."""
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
        owner: The space or knowledge of the erased data, as `owner_of` returns it.
        open_runs: Unfinished runs whose records will be erased once the runs have ended.
        blocked_by: Why the last scrub could not be completed: one sentence for each reason.
        scrubbed: When the scrub was completed, or None.
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
        origins: For each run of the store that took over an input: (the run, the run that had the
            input before).
    """
    found, count = set(runs), 0
    while len(found) != count:
        count = len(found)
        for pair in origins:
            if not found.isdisjoint(pair):
                found.update(pair)
    return found


def hindrances_of(open_runs: Iterable[int]) -> tuple[str, ...]:
    """Return a sentence for each of *open_runs*, which keeps a scrub from being completed."""
    return tuple(f"run {run} has not ended; let it end, or discard it" for run in open_runs)


def owner_of(scope: Scope) -> str:
    """Return the name by which a receipt keeps a scope; it does not contain the key."""
    return f"{'knowledge' if scope.key is None else 'space'} {scope.space}"


def hidden_key(scope: Scope, salt: bytes) -> str:
    """Return the digest that replaces the name of a forgotten key."""
    return wire.digest(["forgotten key", scope.space, scope.key], salt=salt).hex()


def hidden_scope(scope: Scope, salt: bytes) -> Scope:
    """Return the scope under which a store keeps a forgotten key."""
    return Scope(NO_SPACE, hidden_key(scope, salt))


def op_of_erasure(erasure: Erasure, salt: bytes) -> bytes:
    """Return the op of an erasure: the op of its `named`, or else a digest of its receipt id."""
    if erasure.named is not None:
        return erasure.named.op
    return wire.digest(["forgetting", erasure.receipt], salt=salt)


def stub_of(item_id: str, salt: bytes) -> bytes:
    """Return a digest of a purged item's id. With it, a store finds items derived from the item."""
    return wire.digest(["purged", item_id], salt=salt)


def has_read(
    read_set: str | None, ids_by_set: Mapping[SetRef, Collection[str]], scope: Scope
) -> bool:
    """Return whether a step looked up one of the items.

    Args:
        read_set: `StepDone.read_set`.
        ids_by_set: The ids of the items, by set.
        scope: The scope of the step's run.
    """
    if read_set is None:
        return False
    try:
        return any(
            one in ids_by_set.get(ref, ()) for ref, one in ReadSet.of(read_set, scope).item_refs()
        )
    except (AttributeError, TypeError, ValueError):  # another program may store read sets otherwise
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
    """Return whether *result* contains an id of *erased_ids* that is not in *written_ids*.

    Args:
        result: The answer of a commit.
        written_ids: The ids of the items that the commit wrote and that are not erased.
    """
    return any(name in erased_ids and name not in written_ids for name in names_in(result))


def names_in(value: Value) -> frozenset[str]:
    """Return all texts in *value*, including the names of fields."""
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
    """Return the error for a repetition of *what*, such as a request, whose results were erased."""
    return Forgotten(f"{what} was carried out before, and what it made was forgotten since")
