"""Reads the candidates of a prompt: hits, last exchanges, blocks, profile and exact values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import field, replace
from itertools import chain, islice
from math import log
from typing import Literal, TypeAlias, cast

from alveus.errors import InvalidInput, NotAnObject, NotFound, Unsupported
from alveus.facts.entities import known_facts
from alveus.facts.fact import FACTS
from alveus.llm.answer_reader import text_said
from alveus.memory.blocks import BLOCKS, LIMITS
from alveus.memory.prompt.context import (
    ALL,
    MIN_SCORE,
    NEWEST,
    ContextRequest,
    Part,
    Piece,
    Sources,
)
from alveus.memory.prompt.quoting import (
    ANSWERED,
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
from alveus.sets.writer import PageQuery
from alveus.state import MISSING, MemoryObject
from alveus.state.paths import dotted
from alveus.store import Scope, SetRef
from alveus.store.items import Hit, Hits, Item
from alveus.store.records import item_of, position_of
from alveus.store.times import ANY_TIME, is_valid_at, valid_time
from alveus.text.budget import Budget, Unit, units
from alveus.text.messages import MESSAGES, OBSERVATIONS, ROLES, Message, Role
from alveus.text.statements import sentences
from alveus.values import words
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import Path, Value
from alveus.values.times import Zone

CUT = "…"
"""The mark of omitted text in an excerpt."""

LONGEST_LINE = 400
"""The most characters of a line that stays whole; a longer line is split in sentences."""

HEAD = 2 / 3
"""The share of a shortened message that its beginning gets; its end gets the rest."""

Span = tuple[int, int]


def passages(text: str, terms: frozenset[int], budget: Budget, most: int) -> str:
    """Return the lines and sentences of *text* that match *terms* best, about *most* tokens.

    The chosen parts keep their order, with `CUT` for omitted text. A term weighs more if fewer
    parts contain it. Of parts with equal weight, the earlier is chosen first; if no part matches,
    the beginning of *text* is returned.
    """
    spans, room = list(_spans(text)), _characters(text, budget, most)
    weights = _weights([text[start:end] for start, end in spans], terms)
    chosen = list[Span]()
    for at in sorted(range(len(spans)), key=lambda at: (-weights[at], at)):
        start, end = spans[at]
        size = end - start + len(CUT) + 1
        if size <= room:
            chosen.append((start, end))
            room -= size
    return _joined(text, sorted(chosen) or _beginning(text, room))


def head_and_tail(text: str, budget: Budget, most: int) -> str:
    """Return *text*, or if it is longer, its first and last parts, with about *most* tokens.

    The beginning of a message states its subject; the end may be a question that the next message
    answers.
    """
    if budget.count(text) <= most:
        return text
    spans, room = list(_spans(text)), _characters(text, budget, most)
    head = [span for span in spans if span[1] <= room * HEAD] or _beginning(text, int(room * HEAD))
    tail = [span for span in spans if len(text) - span[0] <= room - head[-1][1]]
    return _joined(text, [*head, *tail])


def _characters(text: str, budget: Budget, most: int) -> int:
    """Return the number of characters of *text* that have about *most* tokens."""
    return int(len(text) * most / max(1, budget.count(text)))


def _beginning(text: str, room: int) -> list[Span]:
    """Return the span of the first words of a text, about *room* characters.

    A very long word is cut.
    """
    space = text.rfind(" ", room // 2, room)
    return [(0, room if space < 0 else space)]


def _spans(text: str) -> Iterator[Span]:
    """Yield the spans of a text's lines; of long lines, the spans of their sentences."""
    start = 0
    for line in text.splitlines(keepends=True):
        if len(line) > LONGEST_LINE:
            for sentence in sentences(line):
                yield start + sentence.start, start + sentence.end
        elif bare := line.strip():
            begin = start + line.index(bare)
            yield begin, begin + len(bare)
        start += len(line)


def _weights(parts: Sequence[str], terms: frozenset[int]) -> list[float]:
    """Return the weight of each part: the sum of the weights of its *terms*.

    A term weighs more if fewer parts contain it.
    """
    shared = [terms.intersection(words.terms(part)) for part in parts]
    counts = Counter(term for each in shared for term in each)
    return [sum(log(1 + len(parts) / counts[term]) for term in each) for each in shared]


def _joined(text: str, spans: Sequence[Span]) -> str:
    """Return parts of a text in their order, with `CUT` between parts that are not adjacent."""
    shown, before = "", 0
    for start, end in [*spans, (len(text), len(text))]:
        between = text[before:start]
        shown += f" {CUT} " if between.strip() else between
        shown += text[start:end]
        before = end
    return shown.strip()


HITS = 20
"""The most hits of a search without a budget."""

FEWEST_HITS, MOST_HITS, TOKENS_A_HIT = 20, 200, 10
"""With a budget, the limit of hits is one hit per 10 tokens, but at least 20 and at most 200."""

