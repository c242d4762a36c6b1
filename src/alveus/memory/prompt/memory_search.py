"""What a prompt shows of the sets that it searches: all they hold, or the hits of a search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from typing import Literal, TypeAlias, cast

from alveus.memory.prompt.context_request import ALL, MIN_SCORE, ContextRequest, Sources
from alveus.memory.prompt.prompt_sources import PromptCandidate, Ref, item_piece, line_of
from alveus.memory.prompt.quoting import CONTRADICTS, day_line, masked_item
from alveus.sets import search_options
from alveus.sets.writer import Writer
from alveus.store import Scope, SetRef
from alveus.store.items import Hit, Hits, Item
from alveus.store.records import item_of
from alveus.store.times import Moment
from alveus.values.lazy_dataclass import dataclass

HITS = 20
"""Most hits of a search for a context without a budget."""

FEWEST_HITS, MOST_HITS, TOKENS_A_HIT = 20, 200, 10
"""With a budget: one for so many of its tokens, within bounds."""

WHOLE_SHARE = 3
"""Sets are shown whole where their items take at most this part of the room: a third."""

SHOWN_WHOLE = "the memory is shown whole: it fits"

Searched: TypeAlias = Literal["items", "knowledge"]
"""A part of a prompt that a search fills."""


@dataclass(slots=True)
class Found:
    """The candidates of one part of a prompt.

    Attributes:
        hits: The result of the search.
        candidates: The hits as candidates, best first.
        problem: Why no candidate can be shown; "": some can.
    """

    hits: Hits = field(default_factory=Hits)
    candidates: list[PromptCandidate] = field(default_factory=list[PromptCandidate])
    problem: str = ""


class MemorySearch:
    """Searches the sets of a key, then knowledge, for one request.

    Args:
        room: Tokens that the instructions and the query leave; None: there is no budget.
    """

    def __init__(
        self, sources: Sources, request: ContextRequest, at: Moment | None, room: int | None
    ) -> None:
        self._sources, self._request, self._at = sources, request, at
        self._whole_room = None if room is None else room // WHOLE_SHARE
        self._limit = request.limit or (
            HITS if room is None else min(MOST_HITS, max(FEWEST_HITS, room // TOKENS_A_HIT))
        )

    def items(self) -> Found:
        """Return the candidates from the sets of the key."""
        return self._found("items", self._sources.scope, self._request.sets)

    def knowledge(self) -> Found:
        """Return the candidates from knowledge; `items` has the first claim on the room."""
        return self._found("knowledge", self._sources.knowledge, self._request.knowledge)

    def _found(self, part: Searched, scope: Scope, sets: object) -> Found:
        request = self._request
        if request.query is None or sets is None or sets == []:
            return Found()
        names = None if sets is ALL else cast("Sequence[str]", sets)
        if request.min_score is None and self._may_be_whole(scope, names):
            hits = self._search(scope, names, everything=True)
            candidates = self._candidates(hits, part)
            if len(hits) <= self._limit and self._fits(candidates):
                for candidate in candidates:
                    candidate.is_whole = True
                problem = "" if candidates else self._why_none(scope, names)
                return Found(hits, candidates, problem)
        hits = self._search(scope, names, everything=False)
        candidates = self._candidates(hits, part)
        problem = self._why_withheld(hits) if hits else self._why_none(scope, names)
        for candidate in candidates:
            candidate.left_out = problem
        return Found(hits, candidates, problem)

    def _may_be_whole(self, scope: Scope, names: Sequence[str] | None) -> bool:
        """Return whether so few items may be there that all are worth a look."""
        return self._at is not None or self._count(scope, names) <= self._limit

    def _count(self, scope: Scope, names: Sequence[str] | None) -> int:
        if names is None:
            return sum(self._sources.writer.counts(scope).values())
        return sum(self._sources.writer.count(SetRef(scope, name)) for name in names)

    def _search(self, scope: Scope, names: Sequence[str] | None, *, everything: bool) -> Hits:
        request, writer = self._request, self._sources.writer
        options = search_options(
            self._limit,
            request.where,
            self._at,
            request.signals,
            request.valid_at,
            min_score=None if request.min_score == 0 else 0.0,
            reranker=request.reranker,
        )
        refs = scope if names is None else [SetRef(scope, name) for name in names]
        if everything:  # one more than may be shown tells whether there are more
            options = replace(options, limit=self._limit + 1, everything=True)
        hits = writer.search(refs, request.query or "", options)
        return _side_by_side(writer, scope, hits, self._at)

    def _candidates(self, hits: Hits, part: Searched) -> list[PromptCandidate]:
        request = self._request
        candidates: list[PromptCandidate] = []
        for rank, hit in enumerate(hits, start=1):
            item = hit.item if request.secrets == "show" else masked_item(hit.item)
            candidate = PromptCandidate(
                item_piece(part, item, rank=rank, hit=hit),
                refs=frozenset({(item.set_name, item.id)}),
                hit=replace(hit, item=item),
            )
            candidate.line = line_of(item, request)
            if request.details == "hide" and item.time is not None:
                candidate.day = day_line(item.time, request.zone)
            candidates.append(candidate)
        return candidates

    def _fits(self, candidates: Sequence[PromptCandidate]) -> bool:
        """Return whether all candidates fit into a third of the room; then it is taken."""
        if self._whole_room is None:
            return True
        budget = self._request.budget
        lines = [candidate.line for candidate in candidates]
        lines += {candidate.day for candidate in candidates if candidate.day}
        size = sum(budget.count(f"{line}\n") for line in lines)
        if size > self._whole_room:
            return False
        self._whole_room -= size
        return True

    def _why_withheld(self, hits: Hits) -> str:
        """Return why no hit is shown: the best one is below the least relevance; "": it is not."""
        least = MIN_SCORE if self._request.min_score is None else self._request.min_score
        best = max([hit.relevance or 0.0 for hit in hits], default=0.0)
        if best >= least:
            return ""
        return f"the best item found has a relevance of {best:.2f} to the query, below {least:.2f}"

    def _why_none(self, scope: Scope, names: Sequence[str] | None) -> str:
        if not self._count(scope, names):
            return "it holds no items yet"
        return "no item matches the query and the filters"


def _side_by_side(writer: Writer, scope: Scope, hits: Hits, at: Moment | None) -> Hits:
    """Return hits, and right behind each the facts that contradict it, as far as they are there.

    A fact that nothing contradicts any more is a plain one.
    """
    if not any(hit.item.metadata.get(CONTRADICTS) for hit in hits):
        return hits
    hits_by_ref: dict[Ref, Hit] = {}
    for hit in hits:
        item, ids = hit.item, hit.item.metadata.get(CONTRADICTS)
        others = _contradicting(writer, SetRef(scope, item.set_name or ""), ids, at)
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
    )


def _contradicting(writer: Writer, ref: SetRef, ids: object, at: Moment | None) -> list[Item]:
    """Return the live facts of *ids* that nothing replaced."""
    id_list = cast("list[object]", ids) if isinstance(ids, list) else []
    names = [one for one in id_list if isinstance(one, str)]
    stored_items = writer.get(ref, names, at=at) if names else []
    items = [item_of(stored) for stored in stored_items if stored is not None]
    return [item for item in items if item.valid_to is None]
