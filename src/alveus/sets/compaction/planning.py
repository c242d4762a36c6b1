"""Plans one step of compaction from a strategy and a set, checks it, and returns the change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import field
from datetime import UTC, datetime
from itertools import islice
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from alveus.embed import Vectors, dequantise
from alveus.embed.vectors import grouped, unit
from alveus.errors import InvalidInput, InvalidPlan, ModelUnavailable, StrategyFailed, Unusable
from alveus.sets.compaction.set_snapshot import (
    CompactionSnapshot,
    SetSize,
    end_of,
    record_size,
    time_of,
)
from alveus.sets.compaction.strategies import (
    CUSTOM,
    BuiltIn,
    CompactionPlan,
    CustomStrategy,
    Derived,
    Merge,
    Summarize,
    Trim,
    checked_plan,
)
from alveus.store import Add, Compact, Feature, ItemRecord, Link, Store, StoredItem
from alveus.store.items import Item
from alveus.store.records import RecordMaker, item_of, offset_in, position_of
from alveus.store.scope import SetRef
from alveus.text import Summariser, Summary, sentences
from alveus.values import wire, words
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import Value, microseconds, moment
from alveus.values.times import fixed_zone

HASHED = 512
"""Dimensions of word vectors, for an embedder without vectors."""

AT_ONCE = 128
"""Rows whose cosines are computed together."""


def meanings(
    items: Sequence[StoredItem], features: Mapping[int, Feature], recorder: RecordMaker
) -> Vectors:
    """Return a vector of unit length for each item, as rows.

    The vector of an item is the mean of its stored vectors. Items without stored vectors are
    embedded here. If the embedder has no vectors, the vector is made from the item's words.
    """
    dimensions = recorder.embedder.dimensions
    if not dimensions:
        return unit(np.stack([_hashed(features.get(s.row)) for s in items]))
    waiting = [s for s in items if s.row in features and features[s.row].vectors is None]
    made = dict(
        zip(
            (s.row for s in waiting),
            recorder.vectors([s.record for s in waiting]) if waiting else (),
            strict=True,
        )
    )
    rows = np.zeros((len(items), dimensions), dtype=np.float32)
    for at, stored in enumerate(items):
        feature = features.get(stored.row)
        packed = made.get(stored.row) or (feature.vectors if feature is not None else b"")
        windows = dequantise(packed or b"", dimensions).astype(np.float32)
        if len(windows):
            rows[at] = unit(windows).mean(axis=0)
    return unit(rows)


def _hashed(feature: Feature | None) -> NDArray[np.float32]:
    row = np.zeros(HASHED, dtype=np.float32)
    if feature is not None:
        terms, counts = words.unpack(feature.terms)
        np.add.at(row, terms % HASHED, np.sqrt(counts.astype(np.float32)))
    return row


def alike(
    rows: Vectors, texts: Sequence[str], kinds: Sequence[object], threshold: float
) -> list[list[int]]:
    """Return groups of nearly equal items, as lists of positions in *rows*.

    The items of a group say nearly the same as its first item. A group has at least two items.
    Items of different *kinds* are never in one group.
    """
    leader = list(range(len(rows)))
    same: dict[object, int] = {}
    for at, (text, kind) in enumerate(zip(texts, kinds, strict=True)):
        said = " ".join(text.casefold().split())
        leader[at] = same.setdefault((said, kind), at) if said else at
    leading: dict[object, list[int]] = {}
    for at, kind in enumerate(kinds):
        if leader[at] == at:
            leading.setdefault(kind, []).append(at)
    for positions in leading.values():
        _follow(rows[positions], positions, leader, threshold)
    groups: dict[int, list[int]] = {}
    for at, first in enumerate(leader):
        groups.setdefault(leader[first], []).append(at)
    return [group for group in groups.values() if len(group) > 1]


def _follow(rows: Vectors, positions: Sequence[int], leader: list[int], threshold: float) -> None:
    """Set the *leader* of each position to the first earlier leader that is near, if there is one.

    Otherwise the item becomes a leader: the first item of a group. Only leaders are compared with
    later items.
    """
    leading, led = list[int](), np.empty_like(rows)
    for start in range(0, len(rows), AT_ONCE):
        block = rows[start : start + AT_ONCE]
        before = len(leading)
        near = block @ led[:before].T >= threshold
        beside = block @ block.T >= threshold
        for row in range(len(block)):
            found = int(near[row].argmax()) if near[row].any() else before
            while before <= found < len(leading) and not beside[row, leading[found] - start]:
                found += 1
            if found < len(leading):
                leader[positions[start + row]] = positions[leading[found]]
            else:
                led[found] = block[row]
                leading.append(start + row)


STEP = 1_000
"""Default number of items that one step turns into summaries."""

MODEL_STEP = 24
"""Default number of items that one step turns into summaries by a model."""

PER_TOPIC = 3
"""Default number of items per summary."""

EXTRACTIVE = "extractive"


@dataclass(frozen=True)
class CompactionTools:
    """The tools for compacting the sets of one memory.

    Attributes:
        extractive: Returns the summariser that selects sentences.
        model: Returns the summariser that calls a model; None if the memory has no model.
        new_id: Makes the ids of items that replace others.
        expects: Names and texts of store notes that name the embedder of the vectors.
        wait_s: How long an add waits while another process compacts a set at twice its capacity.
        owner: The owner of the leases.
    """

    store: Store
    recorder: RecordMaker
    extractive: Callable[[], Summariser]
    model: Callable[[], Summariser] | None
    clock: Callable[[], int]
    new_id: Callable[[], str]
    expects: tuple[tuple[str, str], ...] = ()
    wait_s: float = 10
    owner: str = field(default_factory=lambda: f"compaction-{uuid4().hex}")


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """A plan for one step of a compaction, and the stored items that it names."""

    plan: CompactionPlan
    items_by_id: Mapping[str, StoredItem]
    strategy: dict[str, Value]
    notes: dict[str, Value]


def _planned_step(
    snapshot: CompactionSnapshot, strategy: BuiltIn | CustomStrategy, tools: CompactionTools
) -> PlannedStep | None:
    """Return one step of a strategy for a set, or None if there is nothing to do."""
    match strategy:
        case Trim():
            return _trimmed(snapshot, strategy)
        case Summarize():
            return _summarised(snapshot, strategy, tools)
        case Merge():
            return _merged(snapshot, strategy, tools)
        case CustomStrategy():
            return _custom_step(snapshot, strategy, tools)


# --- trim -------------------------------------------------------------------------------------


def _trimmed(snapshot: CompactionSnapshot, trim: Trim) -> PlannedStep | None:
    items = snapshot.oldest()
    if trim.by == "oldest":
        chosen = list(islice(items, trim.n)) if trim.n else _down(snapshot, items)
    else:
        ordered = sorted(items, key=_keys(trim, snapshot.now))
        chosen = ordered[: trim.n] if trim.n else _down(snapshot, iter(ordered))
    if not chosen:
        return None
    items_by_id = {stored.record.id: stored for stored in chosen}
    return PlannedStep(
        CompactionPlan(retire=tuple(items_by_id)), items_by_id, {"name": "trim", "by": trim.by}, {}
    )


def _down(snapshot: CompactionSnapshot, pages: Iterator[StoredItem]) -> list[StoredItem]:
    """Return the first items of *pages*: as many as bring the set to its low-water mark."""
    set_size, chosen = snapshot.live_size + snapshot.coming, list[StoredItem]()
    low = snapshot.definition.low_water
    while set_size.exceeds(snapshot.definition, low) and (page := list(islice(pages, STEP))):
        for stored, size in zip(page, snapshot.sizes(page), strict=True):
            if not set_size.exceeds(snapshot.definition, low):
                break
            chosen.append(stored)
            set_size -= size
    return chosen


def _keys(trim: Trim, now: int) -> Callable[[StoredItem], float]:
    """Return a sort key for items. The items with the lowest keys are retired first."""

    def accessed(stored: StoredItem) -> int:
        return time_of(stored) if stored.accessed is None else stored.accessed

    def score(stored: StoredItem) -> float:
        half_life = trim.half_life.total_seconds() * 1e6
        young = 0.5 ** (max(0, now - end_of(stored)) / half_life)
        lately = 0.5 ** (max(0, now - accessed(stored)) / half_life)
        record = stored.record
        return trim.importance * record.importance + trim.recency * young + trim.access * lately

    if trim.by == "importance":
        return lambda stored: stored.record.importance
    return accessed if trim.by == "accessed" else score


# --- summaries --------------------------------------------------------------------------------


def _summarised(
    snapshot: CompactionSnapshot, how: Summarize, tools: CompactionTools
) -> PlannedStep | None:
    uses_model = how.model != "never" and tools.model is not None
    candidates, limit = _candidates(snapshot, how, MODEL_STEP if uses_model else STEP)
    if len(candidates) <= limit:
        return None
    features = snapshot.view.features(snapshot.ref, candidates)
    rows = meanings(candidates, features, tools.recorder)
    add: list[Derived] = []
    by: dict[str, Value] = {}
    for group in grouped(rows, limit):
        if len(group) < 2 and limit > 1:  # noqa: PLR2004 - one item is as short as its summary
            continue
        sources = [candidates[at] for at in group]
        summary = _summary(_said(sources), how, tools)
        if not summary.text.strip():
            continue
        metadata: dict[str, Value] = {"summarised_by": summary.by}
        if summary.because:
            metadata["because"] = summary.because
        ids = [s.record.id for s in sources]
        add.append(Derived(ids, _shaped(sources, summary.text), summary.text, metadata))
        count = by.get(summary.by, 0)
        by[summary.by] = 1 + (count if isinstance(count, int) else 0)
    if not add:
        return None
    items_by_id = {stored.record.id: stored for stored in candidates}
    return PlannedStep(
        CompactionPlan(add=add), items_by_id, {"name": "summarize"}, {"summaries": by}
    )


def _candidates(
    snapshot: CompactionSnapshot, how: Summarize, step: int
) -> tuple[list[StoredItem], int]:
    """Return the items to summarize, and the most summaries to make of them.

    The items are either all valid or all ended: the kind that most of the oldest items have, or the
    other kind if the first has too few items.
    """
    size, definition = snapshot.live_size + snapshot.coming, snapshot.definition
    if how.n is None and not size.exceeds(definition, definition.low_water):
        return [], 1
    seen = islice(_lasting(snapshot), step if how.n is None else how.n)
    candidates, limit = list[StoredItem](), 1
    for ended, _ in Counter(_has_ended(stored, snapshot.now) for stored in seen).most_common():
        alike = (s for s in _lasting(snapshot) if _has_ended(s, snapshot.now) is ended)
        if how.n is not None:
            candidates, limit = list(islice(alike, how.n)), how.limit or 1
        else:
            candidates = _not_summed_up(alike, step, min(_summary_count(snapshot, how), step))
            limit = how.limit or -(-len(candidates) // PER_TOPIC)
        if len(candidates) > limit:
            break
    return candidates, limit


def _lasting(snapshot: CompactionSnapshot) -> Iterator[StoredItem]:
    """Yield the items that a summary may replace, oldest first.

    Items that will expire, or whose validity will end or begin, are left out: the parts of a
    summary cannot end or begin at different times.
    """
    for stored in snapshot.oldest():
        record = stored.record
        has_begun = record.valid_from is None or record.valid_from <= snapshot.now
        if record.expires is None and (
            _has_ended(stored, snapshot.now) or (has_begun and record.valid_to is None)
        ):
            yield stored


def _has_ended(stored: StoredItem, now: int) -> bool:
    return stored.record.valid_to is not None and stored.record.valid_to <= now


def _not_summed_up(items: Iterator[StoredItem], step: int, most: int) -> list[StoredItem]:
    """Return up to *most* of the first items, in order of time, with at most *step* non-summaries.

    Summaries are taken only if there are fewer than *most* other items.
    """
    short, small = list[StoredItem](), list[StoredItem]()
    for stored in items:
        (small if stored.record.compacted else short).append(stored)
        if len(short) == step:
            break
    return sorted([*short, *small][:most], key=lambda s: (time_of(s), s.first))


def _summary_count(snapshot: CompactionSnapshot, how: Summarize) -> int:
    """Return the number of items to summarize to reach the set's low-water mark."""
    definition = snapshot.definition
    share = 1.0
    size = snapshot.live_size + snapshot.coming
    for count, most in (
        (size.items, definition.capacity),
        (size.tokens, definition.capacity_tokens),
        (size.bytes, definition.capacity_bytes),
    ):
        if most is not None and count:
            share = min(share, definition.low_water * most / count)
    excess = size.items * (1 - share)
    if how.limit is not None:
        return int(excess) + how.limit + 1
    return int(excess * PER_TOPIC / (PER_TOPIC - 1)) + 2


