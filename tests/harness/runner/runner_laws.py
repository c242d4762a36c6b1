"""The base of a runner's laws: a memory, a runner, a kill; and a random walk."""

from __future__ import annotations

import random
import threading
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from alveus.errors import StoreClosed
from alveus.memory.memory import Memory
from alveus.runs.agent import Agent, Condition, action
from alveus.runs.runner import LocalRunner, Output
from alveus.runs.task import RunnerContext
from alveus.store import Batch, Run, StatusChange
from alveus.testing.batches import Clock, present
from alveus.values.events import Event, InputEvent, OutputEvent
from alveus.values.retries import Retry
from waiting import LIMIT_S


class ActionGate:
    """A gate that stops an action and reports its arrival."""

    def __init__(self) -> None:
        self._came, self._open = threading.Event(), threading.Event()

    def stop(self) -> None:
        """Report the arrival, and wait until the gate is open."""
        self._came.set()
        assert self._open.wait(LIMIT_S), "nobody opened the gate"

    def let_know(self) -> None:
        """Report an arrival without waiting."""
        self._came.set()

    def reached(self) -> None:
        """Wait for the first arrival."""
        assert self._came.wait(LIMIT_S), "nobody came to the gate"

    @property
    def has_come(self) -> bool:
        """Return whether an action has arrived."""
        return self._came.is_set()

    def open(self) -> None:
        """Open the gate for all."""
        self._open.set()


def put_out(
    make: Callable[[InputEvent, RunnerContext], object],
    *,
    when: Condition | None = None,
    retry: Retry | None = None,
) -> Callable[..., Any]:
    """Return an action of inputs that sends the result of *make*."""

    @action(InputEvent, when=when, retry=retry)
    def work(event: InputEvent, ctx: RunnerContext) -> None:
        ctx.send_event(OutputEvent(make(event, ctx)))

    return work


def stopping(gate: ActionGate) -> Callable[..., Any]:
    """Return an action that stops at a gate, then sends its input."""

    def stop(event: InputEvent, _ctx: RunnerContext) -> object:
        gate.stop()
        return event.input

    return put_out(stop)


class RunnerLaws:
    """A group of tests. The test class of a runner defines how memories and runners are made.

    Attributes:
        clock: The clock for opening memories.
    """

    clock: Clock

    def open(self, path: Path) -> Memory:
        """Open the memory at *path*, a file name in an empty folder, with `self.clock`."""
        raise NotImplementedError

    def runner(self, agent: Agent | type[Agent], memory: Memory, **options: Any) -> LocalRunner:
        """Return a runner of *agent*."""
        raise NotImplementedError

    def crash(self, runner: LocalRunner, memory: Memory, path: Path) -> Memory:
        """Make a runner count as dead, as after a kill, without closing it.

        Returns the memory for its successors: *memory*, or a newly opened one.
        """
        raise NotImplementedError

    @pytest.fixture(autouse=True)
    def _clock(self) -> None:
        self.clock = Clock()

    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        """The path of a test's memory."""
        return tmp_path / "memory.db"

    @pytest.fixture
    def hall(self, path: Path) -> Iterator[Hall]:
        """Opens memories and runners, and closes them."""
        hall = Hall(self, path)
        yield hall
        hall.close()


