"""Laws of durable calls: made once, despite crashes; the same promises for async actions."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import Callable
from typing import Any, NoReturn

import pytest

from alveus.errors import DurableCallFailed, RunParked, StoreClosed
from alveus.runs.agent import action
from alveus.runs.durable_calls import durable
from alveus.runs.runner import LocalRunner
from alveus.runs.task import RunnerContext
from alveus.values.events import Event, InputEvent, OutputEvent
from alveus.values.retries import Retry
from harness.runner.runner_laws import ActionGate, Hall, RunnerLaws, put_out
from waiting import LIMIT_S

Body = Callable[[RunnerContext], Any]


class OwnError(Exception):
    """An error class with two arguments."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(code, text)
        self.code = code


class OddError(Exception):
    """An error that cannot be made from its arguments."""

    def __init__(self, answer: ActionGate) -> None:
        super().__init__(type(answer).__name__ + answer.open.__name__)


class World:
    """The world that durable functions change.

    Attributes:
        calls: The arguments of each call that was made.
        gate: The gate at which `stopped` stops.
    """

    def __init__(self) -> None:
        self.calls: list[object] = []
        self.gate = ActionGate()

    def double(self, n: int) -> int:
        """Return twice *n*."""
        self.calls.append(n)
        return 2 * n

    def nothing(self) -> None:
        """Return None."""
        self.calls.append(None)

    def stopped(self, n: int) -> int:
        """Return thrice *n*, after the gate."""
        self.calls.append(n)
        self.gate.stop()
        return 3 * n

    def charge(self) -> int:
        """Record a charge, and be killed before the result is stored."""
        self.calls.append("charged")
        self.gate.stop()
        return 1

    def failing(self, error: str) -> NoReturn:
        """Raise an error by name."""
        self.calls.append(error)
        raise make(error)


def make(error: str) -> Exception:
    """Return an error by name."""
    made: dict[str, Callable[[], Exception]] = {
        "key": lambda: KeyError("k"),
        "value": lambda: ValueError("bad", 7),
        "file": lambda: FileNotFoundError(2, "No such file or directory", "a.txt"),
        "unicode": lambda: UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
        "own": lambda: OwnError(7, "own"),
        "odd": lambda: OddError(ActionGate()),
    }
    return made[error]()


