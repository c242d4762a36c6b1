"""Searches the items and the knowledge of a prompt, and decides how much of them it shows."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import ceil, inf
from typing import TYPE_CHECKING, cast

from alveus.facts.fact import FACTS
from alveus.memory.prompt.candidates import (
    Found,
    PromptCandidate,
    Ref,
    Searched,
    item_candidate,
    item_piece,
    shown_item,
)
from alveus.memory.prompt.context import ALL, ContextRequest, Piece, Sources
from alveus.memory.prompt.quoting import CONTRADICTS
from alveus.search.margin import is_courtesy
from alveus.search.signals import is_personal
from alveus.store import Scope, SetRef
from alveus.store.items import Hit, Hits, Item
from alveus.store.records import item_of
from alveus.text.messages import MESSAGES, OBSERVATIONS
from alveus.values.times import Zone

if TYPE_CHECKING:
    from alveus.sets.writer import Where
    from alveus.store.times import Moment

HITS = 20
"""The most hits of a search without a budget."""

FEWEST_HITS, MOST_HITS, TOKENS_A_HIT = 20, 200, 10
"""With a budget, the limit of hits is one hit per 10 tokens, but at least 20 and at most 200."""

FILTERED = 10_000
"""The most items of sets among which a filter is asked how many it admits."""

WHOLE = (0.1, -inf), (1 / 3, -0.2), (1 / 2, -0.1)
"""Sets are shown whole if their items need at most the first share of the room, and the margin of
the query, if it has one, is at least the second number; or else by the next pair."""

LASTING_SHARE = 0.3
"""The share of the room that lasting items get before all others."""

AMONG = 100
"""The least number of hits among which lasting items are found."""

LASTING = "a lasting item: it may matter to queries that share no word with it"
"""The reason for showing a lasting item before others."""

LASTING_TOKENS = 40
"""The most tokens of a lasting item."""

LASTING_LEAST = 0.05
"""The least relevance of a lasting item, as a share of the best relevance."""

LEAST_PERSONAL = -0.2
"""The least margin of a request for the user himself that gets lasting items."""

PERSONAL = 0.1
"""The number that is added to the margin of a request for the user himself."""

ALONE: Mapping[str, object] = {
    "any": [
        {"$speaker": {"exists": False}, "$session": {"exists": False}},
        {"subject": {"exists": True}},
    ]
}
"""The filter of items that nobody said in a session, and of facts."""

RELATED = 0.03, 0.12
"""A query with a margin below the first number gets no items but lasting ones. One with a margin
above it by the second number may fill the room; between them, the share of the room grows evenly.
Source: PrefEval and LoCoMo, one half; see `bench/prompting.py`."""

TOO_LITTLE = "the query resembles the items too little for more of them"
"""The reason for leaving out an item if the query gets a part of the room."""

LASTING_RELEVANCE = 0.15
"""The least relevance of the best item for lasting items, if the query has no margin."""

LEAST_RELEVANCE = 0.5
"""The least relevance of the best item if the query has no margin: 99.6 % of answerable questions
have such an item, and 15 % of unrelated ones (LoCoMo, minilm)."""


class ItemSearch:
    """Searches the sets of a key and of knowledge for one prompt.

    Args:
        room: The tokens that the instructions and the query leave; None without a budget.
        at: The moment of the past that is read, or None for the present.
    """

    def __init__(
        self,
        sources: Sources,
        request: ContextRequest,
        zone: Zone,
        room: int | None,
        at: Moment | None,
    ) -> None:
        self._writer, self._sources = sources.writer, sources
        self._request, self._zone, self._room, self._at = request, zone, room, at
        self._used_whole = self._used_lasting = 0
        self._is_personal = is_personal(request.query or "")
        self._limit = request.limit or (
            HITS if room is None else min(MOST_HITS, max(FEWEST_HITS, room // TOKENS_A_HIT))
        )

    def search(self, part: Searched) -> Found:
        """Return the candidates that a search finds for *part*.

        All searches together may show sets whole, and lasting items, within their shares of the
        room: a later search gets the tokens that this search leaves.
        """
        request = self._request
        scope, sets = self._sources.scope, request.sets
        if part == "knowledge":
            scope, sets = self._writer.knowledge, request.knowledge
        if request.query is None or sets is None or sets == []:
            return Found()
        refs = scope if sets is ALL else [SetRef(scope, name) for name in sets]
        stored, by_worth = self._count(refs), request.min_score is None
        courtesy = by_worth and is_courtesy(request.query)
        if by_worth and not courtesy and (whole := self._whole(part, scope, refs, stored)):
            return whole
        limit = max(self._limit, AMONG if by_worth else 0)
        hits = self._hits(scope, refs, limit=limit)
        found = self._of_hits(hits, part, most=self._limit)
        if courtesy and stored:
            return _withheld(hits, found, "a greeting, thanks or a farewell needs no memory")
        if by_worth and self._wants_lasting(hits.margin) and stored > len(hits):
            found += self._more_lasting(part, scope, refs, found, limit)
        if not found:
            return Found(hits, problem=self._why_nothing(part, scope, refs, stored), stored=stored)
        if by_worth:
            return self._by_worth(hits, found)
        return _withheld(hits, found, _too_low(hits, request.min_score or 0.0))

    def _whole(
        self, part: Searched, scope: Scope, refs: Scope | Sequence[SetRef], stored: int
    ) -> Found | None:
        """Return all items of the sets if they are shown whole, or else None."""
        most = self._limit if self._request.where is None else max(self._limit, FILTERED)
        if self._at is None and stored > most:
            return None
        # One hit more than the limit shows whether more items exist.
        hits = self._hits(scope, refs, limit=self._limit + 1, everything=True)
        found = self._of_hits(hits, part, most=self._limit)
        if len(hits) > self._limit or not self._fit_whole(found, hits.margin):
            return None
        for candidate in found:
            candidate.is_whole = True
        return Found(hits, found)

    def _why_nothing(
        self, part: Searched, scope: Scope, refs: Scope | Sequence[SetRef], stored: int
    ) -> str:
        """Return why a search found nothing."""
        request, is_past = self._request, self._at is not None
        if not stored and not is_past:
            if not isinstance(refs, Scope):
                return "the sets that were searched hold no items"
            is_all = part == "items" or request.sets is not None
            return "it holds no items yet" if is_all else "knowledge holds no items yet"
        if self._hits(scope, refs, limit=1, everything=stored <= FILTERED):
            return "no item matches the query"
        then = "of that moment" if is_past else "that holds now"
        if request.valid_at is not None:
            then = "that held at the time of valid_at"
        if request.where is not None:
            return f"no item {then} matches the filters"
        return "it held no items at that moment" if is_past else f"there is no item {then}"

    def outdated(self, found: Mapping[Searched, Found]) -> list[Piece]:
        """Return the pieces of items that a later hit replaces, which are not shown."""
        return [
            item_piece(
                part,
                shown_item(old, self._request),
                reason=f"{hit.item.id} replaces it: it says so later",
            )
            for part, one in found.items()
            for hit in one.hits[: self._limit]
            for old in hit.supersedes
        ]

    def _wants_lasting(self, margin: float | None) -> bool:
        """Return whether the query may need lasting items that share nothing with it."""
        return self._is_personal and (margin is None or margin >= LEAST_PERSONAL)

    def _more_lasting(
        self,
        part: Searched,
        scope: Scope,
        refs: Scope | Sequence[SetRef],
        found: Sequence[PromptCandidate],
        limit: int,
    ) -> list[PromptCandidate]:
        """Return lasting items that are not among *found*, the most relevant first.

        In a large memory, the best hits may all be turns of conversations.
        """
        all_sets = (
            [SetRef(scope, name) for name in self._writer.sets(scope)]
            if isinstance(refs, Scope)
            else refs
        )
        sets = [ref for ref in all_sets if not self._is_conversation(ref)]
        if not sets:
            return []
        where = {"all": [self._request.where, ALONE]} if self._request.where else ALONE
        everything = sum(map(self._writer.count, sets)) <= FILTERED
        hits = self._hits(scope, sets, limit=limit, everything=everything, where=where)
        known = {ref for one in found for ref in one.refs}
        more = [one for one in self._of_hits(hits, part, most=0) if not one.refs & known]
        return [
            replace(one, piece=replace(one.piece, rank=len(found) + at))
            for at, one in enumerate(filter(self._is_lasting, more), start=1)
        ]

    def _is_conversation(self, ref: SetRef) -> bool:
        info = self._writer.info(ref)
        return info is None or info.definition.item_type in (OBSERVATIONS, MESSAGES)

    def _by_worth(self, hits: Hits, found: Sequence[PromptCandidate]) -> Found:
        """Return candidates with as many tokens as the margin of the query allows.

        Lasting items come first: they may matter to requests that share no word with them. They are
        in order of relevance, since neighbours and sessions say nothing about them.
        """
        is_personal = self._wants_lasting(hits.margin)
        share, problem = _share(hits, is_personal=is_personal)
        if share < 1.0 and _names_speaker(self._request.query or "", hits):
            share, problem = 1.0, ""
        lasting = sorted(filter(self._is_lasting, found), key=lambda one: -_relevance(one))
        first: list[PromptCandidate] = []
        if share or is_personal or _may_touch(hits):
            first = self._first(lasting, least=0.0 if is_personal else LASTING_LEAST)
        ranked = iter(lasting)
        found = [next(ranked) if self._is_lasting(one) else one for one in found]
        taken = set(map(id, first))
        others = [one for one in found[: self._limit] if id(one) not in taken]
        del others[max(0, self._limit - len(first)) :]
        if self._room is None:
            limit, most = ceil(share * len(others)), None
        else:
            limit, most = len(others) if share else 0, int(share * self._room)
            most = None if share == 1.0 else max(most, self._total(first))
        for one in others[limit:]:
            one.left_out = problem
        return Found(hits, [*first, *others], "" if first or share else problem, most)

    def _first(self, lasting: Sequence[PromptCandidate], *, least: float) -> list[PromptCandidate]:
        """Return the lasting items that come first, within what is left of their share.

        Args:
            least: The least relevance of an item, as a share of the best relevance.
        """
        first: list[PromptCandidate] = []
        for one in lasting:
            if _relevance(one) < least * _relevance(lasting[0]):
                break
            used = self._used_lasting + self._size(one)
            fits = self._room is None or used <= LASTING_SHARE * self._room
            if fits and len(first) < self._limit:
                self._used_lasting = used
                one.piece = replace(one.piece, reason=LASTING)
                first.append(one)
        return first

    def _is_lasting(self, one: PromptCandidate) -> bool:
        """Return whether a candidate is a fact, or a short item that nobody said in a session."""
        item = cast("Hit", one.hit).item
        return item.set_name == FACTS or (_is_alone(item) and self._size(one) <= LASTING_TOKENS)

    def _size(self, one: PromptCandidate) -> int:
        return self._request.budget.count(f"{one.line}\n")

    def _total(self, found: Sequence[PromptCandidate]) -> int:
        """Return the number of tokens of candidates with the headings of their days."""
        days = {one.day for one in found if one.day}
        headings = sum(self._request.budget.count(f"{day}\n") for day in days)
        return headings + sum(map(self._size, found))

    def _count(self, refs: Scope | Sequence[SetRef]) -> int:
        if isinstance(refs, Scope):
            return sum(self._writer.counts(refs).values())
        return sum(map(self._writer.count, refs))

    def _hits(
        self,
        scope: Scope,
        refs: Scope | Sequence[SetRef],
        *,
        limit: int,
        everything: bool = False,
        where: Where | None = None,
    ) -> Hits:
        request = self._request
        options = replace(
            replace(request, where=where or request.where).search_options(self._limit, self._at),
            limit=limit,
            everything=everything,
            min_score=None if request.min_score == 0 else 0.0,  # 0.0: compute each relevance
            margin=request.min_score is None,
        )
        hits = self._writer.search(refs, request.query or "", options)
        return self._side_by_side(scope, hits)

    def _side_by_side(self, scope: Scope, hits: Hits) -> Hits:
        """Return the hits, each followed by the facts that contradict it and still exist.

        A fact is not marked as contradicted if none of the contradicting facts exists any more.
        """
        if not any(hit.item.metadata.get(CONTRADICTS) for hit in hits):
            return hits
        hits_by_ref: dict[Ref, Hit] = {}
        for hit in hits:
            item, ids = hit.item, hit.item.metadata.get(CONTRADICTS)
            others = self._contradicting(SetRef(scope, item.set_name or ""), ids)
            if isinstance(ids, list):
                metadata = {**item.metadata, CONTRADICTS: [other.id for other in others]}
                hit = replace(hit, item=replace(item, metadata=metadata))  # noqa: PLW2901 - as shown
            hits_by_ref.setdefault((item.set_name, item.id), hit)
            for other in others:
                beside = Hit(other, hit.score, {}, hit.relevance)
                hits_by_ref.setdefault((other.set_name, other.id), beside)
        return Hits(
            hits_by_ref.values(),
            partial=hits.partial,
            reranker_failure=hits.reranker_failure,
            dated=hits.dated,
            margin=hits.margin,
        )

    def _contradicting(self, ref: SetRef, ids: object) -> list[Item]:
        """Return the facts with these ids that exist and were not superseded."""
        id_list = cast("list[object]", ids) if isinstance(ids, list) else []
        names = [one for one in id_list if isinstance(one, str)]
        stored_items = self._writer.get(ref, names, at=self._at) if names else []
        items = [item_of(stored) for stored in stored_items if stored is not None]
        return [item for item in items if item.valid_to is None]

    def _of_hits(
        self, hits: Hits, part: Searched, *, most: int = MOST_HITS
    ) -> list[PromptCandidate]:
        """Return as candidates the first *most* hits, and later hits that may be lasting items."""
        return [
            item_candidate(part, hit.item, self._request, self._zone, rank=rank, hit=hit)
            for rank, hit in enumerate(hits, start=1)
            if rank <= most or hit.item.set_name == FACTS or _is_alone(hit.item)
        ]

    def _fit_whole(self, found: Sequence[PromptCandidate], margin: float | None) -> bool:
        """Decide by size and the query's margin whether to show all candidates; return the answer.

        If so, subtract their tokens from what later searches may show whole.
        """
        if not found or self._room is None:
            return bool(found)
        if self._is_personal:
            margin = None
        size = self._used_whole + self._total(found)
        for share, least in WHOLE:
            if size <= share * self._room and (margin is None or margin >= least):
                self._used_whole = size
                return True
        return False


# --- the worth of hits ------------------------------------------------------------------------


def _is_alone(item: Item) -> bool:
    """Return whether nobody said an item in a session."""
    return item.speaker is None and item.session is None and item.role in (None, "user")


def _relevance(one: PromptCandidate) -> float:
    return 0.0 if one.hit is None else one.hit.relevance or 0.0


def _share(hits: Hits, *, is_personal: bool) -> tuple[float, str]:
    """Return the share of the room that hits may fill, and why it is not the whole room."""
    if hits.margin is None:
        problem = _too_low(hits, LEAST_RELEVANCE)
        return float(not problem), problem
    least, span = RELATED
    margin = hits.margin + PERSONAL if is_personal else hits.margin
    share = min(1.0, max(0.0, (margin - least) / span))
    if share:
        return share, TOO_LITTLE
    return share, (
        "the query resembles the items no more than requests that need no memory do "
        f"(margin {hits.margin:.2f}, and {least:.2f} is needed)"
    )


def _names_speaker(query: str, hits: Hits) -> bool:
    """Return whether a query names somebody who said one of the items, by the first name."""
    asked = set(re.findall(r"\w+", query))
    speakers = {hit.item.speaker for hit in hits if hit.item.speaker}
    return any(name.split()[0] in asked for name in speakers if name[:1].isupper())


def _may_touch(hits: Hits) -> bool:
    """Return whether lasting items may matter to the query, though it gets no other items."""
    if hits.margin is None:
        return not _too_low(hits, LASTING_RELEVANCE)
    return hits.margin >= 0


def _too_low(hits: Hits, least: float) -> str:
    """Return a sentence if the best relevance is below the least one, or else an empty string."""
    best = max((hit.relevance or 0.0 for hit in hits), default=0.0)
    if best >= least:
        return ""
    return f"the best item found has a relevance of {best:.2f} to the query, below {least:.2f}"


def _withheld(hits: Hits, found: list[PromptCandidate], problem: str) -> Found:
    """Return the candidates. If *problem* is not empty, all are left out for this reason."""
    for one in found:
        one.left_out = problem
    return Found(hits, found, problem)
