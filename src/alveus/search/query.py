"""The steps of a search from a question to hits, except the scoring.

A search refreshes the index, embeds the question, ranks, fetches the items, and records that they
were read.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import date, datetime
from functools import lru_cache, partial
from itertools import chain, islice, repeat
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from alveus.embed import Embedder, reads
from alveus.errors import EmbedderConflict, InvalidInput, Unavailable
from alveus.errors.short_repr import short_repr
from alveus.llm import MEMORY_DEFAULT, Reranker, RerankerChoice, candidates_of, checked_reranker
from alveus.search.embedding_worker import EmbeddingWorker, embed_texts
from alveus.search.index import Index, Quantised, ReadValues, SetIndex, quantised
from alveus.search.item_cache import CachedItem, ItemCache, cached_item
from alveus.search.large_sets import can_be_partial, part_of
from alveus.search.margin import Margins
from alveus.search.projection import MapPoints, map_of
from alveus.search.ranking import (
    WORDS_BESIDE,
    Calibration,
    FoundHits,
    Ranking,
    Scored,
    calibration_of,
)
from alveus.search.reranking import RERANKER_FAILURES, dated_text, reranked
from alveus.search.signals import (
    MAX_PARSED,
    MAX_TERMS,
    QuestionSignals,
    Signals,
    days_named,
    respelled,
)
from alveus.search.superseded import ComparedHit, Superseded, candidates, current_first, shared_keys
from alveus.store import (
    LargeSet,
    Scope,
    SearchCache,
    SearchView,
    SetInfo,
    SetRef,
    Store,
    StoredItem,
)
from alveus.store.filters import Filter
from alveus.store.finder import raising_damage
from alveus.store.items import Hits
from alveus.store.records import value_of
from alveus.store.scope import is_hidden
from alveus.store.times import ANY_TIME, Moment, ValidAt, check_set, valid_time
from alveus.values import words
from alveus.values.forks import HandleLock
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import (
    Value,
    checked_kind,
    choice,
    counted,
    microseconds,
    moment,
    valid_text,
)
from alveus.values.times import UTC_ZONE, Zone

EMBED_FIRST = 64
"""Most pending items that a search embeds first. If more are pending, its result is partial."""

REMEMBERED = 256
"""Most cached questions, with their signals and vectors."""

DEFAULTS = Signals()

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """The options of a search; see `MemorySet.search`.

    Attributes:
        valid_at: The time at which facts must be valid, in microseconds. "any" means any time. None
            means the moment that is searched.
        touch: Whether hits count as read.
        min_score: Least relevance of a hit, 0..1. None means that no relevance is computed.
        reranker: Orders the best hits again. None means that the hits keep their order.
        everything: Whether items without a matching word or a vector are hits too. For sets of at
            most a few thousand items.
        margin: Whether the hits get a margin; see `alveus.search.margin`.
        superseded: What becomes of hits that a later hit replaces. None means that hits are not
            compared.
    """

    limit: int = 10
    where: Filter | None = None
    at: Moment | None = None
    signals: Signals | None = None
    valid_at: int | Literal["any"] | None = None
    touch: bool = True
    min_score: float | None = None
    reranker: RerankerChoice = None
    everything: bool = False
    margin: bool = False
    superseded: Superseded | None = None

    @property
    def compared(self) -> int:
        """The number of hits among which the latest of a group is looked for."""
        return candidates(self.limit) if self.looks_at_changes else self.limit

    @property
    def looks_at_changes(self) -> bool:
        """Whether hits are compared. If items of any time are asked for, none is outdated."""
        return self.superseded is not None and self.valid_at != ANY_TIME

    def instants(self, now: int) -> tuple[int, int | None]:
        """Return two times: items must be unexpired at the first and valid at the second.

        If the second is None, items may be valid at any time.
        """
        time = now if self.at is None else self.at.time
        if self.valid_at == ANY_TIME:
            return time, None
        return time, time if self.valid_at is None else self.valid_at


def search_options(  # noqa: PLR0913 - the arguments of a search
    limit: int,
    where: Mapping[str, object] | None,
    at: Moment | None,
    signals: Signals | None,
    valid_at: ValidAt | None = None,
    *,
    min_score: float | None = None,
    reranker: RerankerChoice = MEMORY_DEFAULT,
    superseded: Superseded = "fold",
) -> SearchOptions:
    """Check the arguments of a search and return them as options; see `MemorySet.search`.

    Raises:
        InvalidFilter, InvalidInput: An argument cannot be used.
    """
    if min_score is not None and (type(min_score) not in (int, float) or not 0 <= min_score <= 1):
        raise InvalidInput(f"min_score must be a number from 0 to 1, not {short_repr(min_score)}")
    checked_kind(signals, Signals | None, "signals must be a Signals")
    choice(superseded, "superseded", "fold", "show", "hide")
    if reranker is not MEMORY_DEFAULT:
        checked_reranker(reranker)
    count, chosen = counted(limit, "limit", most=1000), Filter.parse(where)
    return SearchOptions(
        count,
        chosen,
        at,
        signals,
        valid_time(valid_at),
        min_score=min_score,
        reranker=reranker,
        superseded=superseded,
    )


@dataclass(frozen=True, slots=True)
class Drafted:
    """Uncommitted changes of a batch.

    Attributes:
        items: New versions of items in any set, by row.
        indexes: Indexes of the new versions in the searched sets.
        hidden: Rows that the batch ended, by set.
    """

    items: Mapping[int, StoredItem]
    indexes: Sequence[SetIndex]
    hidden: Mapping[SetRef, Collection[int]]


@dataclass(frozen=True, slots=True)
class _SearchRequest:
    """The sets, query and options of a search.

    Attributes:
        instants: See `SearchOptions.instants`.
        zone: The time zone of the asker.
        read_values: Returns the values of items by row, for filters on values.
    """

    infos: Sequence[SetInfo]
    query: str
    options: SearchOptions
    signals: Signals
    instants: tuple[int, int | None]
    calibration: Calibration | None
    reranker: Reranker | None
    zone: Zone
    read_values: ReadValues

    @property
    def asked_at(self) -> datetime:
        """The time of the question in the asker's time zone."""
        return self.zone.local(moment(self.instants[0]))

    def admits(self, cached: CachedItem) -> bool:
        """Return whether an item is unexpired and valid at the times of the search."""
        if cached.is_lasting:
            return True
        item, (now, valid_at) = cached.item(), self.instants
        if item.expire_at is not None and microseconds(item.expire_at) <= now:
            return False
        since, to = item.valid_from, item.valid_to
        return valid_at is None or (
            (since is None or microseconds(since) <= valid_at)
            and (to is None or valid_at < microseconds(to))
        )