def _said(sources: Sequence[StoredItem]) -> list[str]:
    """Return the texts of items. If they have several speakers or roles, label each sentence.

    A summary may use any sentence alone, and the label keeps its speaker.
    """
    records = [s.record for s in sources]
    if len({(record.speaker, record.role) for record in records}) == 1:
        return [record.text or "" for record in records]
    texts = list[str]()
    for record in records:
        text, who = record.text or "", record.speaker or (record.role or "").capitalize()
        labelled = "\n".join(f"{who}: {sentence.text}" for sentence in sentences(text))
        texts.append(labelled if who else text)
    return texts


def _summary(texts: Sequence[str], how: Summarize, tools: CompactionTools) -> Summary:
    if how.model == "need" and tools.model is None:
        raise InvalidInput(
            "the set needs a model for its summaries, but this memory has none; open it with model="
        )
    if how.model == "never" or tools.model is None:
        return tools.extractive().summarise(texts, max_tokens=how.max_tokens)
    summary = tools.model().summarise(texts, max_tokens=how.max_tokens)
    if how.model == "need" and summary.by == EXTRACTIVE:
        raise ModelUnavailable("of the memory", summary.because or "it made no summary")
    return summary


def _shaped(sources: Sequence[StoredItem], text: str) -> Value:
    """Return the value of a summary with the text *text*.

    If all sources are dicts with a text as "content" or "text", the value is a dict with the
    summary there and the fields that all sources share. Otherwise the value is the text.
    """
    values = [None if s.record.value is None else wire.decode(s.record.value) for s in sources]
    dicts = [value for value in values if isinstance(value, dict)]
    if len(dicts) < len(values):
        return text
    for name in ("content", "text"):
        if all(isinstance(value.get(name), str) for value in dicts):
            alike = dict(dicts[0])
            for value in dicts[1:]:
                alike = {k: v for k, v in alike.items() if k in value and value[k] == v}
            return {**alike, name: text}
    return text


