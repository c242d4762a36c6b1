"""Agents that answer prompts: `Automata`, and `Manifold`, which calls tools."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

from alveus.agents.automata.agent_loop import (
    AgentParts,
    Cycle,
    Decoder,
    Encoder,
    End,
    Model,
    Prompted,
    Reasoner,
    Waiting,
    accept,
    as_prompt,
    as_text,
    called,
)
from alveus.agents.automata.tools import MOST_SHOWN, GivenTools, Tools
from alveus.agents.storage import LayerStorage
from alveus.agents.windows import ContextMemory, Reply, Stamp, Stream, Window
from alveus.errors import AlveusError, InvalidInput, PromptAborted, RunParked, StaleRun
from alveus.llm import ChatModel
from alveus.memory.keys import KeyMemory
from alveus.memory.memory import Memory
from alveus.runs.runner import LocalRunner, Outputs, Runs, Ticket
from alveus.store import Retain
from alveus.store.running_keys import refuse_in_run
from alveus.store.scope import Scope
from alveus.text.messages import Message
from alveus.values.forks import HandleLock
from alveus.values.retries import Retry
from alveus.values.storable import checked_kind, checked_name, counted

MAX_EPOCHS = 32
"""By default, the most calls of the model in one prompt."""

RAM_KEY = "agent"
"""The key of an agent with runs in RAM."""

IN_RAM = Retain(count=64, dedupe_for=timedelta(0))
"""How many ended prompts are kept in RAM."""

PRUNE_EVERY_S = 60.0

ATTEMPT = "\x1f"
"""The separator between the name of a prompt and the number of the attempt."""


class Automata:
    """An agent that asks a model, with the context of its window, until its reasoner accepts.

    In a prompt, the *encoder* makes a message of the argument, the window returns the context, the
    model answers, the *decoder* reads the answer, and the *reasoner* returns a verdict:

    - "return": the answer is remembered, and its decoded value returned;
    - ("ask", prompt): the answer is remembered, and another prompt follows;
    - ("refine", prompt): the answer is remembered as rejected, and the prompt gives the reason;
    - "retry": the answer is discarded, and the same context is asked again;
    - ("abort", why): the answer is remembered as aborted, and the error is raised.

    Each prompt is a run of one key: prompts of all threads and processes run one after the other.
    The model's answer is stored first, so a killed prompt continues without asking again. The
    commits of the window and the end of the run are one commit: a prompt that raises has changed
    nothing. This holds for alveus's windows. With a window in RAM, the prompts are in RAM too. A
    window of yours that writes elsewhere keeps observations that it committed before the error.

    Args:
        llm: A `ChatModel`, or a function of messages (dicts of role and content).
        memory: The window: one of `alveus.agents.windows`, or a `ContextMemory` that you wrote.
        encoder: Makes the message, a str or `Message`, of the argument of `prompt`.
        decoder: Makes the result from a `Reply`, and may set the reply's `importance`. If the reply
            is unusable, the decoder raises `alveus.llm.Unfit` with the reason for the model.
        reasoner: Returns the verdict on a `LoopState`.
        tools: The tools that the model may call; see `Manifold`.
        key: The key, `Memory.key(…)`. Each prompt is a run of this key. None means the key of the
            window, or RAM.
        name: The name of the agent among the agents of the key. The agent continues interrupted
            prompts of agents with this name.
        max_epochs: The most calls of the model in one prompt.
        tool_chars: The most characters of a tool's result for the model. None means all.
        keep_rejected: True to remember discarded answers too, as rejected.
        retry: How often a failing model is asked again.
        retain: Which ended prompts are kept.

    Raises:
        InvalidInput: An argument cannot be used.
    """

    def __init__(  # noqa: PLR0913 - thinker publishes the first five by position
        self,
        llm: Model,
        memory: ContextMemory,
        encoder: Encoder = as_prompt,
        decoder: Decoder = as_text,
        reasoner: Reasoner = accept,
        *,
        tools: GivenTools = (),
        key: KeyMemory | None = None,
        name: str | None = None,
        max_epochs: int = MAX_EPOCHS,
        tool_chars: int | None = MOST_SHOWN,
        keep_rejected: bool = False,
        retry: Retry | None = None,
        retain: Retain | None = None,
    ) -> None:
        checked_kind(memory, ContextMemory, "an agent's memory must be a ContextMemory")
        parts = AgentParts(
            model=_asking(llm),
            model_name=llm.name if isinstance(llm, ChatModel) else type(llm).__name__,
            memory=memory,
            encode=called(encoder, "encode", "an encoder"),
            decode=called(decoder, "decode", "a decoder"),
            deduct=called(reasoner, "deduct", "a reasoner"),
            tools=Tools(tools, most=tool_chars),
            max_epochs=counted(max_epochs, "max_epochs"),
            keep_rejected=keep_rejected,
            retry=retry,
        )
        self._key = key = _key_of(memory, key)
        self._retain = retain or (IN_RAM if key is None else None)
        self._on = key or _ram_of(memory)
        called_by = checked_name(type(self).__name__ if name is None else name, "an agent's name")
        self._cycle = Cycle(f"{called_by} of {self._on.key}", parts)
        self._mutex = HandleLock()
        self._runner: LocalRunner | None = None
        self._users, self._pruned = 0, time.monotonic()

    def __repr__(self) -> str:
        runs = "in RAM, until this process ends" if self._key is None else f"of {self._key!r}"
        return f"<{self._cycle.name!r}, prompts {runs}; remembers in {self.memory!r}>"

    @property
    def memory(self) -> ContextMemory:
        """The window of the agent."""
        return self._cycle.parts.memory

    @property
    def instructions(self) -> str:
        """The text for the model about the tools of the agent; "" without tools."""
        return self._cycle.parts.tools.instructions

    @property
    def runs(self) -> Runs:
        """The prompts of the agent, to list them and to retry failed prompts."""
        with self._running() as runner:
            return runner.runs

    # --- prompts ------------------------------------------------------------------------------

    def prompt(self, given: object, *, event_id: str | None = None) -> Any:  # noqa: ANN401 - the result of the decoder
        """Return the decoded value of the accepted answer to *given*.

        An error of the model, the encoder, the decoder or the reasoner is raised unchanged and ends
        the prompt.

        Args:
            given: The argument of the encoder: a storable value, or a `Message`.
            event_id: The name of this prompt. Calls with the same name, in any process, run the
                prompt once. A failed or killed prompt continues at the failed step.

        Raises:
            PromptAborted: The reasoner, or a tool, aborted the prompt.
            EpochsSpent: `max_epochs` was reached.
            IdempotencyConflict: *event_id* was used with another argument.
            InvalidInput: The call is inside an action or a tool of the same key.
        """
        return self._prompt(given, event_id, once=False)

    def prompt_once(self, given: object, *, event_id: str | None = None) -> Any:  # noqa: ANN401 - as above
        """Purge the window and prompt, in one commit; see `prompt`."""
        return self._prompt(given, event_id, once=True)

    async def aprompt(self, given: object, *, event_id: str | None = None) -> Any:  # noqa: ANN401 - as above
        """Call `prompt` in a thread. The prompt continues if the task is cancelled."""
        return await asyncio.to_thread(self.prompt, given, event_id=event_id)

    async def aprompt_once(self, given: object, *, event_id: str | None = None) -> Any:  # noqa: ANN401 - as above
        """Call `prompt_once` in a thread. The prompt continues if the task is cancelled."""
        return await asyncio.to_thread(self.prompt_once, given, event_id=event_id)

    def resume(self) -> None:
        """Finish the prompts of killed processes with this agent's name.

        Every prompt also finishes them before it starts.
        """
        with self._running() as runner:
            runner.run_until_idle()

    def _prompt(self, given: object, event_id: str | None, *, once: bool) -> Any:  # noqa: ANN401 - as above
        refuse_in_run(self._on.engine.store, Scope(self._on.space, self._on.key))
        waits = self._cycle.waiting
        name = str(Stamp.new()) if event_id is None else checked_name(event_id, "an event id")
        event, waiting = Prompted.of(given, name, once=once), waits.setdefault(name, Waiting())
        try:
            with self._running() as runner:
                outputs = self._outputs(runner, event, keeps=event_id is not None)
        except RunParked:
            if waiting.error is not None:
                raise waiting.error from None
            raise
        finally:
            waits.pop(name, None)
        return self._value(outputs[0], waiting.end)

    def _outputs(self, runner: LocalRunner, event: Prompted, *, keeps: bool) -> Outputs:
        """Return the outputs of a prompt's run.

        A failed run is discarded unless *keeps* is true.
        """
        ticket = self._ticket(runner, event)
        try:
            return ticket.result()
        except BaseException:
            if not keeps:
                with suppress(AlveusError):  # the prompt has ended already, or the store is closed
                    runner.runs.discard(ticket.run)
            raise

    def _ticket(self, runner: LocalRunner, event: Prompted) -> Ticket:
        """Return the ticket of a prompt. A failed prompt continues or starts over."""
        key, name, attempt = self._on.key, event.name, 1
        while True:
            ticket = runner.submit(key, event, event_id=name, at_once=False)
            run = runner.runs.get(ticket.run) if ticket.repeated else None
            if run is None or run.status not in ("parked", "discarded"):
                return ticket
            with suppress(StaleRun):  # another caller has changed it
                if run.status == "parked" and runner.runs.list(key=key, limit=1)[0].id == run.id:
                    runner.runs.retry(run.id)
                    return runner.submit(key, event, event_id=name, at_once=False)
                if run.status == "parked":
                    runner.runs.discard(run.id)
            attempt += 1
            name = f"{event.name}{ATTEMPT}{attempt}"

    def _value(self, stored: dict[str, Any], end: End | None) -> Any:  # noqa: ANN401 - as above
        """Return the result of a prompt. *end* is None if the prompt ended in another process."""
        if end is not None:
            if end.error is not None:
                raise end.error
            return end.value
        if "aborted" in stored:
            raise PromptAborted(stored["aborted"])
        return self._cycle.parts.decode(Reply(Message.from_dict(stored["reply"])))

    # --- the runner ---------------------------------------------------------------------------

    @contextmanager
    def _running(self) -> Generator[LocalRunner]:
        """Yield the runner. The last user closes the runner, so an agent need not be closed."""
        with self._mutex:
            if self._runner is None:
                self._runner = LocalRunner(self._cycle, self._on, retain=self._retain)
            self._users, runner = self._users + 1, self._runner
        try:
            yield runner
        finally:
            with self._mutex:
                self._users -= 1
                if self._users == 0:
                    self._runner = None
                    self._end(runner)

    def _end(self, runner: LocalRunner) -> None:
        if time.monotonic() - self._pruned > PRUNE_EVERY_S:
            runner.prune()  # a runner prunes by itself only if it runs long
            self._pruned = time.monotonic()
        runner.close()


class Manifold(Automata):
    """An agent with tools, which the model calls until it can answer.

    A reply ``{"tool": "…", "arguments": {…}}``, or a list of such objects, is a call: the tool is
    called, and its result is the next prompt. `Message.calls` and `Message.answers` link call and
    answer, so that a window shows and forgets them together. Any other reply is decoded. If the
    decoder cannot read it, the model is asked again.

    A tool is a plain function that returns JSON values. The model sees its name, signature and
    first sentence, and its errors. If the tool raises `PromptAborted`, the prompt ends. The result
    is stored first, so a killed process does not call the tool again. `durable(reconcile=…)`
    returns the result of a call that was running at the kill.

    Args:
        llm, encoder, decoder: As in `Automata`. The reasoner is `accept`.
        tools: Functions, and the results of `memory_tools`; or a dict of functions by name.
        memory: The window. None means a `Stream` in *key*, or in RAM without *key*.
        key, name, max_epochs, tool_chars, retry, retain: As in `Automata`.
    """

    def __init__(  # noqa: PLR0913 - as `Automata`
        self,
        llm: Model,
        tools: GivenTools,
        memory: ContextMemory | None = None,
        encoder: Encoder = as_prompt,
        decoder: Decoder = as_text,
        *,
        key: KeyMemory | None = None,
        name: str | None = None,
        max_epochs: int = MAX_EPOCHS,
        tool_chars: int | None = MOST_SHOWN,
        retry: Retry | None = None,
        retain: Retain | None = None,
    ) -> None:
        super().__init__(
            llm,
            Stream(memory=key) if memory is None else memory,
            encoder,
            decoder,
            tools=tools,
            key=key,
            name=name,
            max_epochs=max_epochs,
            tool_chars=tool_chars,
            retry=retry,
            retain=retain,
        )


def _asking(llm: object) -> Callable[[list[dict[str, str]]], object]:
    """Return the function that asks a model."""
    if isinstance(llm, ChatModel):
        return llm.complete
    return called(llm, "complete", "a model")


def _ram_of(memory: ContextMemory) -> KeyMemory:
    """Return the RAM for prompt runs: the RAM of the window, or new RAM."""
    sets = memory.sets() if isinstance(memory, Window) else None
    if isinstance(sets, KeyMemory):
        return sets
    return Memory.open(embedder="words").key(RAM_KEY)


def _key_of(memory: ContextMemory, given: object) -> KeyMemory | None:
    """Return the key for prompt runs, or None for RAM."""
    stored_in = memory.stored_in
    key = stored_in if given is None else given
    if key is None:
        return None
    if not isinstance(key, KeyMemory):
        raise InvalidInput(
            f"the key of an agent must be a Memory.key(…), not {key!r}; in an action or a "
            "batch, use the window without an agent"
        )
    keys = [one for one in (key, stored_in) if isinstance(one, KeyMemory)]
    if len({LayerStorage(one).identity for one in keys}) > 1:
        raise InvalidInput(
            f"{memory!r} is stored in another key than {key!r}; leave key= out, or pass the key "
            "of the memory"
        )
    return key
