"""Items of memory sets, and hits of a search: frozen values, no I/O."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from dataclasses import fields as dataclass_fields
from datetime import datetime, timedelta, tzinfo
from math import isnan
from typing import Any, Self, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from alveus.values import wire
from alveus.values.keywords import suggest_names_in
from alveus.values.lazy_dataclass import dataclass
from alveus.values.markup import Figure, Html
from alveus.values.storable import REPLACED, ValidText, Value, counted, valid_text

LeftOut: TypeAlias = Any
"""The type of a field that a user may omit, but that every item returned by alveus has.

With this type, a type checker accepts the text of a search result as a str that is not None.
"""


@suggest_names_in
@dataclass(frozen=True, slots=True)
class Item:
    """One item of a memory set.

    A user makes an item for `add`, from `value` and any other fields. An item that alveus returns
    is complete, and a copy: changing its value or metadata changes nothing in the store.

    Attributes:
        value: The remembered data; any storable value.
        id: The name of the item in its set; alveus makes one if none is given.
        text: The text that search reads, by meaning and by words. The default is a str value
            itself, or the ``text`` or ``content`` of a dict; other values need a text.
        metadata: Facts to filter by. Search also reads ``caption`` (a str or a list of them).
        importance: A number from 0 to 1.
        speaker: The name of the person or program that said the text.
        role: A role such as ``user`` or ``assistant``. The default comes from the speaker: ``user``
            and ``human`` have the role ``user``; ``assistant``, ``ai`` and ``bot`` have the role
            ``assistant``.
        session: The conversation to which the item belongs. Search also looks at the items before
            and after the item in that conversation.
        time: When the remembered event happened; the default is the time of the commit. Returned
            times have the offset from UTC with which the item was added. Search for a day compares
            that day with the item's date at this offset.
        created: Time of the commit that added the item.
        updated: Time of the commit that made this version.
        accessed: When a search or a get last returned the item, or None. The time may lag: a killed
            process loses the times that it had noted since its last commit.
        sources: Ids of the items from which the item was derived.
        compacted: Whether the item replaces its sources.
        until: The end of a span of time that begins at `time`; only for items that cover a span.
        expire_at: From this time on, reads of the present exclude the item. An earlier update can
            move this time.
        valid_from: When the fact in the item began to hold, or None if it always held.
        valid_to: When the fact in the item ceased to hold, or None if it still holds.
        version: The number of the version: 1, 2, …; it rises with each change.
        set_name: The name of the set to which the item belongs.
        retired: In a history: when this version ceased to be the live one, or None.
        ttl: Given by a user instead of *expire_at*: how long the item is kept after the call, a
            timedelta or text like ``"7d"`` (``s m h d w``). Items from alveus have none.
        texts: Given by a user instead of *text*: up to 32 texts. Search by meaning compares each
            text and counts the best one; search by words reads all. Items from alveus have no
            *texts*: their *text* contains all texts, separated by U+001E and a line end.
        timezone: Given by a user: the zone whose offset the item keeps, as a name, an offset or a
            tzinfo. The default is the zone of *time*, or else the zone of the memory. Items from
            alveus have none.
    """

    value: Any  # a storable value; untyped, like the result of json.loads
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
"""The names of the fields of an item, in order."""

ITEM_TEXTS = ("value", "text", "texts", "metadata", "speaker")
"""Fields that may contain any text. The texts in other fields are names."""

ONLY_A_TEXT = Item(..., id=..., metadata=cast("Any", ...))
"""A template of items with defaults in all fields but value, id and metadata."""

ONLY_SAID = replace(ONLY_A_TEXT, speaker=..., role=..., session=..., time=...)
"""A template like `ONLY_A_TEXT` of items that may also have a speaker, role, session and time."""

SAID_FIELDS = tuple(name for name in ITEM_FIELDS if getattr(ONLY_SAID, name) is ...)


@dataclass(frozen=True, slots=True)
class Hit:
    """An item that a search found.

    Attributes:
        item: The item as it is now or, with ``as_of=``, as it was then.
        score: The sum of `parts`. Scores are comparable within one search only.
        parts: The weighted parts of the score by name: ``words`` ``meaning`` ``previous`` ``next``
            ``speaker`` ``date`` ``when`` …. Their sum is `score`.
        relevance: How likely the item is to bear on the question, from 0 to 1; comparable across
            searches. None unless the search was given a ``min_score``.
        supersedes: The found items that this item makes outdated, the latest first. They are not
            among the hits of the search. Empty with ``superseded="show"`` and ``"hide"``.
    """

    item: Item
    score: float
    parts: Mapping[str, float]
    relevance: float | None = None
    supersedes: tuple[Item, ...] = ()


WORDS_ALONE = "words_alone"
"""The name of a part, always 0, of a hit whose score has no meaning in it.