class _Ranked(NamedTuple):
    """What a search found in the sets.

    Attributes:
        found: The best items.
        pending: The number of items that have no vector yet.
        question: The question's signals.
        nearest: The highest cosine of the question to an item of *found*, if a margin is wanted;
            0.0 if the embedder compared none.
    """

    found: FoundHits
    pending: int
    question: QuestionSignals
    nearest: float


class Searcher:
    """Searches the sets of one store.

    Args:
        reranker: Re-ranker of searches whose options leave the choice to the memory.
    """

    def __init__(  # noqa: PLR0913 - made once, by `Memory.open`
        self,
        store: Store,
        index: Index,
        embedder: Embedder,
        worker: EmbeddingWorker,
        clock: Callable[[], int],
        expects: Sequence[tuple[str, str]],
        *,
        reranker: Reranker | None = None,
    ) -> None:
        self._reranker = reranker
        self._store, self._index, self._embedder = store, index, embedder
        self._worker, self._clock, self._expects = worker, clock, expects
        self._vectors: OrderedDict[str, Quantised | None] = OrderedDict()
        self._questions = lru_cache(REMEMBERED)(QuestionSignals.of)
        self._item_cache = ItemCache(store)
        self._mutex = HandleLock()
        self._checked = -1, 0
        self._calibration: Calibration | None = None
        self._margins = Margins(embedder)

    @property
    def store(self) -> Store:
        """The store that is searched; `raising_damage` asks it about damage."""
        return self._store

    @raising_damage
    def search(
        self,
        sets: Sequence[SetRef] | Scope,
        query: str,
        options: SearchOptions,
        drafted: Drafted | None = None,
        *,
        now: int | None = None,
        zone: Zone = UTC_ZONE,
    ) -> Hits:
        """Return the best items of *sets*, best first. Sets that do not exist are left out.

        Args:
            sets: The sets to search. A scope means all its sets that are not hidden.
            drafted: Uncommitted changes of a batch, which the search includes.
            now: The time at which items must be unexpired and valid, if *options* name no other. By
                default the clock's time.
            zone: The asker's time zone, in which "yesterday" in a question is resolved.
        """
        with self._store.observer.search(sets, query, options.limit) as observed:
            query = checked_query(query)
            view = self._view(sets)
            infos = _visible(view.sets, sets)
            if drafted is not None and not (drafted.indexes or drafted.hidden):
                drafted = None
            if not infos and drafted is None:
                return observed.answered(Hits())
            if options.margin:
                self._vector(query)  # before a lock is held: an embedder may be slow
            instants = options.instants(self._clock() if now is None else now)
            if options.min_score is not None and self._calibration is None:
                self._calibration = calibration_of(self._embedder)
            calibration = None if options.min_score is None else self._calibration
            signals = _signals(options, infos)
            reranker = self._reranker if options.reranker is MEMORY_DEFAULT else options.reranker
            request = _SearchRequest(
                infos,
                query,
                options,
                signals,
                instants,
                calibration,
                reranker,
                zone,
                partial(self._values_of, {} if drafted is None else drafted.items),
            )
            if options.at is None:
                return observed.answered(self._search_now(view, request, drafted))
            return observed.answered(self._search_at(options.at, request))

    def _search_at(self, at: Moment, request: _SearchRequest) -> Hits:
        infos, (time, valid_at) = request.infos, request.instants
        for info in infos:
            check_set(self._store, info.ref, at)
        commit, dimensions = at.commit, self._embedder.dimensions
        indexes = [
            SetIndex.build(self._store.features(info.number, at=commit), dimensions=dimensions)
            for info in infos
        ]
        hidden = [
            self._store.expired_or_invalid_rows(info.number, now=time, valid_at=valid_at, at=commit)
            for info in infos
        ]
        ranked = self._rank(indexes, request, self._question(request, indexes), hidden)
        return self._hits(ranked, {}, request)

    @raising_damage
    def points(
        self,
        sets: Sequence[SetRef] | Scope,
        *,
        where: Filter | None = None,
        limit: int | None = None,
    ) -> MapPoints:
        """Return the committed items of sets as points; see `MemorySet.points`."""
        dimensions = self._embedder.dimensions
        if not dimensions:
            name = self._embedder.name
            raise InvalidInput(
                f"embedder {name!r} makes no vectors for a map; open the memory with another "
                "embedder"
            )
        view = self._view(sets)
        infos = _visible(view.sets, sets)
        numbers, names = [info.number for info in infos], [info.ref.name for info in infos]
        hidden = self._hidden(infos, (self._clock(), None), None)

        def work(indexes: list[SetIndex]) -> MapPoints:
            self._check_embedder(view)
            read = partial(self._values_of, {})
            allowed = [
                _allowed(one, where, rows, read) for one, rows in zip(indexes, hidden, strict=True)
            ]
            return map_of(indexes, names, allowed, limit=limit)

        found = self._index.read(numbers, dimensions=dimensions, work=work, view=view)
        if not found.unplaced or self._store.read_only:
            return found
        with suppress(Unavailable):  # the store cannot be written now: pending items are no points
            self._worker.embed(limit=EMBED_FIRST, set_numbers=numbers)
        return self._index.read(numbers, dimensions=dimensions, work=work)

    def _search_now(
        self, view: SearchView, request: _SearchRequest, drafted: Drafted | None
    ) -> Hits:
        request, large_sets = self._with_large_sets_last(request, drafted)
        numbers = [info.number for info in request.infos if info.number not in large_sets]
        drafted_indexes = () if drafted is None else drafted.indexes
        hidden = self._hidden(request.infos, request.instants, drafted)
        ready, dimensions = self._embedder.instant, self._embedder.dimensions
        seen: SearchView | None = view

        def work(sets: list[SetIndex]) -> _Ranked | str:
            self._check_embedder(view)
            others = [name for one in large_sets.values() for name in one.speakers]
            question = self._question(request, [*sets, *drafted_indexes], others)
            if not ready and dimensions and question.meaning not in self._vectors:
                return question.meaning
            parts, excluded = self._large_set_parts(request, question, large_sets, hidden)
            return self._rank([*sets, *parts, *drafted_indexes], request, question, excluded)

        def answer() -> _Ranked:
            # Call a slow embedder while no lock is held; the next attempt finds the vector cached.
            nonlocal ready, seen
            while True:
                result = self._index.read(numbers, dimensions=dimensions, work=work, view=seen)
                seen = None
                if not isinstance(result, str):
                    return result
                self._vector(result)
                ready = True

        ranked = answer()
        if ranked.pending and not self._store.read_only:
            with suppress(
                Unavailable
            ):  # the store cannot be written now: the answer is partial, and says so
                self._worker.embed(limit=EMBED_FIRST, set_numbers=numbers)
            ranked = answer()
        items: Mapping[int, StoredItem] = {} if drafted is None else drafted.items
        return self._hits(ranked, items, request)

    def _view(self, sets: Sequence[SetRef] | Scope) -> SearchView:
        notes = [name for name, _ in self._expects]
        cache = SearchCache(self._index.seq, self._index.numbers, notes)
        return self._store.search_view(sets, cache)

    def _hidden(
        self, infos: Sequence[SetInfo], instants: tuple[int, int | None], drafted: Drafted | None
    ) -> list[Collection[int]]:
        """Return for each set the rows that must not be hits: expired, invalid or ended by a batch.

        The store is asked only about sets that may have expired or invalid items.
        """
        now, valid_at = instants
        hidden: list[Collection[int]] = []
        for info in infos:
            ended = () if drafted is None else drafted.hidden.get(info.ref, ())
            expiring = info.next_expiry is not None and info.next_expiry <= now
            if expiring or (info.has_validity and valid_at is not None):
                out = self._store.expired_or_invalid_rows(info.number, now=now, valid_at=valid_at)
                hidden.append({*ended, *out})
            else:
                hidden.append(ended)
        return hidden

    def _with_large_sets_last(
        self, request: _SearchRequest, drafted: Drafted | None
    ) -> tuple[_SearchRequest, dict[int, LargeSet]]:
        """Return the request with its large sets last, and the figures of the large sets by number.

        Large sets are those for which the store chooses candidates.
        """
        least = self._store.large_items
        if least is None or drafted is not None or not can_be_partial(request.signals):
            return request, {}
        large_sets: dict[int, LargeSet] = {}
        terms, dimensions = words.terms(request.query)[:MAX_TERMS], self._embedder.dimensions
        for info in request.infos:
            if info.items >= least:
                large_set = self._store.large_set(info.number, terms, dimensions=dimensions)
                if large_set is not None:
                    large_sets[info.number] = large_set
        infos = sorted(request.infos, key=lambda info: info.number in large_sets)
        return replace(request, infos=infos) if large_sets else request, large_sets

    def _large_set_parts(
        self,
        request: _SearchRequest,
        question: QuestionSignals,
        large_sets: Mapping[int, LargeSet],
        hidden: Sequence[Collection[int]],
    ) -> tuple[list[SetIndex], Sequence[Collection[int]]]:
        """Return the searched parts of large sets, and the hidden rows of each set."""
        parts: list[SetIndex] = []
        excluded = list(hidden)
        where, dimensions = request.options.where, self._embedder.dimensions
        for position, info in enumerate(request.infos):
            if info.number in large_sets:
                rows, read, whole = hidden[position], request.read_values, large_sets[info.number]
                allow = partial(_allowed, where=where, hidden=rows, read=read)
                ranking = self._ranking((), request, question)
                part, outer = part_of(
                    self._store, info.number, whole, ranking, where, allow, dimensions=dimensions
                )
                parts.append(part)
                excluded[position] = {*rows, *outer}
        return parts, excluded

    def _ranking(
        self,
        sets: Sequence[SetIndex],
        request: _SearchRequest,
        question: QuestionSignals,
        allowed: Sequence[NDArray[np.bool_] | None] = (),
    ) -> Ranking:
        """Return the ranking of the docs of *sets*; see `Ranking.allowed`."""
        reranked = 0 if request.reranker is None else candidates_of(request.reranker)
        vector = self._vector(question.meaning)
        return Ranking(
            sets,
            question,
            vector,
            limit=max(request.options.compared, reranked),
            signals=request.signals,
            now=request.instants[0],
            allowed=allowed,
            read=self._read_times(sets, request) if sets and request.signals.decay else None,
            calibration=request.calibration,
            everything=request.options.everything,
            unread=vector is None and bool(self._embedder.dimensions),
            words_beside=WORDS_BESIDE.get(self._embedder.name, 1.0),
        )

    def _question(
        self, request: _SearchRequest, sets: Sequence[SetIndex], others: Sequence[str] = ()
    ) -> QuestionSignals:
        """Return the signals of the question for *sets*, cached for recent questions.

        Args:
            others: Speakers of large sets, which are not among *sets*.
        """
        speakers = (*(name for one in sets for name in one.speakers if name), *others)
        query = request.query
        if request.signals.names:

            def occurs(term: int) -> bool:
                return any(one.frequency(term) for one in sets)

            query = respelled(query, speakers, request.signals.names, occurs)
        signals_of = self._questions if len(query) <= MAX_PARSED else QuestionSignals.of
        question = signals_of(query, speakers=speakers)
        return question.asked_on(request.asked_at.date()) if question.relative else question

    def _check_embedder(self, view: SearchView) -> None:
        """Raise `EmbedderConflict` if the sets have vectors of another embedder.

        Notes of the store are compared only if the index has changed since the last check.
        """
        state = self._index.seq, self._index.epoch
        if state != self._checked:
            for name, text in self._expects:
                is_read = state == (view.seq, view.epoch) and name in view.notes
                stored = view.notes[name] if is_read else self._store.note(name)
                if stored is not None and stored != text:
                    raise EmbedderConflict(name, asked=text, found=stored)
            self._checked = state

    def _rank(
        self,
        sets: Sequence[SetIndex],
        request: _SearchRequest,
        question: QuestionSignals,
        hidden: Sequence[Collection[int]],
    ) -> _Ranked:
        options = request.options
        allowed = [
            _allowed(one, options.where, rows, request.read_values)
            for one, rows in zip(sets, chain(hidden, repeat(())), strict=False)
        ]
        ranking = self._ranking(sets, request, question, allowed)
        found = ranking.best()
        pending = sum([one.pending for one in sets]) if self._embedder.dimensions else 0
        nearest = 0.0
        if options.margin and request.signals.meaning:
            hits = list(found.hits)
            found = FoundHits(found.rows, iter(hits))
            nearest = _nearest(sets, hits[: options.limit], self._vector(request.query))
        return _Ranked(found, pending, question, nearest)

    def _read_times(
        self, sets: Sequence[SetIndex], request: _SearchRequest
    ) -> list[NDArray[np.int64]]:
        """Return for each set the time of each doc's last read; 0 if never read or uncommitted."""
        times = [np.zeros(one.size, np.int64) for one in sets]
        for info, one, set_times in zip(request.infos, sets, times, strict=False):
            rows = self._store.access_times(info.number)
            if rows and one.size:
                read = np.array(sorted(rows), np.int64)
                positions = np.minimum(read[:, 0].searchsorted(one.row), len(read) - 1)
                matching = read[positions, 0] == one.row
                set_times[matching] = read[positions[matching], 1]
        return times

    def _vector(self, text: str) -> Quantised | None:
        """Return the vector of a question, or None if the embedder does not read the question."""
        if not self._embedder.dimensions or not text.strip():
            return None
        with self._mutex:
            if text in self._vectors:
                self._vectors.move_to_end(text)
                return self._vectors[text]
        vector: Quantised | None = None
        if reads(self._embedder, text):
            vector = quantised(embed_texts(self._embedder, [text])[0])
        with self._mutex:
            self._vectors[text] = vector
            while len(self._vectors) > REMEMBERED:
                self._vectors.popitem(last=False)
        return vector

    def _hits(
        self, ranked: _Ranked, drafted: Mapping[int, StoredItem], request: _SearchRequest
    ) -> Hits:
        options = request.options
        touch = options.touch and options.at is None
        rows, scored = ranked.found
        failure: str | None = None
        if request.reranker is not None:
            most = max(options.limit, candidates_of(request.reranker))
            best = list(islice(scored, most))
            ordered, failure = self._reranked(request.reranker, best, drafted, request)
            rows, scored = [one.row for one in ordered], iter(ordered)
        now = self._clock()
        if touch and not drafted:
            items = self._item_cache.items(rows, now=now, epoch=self._index.epoch)
        else:
            items = self._from_store(rows, drafted)
        found = (
            ComparedHit(one, item)
            for one, item in zip(scored, items, strict=False)
            if item and (item.is_lasting or request.admits(item))
        )
        if options.looks_at_changes and (shared := shared_keys(items)):
            instant, valid_at = request.instants
            until, fold = instant if valid_at is None else valid_at, options.superseded != "show"
            found = current_first(list(found), shared, request.query, until, fold=fold)
        if (least := options.min_score) is not None:
            found = (one for one in found if (one.scored.relevance or 0.0) >= least)
        best = list(islice(found, options.limit))
        hits = [one.hit(hide=options.superseded == "hide") for one in best]
        if touch:
            self._note_read([one.cached.first for one in best], now)
        dated = _dated(ranked.question, request) if ranked.question.relative else None
        return Hits(
            hits,
            partial=ranked.pending > 0,
            reranker_failure=failure,
            dated=dated,
            margin=self._margin(ranked.nearest, request) if ranked.nearest else None,
        )

    def _margin(self, nearest: float, request: _SearchRequest) -> float | None:
        vector, calibration = self._vector(request.query), request.calibration
        if vector is None or calibration is None:
            return None
        return self._margins.margin(vector, nearest, calibration)

    def _reranked(
        self,
        reranker: Reranker,
        scored: list[Scored],
        drafted: Mapping[int, StoredItem],
        request: _SearchRequest,
    ) -> tuple[list[Scored], str | None]:
        """Return the best hits in the re-ranker's order, and None.

        If the re-ranker fails, return the best hits in the search's order, and the reason. Scores
        become those of the re-ranker; ties keep the order of the search. The part "rerank" is the
        difference from the search's score, so parts still add up.
        """
        items = self._from_store([one.row for one in scored], drafted)
        present = [
            (one, cached.item())
            for one, cached in zip(scored, items, strict=True)
            if cached and request.admits(cached)
        ]
        if not present:
            return [], None
        texts = [dated_text(item) for _, item in present]
        try:
            scores = reranked(reranker, request.query, texts)
        except RERANKER_FAILURES as error:
            logger.warning("hits are not re-ranked: %s", error)
            return [one for one, _ in present], str(error)
        reranked_hits = [
            one._replace(score=score, parts={**one.parts, "rerank": score - one.score})
            for (one, _), score in zip(present, scores, strict=True)
        ]
        reranked_hits.sort(key=lambda one: -one.score)
        return reranked_hits, None

    def _from_store(
        self, rows: Sequence[int], drafted: Mapping[int, StoredItem]
    ) -> list[CachedItem | None]:
        """Return the item of each row, None for a row that no longer exists."""
        committed = self._store.items_by_row([row for row in rows if row not in drafted])
        stored_by_row = {stored.row: stored for stored in committed}
        stored_by_row |= {row: drafted[row] for row in rows if row in drafted}
        found = map(stored_by_row.get, rows)
        return [stored and cached_item(stored) for stored in found]

    def _values_of(
        self, drafted: Mapping[int, StoredItem], rows: Sequence[int]
    ) -> dict[int, Value]:
        committed = self._store.items_by_row([row for row in rows if row not in drafted])
        found = [*committed, *(drafted[row] for row in rows if row in drafted)]
        return {stored.row: value_of(stored.record) for stored in found}

    def touch(self, firsts: Sequence[int]) -> None:
        """Record a read of the items with these first rows."""
        if firsts:
            self._note_read(firsts, self._clock())

    def _note_read(self, firsts: Sequence[int], now: int) -> None:
        self._store.touch(firsts, time=now)
        self._item_cache.touched(firsts, now)

    def renew(self, expiries: Sequence[tuple[int, int]], *, now: int) -> int:
        """Make items expire later. Return how many expiries changed; see `Ledger.renew`."""
        renewed = self._store.renew(expiries, now=now)
        self._item_cache.drop([row for row, _ in expiries])
        return renewed

    def forget(self, set_numbers: Sequence[int]) -> None:
        """Drop all cached data, also on disk, of sets whose items were erased."""
        self._item_cache.clear()
        for number in set_numbers:
            self._index.drop(number)

    def clear(self) -> None:
        """Drop the cached items, to free RAM."""
        self._item_cache.clear()


