"""Reads the candidates of a prompt: hits, last exchanges, blocks, profile and exact values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from itertools import chain, islice
from math import ceil, inf
from typing import Literal, TypeAlias, cast

from alveus.errors import InvalidInput, NotAnObject, NotFound, Unsupported
from alveus.facts.entities import known_facts
from alveus.facts.fact import FACTS
from alveus.memory.blocks import BLOCKS, LIMITS
from alveus.memory.prompt.context import ALL, NEWEST, ContextRequest, Part, Piece, Sources
from alveus.memory.prompt.excerpts import head_and_tail, passages
from alveus.memory.prompt.item_messages import messages_of, shown_message, why_not_repeated
from alveus.memory.prompt.quoting import (
    CONTRADICTS,
    day_line,
    detailed_line,
    exact_line,
    item_line,
    item_source,
    masked_item,
    masked_text,
    masked_value,
    named,
    quoted,
    shortened,
)
from alveus.search.margin import is_courtesy
from alveus.search.signals import QuestionSignals
from alveus.sets.writer import PageQuery
from alveus.state import MISSING, MemoryObject
from alveus.state.paths import dotted
from alveus.store import Scope, SetRef
from alveus.store.items import Hit, Hits, Item
from alveus.store.records import item_of, position_of
from alveus.store.times import ANY_TIME, is_valid_at, valid_time
from alveus.text.budget import Budget, Unit, units
from alveus.text.messages import MESSAGES, OBSERVATIONS, Message
from alveus.values import words
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import Path, Value
from alveus.values.times import Zone

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

PAGE = 32
"""The number of items of a conversation in the first read, which begins with the newest item."""

MOST_READ = 1_024
"""The most items of a conversation that are read."""

RECENT = 20
"""The default limit of exchanges for a context without a budget."""

EXACT_VALUES = 500
"""The most exact values that are considered or counted, in tree order."""

WIDE = 2_000
"""The most fields of an object that are read at once. Fields of a wider object are read one by one,
as they are needed."""

NAMES = 64
"""The number of field names of a wide object in one read."""

FIELDS_SHOWN = 8
"""The most field names that are suggested if exact values are left out."""

PROFILE_TOKENS = 300
"""The most tokens of a profile that a context considers."""

Ref: TypeAlias = tuple[str | None, str | None]
"""The set and the id of an item."""

ItemMessages: TypeAlias = tuple[Ref, tuple[Message, ...]]
"""An item of a conversation, with its messages."""

Searched: TypeAlias = Literal["items", "knowledge"]
"""A part of a prompt that a search fills."""


@dataclass(slots=True, eq=False)
class PromptCandidate:
    """A candidate for a piece of a prompt.

    Attributes:
        piece: The piece, with the attributes that are known so far.
        item_messages: The items of an exchange, each with its messages.
        messages: The messages of an exchange, as the prompt shows them.
        line: The line of a candidate that is not an exchange, in the remembered data.
        day: The heading above the line, or "".
        order: The position of an exchange in the conversation.
        refs: The items that are shown whole.
        hit: The search hit, or None. Its secrets are masked unless the request shows them.
        is_cut: Whether only parts of the text are shown.
        is_whole: Whether all items of the searched sets are shown. Such a candidate is never cut.
        is_taken: Whether the prompt contains the piece.
        left_out: The reason why the candidate is not considered, or "" if it is.
    """

    piece: Piece
    item_messages: tuple[ItemMessages, ...] = ()
    messages: tuple[Message, ...] = ()
    line: str = ""
    day: str = ""
    order: tuple[int, ...] = ()
    refs: frozenset[Ref] = frozenset()
    hit: Hit | None = None
    is_cut: bool = False
    is_whole: bool = False
    is_taken: bool = False
    left_out: str = ""

    def show_whole(self) -> None:
        """Show the messages of an exchange whole."""
        self._show(self.item_messages)
        self.is_cut = False

    def cut_messages(self, budget: Budget, most: int) -> None:
        """Cut each message of an exchange to its beginning and end, about *most* tokens."""
        cut = tuple(
            (
                ref,
                tuple(
                    [
                        replace(one, content=head_and_tail(one.content, budget, most))
                        for one in messages
                    ]
                ),
            )
            for ref, messages in self.item_messages
        )
        self.is_cut = cut != self.item_messages
        if self.is_cut:
            self._show(cut)

    def _show(self, item_messages: tuple[ItemMessages, ...]) -> None:
        self.messages = tuple(
            shown_message(message) for _, messages in item_messages for message in messages
        )
        text = "\n".join(message.content for message in self.messages)
        self.piece = replace(self.piece, text=text)
        pairs = zip(self.item_messages, item_messages, strict=True)
        self.refs = frozenset(whole[0] for whole, shown in pairs if whole == shown)

    def cut_line(self, request: ContextRequest, zone: Zone, most: int) -> None:
        """Cut a hit's text to the parts that match the query, about *most* tokens."""
        if self.hit is None or self.hit.item.text is None:
            return
        terms = frozenset(words.terms(request.query or ""))
        text = passages(self.hit.item.text, terms, request.budget, most)
        if text != self.hit.item.text:
            self.line = _line_of(replace(self.hit.item, text=text), request, zone)
            self.piece, self.is_cut = replace(self.piece, text=text), True


