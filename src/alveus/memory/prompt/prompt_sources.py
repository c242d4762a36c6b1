"""The sources of a prompt's pieces: the last exchanges, blocks, profiles, exact values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import field, replace
from itertools import chain, islice
from math import log
from typing import TypeAlias, cast

from alveus.errors import InvalidInput, NotAnObject, NotFound, Unsupported
from alveus.facts.entities import known_facts
from alveus.facts.fact import FACTS
from alveus.llm.answer_reader import text_said
from alveus.memory.blocks import BLOCKS, LIMITS, Blocks
from alveus.memory.prompt.context import ALL, NEWEST, ContextRequest, Part, Piece, Sources
from alveus.memory.prompt.quoting import (
    ANSWERED,
    CONTRADICTS,
    detailed_line,
    exact_line,
    item_line,
    masked_item,
    masked_text,
    masked_value,
    named,
    place_of,
    quoted,
    shortened,
)
from alveus.sets.writer import Writer
from alveus.state import MISSING, MemoryObject
from alveus.state.paths import dotted
from alveus.store import SetRef, StoredItem
from alveus.store.items import Hit, Item
from alveus.store.records import item_of, position_of
from alveus.store.times import ANY_TIME, Moment, is_valid_at, valid_time
from alveus.text.budget import Budget, Unit, units
from alveus.text.messages import MESSAGES, OBSERVATIONS, ROLES, Message, Role
from alveus.text.statements import sentences
from alveus.values import words
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import Path, Value

CUT = "…"
"""Marks omitted text in an excerpt."""

LONGEST_LINE = 400
"""The most characters of a line that stays whole; a longer line is split in sentences."""

HEAD = 2 / 3
"""The share of a shortened message for its beginning; the rest is its end."""

Span = tuple[int, int]


def passages(text: str, terms: frozenset[int], budget: Budget, most: int) -> str:
    """Return the lines and sentences of *text* that match *terms*, about *most* tokens.

    They keep their order, with `CUT` for omitted text. A term weighs more the fewer of them contain
    it. Of equal ones the earlier wins; without a match the beginning is returned.
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
    """Return *text*, or its first and last lines and sentences, about *most* tokens.

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
    """Return the first words of a text, or the beginning of a very long first word."""
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
    """Return the weight of each part: the sum of its terms, rarer terms weighing more."""
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


PAGE = 32
"""Items of a conversation in the first read, from the newest on."""

MOST_READ = 1_024
"""The most items of a conversation that are read."""

RECENT = 20
"""The default limit of exchanges for a context without a budget."""

EXACT_VALUES = 500
"""The most exact values that are considered or counted, in tree order."""

WIDE = 2_000
"""The most fields of an object read at once; wider objects are read by name, on demand."""

NAMES = 64
"""Field names of a wide object per read."""

FIELDS_SHOWN = 8
"""Field names suggested where exact values are left out."""

PROFILE_TOKENS = 300
"""The most tokens of a profile that a context considers."""

Ref: TypeAlias = tuple[str | None, str | None]
"""The set and the id of an item."""

ItemMessages: TypeAlias = tuple[Ref, tuple[Message, ...]]
"""An item of a conversation, with its messages."""


@dataclass(slots=True, eq=False)
class PromptCandidate:
    """A candidate for a piece of a prompt.

    Attributes:
        piece: The piece as known so far.
        item_messages: For an exchange: the messages of each item.
        messages: For an exchange: its messages as shown.
        line: For other parts: its line in the remembered data.
        day: The heading above the line, if any.
        order: For an exchange: its position in the conversation.
        refs: The items that are shown whole.
        hit: The search hit, if any; its secrets are masked unless shown.
        is_cut: Whether only parts are shown.
        is_whole: Whether all items of its sets are shown; such a piece is never cut.
        left_out: Why the candidate is not considered; "" if it is considered.
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
    left_out: str = ""

    def show_whole(self) -> None:
        """Show an exchange's messages whole."""
        self._show(self.item_messages)
        self.is_cut = False
        self.refs = frozenset(ref for ref, _ in self.item_messages)

    def cut_messages(self, budget: Budget, most: int) -> None:
        """Cut each message of an exchange to about *most* tokens, from its beginning and end."""
        cut = tuple(
            (ref, tuple(_headed(message, budget, most) for message in messages))
            for ref, messages in self.item_messages
        )
        self.is_cut = cut != self.item_messages
        if self.is_cut:
            self._show(cut)
            self.refs = frozenset(
                ref
                for (ref, messages), (_, shortened_messages) in zip(
                    self.item_messages, cut, strict=True
                )
                if messages == shortened_messages
            )

    def _show(self, item_messages: tuple[ItemMessages, ...]) -> None:
        self.messages = tuple(
            _shown(message) for _, messages in item_messages for message in messages
        )
        text = "\n".join(message.content for message in self.messages)
        self.piece = replace(self.piece, text=text)

    def cut_line(self, request: ContextRequest, most: int) -> None:
        """Cut a hit's text to about *most* tokens, around matches of the query."""
        if self.hit is None or self.hit.item.text is None:
            return
        terms = frozenset(words.terms(request.query or ""))
        text = passages(self.hit.item.text, terms, request.budget, most)
        if text != self.hit.item.text:
            self.line = line_of(replace(self.hit.item, text=text), request)
            self.piece, self.is_cut = replace(self.piece, text=text), True


