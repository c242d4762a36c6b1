"""What a context is asked for, checked."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from enum import Enum
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias, cast

from alveus.errors import InvalidInput
from alveus.errors.short_repr import short_repr
from alveus.llm import MEMORY_DEFAULT, RerankerChoice, checked_reranker
from alveus.memory.prompt.quoting import OPENING
from alveus.search.signals import Signals
from alveus.sets.set_options import check_signals, checked_relevance
from alveus.state.paths import path_names
from alveus.store.filters import Filter
from alveus.store.scope import Scope, set_name
from alveus.store.times import AsOf, ValidAt, valid_time
from alveus.text.budget import Budget
from alveus.values.keywords import suggest_names_in
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import Path, checked_name, choice, counted, moment, valid_text
from alveus.values.times import UTC_ZONE, Zone

if TYPE_CHECKING:
    from alveus.sets.writer import Where, Writer
    from alveus.state import MemoryObject


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
    for goes to the others, and the newest exchange has its place before any is divided. 0: the
    part has only what the others leave.

    Attributes:
        exact: Of exact values, if any are named.
        knowledge: Of items of knowledge.
        recent: Of the last exchanges.
        items: Of items of the key's sets.
        profile: Of what is always told of somebody, if anybody is named.
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
        object.__setattr__(self, "sets", _names(self.sets, "sets"))
        object.__setattr__(self, "knowledge", _names(self.knowledge, "knowledge"))
        object.__setattr__(self, "exact", exact_paths(self.exact))
        if self.profile is not None:
            checked_name(self.profile, "a profile's name")
        object.__setattr__(self, "blocks", _block_names(self.blocks))
        choice(self.secrets, "secrets", "mask", "show")
        choice(self.details, "details", "hide", "show")
        if self.recent is not None:
            counted(self.recent, "recent", least=0)
        if self.limit is not None:
            counted(self.limit, "limit", most=1000)
        if not isinstance(self.shares, Shares):  # pyright: ignore[reportUnnecessaryIsInstance] - user input
            raise InvalidInput(f"shares must be a Shares, not {short_repr(self.shares)}")
        check_signals(self.signals)
        checked_reranker(self.reranker)
        checked_relevance(self.min_score)
        Filter.parse(self.where)
        valid_time(self.valid_at)


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


def _block_names(given: object) -> Sequence[str] | All | None:
    if given is None or given is ALL:
        return given
    if not isinstance(given, (list, tuple)):
        raise InvalidInput(f"blocks must be a list of names, ALL, or None, not {short_repr(given)}")
    names = [checked_name(name, "a block's name") for name in cast("Sequence[str]", given)]
    return list(dict.fromkeys(names))


def _names(given: object, what: str) -> Sequence[str] | All | None:
    if given is None or given is ALL:
        return given
    if not isinstance(given, (list, tuple)):
        raise InvalidInput(f"{what} must be a list of names, or None, not {short_repr(given)}")
    return list(dict.fromkeys([set_name(name) for name in cast("Sequence[str]", given)]))
