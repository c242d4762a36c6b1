"""Writers: they take the changes of a memory's sets, and their reads see these changes.

`CommitWriter` makes each call a commit; a batch, or a run in an action, gathers calls instead.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime
from functools import partial
from operator import attrgetter
from typing import NamedTuple, Protocol, TypeAlias

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
"""Most items that `SetReader.walk` reads at a time."""

MOST_RULES = 4_096
"""Number of sets whose rules are cached."""

Where: TypeAlias = Mapping[str, object]

NewId: TypeAlias = Callable[[], str]


class PageQuery(NamedTuple):
    """A request for a page of the items of a set.

    Attributes:
        after: The position of the last item before the page; see `position_of`.
        limit: Most items of the page.
        at: The moment whose state is read; None for the present.
    """

    after: tuple[int, int] | None = None
    limit: int = PAGE
    newest_first: bool = False
    at: Moment | None = None


@dataclass(frozen=True, slots=True)
class PlannedWrite:
    """The changes and the result of one call.

    Attributes:
        retry: True if a new plan must be made after others changed the items that this plan read.
        admission_checks: The checks of the added items. If the sets changed since, a new plan is
            made.
        whole: True if the plan depends on all items of the sets in *admission_checks*. The commit
            of a batch with the plan then fails if others changed one of these sets.
    """

    items: Sequence[ItemChange]
    result: Value
    define: Sequence[Define] = ()
    retry: bool = False
    admission_checks: Sequence[AdmissionCheck] = ()
    whole: bool = False


class WriteCall(Protocol):
    """A call that changes sets, as a value. If the store refuses its plan, a new plan is made."""

    @property
    def name(self) -> str:
        """The name of the call."""
        ...

    def arguments(self) -> Value:
        """Return the arguments. A repetition under an idempotency key must have equal arguments."""
        ...

    def plan(self, new_id: NewId) -> PlannedWrite:
        """Return the changes for the current sets; *new_id* makes ids of new items."""
        ...


@dataclass(frozen=True, slots=True)
class PlannerCall:
    """A call that a function plans.

    Attributes:
        passed: The arguments as the caller passed them, or a function that returns the arguments.
            Only a batch and an idempotency key need them.
    """

    name: str
    passed: Value | Callable[[], Value]
    planner: Callable[[NewId], PlannedWrite]

    def arguments(self) -> Value:
        """See `WriteCall.arguments`."""
        return self.passed() if callable(self.passed) else self.passed

    def plan(self, new_id: NewId) -> PlannedWrite:
        """See `WriteCall.plan`."""
        return self.planner(new_id)


@dataclass(frozen=True, kw_only=True)
class Engine(ProcessBound):
    """The parts of an open memory; made once by `Memory.open`, shared by all its handles.

    Attributes:
        expects: Names and texts of store notes that name the embedder of this memory's space and
            knowledge. A commit with items fails if the notes have other texts.
        wait_s: How long a call retries while others change the data that it read.
        lanes: A lock per key, which orders writes to the exact tree outside of runs.
        listeners: The listeners to memory events.
        admission: Rules for the sets of keys that have no rules in their definition.
        knowledge: The name of the knowledge that the keys share.
        rules_by_set: The cached rules of each set; None if they must be read again. If cached rules
            are outdated, the store refuses the added items.
        recent_hits: The hits of recent searches.
        owners: Names of lease owners whose runners were closed. The next runner takes one of these
            names, because the store keeps a file open for each name.
        paths: Parsed paths of short-term memory, shared by all keys.
        joint_adds: Combines the adds of many threads into one commit.
        timezone: The zone of the reader; it defines the days of times without a zone.
        original: If this engine is a copy for another zone, the engine that was copied. The
            reference keeps it alive.
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
        """Create the object that combines adds."""
        object.__setattr__(self, "joint_adds", JointAdds(self.store, self.recorder, self.clock))

    def in_zone(self, zone: Zone) -> Engine:
        """Return the same engine for a reader in another time zone."""
        return variant_of(self, timezone=zone, original=self)

    def op(self, scope: Scope, idempotency_key: str) -> bytes:
        """Return the op id that stands for a caller's idempotency key in the store."""
        checked_name(idempotency_key, "an idempotency key")
        return wire.digest(
            ["idempotency key", scope.space, scope.key, idempotency_key], salt=self.store.salt()
        )

    def request(self, plain: Value) -> bytes:
        """Return the digest of a request."""
        return wire.digest(plain, salt=self.store.salt())

    def named(self, scope: Scope, idempotency_key: str, plain: Value) -> NamedRequest:
        """Return the name under which a request outside of a batch runs once."""
        op = self.op(scope, idempotency_key)
        return NamedRequest(op, self.request(plain), idempotency_key)

    def done(self, named: NamedRequest) -> Commit | None:
        """Return the commit that used the name of a request, or None if no commit used it.

        Raises:
            IdempotencyConflict: A different request used the name.
            Forgotten: The data of that commit was erased.
        """
        return self.store.commit_of_op(named.op, request=named.request, label=named.label)

    def lane(self, scope: Scope) -> HandleLock:
        """Return the lock that orders writes to the exact tree of a key."""
        return self.lanes.of(scope)

    def written(self, items: Sequence[ItemChange], commit: Commit) -> None:
        """After a commit, start embedding pending items and compacting full sets."""
        if await_vectors(items):
            self.worker.notify()
        if commit.sets_to_compact or self.compactions.listeners.kinds:
            self.compactions.committed(items, commit)

    def relieve(self, items: Sequence[ItemChange]) -> None:
        """Before an add, compact its sets that are at twice their capacity.

        See `Compactions.relieve`.
        """
        if self.compactions.pressed:
            self.compactions.relieve(items)

    def moved(self, batch: Batch) -> None:
        """Drop the cached rules and checks of a refused *batch*."""
        for ref in {*unchecked_sets(batch), *(s.set for s in batch.admission_checks or ())}:
            self.rules_by_set[ref] = None
            self.alike.forget(ref)