class Hall:
    """The memories and runners of one test.

    Attributes:
        memory: The present memory.
    """

    def __init__(self, laws: RunnerLaws, path: Path) -> None:
        self._laws, self._path = laws, path
        self.memory = laws.open(path)
        self._memories = [self.memory]
        self._runners: list[LocalRunner] = []
        self._never, self._pauses = threading.Event(), 0

    def start(self, agent: Agent | type[Agent], **options: object) -> LocalRunner:
        """Return a runner, closed at the end of the test."""
        runner = self._laws.runner(agent, self.memory, **options)
        self._runners.append(runner)
        return runner

    def serve(self, *actions: Callable[..., Any], **options: Any) -> LocalRunner:
        """Return a runner of an agent with these actions and settings."""
        own = {name: options.pop(name) for name in ("concurrency", "retain") if name in options}
        return self.start(Agent(options.pop("name", "helper"), actions=actions, **options), **own)

    def crash(self, runner: LocalRunner) -> Memory:
        """Kill a runner. Return the memory for its successor."""
        self.memory = self._laws.crash(runner, self.memory, self._path)
        if self.memory not in self._memories:
            self._memories.append(self.memory)
        return self.memory

    def pause(self) -> None:
        """Wait a moment for other threads."""
        self._never.wait(0.002)  # repeatedly
        self._pauses += 1
        assert self._pauses < LIMIT_S / 0.002, "it did not happen"

    def close(self) -> None:
        """Close all runners and memories, killed ones too."""
        for runner in self._runners:
            runner.close(LIMIT_S)
        for memory in self._memories:
            memory.close()

    # --- what the store knows -----------------------------------------------------------------

    def run(self, number: int) -> Run:
        """Return a run by its id."""
        return present(self.memory.store.run(number))

    def parked(self) -> list[Run]:
        """Return the runs that are parked, the first one first."""
        return self.memory.store.runs(self.memory.space, status="parked")[::-1]

    def retry(self, run: int, *, last: bool = False) -> int:
        """Retry a parked run."""
        return self.memory.store.retry_run(run, last=last, time=self.memory.engine.clock())

    def discard(self, run: int) -> None:
        """Discard a parked run."""
        told = StatusChange(run, "parked", "discarded")
        time = self.memory.engine.clock()
        self.memory.store.commit(Batch(scope=self.run(run).scope, time=time, run=told))

    def texts(self, key: str) -> list[object]:
        """Return the items of a key's set "default"."""
        return [item.value for item in self.memory.key(key).list()]


KEYS = ("ada", "bob", "a_b/\n🦜")


class Half(Event):
    """Sent by the first action to the second."""

    n: int
    token: str


