"""`LocalRunner` keeps the promise of a runner, in RAM and on SQLite; and what is its own."""

from __future__ import annotations

import asyncio
import gc
import random
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from alveus import Agent, Event, InputEvent, LocalRunner, Memory, OutputEvent, action
from alveus.errors import InvalidInput, StoreClosed, StoreFull
from alveus.store.ram import RamStore
from alveus.store.sqlite import SqliteStore
from alveus.testing import Clock
from alveus.testing.batches import at_once
from doors import Letters
from harness.runner.contract import RunnerContract
from postgres_server import url_for
from scale import COUNTS
from waiting import LIMIT_S, rounds


class Local:
    """A `LocalRunner`, and how it is killed without a process."""

    clock: Clock

    def mortal(self, memory):
        """Have owners that are killed take no lease any more, which would bring them to life.

        A thread of a process that was killed cannot either.
        """
        killed, taking = set(), threading.Lock()
        acquire = memory.store.acquire_lease

        def unless_killed(scope, owner):
            with taking:
                return None if owner in killed else acquire(scope, owner)

        def kill(owner):
            with taking:
                killed.add(owner)
                memory.store._owners.dismiss(owner)

        memory.store.acquire_lease, memory.store.kill = unless_killed, kill
        return memory

    def kill(self, runner, memory):
        """Have a runner count as dead; a thread of it may still be at something."""
        self.still(runner)
        memory.store.kill(runner.owner)

    def runner(self, agent, memory, **options):
        return LocalRunner(agent, memory, **options)

    def still(self, runner):
        """Have what was killed do nothing more than what it is at."""
        runner._executor.scheduler.stop()
        runner._watch.stop()


class InRam(Local):
    def open(self, path):
        memory = Memory.open(space="app", embedder=Letters(), clock=self.clock)
        self.dead = set()
        assert isinstance(memory.store, RamStore)
        memory.store._alive = lambda owner: owner not in self.dead
        return memory

    def crash(self, runner, memory, path):
        self.still(runner)
        self.dead.add(runner.owner)
        return memory


class OnDisk(Local):
    def open(self, path):
        return self.mortal(
            Memory.open(
                path, space="app", embedder=Letters(), clock=self.clock, durability="normal"
            )
        )

    def crash(self, runner, memory, path):
        self.kill(runner, memory)
        return self.open(path)


class OnServer(Local):
    def open(self, path):
        return self.mortal(
            Memory.open(
                url_for(path),
                space="app",
                embedder=Letters(),
                clock=self.clock,
                durability="normal",
            )
        )

    def crash(self, runner, memory, path):
        self.kill(runner, memory)
        return self.open(path)


class TestRam(InRam, RunnerContract):
    pass


class TestSqlite(OnDisk, RunnerContract):
    pass


@pytest.mark.server
class TestPostgres(OnServer, RunnerContract):
    pass


# --- what is its own --------------------------------------------------------------------------


@action(InputEvent)
def note(event, ctx):
    memory = ctx.short_term_memory
    memory.set("seen", [*memory.get("seen", []), event.input])
    ctx.long_term_memory.add(f"input {event.input} " + "word " * 200)
    ctx.send_event(OutputEvent(ctx.run.number))


AGENT = Agent("noter", actions=[note])

SERVER = """
import sys, threading
sys.path.insert(0, sys.argv[2])
from test_runner import AGENT
import random
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from doors import Letters
from alveus import Agent, InputEvent, LocalRunner, Memory, OutputEvent, action
from alveus.errors import InvalidInput, StoreClosed, StoreFull

with Memory.open(sys.argv[1], space="app", embedder=Letters()) as memory:
    with LocalRunner(AGENT, memory) as runner:
        stop = threading.Event()
        threading.Thread(target=lambda: (sys.stdin.read(), stop.set()), daemon=True).start()
        print("ready", flush=True)
        runner.serve(stop=stop)
"""