# --- merge ------------------------------------------------------------------------------------


def _merged(snapshot: CompactionSnapshot, how: Merge, tools: CompactionTools) -> PlannedStep | None:
    items = list(snapshot.oldest())
    features = snapshot.view.features(snapshot.ref, items)
    if items:
        rows = meanings(items, features, tools.recorder)
        texts = [s.record.text or "" for s in items]
        groups = alike(rows, texts, [_holds(s) for s in items], how.threshold)
        if groups:
            items_by_id = {s.record.id: s for s in items}
            add = [_best([items[at] for at in group]) for group in groups]
            return PlannedStep(CompactionPlan(add=add), items_by_id, {"name": "merge"}, {})
    size, definition = snapshot.live_size + snapshot.coming, snapshot.definition
    if how.otherwise is None or not size.exceeds(definition, definition.high_water):
        return None
    return _planned_step(snapshot, how.otherwise, tools)


def _holds(stored: StoredItem) -> tuple[int | None, int | None, int | None]:
    record = stored.record
    return record.expires, record.valid_from, record.valid_to


def _best(sources: Sequence[StoredItem]) -> Derived:
    best = max(sources, key=lambda s: (s.record.importance, len(s.record.text or ""), s.first))
    item = item_of(best)
    ids = [s.record.id for s in sources]
    return Derived(ids, item.value, item.text, item.metadata)


