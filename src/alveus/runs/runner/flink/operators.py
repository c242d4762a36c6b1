"""The operators of a job, in Flink's own words. They hold no logic: see `subtask`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from pyflink.common import Types
from pyflink.datastream import (
    KeyedProcessFunction,
    OutputTag,
    ProcessFunction,
    RuntimeContext,
    TimeDomain,
)
from pyflink.datastream.state import MapStateDescriptor

from alveus.errors import AlveusError
from alveus.runs.runner.flink.records import Extract, FlinkInput, input_from, problem_line
from alveus.runs.runner.flink.subtask import Emission, FlinkJob, KeyState, Subtask
from alveus.runs.runner.flink.workers import agent_of

INPUT_TYPE = Types.TUPLE([Types.STRING(), Types.STRING(), Types.STRING()])

PROBLEMS = OutputTag("alveus-problems", Types.STRING())

POLL_MS = (1, 64)
"""Shortest and longest time between two looks at a key that waits for outputs."""

END_OF_INPUT = (1 << 63) - 2
"""An event time that comes when a bounded input ends, or a job is drained."""


class ReadInputs(ProcessFunction):
    """Makes inputs of the records of a user's stream; what is none goes to the problems."""

    def __init__(
        self, key: Extract | None, value: Extract | None, event_id: Extract | None
    ) -> None:
        self._parts = key, value, event_id

    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterator[Any]:  # noqa: ANN401, ARG002 - Flink's
        """Yield the input."""
        try:
            yield tuple(input_from(value, *self._parts))
        except AlveusError as error:
            yield PROBLEMS, problem_line(error, given=None, record=value)


class RunAgent(KeyedProcessFunction):
    """Runs the agent on the inputs of the keys that come here."""

    def __init__(self, job: FlinkJob) -> None:
        self._job = job
        self._hot_ms = round(job.hot_for.total_seconds() * 1000)

    def open(self, runtime_context: RuntimeContext) -> None:
        """Open the memory, and take up what a crash left."""
        text = Types.STRING()
        self._state = KeyState(
            runtime_context.get_map_state(MapStateDescriptor("exact", text, text)),
            runtime_context.get_map_state(MapStateDescriptor("inputs", text, text)),
        )
        self._subtask = Subtask(self._job, agent_of(self._job))
        self._pauses: dict[str, int] = {}
        self._hot_until: dict[str, int] = {}

    def close(self) -> None:
        """Stop."""
        if hasattr(self, "_subtask"):  # it was opened
            self._subtask.close()

    def process_element(
        self, value: tuple[str, str, str], ctx: KeyedProcessFunction.Context
    ) -> Iterator[Any]:
        """Take an input in, and yield what can be emitted."""
        given = FlinkInput(*value)
        yield from map(_sent, self._subtask.take(given, self._state))
        now = _now_ms()
        until = self._hot_until[given.key] = (now // self._hot_ms + 2) * self._hot_ms
        ctx.timer_service().register_processing_time_timer(until)
        self._pauses[given.key] = POLL_MS[0]
        self._look_later(given.key, ctx, now)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Any]:
        """Yield what can be emitted by now; drop the copy of a key that had no inputs for long."""
        key = ctx.get_current_key()
        ends = ctx.time_domain() is TimeDomain.EVENT_TIME
        yield from map(_sent, self._subtask.emit(key, self._state, wait=ends))
        if ends:
            return
        self._look_later(key, ctx, _now_ms())
        if timestamp % self._hot_ms == 0 and timestamp >= self._hot_until.get(key, 0):
            self._hot_until.pop(key, None)
            self._subtask.evict(key, self._state)

    def _look_later(self, key: str, ctx: KeyedProcessFunction.Context, now: int) -> None:
        """Have a key looked at again while outputs of it are to come."""
        if self._job.mode == "synchronous":
            return
        timers = ctx.timer_service()
        if not self._subtask.is_waiting(key):
            if self._pauses.pop(key, None) is not None:
                timers.delete_event_time_timer(END_OF_INPUT)
            return
        shortest, longest = POLL_MS
        pause = self._pauses.get(key, shortest)
        self._pauses[key] = min(2 * pause, longest)
        timers.register_processing_time_timer(now + pause)
        timers.register_event_time_timer(END_OF_INPUT)


def _sent(emission: Emission) -> Any:  # noqa: ANN401 - Flink's
    return (PROBLEMS, emission.line) if emission.is_problem else emission.line


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
