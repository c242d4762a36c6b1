"""Where the changes of a memory go, and the reads that see them.

`CommitWriter` makes each call a commit; a batch and, in an action, a run gather calls instead.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime
from functools import partial
from operator import attrgetter
from typing import Protocol, TypeAlias

from alveus.search.embedding_worker import EmbeddingWorker
from alveus.search.item_cache import RecentHits
from alveus.search.near_duplicates import Alike, Probe
from alveus.search.projection import MapPoints
from alveus.search.query import Searcher, SearchOptions
from alveus.sets.compaction import CALLED, Compacted, Compactions, Given, stored_form
from alveus.state.committed_tree import RENEWAL_PARTS
from alveus.state.paths import MemoryKind, PathCache
from alveus.store import (
    AdmissionCheck,
    Batch,
    Commit,
    Compaction,
    Define,
    Definition,
    ItemChange,
    ItemRecord,
    Limits,
    NamedRequest,
    Scope,
    SetInfo,
    SetRef,
    Store,
    StoredItem,
    await_vectors,
    unchecked_sets,
)
from alveus.store.commit_queue import JointAdds
from alveus.store.filters import Filter
from alveus.store.items import Hits, Item
from alveus.store.records import RecordMaker, position_of
from alveus.store.scope import is_hidden
from alveus.store.sets import Plan, SetRules
from alveus.store.times import AsOf, DisciplinedClock, Moment, check_set, expired, moment_of
from alveus.values import wire
from alveus.values.events import EventListeners
from alveus.values.forks import HandleLock, KeyLocks, ProcessBound, variant_of
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import Value, checked_name, counted, moment
from alveus.values.times import UTC_ZONE, Zone

_FIRST = attrgetter("first")

PAGE = 256
"""Items that a walk over a set reads at a time, at most."""

MOST_RULES = 4_096
"""Sets whose rules are remembered."""

Where: TypeAlias = Mapping[str, object]

NewId: TypeAlias = Callable[[], str]


@dataclass(frozen=True, slots=True)
class PlannedWrite:
    """What one call changes, and what it answers.

    Attributes:
        retry: Built on what was read: when that has moved on, building it again is right.
        admission_checks: What it adds was checked by; when that has moved on, it is built again.
        whole: It rests on all that the sets in *admission_checks* held, so that it is never mended.
    """

    items: Sequence[ItemChange]
    result: Value
    define: Sequence[Define] = ()
    retry: bool = False
    admission_checks: Sequence[AdmissionCheck] = ()
    whole: bool = False


class WriteCall(Protocol):
    """A call that changes sets, as a value: planned again, from a fresh read, when refused."""

    @property
    def name(self) -> str:
        """What was called."""
        ...

    def arguments(self) -> Value:
        """Return what it was passed: a repetition under one idempotency key passes the same."""
        ...

    def plan(self, new_id: NewId) -> PlannedWrite:
        """Return what it changes, as the sets are now; *new_id* makes ids of new items."""
        ...


@dataclass(frozen=True, slots=True)
class PlannerCall:
    """A call that is planned by a function.

    Attributes:
        passed: The arguments, as they were passed.
    """

    name: str
    passed: Value
    planner: Callable[[NewId], PlannedWrite]

    def arguments(self) -> Value:
        """See `WriteCall.arguments`."""
        return self.passed

    def plan(self, new_id: NewId) -> PlannedWrite:
        """See `WriteCall.plan`."""
        return self.planner(new_id)


@dataclass(frozen=True, kw_only=True)
class Engine(ProcessBound):
    """What an open memory works with; made once by `Memory.open`, shared by all its handles.

    Attributes:
        expects: Notes that say which embedder this memory's space and knowledge remember.
        wait_s: How long a call tries again while others change what it is based on.
        lanes: A lock per key: its outside writes to the exact tree go one after the other.
        listeners: Called with memory events.
        admission: Rules for the sets of keys that name none themselves.
        knowledge: What the knowledge is named that its keys share.
        rules_by_set: The rules of sets, as far as is known: of the others, and where the rules
            are others by now, the store refuses what is added. None: to be looked up.
        recent_hits: What searches gave lately.
        owners: Names under which runners held leases that are closed by now; the next one takes
            such a name, since the store keeps a file open for each.
        paths: Parsed paths of short-term memory, the same for all keys.
        joint_adds: Where the adds of many threads meet.
        timezone: The zone of the reader: it defines the days of times without a zone.
        original: The engine that this one shows to a reader elsewhere, kept alive with it.
    """

    store: Store
    recorder: RecordMaker
    recall: Searcher
    alike: Alike
    worker: EmbeddingWorker
    compactions: Compactions
    clock: DisciplinedClock
    limits: Limits | None
    wait_s: float
    expects: tuple[tuple[str, str], ...] = ()
    lanes: KeyLocks[Scope] = field(default_factory=KeyLocks[Scope])
    listeners: EventListeners = field(default_factory=EventListeners)
    owners: deque[str] = field(default_factory=deque[str])
    admission: Sequence[Plan] = ()
    knowledge: str = ""
    rules_by_set: dict[SetRef, SetRules | None] = field(
        default_factory=dict[SetRef, "SetRules | None"]
    )
    recent_hits: RecentHits = field(default_factory=RecentHits)
    paths: PathCache = field(default_factory=partial(PathCache, MemoryKind.SHORT_TERM))
    timezone: Zone = UTC_ZONE
    original: Engine | None = None
    joint_adds: JointAdds = field(init=False)

    def __post_init__(self) -> None:
        """Have adds meet."""
        object.__setattr__(self, "joint_adds", JointAdds(self.store, self.recorder, self.clock))

    def in_zone(self, zone: Zone) -> Engine:
        """Return the same engine for a reader in another time zone."""
        return variant_of(self, timezone=zone, original=self)

    def op(self, scope: Scope, idempotency_key: str) -> bytes:
        """Return the name of the op that a caller's idempotency key stands for."""
        checked_name(idempotency_key, "an idempotency key")
        return wire.digest(
            ["idempotency key", scope.space, scope.key, idempotency_key], salt=self.store.salt()
        )

    def request(self, plain: Value) -> bytes:
        """Return the digest that tells a request from others."""
        return wire.digest(plain, salt=self.store.salt())

    def named(self, scope: Scope, idempotency_key: str, plain: Value) -> NamedRequest:
        """Return the name under which a request that is no batch is carried out once."""
        op = self.op(scope, idempotency_key)
        return NamedRequest(op, self.request(plain), idempotency_key)

    def done(self, named: NamedRequest) -> Commit | None:
        """Return the commit that took a name, or None.

        Raises:
            IdempotencyConflict: It was taken by another request.
            Forgotten: What that commit made was erased.
        """
        return self.store.commit_of_op(named.op, request=named.request, label=named.label)

    def lane(self, scope: Scope) -> HandleLock:
        """Return the lock of a key."""
        return self.lanes.of(scope)

    def written(self, items: Sequence[ItemChange], commit: Commit) -> None:
        """Have pending items embedded, and full sets compacted, after a commit."""
        if await_vectors(items):
            self.worker.notify()
        if commit.sets_to_compact or self.compactions.listeners.kinds:
            self.compactions.committed(items, commit)

    def relieve(self, items: Sequence[ItemChange]) -> None:
        """Compact sets that are twice full before *items* are added; see `Compactions.relieve`."""
        if self.compactions.pressed:
            self.compactions.relieve(items)

    def moved(self, batch: Batch) -> None:
        """Look up again what *batch* was checked by, and against: it was refused."""
        for ref in {*unchecked_sets(batch), *(s.set for s in batch.admission_checks or ())}:
            self.rules_by_set[ref] = None
            self.alike.forget(ref)


