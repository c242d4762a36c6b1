"""LocalRunner: runs an agent on a memory, each input exactly once.

An input is durable before it is acknowledged. Runs of a key run one after the other, in the order
of acceptance, across all processes that share the store; different keys run concurrently. The
changes, events and outputs of an action are committed atomically when it returns. After a crash,
`start` continues after the last commit, in this process or another one.
"""

from __future__ import annotations

import asyncio
import time
import weakref
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache, partial
from itertools import islice
from math import inf
from typing import Any, Literal, Self, TypeAlias, cast, get_args, overload

from alveus.errors import (
    AlveusError,
    InvalidInput,
    NotFound,
    RunPending,
    StaleRun,
    StoreClosed,
    StoreReadOnly,
)
from alveus.errors.root import raisable
from alveus.errors.short_repr import short_repr
from alveus.memory.async_calls import CallExecutor, run_to_its_end
from alveus.memory.keys import KeyMemory
from alveus.memory.memory import Memory
from alveus.runs.agent import Agent, DispatchTable
from alveus.runs.runner.scheduler import LaneState, LiveLane, owner_name
from alveus.runs.runner.task_executor import TaskExecutor
from alveus.runs.runner.tickets import LOOK_S, Output, Outputs, Runs, Ticket, TicketRegistry
from alveus.runs.runner.watcher import Watcher, forget
from alveus.runs.task import RunnerHooks, RunnerSetup
from alveus.store import Accepted, QueuedInput, Retain, Run
from alveus.store.running_keys import refuse_in_run, refuse_in_runner
from alveus.store.scope import Scope
from alveus.values import wire
from alveus.values.events import Event, InputEvent, plain
from alveus.values.forks import FORKS, Flag, HandleLock, ProcessBound, Stop
from alveus.values.storable import checked_kind, checked_name, checked_wait, choice, counted

SubmittedInput: TypeAlias = tuple[str, object] | tuple[str, object, str | None]
"""An input: ``(key, value)`` or ``(key, value, event_id)``."""

CONCURRENCY = 16
"""Keys in work at once: the number of threads for plain actions, and of async actions."""

PAUSE_S = 0.002
"""Seconds between two checks of `run_until_idle` whether others are done."""

CHUNK = 256
"""The number of inputs of `map` in one commit."""

_CLOSED = "this runner was closed; make another one"

OnParked: TypeAlias = Literal["raise", "retry"]
"""The result of an input whose run is parked: its error, or another try."""


