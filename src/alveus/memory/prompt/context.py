"""What a prompt was made of: the messages, and why each piece of memory is in them or not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import datetime
from typing import Literal, TypeAlias

from alveus.memory.prompt.quoting import named
from alveus.store.items import search_notes
from alveus.values.lazy_dataclass import dataclass
from alveus.values.markup import Html

Part: TypeAlias = Literal[
    "system", "recent", "blocks", "profile", "exact", "knowledge", "items", "query"
]
"""Which part of a prompt a piece is of."""

_TITLES: Mapping[Part, str] = {
    "system": "Instructions",
    "recent": "Last exchanges",
    "items": "Items",
    "knowledge": "Knowledge",
    "query": "Question",
    "exact": "Exact memory",
    "profile": "Profile",
    "blocks": "Blocks",
}


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of a prompt, or one that was looked at and left out.

    Attributes:
        part: Which part of the prompt it is of.
        source: Where it is from: ``set/id``, or the path of an exact value; "" for what was
            passed in.
        text: What it says; secrets are masked unless the context shows them.
        shown: Whether it is in the prompt.
        reason: Why it is, or is not.
        tokens: What it has; in its part of a message, alone.
        rank: Which one of its part it was, from 1: the newest exchange, or the best hit.
        set_name: The set of its items.
        ids: Of its items: several in an exchange of several messages.
        time: When it happened; of an exchange: when it began.
        score: What search gave it.
        parts: What that is made of; see `Hit`.
    """

    part: Part
    source: str
    text: str
    shown: bool
    reason: str
    tokens: int = 0
    rank: int = 1
    set_name: str | None = None
    ids: tuple[str, ...] = ()
    time: datetime | None = None
    score: float | None = None
    parts: Mapping[str, float] = field(default_factory=dict[str, float])


@dataclass(frozen=True, slots=True)
class Context:
    """A prompt made from memory; a value.

    Attributes:
        messages: For a chat client, or `ChatModel.complete`: instructions with what is remembered,
            the last exchanges, and the query.
        text: The same as one text, for models that complete one.
        tokens: What the messages have, as the budget counts them.
        budget_tokens: The most that it might have; None: any number.
        why: The pieces it has, in order; then those that were left out, `LEFT_OUT` of them.
        more: How many more were left out.
        partial: Whether some items in reach had no vector yet; see `Hits`.
        reranker_failure: Why a re-ranker did not order what was found; see `Hits`.
    """

    messages: list[dict[str, str]]
    text: str
    tokens: int
    budget_tokens: int | None
    why: tuple[Piece, ...]
    more: int = 0
    partial: bool = False
    reranker_failure: str | None = None

    def __str__(self) -> str:
        return self.text

    def explain(self) -> str:
        """Return a table, a line per piece: its part, rank, score, tokens, source and reason."""
        of = "" if self.budget_tokens is None else f" of {self.budget_tokens:,}"
        lines = [f"{self.tokens:,}{of} tokens in {len(self.messages)} messages"]
        lines.append("     part       rank  score  tokens  source, reason and text")
        for piece in self.why:
            mark = "in " if piece.shown else "out"
            score = "" if piece.score is None else f"{piece.score:.2f}"
            about = [part for part in (_whole_source(piece), piece.reason) if part]
            told = " ".join(f"{': '.join(about)} | {piece.text}".split())
            row = f"{mark}  {piece.part:9}  {piece.rank:4}  {score:>5}  {piece.tokens:6}"
            lines.append(f"{row}  {told[:112]}")
        if self.more:
            lines.append(f"and {self.more:,} more that were left out")
        return "\n".join([*lines, *self._notes()])

    def _notes(self) -> list[str]:
        return search_notes(partial=self.partial, reranker_failure=self.reranker_failure)

    def _repr_html_(self) -> str:
        from alveus.values import html

        taken = [piece for piece in self.why if piece.shown]
        left_out = [piece for piece in self.why if not piece.shown]
        sent = [html.full_text(said["content"], about=said["role"]) for said in self.messages]
        of = "" if self.budget_tokens is None else f" of {self.budget_tokens:,}"
        return html.frame(
            f"Prompt: {self.tokens:,}{of} tokens",
            self._budget_bar(taken),
            _pieces_table(taken),
            html.folded(f"Left out: {len(left_out) + self.more:,}", _pieces_table(left_out)),
            html.folded(f"Messages: {len(sent):,}", *sent),
            notes=self._notes(),
        )

    def _budget_bar(self, taken: Sequence[Piece]) -> Html:
        """Return what parts of the prompt have of its tokens, as a bar; its end is what is left."""
        from alveus.values import html

        shares: dict[str, float] = {}
        for piece in taken:
            shares[_TITLES[piece.part]] = shares.get(_TITLES[piece.part], 0) + piece.tokens
        shares["Framing"] = max(0, self.tokens - sum(shares.values()))
        colours = dict(zip(_TITLES.values(), html.MANY_COLOURS, strict=False))
        return html.bar(shares, max(self.budget_tokens or 0, sum(shares.values())), colours)


def _whole_source(piece: Piece) -> str:
    """Return where a piece is from, by ids as calls and commands take them."""
    if piece.set_name is None or not piece.ids:
        return piece.source
    ends = dict.fromkeys((piece.ids[0], piece.ids[-1]))
    return f"{named(piece.set_name)}/{' to '.join(map(named, ends))}"


def _pieces_table(pieces: Sequence[Piece]) -> Html:
    from alveus.values import html

    rows = [
        [_TITLES[piece.part], piece.tokens, html.told(piece.text, piece.source, piece.reason)]
        for piece in pieces
    ]
    return html.table(["Part", "Tokens", "Piece"], rows) if rows else html.soft("none")
