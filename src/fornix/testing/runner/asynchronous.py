"""Laws of async actions: the same promises, on one event loop."""

from __future__ import annotations

import asyncio
import threading

import pytest

from fornix.errors import RunParked, StoreClosed
from fornix.events.events import Event, InputEvent, OutputEvent
from fornix.runs.agent import action
from fornix.runs.task import RunnerContext
from fornix.testing.runner.runner_laws import LONG_S, ActionGate, Hall, RunnerLaws


class NumberEvent(Event):
    """Goes to the second action of a run."""

    n: int


async def times_ten(n: int) -> int:
    """Return ten times *n*, after others had their turn."""
    await asyncio.sleep(0)
    return n * 10


def plus_100(n: int) -> int:
    """Return *n* and a hundred."""
    return n + 100


class AsyncLaws(RunnerLaws):
    """What holds of actions that are `async` functions."""

    def test_an_async_action_keeps_the_same_promises(self, hall: Hall) -> None:
        """Memory, events, durable calls of plain and of async functions; beside plain actions."""

        @action(InputEvent)
        async def first(event: InputEvent, ctx: RunnerContext) -> None:
            ctx.sensory_memory.set("given", event.input)
            ctx.short_term_memory.increment("runs")
            ctx.long_term_memory.add(f"input {event.input}")
            ten = await ctx.durable(times_ten, event.input)
            assert ctx.sensory_memory.get("given") == event.input
            ctx.send_event(NumberEvent(ten))

        @action(NumberEvent)
        def then(event: NumberEvent, ctx: RunnerContext) -> None:
            ctx.send_event(OutputEvent([event.n, ctx.sensory_memory.get("given")]))

        @action(NumberEvent)
        async def last(event: NumberEvent, ctx: RunnerContext) -> None:
            hundred = await ctx.durable(plus_100, event.n)
            ctx.send_event(OutputEvent(await ctx.durable(times_ten, hundred)))

        runner = hall.serve(first, then, last)
        assert runner.handle("ada", 5) == ([50, 5], 1500)
        assert runner.handle("ada", 6) == ([60, 6], 1600)
        assert hall.memory.key("ada").short_term.get("runs") == 2
        assert hall.texts("ada") == ["input 5", "input 6"]

    def test_actions_may_use_what_asyncio_has(self, hall: Hall) -> None:
        """Gather, tasks, timeouts and sleep: it is a loop like any other."""

        @action(InputEvent)
        async def work(event: InputEvent, ctx: RunnerContext) -> None:
            started = asyncio.create_task(times_ten(1))
            gathered = await asyncio.gather(*(times_ten(n) for n in range(3)))
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(asyncio.Event().wait(), 0.001)  # for ever
            ctx.send_event(OutputEvent([await started, *gathered]))

        assert hall.serve(work).handle("ada", 0) == ([10, 0, 10, 20],)

    def test_plain_calls_wait_beside_each_other(self, hall: Hall) -> None:
        """As many as keys are at work: each in a thread of its own."""
        meeting = threading.Barrier(12)

        @action(InputEvent)
        async def work(event: InputEvent, ctx: RunnerContext) -> None:
            ctx.send_event(OutputEvent(await ctx.durable(meeting.wait, LONG_S)))

        runner = hall.serve(work, concurrency=12)
        tickets = [runner.submit(f"key {n}", n) for n in range(12)]
        assert sorted(ticket.result(LONG_S)[0] for ticket in tickets) == list(range(12))

    def test_events_leave_with_the_action_not_with_an_await(self, hall: Hall) -> None:
        """What is sent before it is suspended is gone if it fails later."""

        @action(InputEvent)
        async def work(event: InputEvent, ctx: RunnerContext) -> None:
            ctx.send_event(OutputEvent("early"))
            ctx.short_term_memory.set("early", 1)
            await asyncio.sleep(0)
            raise RuntimeError

        runner = hall.serve(work)
        with pytest.raises(RunParked):
            runner.handle("ada", 0)
        assert list(runner.outputs()) == []
        assert hall.memory.key("ada").short_term.get_field_names() == []

    def test_keys_wait_beside_each_other(self, hall: Hall) -> None:
        """One loop serves them; a key that waits long does not hold others up."""
        opened = threading.Event()

        @action(InputEvent)
        async def work(event: InputEvent, ctx: RunnerContext) -> None:
            while event.input == "long" and not opened.is_set():  # noqa: ASYNC110 - a thread sets it
                await asyncio.sleep(0.001)
            ctx.send_event(OutputEvent(ctx.short_term_memory.increment("n")))

        runner = hall.serve(work, concurrency=2)
        ticket = runner.submit("ada", "long")
        behind = runner.submit("ada", 1)
        assert [runner.handle(f"key {n % 3}", n, wait_s=LONG_S)[0] for n in range(6)] == [
            1, 1, 1, 2, 2, 2
        ]  # fmt: skip
        assert not ticket.done
        opened.set()
        assert (ticket.result(LONG_S), behind.result(LONG_S)) == ((1,), (2,))

    def test_what_waits_when_its_runner_closes_is_cancelled(self, hall: Hall) -> None:
        """Nothing of it is kept; the next runner begins it anew."""
        gate, closed = ActionGate(), threading.Event()
        ended: list[str] = []

        @action(InputEvent)
        async def work(event: InputEvent, ctx: RunnerContext) -> None:
            ctx.short_term_memory.increment("n")
            if not closed.is_set():
                gate.let_know()
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    ended.append("cancelled")
                    raise
            ctx.send_event(OutputEvent(ctx.short_term_memory.get("n")))

        runner = hall.serve(work, concurrency=1)
        tickets = [runner.submit(key, 0) for key in ("ada", "bob")]
        gate.reached()
        runner.close(0.01)
        closed.set()
        for ticket in tickets:
            with pytest.raises(StoreClosed):
                ticket.result(LONG_S)
        assert ended == ["cancelled"]
        following = hall.serve(work)
        following.run_until_idle()
        assert [output.value for output in following.outputs()] == [1, 1]
