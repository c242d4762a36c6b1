"""Where a prompt's pieces come from: the last exchanges, what searches find, and facts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import cast

from fornix.errors import InvalidInput, NotAnObject
from fornix.memory.prompt.context import Part, Piece
from fornix.memory.prompt.context_request import ALL, NEWEST, ContextRequest
from fornix.memory.prompt.quoting import ANSWERED, fact_line, item_line, place_of, quoted, shortened
from fornix.sets import search_options
from fornix.sets.set_options import position
from fornix.sets.writer import Writer
from fornix.state import MISSING, MemoryObject, Spelling
from fornix.state.paths import spelled
from fornix.store import Scope, SetRef, StoredItem
from fornix.store.as_of import EVER, Moment, holds, valid_time
from fornix.store.items import Hit, Hits, Item
from fornix.store.records import item_of
from fornix.text.budget import Unit, units
from fornix.text.messages import MESSAGES, OBSERVATIONS, ROLES, Message, Role
from fornix.values import words
from fornix.values.storable import Value

PAGE = 32
"""Items of a conversation that are read first, from the newest on."""

MOST_READ = 1_024
"""Items of a conversation that are read at most."""

RECENT = 20
"""Exchanges that a context without a budget has at most, unless it says how many."""

FACTS = 500
"""Facts that are looked at, in the order of the tree."""

HITS = 20
"""Items that a search for a context without a budget is asked for."""

FEWEST_HITS, MOST_HITS, TOKENS_A_HIT = 10, 200, 24
"""With a budget: one for so many of its tokens, within bounds."""


@dataclass(frozen=True, slots=True)
class Sources:
    """What a context is made from: the memory of a key, seen through a writer, and knowledge."""

    writer: Writer
    scope: Scope
    knowledge: Scope
    tree: Callable[[], MemoryObject]


@dataclass(slots=True, eq=False)
class PromptCandidate:
    """What may become a piece of a prompt.

    Attributes:
        piece: What is known of it so far.
        messages: Of an exchange.
        line: Of anything else: how it stands among what is remembered.
        order: Of an exchange: its place in the conversation.
        refs: Its items, by set and id.
        hit: The item, if a search found it.
    """

    piece: Piece
    messages: tuple[Message, ...] = ()
    line: str = ""
    order: tuple[int, ...] = ()
    refs: frozenset[tuple[str | None, str | None]] = frozenset()
    hit: Hit | None = None


# --- the last exchanges -----------------------------------------------------------------------


@dataclass(slots=True)
class _Exchange:
    """What is said from one question to the next, as its set has it."""

    items: list[Item] = field(default_factory=list[Item])
    messages: list[Message] = field(default_factory=list[Message])
    is_closed: bool = False
    is_whole: bool = False


@dataclass(slots=True)
class Conversation:
    """The end of a conversation.

    Attributes:
        found: Its exchanges, the newest first.
        left: What is in no exchange, and why.
        query: The item that is the query itself, kept before it was asked, by set and id.
    """

    found: list[PromptCandidate] = field(default_factory=list[PromptCandidate])
    left: list[Piece] = field(default_factory=list[Piece])
    query: frozenset[tuple[str | None, str | None]] = frozenset()


def recent(
    sources: Sources, asked: ContextRequest, at: Moment | None, room: int | None
) -> Conversation:
    """Return the last exchanges, at least as many as fit into *room* tokens."""
    ref = _conversation(sources, asked, at)
    most = RECENT if asked.recent is None and room is None else asked.recent
    if ref is None or most == 0:
        return Conversation()
    items: list[Item] = []
    walk = _newest(sources.writer, ref, asked, at)
    while True:
        wanted = max(PAGE, len(items))  # twice as many each time: all are looked at again
        page = list(islice(walk, wanted))
        items += page
        told = _told(items[::-1], asked.query, more=len(page) == wanted)
        size = sum(asked.budget.size(one.messages) for one in told.found)
        enough = (most is not None and len(told.found) > most) or (room is not None and size > room)
        if len(page) < wanted or enough or len(items) >= MOST_READ:
            if most is not None:
                del told.found[most:]
            return told


def _conversation(sources: Sources, asked: ContextRequest, at: Moment | None) -> SetRef | None:
    if isinstance(asked.messages, str):
        return SetRef(sources.scope, asked.messages)
    if asked.messages is not NEWEST:
        return None
    newest: list[tuple[tuple[int, int], SetRef]] = []
    for name in sources.writer.sets(sources.scope):
        ref = SetRef(sources.scope, name)
        info = sources.writer.info(ref)
        if info is None or info.definition.item_type not in (OBSERVATIONS, MESSAGES):
            continue
        last = sources.writer.page(ref, after=None, limit=1, newest_first=True, at=at)
        newest += [(position(stored), ref) for stored in last]
    return max(newest, key=lambda one: (one[0], one[1].name))[1] if newest else None


def _newest(
    writer: Writer, ref: SetRef, asked: ContextRequest, at: Moment | None
) -> Iterator[Item]:
    """Yield the items of a set that hold, the newest first."""
    when = valid_time(asked.valid_at)
    if when is None:
        when = writer.now() if at is None else at.time
    after: tuple[int, int] | None = None
    while page := writer.page(ref, after=after, limit=PAGE, newest_first=True, at=at):
        yield from (item_of(stored) for stored in page if _is_shown(stored, when))
        if len(page) < PAGE:
            return
        after = position(page[-1])


def _is_shown(stored: StoredItem, when: int | str) -> bool:
    return when == EVER or holds(stored.record, cast("int", when))


def _told(items: Sequence[Item], query: str | None, *, more: bool) -> Conversation:
    """Return the exchanges of items in order; *more*: there are earlier ones, unread."""
    told = Conversation()
    exchanges = _exchanges(items, told.left)
    if exchanges and query is not None and exchanges[-1].messages == [Message(query)]:
        item = exchanges.pop().items[0]
        told.query = frozenset({(item.set_name, item.id)})
        told.left.append(_left(_piece("recent", item), "it is the query"))
    if more and exchanges and not exchanges[0].is_whole:
        del exchanges[0]
    for unit in sorted(units([one.messages for one in exchanges]), key=lambda one: -one.places[-1]):
        parts = [exchanges[place] for place in unit.places]
        found = _as_found(parts, unit, rank=len(told.found) + 1)
        if unit.lacks:
            told.left.append(_left(found.piece, "the tool call that it answers is not there"))
        else:
            told.found.append(found)
    return told


def _exchanges(items: Sequence[Item], left: list[Piece]) -> list[_Exchange]:
    found: list[_Exchange] = []
    for item in items:
        try:
            messages = _messages(item)
        except InvalidInput as problem:
            left.append(_left(_piece("recent", item), f"it is no message: {problem}"))
            continue
        if any(message.role == "system" for message in messages):
            left.append(_left(_piece("recent", item), "instructions of the past are not repeated"))
            continue
        if _is_rejected(item.value):
            left.append(_left(_piece("recent", item), "its reply was rejected"))
            continue
        is_whole = len(messages) > 1
        if is_whole or messages[0].role == "user" or not found or found[-1].is_closed:
            found.append(_Exchange(is_closed=is_whole, is_whole=messages[0].role == "user"))
        found[-1].items.append(item)
        found[-1].messages += messages
    return found


def _is_rejected(value: object) -> bool:
    return isinstance(value, dict) and cast("dict[str, object]", value).get("outcome") == "rejected"


def _as_found(parts: Sequence[_Exchange], unit: Unit, *, rank: int) -> PromptCandidate:
    items = [item for part in parts for item in part.items]
    messages = tuple(_shown(message) for part in parts for message in part.messages)
    first, source = items[0], place_of(items[0])
    if len(items) > 1:
        source = f"{source} to {shortened(items[-1])}"
    piece = Piece(
        "recent",
        source,
        "\n".join(message.content for message in messages),
        shown=False,
        reason="",
        rank=rank,
        set_name=first.set_name,
        ids=tuple(item.id or "" for item in items),
        time=first.time,
    )
    refs = frozenset((item.set_name, item.id) for item in items)
    return PromptCandidate(piece, messages, order=unit.places, refs=refs)


def _messages(item: Item) -> list[Message]:
    """Return the messages that an item holds: of an observation two, else one.

    Raises:
        InvalidInput: It holds none.
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
    if fields.get("url") or not isinstance(content, str):  # its text is told, and its urls
        content = content if item.text is None else item.text
    return [_message({**fields, "content": content}, item, "user")]


