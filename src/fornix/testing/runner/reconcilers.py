"""Laws of reconcilers: what became of a durable call that was under way at a crash."""

from __future__ import annotations

from typing import Any

import pytest

from fornix.errors import RunParked
from fornix.events.events import InputEvent, OutputEvent
from fornix.runs.agent import action
from fornix.runs.task import RunnerContext
from fornix.testing.runner.durable import World
from fornix.testing.runner.runner_laws import LONG_S, Hall, RunnerLaws


class ReconcilerLaws(RunnerLaws):
    """What holds of a call whose record is pending."""

    def test_a_call_that_was_under_way_is_made_again(self, hall: Hall) -> None:
        """Where nobody can tell what became of it."""
        world = World()

        @action(InputEvent)
        def work(event: InputEvent, ctx: RunnerContext) -> None:
            ctx.send_event(OutputEvent([ctx.durable(world.double, 1), ctx.durable(world.charge)]))

        assert self.killed_in_call(hall, world, work) == [2, 1]
        assert world.calls == [1, "charged", "charged"]

    @pytest.mark.parametrize("is_async", [False, True])
    def test_a_reconciler_tells_what_became_of_it(self, hall: Hall, *, is_async: bool) -> None:
        """It is asked instead of the call, and its answer is kept as the call's."""
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
        """By a retry: what became of the call is still not known, and it is not made twice."""
        world, answers = World(), list[int]()

        def became() -> int:
            world.calls.append("asked")
            if not answers:
                raise ConnectionError("reconcile unavailable")
            return answers[0]

        @action(InputEvent)
        def work(event: InputEvent, ctx: RunnerContext) -> None:
            ctx.send_event(OutputEvent(ctx.durable.using(reconcile=became)(world.charge)))

        with pytest.raises(RunParked, match="reconcile unavailable"):
            self.killed_in_call(hall, world, work)
        answers.append(9)
        hall.retry(hall.parked()[0].id)
        runner = hall.serve(work)
        runner.run_until_idle()
        assert [output.value for output in runner.outputs()] == [9]
        assert world.calls == ["charged", "asked", "asked"]

    def killed_in_call(self, hall: Hall, world: World, work: Any) -> object:
        """Return what becomes of an input whose runner is killed at the gate of the world.

        Who was killed there is let on once another one has the key: it cannot do anything.
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
        return ticket.result(LONG_S)[0]