# --- the last exchanges -----------------------------------------------------------------------


@dataclass(slots=True)
class _Exchange:
    """The items from one user message to the next."""

    items: list[Item] = field(default_factory=list[Item])
    messages: list[Message] = field(default_factory=list[Message])
    item_messages: list[ItemMessages] = field(default_factory=list[ItemMessages])
    is_closed: bool = False
    is_whole: bool = False


@dataclass(slots=True)
class Conversation:
    """The end of a conversation.

    Attributes:
        exchanges: The newest first.
        left_out: Items in no exchange, with the reason.
        query: The set and id of the item that holds the query itself, if it was added already.
    """

    exchanges: list[PromptCandidate] = field(default_factory=list[PromptCandidate])
    left_out: list[Piece] = field(default_factory=list[Piece])
    query: frozenset[Ref] = frozenset()


def recent(
    sources: Sources, request: ContextRequest, at: Moment | None, room: int | None
) -> Conversation:
    """Return the last exchanges, at least enough to fill *room* tokens."""
    ref = _set_of(sources, request, at)
    most = RECENT if request.recent is None and room is None else request.recent
    if ref is None or most == 0:
        return Conversation()
    items: list[Item] = []
    walk, query = _newest(sources.writer, ref, request, at), request.query
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


def _set_of(sources: Sources, request: ContextRequest, at: Moment | None) -> SetRef | None:
    if isinstance(request.messages, str):
        return SetRef(sources.scope, request.messages)
    if request.messages is not NEWEST:
        return None
    newest: list[tuple[tuple[int, int], SetRef]] = []
    for name in sources.writer.sets(sources.scope):
        ref = SetRef(sources.scope, name)
        info = sources.writer.info(ref)
        if info is None or info.definition.item_type not in (OBSERVATIONS, MESSAGES):
            continue
        last = sources.writer.page(ref, after=None, limit=1, newest_first=True, at=at)
        newest += [(position_of(stored), ref) for stored in last]
    return max(newest, key=lambda one: (one[0], one[1].name))[1] if newest else None


def _newest(
    writer: Writer, ref: SetRef, request: ContextRequest, at: Moment | None
) -> Iterator[Item]:
    """Return the valid items of a set, newest first."""
    when = valid_time(request.valid_at)
    if when is None:
        when = writer.now() if at is None else at.time
    walk = writer.walk(ref, newest_first=True, at=at, page=PAGE)
    return (item_of(stored) for stored in walk if _is_shown(stored, when))


def _is_shown(stored: StoredItem, when: int | str) -> bool:
    return when == ANY_TIME or is_valid_at(stored.record, cast("int", when))


def _end_of(items: Sequence[Item], query: str | None, *, more: bool) -> Conversation:
    """Return the exchanges of ordered items; *more* means that earlier items were not read."""
    conversation = Conversation()
    exchanges = _exchanges(items, conversation.left_out)
    if exchanges and query is not None and _is_query(exchanges[-1], query):
        item = exchanges.pop().items[0]
        conversation.query = frozenset({(item.set_name, item.id)})
        conversation.left_out.append(_with_reason(item_piece("recent", item), "it is the query"))
    if more and exchanges and not exchanges[0].is_whole:
        del exchanges[0]
    for unit in sorted(
        units([one.messages for one in exchanges]), key=lambda one: -one.positions[-1]
    ):
        parts = [exchanges[position] for position in unit.positions]
        candidate = _candidate(parts, unit, rank=len(conversation.exchanges) + 1)
        if unit.lacks:
            conversation.left_out.append(
                _with_reason(candidate.piece, "the tool call that it answers is not there")
            )
        else:
            conversation.exchanges.append(candidate)
    return conversation


