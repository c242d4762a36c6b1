"""The values of a prompt: its request, its result and the pieces."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, field, fields
from datetime import datetime
from enum import Enum
from typing import TYPE_CHECKING, ClassVar, Final, Literal, NamedTuple, TypeAlias, cast

from alveus.errors import InvalidInput
from alveus.errors.short_repr import short_repr
from alveus.llm import MEMORY_DEFAULT, RerankerChoice
from alveus.memory.blocks import Blocks
from alveus.memory.prompt.quoting import named
from alveus.search.query import SearchOptions, search_options
from alveus.search.signals import Signals
from alveus.search.superseded import Superseded
from alveus.sets.writer import Where
from alveus.state.paths import path_names
from alveus.store.items import search_notes
from alveus.store.scope import Scope, set_name
from alveus.store.times import AsOf, Moment, ValidAt
from alveus.text.budget import Budget
from alveus.values.keywords import suggest_names_in
from alveus.values.lazy_dataclass import dataclass
from alveus.values.markup import Html
from alveus.values.storable import Path, checked_name, choice, counted, valid_text

if TYPE_CHECKING:
    from alveus.sets.writer import Where, Writer
    from alveus.state import MemoryObject

Part: TypeAlias = Literal[
    "system", "recent", "blocks", "profile", "exact", "knowledge", "items", "query"
]
"""The part of a prompt that a piece belongs to."""

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
    """A piece of a prompt, or a candidate that was left out.

    Attributes:
        part: The part of the prompt.
        source: The origin of the piece: ``set/id``, or the path of an exact value, or "" for a text
            of the caller.
        text: The text; secrets are masked unless the request shows them.
        shown: Whether the prompt contains the piece.
        reason: Why the piece was shown or left out.
        tokens: The number of tokens of the piece alone.
        rank: The rank of the piece in its part. Rank 1 is the newest exchange, or the best hit.
        set_name: The set of the piece's items.
        ids: The ids of the piece's items; an exchange of several messages has several.
        time: The time of the item, or of the first item of an exchange.
        score: The search score.
        parts: The components of the score; see `Hit`.
    """

    part: Part
    source: str
    text: str
    shown: bool = False
    reason: str = ""
    tokens: int = 0
    rank: int = 1
    set_name: str | None = None
    ids: tuple[str, ...] = ()
    time: datetime | None = None
    score: float | None = None
    parts: Mapping[str, float] = field(default_factory=dict[str, float])


@dataclass(frozen=True, slots=True)
class Context:
    """A prompt made from memory.

    Attributes:
        messages: The prompt as messages for a chat client or `ChatModel.complete`: instructions
            with the remembered data, the last exchanges, and the query.
        text: The same prompt as one text, for completion models.
        tokens: The number of tokens of the messages, by the budget's counter.
        budget_tokens: The budget of the request, or None if it set no limit.
        why: The shown pieces, in order; then up to `LEFT_OUT` pieces that were left out.
        more: The number of further left-out pieces.
        partial: Whether some searched items had no vector yet; see `Hits`.
        reranker_failure: The reason why the re-ranker did not order the hits, or None; see `Hits`.
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
        """Return a table with a line per piece: part, rank, score, tokens, source and reason."""
        of = "" if self.budget_tokens is None else f" of {self.budget_tokens:,}"
        lines = [f"{self.tokens:,}{of} tokens in {len(self.messages)} messages"]
        lines.append("     part       rank  score  tokens  source, reason and text")
        for piece in self.why:
            mark = "in " if piece.shown else "out"
            score = "" if piece.score is None else f"{piece.score:.2f}"
            about = [part for part in (_whole_source(piece), piece.reason) if part]
            line = " ".join(f"{': '.join(about)} | {piece.text}".split())
            row = f"{mark}  {piece.part:9}  {piece.rank:4}  {score:>5}  {piece.tokens:6}"
            lines.append(f"{row}  {line[:112]}")
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
        """Return a bar of the tokens per part; the rest of the bar is the unused budget."""
        from alveus.values import html

        shares: dict[str, float] = {}
        for piece in taken:
            shares[_TITLES[piece.part]] = shares.get(_TITLES[piece.part], 0) + piece.tokens
        shares["Framing"] = max(0, self.tokens - sum(shares.values()))
        colours = dict(zip(_TITLES.values(), html.MANY_COLOURS, strict=False))
        return html.bar(shares, max(self.budget_tokens or 0, sum(shares.values())), colours)


