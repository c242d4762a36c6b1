"""Actions and their context, as Flink Agents has them."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Any, TypeVar

from fornix.compat.flink_agents.sets import FlinkLongTermMemory, Knowledge
from fornix.errors import InvalidInput
from fornix.events.events import Event
from fornix.events.memory_events import Detail, MemoryEvents
from fornix.runs.agent import Condition, OnError
from fornix.runs.agent import action as _action
from fornix.runs.durable_calls import Durable
from fornix.runs.task import RunInfo, RunnerContext
from fornix.state import MemoryObject
from fornix.values.retries import Retry

F = TypeVar("F", bound="Callable[..., Any] | staticmethod[..., Any]")


class FlinkRunnerContext:
    """What an action works with: `fornix.RunnerContext`, with the sets of Flink Agents."""

    def __init__(self, context: RunnerContext) -> None:
        self._context = context

    def __repr__(self) -> str:
        return repr(self._context)

    @property
    def sensory_memory(self) -> MemoryObject:
        """The root of the run's exact memory."""
        return self._context.sensory_memory

    @property
    def short_term_memory(self) -> MemoryObject:
        """The root of the key's exact memory."""
        return self._context.short_term_memory

    @property
    def long_term_memory(self) -> FlinkLongTermMemory:
        """The memory sets of the key."""
        return FlinkLongTermMemory(self._context.long_term_memory)

    @property
    def knowledge(self) -> Knowledge:
        """The knowledge sets that all keys share."""
        return Knowledge(self._context.knowledge)

    def get_sensory_memory(self) -> MemoryObject:
        """Return `sensory_memory`."""
        return self.sensory_memory

    def get_short_term_memory(self) -> MemoryObject:
        """Return `short_term_memory`."""
        return self.short_term_memory

    def get_long_term_memory(self) -> FlinkLongTermMemory:
        """Return `long_term_memory`."""
        return self.long_term_memory

    def get_knowledge(self) -> Knowledge:
        """Return `knowledge`."""
        return self.knowledge

    def send_event(self, event: Event) -> None:
        """Send an event with the action's commit; see `fornix.RunnerContext.send_event`."""
        self._context.send_event(event)

    def durable_execute(
        self,
        func: Callable[..., Any],
        *args: Any,  # noqa: ANN401 - as Flink Agents published it
        reconciler: Callable[[], Any] | None = None,
        **kwargs: Any,  # noqa: ANN401 - the same
    ) -> Any:  # noqa: ANN401 - the same
        """Return what *func* returns, now or before a crash; see `fornix.RunnerContext.durable`.

        In an async action it is awaited, like `durable_execute_async`.

        Args:
            reconciler: Tells what became of a call that was under way when its process died.
        """
        return self._context.durable.using(reconcile=reconciler)(func, *args, **kwargs)

    async def durable_execute_async(
        self,
        func: Callable[..., Any],
        *args: Any,  # noqa: ANN401 - as Flink Agents published it
        reconciler: Callable[[], Any] | None = None,
        **kwargs: Any,  # noqa: ANN401 - the same
    ) -> Any:  # noqa: ANN401 - the same
        """Return what *func* returns, in an async action; see `durable_execute`."""
        made: Awaitable[Any] = self.durable_execute(func, *args, reconciler=reconciler, **kwargs)
        return await made

    # --- what fornix adds ---------------------------------------------------------------------

    @property
    def durable(self) -> Durable:
        """See `fornix.RunnerContext.durable`."""
        return self._context.durable

    @property
    def key(self) -> str:
        """The key of the run."""
        return self._context.key

    @property
    def run(self) -> RunInfo:
        """Which run this is."""
        return self._context.run

    @property
    def now(self) -> datetime:
        """The time of the run."""
        return self._context.now

    @property
    def log(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger whose lines carry the ids of run and action."""
        return self._context.log


def action(
    *events: type[Event],
    when: Condition | None = None,
    on_error: OnError | None = None,
    retry: Retry | None = None,
) -> Callable[[F], F]:
    """Mark a function as an action that events of these classes set off; see `fornix.action`."""
    return _action(*events, when=when, on_error=on_error, retry=retry, adapt=FlinkRunnerContext)


# --- settings ---------------------------------------------------------------------------------

MASTER = "memory.generate-event"
RUN_BEGIN = "agent-run.begin-event"

_ON = ("short-term-write", "sensory-write", "long-term-update", "long-term-get", "long-term-search")
_OFF = ("short-term-read", "sensory-read")


def memory_events(config: Mapping[str, object]) -> MemoryEvents:
    """Return what an agent tells of its memory under the options of a Flink Agents job.

    These are ``memory.generate-event``, ``memory.generate-event.short-term-write`` and so on, and
    ``agent-run.begin-event``; other options are passed over. What is not set is as it is there:
    writes and long-term memory are on, reads and the beginning of a run off. What is on is told
    with its values.

    Raises:
        InvalidInput: An option is neither true nor false.
    """
    master = _switch(config, MASTER)
    details: dict[str, Detail] = {}
    for names, default in ((_ON, True), (_OFF, False)):
        for name in names:
            own = _switch(config, f"{MASTER}.{name}")
            on = own if own is not None else default if master is None else master
            details[name.replace("-", "_")] = "values" if on else "off"
    details["run_begin"] = "values" if _switch(config, RUN_BEGIN) else "off"
    return MemoryEvents(**details)


def _switch(config: Mapping[str, object], option: str) -> bool | None:
    value = config.get(option)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in ("true", "false"):
        return value.strip().lower() == "true"
    raise InvalidInput(f"option {option!r} must be true or false, not {value!r}")
