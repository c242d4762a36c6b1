"""Reads of a memory set: by id, in order, in the past, by meaning."""

from __future__ import annotations

import builtins
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Protocol, overload

from alveus.errors import NotFound, SetDefinitionConflict, StoreReadOnly, Unavailable
from alveus.llm import MEMORY_DEFAULT, RerankerChoice
from alveus.search.projection import Colouring, MapPoints
from alveus.search.query import search_options
from alveus.search.signals import Signals
from alveus.search.superseded import Superseded
from alveus.sets.set_editor import SetEditor, owner_text
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
from alveus.values.storable import checked_kind, checked_name, counted, flag

SHOWN = 10
"""Items of a set that a notebook shows."""


def _is_timed(stored: StoredItem) -> bool:
    return not stored.record.valid_from is stored.record.valid_to is None


class GetsItems(Protocol):
    """The signature of `SetReads.get`, for methods that wrap it.

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
    """The reads of a set. Opening a set writes nothing."""

    _upkeep = True
    """Whether the set may have a capacity and be compacted."""

    def __init__(
        self, writer: Writer, ref: SetRef, options: Mapping[str, object], *, ttl: Ttl | None = None
    ) -> None:
        if ttl is not None:
            checked_kind(ttl, Ttl, "ttl must be a Ttl, such as Ttl(timedelta(days=1))")
        self._writer, self._ref, self._ttl = writer, ref, ttl
        self._editor = SetEditor(writer, ref)
        self._options = {name: value for name, value in options.items() if value is not None}
        self._define = self._definition_to_make()

    def _definition_to_make(self) -> tuple[Define, ...]:
        """Return the definition to commit with the next add.

        Return () if the set was opened without options, or its definition has all of them already.

        Raises:
            SetDefinitionConflict: The set contains items and has another definition.
        """
        options = self._options
        if not options:
            return ()
        defined, info = definition(options), self._writer.info(self._ref)
        if info is None:
            return (Define(self._ref, defined),)
        if all(getattr(defined, name) == getattr(info.definition, name) for name in options):
            return ()
        if not info.items:  # an empty set has no conflict
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
        """The name of the set within its key or knowledge."""
        return self._ref.name

    @property
    def definition(self) -> Definition:
        """The definition of the set. For an empty set, the definition that the next add commits."""
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
        """Return the item with an id, or None if it does not exist.

        For a list of ids, return a list of the same length and order: an item or None for each id.
        """
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
        """Return all items, or all items that match *where*, in order of time.

        The list is complete unless *limit* cuts it.

        Args:
            after: Id of the last item of the previous page. The item may have been deleted since.
            valid_at: Return only facts that are valid at this time; by default all facts.

        Raises:
            NotFound: The set has no item with the id *after*, and keeps no version of the item.
            HistoryPruned: The state at *as_of* is no longer kept.
        """
        chosen, at, when = Filter.parse(where), self._at(as_of), valid_time(valid_at)
        flag(newest_first, "newest_first")
        if limit is not None:
            limit = counted(limit, "limit", least=0)
        start = None
        if after is not None:
            checked_name(after, "after")
            last = self._writer.get(self._ref, [after], at=at)[0]
            if last is None and at is None:  # it was deleted since the page before was read
                last = next(
                    (row for row, _ in reversed(self._writer.versions(self._ref, after))), None
                )
            if last is None:
                raise NotFound(
                    f"set {self.name!r} has no item {after!r} to list after; leave out after= "
                    "to begin with the first item"
                )
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
        """Return the last *n* items by time, oldest first; 0 returns none.

        Facts that are not valid are left out.

        Args:
            valid_at: The time at which the facts must be valid: by default now, or *as_of* if it is
                given. "any" includes all facts.

        Raises:
            HistoryPruned: The state at *as_of* is no longer kept.
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
        """Return every kept version of an item, oldest first, even if the item was deleted.

        The last version has `retired` set if the item was deleted or has expired.
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
        superseded: Superseded = "fold",
    ) -> Hits:
        """Return the items that answer *query* best, by words, meaning and signals.

        Deterministic; ties are broken by id. A filter hides items and never changes a score. Facts
        that are not valid are hidden in the same way.

        Args:
            as_of: Search the state of the set at a moment of the past.
            valid_at: The time at which facts must be valid: by default now, or *as_of* if it is
                given. "any" includes all facts.
            min_score: Leave out hits whose relevance is lower. A relevance is a number from 0 to 1
                and can be compared across searches; each `Hit` has its relevance if *min_score* is
                given, even if it is 0. Measured on LoCoMo with minilm: 94 of 100 items that answer
                a question have a relevance of 0.5 or more; of the ten best items for a question
                without an answer, 12 of 100 have it.
            reranker: Reorders the best hits: as many as its `candidates` says, by default 50, and
                never fewer than *limit*. A `Hit` then has the reranker's score. If the reranker
                fails, the hits keep their order, and `Hits` has the reason. The default is the
                reranker of `Memory.open`, if there is one. None means a search without a reranker.
            superseded: What becomes of hits that a later item replaces, such as "I live in Lisbon"
                after "I moved to Porto". "fold" moves them into `Hit.supersedes` of the later hit,
                "show" returns them behind it, and "hide" leaves them out. Folded hits do not count
                as read. With *valid_at* "any", no item is replaced.

        Raises:
            HistoryPruned: The state at *as_of* is no longer kept.
            InvalidFilter: *where* is not a valid filter.
            InvalidInput: *query* is not a str, *limit* not 1..1,000, *min_score* not 0..1, or
                *superseded* none of its values.
        """
        options = search_options(
            limit,
            where,
            self._at(as_of),
            signals,
            valid_at,
            min_score=min_score,
            reranker=reranker,
            superseded=superseded,
        )
        hits = self._writer.search([self._ref], query, options)
        if as_of is None and self._ttl is not None:
            ids = [str(hit.item.id) for hit in hits if hit.item.expire_at is not None]
            found = self._writer.get(self._ref, ids, at=None) if ids else []
            self._renew_read([stored for stored in found if stored is not None])
        return hits

    def points(self, *, where: Where | None = None, limit: int | None = None) -> MapPoints:
        """Return all items, or all items that match *where*, as points in a plane.

        Near points mean similar items. The plane shows the two directions in which these items
        differ most. The call reads the vector of each item; uncommitted items of a batch are left
        out.

        Args:
            limit: Most points. If there are more items, the points are an even sample of them. By
                default all items have a point.

        Raises:
            InvalidInput: The memory's embedder has no vectors, such as "words".
        """
        return self._writer.points([self._ref], where=where, limit=limit)

    def map(
        self, *, colour: Colouring = "time", where: Where | None = None, limit: int | None = None
    ) -> Figure:
        """Return a picture of the points of `points`, coloured by time, speaker or set.

        The picture is a matplotlib figure; no window opens.

        Raises:
            InvalidInput: See `points`.
            Unsupported: matplotlib is not installed; ``alveus[plot]`` installs it.
        """
        return self.points(where=where, limit=limit).plot(colour=colour)

    def _renew_read(self, items: Sequence[StoredItem]) -> None:
        """Renew items that were read, if the set was opened with ``Ttl(…, refresh="read")``.

        If a renewal fails, the read still succeeds.
        """
        if self._ttl is not None and self._ttl.refresh == "read":
            with suppress(Unavailable, StoreReadOnly):
                self._writer.renew(items, ttl_us(self._ttl.after))

    def _at(self, as_of: AsOf | None) -> Moment | None:
        return None if as_of is None else self._writer.moment_of(as_of)
