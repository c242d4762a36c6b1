"""Ctrl-C in the midst of a runner: a call stops, and the runner goes on, each run exactly once."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Callable
from pathlib import Path

import pytest

from alveus import Agent, InputEvent, LocalRunner, Memory, OutputEvent, action
from alveus.errors import AlveusError, Unavailable
from scale import COUNTS
from test_interrupts import FILES, Interrupter, answer_of_another, points
from waiting import LIMIT_S

EVERYWHERE = (*FILES, *asyncio.__path__, *concurrent.futures.__path__)
"""Where calls are interrupted: also where an async action is handed to its loop."""


class Tally(Agent):
    """Counts the inputs of a key."""

    @action(InputEvent)
    def add(self, event, ctx):
        ctx.send_event(OutputEvent(ctx.short_term_memory.increment("inputs")))


class AsyncTally(Agent):
    """Does so on a loop."""

    @action(InputEvent)
    async def add(self, event, ctx):
        inputs = ctx.short_term_memory.increment("inputs")
        await asyncio.sleep(0)
        ctx.send_event(OutputEvent(inputs))


def handle(runner: LocalRunner) -> None:
    runner.handle("ada", "x")


def submit(runner: LocalRunner) -> None:
    for ticket in runner.submit_many([("ada", "x"), ("bob", "x")]):
        ticket.result()


def until_idle(runner: LocalRunner) -> None:
    runner.submit("ada", "x")
    runner.submit("bob", "x")
    runner.run_until_idle()


def go_through(runner: LocalRunner) -> None:
    assert len(list(runner.map([("ada", "x"), ("bob", "x"), ("eve", "x")]))) == 3


CALLS = [handle, submit, until_idle, go_through]


def problem_of(runner: LocalRunner) -> str:
    """Return what is wrong for a thread that was not interrupted: nothing, or in words."""
    try:
        answers = [runner.handle(key, "y", wait_s=LIMIT_S) for key in ("ada", "bob", "eve")]
        runner.run_until_idle()
    except AlveusError as error:
        return repr(error)
    wrong = [(ran.number, ran) for ran in answers if ran != (ran.number + 1,)]
    return f"an input was lost, or counted twice: {wrong}" if wrong else ""


@pytest.mark.parametrize("agent", [Tally, AsyncTally])
@pytest.mark.parametrize("work", CALLS, ids=lambda call: call.__name__)
def test_an_interrupt_anywhere_leaves_a_runner_able_to_go_on(
    tmp_path: Path, work: Callable[[LocalRunner], None], agent: type[Agent]
) -> None:
    """No key stands still, no thread waits in vain, and every input counts once."""
    with Memory.open(tmp_path / "app.db", embedder="words", durability="normal") as memory:
        runner = LocalRunner(agent, memory)
        for _ in range(2):  # what is made once is made
            work(runner)
            assert not problem_of(runner)
        for point in points(lambda: work(runner), COUNTS.interrupts, EVERYWHERE):
            interrupter = Interrupter(point, EVERYWHERE)
            interrupter.call(lambda: work(runner))
            problem = answer_of_another(lambda: problem_of(runner), interrupter)
            assert not problem, interrupter.where
        runner.close()


@pytest.mark.parametrize("agent", [Tally, AsyncTally])
def test_an_interrupt_of_a_beginning_or_an_end_is_made_up_for(
    tmp_path: Path, agent: type[Agent]
) -> None:
    """A runner that was interrupted as it began begins when it is used, or ends when it is closed.

    What it had is for the next one.
    """
    with Memory.open(tmp_path / "app.db", embedder="words", durability="normal") as memory:

        def work() -> None:
            runners.append(LocalRunner(agent, memory))
            with runners[-1]:
                runners[-1].submit("ada", "x")

        runners: list[LocalRunner] = []
        work()
        for point in points(work, COUNTS.interrupts, EVERYWHERE):
            interrupter = Interrupter(point, EVERYWHERE)
            interrupter.call(work)
            answer_of_another(runners[-1].close, interrupter)
            with LocalRunner(agent, memory) as next_runner:
                problem = answer_of_another(lambda: problem_of(next_runner), interrupter)
            assert not problem, interrupter.where


def test_another_closes_a_runner_while_its_end_is_interrupted(tmp_path: Path) -> None:
    """The handler of a signal may call `close` in the midst of it; a second one waits for none."""
    with Memory.open(tmp_path / "app.db", embedder="words", durability="normal") as memory:
        runner = LocalRunner(Tally, memory)
        runner.handle("ada", "x")
        end, ends = runner._watch.end, []

        def end_and_close(wait_s: float) -> None:
            ends.append(wait_s)
            runner.close()  # as a handler does
            answer_of_another(runner.close, Interrupter(0))
            end(wait_s)

        runner._watch.end = end_and_close
        runner.close(wait_s=LIMIT_S)
        runner.close()
        assert ends == [LIMIT_S]


def test_the_runs_of_others_are_tried_again_where_who_commits_for_them_is_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They were refused as if it were their fault, and parked, or the runner ended."""
    with (
        Memory.open(tmp_path / "app.db", embedder="words", durability="normal") as memory,
        LocalRunner(Tally, memory) as runner,
    ):
        store = memory.engine.store
        for name in ("commit_many", "acquire_lease"):
            call = getattr(store, name)
            left = [Unavailable("the thread that committed for this one stopped")]

            def interrupted(*args, call=call, left=left, **kwargs):
                if left:
                    raise left.pop()
                return call(*args, **kwargs)

            monkeypatch.setattr(store, name, interrupted)
        assert runner.handle("ada", "x", wait_s=LIMIT_S) == (1,)
        assert runner.handle("ada", "x", wait_s=LIMIT_S) == (2,)
