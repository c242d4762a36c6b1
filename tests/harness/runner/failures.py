"""Laws of failures and of recovery: parked or retried, killed and resumed."""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import Callable
from typing import Any, cast

import pytest

from alveus.errors import AlveusError, InvalidInput, RunDiscarded, RunParked, StoreClosed
from alveus.runs.agent import OnError, action
from alveus.runs.task import RunnerContext
from alveus.store import Run
from alveus.values import wire
from alveus.values.events import Event, InputEvent, OutputEvent
from alveus.values.retries import Retry
from harness.runner.runner_laws import ActionGate, Hall, RunnerLaws, walk_runs
from waiting import LIMIT_S, SHORT_S

AT_ONCE = Retry(attempts=3, wait_s=0)


class SecondEvent(Event):
    """An event for the second action of a run."""


class Broken(Exception):
    """The error of these laws' actions."""


class Trouble:
    """An action's failures, which may end.

    Attributes:
        left: How often it raises from now on.
        tried: How often it was called.
    """

    def __init__(self, left: int = 1 << 30) -> None:
        self.left, self.tried = left, 0

    def meet(self) -> None:
        """Raise while failures are left."""
        self.tried += 1
        if self.tried <= self.left:
            raise Broken(f"try {self.tried}")

    def end(self) -> None:
        """Raise no more."""
        self.left = 0


def error_of(run: Run) -> dict[str, Any]:
    """Return the stored error of a parked run."""
    assert run.error is not None
    return cast("dict[str, Any]", wire.decode(run.error))