class DurableLaws(RunnerLaws):
    """Laws of `ctx.durable`."""

    def resume(
        self, hall: Hall, body: Body, *, again: Body | None = None, **settings: Any
    ) -> object:
        """Return the output of an action whose process dies after *body*, and runs it again.

        Args:
            again: Replaces *body* in the second run.
        """
        gate = ActionGate()
        begun: list[ActionGate] = []

        @action(InputEvent)
        def work(event: InputEvent, ctx: RunnerContext) -> None:
            attempt = len(begun)
            begun.append(gate)
            value = (body if attempt == 0 or again is None else again)(ctx)
            if attempt == 0:
                gate.stop()
            ctx.send_event(OutputEvent(value))

        runner = hall.serve(work, **settings)
        runner.submit("ada", 0, event_id="e1")
        gate.reached()
        return self.follow(hall, runner, work, gate, **settings)

    def follow(
        self, hall: Hall, runner: LocalRunner, work: Any, gate: ActionGate, **settings: Any
    ) -> object:
        """Kill a runner. Return the answer of another runner to its input."""
        hall.crash(runner)
        try:
            return hall.serve(work, **settings).handle("ada", 0, event_id="e1", wait_s=LIMIT_S)[0]
        finally:
            gate.open()

    # --- results

    def test_a_call_is_made_once(self, hall: Hall) -> None:
        """After a crash, each call returns its stored result, by position, None too."""
        world = World()

        def body(ctx: RunnerContext) -> object:
            first = ctx.durable(world.double, 4)
            none = ctx.durable(world.nothing)
            return [first, none, ctx.durable(world.double, 4), ctx.durable(world.double, n=5)]

        assert self.resume(hall, body) == [8, None, 8, 10]
        assert world.calls == [4, None, 4, 5]

    def test_a_result_is_the_same_before_and_after(self, hall: Hall) -> None:
        """A call returns the stored form of its result, of any storable kind, as a copy."""
        given: dict[str, Any] = {"a": [1, 2.5, None, True], "b": b"\x00\xff", "c": 1 << 80}

        def ask() -> object:
            return given

        seen: list[object] = []

        def body(ctx: RunnerContext) -> object:
            value = ctx.durable(ask)
            seen.append(value)
            value["a"].append("mine")
            return value

        assert self.resume(hall, body) == {**given, "a": [1, 2.5, None, True, "mine"]}
        assert given["a"] == [1, 2.5, None, True]
        assert seen[0] == seen[1]

    @pytest.mark.parametrize("call", ["argument", "result"])
    def test_what_cannot_be_stored_is_refused(self, hall: Hall, call: str) -> None:
        """The error names the value and a conversion. An argument is refused before the call."""
        world = World()

        def odd(value: object) -> object:
            world.calls.append(value)
            return (1, 2)

        @action(InputEvent)
        def work(event: InputEvent, ctx: RunnerContext) -> None:
            ctx.durable(odd, {1} if call == "argument" else 1)

        says = "argument 0" if call == "argument" else r"the result of .*list"
        with pytest.raises(RunParked, match=says):
            hall.serve(work).handle("ada", 0)
        assert world.calls == ([] if call == "argument" else [1])

    def test_a_call_is_kept_before_the_action_goes_on(self, hall: Hall) -> None:
        """A call's record is stored when the call returns, and deleted at the end of the run."""
        seen: list[object] = []

        @action(InputEvent)
        def work(event: InputEvent, ctx: RunnerContext) -> None:
            ctx.durable(len, "abc")
            calls = hall.memory.store.durable_calls(ctx.run.id, 0)
            seen.append([(call.position, call.name, call.status) for call in calls])

        hall.serve(work).handle("ada", 0)
        assert seen == [[(0, "len", "returned")]]

    # --- errors

    @pytest.mark.parametrize("name", ["key", "value", "file", "unicode", "own"])
    def test_an_error_is_raised_again_as_it_was(self, hall: Hall, name: str) -> None:
        """A stored error is raised again with its class and message, without the call."""
        world, caught = World(), list[Exception]()

        def body(ctx: RunnerContext) -> object:
            try:
                ctx.durable(world.failing, name)
            except Exception as error:  # noqa: BLE001 - any of them
                caught.append(error)
            return len(caught)

        assert self.resume(hall, body) == 2
        assert world.calls == [name]
        assert type(caught[0]) is type(caught[1]) is type(make(name))
        assert str(caught[0]) == str(caught[1])

    def test_an_error_that_cannot_be_made_again_is_reported(self, hall: Hall) -> None:
        """An error that cannot be made again is reported with its class name and message."""
        world, caught = World(), list[Exception]()

        def body(ctx: RunnerContext) -> object:
            try:
                ctx.durable(world.failing, "odd")
            except (OddError, DurableCallFailed) as error:
                caught.append(error)
            return len(caught)

        assert self.resume(hall, body) == 2
        again = caught[1]
        assert isinstance(again, DurableCallFailed)
        assert (again.kind, str(again).endswith("OddError: ActionGateopen")) == ("OddError", True)

    def test_an_error_that_was_caught_is_not_made_again_by_a_conflict(self, hall: Hall) -> None:
        """An action that starts over after a conflict does not repeat a caught failed call."""
        world, gate = World(), ActionGate()

        @action(InputEvent)
        def work(event: InputEvent, ctx: RunnerContext) -> None:
            with pytest.raises(KeyError):
                ctx.durable(world.failing, "key")
            ctx.long_term_memory.update("i", "changed")
            gate.stop()

        hall.memory.key("ada").add("first", id="i")
        ticket = hall.serve(work).submit("ada", 0)
        gate.reached()
        hall.memory.key("ada").update("i", "moved")
        gate.open()
        ticket.result(LIMIT_S)
        assert world.calls == ["key"]

    def test_an_error_is_final_only_after_its_tries(self, hall: Hall) -> None:
        """With a `Retry`, an error is final after its attempts.

        Errors it does not name are final at once.
        """
        world = World()

        @durable(name="ask", retry=Retry(attempts=3, wait_s=0, on=(TimeoutError,)))
        def ask(good: int) -> int:
            world.calls.append(good)
            if len(world.calls) < good:
                raise TimeoutError
            if good == 0:
                raise KeyError
            return len(world.calls)

        work = put_out(lambda event, ctx: ctx.durable(ask, event.input))
        runner = hall.serve(work)
        assert runner.handle("ada", 3) == (3,)
        assert runner.handle("bob", 1) == (4,)
        world.calls.clear()
        with pytest.raises(RunParked, match="TimeoutError"):
            runner.handle("ada", 99)
        assert len(world.calls) == 3
        with pytest.raises(RunParked, match="KeyError"):
            runner.handle("bob", 0)
        assert len(world.calls) == 4
        assert ask(1) == 5

    def test_a_failure_is_not_replayed_for_ever(self, hall: Hall) -> None:
        """A retried run repeats the call that failed it, and no earlier call."""
        world, good = World(), list[int]()

        def ask() -> int:
            world.calls.append("ask")
            if not good:
                raise TimeoutError("too busy")
            return good[0]

        work = put_out(lambda _event, ctx: [ctx.durable(world.double, 1), ctx.durable(ask)])
        runner = hall.serve(work)
        with pytest.raises(RunParked, match="too busy"):
            runner.handle("ada", 0)
        hall.retry(hall.parked()[0].id)
        runner.run_until_idle()
        assert world.calls == [1, "ask", "ask"]
        good.append(7)
        hall.retry(hall.parked()[0].id)
        runner.run_until_idle()
        assert [output.value for output in runner.outputs()] == [[2, 7]]
        assert world.calls == [1, "ask", "ask", "ask"]

    def test_a_retried_action_makes_its_failed_call_again(self, hall: Hall) -> None:
        """With on_error="retry", the failed call is repeated too."""
        world = World()

        def ask() -> int:
            world.calls.append("ask")
            if len(world.calls) < 3:
                raise TimeoutError
            return len(world.calls)

        work = put_out(lambda _event, ctx: ctx.durable(ask), retry=Retry(attempts=5, wait_s=0))
        assert hall.serve(work).handle("ada", 0) == (3,)

    def test_an_error_that_the_action_lived_with_is_not_made_again(self, hall: Hall) -> None:
        """A retried task repeats only its last call. Errors that the action caught stay."""
        world, failed = World(), list[str]()

        @action(InputEvent, retry=Retry(attempts=2, wait_s=0))
        def work(event: InputEvent, ctx: RunnerContext) -> None:
            with pytest.raises(KeyError):
                ctx.durable(world.failing, "key")
            twice = ctx.durable(world.double, 1)
            if not failed:
                failed.append("once")
                raise TimeoutError
            ctx.send_event(OutputEvent(twice))

        assert hall.serve(work).handle("ada", 0) == (2,)
        assert world.calls == ["key", 1]

    # --- other calls than before

    def test_other_calls_than_before_park_the_run(self, hall: Hall) -> None:
        """The error names the position and both calls. No call is made."""
        world = World()

        def before(ctx: RunnerContext) -> object:
            return ctx.durable(world.double, 1)

        def after(ctx: RunnerContext) -> object:
            return ctx.durable(world.double, 2)

        with pytest.raises(RunParked, match=r"NonDeterministicAction: durable call 0 of action"):
            self.resume(hall, before, again=after)
        assert world.calls == [1]

    def test_other_calls_than_before_may_start_over(self, hall: Hall) -> None:
        """With on_mismatch="truncate", earlier calls stand, and the others are made again."""
        world = World()

        def before(ctx: RunnerContext) -> object:
            return [ctx.durable(world.double, n) for n in (1, 2, 3)]

        def after(ctx: RunnerContext) -> object:
            return [ctx.durable(world.double, n) for n in (1, 7, 3)]

        assert self.resume(hall, before, again=after, on_mismatch="truncate") == [2, 14, 6]
        assert world.calls == [1, 2, 3, 7, 3]

    def test_fewer_calls_than_before_are_fine(self, hall: Hall) -> None:
        """Stored calls that the action does not repeat are ignored."""
        world = World()

        def before(ctx: RunnerContext) -> object:
            return [ctx.durable(world.double, n) for n in (1, 2)]

        assert self.resume(hall, before, again=lambda ctx: ctx.durable(world.double, 1)) == 2
        assert world.calls == [1, 2]

    # --- how it is called

    def test_a_call_needs_a_name_that_stays(self, hall: Hall) -> None:
        """A lambda needs an explicit name."""

        @action(InputEvent)
        def work(event: InputEvent, ctx: RunnerContext) -> None:
            name = event.input or None
            ctx.send_event(OutputEvent(ctx.durable.using(name=name)(lambda: 2)))

        runner = hall.serve(work)
        assert runner.handle("ada", "add one") == (2,)
        with pytest.raises(RunParked, match="needs a name that stays the same"):
            runner.handle("ada", "")

    @pytest.mark.parametrize("is_async", [False, True])
    def test_the_context_is_closed_to_what_is_called(self, hall: Hall, *, is_async: bool) -> None:
        """A durable function cannot use the context: a stored result would lose its effect."""
        held: list[RunnerContext] = []
        uses: dict[str, Callable[[RunnerContext], object]] = {
            "set": lambda ctx: ctx.short_term_memory.set("a", 1),
            "get": lambda ctx: ctx.sensory_memory.get("a"),
            "add": lambda ctx: ctx.long_term_memory.add("x"),
            "send": lambda ctx: ctx.send_event(OutputEvent(1)),
            "call": lambda ctx: ctx.durable(len, "abc"),
        }

        def use(name: str) -> None:
            uses[name](held[-1])

        @action(InputEvent)
        def plain(event: InputEvent, ctx: RunnerContext) -> None:
            held.append(ctx)
            ctx.short_term_memory.set("before", 1)
            ctx.durable(use, event.input)

        @action(InputEvent)
        async def awaited(event: InputEvent, ctx: RunnerContext) -> None:
            held.append(ctx)
            ctx.short_term_memory.set("before", 1)
            await ctx.durable(use, event.input)

        runner = hall.serve(awaited if is_async else plain)
        for name in uses:
            with pytest.raises(RunParked, match="must not use the context"):
                runner.handle(name, name)

    def test_an_async_function_needs_an_async_action(self, hall: Hall) -> None:
        """An async function in a plain action is refused before the call is recorded."""

        async def later() -> int:
            return 1

        @action(InputEvent)
        def work(event: InputEvent, ctx: RunnerContext) -> None:
            ctx.durable(later)

        with pytest.raises(RunParked, match="is async"):
            hall.serve(work).handle("ada", 0)
        assert hall.memory.store.durable_calls(hall.parked()[0].id, 0) == []

    # --- awaited

    def test_calls_may_be_awaited_together(self, hall: Hall) -> None:
        """Each call has the position of its start, whichever ends first, plain or async."""
        world, ended = World(), list[int]()

        async def wait(n: int) -> int:
            await asyncio.sleep(0)
            ended.append(n)
            return n

        @action(InputEvent)
        async def work(event: InputEvent, ctx: RunnerContext) -> None:
            calls = (
                ctx.durable(world.stopped, 1),
                ctx.durable(wait, 2),
                ctx.durable(world.double, 3),
            )
            ctx.send_event(OutputEvent([*await asyncio.gather(*calls)]))

        runner = hall.serve(work)
        run = runner.submit("ada", 0, event_id="e1").run
        world.gate.reached()
        while len(hall.memory.store.durable_calls(run, 0)) < 2:
            hall.pause()
        hall.crash(runner)
        following = hall.serve(work)
        ticket = following.submit("ada", 0, event_id="e1")
        while world.calls.count(1) < 2:
            hall.pause()
        world.gate.open()
        assert ticket.result(LIMIT_S) == ([3, 2, 6],)
        assert (ended, sorted(map(str, world.calls))) == ([2], ["1", "1", "3"])


