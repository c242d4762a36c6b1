"""What a memory that was opened with telemetry tells of: its store, its searches, its compactions.

The calls of an open store, searcher and compactions are wrapped, one by one, when the memory is
opened. Without telemetry nothing is wrapped, and this module is not loaded.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, TypeVar

from alveus.compaction import Compacted, Compactions, Given
from alveus.errors import AlveusError, StaleRun
from alveus.search.query import Drafted, Searcher, SearchOptions
from alveus.store import (
    Accepted,
    Batch,
    Commit,
    Compact,
    Lease,
    QueuedInput,
    Run,
    Scope,
    SetRef,
    Store,
)
from alveus.store.items import Hits
from alveus.store.sql.database import SqlDatabase
from alveus.store.sql.group_commit import StoreTicket
from alveus.telemetry import catalogue
from alveus.telemetry.catalogue import ERROR, OPERATION, SYSTEM, Facts
from alveus.telemetry.open_telemetry import (
    NO_PARENT,
    Context,
    OpenTelemetry,
    SpanContext,
    TelemetrySpan,
    caller,
    caller_span,
    current,
)
from alveus.telemetry.run_spans import RunSpan
from alveus.values.urls import is_server
from alveus.values.zones import UTC_ZONE, Zone

MOST_CALLERS = 10_000
"""Accepted runs, and sets to be compacted, whose callers are remembered."""

FIGURES_S = 1.0
"""How long the figures of a store serve: each gauge asks for them, one after the other."""

K = TypeVar("K")
V = TypeVar("V")


class RecentCallers(Generic[K, V]):
    """Who set off what is done later; the oldest is dropped where nobody asks."""

    def __init__(self) -> None:
        self._callers: OrderedDict[K, V] = OrderedDict()

    def note(self, what: K, who: V | None) -> None:
        """Remember *who*, if it is anybody."""
        if who is not None:
            self._callers[what] = who
            while len(self._callers) > MOST_CALLERS:
                self._callers.popitem(last=False)

    def take(self, what: K) -> V | None:
        """Return who it was, once."""
        return self._callers.pop(what, None)


class MemoryTelemetry:
    """Tells of one open memory.

    Args:
        clock: The memory's, in microseconds.

    Attributes:
        system: What `db.system.name` says.
        location: Of the store, to count it once where several memories have it open.
    """

    def __init__(self, telemetry: OpenTelemetry, store: Store, clock: Callable[[], int]) -> None:
        self.telemetry, self._store, self._clock = telemetry, store, clock
        self._remote = is_server(store.location)
        in_ram = store.location == ":memory:"
        self.system = "alveus.ram" if in_ram else "postgresql" if self._remote else "sqlite"
        self.location = f"{store.location} {id(store)}" if in_ram else store.location
        self._accepted: RecentCallers[int, Context] = RecentCallers()
        self._runs: dict[int, RunSpan] = {}
        self._stats: tuple[float, Mapping[str, float]] = (float("-inf"), {})
        StoreCalls(self, store)
        telemetry.watched.add(self)

    def operation(
        self,
        operation: str,
        facts: Facts,
        *,
        parent: Context | None = None,
        links: Sequence[TelemetrySpan | SpanContext] = (),
    ) -> TelemetrySpan:
        """Return the span of a call that begins now."""
        facts = {SYSTEM: self.system, OPERATION: operation, **facts}
        name, remote = f"alveus.{operation}", self._remote
        return self.telemetry.start(name, facts, parent=parent, links=links, remote=remote)

    def count(self, name: str, value: float) -> None:
        """Record a value of a metric."""
        self.telemetry.record(name, value, {SYSTEM: self.system})

    # --- runs ---------------------------------------------------------------------------------

    def accepted(self, answers: Sequence[Accepted]) -> None:
        """Remember whose inputs were accepted: their runs are children of that span."""
        context = caller()
        for answer in answers:
            if answer.run is not None and not answer.repeated:
                self._accepted.note(answer.run, context)

    def run(self, row: Run, *, agent: str) -> RunSpan:
        """Return the span of a run of *agent* that this process takes up."""
        span = RunSpan(
            self.telemetry,
            row,
            agent=agent,
            system=self.system,
            parent=self._accepted.take(row.id),
            ended=lambda run: self._runs.pop(run, None),
        )
        if row.now is None:
            span.waited((self._clock() - row.accepted) / 1e6)
        self._runs[row.id] = span
        return span

    def actions_of(self, batches: Sequence[Batch]) -> list[TelemetrySpan]:
        """Return the spans of the actions that batches were made by."""
        runs = [self._runs.get(b.run.run) for b in batches if b.run is not None]
        return [run.last for run in runs if run is not None]

    def watch(self, searcher: Searcher, compactions: Compactions) -> None:
        """Tell of the searches and compactions of the memory as well."""
        observe_searches(self, searcher)
        observe_compactions(self, compactions)

    # --- figures ------------------------------------------------------------------------------

    def figures(self) -> Mapping[str, float]:
        """Return what gauges tell."""
        read, figures = self._stats
        now = time.monotonic()
        if now - read > FIGURES_S:
            stats = self._store.stats()
            oldest = stats.oldest_pending
            figures = {
                "alveus.runs.waiting": stats.runs_waiting,
                "alveus.runs.parked": stats.runs_parked,
                "alveus.leases.held": len(stats.leases),
                "alveus.items.pending": stats.pending,
                "alveus.items.pending.age": 0
                if oldest is None
                else max(0, self._clock() - oldest) / 1e6,
                "alveus.store.size": stats.file_bytes,
            }
            self._stats = now, figures
        return figures

    def close(self) -> None:
        """Have gauges tell no more of the store."""
        self.telemetry.watched.discard(self)


class StoreCalls:
    """The calls of an open store that telemetry tells of, in place of the store's own."""

    def __init__(self, memory: MemoryTelemetry, store: Store) -> None:
        self._memory = memory
        self._commit, store.commit = store.commit, self.commit
        self._commit_many, store.commit_many = store.commit_many, self.commit_many
        self._accept, store.accept = store.accept, self.accept
        self._acquire_lease, store.acquire_lease = store.acquire_lease, self.acquire_lease
        if isinstance(store, SqlDatabase):
            queue = store.commit_queue
            self._commit_group, queue.commit_group = queue.commit_group, self.commit_group
            queue.caller = current

    def commit(self, batch: Batch) -> Commit:
        """See `Ledger.commit`."""
        with self._memory.operation("commit", _batch_facts([batch])) as span:
            try:
                answer = self._commit(batch)
            except AlveusError as error:
                self._told(span, [batch], [error])
                raise
            self._told(span, [batch], [answer])
            return answer

    def commit_many(self, batches: Sequence[Batch]) -> list[Commit | AlveusError]:
        """See `Ledger.commit_many`."""
        actions = self._memory.actions_of(batches)
        parent = actions[0].context if len(actions) == 1 else NO_PARENT if actions else None
        links = actions if len(actions) > 1 else ()
        facts = _batch_facts(batches)
        with self._memory.operation("commit", facts, parent=parent, links=links) as span:
            answers = self._commit_many(batches)
            self._told(span, batches, answers)
            return answers

    def _told(
        self,
        span: TelemetrySpan,
        batches: Sequence[Batch],
        answers: Sequence[Commit | AlveusError],
    ) -> None:
        """Tell what became of batches."""
        done = [each for each in answers if isinstance(each, Commit)]
        refused = [each for each in answers if isinstance(each, AlveusError)]
        if done:
            span.describe({"alveus.commit.number": done[-1].number})
        if adopted := sum(commit.adopted for commit in done):
            span.describe({"alveus.commit.adopted": adopted})
        if refused:
            facts: Facts = {"alveus.commit.refused": len(refused)}
            span.describe({**facts, ERROR: type(refused[0]).__qualname__})
        if fenced := sum(isinstance(e, StaleRun) and e.what == "epoch" for e in refused):
            self._memory.count(catalogue.COMMITS_FENCED, fenced)
        for batch, answer in zip(batches, answers, strict=True):
            if batch.items and isinstance(answer, Commit) and not answer.adopted:
                self._changed(batch)

    def _changed(self, batch: Batch) -> None:
        self._memory.count(catalogue.ITEMS_CHANGED, len(batch.items))
        for item in batch.items:
            if isinstance(item, Compact):
                self._memory.count(catalogue.COMPACTION_RETIRED, len(item.retired))
                self._memory.count(catalogue.COMPACTION_ADDED, len(item.added))

    def commit_group(self, group: list[StoreTicket]) -> None:
        """Commit what threads wait for; where several do, in a span that theirs are linked to."""
        callers = [t.caller for t in group if isinstance(t.caller, TelemetrySpan)]
        committing = [span for span in callers if span.name in ("alveus.commit", "alveus.accept")]
        memory = self._memory
        memory.count(catalogue.TRANSACTION_COMMITS, len(group))
        if len(committing) <= 1:
            began = time.perf_counter()
            self._commit_group(group)
            memory.count(catalogue.TRANSACTION_DURATION, time.perf_counter() - began)
            return
        facts: Facts = {SYSTEM: memory.system, "alveus.transaction.commits": len(committing)}
        start = memory.telemetry.start
        with start("alveus.transaction", facts, parent=NO_PARENT, links=committing) as span:
            for one in committing:
                one.link(span)
            self._commit_group(group)

    def accept(
        self, agent: str, inputs: Sequence[QueuedInput], *, owner: str | None = None
    ) -> list[Accepted]:
        """See `Lanes.accept`."""
        facts: Facts = {"alveus.runner.name": agent}
        if len(inputs) > 1:
            facts["db.operation.batch.size"] = len(inputs)
        with self._memory.operation("accept", facts):
            answers = self._accept(agent, inputs, owner=owner)
        self._memory.accepted(answers)
        for answer in answers:
            self._leased(answer.lease)
        return answers

    def acquire_lease(self, scope: Scope, owner: str) -> Lease | None:
        """See `Ledger.acquire_lease`."""
        lease = self._acquire_lease(scope, owner)
        self._leased(lease)
        return lease

    def _leased(self, lease: Lease | None) -> None:
        if lease is not None and lease.taken_over:
            self._memory.count(catalogue.LEASES_TAKEN_OVER, 1)


