"""What a prompt was made of: the messages, and why each piece of memory is in them or not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from typing import Literal, TypeAlias

from fornix.values.lazy_dataclass import dataclass

Part: TypeAlias = Literal[
    "system", "recent", "blocks", "profile", "exact", "knowledge", "items", "query"
]
"""Which part of a prompt a piece is of."""


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
            about = [part for part in (piece.source, piece.reason) if part]
            told = " ".join(f"{': '.join(about)} | {piece.text}".split())
            row = f"{mark}  {piece.part:9}  {piece.rank:4}  {score:>5}  {piece.tokens:6}"
            lines.append(f"{row}  {told[:100]}")
        if self.more:
            lines.append(f"and {self.more:,} more that were left out")
        if self.partial:
            lines.append("partial: some items in reach are not embedded yet (memory.settle waits)")
        if self.reranker_failure:
            lines.append(f"not re-ranked: {self.reranker_failure}")
        return "\n".join(lines)