class SetReader:
    """Reads of sets from the store. The reads of a batch also see its changes."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def now(self) -> int:
        """Return the time that decides which items have expired and which facts are valid."""
        return self._engine.clock()

    def _is_expired(self, stored: StoredItem, at: Moment | None) -> bool:
        """Return whether an item has expired; reads the clock only if the item can expire."""
        if stored.record.expires is None:
            return False
        return expired(stored.record, self.now() if at is None else at.time)

    def records(self, items: Sequence[tuple[str, Item]]) -> list[ItemRecord]:
        """Return the records that a store keeps of items."""
        engine = self._engine
        return engine.recorder.records(items, now=engine.clock(), zone=engine.timezone)

    @property
    def timezone(self) -> Zone:
        """The zone of the reader."""
        return self._engine.timezone

    def get(self, ref: SetRef, ids: Sequence[str], *, at: Moment | None) -> list[StoredItem | None]:
        """Return the live, unexpired version of each of *ids*, or None, in the order of *ids*."""
        store = self._engine.store
        if at is not None:
            check_set(store, ref, at)
        items = store.get(ref, ids, at=None if at is None else at.commit)
        for position, stored in enumerate(items):
            if stored is not None and stored.record.expires is not None:
                items[position] = None if self._is_expired(stored, at) else stored
        return items

    def page(self, ref: SetRef, query: PageQuery) -> list[StoredItem]:
        """Return a page of the unexpired items, in order of (time, first row)."""
        store, after, at = self._engine.store, query.after, query.at
        if at is not None:
            check_set(store, ref, at)
        items: list[StoredItem] = []
        while True:
            missing = query.limit - len(items)
            batch = store.page(
                ref,
                after=after,
                limit=missing,
                newest_first=query.newest_first,
                at=None if at is None else at.commit,
            )
            items += [stored for stored in batch if not self._is_expired(stored, at)]
            if len(items) >= query.limit or len(batch) < missing:
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
        """Yield the items of a set in order of time.

        The items are read page by page, each page from the state at one moment.

        Args:
            page: Items of the first page; each further page has twice as many, at most `PAGE`.
        """
        query = PageQuery(after, page, newest_first, at)
        while items := self.page(ref, query):
            yield from items
            if len(items) < query.limit:
                return
            most = min(2 * query.limit, PAGE)
            query = query._replace(after=position_of(items[-1]), limit=most)

    def versions(self, ref: SetRef, item_id: str) -> list[tuple[StoredItem, datetime | None]]:
        """Return every kept version of an item, each with the time of its retirement or expiry.

        The time of a live version is None.
        """
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
        """Return the stored form of a set's compaction."""
        return stored_form(compaction, self._engine.compactions.local_strategies)

    def compact(self, ref: SetRef, compaction: Given | None) -> Compacted | None:
        """Do one step of a set's compaction; return None if there was nothing to do."""
        return self._engine.compactions.step(ref, by=CALLED, given=compaction)

    def compactions(self, ref: SetRef, *, before: int | None, limit: int) -> list[Compaction]:
        """Return compactions of a set, the latest first."""
        return self._engine.store.compactions(ref, before=before, limit=limit)

    def compaction(self, number: int) -> Compaction | None:
        """Return the compaction with an id, or None if there is none."""
        return self._engine.store.compaction(number)

    def sources(self, rows: Sequence[int]) -> list[tuple[int, int]]:
        """Return the sources of versions as pairs: the row of a version, the row of a source."""
        return self._engine.store.source_links(rows)

    def rows(self, rows: Sequence[int]) -> list[tuple[StoredItem, datetime | None]]:
        """Return the versions with these rows that the store keeps.

        Each has the time of its retirement or expiry, or None if it is live.
        """
        return self._retired(self._engine.store.items_by_row(rows))

    def info(self, ref: SetRef) -> SetInfo | None:
        """Return a set, or None if it does not exist. The item count excludes expired items."""
        info = self._engine.store.set_info(ref)
        return None if info is None else self._unexpired_info(info)

    def count(self, ref: SetRef) -> int:
        """Return the number of unexpired items of a set."""
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
        """Return the number of unexpired items in each set of *scope*, by name, sorted."""
        infos = [i for i in self._engine.store.set_infos(scope) if not is_hidden(i.ref)]
        return {info.ref.name: self._unexpired_info(info).items for info in infos}

    def hidden(self, scope: Scope) -> list[str]:
        """Return the names of the hidden sets of *scope*."""
        return [ref.name for ref in self._engine.store.all_sets(scope) if is_hidden(ref)]

    def origins(self, ref: SetRef) -> list[Scope]:
        """Return the scopes in which sources of an item of a set may be."""
        return list(dict.fromkeys((ref.scope, self.knowledge)))

    @property
    def knowledge(self) -> Scope:
        """The knowledge that the keys of the memory share."""
        return Scope(self._engine.knowledge, None)

    def moment_of(self, as_of: AsOf) -> Moment:
        """Return the moment that *as_of* means."""
        return moment_of(self._engine.store, as_of, now=self.now())

    def search(self, sets: Sequence[SetRef] | Scope, query: str, options: SearchOptions) -> Hits:
        """Search several sets together, or all sets of a scope; return the best hits of all."""
        hits = self._engine.recall.search(
            sets, query, options, now=self.now(), zone=self._engine.timezone
        )
        self._engine.recent_hits.note(sets, hits)
        return hits

    def points(
        self, sets: Sequence[SetRef] | Scope, *, where: Where | None, limit: int | None
    ) -> MapPoints:
        """Return the committed items of several sets, or of all sets of a scope, as points."""
        most = None if limit is None else counted(limit, "limit", least=0)
        return self._engine.recall.points(sets, where=Filter.parse(where), limit=most)

    def touch(self, items: Sequence[StoredItem]) -> None:
        """Record that items were read."""
        self._engine.recall.touch(list(map(_FIRST, items)))

    def renew(self, items: Sequence[StoredItem], life: int) -> int:
        """Let expiring items live *life* microseconds from now; return the number of renewals."""
        now = self.now()
        latest, gain = now + life, max(1, life // RENEWAL_PARTS)
        renewals = [
            (stored.row, latest)
            for stored in items
            if stored.record.expires is not None and latest - stored.record.expires >= gain
        ]
        return self._engine.recall.renew(renewals, now=now) if renewals else 0

    def rules(self, ref: SetRef, definition: Definition | None) -> SetRules | None:
        """Return the rules of a set, or None if it has none as far as this process knows.

        Args:
            definition: The definition of the set. By default, the cached rules are used, or the
                stored definition is read.
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

    def rules_check(
        self, ref: SetRef, definition: Definition | None = None
    ) -> list[AdmissionCheck]:
        """Return the admission check of an add whose items the rules need not judge, in a list.

        The list is empty if the set has no rules.
        """
        rules = self.rules(ref, definition)
        return [] if rules is None else [AdmissionCheck(ref, rules.set_rules)]

    def rules_unchanged(self, ref: SetRef, rules: SetRules) -> bool:
        """Return whether *rules* are still the rules of a set; if not, drop the cached rules."""
        info = self.info(ref)
        same = info is None or AdmissionCheck(ref, rules.set_rules).matches_rules(info.definition)
        if not same:
            self._engine.rules_by_set[ref] = None
        return same

    def alike(
        self, ref: SetRef, probes: Sequence[Probe]
    ) -> tuple[int | None, list[list[StoredItem]]]:
        """Return a row, and the candidate duplicates of each probe.

        The candidates are complete up to the row. The row is None if the commit need not check for
        later items.
        """
        last_row, matches = self._engine.alike.find(ref, probes)
        return last_row, self._unexpired(matches)

    def _unexpired(self, matches: Sequence[Sequence[StoredItem]]) -> list[list[StoredItem]]:
        """Return the same lists without expired items."""
        now = self._engine.clock()
        return [[s for s in items if not expired(s.record, now)] for items in matches]

    def recent_hits(self, scope: Scope) -> list[tuple[Scope, Item]]:
        """Return the hits of recent searches in *scope* and in knowledge, each with its scope."""
        return self._engine.recent_hits.of(scope)

    def alone(self, what: str) -> Engine:
        """Return the engine for the call *what*, which makes a separate commit.

        Raises:
            Unusable: This writer is a batch or an action, which commits its calls together.
        """
        _ = what
        return self._engine


class Writer(SetReader, ABC):
    """A writer takes changes of sets, and commits or gathers them. Its reads see these changes."""

    def __init__(self, engine: Engine, scope: Scope) -> None:
        self._engine, self.scope = engine, scope

    @abstractmethod
    def write(self, call: WriteCall, *, idempotency_key: str | None = None) -> Value:
        """Plan a call, and return its result. Its changes commit, or join the draft of a batch."""
