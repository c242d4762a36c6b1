"""Laws of recovery: killed at any point, a run ends as some undisturbed one would have."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest

from fornix.errors import RunParked
from fornix.events.events import Event, InputEvent, OutputEvent
from fornix.runs.agent import OnError, action
from fornix.runs.task import RunnerContext
from fornix.testing.runner.failures import SecondEvent, Trouble, error_of
from fornix.testing.runner.random_walk import walk_runs
from fornix.testing.runner.runner_laws import LONG_S, ActionGate, Hall, RunnerLaws
from fornix.values.retries import Retry

POINTS = ("first", "before a call", "in a call", "after a call", "second", "last")


class Mid(Event):
    """Goes to the second action."""

    token: str


class Last(Event):
    """Goes to the last action."""

    token: str


def token() -> str:
    """Return what no other attempt has."""
    return uuid.uuid4().hex


class Killed:
    """An agent whose every attempt leaves tokens of its own; it stops where it is to be killed.

    Attributes:
        ran: The actions that were begun.
    """

    def __init__(self, point: str) -> None:
        self.gate, self.point = ActionGate(), point
        self.ran: list[str] = []

    def at(self, point: str) -> None:
        """Stop here, if that is the point; the first time."""
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
    """What is left by a runner that is killed, and what the next one makes of it."""

    @pytest.mark.parametrize("point", POINTS)
    def test_no_two_attempts_are_mixed(self, hall: Hall, point: str) -> None:
        """State, items, events and outputs of a run are of one attempt at each action."""
        agent = Killed(point)
        runner = hall.serve(*agent.actions())
        ticket = runner.submit("ada", 0, event_id="e1")
        behind = runner.submit("ada", 1)
        agent.gate.reached()
        hall.crash(runner)
        following = hall.serve(*agent.actions())
        following.run_until_idle()
        agent.gate.open()
        runner.close(LONG_S)  # the dead one ends what it was at: nothing of that counts
        self.check(hall, following.handle("ada", 0, event_id="e1"), ticket.run, point)
        assert [output.run for output in following.outputs()] == [ticket.run] * 3 + [behind.run] * 3
        assert len(hall.texts("ada")) == 4
        counted = {name: agent.ran.count(name) for name in ("first", "second", "ask", "last")}
        again = {
            "first": {"first"},
            "before a call": {"second", "ask"},  # the dead one makes its call as well
            "in a call": {"second", "ask"},
            "after a call": {"second"},
            "second": {"second"},
            "last": {"last"},
        }[point]
        assert counted == {name: 3 if name in again else 2 for name in counted}

    def check(self, hall: Hall, answer: Any, run: int, point: str) -> None:
        """Hold one run to itself."""
        assert answer.run == run, point
        (_, first), (_, _, mid), (_, second, name) = answer
        assert first == mid
        items = {item.id: item.value for item in hall.memory.key("ada").list()}
        assert (items["first 0"], items["last 0"]) == (first, second)
        assert name == f"{run}.1.1"
        tree = hall.memory.key("ada").short_term
        assert tree.get("last") == [tree.get("first"), tree.get("second")]

    def test_what_a_dead_runner_does_is_not_kept(self, hall: Hall) -> None:
        """Whoever has the key after it fences it, in the middle of what it is at."""
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
        runner.close(LONG_S)
        assert (hall.memory.key("ada").short_term.get("by"), hall.texts("ada")) == (2, ["by 2"])
        assert [output.value for output in following.outputs()] == [2]

    def test_inputs_outlive_whoever_accepted_them(self, hall: Hall) -> None:
        """In their order, by number, whichever runner does them."""
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
        assert ticket.result(LONG_S) == (["new", 6],)
        assert [output.value for output in following.outputs()] == [
            ["stop", 0], *([n, n + 1] for n in range(5)), ["new", 6]
        ]  # fmt: skip

    # --- an agent that changed

    def test_a_run_waits_for_an_action_that_is_gone(self, hall: Hall) -> None:
        """It is parked as `AgentChanged`; once the action is back, a retry goes on."""
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
        """What is tried again or skipped for it would be another action, and the rest be lost."""
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
        """It is not taken for done because nobody asks for it any more."""
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
        """Submitting, crashing, closing, retrying, discarding and reading, in any order."""
        walk_runs(hall, steps=60, seed=seed)