def _nearest(sets: Sequence[SetIndex], scored: Sequence[Scored], vector: Quantised | None) -> float:
    """Return the highest cosine of a vector to the docs that were found, or 0.0."""
    if vector is None:
        return 0.0
    docs = [
        np.array([one.doc for one in scored if one.set == n], np.int32) for n in range(len(sets))
    ]
    found = [one.cosines(vector, of) for one, of in zip(sets, docs, strict=True) if len(of)]
    return float(max((cosines.max() for cosines in found), default=0.0))


def _dated(question: QuestionSignals, request: _SearchRequest) -> str | None:
    """Return the days that words such as "yesterday" in a question mean, and their time zone.

    Return None if the question has no such word.
    """
    now = request.asked_at
    days = days_named(question.text, now.date())
    if days is None:
        return None
    begins, ends = map(date.isoformat, days)
    span = begins if begins == ends else f"{begins} to {ends}"
    return f"{span}, counted in {request.zone.name(now)}"


def _visible(infos: Sequence[SetInfo], sets: Sequence[SetRef] | Scope) -> Sequence[SetInfo]:
    """Return the searched sets, without the hidden sets of a scope."""
    if not isinstance(sets, Scope):
        return infos
    return [info for info in infos if not is_hidden(info.ref)]


def _allowed(
    one: SetIndex, where: Filter | None, hidden: Collection[int], read: ReadValues
) -> NDArray[np.bool_] | None:
    mask = None if where is None else one.mask(where, read)
    if hidden:
        visible = ~np.isin(one.row, list(hidden))
        mask = visible if mask is None else mask & visible
    return mask


def checked_query(query: object) -> str:
    """Return *query* with half surrogate pairs replaced as by `valid_text`.

    Raises:
        InvalidInput: *query* is not a text.
    """
    if type(query) is not str:
        raise InvalidInput(f"a query must be a str, not {short_repr(query)}")
    return valid_text(query).value


def _signals(options: SearchOptions, infos: Sequence[SetInfo]) -> Signals:
    if options.signals is not None:
        return options.signals
    weights = [info.definition.signals for info in infos]
    if weights and weights[0] is not None and all(w == weights[0] for w in weights):
        return Signals.from_json(weights[0])
    return DEFAULTS