class FailureLaws(RunnerLaws):
    """Laws of "fail", "retry" and "skip", and of the retry and discard of a parked run."""

    # --- fail

    def test_a_run_that_fails_is_parked(self, hall: Hall) -> None:
        """A parked run has its error and traceback.

        Later inputs of its key wait; other keys continue.
        """

        @action(InputEvent)
        def work(event: InputEvent, ctx: RunnerContext) -> None:
            if event.input == "bad":
                raise Broken("no such tent")
            ctx.send_event(OutputEvent(event.input))

        runner = hall.serve(work)
        with pytest.raises(RunParked, match="Broken: no such tent") as parked:
            runner.handle("ada", "bad")
        behind = runner.submit("ada", "good")
        assert runner.handle("bob", "good") == ("good",)
        with pytest.raises(RunParked) as waits:
            behind.result()
        assert (waits.value.run, waits.value.behind) == (parked.value.run, behind.run)
        with pytest.raises(RunParked):
            behind.result(SHORT_S)
        with pytest.raises(RunParked):
            asyncio.run(behind.aresult())
        (run,) = hall.parked()
        told = error_of(run)
        assert (told["action"], told["type"], told["message"]) == ("work", "Broken", "no such tent")
        assert 'raise Broken("no such tent")' in told["traceback"]
        assert hall.run(behind.run).status == "waiting"

    def test_a_parked_input_tries_again_on_request(self, hall: Hall) -> None:
        """A repeated event id returns the error of its parked run.

        Only on request it runs again.
        """
        trouble, ran = Trouble(), list[object]()

        @action(InputEvent)
        def work(event: InputEvent, ctx: RunnerContext) -> None:
            trouble.meet()
            ran.append(event.input)
            ctx.send_event(OutputEvent(event.input))

        runner = hall.serve(work)
        with pytest.raises(RunParked):
            runner.handle("ada", "one", event_id="e1")
        with pytest.raises(RunParked) as parked:
            runner.handle("ada", "one", event_id="e1")
        for told in ("'work' raised", f"retry({parked.value.run})", "discard(", "on_failed='next'"):
            assert told in str(parked.value)
        with pytest.raises(RunParked, match="do not pass its input again") as waits:
            runner.handle("ada", "two", event_id="e2")
        with pytest.raises(RunParked):
            runner.handle("ada", "two", event_id="e2", on_parked="retry")  # not parked
        assert waits.value.run == parked.value.run
        with pytest.raises(RunParked):
            runner.handle("ada", "one", event_id="e1", on_parked="retry")
        assert [run.id for run in hall.parked()] == [parked.value.run]
        trouble.end()
        with pytest.raises(RunParked):
            runner.handle("ada", "one", event_id="e1")
        assert runner.handle("ada", "one", event_id="e1", on_parked="retry") == ("one",)
        assert runner.handle("ada", "two", event_id="e2") == ("two",)
        assert runner.handle("ada", "one", event_id="e1", on_parked="retry") == ("one",)
        assert ran == ["one", "two"]
        with pytest.raises(InvalidInput, match="needs the event_id of the input"):
            runner.handle("ada", "three", on_parked="retry")

    def test_what_follows_a_failure_does_not_run(self, hall: Hall) -> None:
        """An action of an event begins after the action before it has succeeded."""
        trouble, ran = Trouble(), list[str]()

        @action(InputEvent)
        def first(event: InputEvent, ctx: RunnerContext) -> None:
            trouble.meet()
            ran.append("first")

        @action(InputEvent)
        def second(event: InputEvent, ctx: RunnerContext) -> None:
            ran.append("second")

        runner = hall.serve(first, second)
        with pytest.raises(RunParked):
            runner.handle("ada", 0)
        assert ran == []
        trouble.end()
        hall.retry(hall.parked()[0].id)
        runner.run_until_idle()
        assert ran == ["first", "second"]

    def test_a_retried_run_goes_on_where_it_failed(self, hall: Hall) -> None:
        """A retried run continues at the failed action. Then later inputs run, in order."""
        trouble, ran = Trouble(), list[str]()

        @action(InputEvent)
        def first(event: InputEvent, ctx: RunnerContext) -> None:
            ran.append(f"first {event.input}")
            ctx.sensory_memory.set("given", event.input)
            ctx.send_event(OutputEvent("one"))
            ctx.send_event(SecondEvent())

        @action(SecondEvent)
        def then(event: SecondEvent, ctx: RunnerContext) -> None:
            given = ctx.sensory_memory.get("given")
            ran.append(f"then {given}")
            if given == 0:
                trouble.meet()
            ctx.send_event(OutputEvent("two"))

        runner = hall.serve(first, then)
        with pytest.raises(RunParked):
            runner.handle("ada", 0)
        behind = [runner.submit("ada", n) for n in (1, 2)]
        hall.retry(hall.parked()[0].id)  # fails again
        runner.run_until_idle()
        (run,) = hall.parked()
        trouble.end()
        hall.retry(run.id)
        assert [ticket.result(LIMIT_S) for ticket in behind] == [("one", "two")] * 2
        assert ran == [
            "first 0", "then 0", "then 0", "then 0", "first 1", "then 1", "first 2", "then 2"
        ]  # fmt: skip
        assert (hall.run(run.id).status, hall.run(run.id).error) == ("done", None)
        assert [output.value for output in runner.outputs()] == ["one", "two"] * 3

    def test_a_discarded_run_is_over(self, hall: Hall) -> None:
        """Runs behind a discarded run continue. A waiting caller gets an error."""
        trouble = Trouble()

        @action(InputEvent)
        def work(event: InputEvent, ctx: RunnerContext) -> None:
            if event.input == "bad":
                trouble.meet()
            ctx.send_event(OutputEvent(event.input))

        runner = hall.serve(work)
        with pytest.raises(RunParked):
            runner.handle("ada", "bad", event_id="e1")
        behind = runner.submit("ada", "good")
        hall.discard(hall.parked()[0].id)
        assert behind.result(LIMIT_S) == ("good",)
        with pytest.raises(RunDiscarded, match="discarded"):
            runner.handle("ada", "bad", event_id="e1")

    def test_others_go_on_where_the_agent_says_so(self, hall: Hall) -> None:
        """With on_failed="next", later runs continue. A retry may become a new run at the end."""
        trouble = Trouble()

        @action(InputEvent)
        def work(event: InputEvent, ctx: RunnerContext) -> None:
            ctx.short_term_memory.increment("n")
            if event.input == "bad":
                trouble.meet()
            ctx.send_event(OutputEvent([event.input, ctx.short_term_memory.get("n")]))

        runner = hall.serve(work, on_failed="next")
        with pytest.raises(RunParked):
            runner.handle("ada", "bad", event_id="e1")
        assert runner.handle("ada", "good") == (["good", 1],)
        trouble.end()
        heir = hall.retry(hall.parked()[0].id, last=True)
        runner.run_until_idle()
        row = hall.run(heir)
        assert (row.status, row.number, row.origin) == ("done", 2, hall.run(row.origin or 0).id)
        assert hall.run(row.origin or 0).status == "retried"
        assert [output.value for output in runner.outputs()] == [["good", 1], ["bad", 2]]
        with pytest.raises(RunDiscarded, match="retried"):
            runner.handle("ada", "bad", event_id="e1")

    def test_a_lane_outlives_many_parked_runs(self, hall: Hall) -> None:
        """Runs behind any number of parked runs continue."""

        @action(InputEvent)
        def work(event: InputEvent, ctx: RunnerContext) -> None:
            if event.input == "bad":
                raise Broken
            ctx.send_event(OutputEvent(event.input))

        runner = hall.serve(work, on_failed="next")
        answers = list(runner.map([("ada", "bad")] * 150, errors="return"))
        assert all(isinstance(answer, RunParked) for answer in answers)
        runner.close()
        assert hall.serve(work, on_failed="next").handle("ada", 1, wait_s=LIMIT_S) == (1,)

    # --- retry and skip

    def test_an_action_is_tried_again(self, hall: Hall) -> None:
        """An action is retried as its `Retry` says, then its run is parked.

        Other keys do not wait.
        """
        trouble, attempts = Trouble(left=2), list[int]()

        @action(InputEvent)
        def work(event: InputEvent, ctx: RunnerContext) -> None:
            ctx.short_term_memory.increment("n")
            attempts.append(ctx.run.attempt)
            trouble.meet()
            ctx.send_event(OutputEvent(ctx.short_term_memory.get("n")))

        runner = hall.serve(work, on_error="retry", retry=AT_ONCE)
        assert runner.handle("ada", 0) == (1,)
        trouble.left = 1 << 30
        with pytest.raises(RunParked):
            runner.handle("ada", 0)
        assert attempts == [1, 2, 3, 1, 2, 3]
        assert hall.memory.key("ada").short_term.get("n") == 1

    def test_an_action_may_say_for_itself(self, hall: Hall) -> None:
        """The setting of an action overrides the agent's. A `Retry` implies "retry"."""
        tried = {"plain": 0, "retried": 0, "skipped": 0}

        def fail(name: str) -> None:
            tried[name] += 1
            raise Broken

        @action(InputEvent, when=lambda event: event.input == "plain", on_error="fail")
        def plain(event: InputEvent, ctx: RunnerContext) -> None:
            fail("plain")

        @action(InputEvent, when=lambda event: event.input == "retried", retry=AT_ONCE)
        def retried(event: InputEvent, ctx: RunnerContext) -> None:
            fail("retried")

        @action(InputEvent, when=lambda event: event.input == "skipped")
        def skipped(event: InputEvent, ctx: RunnerContext) -> None:
            fail("skipped")

        runner = hall.serve(plain, retried, skipped, on_error="skip")
        answers = list(runner.map([(name, name) for name in tried], errors="return"))
        assert [isinstance(answer, AlveusError) for answer in answers] == [True, True, False]
        assert tried == {"plain": 1, "retried": 3, "skipped": 1}

    def test_only_errors_that_are_named_are_tried_again(self, hall: Hall) -> None:
        """An error that `Retry` does not name is final at once."""
        tried = list[str]()

        @action(InputEvent, retry=Retry(attempts=5, wait_s=0, on=(TimeoutError,)))
        def work(event: InputEvent, ctx: RunnerContext) -> None:
            tried.append(event.input)
            raise TimeoutError if len(tried) < 3 else KeyError(1)

        with pytest.raises(RunParked, match="KeyError"):
            hall.serve(work).handle("ada", "x")
        assert tried == ["x"] * 3

    def test_a_run_goes_on_without_an_action_that_is_skipped(self, hall: Hall) -> None:
        """A skipped action leaves no changes. Its step keeps the error."""

        @action(InputEvent)
        def broken(event: InputEvent, ctx: RunnerContext) -> None:
            ctx.short_term_memory.set("broken", 1)
            ctx.send_event(OutputEvent("broken"))
            raise Broken("skipped")

        @action(InputEvent)
        def whole(event: InputEvent, ctx: RunnerContext) -> None:
            ctx.send_event(OutputEvent(ctx.short_term_memory.get_field_names()))

        answer = hall.serve(broken, whole, on_error="skip").handle("ada", 0)
        assert answer == ([],)
        one, two = hall.memory.store.steps(answer.run)
        assert one.skipped is not None
        assert "skipped" in one.skipped
        assert (one.action, two.action, two.skipped) == ("broken", "whole", None)
        assert hall.serve(broken, on_error="skip", name="one").handle("ada", 0) == ()

    # --- what counts as a failure

    @pytest.mark.parametrize("is_async", [False, True])
    @pytest.mark.parametrize(
        "kind", [Broken, SystemExit, GeneratorExit, asyncio.CancelledError, StoreClosed]
    )
    def test_whatever_an_action_raises_parks_its_run(
        self, hall: Hall, kind: type[BaseException], *, is_async: bool
    ) -> None:
        """Any error of an action parks its run, and disturbs neither other keys nor callers."""

        def work(value: object) -> None:
            if value == "bad":
                raise kind("bad \ud800" + "x" * 100_000)

        @action(InputEvent)
        def plain(event: InputEvent, ctx: RunnerContext) -> None:
            work(event.input)
            ctx.send_event(OutputEvent(event.input))

        @action(InputEvent)
        async def awaited(event: InputEvent, ctx: RunnerContext) -> None:
            work(event.input)
            ctx.send_event(OutputEvent(event.input))

        runner = hall.serve(awaited if is_async else plain)
        with pytest.raises(RunParked, match=kind.__name__):
            runner.handle("ada", "bad", wait_s=LIMIT_S)
        with pytest.raises(RunParked):
            runner.submit("bob", "bad").result(LIMIT_S)
        assert runner.handle("cy", "good", wait_s=LIMIT_S) == ("good",)

    def test_a_condition_that_raises_parks_the_run(self, hall: Hall) -> None:
        """An error of a condition parks the run, for inputs and for sent events."""
        trouble = Trouble()

        def chosen(event: Event) -> bool:
            trouble.meet()
            return True

        @action(InputEvent, when=chosen)
        def first(event: InputEvent, ctx: RunnerContext) -> None:
            trouble.left = trouble.tried + 1
            ctx.short_term_memory.increment("n")
            ctx.send_event(SecondEvent())

        @action(SecondEvent, when=chosen)
        def then(event: SecondEvent, ctx: RunnerContext) -> None:
            ctx.send_event(OutputEvent(ctx.short_term_memory.get("n")))

        runner = hall.serve(first, then)
        with pytest.raises(RunParked, match="is parked, it failed before its next action: Broken"):
            runner.handle("ada", 0)
        trouble.end()
        (run,) = hall.parked()
        hall.retry(run.id)
        runner.run_until_idle()
        (error,) = [error_of(again) for again in hall.parked()]
        assert error["action"] == "first"
        assert "in the condition (when=) of action 'then'" in error["traceback"]
        assert hall.memory.key("ada").short_term.get("n") is None

    def test_an_action_is_not_begun_twice_by_being_awaitable(self, hall: Hall) -> None:
        """A plain function that returns an awaitable is an error, and runs once."""

        async def later() -> None:
            raise AssertionError

        @action(InputEvent)
        def work(event: InputEvent, ctx: RunnerContext) -> object:
            return later()

        with pytest.raises(RunParked, match="async def"):
            hall.serve(work).handle("ada", 0)

    # --- waits, and circles

    def test_a_pause_between_tries_ends_with_the_runner(self, hall: Hall) -> None:
        """Closing a runner ends the pauses between attempts. The next runner tries again."""
        trouble, raised = Trouble(), threading.Event()

        @action(InputEvent, retry=Retry(attempts=5, wait_s=1000, most_s=1000))
        def work(event: InputEvent, ctx: RunnerContext) -> None:
            try:
                trouble.meet()
            finally:
                raised.set()
            ctx.send_event(OutputEvent("done"))

        runner = hall.serve(work)
        ticket = runner.submit("ada", 0)
        assert raised.wait(LIMIT_S)
        runner.close(LIMIT_S)
        with pytest.raises(StoreClosed):
            ticket.result(LIMIT_S)
        trouble.end()
        following = hall.serve(work)
        following.run_until_idle()
        assert [output.value for output in following.outputs()] == ["done"]

    # --- without end

    @pytest.mark.parametrize("on_error", ["fail", "retry", "skip"])
    def test_a_run_that_goes_round_in_a_circle_is_parked(
        self, hall: Hall, on_error: OnError
    ) -> None:
        """A run is parked after the agent's most tasks, whatever on_error says. Its changes stay.

        If the agent may do more, a retry continues the run.
        """
        trouble = Trouble()

        @action(InputEvent, SecondEvent)
        def work(event: Event, ctx: RunnerContext) -> None:
            count = ctx.short_term_memory.increment("n")
            if trouble.left:
                ctx.send_event(SecondEvent())
            ctx.send_event(OutputEvent(count))

        runner = hall.serve(work, max_tasks=20, on_error=on_error, retry=AT_ONCE)
        with pytest.raises(RunParked, match="RunTooLong") as parked:
            runner.handle("ada", 0)
        assert "has done 20 tasks" in error_of(hall.run(parked.value.run))["message"]
        assert hall.memory.key("ada").short_term.get("n") == 20
        runner.close()
        trouble.end()
        more = hall.serve(work, max_tasks=21)
        hall.retry(parked.value.run)
        more.run_until_idle()
        assert hall.run(parked.value.run).status == "done"
        assert [output.value for output in more.outputs()] == list(range(1, 22))
        assert more.handle("bob", 0) == (1,)


