"""What every class of laws of a runner starts from: a memory, a runner, and how one is killed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fornix.memory.memory import Memory
from fornix.runs.agent import Agent
from fornix.runs.runner import LocalRunner
from fornix.store import Batch, Run, StatusChange
from fornix.testing.batches import Clock

LONG_S = 120.0
"""How long a law waits for what does happen: a guard against hanging, on any machine."""

SHORT_S = 0.05  # for what cannot happen
"""How long a law waits for what must not happen."""


class ActionGate:
    """Where an action stops until it is let on, and says that it has come."""

    def __init__(self) -> None:
        self._came, self._open = threading.Event(), threading.Event()

    def stop(self) -> None:
        """Say so, and wait; once the gate is open, nobody waits any more."""
        self._came.set()
        assert self._open.wait(LONG_S), "nobody opened the gate"

    def let_know(self) -> None:
        """Say that somebody has come, who does not wait here."""
        self._came.set()

    def reached(self) -> None:
        """Wait until somebody has come."""
        assert self._came.wait(LONG_S), "nobody came to the gate"

    @property
    def has_come(self) -> bool:
        """Whether somebody has come."""
        return self._came.is_set()

    def open(self) -> None:
        """Let everybody on."""
        self._open.set()


class RunnerLaws:
    """A group of tests; the test class of a runner says how memories and runners are made.

    Attributes:
        clock: The clock that memories are to be opened with.
    """

    clock: Clock

    def open(self, path: Path) -> Memory:
        """Open the memory at *path*, a file name in an empty folder, with `self.clock`."""
        raise NotImplementedError

    def runner(self, agent: Agent | type[Agent], memory: Memory, **options: Any) -> LocalRunner:
        """Return a runner of *agent*."""
        raise NotImplementedError

    def crash(self, runner: LocalRunner, memory: Memory, path: Path) -> Memory:
        """Have a runner count as dead from now on, as after a kill: it is not closed.

        Returns the memory that others go on with: *memory*, or one that was opened anew.
        """
        raise NotImplementedError

    @pytest.fixture(autouse=True)
    def _clock(self) -> None:
        self.clock = Clock()

    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        """Where a test's memory lies."""
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
        memory: The one to go on with.
    """

    def __init__(self, laws: RunnerLaws, path: Path) -> None:
        self._laws, self._path = laws, path
        self.memory = laws.open(path)
        self._memories = [self.memory]
        self._runners: list[LocalRunner] = []
        self._never, self._pauses = threading.Event(), 0

    def start(self, agent: Agent | type[Agent], **options: object) -> LocalRunner:
        """Return a runner that is closed with the test."""
        runner = self._laws.runner(agent, self.memory, **options)
        self._runners.append(runner)
        return runner

    def serve(self, *actions: Callable[..., Any], **options: Any) -> LocalRunner:
        """Return a runner of an agent with these actions, and settings by name."""
        own = {name: options.pop(name) for name in ("concurrency", "retain") if name in options}
        return self.start(Agent(options.pop("name", "helper"), actions=actions, **options), **own)

    def crash(self, runner: LocalRunner) -> Memory:
        """Kill a runner; return the memory on what it left."""
        self.memory = self._laws.crash(runner, self.memory, self._path)
        if self.memory not in self._memories:
            self._memories.append(self.memory)
        return self.memory

    def pause(self) -> None:
        """Wait a moment for what is about to happen."""
        self._never.wait(0.002)  # again and again
        self._pauses += 1
        assert self._pauses < LONG_S / 0.002, "it did not happen"

    def close(self) -> None:
        """Close everything, the dead as well."""
        for runner in self._runners:
            runner.close(LONG_S)
        for memory in self._memories:
            memory.close()

    # --- what the store knows -----------------------------------------------------------------

    def run(self, number: int) -> Run:
        """Return a run by its id."""
        found = self.memory.store.run(number)
        assert found is not None
        return found

    def parked(self) -> list[Run]:
        """Return the runs that are parked, the first one first."""
        return self.memory.store.runs(self.memory.space, status="parked")[::-1]

    def retry(self, run: int, *, last: bool = False) -> int:
        """Let a parked run try again."""
        return self.memory.store.retry(run, last=last, time=self.memory.engine.clock())

    def discard(self, run: int) -> None:
        """Give a parked run up."""
        told = StatusChange(run, "parked", "discarded")
        time = self.memory.engine.clock()
        self.memory.store.commit(Batch(scope=self.run(run).scope, time=time, run=told))

    def texts(self, key: str) -> list[object]:
        """Return the items of a key's set "default"."""
        return [item.value for item in self.memory.key(key).list()]