def _message(value: object, item: Item, role: Role) -> Message:
    if isinstance(value, str):
        return Message(value, role)
    if not isinstance(value, dict):
        raise InvalidInput(f"{value!r:.40} is none")
    fields = cast("dict[str, object]", value)
    said = fields.get("role", item.role)
    said = "system" if said == "developer" else said
    known = {name: fields[name] for name in ("content", "calls", "answers") if name in fields}
    who = fields.get("name", item.speaker if said not in ROLES else None)
    made = Message.from_dict(known | {"role": said if said in ROLES else role})
    if isinstance(who, str):
        return Message(f"{who}: {made.content}", made.role, None, made.calls, made.answers)
    return made


def _shown(message: Message) -> Message:
    """Return a message as it is shown: what a tool answered is data."""
    if message.role != "tool":
        return message
    text = f"{ANSWERED} {quoted(message.content)}"
    return Message(text, "user", None, message.calls, message.answers)


# --- what searches find -----------------------------------------------------------------------


def items(sources: Sources, asked: ContextRequest, at: Moment | None, room: int | None) -> Hits:
    """Return what a search of the key's sets finds."""
    return _search(sources, sources.scope, asked.sets, (asked, at, room))


def knowledge(sources: Sources, asked: ContextRequest, at: Moment | None, room: int | None) -> Hits:
    """Return what a search of knowledge finds."""
    return _search(sources, sources.knowledge, asked.knowledge, (asked, at, room))