# --- user strategies --------------------------------------------------------------------------


_BEING_PLANNED: ContextVar[frozenset[tuple[int, SetRef]]] = ContextVar(
    "_BEING_PLANNED", default=frozenset()
)
"""The sets for which a user's strategy is planning in this context, each with its memory."""


def refuse_inside(ref: SetRef, tools: CompactionTools) -> None:
    """Refuse to compact a set while its strategy is planning.

    Raises:
        Unusable: The strategy is planning for this set.
    """
    if (id(tools), ref) in _BEING_PLANNED.get():
        raise Unusable(
            f"set {ref.name!r} is being compacted by the strategy that makes this call; a "
            "strategy must return a plan, and not change the set"
        )


def _custom_step(
    snapshot: CompactionSnapshot, custom: CustomStrategy, tools: CompactionTools
) -> PlannedStep | None:
    items = list(snapshot.oldest())
    items_by_id = {stored.record.id: stored for stored in items}
    capacity = snapshot.definition.capacity
    most = None if capacity is None else max(0, capacity - snapshot.coming.items)
    token = _BEING_PLANNED.set(_BEING_PLANNED.get() | {(id(tools), snapshot.ref)})
    try:
        plan = custom.plan([item_of(stored) for stored in items], most)
    except (Exception, SystemExit) as error:  # the edge to a user's code; the cause is kept
        name = snapshot.ref.name
        raise StrategyFailed(custom.at, f"raised {error!r}", set_name=name) from error
    finally:
        _BEING_PLANNED.reset(token)
    checked = checked_plan(
        plan, strategy=custom.at, set_name=snapshot.ref.name, item_ids=items_by_id
    )
    if not checked.retired_ids:
        return None
    return PlannedStep(checked, items_by_id, {"name": CUSTOM, "at": custom.at}, {})