class ReconcilerLaws(RunnerLaws):
    """Laws of a call with a pending record."""

    def test_a_call_that_was_under_way_is_made_again(self, hall: Hall) -> None:
        """Without a reconciler, a pending call is made again."""
        world = World()

        @action(InputEvent)
        def work(event: InputEvent, ctx: RunnerContext) -> None:
            ctx.send_event(OutputEvent([ctx.durable(world.double, 1), ctx.durable(world.charge)]))

        assert self.killed_in_call(hall, world, work) == [2, 1]
        assert world.calls == [1, "charged", "charged"]

    @pytest.mark.parametrize("is_async", [False, True])
    def test_a_reconciler_tells_what_became_of_it(self, hall: Hall, *, is_async: bool) -> None:
        """A reconciler replaces the call. Its answer is stored as the call's result."""
        world = World()

        def became() -> int:
            world.calls.append("asked")
            return 42

        @action(InputEvent)
        def plain(event: InputEvent, ctx: RunnerContext) -> None:
            charge = ctx.durable.using(reconcile=became)
            ctx.send_event(OutputEvent([charge(world.charge), ctx.durable(world.double, 1)]))

        @action(InputEvent)
        async def awaited(event: InputEvent, ctx: RunnerContext) -> None:
            charge = await ctx.durable.using(reconcile=became)(world.charge)
            ctx.send_event(OutputEvent([charge, await ctx.durable(world.double, 1)]))

        assert self.killed_in_call(hall, world, awaited if is_async else plain) == [42, 2]
        assert world.calls == ["charged", "asked", 1]

    def test_a_reconciler_that_fails_is_asked_again(self, hall: Hall) -> None:
        """After a failed reconciler, a retry asks it again, and does not repeat the call."""
        world, answers = World(), list[int]()

        def became() -> int:
            world.calls.append("asked")
            if not answers:
                raise ConnectionError("reconcile unavailable")
            return answers[0]

        work = put_out(lambda _event, ctx: ctx.durable.using(reconcile=became)(world.charge))
        with pytest.raises(RunParked, match="reconcile unavailable"):
            self.killed_in_call(hall, world, work)
        answers.append(9)
        hall.retry(hall.parked()[0].id)
        runner = hall.serve(work)
        runner.run_until_idle()
        assert [output.value for output in runner.outputs()] == [9]
        assert world.calls == ["charged", "asked", "asked"]

    def killed_in_call(self, hall: Hall, world: World, work: Any) -> object:
        """Return the outcome of an input whose runner is killed at the gate of the world.

        The killed runner continues once another runner has the key, and cannot change anything.
        """
        runner = hall.serve(work)
        runner.submit("ada", 0, event_id="e1")
        world.gate.reached()
        hall.crash(runner)
        following = hall.serve(work)
        ticket = following.submit("ada", 0, event_id="e1")
        while any(lease.owner == runner.owner for lease in hall.memory.store.stats().leases):
            hall.pause()
        world.gate.open()
        return ticket.result(LIMIT_S)[0]


