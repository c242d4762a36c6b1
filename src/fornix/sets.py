"""Memory sets: the vague memory. Given a writer, a set knows neither run nor store."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from types import EllipsisType
from typing import Literal, TypeAlias, overload

from fornix.errors import InvalidInput, NotFound, SetDefinitionConflict, StaleItem
from fornix.filters import Filter
from fornix.items import Hits, Item
from fornix.recall import SearchOptions
from fornix.records import as_passed, facts_of, item_of
from fornix.signals import Signals
from fornix.store import (
    Add,
    Define,
    Definition,
    ItemChange,
    Record,
    Replace,
    Retire,
    SetRef,
    StoredItem,
)
from fornix.values import Value, checked, checked_name, counted
from fornix.writer import AsOf, Call, Change, Where, Writer

OnExisting: TypeAlias = Literal["error", "keep", "update"]
"""What `add` does with an id that is taken: refuse it, skip the item, or replace the other."""

PAGE = 256


class MemorySet:
    """A named set of items: added to, searched by meaning, bounded if it is told so.

    Opening one writes nothing; the set comes to be with its first add.
    Every change is atomic, durable when the call returns, and found by search at once (by its
    words; by meaning as soon as it is embedded).
    """

    def __init__(self, writer: Writer, ref: SetRef, asked: Mapping[str, object]) -> None:
        self._writer, self._ref = writer, ref
        self._define = self._definition_to_make(asked)

    def _definition_to_make(self, asked: Mapping[str, object]) -> tuple[Define, ...]:
        given = {name: value for name, value in asked.items() if value is not None}
        if not given:
            return ()
        wanted = definition(given)
        info = self._writer.info(self._ref)
        if info is None:
            return (Define(self._ref, wanted),)
        if any(getattr(wanted, n) != getattr(info.definition, n) for n in given):
            if not info.items:  # nothing in it could be meant otherwise
                return (Define(self._ref, wanted, replace=True),)
            raise SetDefinitionConflict(self.name, asked=given, found=info.definition)
        return ()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r} of {self._owner}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MemorySet) and self._ref == other._ref

    def __hash__(self) -> int:
        return hash(self._ref)

    @property
    def _owner(self) -> str:
        scope = self._ref.scope
        return f"knowledge {scope.space!r}" if scope.key is None else f"key {scope.key!r}"

    @property
    def name(self) -> str:
        """Its name among the sets of its key, or of the knowledge."""
        return self._ref.name

    @property
    def definition(self) -> Definition:
        """What the set was first added to with; the default while nothing was added."""
        info = self._writer.info(self._ref)
        if info is not None:
            return info.definition
        return self._define[0].definition if self._define else Definition()

    def __len__(self) -> int:
        info = self._writer.info(self._ref)
        return 0 if info is None else info.items

    def __contains__(self, item_id: object) -> bool:
        return isinstance(item_id, str) and self.get(item_id) is not None

    def __iter__(self) -> Iterator[Item]:
        return (item_of(stored) for stored in self._walk(newest_first=False, at=None))

    # --- writing ------------------------------------------------------------------------------

    def add(  # noqa: PLR0913 - everything that may be known of an item; all but the value by name
        self,
        value: object,
        *,
        id: str | None = None,
        text: str | None = None,
        time: datetime | None = None,
        metadata: Mapping[str, object] | None = None,
        importance: float = 0.0,
        speaker: str | None = None,
        role: str | None = None,
        session: str | None = None,
        on_existing: OnExisting = "error",
        idempotency_key: str | None = None,
    ) -> str:
        """Add one item; return its id.

        With an *idempotency_key* a second call changes nothing and returns the first one's id.

        Raises:
            DuplicateItem: The id is taken, and *on_existing* is "error".
            IdempotencyConflict: The key was used before with other arguments.
            InvalidInput: Something passed cannot be stored.
            SetFull, KeyFull: A limit was reached.
        """
        item = (
            value
            if isinstance(value, Item)
            else Item(value, id, text, metadata or {}, importance, speaker, role, session, time)
        )
        return self._add([item], on_existing, idempotency_key)[0]

    def add_many(
        self,
        items: Sequence[object],
        *,
        on_existing: OnExisting = "error",
        idempotency_key: str | None = None,
    ) -> list[str]:
        """Add items in one commit: all of them, or none; return their ids in order."""
        if type(items) not in (list, tuple):
            raise InvalidInput("add_many takes a list of values or Items; add() takes one")
        made = [item if isinstance(item, Item) else Item(item) for item in items]
        return self._add(made, on_existing, idempotency_key)

    def _add(
        self, items: list[Item], on_existing: OnExisting, idempotency_key: str | None
    ) -> list[str]:
        if on_existing not in ("error", "keep", "update"):
            raise InvalidInput(
                f"on_existing must be 'error', 'keep' or 'update', not {on_existing!r}"
            )
        for item in items:
            if item.id is not None:
                checked_name(item.id, "an item's id")

        def arguments() -> Value:
            return [self.name, on_existing, [as_passed(item) for item in items]]

        def build(new_id: Callable[[], str]) -> Change:
            pairs = [(new_id() if item.id is None else item.id, item) for item in items]
            records = self._writer.records(pairs)
            ids: list[Value] = [item_id for item_id, _ in pairs]
            if on_existing == "error":
                changes = [
                    Add(self._ref, record, fresh=item.id is None)
                    for record, item in zip(records, items, strict=True)
                ]
                return Change(changes, ids, self._define)
            return Change(self._merged(records, on_existing), ids, self._define, retry=True)

        answer = self._writer.write(Call("add", arguments, idempotency_key), build)
        self._define = ()
        return [str(item_id) for item_id in _list(answer)]

    def _merged(self, records: Sequence[Record], on_existing: OnExisting) -> list[ItemChange]:
        """Return changes that add what is new, and keep or replace what is there."""
        latest = {record.id: record for record in records}
        if len(latest) != len(records):
            raise InvalidInput("one call names an id twice; merge those items first")
        live = self._writer.get(self._ref, list(latest), at=None)
        changes: list[ItemChange] = []
        for record, stored in zip(latest.values(), live, strict=True):
            if stored is None:
                changes.append(Add(self._ref, record))
            elif on_existing == "update":
                changes.append(Replace(self._ref, stored.version, record))
        return changes

    def update(  # noqa: PLR0913 - what may be changed, all by name
        self,
        id: str,
        value: object = ...,
        *,
        text: str | EllipsisType | None = ...,
        time: datetime | EllipsisType = ...,
        metadata: Mapping[str, object] | EllipsisType = ...,
        importance: float | EllipsisType = ...,
        speaker: str | EllipsisType | None = ...,
        role: str | EllipsisType | None = ...,
        session: str | EllipsisType | None = ...,
        if_version: int | None = None,
        idempotency_key: str | None = None,
    ) -> Item:
        """Change what is passed of an item, as a new version of it; return that.

        What is left out (``...``) stays; a new *value* without *text* brings its own text.

        Raises:
            NotFound: There is no live item of this id.
            StaleItem: *if_version* is given, and is not its version.
        """
        given = {
            "value": value,
            "text": text,
            "time": time,
            "metadata": metadata,
            "importance": importance,
            "speaker": speaker,
            "role": role,
            "session": session,
        }
        changes = {name: new for name, new in given.items() if new is not ...}
        if "value" in changes and "text" not in changes:
            changes["text"] = None

        def arguments() -> Value:
            names: list[Value] = [*sorted(changes)]
            asked = as_passed(replace(Item(value=None), **changes))
            return [self.name, id, names, if_version, asked]

        def build(_new_id: Callable[[], str]) -> Change:
            stored = self._live(id)
            if if_version is not None and stored.version != if_version:
                raise StaleItem(id, expected=if_version, found=stored.version)
            item = replace(item_of(stored), **changes)
            record = self._writer.records([(id, item)])[0]
            change = Replace(self._ref, stored.version, record)
            return Change([change], id, retry=if_version is None)

        self._writer.write(Call("update", arguments, idempotency_key), build)
        return item_of(self._live(id))

    def _live(self, item_id: str) -> StoredItem:
        stored = self._writer.get(self._ref, [checked_name(item_id, "an item's id")], at=None)[0]
        if stored is None:
            raise NotFound(f"set {self.name!r} of {self._owner} has no item {item_id!r}")
        return stored

    def delete(
        self,
        ids: str | Sequence[str] | None = None,
        *,
        where: Where | None = None,
        idempotency_key: str | None = None,
    ) -> int:
        """Retire items by id, or all that match *where*; return how many there were.

        They are gone from every read of the present; `history`, ``as_of=`` and undo keep them.
        Ids that are not there are not counted.
        """
        if (ids is None) == (where is None):
            raise InvalidInput("delete takes ids or where=, one of them; clear() empties the set")
        wanted = None if ids is None else _ids(ids)
        chosen = Filter.parse(where)

        def arguments() -> Value:
            return [self.name, list(wanted) if wanted is not None else None, checked(where)]

        def build(_new_id: Callable[[], str]) -> Change:
            if wanted is not None:
                found = [s for s in self._writer.get(self._ref, wanted, at=None) if s is not None]
            else:
                found = [s for s in self._walk(newest_first=False, at=None) if _fits(s, chosen)]
            unique = {stored.record.id: stored.version for stored in found}
            changes = [Retire(self._ref, item_id, version) for item_id, version in unique.items()]
            return Change(changes, len(changes), retry=True)

        answer = self._writer.write(Call("delete", arguments, idempotency_key), build)
        return answer if isinstance(answer, int) else 0

    def clear(self, *, idempotency_key: str | None = None) -> int:
        """Retire every item; return how many there were. The set and its definition stay."""
        return self.delete(where={}, idempotency_key=idempotency_key)

    def redefine(
        self,
        *,
        capacity: int | None = None,
        compaction: str | None = None,
        signals: Signals | None = None,
    ) -> Definition:
        """Change the definition of a set; what is left out stays. A capacity of 0 lifts it.

        What is over a smaller capacity is dealt with by the next add.
        """
        given = {"capacity": capacity, "compaction": compaction, "signals": signals}
        chosen = {name: value for name, value in given.items() if value is not None}

        def build(_new_id: Callable[[], str]) -> Change:
            new = definition(chosen, start=self.definition)
            return Change([], None, [Define(self._ref, new, replace=True)])

        self._writer.write(Call("redefine", lambda: None), build)
        self._define = ()
        return self.definition

    # --- reading ------------------------------------------------------------------------------

    @overload
    def get(self, ids: str, *, as_of: AsOf | None = None) -> Item | None: ...
    @overload
    def get(
        self, ids: builtins.list[str] | tuple[str, ...], *, as_of: AsOf | None = None
    ) -> builtins.list[Item | None]: ...

    def get(
        self, ids: str | builtins.list[str] | tuple[str, ...], *, as_of: AsOf | None = None
    ) -> Item | builtins.list[Item | None] | None:
        """Return the item of an id, or None; for several ids, a list in their order."""
        wanted = _ids(ids)
        found = self._writer.get(self._ref, wanted, at=self._at(as_of))
        if as_of is None:
            self._writer.touch([stored for stored in found if stored is not None])
        items = [None if stored is None else item_of(stored) for stored in found]
        return items[0] if isinstance(ids, str) else items

    def list(
        self,
        *,
        where: Where | None = None,
        limit: int | None = None,
        after: str | None = None,
        newest_first: bool = False,
        as_of: AsOf | None = None,
    ) -> builtins.list[Item]:
        """Return all items (that match *where*), by time; nothing is cut unless *limit* says so.

        Args:
            after: Id of the last item of the page before.
        """
        chosen, at = Filter.parse(where), self._at(as_of)
        if limit is not None:
            limit = counted(limit, "limit", least=0)
        start = None
        if after is not None:
            checked_name(after, "after")
            last = self._writer.get(self._ref, [after], at=at)[0]
            if last is None:
                raise NotFound(f"set {self.name!r} has no item {after!r} to go on after")
            start = position(last)
        found: builtins.list[Item] = []
        for stored in self._walk(newest_first=newest_first, at=at, after=start):
            if limit is not None and len(found) >= limit:
                break
            if _fits(stored, chosen):
                found.append(item_of(stored))
        return found

    def recent(self, n: int = 10, *, as_of: AsOf | None = None) -> builtins.list[Item]:
        """Return the last *n* items by time, oldest first; 0 gives none."""
        counted(n, "n", least=0)
        if n == 0:
            return []
        newest = self._writer.page(
            self._ref, after=None, limit=n, newest_first=True, at=self._at(as_of)
        )
        return [item_of(stored) for stored in reversed(newest)]

    def history(self, id: str) -> builtins.list[Item]:
        """Return every version of an item, oldest first, also after it was deleted.

        The last one has `retired` set if the item is gone.
        """
        rows = self._writer.versions(self._ref, checked_name(id, "an item's id"))
        return [replace(item_of(stored), retired=retired) for stored, retired in rows]

    def search(
        self,
        query: str,
        *,
        limit: int = 10,
        where: Where | None = None,
        as_of: AsOf | None = None,
        signals: Signals | None = None,
    ) -> Hits:
        """Return the items that answer *query* best, by words, meaning and signals.

        Deterministic; ties by id. A filter hides items, it never changes a score.

        Raises:
            InvalidFilter: *where* cannot be understood.
            InvalidInput: *query* is not a str, or *limit* not 1..1,000.
        """
        options = search_options(limit, where, self._at(as_of), signals)
        return self._writer.search([self._ref], query, options)

    def _at(self, as_of: AsOf | None) -> int | None:
        return None if as_of is None else self._writer.commit_of(as_of)

    def _walk(
        self, *, newest_first: bool, at: int | None, after: tuple[int, int] | None = None
    ) -> Iterator[StoredItem]:
        while page := self._writer.page(
            self._ref, after=after, limit=PAGE, newest_first=newest_first, at=at
        ):
            yield from page
            after = position(page[-1])


class KnowledgeSet(MemorySet):
    """A set that belongs to no key: shared by all who name the same knowledge.

    It changes only by explicit calls: it has no capacity and is never compacted.
    """


def position(stored: StoredItem) -> tuple[int, int]:
    """Return where an item stands among the items of its set."""
    time = stored.record.time
    return (stored.updated if time is None else time, stored.first)


def clearing(name: str) -> Value:
    """Return what a call that empties a set is known by, among those that delete."""
    return [name, None, {}]


def _fits(stored: StoredItem, chosen: Filter | None) -> bool:
    return chosen is None or chosen.matches(*facts_of(stored))


def _ids(ids: str | Sequence[str]) -> list[str]:
    if isinstance(ids, str):
        ids = [ids]
    if not isinstance(ids, (list, tuple)):
        raise InvalidInput(f"ids must be a str or a list of them, not {ids!r}")
    wanted = list(ids)
    return [checked_name(item_id, "an item's id") for item_id in wanted]


def _list(value: Value) -> list[Value]:
    return value if isinstance(value, list) else []


def search_options(
    limit: int, where: Where | None, at: int | None, signals: Signals | None
) -> SearchOptions:
    """Check what a search was asked with."""
    if signals is not None and not isinstance(signals, Signals):  # pyright: ignore[reportUnnecessaryIsInstance] - user input
        raise InvalidInput(f"signals must be a Signals, not {signals!r}")
    return SearchOptions(counted(limit, "limit", most=1000), Filter.parse(where), at, signals)


def definition(given: Mapping[str, object], start: Definition = Definition()) -> Definition:  # noqa: B008 - frozen
    """Return *start* with what was given, checked."""
    capacity = given.get("capacity", start.capacity)
    if "capacity" in given:
        capacity = counted(capacity, "capacity", least=0) or None
    compaction = given.get("compaction", start.compaction)
    if compaction not in ("trim", "reject"):
        raise InvalidInput(f"compaction must be 'trim' or 'reject', not {compaction!r}")
    signals = given.get("signals")
    return Definition(
        capacity=capacity if isinstance(capacity, int) else None,
        compaction=str(compaction),
        item_type=str(given["item_type"]) if "item_type" in given else start.item_type,
        signals=signals.to_json() if isinstance(signals, Signals) else start.signals,
    )