# --- carried out ------------------------------------------------------------------------------


def _carried_out(
    snapshot: CompactionSnapshot, step: PlannedStep, tools: CompactionTools, *, by: str
) -> Compact:
    """Return the change that carries out a plan.

    Raises:
        InvalidPlan: An item of the plan cannot be stored.
    """
    ranks = _Ranks(snapshot, step)
    added: list[Add] = []
    for derived in step.plan.add:
        sources = [step.items_by_id[item_id] for item_id in derived.sources]
        item = _item(derived, sources, ranks.time(sources))
        try:
            record = tools.recorder.records([(tools.new_id(), item)], now=snapshot.now)[0]
        except InvalidInput as error:
            problem = f"adds a value that cannot be stored: {error}"
            whose = str(step.strategy.get("at", step.strategy["name"]))
            raise InvalidPlan(snapshot.ref.name, problem, strategy=whose) from error
        accessed = max((s.accessed for s in sources if s.accessed is not None), default=None)
        links = [Link(snapshot.ref, s.record.id) for s in sources]
        added.append(Add(snapshot.ref, record, fresh=True, links=links, accessed=accessed))
    how: dict[str, Value] = {"strategy": step.strategy, "by": by, **step.notes}
    retired = [(item_id, step.items_by_id[item_id].version) for item_id in step.plan.retired_ids]
    return Compact(snapshot.ref, retired, added, wire.encode(how))


