"""The candidates for the pieces of a prompt."""

from __future__ import annotations

from dataclasses import field, replace
from typing import Literal, TypeAlias

from alveus.memory.prompt.context import ContextRequest, Part, Piece
from alveus.memory.prompt.excerpts import head_and_tail, passages
from alveus.memory.prompt.item_messages import shown_message
from alveus.memory.prompt.quoting import (
    day_line,
    detailed_line,
    item_line,
    item_source,
    masked_item,
    quoted,
)
from alveus.store.items import Hit, Hits, Item
from alveus.text.budget import Budget
from alveus.text.messages import Message
from alveus.values import words
from alveus.values.lazy_dataclass import dataclass
from alveus.values.times import Zone

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
        stored: The number of items in the searched sets if there are no candidates.
    """

    hits: Hits = field(default_factory=Hits)
    candidates: list[PromptCandidate] = field(default_factory=list[PromptCandidate])
    problem: str = ""
    most: int | None = None
    stored: int = 0


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


def shown_item(item: Item, request: ContextRequest) -> Item:
    """Return an item as the prompt shows it: with masked secrets, unless the request shows them."""
    return item if request.secrets == "show" else masked_item(item)


def item_candidate(
    part: Part,
    item: Item,
    request: ContextRequest,
    zone: Zone,
    *,
    rank: int,
    hit: Hit | None = None,
) -> PromptCandidate:
    """Return a candidate for an item. Its secrets are masked unless the request shows them."""
    shown = shown_item(item, request)
    time = shown.time if request.details == "hide" else None
    return PromptCandidate(
        item_piece(part, shown, rank=rank, hit=hit),
        line=_line_of(shown, request, zone),
        day="" if time is None else day_line(time, zone),
        refs=frozenset({(shown.set_name, shown.id)}),
        hit=hit and replace(hit, item=shown),
    )


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
