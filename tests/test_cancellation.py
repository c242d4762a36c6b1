"""Who awaits is cancelled: by a timeout, by a task group, at any moment; nothing goes on unseen."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import pytest

from alveus import Agent, AsyncMemory, InputEvent, LocalRunner, Memory, OutputEvent, Retry, action
from alveus.agents.storage import LayerStorage
from alveus.errors import RunParked, StoreClosed
from alveus.memory import aio, async_calls
from alveus.runs.runner.task_executor import ActionThreads
from alveus.server.mcp.stdio import _Answers
from waiting import LIMIT_S, wait_until


class Gate:
    """Work that waits until it is let go on, and notes that it has ended."""

    def __init__(self) -> None:
        self.begun, self.go_on, self.ended = threading.Event(), threading.Event(), False

    def work(self, *_given: object) -> str:
        self.begun.set()
        assert self.go_on.wait(LIMIT_S)
        self.ended = True
        return "done"


async def cancel_in(gate: Gate, call: Awaitable[object]) -> None:
    """Cancel a call while it is at the gate: it is told so when its work has ended."""
    task = asyncio.ensure_future(call)
    await asyncio.to_thread(gate.begun.wait, LIMIT_S)
    task.cancel()
    for _ in range(5):
        await asyncio.sleep(0)
    assert not task.done()
    gate.go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert gate.ended


# --- calls of a memory ----------------------------------------------------------------------------


def test_a_restore_has_ended_before_its_cancel_is_told() -> None:
    """It would replace the file after its caller wrote to it."""
    gate = Gate()
    asyncio.run(cancel_in(gate, async_calls.in_thread(gate.work)()))


def test_what_a_layer_does_has_ended_as_well() -> None:
    """Else the lock that its caller holds would be free meanwhile."""
    gate = Gate()
    asyncio.run(cancel_in(gate, LayerStorage(None).call(gate.work)))


def test_an_opening_that_is_cancelled_is_closed_in_a_thread(tmp_path: Path, monkeypatch) -> None:
    """Closing may wait for an embedder, and the loop would wait as well."""
    gate, closed, close = Gate(), list[threading.Thread](), Memory.close

    class Slow:
        @classmethod
        def open(cls) -> Memory:
            gate.work()
            return Memory.open(tmp_path / "app.db", embedder="words")

    def noted(memory: Memory) -> None:
        closed.append(threading.current_thread())
        close(memory)

    monkeypatch.setattr(Memory, "close", noted)
    asyncio.run(cancel_in(gate, aio._opening(Slow.open)(AsyncMemory)))
    assert closed
    assert threading.main_thread() not in closed


# --- a runner -------------------------------------------------------------------------------------


class Echo(Agent):
    """Gives back what it is given."""

    @action(InputEvent)
    async def echo(self, event, ctx):
        ctx.send_event(OutputEvent(event.input))


def test_no_cancel_is_lost_that_comes_with_the_answer() -> None:
    """A task that asks again and again ends when it is cancelled once."""

    async def main() -> None:
        async def ask(key: str) -> None:
            while True:
                await runner.ahandle(key, 1)

        with Memory.open(":memory:", embedder="words") as memory:
            async with LocalRunner(Echo, memory) as runner:
                for turn in range(60):
                    tasks = [asyncio.create_task(ask(f"k{i}")) for i in range(4)]
                    await asyncio.sleep(turn * 0.0005)
                    for task in tasks:
                        task.cancel()
                    await asyncio.wait_for(asyncio.wait(tasks), LIMIT_S)
                    assert all(task.cancelled() for task in tasks)

    asyncio.run(main())


def test_a_ticket_forgets_who_no_longer_waits() -> None:
    """However often somebody waited in vain."""

    async def main() -> None:
        gate = Gate()

        class Waits(Agent):
            @action(InputEvent)
            def wait(self, event, ctx):
                gate.work()

        with Memory.open(":memory:", embedder="words") as memory:
            async with LocalRunner(Waits, memory) as runner:
                ticket = await runner.asubmit("ada", 1)
                for _ in range(3):
                    with pytest.raises(TimeoutError):
                        async with asyncio.timeout(0.01):  # it cannot be answered: it is held
                            await ticket.aresult()
                assert ticket._then == ()
                gate.go_on.set()
                assert await ticket.aresult() == ()

    asyncio.run(main())


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt])
@pytest.mark.parametrize("how", ["wait_for", "gather", "group", "durable"])
def test_a_tool_that_exits_parks_its_run_alone(how: str, error: type[BaseException]) -> None:
    """asyncio lets these two errors of a task end its loop, on which all other keys are."""

    async def tool() -> None:
        await asyncio.sleep(0)
        raise error

    def exits() -> None:
        raise error

    class Exits(Agent):
        @action(InputEvent)
        async def run(self, event, ctx):
            match event.input, how:
                case "fine", _:
                    ctx.send_event(OutputEvent("fine"))
                case _, "wait_for":
                    await asyncio.wait_for(tool(), LIMIT_S)
                case _, "gather":
                    await asyncio.gather(tool(), asyncio.sleep(0))
                case _, "group":
                    async with asyncio.TaskGroup() as group:
                        group.create_task(tool())
                case _:
                    await ctx.durable(exits)

    with Memory.open(":memory:", embedder="words") as memory, LocalRunner(Exits, memory) as runner:
        with pytest.raises(RunParked):
            runner.handle("ada", "exit", wait_s=LIMIT_S)
        assert runner.handle("eve", "fine", wait_s=LIMIT_S) == ("fine",)
        loops = [t for t in threading.enumerate() if t is runner._executor._loop._thread]
    assert loops
    assert not loops[0].is_alive()


def test_waiting_for_idle_in_vain_keeps_no_thread() -> None:
    """However often: the runner can be closed, and others have their threads."""

    async def main() -> None:
        gate = Gate()

        class Waits(Agent):
            @action(InputEvent)
            async def wait(self, event, ctx):
                gate.begun.set()
                await asyncio.Event().wait()

        with Memory.open(":memory:", embedder="words") as memory:
            runner = LocalRunner(Waits, memory)
            await runner.asubmit("ada", 1)
            for _ in range(40):
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.005):  # it cannot be idle: its action waits
                        await runner.arun_until_idle()
            await asyncio.to_thread(wait_until, lambda: not waits_for_idle())
            await asyncio.wait_for(runner.aclose(wait_s=0), LIMIT_S)
            with pytest.raises(StoreClosed, match="this runner was closed"):
                await runner.asubmit("ada", 2)

    asyncio.run(main())


def waits_for_idle() -> bool:
    """Whether a thread still is in a call that waits for idle."""
    frames = list(sys._current_frames().values())
    while frames:
        frame = frames.pop()
        if frame.f_code is LocalRunner._run_until_idle.__code__:
            return True
        if frame.f_back is not None:
            frames.append(frame.f_back)
    return False


def test_a_runner_whose_entering_is_cancelled_is_closed(monkeypatch) -> None:
    """Nobody has it."""
    gate, start = Gate(), LocalRunner.start

    def slow(runner: LocalRunner) -> None:
        start(runner)
        gate.work()

    monkeypatch.setattr(LocalRunner, "start", slow)
    with Memory.open(":memory:", embedder="words") as memory:
        runner = LocalRunner(Echo, memory)
        asyncio.run(cancel_in(gate, runner.__aenter__()))
        assert runner._ended


@pytest.mark.parametrize("reconciles", [False, True])
def test_a_timeout_around_a_durable_call_makes_it_once(reconciles: bool) -> None:
    """What the function returned is kept, though nobody waits for it any more."""
    made = list[str]()
    asked = list[str]()
    is_late = threading.Event()
    begun = list[Callable[[], object]]()

    def charge(order: str) -> str:
        begun[0]()
        assert is_late.wait(LIMIT_S)
        made.append(order)
        return f"charged {order}"

    def look() -> str:
        asked.append("asked")
        return "not known"

    class Pays(Agent):
        attempts = 0

        @action(InputEvent, retry=Retry(attempts=2, wait_s=0))
        async def pay(self, event, ctx):
            Pays.attempts += 1
            call = ctx.durable.using(reconcile=look) if reconciles else ctx.durable
            loop = asyncio.get_running_loop()
            async with asyncio.timeout(None) as limit:

                def end() -> None:
                    limit.reschedule(loop.time())
                    loop.call_later(0.05, is_late.set)

                begun.append(partial(loop.call_soon_threadsafe, end))
                ctx.send_event(OutputEvent(await call(charge, event.input)))

    with Memory.open(":memory:", embedder="words") as memory, LocalRunner(Pays, memory) as runner:
        assert runner.handle("ada", "991", wait_s=LIMIT_S) == ("charged 991",)
    assert (made, asked, Pays.attempts) == (["991"], [], 2)


# --- MCP ------------------------------------------------------------------------------------------


def test_a_cancel_by_another_kind_of_number_is_noted() -> None:
    """`mcp` takes "1" for 1, and answers no more: the end of the input would wait in vain."""

    async def main() -> None:
        answers = _Answers(None)
        answers.expect(1)
        answers.drop("1")
        await asyncio.wait_for(answers.all_sent(), LIMIT_S)
        assert answers._none.is_set()

    asyncio.run(main())


def test_threads_that_end_cancel_the_calls_that_wait() -> None:
    """Nobody is kept waiting for one of those; to end the threads twice changes nothing."""
    begun, gate = threading.Event(), threading.Event()

    def call() -> bool:
        begun.set()
        return gate.wait(LIMIT_S)

    threads = ActionThreads(1, "calls")
    running = threads.submit(call)
    assert begun.wait(LIMIT_S)
    waiting = threads.submit(int)
    for _ in range(2):
        threads.shutdown(wait=False, cancel_futures=True)
    assert waiting.cancelled()
    gate.set()
    assert running.result(LIMIT_S)
    threads.shutdown()
