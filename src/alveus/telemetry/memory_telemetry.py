"""The observer of a memory with telemetry: spans and metrics of its store, searches and runs.

`MemoryTelemetry` observes an open store, `RunSpan` one run. A memory without telemetry never
imports this module.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from alveus.errors import AlveusError, StaleRun
from alveus.sets.compaction import Compacted
from alveus.store import (
    Accepted,
    Batch,
    Commit,
    Compact,
    DurableCall,
    Lease,
    QueuedInput,
    Run,
    Scope,
    SetRef,
    Store,
)
from alveus.store.items import Hits
from alveus.store.ledger import Observed, Observer, Outcome, RunObserver
from alveus.telemetry.catalogue import DURABLE_CALL, ERROR, OPERATION, SYSTEM, Facts
from alveus.telemetry.open_telemetry import (
    NO_PARENT,
    Context,
    OpenTelemetry,
    SpanContext,
    SpanKind,
    TelemetrySpan,
    caller,
    caller_span,
)
from alveus.values.urls import is_server

MOST_CALLERS = 10_000
"""The number of accepted runs, and of sets to be compacted, whose callers are remembered."""

FIGURES_S = 1.0
"""How long the figures of a store are cached: each gauge asks for them separately."""

K = TypeVar("K")
V = TypeVar("V")


class RunSpan(RunObserver):
    """The span of a run in this process, and a span for each call of an action.

    Args:
        agent: The name of the agent's class in code. The name of a runner is not used, because it
            may contain a key.
        ended: Called with the run's id when the span ends.

    Attributes:
        last: The span of the last action; the commit of its task is linked to it.
    """

    def __init__(
        self,
        telemetry: OpenTelemetry,
        row: Run,
        *,
        agent: str,
        system: str,
        parent: Context | None,
        ended: Callable[[int], object],
    ) -> None:
        self._telemetry, self._agent, self._run = telemetry, agent, row.id
        self._ended, self._over = ended, False
        facts: Facts = {
            SYSTEM: system,
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": agent,
            "alveus.runner.name": row.agent,
            "alveus.run.id": row.id,
            "alveus.run.resumed": row.now is not None,
            "db.namespace": row.scope.space,
            "alveus.key": row.scope.key or "",
        }
        self.span = telemetry.start("alveus.run", facts, parent=parent or NO_PARENT)
        self.last = self.span

    def waited(self, seconds: float) -> None:
        """Record how long the run waited for its first task."""
        self._telemetry.record("alveus.run.wait.duration", max(0.0, seconds), self.span.facts)

    def action(self, name: str, attempt: int) -> TelemetrySpan:
        """Return the span of a call of an action."""
        facts: Facts = {
            "gen_ai.agent.name": self._agent,
            "alveus.action.name": name,
            "alveus.action.attempt": attempt,
        }
        parent = self.span.context or NO_PARENT
        self.last = self._telemetry.start("alveus.action", facts, parent=parent)
        return self.last

    def called(self, call: DurableCall, outcome: str) -> None:
        """See `RunObserver.called`."""
        facts: Facts = {
            "alveus.call.position": call.position,
            "alveus.call.outcome": outcome,
            "alveus.call.name": call.name,
        }
        self.last.event(DURABLE_CALL, facts)

    def failed(self, error: BaseException) -> None:
        """See `RunObserver.failed`."""
        self.span.describe({ERROR: type(error).__qualname__})

    def end(self, outcome: Outcome) -> None:
        """See `RunObserver.end`."""
        if self._over:
            return
        self._over = True
        self.span.describe({"alveus.run.outcome": outcome})
        self.span.end()
        self._ended(self._run)


class MemoryTelemetry(Observer):
    """Emits the spans and metrics of one open memory.

    Args:
        clock: The clock of the memory, in microseconds.

    Attributes:
        system: The value of `db.system.name`.
        location: The location of the store. A store that several memories have open counts once in
            gauges.
    """

    def __init__(self, telemetry: OpenTelemetry, store: Store, clock: Callable[[], int]) -> None:
        self.telemetry, self._store, self._clock = telemetry, store, clock
        in_ram, is_remote = store.location == ":memory:", is_server(store.location)
        self._kind = SpanKind.CLIENT if is_remote else SpanKind.INTERNAL
        self.system = "alveus.ram" if in_ram else "postgresql" if is_remote else "sqlite"
        self.location = f"{store.location} {id(store)}" if in_ram else store.location
        self._accepted: OrderedDict[int, Context] = OrderedDict()
        self._overfull: OrderedDict[SetRef, SpanContext] = OrderedDict()
        self._runs: dict[int, RunSpan] = {}
        self._stats: tuple[float, Mapping[str, float]] = (float("-inf"), {})
        telemetry.watched.add(self)

    def _operation(
        self,
        operation: str,
        facts: Facts,
        ended: Callable[[TelemetrySpan, Any], None],
        *,
        parent: Context | None = None,
        links: Sequence[TelemetrySpan | SpanContext] = (),
    ) -> TelemetrySpan:
        """Return the span of a call that begins now."""
        facts = {SYSTEM: self.system, OPERATION: operation, **facts}
        name, kind = f"alveus.{operation}", self._kind
        return self.telemetry.start(name, facts, parent=parent, links=links, kind=kind, ended=ended)

    def _count(self, name: str, value: float) -> None:
        """Record a value of a metric."""
        self.telemetry.record(name, value, {SYSTEM: self.system})

    # --- commits ------------------------------------------------------------------------------

    def commit(self, batches: Sequence[Batch]) -> Observed:
        """See `Observer.commit`. The span is a child of the action that made the batches.

        If several actions made them, the span has no parent and is linked to the actions.
        """
        runs = [self._runs.get(batch.run.run) for batch in batches if batch.run is not None]
        actions = [run.last for run in runs if run is not None]
        parent = actions[0].context if len(actions) == 1 else NO_PARENT if actions else None
        facts: Facts = {
            "alveus.commit.items": sum(len(batch.items) for batch in batches),
            "alveus.commit.values": sum(len(batch.state) for batch in batches),
            **_scope_facts([batch.scope for batch in batches], ()),
        }
        if len(batches) > 1:
            facts["db.operation.batch.size"] = len(batches)
        ended, links = partial(self._committed, batches), actions if len(actions) > 1 else ()
        return self._operation("commit", facts, ended, parent=parent, links=links)

    def _committed(
        self,
        batches: Sequence[Batch],
        span: TelemetrySpan,
        answer: list[Commit | AlveusError] | BaseException,
    ) -> None:
        answers = [answer] * len(batches) if isinstance(answer, BaseException) else answer
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
            self._count("alveus.commits.fenced", fenced)
        for batch, each in zip(batches, answers, strict=True):
            if batch.items and isinstance(each, Commit) and not each.adopted:
                self._changed(batch)

    def _changed(self, batch: Batch) -> None:
        self._count("alveus.items.changed", len(batch.items))
        for item in batch.items:
            if isinstance(item, Compact):
                self._count("alveus.compaction.retired", len(item.retired))
                self._count("alveus.compaction.added", len(item.added))

    def transaction(self, callers: Sequence[Observed]) -> Observed:
        """See `Observer.transaction`.

        A transaction has a span only if several callers share it. The span is linked to theirs.
        """
        self._count("alveus.transaction.commits", len(callers))
        commits = [each for each in callers if isinstance(each, TelemetrySpan)]
        name, facts = "alveus.transaction", Facts({SYSTEM: self.system})
        if len(commits) <= 1:
            return TelemetrySpan(self.telemetry, name, facts, None, time.perf_counter())
        facts["alveus.transaction.commits"] = len(commits)
        span = self.telemetry.start(name, facts, parent=NO_PARENT, links=commits)
        for each in commits:
            each.link(span)
        return span

    # --- runs ---------------------------------------------------------------------------------

    def accept(self, agent: str, inputs: Sequence[QueuedInput]) -> Observed:
        """See `Observer.accept`."""
        facts: Facts = {"alveus.runner.name": agent}
        if len(inputs) > 1:
            facts["db.operation.batch.size"] = len(inputs)
        return self._operation("accept", facts, self._accepted_all)

    def _accepted_all(self, _: TelemetrySpan, answer: list[Accepted] | BaseException) -> None:
        """Remember the caller's span, which becomes the parent of the runs of accepted inputs."""
        context = caller()
        for each in () if isinstance(answer, BaseException) else answer:
            self.leased(each.lease)
            if each.run is not None and not each.repeated:
                _note(self._accepted, each.run, context)

    def leased(self, lease: Lease | None) -> Lease | None:
        """See `Observer.leased`. Counts leases that were taken over from owners that died."""
        if lease is not None and lease.taken_over:
            self._count("alveus.leases.taken_over", 1)
        return lease

    def run(self, row: Run, agent: str) -> RunSpan:
        """See `Observer.run`."""
        span = RunSpan(
            self.telemetry,
            row,
            agent=agent,
            system=self.system,
            parent=self._accepted.pop(row.id, None),
            ended=lambda run: self._runs.pop(run, None),
        )
        if row.now is None:
            span.waited((self._clock() - row.accepted) / 1e6)
        self._runs[row.id] = span
        return span

    # --- searches and compactions -------------------------------------------------------------

    def search(self, sets: Sequence[SetRef] | Scope, query: str, limit: int) -> Observed:
        """See `Observer.search`."""
        facts: Facts = {"alveus.search.limit": limit}
        if self.telemetry.content:
            alone = isinstance(sets, Scope)
            where = (
                _scope_facts([sets], ()) if alone else _scope_facts([r.scope for r in sets], sets)
            )
            facts |= {"db.query.text": query, **where}
        return self._operation("search", facts, self._searched)

    def _searched(self, span: TelemetrySpan, answer: Hits | BaseException) -> None:
        if isinstance(answer, BaseException):
            return
        span.describe({"db.response.returned_rows": len(answer)})
        span.describe({"alveus.search.partial": answer.partial})
        if answer.reranker_failure is not None:
            span.describe({"alveus.search.reranker.failed": True})
        self.telemetry.record("db.client.response.returned_rows", len(answer), span.facts)

    def compaction(self, ref: SetRef, by: str) -> Observed:
        """See `Observer.compaction`. In the background, the span is linked to that of its cause."""
        facts: Facts = {"alveus.compaction.by": by, **_scope_facts([ref.scope], [ref])}
        alone = by == "background" and caller_span() is None
        who = self._overfull.pop(ref, None) if alone else None
        return self._operation("compact", facts, _compacted, links=() if who is None else [who])

    def compaction_due(self, ref: SetRef) -> None:
        """See `Observer.compaction_due`."""
        _note(self._overfull, ref, caller_span())

    # --- figures ------------------------------------------------------------------------------

    def figures(self) -> Mapping[str, float]:
        """Return the value of each gauge by its name."""
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
        """Remove the store from the gauges."""
        self.telemetry.watched.discard(self)


def _compacted(span: TelemetrySpan, answer: Compacted | BaseException | None) -> None:
    if isinstance(answer, Compacted):
        span.describe({"alveus.compaction.retired": len(answer.retired)})
        span.describe({"alveus.compaction.added": len(answer.added)})


def _note(callers: OrderedDict[K, V], what: K, who: V | None) -> None:
    """Remember *who* as the caller of the later work *what*. Drop the oldest of too many."""
    if who is not None:
        callers[what] = who
        while len(callers) > MOST_CALLERS:
            callers.popitem(last=False)


def _scope_facts(scopes: Sequence[Scope], sets: Sequence[SetRef]) -> Facts:
    """Return the space, the key and the set as facts, each only if there is just one.

    They are exported only with ``content=True``.
    """
    facts: Facts = {}
    if len(set(scopes)) == 1:
        facts["db.namespace"] = scopes[0].space
        if scopes[0].key is not None:
            facts["alveus.key"] = scopes[0].key
    if len(sets) == 1:
        facts["db.collection.name"] = sets[0].name
    return facts