POINTS = ("first", "before a call", "in a call", "after a call", "second", "last")


class Mid(Event):
    """Goes to the second action."""

    token: str


class Last(Event):
    """Goes to the last action."""

    token: str


def token() -> str:
    """Return a token unique to each attempt."""
    return uuid.uuid4().hex


class Killed:
    """An agent whose every attempt leaves unique tokens. It stops at the point of its kill.

    Attributes:
        ran: The actions that were begun.
    """

    def __init__(self, point: str) -> None:
        self.gate, self.point = ActionGate(), point
        self.ran: list[str] = []

    def at(self, point: str) -> None:
        """Stop at this point, the first time."""
        if point == self.point:
            self.point = ""
            self.gate.stop()

    def ask(self) -> str:
        """Return a token, durably."""
        self.ran.append("ask")
        self.at("in a call")
        return token()

    def actions(self) -> tuple[Callable[..., Any], ...]:
        """Return its actions."""

        @action(InputEvent)
        def first(event: InputEvent, ctx: RunnerContext) -> None:
            mine = token()
            self.ran.append("first")
            ctx.short_term_memory.set("first", mine)
            ctx.sensory_memory.set("first", mine)
            ctx.long_term_memory.add(mine, id=f"first {ctx.run.number}")
            ctx.send_event(OutputEvent(["first", mine]))
            ctx.send_event(Mid(mine))
            self.at("first")

        @action(Mid)
        def second(event: Mid, ctx: RunnerContext) -> None:
            mine = token()
            self.ran.append("second")
            self.at("before a call")
            asked = ctx.durable(self.ask)
            self.at("after a call")
            ctx.short_term_memory.set("second", mine)
            ctx.sensory_memory.set("second", mine)
            ctx.send_event(OutputEvent(["asked", asked, event.token]))
            ctx.send_event(Last(mine))
            self.at("second")

        @action(Last)
        def last(event: Last, ctx: RunnerContext) -> None:
            self.ran.append("last")
            sensory = ctx.sensory_memory
            ctx.short_term_memory.set("last", [sensory.get("first"), sensory.get("second")])
            ctx.long_term_memory.add(event.token, id=f"last {ctx.run.number}")
            ctx.send_event(OutputEvent(["last", event.token, event.id]))
            self.at("last")

        return first, second, last