def _whole_source(piece: Piece) -> str:
    """Return the source of a piece with whole ids, as calls and commands accept them."""
    if piece.set_name is None or not piece.ids:
        return piece.source
    ends = dict.fromkeys((piece.ids[0], piece.ids[-1]))
    return f"{named(piece.set_name)}/{' to '.join(map(named, ends))}"


def _pieces_table(pieces: Sequence[Piece]) -> Html:
    from alveus.values import html

    rows = [
        [_TITLES[piece.part], piece.tokens, html.noted(piece.text, piece.source, piece.reason)]
        for piece in pieces
    ]
    return html.table(["Part", "Tokens", "Piece"], rows) if rows else html.soft("none")


class DefaultSources(Enum):
    """Values of a request's arguments that stand for sources without naming them."""

    ALL = "all"
    NEWEST = "newest"


ALL: Final = DefaultSources.ALL
"""Stands for all sets, blocks or exact values, in arguments that accept names."""

NEWEST: Final = DefaultSources.NEWEST
"""Stands for the key's set of messages or observations with the latest add."""

All: TypeAlias = Literal[DefaultSources.ALL]
Newest: TypeAlias = Literal[DefaultSources.NEWEST]

ExactPaths: TypeAlias = str | Sequence[str | Path]
"""A dotted path into the exact tree, or several paths. `ALL` is the whole tree."""

Secrecy: TypeAlias = Literal["mask", "show"]
"""Whether a context masks or shows secrets from memory."""

Details: TypeAlias = Literal["hide", "show"]
"""Whether each remembered line shows its set, its item and the time of day."""


@suggest_names_in
@dataclass(frozen=True, slots=True)
class Shares:
    """The division of a budget among the parts of a prompt.

    Shares are relative and need not add up to 1. Unused tokens of a part go to the other parts. The
    newest exchange is taken before the division. A part with share 0 gets only tokens that the
    other parts leave.

    Attributes:
        exact: The share of exact values, if the request names any.
        knowledge: The share of items of knowledge.
        recent: The share of the last exchanges.
        items: The share of items of the key's sets.
        profile: The share of the profile, if the request names one.
        blocks: The share of blocks, if the request names any.
    """

    exact: float = 0.1
    knowledge: float = 0.2
    recent: float = 0.15
    items: float = 0.55
    profile: float = 0.15
    blocks: float = 0.2

    def __post_init__(self) -> None:
        """Raise `InvalidInput` if a share is not a number from 0 on, or if all shares are 0."""
        for each in fields(self):
            share: object = getattr(self, each.name)
            if type(share) not in (int, float) or not 0 <= cast("float", share) < math.inf:
                raise InvalidInput(
                    f"the share {each.name} must be a number of 0 or more, not {short_repr(share)}"
                )
        if not any(getattr(self, each.name) for each in fields(self)):
            raise InvalidInput("the shares of a budget are all 0; set at least one of them above 0")


class Sources(NamedTuple):
    """The memory of a key, from which a prompt is made.

    Attributes:
        writer: Reads the sets of the key, and knowledge.
        scope: The scope of the key.
        tree: Returns the root of the key's exact memory.
    """

    writer: Writer
    scope: Scope
    tree: Callable[[], MemoryObject]

    def blocks(self) -> Blocks:
        """Return the key's blocks."""
        return Blocks(self.tree(), self.scope, lambda: self.writer.alone("history"))