WHOLE_SHARE = 3
"""Sets are shown whole if their items need at most 1/3 of the available tokens."""

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
            _shown(message) for _, messages in item_messages for message in messages
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
        candidates: The hits as candidates, best first.
        problem: The reason why no candidate can be shown, or "" if some can.
    """

    hits: Hits = field(default_factory=Hits)
    candidates: list[PromptCandidate] = field(default_factory=list[PromptCandidate])
    problem: str = ""


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
        self._whole_room = None if room is None else room // WHOLE_SHARE
        self._limit = request.limit or (
            HITS if room is None else min(MOST_HITS, max(FEWEST_HITS, room // TOKENS_A_HIT))
        )

    # --- searches -----------------------------------------------------------------------------

    def search(self, part: Searched) -> Found:
        """Return the candidates that a search finds for *part*.

        All searches together may show sets whole within a third of the room: a later search gets
        the tokens that this search leaves of it.
        """
        request = self._request
        scope, sets = self._scope, request.sets
        if part == "knowledge":
            scope, sets = self._writer.knowledge, request.knowledge
        if request.query is None or sets is None or sets == []:
            return Found()
        refs = scope if sets is ALL else [SetRef(scope, name) for name in sets]
        stored = self._count(refs)
        none = "no item matches the query and the filters" if stored else "it holds no items yet"
        if request.min_score is None and (self._at is not None or stored <= self._limit):
            # One hit more than the limit shows whether more items exist.
            hits = self._hits(scope, refs, limit=self._limit + 1, everything=True)
            candidates = self._of_hits(hits, part)
            if len(hits) <= self._limit and self._fits(candidates):
                for candidate in candidates:
                    candidate.is_whole = True
                return Found(hits, candidates, "" if candidates else none)
        hits = self._hits(scope, refs, limit=self._limit)
        candidates = self._of_hits(hits, part)
        problem = self._why_withheld(hits) if hits else none
        for candidate in candidates:
            candidate.left_out = problem
        return Found(hits, candidates, problem)

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
        )

    def _contradicting(self, ref: SetRef, ids: object) -> list[Item]:
        """Return the facts with these ids that exist and were not superseded."""
        id_list = cast("list[object]", ids) if isinstance(ids, list) else []
        names = [one for one in id_list if isinstance(one, str)]
        stored_items = self._writer.get(ref, names, at=self._at) if names else []
        items = [item_of(stored) for stored in stored_items if stored is not None]
        return [item for item in items if item.valid_to is None]

    def _of_hits(self, hits: Hits, part: Searched) -> list[PromptCandidate]:
        return [self._of_item(part, hit.item, rank, hit) for rank, hit in enumerate(hits, start=1)]

    def _of_item(
        self, part: Part, item: Item, rank: int, hit: Hit | None = None
    ) -> PromptCandidate:
        request = self._request
        shown = item if request.secrets == "show" else masked_item(item)
        time = shown.time if request.details == "hide" else None
        return PromptCandidate(
            item_piece(part, shown, rank=rank, hit=hit),
            line=_line_of(shown, request, self._zone),
            day="" if time is None else day_line(time, self._zone),
            refs=frozenset({(shown.set_name, shown.id)}),
            hit=hit and replace(hit, item=shown),
        )

    def _fits(self, candidates: Sequence[PromptCandidate]) -> bool:
        """Return whether all candidates fit into what is left of a third of the room.

        If so, subtract their tokens from it.
        """
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
        """Return a sentence if the best hit is below the least relevance, so that none is shown.

        Otherwise return "".
        """
        least = MIN_SCORE if self._request.min_score is None else self._request.min_score
        best = max(hit.relevance or 0.0 for hit in hits)
        if best >= least:
            return ""
        return f"the best item found has a relevance of {best:.2f} to the query, below {least:.2f}"

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
            messages = _messages(item)
            reason = _why_not_repeated(item, messages)
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


def _why_not_repeated(item: Item, messages: Sequence[Message]) -> str:
    if any(message.role == "system" for message in messages):
        return "instructions of the past are not repeated"
    value: object = item.value
    fields = cast("dict[str, object]", value) if isinstance(value, dict) else {}
    return "its reply was rejected" if fields.get("outcome") == "rejected" else ""


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


def _messages(item: Item) -> list[Message]:
    """Return the messages of an item: two for an observation, else one.

    Raises:
        InvalidInput: The item holds no message.
    """
    value: object = item.value
    if not isinstance(value, dict):
        return [_message({"content": item.text or value}, item, "user")]
    fields = cast("dict[str, object]", value)
    if "query" in fields and "reply" in fields:
        return [
            _message(fields["query"], item, "user"),
            _message(fields["reply"], item, "assistant"),
        ]
    content = fields.get("content", item.text)
    if fields.get("url") or not isinstance(content, str):  # show the item's text, with its urls
        content = content if item.text is None else item.text
    return [_message({**fields, "content": content}, item, "user")]


def _message(value: object, item: Item, role: Role) -> Message:
    if isinstance(value, str):
        return Message(value, role)
    if not isinstance(value, dict):
        raise InvalidInput(f"{value!r:.40} is none")
    fields = cast("dict[str, object]", value)
    stated_role = fields.get("role", item.role)
    stated_role = "system" if stated_role == "developer" else stated_role
    passed_on = {name: fields[name] for name in ("content", "calls", "answers") if name in fields}
    if isinstance(passed_on.get("content"), str):
        passed_on["content"] = text_said(stated_role or role, str(passed_on["content"]))
    who = fields.get("name", item.speaker if stated_role not in ROLES else None)
    message = Message.from_dict(passed_on | {"role": stated_role if stated_role in ROLES else role})
    return (
        replace(message, content=f"{who}: {message.content}") if isinstance(who, str) else message
    )


def _shown(message: Message) -> Message:
    """Return a message as a prompt shows it; a tool's result is quoted as data."""
    if message.role != "tool":
        return message
    return replace(message, content=f"{ANSWERED} {quoted(message.content)}", role="user")