@dataclass(slots=True)
class Found:
    """The candidates of a part that a search fills.

    Attributes:
        hits: The search result.
        candidates: The hits as candidates, in the order in which they are to be shown.
        problem: The reason why no candidate can be shown, or "" if some can.
        most: The most tokens that the candidates may get, or None if no limit applies.
    """

    hits: Hits = field(default_factory=Hits)
    candidates: list[PromptCandidate] = field(default_factory=list[PromptCandidate])
    problem: str = ""
    most: int | None = None


@dataclass(slots=True)
class Conversation:
    """The end of a conversation.

    Attributes:
        exchanges: The exchanges, the newest first.
        left_out: The pieces of items that are in no exchange, with the reason.
        query: The item with the query itself, if it was added before; otherwise empty.
    """

    exchanges: list[PromptCandidate] = field(default_factory=list[PromptCandidate])
    left_out: list[Piece] = field(default_factory=list[Piece])
    query: frozenset[Ref] = frozenset()


class PromptSources:
    """Reads the candidates for the parts of one prompt.

    Args:
        room: The tokens that the instructions and the query leave; None without a budget.
    """

    def __init__(
        self, sources: Sources, request: ContextRequest, zone: Zone, room: int | None
    ) -> None:
        self._sources, self._writer, self._scope = sources, sources.writer, sources.scope
        self._request, self._zone, self._room = request, zone, room
        self._at = None if request.as_of is None else self._writer.moment_of(request.as_of)
        self._used_whole = self._used_lasting = 0
        self._says_i = QuestionSignals.of(request.query or "").says_i
        self._limit = request.limit or (
            HITS if room is None else min(MOST_HITS, max(FEWEST_HITS, room // TOKENS_A_HIT))
        )

    # --- searches -----------------------------------------------------------------------------

    def search(self, part: Searched) -> Found:
        """Return the candidates that a search finds for *part*.

        All searches together may show sets whole, and lasting items, within their shares of the
        room: a later search gets the tokens that this search leaves.
        """
        request = self._request
        scope, sets = self._scope, request.sets
        if part == "knowledge":
            scope, sets = self._writer.knowledge, request.knowledge
        if request.query is None or sets is None or sets == []:
            return Found()
        refs = scope if sets is ALL else [SetRef(scope, name) for name in sets]
        stored = self._count(refs)
        by_worth = request.min_score is None
        courtesy = by_worth and is_courtesy(request.query)
        most = self._limit if request.where is None else max(self._limit, FILTERED)
        if by_worth and (self._at is not None or stored <= most):
            # One hit more than the limit shows whether more items exist.
            hits = self._hits(scope, refs, limit=self._limit + 1, everything=True)
            found = self._of_hits(hits, part, most=self._limit)
            if len(hits) <= self._limit and not courtesy and self._fit_whole(found, hits.margin):
                for candidate in found:
                    candidate.is_whole = True
                return Found(hits, found)
        hits = self._hits(scope, refs, limit=max(self._limit, AMONG if by_worth else 0))
        found = self._of_hits(hits, part, most=self._limit)
        if courtesy and stored:
            return _withheld(hits, found, "a greeting, thanks or a farewell needs no memory")
        if not found:
            none = "no item matches the query and the filters"
            return Found(hits, problem=none if stored else "it holds no items yet")
        if request.min_score is None:
            return self._by_worth(hits, found)
        return _withheld(hits, found, _too_low(hits, request.min_score))

    def outdated(self, found: Mapping[Searched, Found]) -> list[Piece]:
        """Return the pieces of items that a later hit replaces, which are not shown."""
        return [
            item_piece(
                part, self._shown(old), reason=f"{hit.item.id} replaces it: it says so later"
            )
            for part, one in found.items()
            for hit in one.hits[: self._limit]
            for old in hit.supersedes
        ]

    def _by_worth(self, hits: Hits, found: Sequence[PromptCandidate]) -> Found:
        """Return candidates with as many tokens as the margin of the query allows.

        Lasting items come first: they may matter to requests that share no word with them. They are
        in order of relevance, since neighbours and sessions say nothing about them.
        """
        share, problem = _share(hits)
        lasting = sorted(filter(self._is_lasting, found), key=lambda one: -_relevance(one))
        first = self._first(lasting) if share or self._says_i or _may_touch(hits) else []
        ranked = iter(lasting)
        found = [next(ranked) if self._is_lasting(one) else one for one in found]
        taken = set(map(id, first))
        others = [one for one in found[: self._limit] if id(one) not in taken]
        del others[max(0, self._limit - len(first)) :]
        if self._room is None:
            limit, most = ceil(share * len(others)), None
        else:
            limit, most = len(others) if share else 0, int(share * self._room)
            most = None if share == 1.0 else max(most, sum(map(self._size, first)))
        for one in others[limit:]:
            one.left_out = problem
        return Found(hits, [*first, *others], "" if first or share else problem, most)

    def _first(self, lasting: Sequence[PromptCandidate]) -> list[PromptCandidate]:
        """Return the lasting items that come first, within what is left of their share."""
        first: list[PromptCandidate] = []
        for one in lasting:
            if _relevance(one) < LASTING_LEAST * _relevance(lasting[0]):
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

    def _count(self, refs: Scope | Sequence[SetRef]) -> int:
        if isinstance(refs, Scope):
            return sum(self._writer.counts(refs).values())
        return sum(map(self._writer.count, refs))

    def _hits(
        self, scope: Scope, refs: Scope | Sequence[SetRef], *, limit: int, everything: bool = False
    ) -> Hits:
        request = self._request
        options = replace(
            request.search_options(self._limit, self._at),
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
            self._of_item(part, hit.item, rank, hit)
            for rank, hit in enumerate(hits, start=1)
            if rank <= most or hit.item.set_name == FACTS or _is_alone(hit.item)
        ]

    def _of_item(
        self, part: Part, item: Item, rank: int, hit: Hit | None = None
    ) -> PromptCandidate:
        request = self._request
        shown = self._shown(item)
        time = shown.time if request.details == "hide" else None
        return PromptCandidate(
            item_piece(part, shown, rank=rank, hit=hit),
            line=_line_of(shown, request, self._zone),
            day="" if time is None else day_line(time, self._zone),
            refs=frozenset({(shown.set_name, shown.id)}),
            hit=hit and replace(hit, item=shown),
        )

    def _shown(self, item: Item) -> Item:
        return item if self._request.secrets == "show" else masked_item(item)

    def _fit_whole(self, found: Sequence[PromptCandidate], margin: float | None) -> bool:
        """Decide by size and the query's margin whether to show all candidates; return the answer.

        If so, subtract their tokens from what later searches may show whole.
        """
        if not found or self._room is None:
            return bool(found)
        days = {one.day for one in found if one.day}
        size = self._used_whole + sum(map(self._size, found))
        size += sum(self._request.budget.count(f"{day}\n") for day in days)
        for share, least in WHOLE:
            if size <= share * self._room and (margin is None or self._says_i or margin >= least):
                self._used_whole = size
                return True
        return False

    # --- blocks and profiles ------------------------------------------------------------------

    def blocks(self) -> list[PromptCandidate]:
        """Return the requested blocks that are not empty, in the order of the request."""
        request = self._request
        if not request.blocks:
            return []
        kept = self._sources.blocks()
        kept = kept if request.as_of is None else kept.at(request.as_of)
        candidates: list[PromptCandidate] = []
        for name in kept.names() if request.blocks is ALL else request.blocks:
            if text := kept.get(name):
                shown = text if request.secrets == "show" else masked_text(text)
                piece = Piece("blocks", named(name), shown, rank=len(candidates) + 1)
                candidates.append(PromptCandidate(piece, line=exact_line(name, shown)))
        return candidates

    def profile(self) -> list[PromptCandidate]:
        """Return the facts of the requested profile, most important first."""
        request = self._request
        if request.profile is None:
            return []
        known = known_facts(
            self._writer, self._scope, as_of=request.as_of, valid_at=request.valid_at
        )
        try:
            found = known.profile(request.profile, budget=PROFILE_TOKENS)
        except NotFound:  # the entity has no facts yet
            return []
        items = [
            Item(
                fact.text,
                id=fact.id,
                set_name=FACTS,
                metadata={CONTRADICTS: [*fact.contradicts]},
                valid_to=fact.valid_to,
            )
            for fact in found.facts
        ]
        return [self._of_item("profile", item, rank) for rank, item in enumerate(items, start=1)]

    # --- exact values -------------------------------------------------------------------------

    def exact_values(self) -> list[PromptCandidate]:
        """Return the values at and below the requested paths, best first.

        A value is better if it shares more words with the query.
        """
        request = self._request
        if not request.exact:
            return []
        terms = set(words.terms(request.query or ""))
        tree = self._tree()
        values = chain.from_iterable(
            _values(tree.get(path, MISSING), path) for path in cast("list[Path]", request.exact)
        )
        ranked: list[tuple[int, int, Path, Value]] = []
        for number, (path, value) in enumerate(islice(values, EXACT_VALUES)):
            text = f"{' '.join(path).replace('_', ' ')} {value}"
            ranked.append((-len(terms.intersection(words.terms(text))), number, path, value))
        candidates: list[PromptCandidate] = []
        ranked.sort(key=lambda one: one[:2])
        for rank, (less, _, path, value) in enumerate(ranked, start=1):
            line = exact_line(dotted(path), value)
            if request.secrets == "mask":
                names = tuple(masked_text(name) for name in path)
                line = exact_line(dotted(names), masked_value(value, path=path))
            score = -less / len(terms) if terms else 0.0
            source, _, text = line.partition(": ")
            piece = Piece("exact", source, text, rank=rank, score=score)
            candidates.append(PromptCandidate(piece, line=line))
        return candidates

    def unnamed_exact_values(self) -> list[Piece]:
        """Return a piece with the number of exact values if the request names no path.

        Otherwise, and if there are no exact values, return an empty list.
        """
        if self._request.exact:
            return []
        fields, count = list[str](), 0
        shown = (BLOCKS, LIMITS) if self._request.blocks else ()
        with suppress(Unsupported):  # a batch has no past, so there is nothing to count
            for name, value in _fields(self._tree()):
                if name in shown:
                    continue
                fields.append(name)
                count += sum(1 for _ in islice(_values(value, (name,)), EXACT_VALUES - count))
                if count == EXACT_VALUES and len(fields) > FIELDS_SHOWN:
                    break
        if not count:
            return []
        names = [named(masked_text(name)) for name in fields[:FIELDS_SHOWN]]
        more = ", …" if len(fields) > FIELDS_SHOWN else ""
        many = f"{count} exact values are" if count > 1 else "1 exact value is"
        at_least = "at least " if count == EXACT_VALUES else ""
        reason = f"{at_least}{many} left out; name the paths to show, as in exact=[{names[0]!r}]"
        return [Piece("exact", "", ", ".join(names) + more, reason=reason)]

    def _tree(self) -> MemoryObject:
        tree, as_of = self._sources.tree(), self._request.as_of
        return tree if as_of is None else tree.at(as_of)

    # --- the last exchanges -------------------------------------------------------------------

    def recent(self) -> Conversation:
        """Return the last exchanges of the conversation, at least enough to fill the room."""
        request, room = self._request, self._room
        ref = self._conversation()
        most = RECENT if request.recent is None and room is None else request.recent
        if ref is None or most == 0:
            return Conversation()
        items: list[Item] = []
        walk, query = self._newest(ref), request.query
        if request.secrets == "mask":
            walk = map(masked_item, walk)
            query = query if query is None else masked_text(query)
        while True:
            wanted = max(PAGE, len(items))  # doubles, because each round starts again
            page = list(islice(walk, wanted))
            items += page
            conversation = _end_of(items[::-1], query, more=len(page) == wanted)
            size = sum(request.budget.size(one.messages) for one in conversation.exchanges)
            enough = (most is not None and len(conversation.exchanges) > most) or (
                room is not None and size > room
            )
            if len(page) < wanted or enough or len(items) >= MOST_READ:
                if most is not None:
                    del conversation.exchanges[most:]
                return conversation

    def _conversation(self) -> SetRef | None:
        """Return the set of the conversation, or None if there is none."""
        writer, scope = self._writer, self._scope
        if isinstance(self._request.messages, str):
            return SetRef(scope, self._request.messages)
        if self._request.messages is not NEWEST:
            return None
        newest: list[tuple[tuple[int, int], str]] = []
        for name in writer.sets(scope):
            ref = SetRef(scope, name)
            info = writer.info(ref)
            if info is None or info.definition.item_type not in (OBSERVATIONS, MESSAGES):
                continue
            last = writer.page(ref, PageQuery(limit=1, newest_first=True, at=self._at))
            newest += [(position_of(stored), name) for stored in last]
        return SetRef(scope, max(newest)[1]) if newest else None

    def _newest(self, ref: SetRef) -> Iterator[Item]:
        """Return the valid items of a set, newest first."""
        when = valid_time(self._request.valid_at)
        if when is None:
            when = self._writer.now() if self._at is None else self._at.time
        for stored in self._writer.walk(ref, newest_first=True, at=self._at, page=PAGE):
            if when == ANY_TIME or is_valid_at(stored.record, when):
                yield item_of(stored)


# --- the worth of hits ------------------------------------------------------------------------


def _is_alone(item: Item) -> bool:
    """Return whether nobody said an item in a session."""
    return item.speaker is None and item.session is None and item.role in (None, "user")


def _relevance(one: PromptCandidate) -> float:
    return 0.0 if one.hit is None else one.hit.relevance or 0.0


def _share(hits: Hits) -> tuple[float, str]:
    """Return the share of the room that hits may fill, and why it is not the whole room."""
    if hits.margin is None:
        problem = _too_low(hits, LEAST_RELEVANCE)
        return float(not problem), problem
    least, span = RELATED
    share = min(1.0, max(0.0, (hits.margin - least) / span))
    if share:
        return share, TOO_LITTLE
    return share, (
        "the query resembles the items no more than requests that need no memory do "
        f"(margin {hits.margin:.2f}, and {least:.2f} is needed)"
    )


def _may_touch(hits: Hits) -> bool:
    """Return whether lasting items may matter to the query, though it gets no other items."""
    if hits.margin is None:
        return not _too_low(hits, LASTING_RELEVANCE)
    return hits.margin >= 0


def _too_low(hits: Hits, least: float) -> str:
    """Return a sentence if the best relevance is below the least one, or else an empty string."""
    best = max(hit.relevance or 0.0 for hit in hits)
    if best >= least:
        return ""
    return f"the best item found has a relevance of {best:.2f} to the query, below {least:.2f}"


def _withheld(hits: Hits, found: list[PromptCandidate], problem: str) -> Found:
    """Return the candidates. If *problem* is not empty, all are left out for this reason."""
    for one in found:
        one.left_out = problem
    return Found(hits, found, problem)


# --- items, values, messages ------------------------------------------------------------------


def _line_of(item: Item, request: ContextRequest, zone: Zone) -> str:
    return (detailed_line if request.details == "show" else item_line)(item, zone)


def item_piece(
    part: Part, item: Item, *, rank: int = 1, hit: Hit | None = None, reason: str = ""
) -> Piece:
    """Return a piece for an item, which is not shown yet; the score is that of *hit*, if any."""
    return Piece(
        part,
        item_source(item),
        item.text or quoted(str(item.value)),
        reason=reason,
        rank=rank,
        set_name=item.set_name,
        ids=(item.id or "",),
        time=item.time,
        score=hit and hit.score,
        parts={} if hit is None else dict(hit.parts),
    )


def _values(found: object, path: Path) -> Iterator[tuple[Path, Value]]:
    """Yield the values at and below *path*, with their paths.

    An object is read only when the iteration reaches it.
    """
    if isinstance(found, MemoryObject):
        with suppress(NotAnObject):  # the object was deleted while its siblings were read
            for name, value in _fields(found):
                yield from _values(value, (*path, name))
    elif found is not MISSING:
        yield path, cast("Value", found)


def _fields(found: MemoryObject) -> Iterator[tuple[str, object]]:
    """Yield the fields of an object in order. Fields of a wide object are read one by one."""
    if len(found.names(limit=WIDE + 1)) <= WIDE:
        yield from found.get_fields().items()
        return
    after: str | None = None
    while names := found.names(after=after, limit=NAMES):
        yield from ((name, found.get((name,), MISSING)) for name in names)
        after = names[-1]


@dataclass(slots=True)
class _Exchange:
    """The items from one user message to the next, with their messages.

    Attributes:
        is_closed: Whether no further item belongs to the exchange.
        is_whole: Whether the exchange begins with a user message.
    """

    items: list[tuple[Item, list[Message]]] = field(
        default_factory=list[tuple[Item, list[Message]]]
    )
    is_closed: bool = False
    is_whole: bool = False

    @property
    def messages(self) -> list[Message]:
        """The messages of all items, in order."""
        return [message for _, messages in self.items for message in messages]


def _end_of(items: Sequence[Item], query: str | None, *, more: bool) -> Conversation:
    """Return the exchanges of *items*, which are in order.

    Args:
        more: Whether earlier items exist that were not read.
    """
    conversation = Conversation()
    exchanges = _exchanges(items, conversation.left_out)
    if exchanges and query is not None and _is_query(exchanges[-1], query):
        item = exchanges.pop().items[0][0]
        conversation.query = frozenset({(item.set_name, item.id)})
        conversation.left_out.append(item_piece("recent", item, reason="it is the query"))
    if more and exchanges and not exchanges[0].is_whole:
        del exchanges[0]
    for unit in sorted(
        units([one.messages for one in exchanges]), key=lambda one: -one.positions[-1]
    ):
        rank = len(conversation.exchanges) + 1
        candidate = _exchange_candidate([exchanges[at] for at in unit.positions], unit, rank)
        if unit.lacks:
            reason = "the tool call that it answers is not there"
            conversation.left_out.append(replace(candidate.piece, reason=reason))
        else:
            conversation.exchanges.append(candidate)
    return conversation


def _is_query(last: _Exchange, query: str) -> bool:
    """Return whether an exchange is only the query: one user message, with or without a name."""
    item = last.items[0][0]
    value: object = item.value
    fields = cast("dict[str, object]", value) if isinstance(value, dict) else {}
    who = fields.get("name", item.speaker)
    return last.messages in ([Message(query)], [Message(f"{who}: {query}")])


def _exchanges(items: Sequence[Item], left_out: list[Piece]) -> list[_Exchange]:
    exchanges: list[_Exchange] = []
    for item in items:
        messages: list[Message] = []
        try:
            messages = messages_of(item)
            reason = why_not_repeated(item, messages)
        except InvalidInput as problem:
            reason = f"it is no message: {problem}"
        if reason:
            left_out.append(item_piece("recent", item, reason=reason))
            continue
        is_whole = len(messages) > 1
        if is_whole or messages[0].role == "user" or not exchanges or exchanges[-1].is_closed:
            exchanges.append(_Exchange(is_closed=is_whole, is_whole=messages[0].role == "user"))
        exchanges[-1].items.append((item, messages))
    return exchanges


def _exchange_candidate(parts: Sequence[_Exchange], unit: Unit, rank: int) -> PromptCandidate:
    pairs = [pair for part in parts for pair in part.items]
    items = [item for item, _ in pairs]
    source = item_source(items[0])
    if len(items) > 1:
        source = f"{source} to {shortened(items[-1])}"
    piece = Piece(
        "recent",
        source,
        "",
        rank=rank,
        set_name=items[0].set_name,
        ids=tuple(item.id or "" for item in items),
        time=items[0].time,
    )
    of_items = tuple([((item.set_name, item.id), tuple(messages)) for item, messages in pairs])
    candidate = PromptCandidate(piece, of_items, order=unit.positions)
    candidate.show_whole()
    return candidate