@dataclass(frozen=True, slots=True)
class ContextRequest:
    """The arguments of `Prompts.context`, checked."""

    query: str | None
    _: KW_ONLY
    budget_tokens: int | Budget | None = None
    system: str | None = None
    messages: str | Newest | None = NEWEST
    recent: int | None = None
    sets: Sequence[str] | All | None = ALL
    knowledge: Sequence[str] | All | None = ALL
    exact: ExactPaths | All | None = None
    profile: str | None = None
    blocks: Sequence[str] | All | None = None
    where: Where | None = None
    as_of: AsOf | None = None
    valid_at: ValidAt | None = None
    signals: Signals | None = None
    limit: int | None = None
    reranker: RerankerChoice = MEMORY_DEFAULT
    min_score: float | None = None
    superseded: Superseded = "fold"
    shares: Shares = Shares()
    secrets: Secrecy = "mask"
    details: Details = "hide"

    def __post_init__(self) -> None:
        """Raise the error of an invalid argument, before anything is read."""
        object.__setattr__(self, "budget_tokens", Budget.of(self.budget_tokens))
        for name in ("query", "system"):
            text: object = getattr(self, name)
            if text is not None and type(text) is not str:
                raise InvalidInput(f"{name} must be a str, or None, not {short_repr(text)}")
            object.__setattr__(self, name, valid_text(text).value)
        if isinstance(self.messages, str):
            set_name(self.messages)
        elif self.messages is not NEWEST and self.messages is not None:
            shown = short_repr(self.messages)
            raise InvalidInput(f"messages must be the name of a set, or None, not {shown}")
        object.__setattr__(self, "sets", _names(self.sets, "sets", set_name))
        object.__setattr__(self, "knowledge", _names(self.knowledge, "knowledge", set_name))
        object.__setattr__(self, "exact", exact_paths(self.exact))
        if self.profile is not None:
            checked_name(self.profile, "a profile's name")
        blocks = _names(self.blocks, "blocks", lambda name: checked_name(name, "a block's name"))
        object.__setattr__(self, "blocks", blocks)
        choice(self.secrets, "secrets", "mask", "show")
        choice(self.details, "details", "hide", "show")
        if self.recent is not None:
            counted(self.recent, "recent", least=0)
        if not isinstance(self.shares, Shares):  # pyright: ignore[reportUnnecessaryIsInstance] - user input
            raise InvalidInput(f"shares must be a Shares, not {short_repr(self.shares)}")
        self.search_options(1 if self.limit is None else self.limit, None)

    @property
    def budget(self) -> Budget:
        """The budget with its counter."""
        return cast("Budget", self.budget_tokens)

    def search_options(self, limit: int, at: Moment | None) -> SearchOptions:
        """Return the options for searching sets, with at most *limit* hits."""
        return search_options(
            limit,
            self.where,
            at,
            self.signals,
            self.valid_at,
            min_score=self.min_score,
            reranker=self.reranker,
            superseded=self.superseded,
        )


@dataclass(frozen=True, slots=True)
class KeyContextRequest(ContextRequest):
    """The arguments of `Memory.context`, checked."""

    IF_MISSING: ClassVar[str] = 'name the key, as in memory.context(query, key="ada")'
    """What to do about a missing argument; see `arguments_of`."""

    _: KW_ONLY
    key: str


def exact_paths(given: ExactPaths | All | None) -> list[Path]:
    """Return the requested paths in order. Paths below another requested path are left out.

    Args:
        given: The argument ``exact=``: None means no path, `ALL` for the root.

    Raises:
        InvalidInput: *given* is neither a path nor a list of paths.
        InvalidPath, TooLarge: An entry is not a valid path.
    """
    if given is None:
        return []
    if given is ALL:
        return [()]
    if isinstance(given, str) and not given:
        raise InvalidInput("exact='' is not a path; to show every exact value, pass exact=ALL")
    if not isinstance(given, (str, list, tuple)):
        raise InvalidInput(
            f"exact must be a path, a list of paths, ALL or None, not {short_repr(given)}"
        )
    paths = [path_names(path) for path in ([given] if isinstance(given, str) else given)]
    return [
        path
        for path in dict.fromkeys(paths)
        if not any(other != path and path[: len(other)] == other for other in paths)
    ]


def _names(given: object, what: str, checked: Callable[[str], str]) -> Sequence[str] | All | None:
    if given is None or given is ALL:
        return given
    if not isinstance(given, (list, tuple)):
        raise InvalidInput(f"{what} must be a list of names, ALL or None, not {short_repr(given)}")
    return list(dict.fromkeys([checked(name) for name in cast("Sequence[str]", given)]))