class LocalRunner(ProcessBound):
    """Runs an agent on a memory, in threads of this process.

    Use it in a `with` block. The end of the block waits for the inputs that were submitted here;
    after an error it does not wait. Unfinished inputs stay in the inbox for the next runner.

    Args:
        agent: A subclass of `Agent`, or an instance of one.
        memory: The memory of the agent; for the memory of a key, the whole memory of that.
        name: The name of inbox, run numbers and outputs; by default the agent's name.
        concurrency: Keys in work at once.
        retain: The runs that are kept after they ended.
        hooks: For runners on top of this one.

    Attributes:
        owner: The name of the owner in the leases of its keys.
    """

    def __init__(
        self,
        agent: Agent | type[Agent],
        memory: Memory | KeyMemory,
        *,
        name: str | None = None,
        concurrency: int = CONCURRENCY,
        retain: Retain | None = None,
        hooks: RunnerHooks | None = None,
    ) -> None:
        if not isinstance(memory, Memory | KeyMemory):  # pyright: ignore[reportUnnecessaryIsInstance] - user input
            raise InvalidInput(
                f"a runner works on a Memory, not {short_repr(memory)}; see Memory.open"
            )
        hooks = RunnerHooks() if hooks is None else hooks
        checked_kind(hooks, RunnerHooks, "hooks must be RunnerHooks")
        retain = Retain() if retain is None else retain
        checked_kind(retain, Retain, "retain must be a Retain(…)")
        plan = DispatchTable.of(agent, name=name)
        if memory.engine.store.read_only:
            raise StoreReadOnly("a runner writes; open its memory without mode='ro'")
        ttl = plan.agent.short_term_ttl or memory.short_term_ttl
        self._setup = RunnerSetup(
            memory.engine, plan, memory.space, memory.knowledge.name, ttl, hooks
        )
        self._store = memory.engine.store
        self.owner = owner_name(memory.engine)
        self._closing = Flag()
        self._registry = TicketRegistry(self._setup, self._closing)
        self._executor = TaskExecutor(
            self._setup, self.owner, self._registry, concurrency=counted(concurrency, "concurrency")
        )
        self._watch = Watcher(self._setup, self._executor, self._registry, retain)
        self._lock, self._generation = HandleLock(), FORKS.generation
        self._calls = CallExecutor(_CLOSED)
        self._started = self._closed = self._is_ending = self._ended = False
        self._forgotten: weakref.finalize[..., Self] | None = None

    def __repr__(self) -> str:
        return f"<runner of agent {self.name!r} on space {self._setup.space!r}>"

    @property
    def name(self) -> str:
        """The name of its inbox, run numbers and outputs."""
        return self._setup.plan.name

    @property
    def runs(self) -> Runs:
        """The runs of the agent: list them, and retry or discard parked ones."""
        return Runs(self._setup)

    # --- inputs -------------------------------------------------------------------------------

    def submit(
        self,
        key: str,
        value: object,
        *,
        event_id: str | None = None,
        at_once: bool = True,
        on_parked: OnParked = "raise",
    ) -> Ticket:
        """Accept an input durably, to be run in the background; return a ticket for its run.

        Args:
            value: A storable value, which becomes an `InputEvent`, or an event of a custom class.
            event_id: A second input of this agent with the same id is not run again.
            at_once: False: the thread that waits for the ticket runs it, if one waits.
            on_parked: "retry": if the run of this *event_id* is parked, it tries again, as with
                `Runs.retry`; use it after the cause is corrected. "raise": it stays parked.

        Raises:
            InvalidName: The key is not a non-empty str.
            InvalidValue: The value cannot be stored.
            IdempotencyConflict: The event id was used for another input.
        """
        _check_on_parked(on_parked, event_id)
        queued = _input_of(self._setup, key, value, event_id)
        return self._accept([queued], call=at_once, on_parked=on_parked)[0]

    def submit_many(self, inputs: Iterable[SubmittedInput]) -> list[Ticket]:
        """Accept inputs, ``(key, value)`` or ``(key, value, event_id)``, all in one commit.

        They run in the background; return their tickets, in order. See `submit`.
        """
        checked_kind(inputs, Iterable, "inputs are (key, value) each")
        queued = [_input_of(self._setup, *_parts(each)) for each in inputs]
        return self._accept(queued, call=True) if queued else []

    def handle(
        self,
        key: str,
        value: object,
        *,
        event_id: str | None = None,
        wait_s: float | None = None,
        on_parked: OnParked = "raise",
    ) -> Outputs:
        """Accept an input, wait for its run, and return the outputs: `submit` and `Ticket.result`.

        Raises:
            RunParked: Its action failed, or that of a run it waits behind.
            RunPending: It did not end in *wait_s*; it continues.
            InvalidInput: An action of the same key calls this, and would wait for itself.
        """
        checked_wait(wait_s)
        _check_on_parked(on_parked, event_id)
        queued = _input_of(self._setup, key, value, event_id)
        refuse_in_run(self._store, queued.scope)
        ticket = self._accept([queued], call=False, on_parked=on_parked)[0]
        return ticket.result(wait_s)

    @overload
    def map(
        self,
        inputs: Iterable[SubmittedInput],
        *,
        errors: Literal["raise"] = "raise",
        on_parked: OnParked = "raise",
    ) -> Iterator[Outputs]: ...

    @overload
    def map(
        self,
        inputs: Iterable[SubmittedInput],
        *,
        errors: Literal["return"],
        on_parked: OnParked = "raise",
    ) -> Iterator[Outputs | AlveusError]: ...

    def map(
        self,
        inputs: Iterable[SubmittedInput],
        *,
        errors: Literal["raise", "return"] = "raise",
        on_parked: OnParked = "raise",
    ) -> Iterator[Outputs | AlveusError]:
        """Yield the outputs of inputs, ``(key, value)`` or ``(key, value, event_id)``, in order.

        Accepts them in chunks, a few chunks ahead of the yielded outputs.

        Args:
            errors: "return" yields the error of a run instead of its outputs, and continues.
            on_parked: See `submit`; for inputs with an event id.
        """
        choice(on_parked, "on_parked", *get_args(OnParked))
        choice(errors, "errors", "raise", "return")
        checked_kind(inputs, Iterable, "map takes inputs, (key, value) each")
        return self._mapped(inputs, errors, on_parked)

    def _mapped(
        self, inputs: Iterable[SubmittedInput], errors: str, on_parked: OnParked
    ) -> Iterator[Outputs | AlveusError]:
        ahead: deque[Ticket] = deque()
        source = iter(inputs)
        more = True
        while more or ahead:
            while more and len(ahead) < 4 * CHUNK:
                chunk = [_input_of(self._setup, *_parts(each)) for each in islice(source, CHUNK)]
                more = len(chunk) == CHUNK
                if chunk:
                    ahead.extend(self._accept(chunk, call=False, on_parked=on_parked))
            if ahead:
                yield self._yielded(ahead.popleft(), errors)

    def _yielded(self, ticket: Ticket, errors: str) -> Outputs | AlveusError:
        while not ticket.done and self._executor.once():
            pass
        try:
            return ticket.result()
        except AlveusError as error:
            if errors == "raise":
                raise
            return error

    def _accept(
        self, inputs: list[QueuedInput], *, call: bool = True, on_parked: OnParked = "raise"
    ) -> list[Ticket]:
        self.start()
        try:
            return self._accepted(inputs, call=call, on_parked=on_parked)
        except BaseException as error:
            if not isinstance(error, Exception):  # Ctrl-C: they may be accepted
                self._watch.doubt([queued.scope for queued in inputs])
            raise

    def _accepted(
        self, inputs: list[QueuedInput], *, call: bool, on_parked: OnParked
    ) -> list[Ticket]:
        lanes = [self._executor.scheduler.lanes.get(queued.scope) for queued in inputs]
        owner = None if any(lane.rests for lane in lanes if lane is not None) else self.owner
        accepted = self._store.accept(self.name, inputs, owner=owner)
        if on_parked == "retry":
            accepted = [self._retried(answer) for answer in accepted]
        pairs = list(zip(inputs, accepted, strict=True))
        tickets = [self._ticket(queued, answer) for queued, answer in pairs]
        self._registry.add([ticket for ticket in tickets if not ticket.done])
        self._registry.look_up_all(ticket for ticket in tickets if ticket.repeated)
        with self._executor.scheduler.lock:
            maybe_done = [
                ticket
                for (queued, answer), ticket in zip(pairs, tickets, strict=True)
                if not ticket.done and self._line_up(queued, answer, call=call)
            ]
        self._registry.look_up_all(maybe_done)
        if self._closed:  # meanwhile: nobody else would release the keys
            for answer in accepted:
                if answer.lease is not None:
                    self._store.release_lease(answer.lease)
        elif len(inputs) > 1:
            self._executor.scheduler.attend()
        return tickets

    def _retried(self, answer: Accepted) -> Accepted:
        """Retry the parked run of a repeated input; return the run that has the input now."""
        row = self._store.run(answer.run) if answer.repeated and answer.run else None
        if row is None or row.status != "parked":
            return answer
        run = row.id
        with suppress(StaleRun):  # it was retried or discarded meanwhile
            run = self.runs.retry(run)
        again = self._store.run(run) or row
        return replace(answer, run=again.id, number=again.number)

    def _ticket(self, queued: QueuedInput, answer: Accepted) -> Ticket:
        key = queued.scope.key or ""
        ticket = Ticket(answer.run or 0, key, answer.number, answer.repeated, self)
        if answer.run is None:
            pruned = (
                f"event {queued.label!r} of agent {self.name!r} was run before, and its outputs"
            )
            ticket.resolve(None, NotFound(f"{pruned} were pruned since; see retain="))
        return ticket

    def _line_up(self, queued: QueuedInput, answer: Accepted, *, call: bool) -> bool:
        """Queue an input here, or wait for the owner of its key; the scheduler's lock is held.

        A repeated one too: the process that accepted it first may have died, or may die. Return
        whether its run may have ended already.
        """
        maybe_done, scope = False, queued.scope
        scheduler = self._executor.scheduler
        lane = scheduler.lanes.get(scope)
        if lane is None:
            lane = scheduler.lanes[scope] = LiveLane(scope)
        lane.lend(answer.lease)
        if answer.repeated:
            lane.complete = False
        else:
            run, number = answer.run or 0, answer.number
            row = Run(run, self.name, lane.scope, number, "waiting", queued.event, queued.time)
            maybe_done = not lane.add(row, first=answer.first)
        lent = lane.state is LaneState.PARKED and lane.lease is not None  # to be released
        if lane.state is LaneState.IDLE or lent:
            scheduler.make_ready(lane, call=call)
        return maybe_done

    # --- waiting for outputs ------------------------------------------------------------------

    def wait(self, ticket: Ticket, wait_s: float | None) -> None:
        """Wait until a ticket is done, and do tasks of its key meanwhile; see `Ticket.result`."""
        checked_wait(wait_s)
        FORKS.check_handle(self._generation)
        deadline = None if wait_s is None else time.monotonic() + wait_s
        scheduler, scope = self._executor.scheduler, Scope(self._setup.space, ticket.key)
        refuse_in_run(self._store, scope)
        while not ticket.done:
            lane = scheduler.lanes.get(scope)
            if deadline is None and lane is not None and self._executor.once(lane):
                continue  # not with a deadline: an action cannot be stopped half-way
            scheduler.nudge()
            remaining_s = LOOK_S if deadline is None else deadline - time.monotonic()
            self.look(ticket, wait_s, left_s=remaining_s)
            ticket.wait(min(remaining_s, LOOK_S))
        scheduler.nudge()

    def look(self, ticket: Ticket, wait_s: float | None, *, left_s: float) -> None:
        """Raise if a ticket cannot be done, or *left_s*, the rest of its time, is used up."""
        FORKS.check_handle(self._generation)
        self._registry.stir.set()
        scope = Scope(self._setup.space, ticket.key)
        refuse_in_run(self._store, scope)
        lane = self._executor.scheduler.lanes.get(scope)
        stuck = None if lane is None else lane.stuck
        if stuck is not None and stuck.number < ticket.number and (wait_s is None or left_s <= 0):
            row = self._store.run(stuck.id)
            if row is not None and row.status == "parked" and not ticket.done:
                raise self._registry.why(stuck.id, row, behind=ticket.run)
        if left_s <= 0 and not ticket.done:
            raise RunPending(ticket.run, ticket.key, wait_s=wait_s or 0)

    def outputs(
        self, *, consumer: str | None = None, after: int = 0, wait_s: float | None = 0
    ) -> Iterator[Output]:
        """Yield outputs of the agent in the order of their commits, from all its runners.

        Args:
            consumer: The name of a reader whose position is stored: it continues there. The
                position moves past an output when the next one is requested, so an output in
                process at a crash comes again; `Output.position` can serve as its idempotency key.
                Outputs that a named consumer has not read are never pruned.
            after: Without a consumer: the position after which the outputs begin.
            wait_s: Seconds to wait for more outputs before the end; None: for ever.

        Raises:
            OutputsPruned: Outputs past *after* are no longer kept.
            InvalidInput: *after* with a consumer, or an argument that cannot be used.
        """
        return self._registry.reader.stream(consumer, after, wait_s)

    # --- work in the background ------------------------------------------------------------------

    def start(self) -> None:
        """Start the work on waiting inputs, and on runs that a crash left unfinished.

        The first use of the runner calls it; later calls do nothing.
        """
        if self._closed:
            raise StoreClosed(_CLOSED)
        if self._registry.failure is not None:
            raise raisable(self._registry.failure)
        if self._started:
            FORKS.check_handle(self._generation)
            return
        with self._lock:
            if not self._started and not self._closed:
                self._generation = FORKS.generation
                self._watch.pull()
                if self._forgotten is None:
                    self._forgotten = weakref.finalize(self, forget, self._watch, repr(self))
                self._watch.start()
                self._started = True

    def run_until_idle(self) -> None:
        """Work until no input of the agent waits, from this process or another one.

        Also waits for tasks in other processes. Parked runs, and those behind them, stay.
        """
        self._run_until_idle(Flag())

    def _run_until_idle(self, stop: Flag) -> None:
        """Work until then, or until *stop* is set and the current action has ended."""
        refuse_in_runner(self.owner, "wait until all is done")
        self.start()
        while not stop.is_set():
            if self._registry.failure is not None:
                raise raisable(self._registry.failure)
            if self._executor.once():
                continue
            if self._executor.scheduler.quiet and not self._watch.pull():
                return
            self._registry.stir.set()
            if self._closing.wait(PAUSE_S):
                return

    def serve(self, *, stop: Stop | None = None) -> None:
        """Run inputs of all processes until *stop* is set or the runner is closed.

        Args:
            stop: A `threading.Event`, or an object with its `is_set`. It is polled: the handler of
                a signal may set it.
        """
        if stop is not None and not hasattr(stop, "is_set"):
            raise InvalidInput(f"stop must be a threading.Event, not {short_repr(stop)}")
        self._watch.serving = True
        self.start()
        self._registry.stir.set()
        try:
            while not self._closed and not (stop is not None and stop.is_set()):
                if self._registry.failure is not None:
                    raise raisable(self._registry.failure)
                self._closing.wait(LOOK_S)
        finally:
            self._watch.serving = False

    def prune(self) -> int:
        """Delete the ended runs that `retain` no longer keeps; return the number of runs.

        In steps of one short transaction each, with other writes between them. The runner also
        does this in the background.
        """
        done = 0
        while some := self._watch.prune():
            done += some
        return done

    # --- the end ------------------------------------------------------------------------------

    def close(self, wait_s: float | None = 10) -> None:
        """Wait up to *wait_s* for tasks in progress, and release the keys; may be called twice.

        None waits without limit. Unfinished inputs stay in the inbox.

        Raises:
            InvalidInput: *wait_s* is no number of seconds, or an action of this runner calls this.
        """
        checked_wait(wait_s)
        refuse_in_runner(self.owner, "close its runner: set the stop= of serve()")
        if FORKS.is_inherited(self._generation):
            return  # the parent's, whose threads do not exist here
        begins = False
        try:
            with self._lock:
                if self._ended or self._is_ending:
                    return
                begins = self._is_ending = self._closed = True
                if self._forgotten is not None:
                    self._forgotten.detach()
            self._calls.close()
            self._closing.set()
            self._watch.end(inf if wait_s is None else wait_s)
            self._ended = True
        finally:
            if begins:  # ended, or interrupted and to be ended once more
                self._is_ending = False

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            if kind is None:
                for ticket in self._unfinished():
                    with suppress(AlveusError):
                        ticket.result()
        finally:
            self.close()

    def _unfinished(self) -> Iterator[Ticket]:
        """Yield the tickets of runs that were submitted here and have not ended."""
        waited: set[int] = set()
        while tickets := [t for t in self._registry.waiting() if t.run not in waited]:
            for ticket in tickets:
                waited.add(ticket.run)
                yield ticket

    # --- asyncio ------------------------------------------------------------------------------

    async def asubmit(
        self, key: str, value: object, *, event_id: str | None = None, on_parked: OnParked = "raise"
    ) -> Ticket:
        """Accept an input; see `submit`."""
        return await self._calls.run(
            lambda: self.submit(key, value, event_id=event_id, on_parked=on_parked)
        )

    async def ahandle(
        self,
        key: str,
        value: object,
        *,
        event_id: str | None = None,
        wait_s: float | None = None,
        on_parked: OnParked = "raise",
    ) -> Outputs:
        """Accept an input, and return the outputs of its run; see `handle`."""
        checked_wait(wait_s)
        ticket = await self.asubmit(key, value, event_id=event_id, on_parked=on_parked)
        return await ticket.aresult(wait_s)

    async def arun_until_idle(self) -> None:
        """Work until no input waits any more; see `run_until_idle`."""
        stop = Flag()
        answer = asyncio.wrap_future(self._calls.submitted(partial(self._run_until_idle, stop)))
        try:
            await asyncio.shield(answer)
        except asyncio.CancelledError:
            stop.set()  # it stops after the current action; nobody waits for that
            answer.add_done_callback(lambda done: done.cancelled() or done.exception())
            raise

    async def aclose(self, wait_s: float | None = 10) -> None:
        """Close, also if this is cancelled; see `close`."""
        await run_to_its_end(partial(self.close, wait_s))

    async def __aenter__(self) -> Self:
        try:
            await self._calls.run(self.start)
        except asyncio.CancelledError:
            await self.aclose()  # nobody else can close it
            raise
        return self

    async def __aexit__(self, kind: object, *_: object) -> None:
        try:
            if kind is None:
                for ticket in self._unfinished():
                    with suppress(AlveusError):
                        await ticket.aresult()
        finally:
            await self.aclose()