def _is_query(last: _Exchange, query: str) -> bool:
    """Return whether an exchange is the query: one plain user message, with or without a name."""
    value: object = last.items[0].value
    fields = cast("dict[str, object]", value) if isinstance(value, dict) else {}
    who = fields.get("name", last.items[0].speaker)
    return last.messages in ([Message(query)], [Message(f"{who}: {query}")])


def _exchanges(items: Sequence[Item], left_out: list[Piece]) -> list[_Exchange]:
    exchanges: list[_Exchange] = []
    for item in items:
        try:
            messages = _messages(item)
        except InvalidInput as problem:
            left_out.append(
                _with_reason(item_piece("recent", item), f"it is no message: {problem}")
            )
            continue
        if any(message.role == "system" for message in messages):
            left_out.append(
                _with_reason(
                    item_piece("recent", item), "instructions of the past are not repeated"
                )
            )
            continue
        if _is_rejected(item.value):
            left_out.append(_with_reason(item_piece("recent", item), "its reply was rejected"))
            continue
        is_whole = len(messages) > 1
        if is_whole or messages[0].role == "user" or not exchanges or exchanges[-1].is_closed:
            exchanges.append(_Exchange(is_closed=is_whole, is_whole=messages[0].role == "user"))
        exchanges[-1].items.append(item)
        exchanges[-1].messages += messages
        exchanges[-1].item_messages.append(((item.set_name, item.id), tuple(messages)))
    return exchanges


def _is_rejected(value: object) -> bool:
    return isinstance(value, dict) and cast("dict[str, object]", value).get("outcome") == "rejected"


def _candidate(parts: Sequence[_Exchange], unit: Unit, *, rank: int) -> PromptCandidate:
    items = [item for part in parts for item in part.items]
    item_messages = [one for part in parts for one in part.item_messages]
    first, source = items[0], place_of(items[0])
    if len(items) > 1:
        source = f"{source} to {shortened(items[-1])}"
    piece = Piece(
        "recent",
        source,
        "",
        shown=False,
        reason="",
        rank=rank,
        set_name=first.set_name,
        ids=tuple(item.id or "" for item in items),
        time=first.time,
    )
    candidate = PromptCandidate(piece, tuple(item_messages), order=unit.positions)
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
    if fields.get("url") or not isinstance(content, str):  # show the text, with its urls
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
    if isinstance(who, str):
        return Message(
            f"{who}: {message.content}", message.role, None, message.calls, message.answers
        )
    return message


def _headed(message: Message, budget: Budget, most: int) -> Message:
    text = head_and_tail(message.content, budget, most)
    return message if text == message.content else replace(message, content=text)


def _shown(message: Message) -> Message:
    """Return a message as shown; tool results are quoted as data."""
    if message.role != "tool":
        return message
    text = f"{ANSWERED} {quoted(message.content)}"
    return Message(text, "user", None, message.calls, message.answers)


# --- items as lines -----------------------------------------------------------------------------


def line_of(item: Item, request: ContextRequest) -> str:
    """Return an item as a line of remembered data."""
    as_line = detailed_line if request.details == "show" else item_line
    return as_line(item, request.zone)


def item_piece(part: Part, item: Item, *, rank: int = 1, hit: Hit | None = None) -> Piece:
    """Return an item as a piece, not shown yet, with the score of its hit, if any."""
    return Piece(
        part,
        place_of(item),
        item.text or quoted(str(item.value)),
        shown=False,
        reason="",
        rank=rank,
        set_name=item.set_name,
        ids=(item.id or "",),
        time=item.time,
        score=None if hit is None else hit.score,
        parts={} if hit is None else dict(hit.parts),
    )


def _with_reason(piece: Piece, reason: str) -> Piece:
    return replace(piece, reason=reason)


# --- blocks and profiles ----------------------------------------------------------------------


