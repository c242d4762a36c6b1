"""From a strategy and a set to one step of compaction: a plan, checked, as a change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice

from fornix.compaction.clustering import alike, meanings, topics
from fornix.compaction.plans import CompactionPlan, Derived, checked_plan
from fornix.compaction.set_snapshot import SetSize, Stock, end_of, place_of, time_of
from fornix.compaction.strategies import BuiltIn, CustomStrategy, Merge, Summarize, Trim
from fornix.errors import InvalidInput, InvalidPlan, ModelUnavailable, StrategyFailed, Unusable
from fornix.store import Add, Compact, ItemRecord, Link, StoredItem
from fornix.store.items import Item
from fornix.store.records import RecordMaker, item_of
from fornix.store.scope import SetRef
from fornix.text import Summariser, Summary, sentences
from fornix.values import wire
from fornix.values.storable import Value, microseconds, moment

STEP = 1_000
"""Items that one step turns into summaries, if nothing says how many."""

MODEL_STEP = 24
"""The same, where a model is asked."""

PER_TOPIC = 3
"""Items to a summary, if nothing says how many."""

EXTRACTIVE = "extractive"


@dataclass(frozen=True, slots=True)
class Workshop:
    """What plans are made with.

    Attributes:
        chosen: Gives a summary of chosen sentences.
        model: Gives one of a model; None: the memory has none.
    """

    recorder: RecordMaker
    chosen: Callable[[], Summariser]
    model: Callable[[], Summariser] | None = None


@dataclass(frozen=True, slots=True)
class Draw:
    """A plan, and the items it is about."""

    plan: CompactionPlan
    known: Mapping[str, StoredItem]
    strategy: dict[str, Value]
    notes: dict[str, Value]


def drawn(stock: Stock, strategy: BuiltIn | CustomStrategy, shop: Workshop) -> Draw | None:
    """Return what a strategy does to a set in one step; None: there is nothing to do.

    Raises:
        InvalidPlan: A user's strategy planned what cannot be carried out.
        StrategyFailed: It raised.
        FornixError: A model or an embedder failed.
    """
    match strategy:
        case Trim():
            return _trimmed(stock, strategy)
        case Summarize():
            return _summarised(stock, strategy, shop)
        case Merge():
            return _merged(stock, strategy, shop)
        case CustomStrategy():
            return _own(stock, strategy, shop)


# --- trim -------------------------------------------------------------------------------------


def _trimmed(stock: Stock, trim: Trim) -> Draw | None:
    items = stock.oldest()
    if trim.by == "oldest":
        chosen = list(islice(items, trim.n)) if trim.n else _down(stock, items)
    else:
        ordered = sorted(items, key=_keys(trim, stock.now))
        chosen = ordered[: trim.n] if trim.n else _down(stock, iter(ordered))
    if not chosen:
        return None
    known = {stored.record.id: stored for stored in chosen}
    return Draw(CompactionPlan(retire=tuple(known)), known, {"name": "trim", "by": trim.by}, {})


def _down(stock: Stock, pages: Iterator[StoredItem]) -> list[StoredItem]:
    """Return the first of some items, as many as bring the set to its low-water mark."""
    left, chosen = stock.held + stock.coming, list[StoredItem]()
    low = stock.definition.low_water
    while left.over(stock.definition, low) and (page := list(islice(pages, STEP))):
        for stored, size in zip(page, stock.sizes(page), strict=True):
            if not left.over(stock.definition, low):
                break
            chosen.append(stored)
            left -= size
    return chosen


def _keys(trim: Trim, now: int) -> Callable[[StoredItem], float]:
    """Return what items are ordered by, the first to go first."""

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


def _summarised(stock: Stock, how: Summarize, shop: Workshop) -> Draw | None:
    asks = how.model != "never" and shop.model is not None
    taken, limit = _taken(stock, how, MODEL_STEP if asks else STEP)
    if len(taken) <= limit:
        return None
    features = stock.view.features(stock.ref, taken)
    rows = meanings(taken, features, shop.recorder)
    add: list[Derived] = []
    by: dict[str, Value] = {}
    for group in topics(rows, limit):
        if len(group) < 2 and limit > 1:  # noqa: PLR2004 - alone: as short as its summary
            continue
        sources = [taken[at] for at in group]
        summary = _summary(_said(sources), how, shop)
        if not summary.text.strip():
            continue
        add.append(_summary_item(sources, summary))
        count = by.get(summary.by, 0)
        by[summary.by] = 1 + (count if isinstance(count, int) else 0)
    if not add:
        return None
    known = {stored.record.id: stored for stored in taken}
    return Draw(CompactionPlan(add=add), known, {"name": "summarize"}, {"summaries": by})


def _taken(stock: Stock, how: Summarize, step: int) -> tuple[list[StoredItem], int]:
    """Return the items to be summed up, and as how many.

    What holds and what held are not said in one breath: of the oldest, it is what most of them do.
    """
    held, definition = stock.held + stock.coming, stock.definition
    if how.n is None and not held.over(definition, definition.low_water):
        return [], 1
    seen = islice(_lasting(stock), step if how.n is None else how.n)
    taken, limit = list[StoredItem](), 1
    for ended, _ in Counter(_has_ended(stored, stock.now) for stored in seen).most_common():
        alike = (s for s in _lasting(stock) if _has_ended(s, stock.now) is ended)
        if how.n is not None:
            taken, limit = list(islice(alike, how.n)), how.limit or 1
        else:
            taken = _not_summed_up(alike, step, min(_wanted(stock, how), step))
            limit = how.limit or -(-len(taken) // PER_TOPIC)
        if len(taken) > limit:
            break
    return taken, limit


def _lasting(stock: Stock) -> Iterator[StoredItem]:
    """Yield the items that a summary may stand for, the oldest first.

    What is yet to expire, to end to hold or to begin is not among them: it would in a summary, too.
    """
    for stored in stock.oldest():
        record = stored.record
        begun = record.valid_from is None or record.valid_from <= stock.now
        if record.expires is None and (
            _has_ended(stored, stock.now) or (begun and record.valid_to is None)
        ):
            yield stored


def _has_ended(stored: StoredItem, now: int) -> bool:
    return stored.record.valid_to is not None and stored.record.valid_to <= now


def _not_summed_up(items: Iterator[StoredItem], step: int, most: int) -> list[StoredItem]:
    """Return up to *most* of the first items, those first that are no summaries, by time."""
    short, small = list[StoredItem](), list[StoredItem]()
    for stored in items:
        (small if stored.record.compacted else short).append(stored)
        if len(short) == step:
            break
    return sorted([*short, *small][:most], key=lambda s: (time_of(s), s.first))


def _wanted(stock: Stock, how: Summarize) -> int:
    """Return how many items, as summaries, bring the set to its low-water mark."""
    definition = stock.definition
    share = 1.0
    held = stock.held + stock.coming
    for count, most in (
        (held.items, definition.capacity),
        (held.tokens, definition.capacity_tokens),
        (held.bytes, definition.capacity_bytes),
    ):
        if most is not None and count:
            share = min(share, definition.low_water * most / count)
    excess = held.items * (1 - share)
    if how.limit is not None:
        return int(excess) + how.limit + 1
    return int(excess * PER_TOPIC / (PER_TOPIC - 1)) + 2


def _said(sources: Sequence[StoredItem]) -> list[str]:
    """Return what items say; where several speak, or in several roles, who says each sentence.

    A summary may take any of the sentences, and nobody is to seem to have said another's.
    """
    records = [s.record for s in sources]
    if len({(record.speaker, record.role) for record in records}) == 1:
        return [record.text or "" for record in records]
    return [_labelled(r.text or "", r.speaker or (r.role or "").capitalize()) for r in records]


def _labelled(text: str, who: str) -> str:
    """Return a text with *who* before each of its sentences."""
    if not who:
        return text
    return "\n".join(f"{who}: {sentence.text}" for sentence in sentences(text))


def _summary(texts: Sequence[str], how: Summarize, shop: Workshop) -> Summary:
    if how.model == "need" and shop.model is None:
        raise InvalidInput(
            "the set asks for summaries of a model, and this memory has none; open it with model="
        )
    if how.model == "never" or shop.model is None:
        return shop.chosen().summarise(texts, max_tokens=how.max_tokens)
    made = shop.model().summarise(texts, max_tokens=how.max_tokens)
    if how.model == "need" and made.by == EXTRACTIVE:
        raise ModelUnavailable("of the memory", made.because or "it made no summary")
    return made


def _summary_item(sources: Sequence[StoredItem], summary: Summary) -> Derived:
    metadata: dict[str, Value] = {"summarised_by": summary.by}
    if summary.because:
        metadata["because"] = summary.because
    ids = [s.record.id for s in sources]
    return Derived(ids, _shaped(sources, summary.text), summary.text, metadata)


def _shaped(sources: Sequence[StoredItem], text: str) -> Value:
    """Return a summary as a value like those of its sources: a text, or a dict that has one."""
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


def _merged(stock: Stock, how: Merge, shop: Workshop) -> Draw | None:
    items = list(stock.oldest())
    features = stock.view.features(stock.ref, items)
    if items:
        rows = meanings(items, features, shop.recorder)
        texts = [s.record.text or "" for s in items]
        groups = alike(rows, texts, [_holds(s) for s in items], how.threshold)
        if groups:
            known = {s.record.id: s for s in items}
            add = [_best([items[at] for at in group]) for group in groups]
            return Draw(CompactionPlan(add=add), known, {"name": "merge"}, {})
    held, definition = stock.held + stock.coming, stock.definition
    if how.otherwise is None or not held.over(definition, definition.high_water):
        return None
    return drawn(stock, how.otherwise, shop)


def _holds(stored: StoredItem) -> tuple[int | None, int | None, int | None]:
    record = stored.record
    return record.expires, record.valid_from, record.valid_to


def _best(sources: Sequence[StoredItem]) -> Derived:
    best = max(sources, key=lambda s: (s.record.importance, len(s.record.text or ""), s.first))
    item = item_of(best)
    ids = [s.record.id for s in sources]
    return Derived(ids, item.value, item.text, item.metadata)


# --- the user's own ---------------------------------------------------------------------------


_ASKED: ContextVar[frozenset[tuple[int, SetRef]]] = ContextVar("_ASKED", default=frozenset())
"""Of which sets, of which memory, a user's strategy is being asked by the code that runs."""


