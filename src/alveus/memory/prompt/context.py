"""The call that makes a prompt from memory: its request, its answer, and what each piece is."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, fields, replace
from datetime import datetime
from enum import Enum
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias, cast

from alveus.errors import InvalidInput
from alveus.errors.short_repr import short_repr
from alveus.llm import MEMORY_DEFAULT, RerankerChoice
from alveus.memory.blocks import Blocks
from alveus.memory.prompt.quoting import OPENING, named
from alveus.search.query import SearchOptions, search_options
from alveus.search.signals import Signals
from alveus.sets.writer import Where
from alveus.state.paths import path_names
from alveus.store.items import search_notes
from alveus.store.scope import Scope, set_name
from alveus.store.times import AsOf, Moment, ValidAt
from alveus.text.budget import Budget
from alveus.values.keywords import suggest_names_in, suggest_names_in_part
from alveus.values.lazy_dataclass import dataclass
from alveus.values.markup import Html
from alveus.values.storable import Path, checked_name, choice, counted, moment, valid_text
from alveus.values.times import UTC_ZONE, Zone

if TYPE_CHECKING:
    from alveus.sets.writer import Where, Writer
    from alveus.state import MemoryObject

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


class DefaultSources(Enum):
    """What a context takes where nothing is named."""

    ALL = "all"
    NEWEST = "newest"


ALL: Final = DefaultSources.ALL
"""All sets, or all exact values, where a context can be given some."""

NEWEST: Final = DefaultSources.NEWEST
"""The set of messages or observations that something was added to last."""

All: TypeAlias = Literal[DefaultSources.ALL]
Newest: TypeAlias = Literal[DefaultSources.NEWEST]

ExactPaths: TypeAlias = str | Sequence[str | Path]
"""A dotted path into the exact tree, or several paths. `ALL` is the whole tree."""

Secrecy: TypeAlias = Literal["mask", "show"]
"""What a context does with the secrets that it finds in memory."""

Details: TypeAlias = Literal["hide", "show"]
"""Whether each line of what is remembered names its set, its item and the time of day."""


@suggest_names_in
@dataclass(frozen=True, slots=True)
class Shares:
    """How a budget is divided among the parts of a prompt.

    They are compared with each other, so that they need not add up to 1. What a part has no use
    for goes to the others, and the newest exchange is taken before any is divided. 0: the
    part has only what the others leave.

    Attributes:
        exact: Of exact values, if any are named.
        knowledge: Of items of knowledge.
        recent: Of the last exchanges.
        items: Of items of the key's sets.
        profile: Of the profile, if one is named.
        blocks: Of blocks, if any are named.
    """

    exact: float = 0.1
    knowledge: float = 0.2
    recent: float = 0.15
    items: float = 0.55
    profile: float = 0.15
    blocks: float = 0.2

    def __post_init__(self) -> None:
        """Refuse what is no share."""
        for each in fields(self):
            share: object = getattr(self, each.name)
            if type(share) not in (int, float) or not 0 <= cast("float", share) < math.inf:
                raise InvalidInput(
                    f"a share is a number from 0 on; {each.name} is {short_repr(share)}"
                )
        if not any(getattr(self, each.name) for each in fields(self)):
            raise InvalidInput("of the shares of a budget at least one has to be more than 0")


MIN_SCORE = 0.5
"""Relevance that the best item found must have, so that any of a larger memory is shown.

