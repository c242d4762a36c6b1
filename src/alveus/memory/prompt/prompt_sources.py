"""Reads the candidates of a prompt: hits, last exchanges, blocks, profile and exact values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from itertools import chain, islice
from typing import cast

from alveus.errors import InvalidInput, NotAnObject, NotFound, Unsupported
from alveus.facts.entities import known_facts
from alveus.facts.fact import FACTS
from alveus.memory.blocks import BLOCKS, LIMITS
from alveus.memory.prompt.candidates import (
    Conversation,
    Found,
    PromptCandidate,
    Searched,
    item_candidate,
    item_piece,
)
from alveus.memory.prompt.context import ALL, NEWEST, ContextRequest, Piece, Sources
from alveus.memory.prompt.item_messages import messages_of, why_not_repeated
from alveus.memory.prompt.item_search import ItemSearch
from alveus.memory.prompt.quoting import (
    CONTRADICTS,
    exact_line,
    item_source,
    masked_item,
    masked_text,
    masked_value,
    named,
    shortened,
)
from alveus.sets.writer import PageQuery
from alveus.state import MISSING, MemoryObject
from alveus.state.paths import dotted
from alveus.store import SetRef
from alveus.store.items import Item
from alveus.store.records import item_of, position_of
from alveus.store.times import ANY_TIME, is_valid_at, valid_time
from alveus.text.budget import Unit, units
from alveus.text.messages import MESSAGES, OBSERVATIONS, Message
from alveus.values import words
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import Path, Value
from alveus.values.times import Zone

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
        self._searches = ItemSearch(sources, request, zone, room, self._at)

    def search(self, part: Searched) -> Found:
        """Return the candidates that a search finds for *part*; see `ItemSearch`."""
        return self._searches.search(part)

    def outdated(self, found: Mapping[Searched, Found]) -> list[Piece]:
        """Return the pieces of items that a later hit replaces, which are not shown."""
        return self._searches.outdated(found)

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
        return [
            item_candidate("profile", item, request, self._zone, rank=rank)
            for rank, item in enumerate(items, start=1)
        ]

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