def refuse_inside(ref: SetRef, shop: Workshop) -> None:
    """Refuse to compact a set whose strategy is being asked what to do with it.

    Raises:
        Unusable: It is.
    """
    if (id(shop), ref) in _ASKED.get():
        raise Unusable(
            f"set {ref.name!r} is being compacted by the strategy that calls this; a plan says "
            "what becomes of the items, and neither compacts the set nor adds to it if it is full"
        )


def _own(stock: Stock, own: CustomStrategy, shop: Workshop) -> Draw | None:
    items = list(stock.oldest())
    known = {stored.record.id: stored for stored in items}
    capacity = stock.definition.capacity
    most = None if capacity is None else max(0, capacity - stock.coming.items)
    asked = _ASKED.set(_ASKED.get() | {(id(shop), stock.ref)})
    try:
        plan = own.plan([item_of(stored) for stored in items], most)
    except (Exception, SystemExit) as error:  # the edge to other people's code; the cause is kept
        name = stock.ref.name
        raise StrategyFailed(own.at, f"raised {error!r}", set_name=name) from error
    finally:
        _ASKED.reset(asked)
    checked = checked_plan(plan, strategy=own.at, set_name=stock.ref.name, known=known)
    if not checked.gone:
        return None
    return Draw(checked, known, {"name": "own", "at": own.at}, {})