Of questions that something answers 99.6 % have such an item; of unrelated prompts 15 % (LoCoMo,
minilm).
"""


class Sources(NamedTuple):
    """What a context is made from: the memory of a key, seen through a writer, and knowledge."""

    writer: Writer
    scope: Scope
    knowledge: Scope
    tree: Callable[[], MemoryObject]


@dataclass(frozen=True, slots=True)
class ContextRequest:
    """What a context is asked for; see `Prompts.context`.

    Attributes:
        zone: Of the reader, in which days and times are shown.
        opening: The line before what is remembered.
    """

    query: str | None
    budget: Budget
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
    shares: Shares = Shares()
    secrets: Secrecy = "mask"
    details: Details = "hide"
    zone: Zone = UTC_ZONE
    opening: str = OPENING

    def for_reader(self, zone: Zone, now: int) -> ContextRequest:
        """Return it with the days of a reader, which the opening names unless they are of UTC."""
        name = zone.name(moment(now))
        days = "" if name == "UTC" else f" Times are in {name}."
        return replace(self, zone=zone, opening=f"{OPENING}{days}")

    def __post_init__(self) -> None:
        """Refuse what cannot be asked, before anything is read."""
        for name in ("query", "system"):
            text: object = getattr(self, name)
            if text is not None and type(text) is not str:
                raise InvalidInput(f"{name} must be a str, or None, not {short_repr(text)}")
            object.__setattr__(self, name, valid_text(text).value)
        if isinstance(self.messages, str):
            set_name(self.messages)
        elif self.messages is not NEWEST and self.messages is not None:
            shown = short_repr(self.messages)
            raise InvalidInput(f"messages is the name of a set, or None, not {shown}")
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

    def search_options(self, limit: int, at: Moment | None) -> SearchOptions:
        """Return how sets are searched, for *limit* items at most."""
        return search_options(
            limit,
            self.where,
            at,
            self.signals,
            self.valid_at,
            min_score=self.min_score,
            reranker=self.reranker,
        )


def exact_paths(given: ExactPaths | All | None) -> list[Path]:
    """Return the paths that are asked for, in order, without those below another one.

    Raises:
        InvalidInput: Neither a path nor a list of paths.
        InvalidPath, TooLarge: One of them is no path.
    """
    if given is None:
        return []
    if given is ALL:
        return [()]
    if isinstance(given, str) and not given:
        raise InvalidInput("exact='' names no path; exact=ALL shows every exact value")
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


@suggest_names_in_part
class Prompts:
    """The memory of a key as prompts read it; its blocks."""

    def _sources(self) -> Sources:
        raise NotImplementedError

    @property
    def blocks(self) -> Blocks:
        """Short texts that an agent edits itself, such as what it knows of its human."""
        sources = self._sources()
        return Blocks(sources.tree(), sources.scope, lambda: sources.writer.alone("history"))

    def context(  # noqa: PLR0913 - the one call for all of a prompt; all but the query by name
        self,
        query: str | None,
        *,
        budget_tokens: int | Budget | None = None,
        system: str | None = None,
        messages: str | Newest | None = NEWEST,
        recent: int | None = None,
        sets: Sequence[str] | All | None = ALL,
        knowledge: Sequence[str] | All | None = ALL,
        exact: ExactPaths | All | None = None,
        profile: str | None = None,
        blocks: Sequence[str] | All | None = None,
        where: Where | None = None,
        as_of: AsOf | None = None,
        valid_at: ValidAt | None = None,
        signals: Signals | None = None,
        limit: int | None = None,
        reranker: RerankerChoice = MEMORY_DEFAULT,
        min_score: float | None = None,
        shares: Shares = Shares(),  # noqa: B008 - frozen
        secrets: Secrecy = "mask",
        details: Details = "hide",
    ) -> Context:
        """Return a prompt for *query*: what of the key's memory matters to it, and why.

        Its messages are the instructions with what is remembered, the last exchanges, and the
        query. What is remembered is quoted, so that nothing in it can pose as an instruction or as
        another message; if nothing of memory is shown, a sentence says why. Never over budget,
        neither the messages nor the text; the newest exchange is in it wherever it fits beside
        instructions and query; a tool call is shown with what answers it, or not at all. With a
        budget, an item or a recent message that has more than 150 tokens and more than an eighth
        of what the instructions and the query leave is cut: an item to the lines and sentences
        that match the query, a message to its beginning and its end. The same call on the same
        memory gives the same context.

        Args:
            query: What is asked now; None: nothing yet, and nothing is searched.
            budget_tokens: The most that it may have; a `Budget` says who counts.
            system: Instructions; they come first.
            messages: The set that holds the conversation; by default that of the key's sets of
                messages or observations which was added to last. None: no conversation.
            recent: Most exchanges of it.
            sets: Sets of the key that are searched. None: none.
            knowledge: Sets of knowledge that are searched. None: none.
            exact: Which exact values of short-term memory are shown: a path or a list of paths,
                each with all below it; `ALL`: all of them. By default none, since a session token
                may be among them; `Context.why` says how many there are.
            profile: Whose profile is shown: what `KeyMemory.profile` tells of somebody, by name,
                300 tokens of it at most. None: nobody's.
            blocks: Names of the blocks that are shown, each whole; `ALL`: all of them.
            where: Only items like this, of sets and of knowledge; see `MemorySet.search`.
            as_of: From memory as it was at a moment of the past.
            valid_at: When items have to hold, by default now (or at *as_of*); "any": whenever.
            signals: Weights of the searches.
            limit: Most items that a search is asked for; by default what the budget may have room
                for.
            reranker: Orders again what each search finds; see `MemorySet.search`. By default that
                of `Memory.open`, if any; None: this context goes without.
            min_score: Leave out all that a search finds if its best item has a lower relevance,
                0..1. 0: leave out nothing. By default sets are shown whole, whatever is asked, if
                *limit* allows so many items and they take at most a third of what the
                instructions and the query leave; of others the least relevance is `MIN_SCORE`.
            shares: How the budget is divided.
            secrets: "mask" replaces each secret in what is remembered by its kind, as the rule
                `Secrets` of the write barrier finds it; "show" does not. Instructions and query
                are never changed.
            details: "show" begins each line of what is remembered with its set, its id and its
                time; "hide" names the day, once for all items of that day. `Context.why` has all
                of it either way.

        Raises:
            BudgetTooSmall: Instructions and query alone have more.
            HistoryPruned: What was there at *as_of* is no longer kept.
            InvalidFilter, InvalidInput, InvalidName: It cannot be understood; nothing was read.
            Unsupported: *as_of*, in a batch or an action, with *exact*.
        """
        request = ContextRequest(
            query,
            Budget.of(budget_tokens),
            system=system,
            messages=messages,
            recent=recent,
            sets=sets,
            knowledge=knowledge,
            exact=exact,
            profile=profile,
            blocks=blocks,
            where=where,
            as_of=as_of,
            valid_at=valid_at,
            signals=signals,
            limit=limit,
            reranker=reranker,
            min_score=min_score,
            shares=shares,
            secrets=secrets,
            details=details,
        )
        return self._assembled(request)

    def _assembled(self, request: ContextRequest) -> Context:
        from alveus.memory.prompt.assembly import assembled

        return assembled(self._sources(), request)