def test_two_processes_share_an_inbox(tmp_path):
    """Each input runs once, each key in order, whoever has accepted it and whoever runs it."""
    path = tmp_path / "memory.db"
    command = [sys.executable, "-c", SERVER, path, Path(__file__).parent]
    with (
        Memory.open(path, space="app", embedder=Letters()) as memory,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server,
    ):
        assert server.stdout is not None
        assert server.stdin is not None
        assert server.stdout.readline() == b"ready\n"
        with LocalRunner(AGENT, memory, concurrency=2) as runner:
            answers = list(runner.map((f"key {n % 4}", n) for n in range(60)))
            tickets = [runner.submit(f"key {n % 4}", n) for n in range(60, 80)]
            answers += [ticket.result(LIMIT_S) for ticket in tickets]
        server.stdin.close()
        assert server.wait(LIMIT_S) == 0
        assert answers == [(n // 4,) for n in range(80)]
        for key in range(4):
            assert memory.key(f"key {key}").short_term.get("seen") == list(range(key, 80, 4))
        assert memory.stats().leases == ()


def test_a_full_disk_holds_runs_up_and_parks_none(tmp_path):
    """What an action did is committed once there is room; inputs that find none are refused."""
    with Memory.open(tmp_path / "memory.db", space="app", embedder=Letters()) as memory:
        store = memory.store
        assert isinstance(store, SqliteStore)
        assert store._writer is not None
        assert store._lock is not None
        with LocalRunner(AGENT, memory) as runner:
            assert runner.handle("ada", 0) == (0,)
            with store._lock:
                pages = store._writer.execute("PRAGMA page_count").get
                store._writer.execute(f"PRAGMA max_page_count = {pages + 2}")
            tickets = []

            def fill():
                while True:
                    tickets.append(runner.submit("ada", len(tickets) + 1))

            with pytest.raises(StoreFull):
                fill()
            with store._lock:  # the runner goes on writing
                store._writer.execute("PRAGMA max_page_count = 1073741823")
            assert [ticket.result(LIMIT_S) for ticket in tickets] == [
                (n + 1,) for n in range(len(tickets))
            ]
        assert memory.store.runs("app", status="parked") == []
        assert memory.key("ada").short_term.get("seen") == list(range(len(tickets) + 1))


@pytest.mark.parametrize("seed", range(2))
def test_threads_and_closing_runners_lose_nothing(tmp_path, seed):
    """Threads handle a few keys while runners come and go; nobody waits for ever."""
    rng = random.Random(seed)
    over, place = threading.Event(), ":memory:" if seed % 2 else tmp_path / "memory.db"
    with Memory.open(place, space="app", embedder=Letters(), durability="normal") as memory:
        runners = [LocalRunner(AGENT, memory, concurrency=2) for _ in range(2)]

        def handle(thread: int) -> None:
            mine = random.Random(seed * 100 + thread)
            for _ in rounds(COUNTS.contention_s):
                with suppress(StoreClosed):
                    mine.choice(runners).handle(f"key {mine.randrange(3)}", thread, wait_s=LIMIT_S)

        def close() -> None:
            while not over.wait(rng.random() / 5):
                place = rng.randrange(2)
                old, runners[place] = runners[place], LocalRunner(AGENT, memory, concurrency=1)
                old.close()

        closing = threading.Thread(target=close)
        closing.start()
        try:
            at_once(6, handle)
        finally:
            over.set()
            closing.join(LIMIT_S)
        runners[0].run_until_idle()
        numbers: dict[str, list[int]] = {}
        for output in runners[0].outputs():
            numbers.setdefault(output.key, []).append(output.value)
        for key, found in numbers.items():
            seen = memory.key(key).short_term.get("seen")
            assert (found, len(seen)) == ([*range(len(found))], len(found))
        for runner in runners:
            runner.close()
        assert memory.stats().leases == ()


def test_a_runner_of_a_key_is_one_of_its_memory():
    """It works on all keys, as one that was given the memory; a batch or an action has none."""
    with Memory.open(embedder=Letters()) as memory:
        with LocalRunner(AGENT, memory.key("ada")) as one, LocalRunner(AGENT, memory) as other:
            assert [one.handle("bob", "x"), other.handle("bob", "x")] == [(0,), (1,)]
        with (
            memory.key("ada").batch() as batch,
            pytest.raises(InvalidInput, match="needs a Memory"),
        ):
            LocalRunner(AGENT, batch)  # pyright: ignore[reportArgumentType] - what is refused


def test_an_input_that_is_not_begun_at_once_is_run_by_who_waits():
    """In that very thread; its ticket is like any other."""
    threads = []

    @action(InputEvent)
    def note(event, ctx):
        threads.append(threading.get_ident())

    agent = Agent("noting", actions=[note])
    with Memory.open(embedder=Letters()) as memory, LocalRunner(agent, memory) as runner:
        ticket = runner.submit("ada", 1, at_once=False)
        assert ticket.result() == ()
    assert threads == [threading.get_ident()]


def test_a_closed_runner_leaves_no_thread():
    """Of workers, of the watch, of its event loop."""

    @action(InputEvent)
    async def awaited(event, ctx):
        await ctx.durable(len, "abc")

    before = set(threading.enumerate())
    with Memory.open(embedder=Letters()) as memory:
        agent = Agent("noter", actions=[note, awaited])
        with LocalRunner(agent, memory) as runner:
            tickets = [runner.submit(f"key {n % 8}", n) for n in range(64)]
        assert all(ticket.done for ticket in tickets)
    left = set(threading.enumerate()) - before
    for thread in left:
        thread.join(LIMIT_S)
    assert not any(thread.is_alive() for thread in left)


def test_a_runner_is_closed_by_who_is_cancelled():
    """At the end of its block too: it stops waiting for what was submitted, and closes."""
    begun, may_end = threading.Event(), threading.Event()

    @action(InputEvent)
    def wait(event, ctx):
        begun.set()
        may_end.wait(LIMIT_S)

    async def block(runner):
        async with runner:
            await runner.asubmit("ada", 1)

    async def use(memory):
        runner = LocalRunner(Agent("waiting", actions=[wait]), memory)
        task = asyncio.create_task(block(runner))
        await asyncio.to_thread(begun.wait, LIMIT_S)
        for _ in range(3):
            task.cancel()
            await asyncio.sleep(0)
        may_end.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(StoreClosed):
            await runner.asubmit("ada", 2)

    with Memory.open(embedder="words") as memory:
        asyncio.run(use(memory))


class Noted(Event):
    """What the action below sends to itself."""

    left: int


@action(InputEvent, Noted)
def wander(event, ctx):
    left = event.left if isinstance(event, Noted) else 2
    for memory in (ctx.sensory_memory, ctx.short_term_memory):
        memory.set("trip.stops", [*memory.get("trip.stops", []), left])
        memory.increment("steps")
        memory.delete("trip" if left == 1 else "map")
    ctx.send_event(Noted(left - 1) if left else OutputEvent("home"))


@pytest.mark.parametrize("place", [":memory:", "runs.db"])
def test_a_run_leaves_nothing_to_the_garbage_collector(tmp_path, place):
    """What it made goes as it ends: collecting circles would cost as much as the run did."""
    found = place if place == ":memory:" else tmp_path / place
    with (
        Memory.open(found, embedder=Letters(), durability="normal") as memory,
        LocalRunner(Agent("wanderer", actions=[wander]), memory) as runner,
    ):
        list(runner.map([("ada", n) for n in range(10)]))
        left = []
        gc.collect()
        gc.freeze()  # what tests before this one left
        gc.disable()
        try:
            for _ in range(3):
                gc.collect()
                outputs = list(runner.map([("ada", n) for n in range(200)]))
                left.append(gc.collect())
        finally:
            gc.enable()
    assert outputs == [("home",)] * 200
    assert min(left) < 200
