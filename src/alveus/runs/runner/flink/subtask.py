"""One parallel part of a Flink job: it runs the agent on the keys that Flink sends to the part.

This module does not import Flink: operators pass the keyed state of the current key, and yield the
emissions. A local runner runs the actions, and commits each with its items, exact memory and
journal step to the store. Keyed state has the data that must return with a checkpoint:

``inputs``
    The inputs whose outputs were not emitted yet. After a restart the runner gets these inputs
    again. It recognises them, and returns the recorded outputs of finished runs.
``exact``
    A copy of the key's exact memory; see `hot_tree`.
"""

from __future__ import annotations

import importlib
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any, NamedTuple, ParamSpec, Protocol, TypeVar, cast

from alveus.embed import Embedder
from alveus.errors import (
    AgentChanged,
    AlveusError,
    Forgotten,
    IdempotencyConflict,
    InvalidInput,
    InvalidValue,
    NotFound,
    RunDiscarded,
    RunParked,
)
from alveus.memory.memory import Memory
from alveus.runs.agent import Agent, DispatchTable
from alveus.runs.runner.flink.hot_tree import HotRecords, HotTree
from alveus.runs.runner.flink.records import FlinkInput, output_line, problem_line
from alveus.runs.runner.flink.settings import Mode, covered_until
from alveus.runs.runner.local_runner import LocalRunner
from alveus.runs.runner.tickets import Outputs, Ticket
from alveus.runs.task import RunnerHooks
from alveus.state.committed_tree import LeasedTree
from alveus.store import Ledger, Retain, Scope
from alveus.values import wire
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import checked

P = ParamSpec("P")
R = TypeVar("R")

BATCH = 128
"""The largest number of inputs in a commit."""

MOST_KEYS = 10_000
"""The number of keys whose records are also kept in RAM. Keys that wait for outputs stay there."""

LOOK_AT_PARKED_S = 1.0
"""Seconds between two checks whether a parked run was retried."""

_UNFIT = InvalidInput, InvalidValue, IdempotencyConflict, AgentChanged
"""Errors of an input that no runner can accept."""


@dataclass(frozen=True, slots=True)
class FlinkJob:
    """The settings of all parts of a job, which Flink sends to the workers.

    Attributes:
        agent: The agent as ``module:name``, from which the workers import it.
        capacity: The largest number of inputs that the runner of one part has at once.
        hot_for: How long a key without inputs keeps the copy of its exact memory in keyed state.
        checkpoints: The folder of Flink's checkpoints, or None if it is not on this machine.
    """

    agent: str
    store_url: str
    name: str | None = None
    space: str = "default"
    knowledge: str | None = None
    embedder: str | Embedder | None = None
    mode: Mode = "concurrent"
    concurrency: int = 16
    capacity: int = 1_000
    hot_for: timedelta = timedelta(hours=1)
    retain: Retain | None = None
    checkpoints: str | None = None

    def load_agent(self) -> Agent | type[Agent]:
        """Return the agent, in a worker.

        Raises:
            NotFound: The worker cannot import the module.
            InvalidInput: The module has no agent with this name.
        """
        module_name, _, name = self.agent.partition(":")
        try:
            found: Any = importlib.import_module(module_name)
        except ModuleNotFoundError as error:
            raise NotFound(
                f"a worker of Flink has no module {error.name!r}, from which it imports agent "
                f"{self.agent}; add the module to the job (add_python_file), or install it on "
                "the workers"
            ) from error
        for part in name.split("."):
            found = getattr(found, part, None)
        if not (isinstance(found, Agent) or (isinstance(found, type) and issubclass(found, Agent))):
            raise InvalidInput(f"{self.agent} is not an agent")
        return found


class KeyedMap(Protocol):
    """A map of Flink's keyed state, for the current key."""

    def get(self, key: str, /) -> Any:  # noqa: ANN401 - Flink's
        """Return the text under a name, or None if the name does not exist."""
        ...

    def put(self, key: str, value: Any, /) -> None:  # noqa: ANN401 - Flink's
        """Set the text under a name."""
        ...

    def remove(self, key: str, /) -> None:
        """Remove a name and its text."""
        ...

    def items(self) -> Iterable[tuple[str, Any]]:
        """Return all names with their texts, in any order."""
        ...


class KeyState(NamedTuple):
    """The keyed state of the current key."""

    exact: KeyedMap
    inputs: KeyedMap


class Emission(NamedTuple):
    """A line for the stream of outputs, or for the stream of problems."""

    line: str
    is_problem: bool = False


@dataclass(slots=True, eq=False)
class _WaitingInput:
    """An input whose outputs were not emitted yet.

    Attributes:
        name: The name of the input in keyed state. Names rise in the order of arrival.
        ticket: The ticket of the input, or None before it is submitted to the runner.
        reported: Whether the problem was emitted that the run of the input is parked.
        looked: The time of the last check whether the parked run was retried.
        counts: Whether the input counts towards the capacity.
    """

    name: str
    given: FlinkInput
    ticket: Ticket | None = None
    reported: bool = False
    looked: float = 0.0
    counts: bool = False


