"""The spans of a run: one for the run in this process, one for each call of an action."""

from __future__ import annotations

from collections.abc import Callable

from alveus.store.observer import Outcome, RunObserver
from alveus.store.progress import DurableCall, Run
from alveus.telemetry.catalogue import DURABLE_CALL, ERROR, RUN_WAIT, SYSTEM, Facts
from alveus.telemetry.open_telemetry import NO_PARENT, Context, OpenTelemetry, TelemetrySpan


class RunSpan(RunObserver):
    """The span of a run, used by whoever has the run in hand.

    Args:
        agent: The name that the agent's class has in code; that of a runner may hold a key.
        ended: Called with the run's id as the span ends.

    Attributes:
        last: The span of the action that was called last; the commit of its task is linked to it.
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
        self._telemetry.record(RUN_WAIT, max(0.0, seconds), self.span.facts)

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