def _check_on_parked(on_parked: object, event_id: str | None) -> None:
    choice(on_parked, "on_parked", *get_args(OnParked))
    if on_parked == "retry" and event_id is None:
        raise InvalidInput(
            "on_parked='retry' is for the input of an event_id, by which its run is found; name "
            "the event, or retry the run: runner.runs.retry(…)"
        )


def _input_of(setup: RunnerSetup, key: str, value: object, event_id: str | None) -> QueuedInput:
    """Return the input with a value or an event.

    Raises:
        InvalidName: The key is not a non-empty str.
        InvalidValue: The value cannot be stored.
        InvalidInput: The agent has no action for such an event.
    """
    scope = _scope(setup.space, checked_name(key, "a key"))
    event = value if isinstance(value, Event) else InputEvent(value)
    if not setup.plan.asks_for(type(event)):
        raise InvalidInput(
            f"agent {setup.plan.name!r} has no action for {event.type}; mark one with "
            f"@action({event.type})"
        )
    event = event.checked()
    now = setup.engine.clock()
    if event_id is None:
        return QueuedInput(scope, wire.encode(plain(event)), now)
    named, salt = checked_name(event_id, "an event id"), setup.engine.store.salt()
    return QueuedInput(
        scope,
        wire.encode([event.type_name(), named, None, event.data]),
        now,
        event_id=wire.digest(["event id", scope.space, setup.plan.name, named], salt=salt),
        request=wire.digest([scope.key, event.type_name(), event.data], salt=salt),
        label=named,
    )


_scope = lru_cache(1024)(Scope)
"""Returns one `Scope` object for each key: a busy key needs hundreds at once."""


def _parts(each: tuple[Any, ...]) -> tuple[str, object, str | None]:
    """Return key, value and event id of an input of `LocalRunner.map`."""
    if not isinstance(each, tuple) or len(each) not in (2, 3):  # pyright: ignore[reportUnnecessaryIsInstance] - user input
        raise InvalidInput(
            f"map takes (key, value) or (key, value, event_id), not {short_repr(each)}"
        )
    return (*each, None) if len(each) == 2 else cast("Any", each)  # noqa: PLR2004 - a pair
