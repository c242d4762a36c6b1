"""LocalRunner: runs an agent on a memory, each input exactly once.

An input is durable before it is acknowledged. The runs of a key run one after the other, in
the order of acceptance, across all processes that share the store. Different keys run concurrently.
The changes, events and outputs of an action are committed atomically when the action returns. After
a crash, `start` continues after the last commit, in this process or another one.
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
"""The default number of keys in work at once: this many threads for plain actions, and this many
async actions."""

PAUSE_S = 0.002
"""Seconds between two checks by `run_until_idle` whether other threads and processes are done."""

CHUNK = 256
"""The number of inputs that `map` accepts in one commit."""

_CLOSED = "this runner was closed; make another one"

OnParked: TypeAlias = Literal["raise", "retry"]
"""The reaction to an input whose run is parked: raise `RunParked`, or retry the run."""


class LocalRunner(ProcessBound):
    """Runs an agent on a memory, in threads of this process.

    Use the runner in a `with` block. The end of the block waits for the inputs that were submitted
    to this runner; after an error it does not wait. Unfinished inputs stay in the inbox for the
    next runner.

    Args:
        agent: A subclass of `Agent`, or an instance of one.
        memory: The memory of the agent. With the memory of one key, the runner uses the whole
            memory that has this key.
        name: The name under which the store keeps inbox, run numbers and outputs. The default is
            the name of the agent.
        concurrency: The largest number of keys in work at once.
        retain: How long ended runs are kept.
        hooks: Functions of a runner that is built on top of this one.

    Attributes:
        owner: The name of this runner in the leases of its keys.
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
                f"a runner needs a Memory (see Memory.open), not {short_repr(memory)}"
            )
        hooks = RunnerHooks() if hooks is None else hooks
        checked_kind(hooks, RunnerHooks, "hooks must be RunnerHooks")
        retain = Retain() if retain is None else retain
        checked_kind(retain, Retain, "retain must be a Retain(…)")
        plan = DispatchTable.of(agent, name=name)
        if memory.engine.store.read_only:
            raise StoreReadOnly("a runner needs a writable memory; open it without mode='ro'")
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
        """The name under which the store keeps the inbox, run numbers and outputs."""
        return self._setup.plan.name

    @property
    def runs(self) -> Runs:
        """The runs of the agent: an object that lists them, and retries or discards parked runs."""
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
        """Accept an input durably, to be run in the background. Return a ticket for the run.

        Args:
            value: A storable value, which becomes an `InputEvent`, or an event of a custom class.
            event_id: A name of the input. If the agent has accepted an input with this id before,
                the input is not run again, and the ticket is for the earlier run.
            at_once: With True, a worker is called for the input. With False, the input is left to a
                thread that waits for the ticket, or to a worker later.
            on_parked: What happens if the earlier run with this *event_id* is parked. "retry"
                retries the run, as `Runs.retry` does; use it after the cause is corrected. With
                "raise" the run stays parked.

        Raises:
            InvalidName: *key* is not a non-empty str.
            InvalidValue: *value* cannot be stored.
            InvalidInput: The agent has no action for the event, or *on_parked* cannot be used.
            IdempotencyConflict: *event_id* was used for a different input.
            StoreClosed: The runner was closed.
        """
        _check_on_parked(on_parked, event_id)
        queued = _input_of(self._setup, key, value, event_id)
        return self._accept([queued], call=at_once, on_parked=on_parked)[0]

    def submit_many(self, inputs: Iterable[SubmittedInput]) -> list[Ticket]:
        """Accept inputs, ``(key, value)`` or ``(key, value, event_id)``, all in one commit.

        Return their tickets, in order. The inputs run in the background; see `submit`.
        """
        checked_kind(inputs, Iterable, "inputs must be pairs (key, value)")
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
        """Accept an input, wait for its run, and return the outputs.

        This is `submit` followed by `Ticket.result`, with the same errors and those below.

        Raises:
            RunParked: An action of the run failed, or an action of a run that this run waits
                behind.
            RunPending: The run did not end in *wait_s* seconds; it continues.
            InvalidInput: An action of the same key called this method, and would wait for itself.
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
        """Run inputs, ``(key, value)`` or ``(key, value, event_id)``; yield their outputs in order.

        Inputs are accepted in chunks, a few chunks ahead of the yielded outputs.

        Args:
            errors: With "raise", the error of a run is raised. With "return", the error is yielded
                instead of the outputs of the run, and the iteration continues.
            on_parked: See `submit`. It applies to inputs with an event id.
        """
        choice(on_parked, "on_parked", *get_args(OnParked))
        choice(errors, "errors", "raise", "return")
        checked_kind(inputs, Iterable, "map() needs inputs, pairs (key, value)")
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
            if not isinstance(error, Exception):  # Ctrl-C: the inputs may have been accepted
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
        if self._closed:  # the runner was closed meanwhile: nobody else would release the keys
            for answer in accepted:
                if answer.lease is not None:
                    self._store.release_lease(answer.lease)
        elif len(inputs) > 1:
            self._executor.scheduler.attend()
        return tickets

    def _retried(self, answer: Accepted) -> Accepted:
        """If the input is repeated and its run is parked, retry the run.

        Return the answer with the run that has the input from now on.
        """
        row = self._store.run(answer.run) if answer.repeated and answer.run else None
        if row is None or row.status != "parked":
            return answer
        run = row.id
        with suppress(StaleRun):  # another caller retried or discarded the run meanwhile
            run = self.runs.retry(run)
        again = self._store.run(run) or row
        return replace(answer, run=again.id, number=again.number)

    def _ticket(self, queued: QueuedInput, answer: Accepted) -> Ticket:
        key = queued.scope.key or ""
        ticket = Ticket(answer.run or 0, key, answer.number, answer.repeated, self)
        if answer.run is None:
            pruned = f"event {queued.label!r} of agent {self.name!r} was run before; its outputs"
            ticket.resolve(
                None, NotFound(f"{pruned} were pruned; to keep them longer, set retain=")
            )
        return ticket

    def _line_up(self, queued: QueuedInput, answer: Accepted, *, call: bool) -> bool:
        """Add an input to the lane of its key. The caller holds the scheduler's lock.

        A repeated input is added too, because the process that accepted it first may have died.
        Return whether the run of the input may have ended already.
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
        lent = lane.state is LaneState.PARKED and lane.lease is not None  # a worker releases it
        if lane.state is LaneState.IDLE or lent:
            scheduler.make_ready(lane, call=call)
        return maybe_done

    # --- waiting for outputs ------------------------------------------------------------------

    def wait(self, ticket: Ticket, wait_s: float | None) -> None:
        """Wait until a ticket is done; see `Ticket.result`.

        Without a time limit, the calling thread does tasks of the ticket's key meanwhile.
        """
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
        """Raise if the run of a ticket cannot end, or if no time is left to wait.

        Args:
            wait_s: The longest wait in seconds, for the message; None sets no limit.
            left_s: The seconds that are left of the wait.

        Raises:
            RunParked: The run waits behind a parked run.
            RunPending: *left_s* is not above 0, and the ticket is not done.
            InvalidInput: An action of the same key waits for the ticket.
        """
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
            consumer: The name of a reader whose position is stored, so that it continues there. The
                position moves past an output when the next output is requested. So an output that
                was being processed at a crash comes again; `Output.position` can serve as an
                idempotency key. Outputs that a named consumer has not read are never pruned.
            after: The position after which the outputs begin, if *consumer* is None.
            wait_s: The seconds to wait for another output before the iteration ends. With None it
                continues until the runner is closed.

        Raises:
            OutputsPruned: Outputs past *after* are no longer kept.
            InvalidInput: Both *consumer* and *after* were passed, or an argument cannot be used.
        """
        return self._registry.reader.stream(consumer, after, wait_s)

    # --- work in the background ------------------------------------------------------------------

    def start(self) -> None:
        """Start the work on waiting inputs, and on runs that a crash left unfinished.

        The first use of the runner calls this method; later calls do nothing.

        Raises:
            StoreClosed: The runner was closed.
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

        Tasks in other processes are waited for too. Parked runs, and the runs behind them, stay.
        """
        self._run_until_idle(Flag())

    def _run_until_idle(self, stop: Flag) -> None:
        """Do `run_until_idle`, or end when *stop* is set and the current action has ended."""
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
            stop: A `threading.Event`, or another object with a method `is_set`. It is polled, so
                the handler of a signal may set it.
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

        The work is done in short transactions, with other writes between them. The runner also
        prunes in the background.
        """
        done = 0
        while some := self._watch.prune():
            done += some
        return done

    # --- the end ------------------------------------------------------------------------------

    def close(self, wait_s: float | None = 10) -> None:
        """Wait for tasks in progress, and release the keys; may be called twice.

        Unfinished inputs stay in the inbox.

        Args:
            wait_s: The longest wait in seconds; None sets no limit.

        Raises:
            InvalidInput: *wait_s* is not a number of seconds, or an action of this runner called
                this method.
        """
        checked_wait(wait_s)
        refuse_in_runner(self.owner, "close its runner (set the stop= of serve() instead)")
        if FORKS.is_inherited(self._generation):
            return  # this is a child process, which does not have the threads of the runner
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
            if begins:  # it has ended, or Ctrl-C came and `close` may be called once more
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
        """Yield one ticket of each run that has not ended and was submitted to this runner."""
        waited: set[int] = set()
        while tickets := [t for t in self._registry.waiting() if t.run not in waited]:
            for ticket in tickets:
                waited.add(ticket.run)
                yield ticket

    # --- asyncio ------------------------------------------------------------------------------

    async def asubmit(
        self, key: str, value: object, *, event_id: str | None = None, on_parked: OnParked = "raise"
    ) -> Ticket:
        """Accept an input, and return a ticket for the run; see `submit`."""
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
        """Work until no input of the agent waits; see `run_until_idle`."""
        stop = Flag()
        answer = asyncio.wrap_future(self._calls.submitted(partial(self._run_until_idle, stop)))
        try:
            await asyncio.shield(answer)
        except asyncio.CancelledError:
            stop.set()  # the work stops after the current action; nobody waits for that
            answer.add_done_callback(lambda done: done.cancelled() or done.exception())
            raise

    async def aclose(self, wait_s: float | None = 10) -> None:
        """Close the runner, even if the caller is cancelled meanwhile; see `close`."""
        await run_to_its_end(partial(self.close, wait_s))

    async def __aenter__(self) -> Self:
        try:
            await self._calls.run(self.start)
        except asyncio.CancelledError:
            await self.aclose()  # nobody else can close the runner
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
            "on_parked='retry' needs the event_id of the input, or call runner.runs.retry(…) "
            "with the run"
        )


def _input_of(setup: RunnerSetup, key: str, value: object, event_id: str | None) -> QueuedInput:
    """Return *value*, a plain value or an event, as an input for the store.

    Raises:
        InvalidName: *key* or *event_id* is not a non-empty str.
        InvalidValue: *value* cannot be stored.
        InvalidInput: The agent has no action for this class of event.
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
"""Returns the same `Scope` object for the same key: a busy key needs hundreds at once."""


def _parts(each: tuple[Any, ...]) -> tuple[str, object, str | None]:
    """Return the key, value and event id (or None) of an input of `LocalRunner.map`."""
    if not isinstance(each, tuple) or len(each) not in (2, 3):  # pyright: ignore[reportUnnecessaryIsInstance] - user input
        raise InvalidInput(
            "an input of map() must be (key, value) or (key, value, event_id), not "
            f"{short_repr(each)}"
        )
    return (*each, None) if len(each) == 2 else cast("Any", each)  # noqa: PLR2004 - a pair