def blocks(sources: Sources, request: ContextRequest) -> list[PromptCandidate]:
    """Return the requested blocks that are not empty, in their order."""
    if not request.blocks:
        return []
    kept = Blocks(_tree(sources, request), sources.scope, lambda: sources.writer.alone("history"))
    names = kept.names() if request.blocks is ALL else request.blocks
    candidates: list[PromptCandidate] = []
    for name in names:
        if text := kept.get(name):
            shown = text if request.secrets == "show" else masked_text(text)
            line = exact_line(name, shown)
            piece = Piece(
                "blocks", named(name), shown, shown=False, reason="", rank=len(candidates) + 1
            )
            candidates.append(PromptCandidate(piece, line=line))
    return candidates


def profile(sources: Sources, request: ContextRequest) -> list[PromptCandidate]:
    """Return the facts of the requested profile, most important first."""
    if request.profile is None:
        return []
    known = known_facts(
        sources.writer, sources.scope, as_of=request.as_of, valid_at=request.valid_at
    )
    try:
        found = known.profile(request.profile, budget=PROFILE_TOKENS)
    except NotFound:  # the entity has no facts yet
        return []
    candidates: list[PromptCandidate] = []
    for rank, fact in enumerate(found.facts, start=1):
        item = Item(
            fact.text,
            id=fact.id,
            set_name=FACTS,
            metadata={CONTRADICTS: [*fact.contradicts]},
            valid_to=fact.valid_to,
        )
        shown = item if request.secrets == "show" else masked_item(item)
        candidates.append(
            PromptCandidate(
                item_piece("profile", shown, rank=rank),
                line=line_of(shown, request),
                refs=frozenset({(FACTS, fact.id)}),
            )
        )
    return candidates


# --- exact values -----------------------------------------------------------------------------


def exact_values(sources: Sources, request: ContextRequest) -> list[PromptCandidate]:
    """Return the values at and below the named paths; values with words of the query first."""
    if not request.exact:
        return []
    terms = set(words.terms(request.query or ""))
    tree = _tree(sources, request)
    values = chain.from_iterable(
        _values(tree.get(path, MISSING), path) for path in cast("list[Path]", request.exact)
    )
    ranked: list[tuple[int, int, Path, Value]] = []
    for number, (path, value) in enumerate(islice(values, EXACT_VALUES)):
        text = f"{' '.join(path).replace('_', ' ')} {value}"
        ranked.append((-len(terms.intersection(words.terms(text))), number, path, value))
    candidates: list[PromptCandidate] = []
    for rank, (less, _, path, value) in enumerate(sorted(ranked, key=lambda one: one[:2]), start=1):
        line = exact_line(dotted(path), value)
        if request.secrets == "mask":
            names = tuple(masked_text(name) for name in path)
            line = exact_line(dotted(names), masked_value(value, path=path))
        score = -less / len(terms) if terms else 0.0
        source, _, text = line.partition(": ")
        piece = Piece("exact", source, text, shown=False, reason="", rank=rank, score=score)
        candidates.append(PromptCandidate(piece, line=line))
    return candidates


def unnamed_exact_values(sources: Sources, request: ContextRequest) -> list[Piece]:
    """Return a piece with the number of exact values, if the request names no path."""
    if request.exact:
        return []
    fields, count = list[str](), 0
    with suppress(Unsupported):  # a batch has no past, so there is nothing to count
        tree = _tree(sources, request)
        shown = (BLOCKS, LIMITS) if request.blocks else ()
        for name, value in _fields(tree):
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
    return [Piece("exact", "", ", ".join(names) + more, shown=False, reason=reason)]


def _tree(sources: Sources, request: ContextRequest) -> MemoryObject:
    tree = sources.tree()
    return tree if request.as_of is None else tree.at(request.as_of)


def _values(found: object, path: Path) -> Iterator[tuple[Path, Value]]:
    """Yield the values at and below *path*; an object is read only when it is reached."""
    if isinstance(found, MemoryObject):
        with suppress(NotAnObject):  # it was deleted while its siblings were read
            for name, value in _fields(found):
                yield from _values(value, (*path, name))
    elif found is not MISSING:
        yield path, cast("Value", found)


def _fields(found: MemoryObject) -> Iterator[tuple[str, object]]:
    """Yield the fields of an object in order; fields of a wide object one at a time, by name."""
    if len(found.names(limit=WIDE + 1)) <= WIDE:
        yield from found.get_fields().items()
        return
    after: str | None = None
    while names := found.names(after=after, limit=NAMES):
        yield from ((name, found.get((name,), MISSING)) for name in names)
        after = names[-1]