The embedder does not read the language of the item or of the question, or one has no text.
"""


class ScoreParts(Mapping[str, float]):
    """The parts of one hit's score by name, which are looked up on request.

    Args:
        names: Names of the parts.
        shares: For each part, an array with a number for each hit of the search; NaN for a hit
            that does not have the part.
        at: The index of the hit in these arrays.
    """

    __slots__ = ("_at", "_names", "_shares")

    def __init__(
        self, names: Sequence[str], shares: Sequence[NDArray[np.float64]], at: int
    ) -> None:
        self._names, self._shares, self._at = names, shares, at

    def __getitem__(self, name: str) -> float:
        if name not in self._names:
            raise KeyError(name)
        share = float(self._shares[self._names.index(name)][self._at])
        if isnan(share):
            raise KeyError(name)
        return share

    def __iter__(self) -> Iterator[str]:
        for name, shares in zip(self._names, self._shares, strict=True):
            if not isnan(shares[self._at]):
                yield name

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return repr(dict(self))


class Hits(tuple[Hit, ...]):  # noqa: SLOT001 - a tuple with a field beside needs its dict
    """The result of a search: a tuple of hits, best first. Hits of equal score are ordered by id.

    Attributes:
        partial: True if some items have no vector yet, so that only their words were searched.
            `Memory.settle` waits for the vectors.
        reranker_failure: Why the re-ranker failed; the hits then keep the order of the search.
            None if the re-ranker succeeded, or if none was requested.
        dated: The days that the question names by a word such as "yesterday", and the zone in which
            they are counted. None if the question names no days.
        margin: How much nearer the query is to the items than to requests that need no memory,
            about -1..1. None unless `context` searched, with an embedder of sentences.
    """

    partial: bool
    reranker_failure: str | None
    dated: str | None
    margin: float | None

    def __new__(
        cls,
        hits: Iterable[Hit] = (),
        *,
        partial: bool = False,
        reranker_failure: str | None = None,
        dated: str | None = None,
        margin: float | None = None,
    ) -> Self:
        """Make a `Hits` of the results of a search."""
        self = super().__new__(cls, tuple(hits))
        self.partial = partial
        self.reranker_failure = reranker_failure
        self.dated = dated
        self.margin = margin
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
        if alone := sum(WORDS_ALONE in hit.parts for hit in self):
            what = "the embedder does not read their language, or that of the question"
            notes.append(f"{alone} of {len(self)} hits by words alone: {what}")
        return notes if self.dated is None else [*notes, f"the question means {self.dated}"]

    def plot(self, *, limit: int = 20) -> Figure:
        """Return a figure with a bar for each of the best *limit* hits.

        The parts of a bar are the parts of the hit's score.

        Raises:
            Unsupported: matplotlib is not installed; ``alveus[plot]`` installs it.
        """
        from alveus.values import pictures

        best = self[: counted(limit, "limit", least=0)]
        return pictures.score_bars([(_said(hit.item), hit.parts) for hit in best])

    def explain(self) -> str:
        """Return a table with a line per hit, which shows the parts of the hit's score."""
        if not self:
            return "no hits"
        known = dict.fromkeys(name for hit in self for name in hit.parts)
        names = [n for n in known if any(hit.parts.get(n) for hit in self)]
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
    """Return the remarks that a reader of a search's results needs, one line each."""
    notes = list[str]()
    if partial:
        notes.append("partial: some items in reach are not embedded yet (memory.settle waits)")
    if reranker_failure:
        notes.append(f"not re-ranked: {reranker_failure}")
    return notes


def item_html(item: Item) -> Html:
    """Return an item as HTML for a notebook: its text, then its speaker, time and metadata."""
    from alveus.values import html

    facts = wire.encode(dict(item.metadata)) if item.metadata else ""
    return html.noted(_said(item), item.speaker, html.time_text(item.time), facts)


def _said(item: Item) -> str:
    """Return the text of an item, or else its value as text."""
    said = item.text if item.text is not None else text_of(item.value)
    return wire.encode(item.value) if said is None else said


def valid_item(item: Item, *, in_value: int = 0) -> Item:
    """Return *item* with texts that can be stored, and with the number of replaced characters.

    `valid_text` replaces the characters, and the field `REPLACED` of the metadata has their number.
    Id, session and role are names, which stay as they are: a store refuses a name with a lone
    surrogate.

    Args:
        in_value: Number of characters of the value that were already replaced.
    """
    return counted_valid_item(item, in_value=in_value).value


def counted_valid_item(item: Item, *, in_value: int = 0) -> ValidText[Item]:
    """Return the result of `valid_item`, and the number of replaced characters.

    A text often repeats the value. So of two numbers, the one of the value and the one of all
    other texts together, only the higher one counts. Replaced characters of metadata are added.
    """
    if not isinstance(item.metadata, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] - user input
        return ValidText(item, 0)  # a store refuses such an item
    said = {name: getattr(item, name) for name in ITEM_TEXTS}
    said["metadata"] = dict(item.metadata)
    valid = {name: valid_text(given) for name, given in said.items()}
    if not in_value and all(valid[name].value is given for name, given in said.items()):
        return ValidText(item, 0)
    counts = {name: each.replaced for name, each in valid.items()}
    of_value, about = in_value + counts.pop("value"), counts.pop("metadata")
    replaced = max(of_value, sum(counts.values())) + about
    made: dict[str, Any] = {name: each.value for name, each in valid.items()}
    if replaced:
        made["metadata"] = {**made["metadata"], REPLACED: replaced}
    return ValidText(replace(item, **made), replaced)


def text_of(value: Value) -> str | None:
    """Return the text of *value* that search reads: a str itself, or a dict's ``text``/``content``.

    Returns None if *value* has no such text.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        for name in ("text", "content"):
            if isinstance(value.get(name), str):
                return cast("str", value[name])
    return None