class NumberEvent(Event):
    """An event for the second action of a run."""

    n: int


async def times_ten(n: int) -> int:
    """Return ten times *n*, after other tasks have run."""
    await asyncio.sleep(0)
    return n * 10


def plus_100(n: int) -> int:
    """Return *n* and a hundred."""
    return n + 100


class AsyncLaws(RunnerLaws):
    """Laws of `async` actions."""

    def test_an_async_action_keeps_the_same_promises(self, hall: Hall) -> None:
        """Async actions keep the promises of memory, events and durable calls."""

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
        """Actions may use gather, tasks, timeouts and sleep, as on any event loop."""

        @action(InputEvent)
        async def work(event: InputEvent, ctx: RunnerContext) -> None:
            started = asyncio.create_task(times_ten(1))
            gathered = await asyncio.gather(*(times_ten(n) for n in range(3)))
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(asyncio.Event().wait(), 0.001)  # for ever
            ctx.send_event(OutputEvent([await started, *gathered]))

        assert hall.serve(work).handle("ada", 0) == ([10, 0, 10, 20],)

    def test_a_call_that_is_not_awaited_fails_the_action(self, hall: Hall) -> None:
        """A durable call without await fails the action, and is not made.

        A cancelled call does not.
        """
        called: list[int] = []

        def pay(amount: int) -> int:
            called.append(amount)
            return amount

        @action(InputEvent)
        async def work(event: InputEvent, ctx: RunnerContext) -> None:
            ctx.short_term_memory.set("paid", event.input)
            given_up = asyncio.ensure_future(ctx.durable(pay, 0))
            given_up.cancel()
            await asyncio.wait([given_up])
            call = ctx.durable(pay, event.input)
            if event.input != 1:
                ctx.send_event(OutputEvent(await call))

        runner = hall.serve(work)
        assert runner.handle("ada", 2) == (2,)
        with pytest.raises(RunParked, match=r"pay was not awaited.*; write await ctx\.durable"):
            runner.handle("ada", 1)
        assert called == [2]
        assert hall.memory.key("ada").short_term.get("paid") == 2

    def test_plain_calls_wait_beside_each_other(self, hall: Hall) -> None:
        """Plain durable calls of several keys run side by side, each in a thread."""
        meeting = threading.Barrier(12)

        @action(InputEvent)
        async def work(event: InputEvent, ctx: RunnerContext) -> None:
            ctx.send_event(OutputEvent(await ctx.durable(meeting.wait, LIMIT_S)))

        runner = hall.serve(work, concurrency=12)
        tickets = [runner.submit(f"key {n}", n) for n in range(12)]
        assert sorted(ticket.result(LIMIT_S)[0] for ticket in tickets) == list(range(12))

    def test_events_leave_with_the_action_not_with_an_await(self, hall: Hall) -> None:
        """Events are sent when the action ends. A failed action sends none, despite its awaits."""

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
        """One event loop serves all keys. A long wait of one key delays no other."""
        opened = threading.Event()

        @action(InputEvent)
        async def work(event: InputEvent, ctx: RunnerContext) -> None:
            while event.input == "long" and not opened.is_set():  # noqa: ASYNC110 - a thread sets it
                await asyncio.sleep(0.001)
            ctx.send_event(OutputEvent(ctx.short_term_memory.increment("n")))

        runner = hall.serve(work, concurrency=2)
        ticket = runner.submit("ada", "long")
        behind = runner.submit("ada", 1)
        assert [runner.handle(f"key {n % 3}", n, wait_s=LIMIT_S)[0] for n in range(6)] == [
            1, 1, 1, 2, 2, 2
        ]  # fmt: skip
        assert not ticket.done
        opened.set()
        assert (ticket.result(LIMIT_S), behind.result(LIMIT_S)) == ((1,), (2,))

    def test_what_waits_when_its_runner_closes_is_cancelled(self, hall: Hall) -> None:
        """Closing a runner cancels waiting actions. The next runner starts them again."""
        gate, closed = ActionGate(), threading.Event()
        cancelled = threading.Event()

        @action(InputEvent)
        async def work(event: InputEvent, ctx: RunnerContext) -> None:
            ctx.short_term_memory.increment("n")
            if not closed.is_set():
                gate.let_know()
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    cancelled.set()
                    raise
            ctx.send_event(OutputEvent(ctx.short_term_memory.get("n")))

        runner = hall.serve(work, concurrency=1)
        tickets = [runner.submit(key, 0) for key in ("ada", "bob")]
        gate.reached()
        for _ in range(10):  # includes an action that had not begun to wait
            gc.collect(1)  # new objects only: a full collection takes seconds in a large process
            time.sleep(0.001)  # noqa: TID251 - what would be cancelled is, in that time
        gc.collect()
        assert not cancelled.is_set()
        runner.close(0.01)
        closed.set()
        for ticket in tickets:
            with pytest.raises(StoreClosed):
                ticket.result(LIMIT_S)
        assert cancelled.wait(LIMIT_S)
        following = hall.serve(work)
        following.run_until_idle()
        assert [output.value for output in following.outputs()] == [1, 1]
