"""The order of hits of which a later one says otherwise than an earlier one.

The hits of one subject form a group. A hit gets at least the best score of the earlier hits of its
group, so the latest stands first and the earlier ones follow it. No hit loses any of its score, and
other hits keep their order. What a hit gains is the part `CURRENT` of its score.

Only items of one set that one speaker said are compared, and only if no field of their metadata
sets them apart. X
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Literal, NamedTuple, TypeAlias

from alveus.search.changes import NOTHING, REPLACES, Question, asked, change
from alveus.search.cues import can_be_outdated, makes_outdated
from alveus.search.frames import Key, Reading
from alveus.search.item_cache import CachedItem
from alveus.search.ranking import Scored
from alveus.store.items import Hit, Item
from alveus.values.storable import microseconds

Superseded: TypeAlias = Literal["fold", "show", "hide"]
"""What a search does with hits that a later hit replaces."""

CURRENT = "current"
"""The part of a score that a hit gains because it says otherwise than an earlier item."""

LEAST_CANDIDATES = 30
"""Hits among which the latest of a group is looked for; three times the limit if that is more."""

MOST_MORE = 50
"""Most hits beyond the limit among which the latest of a group is looked for."""


def candidates(limit: int) -> int:
    """Return how many hits are compared for a search with a limit."""
    return max(LEAST_CANDIDATES, min(3 * limit, limit + MOST_MORE))


CUE: Key = ("", "")
"""Stands for the items that say that something changed, which need no key; see `cues.py`."""


class ComparedHit(NamedTuple):
    """A hit with its item, and the earlier items that it replaces."""

    scored: Scored
    cached: CachedItem
    supersedes: tuple[Item, ...] = ()

    def hit(self, *, hide: bool) -> Hit:
        """Return the hit, without the earlier items if *hide* is true."""
        scored, earlier = self.scored, () if hide else self.supersedes
        return Hit(self.cached.item(), scored.score, scored.parts, scored.relevance, earlier)


class _Said(NamedTuple):
    """A found item with what its text says. `at` is its position among the hits."""

    at: int
    item: Item
    read: Reading | None
    order: tuple[int, int]


def current_first(
    hits: Sequence[ComparedHit], shared: set[Key], query: str, until: int, *, fold: bool
) -> Sequence[ComparedHit]:
    """Return *hits* with the latest of each group first.

    Args:
        shared: The keys under which hits can be compared.
        until: A time in microseconds. A later item replaces nothing.
        fold: Whether replaced hits move into `supersedes` of the hit that replaces them.
    """
    question = asked(query)
    if question is None:
        return hits
    taken = set[int]()
    groups = _groups(_pairs(hits, shared, until), question, taken) if shared - {CUE} else []
    if CUE in shared:
        groups += _cued_groups(hits, question, until, taken)
    if not groups:
        return hits
    found: list[ComparedHit | None] = list(hits)
    placed = [one for group in groups for one in _lift(found, group, fold=fold)]
    placed += [
        _Placed(-hit.scored.score, at, hit) for at, hit in enumerate(found) if hit is not None
    ]
    placed.sort(key=lambda one: one[:2])
    return [one.hit for one in placed]


def shared_keys(items: Sequence[CachedItem | None]) -> set[Key]:
    """Return the keys under which several items can be compared; for most searches none.

    `CUE` is among them if an item says that something changed.
    """
    seen, shared = set[Key](), set[Key]()
    for item in items:
        if item is None:
            continue
        if item.changes is not None and item.cue() is not None:
            shared.add(CUE)
        read = None if item.says is None else item.reading()
        if read is not None:
            for key in read.keys:
                (shared if key in seen else seen).add(key)
    return shared


class _Placed(NamedTuple):
    """A hit with its new negative score, and the position of the best hit of its group."""

    score: float
    position: int
    hit: ComparedHit


class _Group(NamedTuple):
    """Items of one subject, latest first, and for each whether the latest replaces it."""

    items: list[_Said]
    replaced: list[bool]


def _pairs(hits: Sequence[ComparedHit], shared: set[Key], until: int) -> list[list[_Said]]:
    """Return the lists of items that may contradict each other, latest first."""
    by_key: dict[tuple[Key, str], list[_Said]] = {}
    for at, hit in enumerate(hits):
        read = hit.cached.reading()
        if read is None or shared.isdisjoint(read.keys):
            continue
        item = hit.cached.item()
        said = _Said(at, item, read, (microseconds(item.time), hit.scored.row))
        if said.order[0] <= until:
            for key in read.keys:
                by_key.setdefault((key, item.set_name), []).append(said)
    return [sorted(said, key=attrgetter("order"), reverse=True) for said in by_key.values()]


def _groups(lists: Sequence[list[_Said]], question: Question, taken: set[int]) -> list[_Group]:
    """Return the groups of items that replace each other; their positions get into *taken*."""
    groups: list[_Group] = []
    for said in lists:
        rest = [one for one in said if one.at not in taken]
        while len(rest) > 1:
            latest, *earlier = rest
            group, rest = _Group([latest], [False]), list[_Said]()
            for one in earlier:
                what = _change(one, latest, question)
                if what == NOTHING:
                    rest.append(one)
                else:
                    group.items.append(one)
                    group.replaced.append(what == REPLACES)
            if len(group.items) > 1:
                groups.append(group)
                taken.update(one.at for one in group.items)
    return groups


def _cued_groups(
    hits: Sequence[ComparedHit], question: Question, until: int, taken: set[int]
) -> list[_Group]:
    """Return the groups of an item with a cue and the earlier good hits that it makes outdated."""
    least, groups = hits[0].scored.score / 2, list[_Group]()
    good = [
        at
        for at, hit in enumerate(hits)
        if hit.scored.score >= least and can_be_outdated(hit.cached.text or "", question)
    ]
    if not good:
        return groups
    cued = [_cued(hits, at) for at, hit in enumerate(hits) if hit.cached.cue() is not None]
    for latest in sorted(cued, key=attrgetter("order"), reverse=True):
        if latest.at in taken or latest.order[0] > until:
            continue
        text = latest.item.text or ""
        said = [
            _cued(hits, at)
            for at in good
            if at not in taken and makes_outdated(text, hits[at].cached.text or "", question)
        ]
        earlier = [
            one
            for one in said
            if one.order[0] < latest.order[0]
            and one.item.set_name == latest.item.set_name
            and _is_same_source(one.item, latest.item)
        ]
        if earlier:
            earlier.sort(key=attrgetter("order"), reverse=True)
            groups.append(_Group([latest, *earlier], [False] * (1 + len(earlier))))
            taken.update(one.at for one in groups[-1].items)
    return groups


def _cued(hits: Sequence[ComparedHit], at: int) -> _Said:
    item = hits[at].cached.item()
    return _Said(at, item, None, (microseconds(item.time), hits[at].scored.row))


def _change(old: _Said, new: _Said, question: Question) -> int:
    if old.at == new.at or not _is_same_source(old.item, new.item):
        return NOTHING
    if old.read is None or new.read is None:
        return NOTHING
    return change(old.read, new.read, question)


def _is_same_source(old: Item, new: Item) -> bool:
    """Return whether the same person says both, about the same thing."""
    if old.speaker != new.speaker:
        return False
    if old.speaker is None and old.role not in (new.role, "assistant"):
        return False
    return not (old.metadata and new.metadata) or not _differ(old.metadata, new.metadata)


def _differ(old: Mapping[str, object], new: Mapping[str, object]) -> bool:
    """Return whether a text in the metadata of both sets them apart, such as a project."""
    for name, value in old.items():
        other = new.get(name)
        if isinstance(value, str) and isinstance(other, str) and value != other:
            return True
    return False


def _lift(found: list[ComparedHit | None], group: _Group, *, fold: bool) -> list[_Placed]:
    """Return the hits of a group with their new scores, and take them out of *found*.

    A hit gets the best score and the best relevance of itself and the earlier hits of its group.
    """
    position = min(one.at for one in group.items)
    lifted: list[ComparedHit] = []
    score, relevance = float("-inf"), 0.0
    for one in reversed(group.items):
        hit = found[one.at]
        found[one.at] = None
        if hit is not None:
            score = max(score, hit.scored.score)
            relevance = max(relevance, hit.scored.relevance or 0.0)
            lifted.append(hit._replace(scored=_scored(hit.scored, score, relevance)))
    lifted.reverse()
    if fold:
        under = tuple(
            hit.cached.item() for hit, gone in zip(lifted, group.replaced, strict=True) if gone
        )
        lifted = [hit for hit, gone in zip(lifted, group.replaced, strict=True) if not gone]
        lifted[0] = lifted[0]._replace(supersedes=under)
    return [_Placed(-hit.scored.score, position, hit) for hit in lifted]


def _scored(scored: Scored, score: float, relevance: float) -> Scored:
    gained = score - scored.score
    parts = {**scored.parts, CURRENT: gained} if gained else scored.parts
    judged = None if scored.relevance is None else relevance
    return scored._replace(score=score, parts=parts, relevance=judged)