def _search(
    sources: Sources,
    scope: Scope,
    sets: object,
    how: tuple[ContextRequest, Moment | None, int | None],
) -> Hits:
    asked, at, room = how
    if asked.query is None or sets is None or sets == []:
        return Hits()
    limit = asked.limit or (
        HITS if room is None else min(MOST_HITS, max(FEWEST_HITS, room // TOKENS_A_HIT))
    )
    options = search_options(limit, asked.where, at, asked.signals, asked.valid_at)
    names = cast("Sequence[str]", () if sets is ALL else sets)
    refs = scope if sets is ALL else [SetRef(scope, name) for name in names]
    return sources.writer.search(refs, asked.query, options)


def hits_found(hits: Hits, part: Part) -> list[PromptCandidate]:
    """Return hits as what may become pieces."""
    found: list[PromptCandidate] = []
    for rank, hit in enumerate(hits, start=1):
        item = hit.item
        piece = _piece(part, item, rank=rank, hit=hit)
        refs = frozenset({(item.set_name, item.id)})
        found.append(PromptCandidate(piece, line=item_line(item), refs=refs, hit=hit))
    return found


def _piece(part: Part, item: Item, *, rank: int = 1, hit: Hit | None = None) -> Piece:
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


def _left(piece: Piece, reason: str) -> Piece:
    return replace(piece, reason=reason)


# --- facts ------------------------------------------------------------------------------------


def facts(sources: Sources, asked: ContextRequest) -> list[PromptCandidate]:
    """Return values of the exact tree: those that share words with the query first."""
    if asked.facts is None:
        return []
    tree = sources.tree()
    if asked.as_of is not None:
        tree = tree.at(asked.as_of)
    terms = set(words.terms(asked.query or ""))
    told: list[tuple[int, int, Spelling, Value]] = []
    for number, (path, value) in enumerate(islice(_walk(tree, asked.facts), FACTS)):
        names = path if isinstance(path, str) else " ".join(path)
        text = f"{names.replace('.', ' ').replace('_', ' ')} {value}"
        told.append((-len(terms.intersection(words.terms(text))), number, path, value))
    found: list[PromptCandidate] = []
    for rank, (less, _, path, value) in enumerate(sorted(told, key=lambda one: one[:2]), start=1):
        line = fact_line(path, value)
        score = -less / len(terms) if terms else 0.0
        source, _, text = line.partition(": ")
        piece = Piece("facts", source, text, shown=False, reason="", rank=rank, score=score)
        found.append(PromptCandidate(piece, line=line))
    return found


def _walk(tree: MemoryObject, path: Spelling) -> Iterator[tuple[Spelling, Value]]:
    """Yield the values at and below *path*; an object is read only when it is reached."""
    there: object = tree.get(path, MISSING)
    if isinstance(there, MemoryObject):
        yield from _below(there)
    elif there is not MISSING:
        yield path, cast("Value", there)


def _below(there: MemoryObject) -> Iterator[tuple[Spelling, Value]]:
    path = there.path
    names = tuple(path.split(".") if path else ()) if isinstance(path, str) else path
    with suppress(NotAnObject):  # it went while its neighbours were read
        for name, value in there.get_fields().items():
            if isinstance(value, MemoryObject):
                yield from _below(value)
            else:
                yield spelled((*names, name)), value
