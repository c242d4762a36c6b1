"""Reads of a memory set: by id, in order, as it was, by meaning."""

from __future__ import annotations

import builtins
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Protocol, overload

from alveus.errors import InvalidInput, NotFound, SetDefinitionConflict, StoreReadOnly, Unavailable
from alveus.errors.short_repr import short_repr
from alveus.llm import MEMORY_DEFAULT, RerankerChoice
from alveus.search.projection import Colouring, MapPoints
from alveus.search.query import search_options
from alveus.search.signals import Signals
from alveus.sets.set_editor import owner_text
from alveus.sets.set_options import checked_ids, definition, fits
from alveus.sets.writer import PAGE, Where, Writer
from alveus.state import Ttl, ttl_us
from alveus.store import Define, Definition, SetRef, StoredItem
from alveus.store.filters import Filter
from alveus.store.items import Hits, Item, item_html
from alveus.store.records import item_of, position_of
from alveus.store.times import ANY_TIME, AsOf, Moment, ValidAt, is_valid_at, valid_time
from alveus.values.keywords import suggest_names_in_part
from alveus.values.markup import Figure, Html
from alveus.values.storable import checked_name, counted, flag

SHOWN = 10
"""Items that a notebook shows of a set."""


def _is_timed(stored: StoredItem) -> bool:
    return not stored.record.valid_from is stored.record.valid_to is None


class GetsItems(Protocol):
    """The call `SetReads.get` where a method wraps it.

    mypy keeps one overload of a method that is wrapped: https://github.com/python/mypy/issues/15737
    """

    @overload
    def __call__(self, ids: str, *, as_of: AsOf | None = None) -> Item | None: ...
    @overload
    def __call__(
        self, ids: list[str] | tuple[str, ...], *, as_of: AsOf | None = None
    ) -> list[Item | None]: ...