def observe_searches(memory: MemoryTelemetry, searcher: Searcher) -> None:
    """Tell of the searches of a memory."""
    search = searcher.search

    def observed(
        sets: Sequence[SetRef] | Scope,
        query: str,
        options: SearchOptions,
        drafted: Drafted | None = None,
        *,
        now: int | None = None,
        zone: Zone = UTC_ZONE,
    ) -> Hits:
        facts: Facts = {"alveus.search.limit": options.limit}
        if memory.telemetry.content:
            alone = isinstance(sets, Scope)
            places = _places([sets], ()) if alone else _places([r.scope for r in sets], sets)
            facts |= {"db.query.text": query, **places}
        with memory.operation("search", facts) as span:
            hits = search(sets, query, options, drafted, now=now, zone=zone)
            span.describe({"db.response.returned_rows": len(hits)})
            span.describe({"alveus.search.partial": hits.partial})
            if hits.reranker_failure is not None:
                span.describe({"alveus.search.reranker.failed": True})
        memory.telemetry.record(catalogue.RETURNED_ROWS, len(hits), span.facts)
        return hits

    searcher.search = observed


def observe_compactions(memory: MemoryTelemetry, compactions: Compactions) -> None:
    """Tell of the compactions of a memory."""
    step, notify = compactions.step, compactions.worker.notify
    callers: RecentCallers[SetRef, SpanContext] = RecentCallers()

    def notified(ref: SetRef) -> None:
        callers.note(ref, caller_span())
        notify(ref)

    def observed(ref: SetRef, *, by: str, given: Given | None = None) -> Compacted | None:
        facts: Facts = {"alveus.compaction.by": by, **_places([ref.scope], [ref])}
        who = callers.take(ref) if by == "background" and caller_span() is None else None
        links = [] if who is None else [who]
        with memory.operation("compact", facts, links=links) as span:
            done = step(ref, by=by, given=given)
            if done is not None:
                span.describe({"alveus.compaction.retired": len(done.retired)})
                span.describe({"alveus.compaction.added": len(done.added)})
            return done

    compactions.step, compactions.worker.notify = observed, notified


def _batch_facts(batches: Sequence[Batch]) -> Facts:
    facts: Facts = {
        "alveus.commit.items": sum(len(batch.items) for batch in batches),
        "alveus.commit.values": sum(len(batch.state) for batch in batches),
        **_places([batch.scope for batch in batches], ()),
    }
    if len(batches) > 1:
        facts["db.operation.batch.size"] = len(batches)
    return facts


def _places(scopes: Sequence[Scope], sets: Sequence[SetRef]) -> Facts:
    """Return where it is, as far as that is one place; exported only with content."""
    facts: Facts = {}
    if len(set(scopes)) == 1:
        facts["db.namespace"] = scopes[0].space
        if scopes[0].key is not None:
            facts["alveus.key"] = scopes[0].key
    if len(sets) == 1:
        facts["db.collection.name"] = sets[0].name
    return facts