class Fuse:
    """Stops every caller after a number of passes.

    Attributes:
        steps: The number of passes left.
        gate: The gate that stops callers.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.steps = 1 << 30
        self.gate = ActionGate()

    def pass_by(self) -> None:
        """Pass, or stop at the gate."""
        with self._lock:
            self.steps -= 1
            stops, gate = self.steps < 0, self.gate
        if stops:
            gate.stop()

    def light(self, steps: int) -> ActionGate:
        """Allow *steps* passes. Return the gate for later callers."""
        with self._lock:
            self.steps, self.gate = steps, ActionGate()
            return self.gate


class Walk:
    """One walk, and its model.

    Attributes:
        accepted: By key, the numbers of inputs expected in memory, in order.
        bad: Inputs whose second action fails.
        discarded: Discarded inputs. Their first action is committed, without output.
        read: The positions and values that the consumer has read.
    """

    def __init__(self, hall: Hall, seed: int) -> None:
        self.hall, self.random = hall, random.Random(seed)
        self.accepted: dict[str, list[int]] = defaultdict(list)
        self.bad: set[int] = set()
        self.fuse = Fuse()
        self.discarded: set[int] = set()
        self.read: list[tuple[int, Any]] = []
        self._events: dict[str, tuple[str, int]] = {}
        self._inputs = 0
        self._gates: list[ActionGate] = []
        self.runner = self.serve()

    def serve(self) -> LocalRunner:
        """Return a new runner with the settings of the last one."""
        return self.hall.serve(*self.actions(), concurrency=self.random.choice((1, 2, 16)))

    def actions(self) -> tuple[Callable[..., Any], ...]:
        """Return the actions. Each attempt leaves a unique token."""

        @action(InputEvent)
        def first(event: InputEvent, ctx: RunnerContext) -> None:
            token = uuid.uuid4().hex
            log = ctx.short_term_memory
            log.set("log", [*log.get("log", []), [event.input, token]])
            ctx.sensory_memory.set("token", token)
            ctx.long_term_memory.add(token, id=f"item {event.input}")
            self.fuse.pass_by()
            ctx.send_event(Half(event.input, token))

        @action(Half)
        def second(event: Half, ctx: RunnerContext) -> None:
            asked = ctx.durable(self.ask, event.n)
            self.fuse.pass_by()
            if event.n in self.bad:
                raise RuntimeError(event.n)
            token = ctx.sensory_memory.get("token")
            ctx.send_event(OutputEvent([event.n, event.token, token, asked]))

        return first, second

    def ask(self, n: int) -> str:
        """Return a value unique to this call."""
        self.fuse.pass_by()
        return f"{n} {uuid.uuid4().hex}"

    # --- steps

    def step(self) -> None:
        """Do one random step."""
        steps = (self.submit,) * 12 + (self.repeat,) * 2 + (self.work,) * 2
        steps += (self.crash, self.crash, self.close, self.decide, self.consume)
        self.random.choice(steps)()

    def submit(self) -> None:
        """Submit an input. Some fail later, some have an id."""
        n, key = self._inputs, self.random.choice(KEYS)
        self._inputs += 1
        event_id = f"event {n}" if self.random.random() < 0.5 else None
        if self.random.random() < 0.1:
            self.bad.add(n)
        ticket = self.runner.submit(key, n, event_id=event_id)
        assert not ticket.repeated
        self.accepted[key].append(n)
        if event_id is not None:
            self._events[event_id] = (key, n)

    def repeat(self) -> None:
        """Submit an earlier event again. The run is the same."""
        if self._events:
            event_id = self.random.choice(list(self._events))
            key, n = self._events[event_id]
            assert self.runner.submit(key, n, event_id=event_id).repeated

    def work(self) -> None:
        """Run everything that can run."""
        self.runner.run_until_idle()

    def crash(self) -> None:
        """Kill the runner in the middle of its work. The killed runner continues a little."""
        gate = self.fuse.light(self.random.randrange(6))
        worker = threading.Thread(target=work_on, args=(self.runner,), daemon=True)
        worker.start()
        while worker.is_alive() and not gate.has_come:
            self.hall.pause()
        self.hall.crash(self.runner)
        self.fuse.light(1 << 30)
        dead, self.runner = self.runner, self.serve()
        self._gates.append(gate)
        if self.random.random() < 0.5:
            self.runner.run_until_idle()
            gate.open()
            dead.close(LIMIT_S)

    def close(self) -> None:
        """Close the runner, and start another."""
        self.runner.close(LIMIT_S)
        self.runner = self.serve()

    def decide(self) -> None:
        """Repair or discard the parked runs."""
        for run in self.hall.parked():
            key = run.scope.key or ""
            n = next(n for n in self.accepted[key] if n in self.bad)
            self.bad.discard(n)
            if self.random.random() < 0.7:
                self.hall.retry(run.id)
            else:
                self.hall.discard(run.id)
                self.discarded.add(n)
                self._events = {e: at for e, at in self._events.items() if at != (key, n)}

    def consume(self) -> None:
        """Read some outputs. The consumer may die before it confirms the last."""
        for output in self.runner.outputs(consumer="reader"):
            self._note(output)
            if self.random.random() < 0.2:
                break

    def _note(self, output: Output) -> None:
        """Record an output, unless it repeats the last one."""
        if not self.read or self.read[-1][0] != output.position:
            self.read.append((output.position, output.value))

    # --- the end

    def finish(self) -> None:
        """Run everything that waits, and compare memory and outputs with the model."""
        self.work()
        while self.hall.parked():
            self.decide()
            self.work()
        for gate in self._gates:
            gate.open()
        for output in self.runner.outputs(consumer="reader"):
            self._note(output)
        outputs = [output.value for output in self.runner.outputs()]
        assert [value for _, value in self.read] == outputs
        for key in KEYS:
            self._check_key(key, {n: (one, two) for n, one, two, _ in outputs})
        inputs = {n for accepted in self.accepted.values() for n in accepted}
        assert sorted(n for n, *_ in outputs) == sorted(inputs - self.discarded)
        assert len({asked for *_, asked in outputs}) == len(outputs)

    def _check_key(self, key: str, outputs: dict[int, tuple[str, str]]) -> None:
        memory = self.hall.memory.key(key)
        log = memory.short_term.get("log", [])
        assert [n for n, _ in log] == self.accepted[key]
        items = {item.id: item.value for item in memory.list()}
        assert items == {f"item {n}": token for n, token in log}
        for n, token in log:
            assert n in self.discarded or outputs[n] == (token, token)


def work_on(runner: LocalRunner) -> None:
    """Work until no input is left or the runner is closed."""
    with suppress(StoreClosed):
        runner.run_until_idle()


def walk_runs(hall: Hall, *, steps: int, seed: int) -> None:
    """Walk *steps* steps, and compare the result with the model."""
    walk = Walk(hall, seed)
    for _ in range(steps):
        walk.step()
    walk.finish()