class _Ranks:
    """Gives items that replace others their times: each takes the place of its first source."""

    def __init__(self, snapshot: CompactionSnapshot, step: PlannedStep) -> None:
        self._snapshot = snapshot
        self._retired = [step.items_by_id[item_id] for item_id in step.plan.retired_ids]
        self._ids = set(step.plan.retired_ids)
        self._leading: dict[int, set[str]] = {}

    def time(self, sources: Sequence[StoredItem]) -> int:
        """Return the time of the item that replaces *sources*: the time of the first source.

        Items that were added together have the same time. If the first of them is replaced, the
        time of the replacement is one microsecond earlier, so that the replacement stays before the
        items that remain.
        """
        first = min(sources, key=position_of)
        time = time_of(first)
        if time not in self._leading:
            self._leading[time] = self._leads(time)
        return time - 1 if first.record.id in self._leading[time] and time > _FIRST else time

    def _leads(self, time: int) -> set[str]:
        """Return the ids of retired items at *time* that precede all remaining items at *time*.

        Return no ids if no item at *time* remains.
        """
        same = sum(time_of(stored) == time for stored in self._retired)
        view, ref = self._snapshot.view, self._snapshot.ref
        page = view.page(ref, (time - 1, _LAST), same + 1)
        leading = set[str]()
        for stored in page:
            if time_of(stored) != time:
                return set()
            if stored.record.id not in self._ids:
                return leading
            leading.add(stored.record.id)
        return set()


_LAST = (1 << 63) - 1
"""A number that no row number exceeds."""

_FIRST = microseconds(datetime.min.replace(tzinfo=UTC))
"""Earliest possible time of an item."""


def _item(derived: Derived, sources: Sequence[StoredItem], time: int) -> Item:
    records = [s.record for s in sources]
    importance = derived.importance
    if importance is None:
        importance = max(record.importance for record in records)
    expires = {record.expires for record in records}
    valid_from, valid_to = _held_when(records)
    return Item(
        derived.value,
        text=derived.text,
        metadata=derived.metadata,
        importance=importance,
        speaker=_agreed([record.speaker for record in records]),
        role=_agreed([record.role for record in records]),
        session=_agreed([record.session for record in records]),
        time=moment(time),
        timezone=fixed_zone(offset_in(records[0].metadata)),
        until=moment(max(map(end_of, sources))),
        expire_at=_moment(expires.pop() if len(expires) == 1 else None),
        valid_from=_moment(valid_from),
        valid_to=_moment(valid_to),
        sources=tuple(derived.sources),
        compacted=True,
    )


def _held_when(records: Sequence[ItemRecord]) -> tuple[int | None, int | None]:
    """Return the start and the end of the validity of an item that replaces *records*.

    The item is valid while all of *records* are valid. If they are never valid at the same time, it
    is valid from the first start to the last end. None means without a start or an end.
    """
    since = [record.valid_from for record in records if record.valid_from is not None]
    until = [record.valid_to for record in records if record.valid_to is not None]
    begins, ends = max(since, default=None), min(until, default=None)
    if begins is None or ends is None or begins < ends:
        return begins, ends
    return (
        min(since) if len(since) == len(records) else None,
        max(until) if len(until) == len(records) else None,
    )


def _moment(time: int | None) -> datetime | None:
    return None if time is None else moment(time)


def _agreed(labels: Sequence[str | None]) -> str | None:
    return labels[0] if len(set(labels)) == 1 else None


def next_step(
    snapshot: CompactionSnapshot,
    strategy: BuiltIn | CustomStrategy,
    tools: CompactionTools,
    *,
    by: str,
) -> tuple[Compact, SetSize] | None:
    """Return the next step of a strategy, and the size of the set after the step.

    Return None if the strategy has nothing to do.

    Args:
        by: The executor, which is stored with the compaction.

    Raises:
        InvalidPlan: The plan of a user's strategy cannot be carried out.
        StrategyFailed: A user's strategy raised.
        AlveusError: A model or an embedder failed.
    """
    step = _planned_step(snapshot, strategy, tools)
    if step is None:
        return None
    change, size = _carried_out(snapshot, step, tools, by=by), snapshot.live_size
    for retired in snapshot.sizes([step.items_by_id[name] for name in step.plan.retired_ids]):
        size -= retired
    for add in change.added:
        size += record_size(add.record)
    return change, size