class RecoveryLaws(RunnerLaws):
    """Laws of a killed runner and its successor."""

    @pytest.mark.parametrize("point", POINTS)
    def test_no_two_attempts_are_mixed(self, hall: Hall, point: str) -> None:
        """State, items, events and outputs of a run come from one attempt per action."""
        agent = Killed(point)
        runner = hall.serve(*agent.actions())
        ticket = runner.submit("ada", 0, event_id="e1")
        behind = runner.submit("ada", 1)
        agent.gate.reached()
        hall.crash(runner)
        following = hall.serve(*agent.actions())
        following.run_until_idle()
        agent.gate.open()
        runner.close(LIMIT_S)  # the killed runner finishes, without effect
        self.check(hall, following.handle("ada", 0, event_id="e1"), ticket.run, point)
        assert [output.run for output in following.outputs()] == [ticket.run] * 3 + [behind.run] * 3
        assert len(hall.texts("ada")) == 4
        counted = {name: agent.ran.count(name) for name in ("first", "second", "ask", "last")}
        again = {
            "first": {"first"},
            "before a call": {"second", "ask"},  # the killed runner makes its call too
            "in a call": {"second", "ask"},
            "after a call": {"second"},
            "second": {"second"},
            "last": {"last"},
        }[point]
        assert counted == {name: 3 if name in again else 2 for name in counted}

    def check(self, hall: Hall, answer: Any, run: int, point: str) -> None:
        """Check one run for consistency."""
        assert answer.run == run, point
        (_, first), (_, _, mid), (_, second, name) = answer
        assert first == mid
        items = {item.id: item.value for item in hall.memory.key("ada").list()}
        assert (items["first 0"], items["last 0"]) == (first, second)
        assert name == f"{run}.1.1"
        tree = hall.memory.key("ada").short_term
        assert tree.get("last") == [tree.get("first"), tree.get("second")]

    def test_what_a_dead_runner_does_is_not_kept(self, hall: Hall) -> None:
        """The next runner of a key fences the killed one, even in the middle of its action."""
        gate = ActionGate()
        begun: list[int] = []

        @action(InputEvent)
        def work(event: InputEvent, ctx: RunnerContext) -> None:
            begun.append(1)
            mine = len(begun)
            if mine == 1:
                gate.stop()
            ctx.short_term_memory.set("by", mine)
            ctx.long_term_memory.add(f"by {mine}")
            ctx.send_event(OutputEvent(mine))

        runner = hall.serve(work)
        runner.submit("ada", 0)
        gate.reached()
        hall.crash(runner)
        following = hall.serve(work)
        following.run_until_idle()
        gate.open()
        runner.close(LIMIT_S)
        assert (hall.memory.key("ada").short_term.get("by"), hall.texts("ada")) == (2, ["by 2"])
        assert [output.value for output in following.outputs()] == [2]

    def test_inputs_outlive_their_runner(self, hall: Hall) -> None:
        """Inputs survive their runner. Any other runner takes them in order."""
        gate = ActionGate()

        @action(InputEvent)
        def work(event: InputEvent, ctx: RunnerContext) -> None:
            if event.input == "stop":
                gate.stop()
            ctx.send_event(OutputEvent([event.input, ctx.run.number]))

        runner = hall.serve(work)
        runner.submit("ada", "stop")
        for n in range(5):
            runner.submit("ada", n)
        gate.reached()
        hall.crash(runner)
        following = hall.serve(work, concurrency=2)
        ticket = following.submit("ada", "new")
        gate.open()
        assert ticket.result(LIMIT_S) == (["new", 6],)
        assert [output.value for output in following.outputs()] == [
            ["stop", 0], *([n, n + 1] for n in range(5)), ["new", 6]
        ]  # fmt: skip

    # --- an agent that changed

    def test_a_run_waits_for_an_action_that_is_gone(self, hall: Hall) -> None:
        """A run with a missing action is parked as `AgentChanged`.

        Once the action is back, a retry works.
        """
        gate = ActionGate()

        @action(InputEvent)
        def first(event: InputEvent, ctx: RunnerContext) -> None:
            ctx.send_event(SecondEvent())

        @action(SecondEvent)
        def then(event: SecondEvent, ctx: RunnerContext) -> None:
            gate.stop()
            ctx.send_event(OutputEvent("done"))

        runner = hall.serve(first, then)
        runner.submit("ada", 0)
        gate.reached()
        hall.crash(runner)
        with hall.serve(first) as changed:
            changed.run_until_idle()
        gate.open()
        (run,) = hall.parked()
        assert error_of(run)["type"] == "AgentChanged"
        assert "then" in error_of(run)["message"] or "SecondEvent" in error_of(run)["message"]
        hall.retry(run.id)
        whole = hall.serve(first, then)
        whole.run_until_idle()
        assert [output.value for output in whole.outputs()] == ["done"]

    @pytest.mark.parametrize("on_error", ["retry", "skip"])
    def test_a_run_that_cannot_be_taken_up_blames_no_action(
        self, hall: Hall, on_error: OnError
    ) -> None:
        """A run whose action is gone is parked, whatever on_error says. No action is skipped."""
        trouble = Trouble()

        @action(InputEvent)
        def first(event: InputEvent, ctx: RunnerContext) -> None:
            ctx.send_event(SecondEvent())

        @action(InputEvent)
        def beside(event: InputEvent, ctx: RunnerContext) -> None:
            trouble.meet()
            ctx.send_event(OutputEvent("beside"))

        @action(SecondEvent)
        def then(event: SecondEvent, ctx: RunnerContext) -> None:
            ctx.send_event(OutputEvent("then"))

        with hall.serve(first, beside, then) as runner, pytest.raises(RunParked):
            runner.handle("ada", 0)
        trouble.end()
        hall.retry(hall.parked()[0].id)
        retry = Retry(attempts=2, wait_s=0)
        with hall.serve(first, beside, on_error=on_error, retry=retry) as changed:
            changed.run_until_idle()
        (run,) = hall.parked()
        assert (error_of(run)["type"], error_of(run)["action"]) == ("AgentChanged", "")
        hall.retry(run.id)
        whole = hall.serve(first, beside, then)
        whole.run_until_idle()
        assert [output.value for output in whole.outputs()] == ["beside", "then"]

    def test_an_input_waits_for_an_action_that_is_gone(self, hall: Hall) -> None:
        """An input with a missing action waits, and does not count as done."""
        gate = ActionGate()

        @action(InputEvent)
        def first(event: InputEvent, ctx: RunnerContext) -> None:
            gate.stop()
            ctx.send_event(OutputEvent(event.input))

        @action(SecondEvent)
        def then(event: SecondEvent, ctx: RunnerContext) -> None: ...

        runner = hall.serve(first)
        runner.submit("ada", 1)
        gate.reached()
        second = runner.submit("ada", 2)
        runner.runs.discard(runner.runs.list(status="waiting")[-1].id)
        hall.crash(runner)
        with hall.serve(then) as changed:
            changed.run_until_idle()
        gate.open()
        (run,) = hall.parked()
        assert (run.id, error_of(run)["type"]) == (second.run, "AgentChanged")
        hall.retry(run.id)
        whole = hall.serve(first)
        whole.run_until_idle()
        assert [output.value for output in whole.outputs()] == [2]

    # --- all of it

    @pytest.mark.parametrize("seed", range(3))
    def test_a_random_walk_ends_as_its_model(self, hall: Hall, seed: int) -> None:
        """Random submits, crashes, closes, retries, discards and reads give the model's result."""
        walk_runs(hall, steps=60, seed=seed)