class Subtask:
    """One parallel part of a job. Only the thread of Flink's task may use it."""

    def __init__(self, job: FlinkJob, agent: Agent | type[Agent]) -> None:
        self._job = job
        plan = DispatchTable.of(agent, name=job.name)
        self._types, self._on_failed = plan.types, plan.agent.on_failed
        self._records: OrderedDict[str, HotRecords] = OrderedDict()
        self._waiting: dict[str, deque[_WaitingInput]] = {}
        self._unsubmitted: deque[_WaitingInput] = deque()
        self._submitted = 0
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="alveus-flink")
        try:
            self.memory, self.runner = self._call(self._open, agent)
        except BaseException:
            self._thread.shutdown()
            raise

    def _call(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call *function* in a thread that Python has started, and return the result.

        Flink's thread has one Python thread state for each operator. A callback of SQLite's module
        would take the wrong thread state there, and wait for ever.
        """
        return self._thread.submit(function, *args, **kwargs).result()

    def _open(self, agent: Agent | type[Agent]) -> tuple[Memory, LocalRunner]:
        job = self._job
        memory = Memory.open(
            job.store_url, space=job.space, knowledge=job.knowledge, embedder=job.embedder
        )
        try:
            runner = LocalRunner(
                agent,
                memory,
                name=job.name,
                concurrency=job.concurrency,
                retain=job.retain,
                hooks=RunnerHooks(self._tree, self._prune_until()),
            )
            runner.start()
        except BaseException:
            memory.close()
            raise
        return memory, runner

    def close(self) -> None:
        """Stop the runner. Actions in progress are not committed; they begin anew elsewhere."""
        self._call(self.runner.close, 0)
        self._call(self.memory.close)
        self._thread.shutdown()

    def _prune_until(self) -> Callable[[], int | None] | None:
        folder = self._job.checkpoints
        return None if folder is None else lambda: covered_until(folder)

    def _tree(self, ledger: Ledger, scope: Scope, epoch: int) -> LeasedTree:
        records = self._records.get(scope.key or "")
        if records is None:  # the input was accepted by another part before a crash
            return LeasedTree(ledger, scope, epoch)
        return HotTree(ledger, scope, epoch, records)

    # --- inputs -------------------------------------------------------------------------------

    def take(self, given: FlinkInput, state: KeyState) -> Iterator[Emission]:
        """Accept an input, and yield the emissions of its key that are known."""
        waiting = self._load(given.key, state)
        name = f"{int(waiting[-1].name) + 1 if waiting else 0:012}"
        state.inputs.put(name, wire.encode([given.event_id, given.value, False]))
        entry = _WaitingInput(name, given)
        waiting.append(entry)
        self._unsubmitted.append(entry)
        at_once = self._job.mode == "synchronous" or not self._submitted
        if at_once or len(self._unsubmitted) >= BATCH:
            self._submit()
        yield from self._emit(given.key, waiting, state, wait=False)

    def emit(self, key: str, state: KeyState, *, wait: bool = False) -> Iterator[Emission]:
        """Yield the known emissions of a key.

        Args:
            wait: Whether to wait for all outputs, except those of parked runs and of runs behind
                them. In the mode "synchronous" this method always waits.
        """
        waiting = self._load(key, state)
        self._submit()
        yield from self._emit(key, waiting, state, wait=wait)

    def _emit(
        self, key: str, waiting: deque[_WaitingInput], state: KeyState, *, wait: bool
    ) -> Iterator[Emission]:
        for entry in list(waiting):
            if entry.ticket is None:
                if not wait:
                    break
                self._make_room(entry)
            try:
                outputs = self._result(entry, wait=wait)
            except AlveusError as error:
                yield from self._failed(entry, error, waiting, state)
                if entry.reported and self._on_failed == "wait":
                    for behind in waiting:  # their capacity is free for other keys
                        self._leave(behind)
                    break
                continue
            if outputs is None:
                break  # the runs behind this run have not ended either
            yield from _emissions(entry.given, outputs)
            self._done(entry, waiting, state)
        self._write(key, state)

    def is_waiting(self, key: str) -> bool:
        """Return whether outputs of a key are outstanding."""
        return bool(self._waiting.get(key))

    def evict(self, key: str, state: KeyState) -> None:
        """Drop the copy of a key's exact memory, which the store still has.

        If outputs of the key are outstanding, do nothing.
        """
        if not self.is_waiting(key):
            self._records.pop(key, None)
            for name in [name for name, _ in state.exact.items()]:
                state.exact.remove(name)

    def _load(self, key: str, state: KeyState) -> deque[_WaitingInput]:
        """Return the waiting inputs of a key; the first call reads them from keyed state."""
        waiting = self._waiting.get(key)
        if waiting is None:
            waiting = self._waiting[key] = deque()
            for name, text in sorted(state.inputs.items()):
                event_id, value, reported = cast("tuple[str, str, bool]", wire.decode(text))
                waiting.append(
                    _WaitingInput(name, FlinkInput(key, event_id, value), reported=reported)
                )
            self._unsubmitted.extend(waiting)
        if key not in self._records:
            self._records[key] = HotRecords(state.exact.items())
        self._records.move_to_end(key)
        return waiting

    def _submit(self) -> None:
        """Submit inputs to the runner, up to the capacity, each batch in one commit."""
        while self._unsubmitted and self._submitted < self._job.capacity:
            room = min(BATCH, self._job.capacity - self._submitted)
            batch = [self._unsubmitted.popleft() for _ in range(min(room, len(self._unsubmitted)))]
            tickets = self._call(self._submit_all, [entry.given for entry in batch])
            for entry, ticket in zip(batch, tickets, strict=True):
                entry.ticket, entry.counts = ticket, True
            self._submitted += len(batch)

    def _leave(self, entry: _WaitingInput) -> None:
        """Let an input no longer count towards the capacity."""
        self._submitted -= entry.counts
        entry.counts = False

    def _submit_all(self, inputs: list[FlinkInput]) -> list[Ticket]:
        try:
            submissions = [(i.key, i.content(self._types), i.event_id) for i in inputs]
            return self.runner.submit_many(submissions)
        except _UNFIT:
            return [self._submit_one(each) for each in inputs]

    def _make_room(self, entry: _WaitingInput) -> None:
        """Submit an input at once, even beyond the capacity, because the caller waits for it."""
        self._unsubmitted.remove(entry)
        entry.ticket = self._call(self._submit_one, entry.given)

    def _submit_one(self, given: FlinkInput) -> Ticket:
        """Submit an input, and return a ticket, which has the error if the input is refused."""
        try:
            content = given.content(self._types)
            return self.runner.submit_many([(given.key, content, given.event_id)])[0]
        except _UNFIT as error:
            ticket = Ticket(0, given.key, 0, False, self.runner)  # noqa: FBT003 - not repeated
            ticket.resolve(None, error)
            return ticket

    # --- outputs ------------------------------------------------------------------------------

    def _result(self, entry: _WaitingInput, *, wait: bool) -> Outputs | None:
        """Return the outputs of an input's run, or None if the run has not ended.

        If *wait* is true, or in the mode "synchronous", wait for the end of the run.
        """
        ticket = entry.ticket
        assert ticket is not None  # noqa: S101 - it was submitted
        if ticket.done:
            return ticket.result()
        if wait or self._job.mode == "synchronous":
            return self._call(ticket.result)
        return None

    def _failed(
        self,
        entry: _WaitingInput,
        error: AlveusError,
        waiting: deque[_WaitingInput],
        state: KeyState,
    ) -> Iterator[Emission]:
        """Yield the problem of an input once, and remove the input.

        An input whose run is parked is kept, because the run may be retried. Errors that do not
        belong to an input or its run are raised.
        """
        problem = Emission(problem_line(error, given=entry.given), is_problem=True)
        if isinstance(error, RunParked):
            if not entry.reported:
                yield problem
                self._leave(entry)
                entry.reported, given = True, entry.given
                state.inputs.put(entry.name, wire.encode([given.event_id, given.value, True]))
            self._look_again(entry)
        elif isinstance(error, (RunDiscarded, NotFound, Forgotten, *_UNFIT)):
            yield problem
            self._done(entry, waiting, state)
        else:
            raise error

    def _look_again(self, entry: _WaitingInput) -> None:
        """Submit a parked input again periodically: its run may have been retried."""
        now = time.monotonic()
        if entry.ticket is not None and entry.ticket.done and now - entry.looked > LOOK_AT_PARKED_S:
            entry.looked, entry.ticket = now, self._call(self._submit_one, entry.given)

    def _done(self, entry: _WaitingInput, waiting: deque[_WaitingInput], state: KeyState) -> None:
        state.inputs.remove(entry.name)
        waiting.remove(entry)
        self._leave(entry)

    def _write(self, key: str, state: KeyState) -> None:
        """Write the changes of the key's exact memory to keyed state."""
        for name, text in self._records[key].drain().items():
            if text is None:
                state.exact.remove(name)
            else:
                state.exact.put(name, text)
        while len(self._records) > MOST_KEYS and not self.is_waiting(next(iter(self._records))):
            oldest, _ = self._records.popitem(last=False)
            self._waiting.pop(oldest, None)


def _emissions(given: FlinkInput, outputs: Outputs) -> Iterator[Emission]:
    for position, output in enumerate(outputs):
        line = output_line(given, outputs.run, outputs.number, position, checked(output))
        yield Emission(line)