# --- carried out ------------------------------------------------------------------------------


def carried_out(
    stock: Stock, draw: Draw, shop: Workshop, *, by: str, new_id: Callable[[], str]
) -> Compact:
    """Return the change that a plan comes to.

    Raises:
        InvalidPlan: What it adds cannot be stored.
    """
    ranks = _Ranks(stock, draw)
    added: list[Add] = []
    for derived in draw.plan.add:
        sources = [draw.known[item_id] for item_id in derived.sources]
        item = _item(derived, sources, ranks.time(sources))
        try:
            record = shop.recorder.records([(new_id(), item)], now=stock.now)[0]
        except InvalidInput as error:
            problem = f"adds what cannot be stored: {error}"
            whose = str(draw.strategy.get("at", draw.strategy["name"]))
            raise InvalidPlan(stock.ref.name, problem, strategy=whose) from error
        accessed = max((s.accessed for s in sources if s.accessed is not None), default=None)
        links = [Link(stock.ref, s.record.id) for s in sources]
        added.append(Add(stock.ref, record, fresh=True, links=links, accessed=accessed))
    how: dict[str, Value] = {"strategy": draw.strategy, "by": by, **draw.notes}
    gone = [(item_id, draw.known[item_id].version) for item_id in draw.plan.gone]
    return Compact(stock.ref, gone, added, wire.encode(how))


