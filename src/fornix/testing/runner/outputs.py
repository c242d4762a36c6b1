"""Laws of outputs: named consumers read each, in order, from where they were."""

from __future__ import annotations

import threading
from datetime import timedelta
from functools import partial
from itertools import islice
from typing import Any

import pytest

from fornix.errors import InvalidName, OutputsPruned
from fornix.events.events import InputEvent, OutputEvent
from fornix.runs.agent import action
from fornix.runs.runner import LocalRunner
from fornix.runs.task import RunnerContext
from fornix.store import Retain
from fornix.testing.runner.runner_laws import LONG_S, Hall, RunnerLaws


@action(InputEvent)
def echo(event: InputEvent, ctx: RunnerContext) -> None:
    """Put out what came."""
    ctx.send_event(OutputEvent(event.input))


class ConsumerLaws(RunnerLaws):
    """What `outputs`, `retain` and `prune` promise."""

    def test_outputs_come_in_the_order_of_their_commits(self, hall: Hall) -> None:
        """With the run and key they are of; a position stands for the same one for ever."""
        runner = hall.serve(echo)
        answers = [runner.handle(f"key {n % 2}", n) for n in range(5)]
        outputs = list(runner.outputs())
        assert [(o.value, o.key, o.number) for o in outputs] == [
            (n, f"key {n % 2}", n // 2) for n in range(5)
        ]
        assert [o.run for o in outputs] == [answer.run for answer in answers]
        assert [o.event for o in outputs] == [answer.events[0] for answer in answers]
        assert [o.event.id for o in outputs] == [answer.events[0].id for answer in answers]
        assert list(runner.outputs(after=outputs[2].position)) == outputs[3:]
        assert list(hall.serve(echo, name="other").outputs()) == []

    def test_a_consumer_goes_on_where_it_was(self, hall: Hall) -> None:
        """An output is behind it once it asks for the next; what was in work comes again."""
        runner = hall.serve(echo)
        for n in range(6):
            runner.handle("ada", n)
        assert [o.value for o in islice(runner.outputs(consumer="mailer"), 3)] == [0, 1, 2]
        runner.close()
        following = hall.serve(echo)
        assert [o.value for o in following.outputs(consumer="mailer")] == [2, 3, 4, 5]
        assert [o.value for o in following.outputs(consumer="mailer")] == []
        assert [o.value for o in following.outputs(consumer="printer")] == [0, 1, 2, 3, 4, 5]
        following.handle("ada", 6)
        assert [o.value for o in following.outputs(consumer="mailer")] == [6]
        with pytest.raises(InvalidName):
            list(following.outputs(consumer=""))

    def test_a_consumer_may_wait_for_more(self, hall: Hall) -> None:
        """As long as it likes; it ends with the runner."""
        runner = hall.serve(echo)
        seen: list[object] = []
        three = threading.Event()

        def read() -> None:
            for output in runner.outputs(consumer="mailer", wait_s=None):
                seen.append(output.value)
                if len(seen) == 3:
                    three.set()

        reader = threading.Thread(target=read)
        reader.start()
        for n in range(3):
            runner.handle("ada", n)
        assert three.wait(LONG_S)
        runner.close()
        reader.join(LONG_S)
        assert (reader.is_alive(), seen) == (False, [0, 1, 2])

    def test_runs_are_kept_as_long_as_is_said(self, hall: Hall) -> None:
        """By age or by count; what they changed in memory stays."""
        runner = hall.serve(echo, retain=Retain(age=None, count=2))
        for n in range(5):
            runner.handle("ada", n)
        assert runner.prune() == 3
        assert [o.value for o in runner.outputs(after=runner_floor(runner))] == [3, 4]
        old = hall.serve(echo, name="old", retain=Retain(age=timedelta(microseconds=60_000_000)))
        old.handle("ada", 0)
        self.clock.elapse(seconds=30)
        assert old.prune() == 0
        self.clock.elapse(seconds=60)
        assert old.prune() == 1

    def test_pruning_leaves_nothing_that_is_given_up(
        self, hall: Hall, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """However many runs there are, and however few of them a transaction takes."""
        runner = hall.serve(echo, retain=Retain(age=None, count=1))
        for n in range(12):
            runner.handle("ada", n)
        steps, store = list[int](), hall.memory.store
        step = partial(store.prune, limit=5)

        def few(*args: Any, **options: Any) -> int:
            steps.append(step(*args, **options))
            return steps[-1]

        monkeypatch.setattr(store, "prune", few)
        runner.prune()  # which the watch may do too
        assert (sum(steps), max(steps), store.stats().runs_ended) == (11, 5, 1)

    def test_what_was_pruned_is_not_passed_over_in_silence(self, hall: Hall) -> None:
        """Whoever reads from before it is told from where on there are outputs."""
        runner = hall.serve(echo, retain=Retain(age=None, count=1))
        for n in range(3):
            runner.handle("ada", n)
        runner.prune()
        with pytest.raises(OutputsPruned) as pruned:
            list(runner.outputs(after=0))
        assert [o.value for o in runner.outputs(after=pruned.value.floor)] == [2]
        assert [o.value for o in runner.outputs(consumer="late")] == [2]

    def test_outputs_wait_for_their_consumers(self, hall: Hall) -> None:
        """Nothing is pruned that a named one has yet to read, nor what is not over."""
        runner = hall.serve(echo, retain=Retain(age=None, count=0))
        assert list(runner.outputs(consumer="mailer")) == []
        for n in range(3):
            runner.handle("ada", n)
        assert runner.prune() == 0
        assert [o.value for o in runner.outputs(consumer="mailer")] == [0, 1, 2]
        assert runner.prune() == 3


def runner_floor(runner: LocalRunner) -> int:
    """Return the position from which on outputs are kept."""
    try:
        return next(iter(runner.outputs())).position - 1
    except OutputsPruned as pruned:
        return pruned.floor