class SetReader:
    """Reads of sets from the store; a batch adds its changes to them."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def now(self) -> int:
        """Return the time by which it is judged what has expired and what holds."""
        return self._engine.clock()

    def _is_expired(self, stored: StoredItem, at: Moment | None) -> bool:
        """Whether an item has expired; the clock is asked only where one can."""
        if stored.record.expires is None:
            return False
        return expired(stored.record, self.now() if at is None else at.time)

    def records(self, items: Sequence[tuple[str, Item]]) -> list[ItemRecord]:
        """Return what a store keeps of items."""
        engine = self._engine
        return engine.recorder.records(items, now=engine.clock(), zone=engine.timezone)

    @property
    def timezone(self) -> Zone:
        """Where the reader is."""
        return self._engine.timezone

    def get(self, ref: SetRef, ids: Sequence[str], *, at: Moment | None) -> list[StoredItem | None]:
        """Return live versions that have not expired, in the order asked."""
        store = self._engine.store
        if at is not None:
            check_set(store, ref, at)
        items = store.get(ref, ids, at=None if at is None else at.commit)
        for position, stored in enumerate(items):
            if stored is not None and stored.record.expires is not None:
                items[position] = None if self._is_expired(stored, at) else stored
        return items

    def page(
        self,
        ref: SetRef,
        *,
        after: tuple[int, int] | None,
        limit: int,
        newest_first: bool,
        at: Moment | None,
    ) -> list[StoredItem]:
        """Return up to *limit* items that have not expired, by (time, first)."""
        store, commit = self._engine.store, None if at is None else at.commit
        if at is not None:
            check_set(store, ref, at)
        items: list[StoredItem] = []
        while True:
            missing = limit - len(items)
            batch = store.page(
                ref, after=after, limit=missing, newest_first=newest_first, at=commit
            )
            items += [stored for stored in batch if not self._is_expired(stored, at)]
            if len(items) >= limit or len(batch) < missing:
                return items
            after = position_of(batch[-1])

    def walk(
        self,
        ref: SetRef,
        *,
        newest_first: bool = False,
        at: Moment | None = None,
        after: tuple[int, int] | None = None,
        page: int = PAGE,
    ) -> Iterator[StoredItem]:
        """Yield the items of a set in order of time; those of one page are of one moment.

        Args:
            page: Items of the first page; each further page has twice as many, at most `PAGE`.
        """
        while items := self.page(ref, after=after, limit=page, newest_first=newest_first, at=at):
            yield from items
            if len(items) < page:
                return
            after, page = position_of(items[-1]), min(2 * page, PAGE)

    def versions(self, ref: SetRef, item_id: str) -> list[tuple[StoredItem, datetime | None]]:
        """Return every version of an id, and when each was retired, or expired."""
        return self._retired(self._engine.store.versions(ref, item_id))

    def _retired(self, versions: Sequence[StoredItem]) -> list[tuple[StoredItem, datetime | None]]:
        store = self._engine.store
        commits = {s.end_commit for s in versions if s.end_commit is not None}
        times = {commit: store.time_of_commit(commit) for commit in commits}
        ends: list[tuple[StoredItem, datetime | None]] = []
        for stored in versions:
            end = None if stored.end_commit is None else times[stored.end_commit]
            if end is None and self._is_expired(stored, None):
                end = stored.record.expires
            ends.append((stored, None if end is None else moment(end)))
        return ends

    def stored_compaction(self, compaction: Given) -> str | Plan:
        """Return how a set keeps what it is compacted by."""
        return stored_form(compaction, self._engine.compactions.local_strategies)

    def compact(self, ref: SetRef, compaction: Given | None) -> Compacted | None:
        """Do one step of a set's compaction; None: there is nothing to do."""
        return self._engine.compactions.step(ref, by=CALLED, given=compaction)

    def compactions(self, ref: SetRef, *, before: int | None, limit: int) -> list[Compaction]:
        """Return compactions of a set, the latest first."""
        return self._engine.store.compactions(ref, before=before, limit=limit)

    def compaction(self, number: int) -> Compaction | None:
        """Return a compaction, or None."""
        return self._engine.store.compaction(number)

    def sources(self, rows: Sequence[int]) -> list[tuple[int, int]]:
        """Return what versions were derived from: (row, source's row)."""
        return self._engine.store.source_links(rows)

    def rows(self, rows: Sequence[int]) -> list[tuple[StoredItem, datetime | None]]:
        """Return versions that are kept, and when each was retired."""
        return self._retired(self._engine.store.items_by_row(rows))

    def info(self, ref: SetRef) -> SetInfo | None:
        """Return the set as it is now; its items are those that have not expired."""
        info = self._engine.store.set_info(ref)
        return None if info is None else self._unexpired_info(info)

    def count(self, ref: SetRef) -> int:
        """Return how many items a set has that have not expired."""
        info = self.info(ref)
        return 0 if info is None else info.items

    def _unexpired_info(self, info: SetInfo) -> SetInfo:
        if info.next_expiry is None or info.next_expiry > (now := self.now()):
            return info
        expired_rows = self._engine.store.expired_or_invalid_rows(
            info.number, now=now, valid_at=None
        )
        return replace(info, items=info.items - len(expired_rows))

    def sets(self, scope: Scope) -> list[str]:
        """Return the names of the sets of *scope*, sorted."""
        return [ref.name for ref in self._engine.store.all_sets(scope) if not is_hidden(ref)]

    def counts(self, scope: Scope) -> dict[str, int]:
        """Return how many items the sets of *scope* have, by their names, sorted."""
        infos = [i for i in self._engine.store.set_infos(scope) if not is_hidden(i.ref)]
        return {info.ref.name: self._unexpired_info(info).items for info in infos}

    def hidden(self, scope: Scope) -> list[str]:
        """Return the names of the sets of *scope* that alveus keeps for itself."""
        return [ref.name for ref in self._engine.store.all_sets(scope) if is_hidden(ref)]

    def origins(self, ref: SetRef) -> list[Scope]:
        """Return whose sets may have what an item of a set is made of."""
        return list(dict.fromkeys((ref.scope, Scope(self._engine.knowledge, None))))

    def moment_of(self, as_of: AsOf) -> Moment:
        """Return the moment that *as_of* means."""
        return moment_of(self._engine.store, as_of, now=self.now())

    def search(self, sets: Sequence[SetRef] | Scope, query: str, options: SearchOptions) -> Hits:
        """Search sets together: those named, or all of a scope."""
        hits = self._engine.recall.search(
            sets, query, options, now=self.now(), zone=self._engine.timezone
        )
        self._engine.recent_hits.note(sets, hits)
        return hits

    def points(
        self, sets: Sequence[SetRef] | Scope, *, where: Where | None, limit: int | None
    ) -> MapPoints:
        """Return the committed items of sets, those named or all of a scope, as points."""
        most = None if limit is None else counted(limit, "limit", least=0)
        return self._engine.recall.points(sets, where=Filter.parse(where), limit=most)

    def touch(self, items: Sequence[StoredItem]) -> None:
        """Note that items were read."""
        self._engine.recall.touch(list(map(_FIRST, items)))

    def renew(self, items: Sequence[StoredItem], life: int) -> int:
        """Have items that expire live so many microseconds from now on; return how many do."""
        now = self.now()
        latest, gain = now + life, max(1, life // RENEWAL_PARTS)
        renewals = [
            (stored.row, latest)
            for stored in items
            if stored.record.expires is not None and latest - stored.record.expires >= gain
        ]
        return self._engine.recall.renew(renewals, now=now) if renewals else 0

    def rules(self, ref: SetRef, definition: Definition | None) -> SetRules | None:
        """Return the rules of a set; None as far as is known: it has none.

        Args:
            definition: How the set is to be defined, if nothing was added to it yet.
        """
        engine = self._engine
        default = () if ref.scope.key is None else engine.admission
        if definition is None:
            if ref not in engine.rules_by_set and not default:
                return None
            rules = engine.rules_by_set.get(ref)
            if rules is not None:
                return rules
            info = self.info(ref)
            definition = None if info is None else info.definition
        set_rules = None if definition is None else definition.admission
        if set_rules is None and not default:
            engine.rules_by_set.pop(ref, None)
            return None
        if len(engine.rules_by_set) >= MOST_RULES:
            engine.rules_by_set.clear()
        rules = SetRules(set_rules, default if set_rules is None else set_rules)
        engine.rules_by_set[ref] = rules
        return rules

    def rules_check(self, ref: SetRef) -> list[AdmissionCheck]:
        """Return the check of an add that the rules of a set, if it has any, do not judge."""
        rules = self.rules(ref, None)
        return [] if rules is None else [AdmissionCheck(ref, rules.set_rules)]

    def rules_unchanged(self, ref: SetRef, rules: SetRules) -> bool:
        """Return whether these are still the rules of a set; else they are looked up again."""
        info = self.info(ref)
        same = info is None or AdmissionCheck(ref, rules.set_rules).matches_rules(info.definition)
        if not same:
            self._engine.rules_by_set[ref] = None
        return same

    def alike(
        self, ref: SetRef, probes: Sequence[Probe]
    ) -> tuple[int | None, list[list[StoredItem]]]:
        """Return items that each probe may be looking for, and the row up to which all count."""
        last_row, matches = self._engine.alike.find(ref, probes)
        return last_row, self._unexpired(matches)

    def _unexpired(self, matches: Sequence[Sequence[StoredItem]]) -> list[list[StoredItem]]:
        """Return those items that did not expire."""
        now = self._engine.clock()
        return [[s for s in items if not expired(s.record, now)] for items in matches]

    def recent_hits(self, scope: Scope) -> list[tuple[Scope, Item]]:
        """Return what searches of *scope*, or of knowledge, gave lately, and whose it is."""
        return self._engine.recent_hits.of(scope)

    def alone(self, what: str) -> Engine:
        """Return the engine for *what*, which is a separate commit.

        Raises:
            Unusable: What is done here is committed together.
        """
        _ = what
        return self._engine


class Writer(SetReader, ABC):
    """The destination of changes of sets: commits or a batch; its reads see them."""

    def __init__(self, engine: Engine, scope: Scope) -> None:
        self._engine, self.scope = engine, scope

    @abstractmethod
    def write(self, call: WriteCall, *, idempotency_key: str | None = None) -> Value:
        """Plan a call, keep what it changes, and return its result."""