@suggest_names_in_part
class SetReads:
    """A set as it can be read: opening one writes nothing."""

    _upkeep = True
    """Whether it may have a capacity, and be compacted."""

    def __init__(
        self, writer: Writer, ref: SetRef, options: Mapping[str, object], *, ttl: Ttl | None = None
    ) -> None:
        if ttl is not None and not isinstance(ttl, Ttl):  # pyright: ignore[reportUnnecessaryIsInstance] - user input
            raise InvalidInput(
                f"ttl must be a Ttl, such as Ttl(timedelta(days=1)), not {short_repr(ttl)}"
            )
        self._writer, self._ref, self._ttl = writer, ref, ttl
        self._options = {name: value for name, value in options.items() if value is not None}
        self._define = self._definition_to_make()

    def _definition_to_make(self) -> tuple[Define, ...]:
        """Return what goes with the next add: nothing, once the set is as it was asked for.

        Raises:
            SetDefinitionConflict: The set holds items, and is otherwise.
        """
        options = self._options
        if not options:
            return ()
        defined, info = definition(options), self._writer.info(self._ref)
        if info is None:
            return (Define(self._ref, defined),)
        if all(getattr(defined, name) == getattr(info.definition, name) for name in options):
            return ()
        if not info.items:  # nothing in it could be meant otherwise
            return (Define(self._ref, definition(options, start=info.definition)),)
        raise SetDefinitionConflict(self.name, asked=options, found=info.definition)

    def __repr__(self) -> str:
        kind = "MemorySet" if self._upkeep else "KnowledgeSet"
        return f"<{kind} {self.name!r} of {self._owner}>"

    def _repr_html_(self) -> str:
        from alveus.values import html

        return html.drawn(self._html, repr(self))

    def _html(self) -> Html:
        from alveus.values import html

        count, capacity = len(self), self.definition.capacity
        newest = self.list(limit=SHOWN, newest_first=True)
        rows = [[item_html(item)] for item in newest]
        notes = [f"capacity: {capacity:,} items"] if capacity is not None else []
        notes += [f"… and {count - len(rows):,} older"] if count > len(rows) else []
        return html.frame(
            f"Set {self.name!r} of {self._owner}: {html.counted(count, 'item')}",
            html.table(["Newest items"], rows) if rows else html.soft("nothing was added yet"),
            notes=notes,
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SetReads) and self._ref == other._ref

    def __hash__(self) -> int:
        return hash(self._ref)

    @property
    def _owner(self) -> str:
        return owner_text(self._ref.scope)

    @property
    def name(self) -> str:
        """Its name among the sets of its key, or of the knowledge."""
        return self._ref.name

    @property
    def definition(self) -> Definition:
        """What the set is kept by; of an empty one, what it will be with its next add."""
        info = self._writer.info(self._ref)
        if info is None and self._options:
            return definition(self._options)
        if self._define and (info is None or not info.items):
            return self._define[0].definition
        return Definition() if info is None else info.definition

    def __len__(self) -> int:
        return self._writer.count(self._ref)

    def __contains__(self, item_id: object) -> bool:
        return isinstance(item_id, str) and self.get(item_id) is not None

    def __iter__(self) -> Iterator[Item]:
        return (item_of(stored) for stored in self._writer.walk(self._ref))

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
        id_list = checked_ids(ids)
        stored_items = self._writer.get(self._ref, id_list, at=self._at(as_of))
        if as_of is None:
            found = list(filter(None, stored_items))
            self._writer.touch(found)
            self._renew_read(found)
        if isinstance(ids, str):
            return item_of(stored_items[0]) if stored_items[0] is not None else None
        return [None if stored is None else item_of(stored) for stored in stored_items]

    def list(
        self,
        *,
        where: Where | None = None,
        limit: int | None = None,
        after: str | None = None,
        newest_first: bool = False,
        as_of: AsOf | None = None,
        valid_at: ValidAt | None = None,
    ) -> builtins.list[Item]:
        """Return all items (that match *where*), by time; nothing is cut unless *limit* says so.

        Args:
            after: Id of the last item of the page before; it may have been deleted since.
            valid_at: Only facts that held then; by default all, whenever they hold.

        Raises:
            NotFound: There is no item *after*, nor a history of it.
            HistoryPruned: What was there at *as_of* is no longer kept.
        """
        chosen, at, when = Filter.parse(where), self._at(as_of), valid_time(valid_at)
        flag(newest_first, "newest_first")
        if limit is not None:
            limit = counted(limit, "limit", least=0)
        start = None
        if after is not None:
            checked_name(after, "after")
            last = self._writer.get(self._ref, [after], at=at)[0]
            if last is None and at is None:  # it went since the page before was read
                last = next(
                    (row for row, _ in reversed(self._writer.versions(self._ref, after))), None
                )
            if last is None:
                raise NotFound(f"set {self.name!r} has no item {after!r} to go on after")
            start = position_of(last)
        items: builtins.list[Item] = []
        if limit == 0:
            return items
        page = PAGE if limit is None else min(limit, PAGE)
        walk = self._writer.walk(
            self._ref, newest_first=newest_first, at=at, after=start, page=page
        )
        for stored in walk:
            if fits(stored, chosen) and (
                not isinstance(when, int) or is_valid_at(stored.record, when)
            ):
                items.append(item_of(stored))
                if len(items) == limit:
                    break
        return items

    def recent(
        self, n: int = 10, *, as_of: AsOf | None = None, valid_at: ValidAt | None = None
    ) -> builtins.list[Item]:
        """Return the last *n* items by time, oldest first; 0 gives none.

        Facts that do not hold are left out.

        Args:
            valid_at: When they have to hold, by default now (or at *as_of*); "any": whenever.

        Raises:
            HistoryPruned: What was there at *as_of* is no longer kept.
        """
        counted(n, "n", least=0)
        at, when = self._at(as_of), valid_time(valid_at)
        newest: builtins.list[StoredItem] = []
        walk = self._writer.walk(self._ref, newest_first=True, at=at, page=min(n, PAGE))
        for stored in walk if n else ():
            if when != ANY_TIME and _is_timed(stored):
                if when is None:
                    when = self._writer.now() if at is None else at.time
                if not is_valid_at(stored.record, when):
                    continue
            newest.append(stored)
            if len(newest) == n:
                break
        return [item_of(stored) for stored in reversed(newest)]

    def history(self, id: str) -> builtins.list[Item]:
        """Return every version of an item that is kept, oldest first, also after it was deleted.

        The last one has `retired` set if the item is gone, or has expired.
        """
        rows = self._writer.versions(self._ref, checked_name(id, "an item's id"))
        return [replace(item_of(stored), retired=retired) for stored, retired in rows]

    def search(  # noqa: PLR0913 - keywords all but the first
        self,
        query: str,
        *,
        limit: int = 10,
        where: Where | None = None,
        as_of: AsOf | None = None,
        signals: Signals | None = None,
        valid_at: ValidAt | None = None,
        min_score: float | None = None,
        reranker: RerankerChoice = MEMORY_DEFAULT,
    ) -> Hits:
        """Return the items that answer *query* best, by words, meaning and signals.

        Deterministic; ties by id. A filter hides items, it never changes a score; so does time:
        what does not hold is left out.

        Args:
            as_of: Search what was there at a moment of the past.
            valid_at: When facts have to hold, by default now (or at *as_of*); "any": whenever.
            min_score: Leave out hits whose relevance (0..1, comparable across searches) is lower.
                Of items that answer a question, 94 of 100 have 0.5 or more (LoCoMo, minilm); of
                the ten best for a question that nothing answers, 12 of 100. 0 leaves out none, and
                has each `Hit` tell its relevance.
            reranker: Orders the best hits again, 50 unless its `candidates` says otherwise, and
                never fewer than *limit*; a `Hit` then has its score. If it fails, they stay in
                their order, and `Hits` say why. By default that of `Memory.open`, if any; None:
                this search goes without.

        Raises:
            HistoryPruned: What was there at *as_of* is no longer kept.
            InvalidFilter: *where* cannot be understood.
            InvalidInput: *query* is not a str, *limit* not 1..1,000, or *min_score* not 0..1.
        """
        options = search_options(
            limit, where, self._at(as_of), signals, valid_at, min_score=min_score, reranker=reranker
        )
        hits = self._writer.search([self._ref], query, options)
        if as_of is None and self._ttl is not None:
            ids = [hit.item.id for hit in hits if hit.item.expire_at is not None]
            self._renew_found([item_id for item_id in ids if item_id is not None])
        return hits

    def points(self, *, where: Where | None = None, limit: int | None = None) -> MapPoints:
        """Return all items (that match *where*) as points, near each other if they mean the same.

        The plane shows the two directions in which these items differ most. It reads the vector
        of each; what a batch did not commit yet is not there.

        Args:
            limit: Points at most; of more items, some from everywhere. None: all.

        Raises:
            InvalidInput: The memory's embedder has no vectors, as "words" has none.
        """
        return self._writer.points([self._ref], where=where, limit=limit)

    def map(
        self, *, colour: Colouring = "time", where: Where | None = None, limit: int | None = None
    ) -> Figure:
        """Return a picture of what `points` returns, coloured by time, speaker or set.

        It is a figure of matplotlib: no window is opened.

        Raises:
            InvalidInput: As of `points`.
            Unsupported: matplotlib is not installed; ``alveus[plot]`` brings it.
        """
        return self.points(where=where, limit=limit).plot(colour=colour)

    def _renew_found(self, ids: Sequence[str]) -> None:
        """Renew what a search found."""
        stored_items = self._writer.get(self._ref, ids, at=None) if ids else []
        self._renew_read([stored for stored in stored_items if stored is not None])

    def _renew_read(self, items: Sequence[StoredItem]) -> None:
        """Renew what was read, if this set is opened so. It never stands in the way of a read."""
        if self._ttl is not None and self._ttl.refresh == "read":
            with suppress(Unavailable, StoreReadOnly):
                self._writer.renew(items, ttl_us(self._ttl.after))

    def _at(self, as_of: AsOf | None) -> Moment | None:
        return None if as_of is None else self._writer.moment_of(as_of)
