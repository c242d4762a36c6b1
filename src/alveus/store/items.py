"""Items of memory sets, and hits of a search: frozen values, no I/O."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from dataclasses import fields as dataclass_fields
from datetime import datetime, timedelta, tzinfo
from typing import Any, Self, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from alveus.values import wire
from alveus.values.keywords import suggest_names_in
from alveus.values.lazy_dataclass import dataclass
from alveus.values.markup import Figure, Html
from alveus.values.storable import REPLACED, ValidText, Value, counted, valid_text

LeftOut: TypeAlias = Any
"""Beside a type, of a field that a user may leave out, but that every item of alveus has.

So a type checker takes what a search found for a text where one is wanted, and not for None.
"""


@suggest_names_in
@dataclass(frozen=True, slots=True)
class Item:
    """One thing that a memory set holds.

    Made by a user it is what `add` takes: `value` and what else is known of it. Given by alveus it
    is complete, and a copy: changing its value or metadata changes nothing in the store.

    Attributes:
        value: What is remembered; any storable value.
        id: Its name in its set; made by alveus where none is given.
        text: What meaning and words read; for a str value the value itself, for a dict its
            ``text`` or ``content``, else it must be given.
        metadata: Facts to filter by. ``caption`` (a str or a list of them) is read by search too.
        importance: 0..1.
        speaker: Who said it.
        role: Such as ``user`` or ``assistant``; where none is given, a speaker who is called
            ``user`` or ``human`` has the role ``user``, one called ``assistant``, ``ai`` or ``bot``
            the role ``assistant``.
        session: The conversation it belongs to; search looks at its neighbours there.
        time: When it happened, by default the time of the commit; given by alveus it has the offset
            from UTC that it came with, by which the days of the item are counted.
        created: Time of the commit that added it.
        updated: Time of the commit that made this version.
        accessed: When it was last returned by a search or a get, or None. May lag, and what a
            killed process had noted since its last commit is lost.
        sources: Ids of the items it was derived from.
        compacted: Whether it stands for its sources.
        until: For one that stands for a span of time: its end; `time` is its beginning.
        expire_at: From then on it is in no read of the present, unless it is changed before.
        valid_from: When what it says began to hold; None: always did.
        valid_to: When that ceased to hold; None: it holds.
        version: 1, 2, …: rises with each change.
        set_name: The set it belongs to.
        retired: In a history: when this version stopped being the live one, if it did.
        ttl: Given by a user instead of *expire_at*: how long it stays from the call on, a
            timedelta or text like ``"7d"`` (``s m h d w``). Items that alveus gives have none.
        texts: Given by a user instead of *text*: up to 32 texts that meaning reads one by one, and
            of which the best one counts; words read all. Items that alveus gives have none: their
            *text* is all of them, with U+001E and a line end between two.
        timezone: Given by a user where *time* is left out, or has another zone: whose offset the
            item keeps, as a name, an offset or a tzinfo; by default that of *time*, or the
            memory's. Items that alveus gives have none.
    """

    value: Any  # a storable value; as json.loads, it says no more than that
    id: str | LeftOut = None
    text: str | LeftOut = None
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    importance: float = 0.0
    speaker: str | None = None
    role: str | None = None
    session: str | None = None
    time: datetime | LeftOut = None
    created: datetime | LeftOut = None
    updated: datetime | LeftOut = None
    accessed: datetime | None = None
    sources: tuple[str, ...] = ()
    compacted: bool = False
    until: datetime | None = None
    expire_at: datetime | None = None
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    version: int = 0
    set_name: str | LeftOut = None
    retired: datetime | None = None
    ttl: timedelta | str | None = None
    texts: Sequence[str] | None = None
    timezone: tzinfo | str | None = None


ITEM_FIELDS = tuple(one.name for one in dataclass_fields(Item))
"""In their order."""

ITEM_TEXTS = ("value", "text", "texts", "metadata", "speaker")
"""Those whose texts may say anything; the other texts are names."""

ONLY_A_TEXT = Item(..., id=..., metadata=cast("Any", ...))
"""What an item is as of which nothing is known but its value, id and metadata."""

ONLY_SAID = replace(ONLY_A_TEXT, speaker=..., role=..., session=..., time=...)
"""What one is as of which it is also known who said it, and when."""

SAID_FIELDS = tuple(name for name in ITEM_FIELDS if getattr(ONLY_SAID, name) is ...)


@dataclass(frozen=True, slots=True)
class Hit:
    """An item that a search found.

    Attributes:
        item: The item, as it is now (or was, with ``as_of=``).
        score: The sum of `parts`, each times its weight; comparable within one search only.
        parts: What the score is made of, by name: ``words`` ``meaning`` ``previous`` ``next``
            ``speaker`` ``date`` ``when`` …, already weighted, so that they add up to `score`.
        relevance: How likely it is that the item bears on the question, 0..1: comparable across
            searches. Only where the search was given a ``min_score``; else None.
    """

    item: Item
    score: float
    parts: Mapping[str, float]
    relevance: float | None = None


class ScoreParts(Mapping[str, float]):
    """What a score is made of; looked up when it is asked for.

    Args:
        names: Of the parts.
        shares: By part, numbers of several hits.
        at: Which of them this hit is.
    """

    __slots__ = ("_at", "_names", "_shares")

    def __init__(
        self, names: Sequence[str], shares: Sequence[NDArray[np.float64]], at: int
    ) -> None:
        self._names, self._shares, self._at = names, shares, at

    def __getitem__(self, name: str) -> float:
        if name not in self._names:
            raise KeyError(name)
        return float(self._shares[self._names.index(name)][self._at])

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        return repr(dict(self))


class Hits(tuple[Hit, ...]):  # noqa: SLOT001 - a tuple with a field beside needs its dict
    """What a search returns: hits, best first; ties by id.

    Attributes:
        partial: True where some items in reach have no vector yet, so that only their words were
            searched; `Memory.settle` waits for them.
        reranker_failure: Why the re-ranker that was asked for did not order them, so that they are
            in the search's own order; None: it did, or none was asked for.
        dated: The days that the question names by a word such as "yesterday", and the zone by
            which they are counted; None: it names none so.
    """

    partial: bool
    reranker_failure: str | None
    dated: str | None

    def __new__(
        cls,
        hits: Iterable[Hit] = (),
        *,
        partial: bool = False,
        reranker_failure: str | None = None,
        dated: str | None = None,
    ) -> Self:
        """Make hits of what was found."""
        self = super().__new__(cls, tuple(hits))
        self.partial = partial
        self.reranker_failure = reranker_failure
        self.dated = dated
        return self

    def __repr__(self) -> str:
        return f"<{len(self)} hits{', partial' if self.partial else ''}>"

    def _repr_html_(self) -> str:
        from alveus.values import html

        judged = any(hit.relevance is not None for hit in self)
        colours = html.part_colours(hit.parts for hit in self)
        best = max(
            (sum(share for share in hit.parts.values() if share > 0) for hit in self), default=0
        )
        rows = [
            [
                *([hit.relevance or 0.0] if judged else []),
                hit.score,
                item_html(hit.item),
                html.bar(hit.parts, best, colours),
                hit.item.set_name or "",
            ]
            for hit in self
        ]
        heads = [
            *(["Relevance"] if judged else []),
            "Score",
            "Item",
            "What its score is made of",
            "Set",
        ]
        title = html.counted(len(self), "hit")
        return html.frame(title, *([html.table(heads, rows)] if rows else []), notes=self._notes())

    def _notes(self) -> list[str]:
        notes = search_notes(partial=self.partial, reranker_failure=self.reranker_failure)
        return notes if self.dated is None else [*notes, f"the question means {self.dated}"]

    def plot(self, *, limit: int = 20) -> Figure:
        """Return a picture: for each of the best hits a bar of the parts that its score is made of.

        Raises:
            Unsupported: matplotlib is not installed; ``alveus[plot]`` brings it.
        """
        from alveus.values import pictures

        best = self[: counted(limit, "limit", least=0)]
        return pictures.score_bars([(_said(hit.item), hit.parts) for hit in best])

    def explain(self) -> str:
        """Return a table, a line per hit, of what each score is made of."""
        if not self:
            return "no hits"
        names = [n for n in self[0].parts if any(hit.parts.get(n) for hit in self)]
        judged = self[0].relevance is not None
        heads = [*(["relevance"] if judged else []), *(f"{n:>8}" for n in names)]
        lines = ["  ".join(["score", *heads, "text"])]
        for hit in self:
            parts = [f"{hit.parts.get(n, 0.0):{max(8, len(n))}.3f}" for n in names]
            if hit.relevance is not None:
                parts.insert(0, f"{hit.relevance:9.2f}")
            text = " ".join((hit.item.text or "").split())
            lines.append("  ".join([f"{hit.score:5.2f}", *parts, text[:70]]))
        return "\n".join([*lines, *self._notes()])


def search_notes(*, partial: bool, reranker_failure: str | None) -> list[str]:
    """Return what is to be said of how a search went, a line each."""
    notes = list[str]()
    if partial:
        notes.append("partial: some items in reach are not embedded yet (memory.settle waits)")
    if reranker_failure:
        notes.append(f"not re-ranked: {reranker_failure}")
    return notes


def item_html(item: Item) -> Html:
    """Return an item for a notebook: its text on a line, its speaker, time and metadata below."""
    from alveus.values import html

    facts = wire.encode(dict(item.metadata)) if item.metadata else ""
    return html.told(_said(item), item.speaker, html.time_text(item.time), facts)


def _said(item: Item) -> str:
    """Return what is shown of an item: its text, or its value."""
    said = item.text if item.text is not None else text_of(item.value)
    return wire.encode(item.value) if said is None else said


def valid_item(item: Item, *, in_value: int = 0) -> Item:
    """Return an item whose texts can be stored; its metadata says how many characters were changed.

    See `valid_text`. Its id, session and role are names, which a store refuses if they have a lone
    surrogate.

    Args:
        in_value: How many characters of the value were replaced before.
    """
    return counted_valid_item(item, in_value=in_value).value


def counted_valid_item(item: Item, *, in_value: int = 0) -> ValidText[Item]:
    """Return what `valid_item` does, and the number of characters that were replaced.

    Characters that the value has, and its text or speaker again, count once.
    """
    if not isinstance(item.metadata, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] - user input
        return ValidText(item, 0)  # a store refuses it
    said = {name: getattr(item, name) for name in ITEM_TEXTS}
    said["metadata"] = dict(item.metadata)
    valid = {name: valid_text(given) for name, given in said.items()}
    if not in_value and all(valid[name].value is given for name, given in said.items()):
        return ValidText(item, 0)
    counts = {name: each.replaced for name, each in valid.items()}
    own, about = in_value + counts.pop("value"), counts.pop("metadata")
    replaced = max(own, sum(counts.values())) + about
    made: dict[str, Any] = {name: each.value for name, each in valid.items()}
    if replaced:
        made["metadata"] = {**made["metadata"], REPLACED: replaced}
    return ValidText(replace(item, **made), replaced)


def text_of(value: Value) -> str | None:
    """Return what meaning reads of *value*: itself, or its ``text`` or ``content``; else None."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        for name in ("text", "content"):
            if isinstance(value.get(name), str):
                return cast("str", value[name])
    return None