class _Ranks:
    """Where what stands for others is to stand: where the first of them stood."""

    def __init__(self, stock: Stock, draw: Draw) -> None:
        self._stock, self._gone = stock, [draw.known[item_id] for item_id in draw.plan.gone]
        self._ids = set(draw.plan.gone)
        self._leading: dict[int, set[str]] = {}

    def time(self, sources: Sequence[StoredItem]) -> int:
        """Return the time of what stands for *sources*: that of the first.

        Of items that were added together, all have one time. What stands for the first of these
        has a microsecond less, or it would stand behind those that stay.
        """
        first = min(sources, key=place_of)
        time = time_of(first)
        if time not in self._leading:
            self._leading[time] = self._leads(time)
        return time - 1 if first.record.id in self._leading[time] and time > _FIRST else time

    def _leads(self, time: int) -> set[str]:
        """Return ids that go and stand before any that stay, if any of the same time stay."""
        same = sum(time_of(stored) == time for stored in self._gone)
        page = self._stock.view.page(
            self._stock.ref,
            after=(time - 1, _LAST),
            limit=same + 1,
            newest_first=False,
        )
        leading = set[str]()
        for stored in page:
            if time_of(stored) != time:
                return set()
            if stored.record.id not in self._ids:
                return leading
            leading.add(stored.record.id)
        return set()


_LAST = (1 << 63) - 1
"""Past every row."""

_FIRST = microseconds(datetime.min.replace(tzinfo=UTC))
"""Nothing happened before this."""


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
        until=moment(max(map(end_of, sources))),
        expire_at=_moment(expires.pop() if len(expires) == 1 else None),
        valid_from=_moment(valid_from),
        valid_to=_moment(valid_to),
        sources=tuple(derived.sources),
        compacted=True,
    )


def _held_when(records: Sequence[ItemRecord]) -> tuple[int | None, int | None]:
    """Return since when and until when what stands for others holds: as long as all of them do.

    If they never did together, then from the first of them to the last.
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


def freed(stock: Stock, draw: Draw, change: Compact) -> SetSize:
    """Return what a set holds after a change."""
    gone = stock.sizes([draw.known[item_id] for item_id in draw.plan.gone])
    left = stock.held
    for size in gone:
        left -= size
    for add in change.added:
        left += held_by(add.record)
    return left


def held_by(record: ItemRecord) -> SetSize:
    """Return what an item with this record counts for."""
    texts = (record.value, record.text, record.metadata)
    return SetSize(1, record.tokens, sum(len(text.encode()) for text in texts if text is not None))
