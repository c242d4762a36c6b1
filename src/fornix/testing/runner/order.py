"""Laws of order: what goes one after the other, and what side by side."""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict

import pytest

from fornix.events.events import Event, InputEvent, OutputEvent
from fornix.runs.agent import action
from fornix.runs.task import RunnerContext
from fornix.state import MemoryObject
from fornix.testing.runner.runner_laws import LONG_S, ActionGate, Hall, RunnerLaws
from fornix.testing.threads import at_once


class FirstActionDone(Event):
    """Sent by the first action of a run."""

    n: int = 0


class Right(Event):
    """Sent by the first action of a run."""

    n: int = 0


class Leaf(Event):
    """Sent by what `FirstActionDone` and `Right` set off."""


class ConcurrencyMeter:
    """Counts who is in it at the same time.

    Attributes:
        most: The most that ever were.
        clashes: How often somebody came while another one of the same key was there.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._here: dict[str, int] = defaultdict(int)
        self.most = self.clashes = 0

    def enter(self, key: str) -> None:
        """Come in."""
        with self._lock:
            self._here[key] += 1
            self.clashes += self._here[key] > 1
            self.most = max(self.most, sum(self._here.values()))

    def leave(self, key: str) -> None:
        """Go out."""
        with self._lock:
            self._here[key] -= 1


def appended(memory: MemoryObject, path: str, value: object) -> None:
    """Append to a list that may not be there."""
    memory.set(path, [*memory.get(path, []), value])


class OrderLaws(RunnerLaws):
    """What holds of tasks in a run, of runs of a key, and of keys beside each other."""

    # --- in a run

    def test_tasks_go_breadth_first(self, hall: Hall) -> None:
        """What an event sets off goes before what later events set off; in order of definition."""
        order: list[str] = []

        @action(InputEvent)
        def root(event: InputEvent, ctx: RunnerContext) -> None:
            order.append("root")
            ctx.send_event(FirstActionDone(1))
            ctx.send_event(Right(2))

        @action(FirstActionDone, Right)
        def both(event: Event, ctx: RunnerContext) -> None:
            order.append(f"both {event.type}")
            ctx.send_event(Leaf())

        @action(Right)
        def right(event: Right, ctx: RunnerContext) -> None:
            order.append("right")
            ctx.send_event(OutputEvent(len(order)))

        @action(Leaf)
        def leaf(event: Leaf, ctx: RunnerContext) -> None:
            order.append("leaf")
            ctx.send_event(OutputEvent(len(order)))

        assert hall.serve(root, both, right, leaf).handle("ada", 0) == (4, 5, 6)
        assert order == ["root", "both FirstActionDone", "both Right", "right", "leaf", "leaf"]

    def test_equal_events_both_run(self, hall: Hall) -> None:
        """A task is known by its place in the run, not by what its event holds."""

        @action(InputEvent)
        def root(event: InputEvent, ctx: RunnerContext) -> None:
            for _ in range(3):
                ctx.send_event(Leaf())

        @action(Leaf)
        def leaf(event: Leaf, ctx: RunnerContext) -> None:
            ctx.send_event(OutputEvent([ctx.sensory_memory.increment("n"), event.id]))

        runner = hall.serve(root, leaf)
        answers = runner.handle("ada", "tick"), runner.handle("ada", "tick")
        assert [[n for n, _ in answer] for answer in answers] == [[1, 2, 3]] * 2
        assert len({name for answer in answers for _, name in answer}) == 6

    def test_conditions_choose_among_events(self, hall: Hall) -> None:
        """An action with one is set off by those events for which it is true."""

        def is_even(event: InputEvent) -> bool:
            return event.input % 2 == 0

        @action(InputEvent, when=is_even)
        def even(event: InputEvent, ctx: RunnerContext) -> None:
            ctx.send_event(OutputEvent("even"))

        @action(InputEvent, when=lambda event: event.input > 2)
        def large(event: InputEvent, ctx: RunnerContext) -> None:
            ctx.send_event(OutputEvent("large"))

        runner = hall.serve(even, large)
        answers = [list(answer) for answer in runner.map(("ada", n) for n in (1, 2, 3, 4))]
        assert answers == [[], ["even"], ["large"], ["even", "large"]]

    def test_an_output_may_set_off_actions_too(self, hall: Hall) -> None:
        """It goes to the world all the same; an own class of outputs shows all its fields."""

        class Mail(OutputEvent):
            to: str

        @action(InputEvent)
        def root(event: InputEvent, ctx: RunnerContext) -> None:
            ctx.send_event(Mail("hello", "ada"))

        @action(Mail)
        def note(event: Mail, ctx: RunnerContext) -> None:
            ctx.short_term_memory.set("mailed", event.to)

        answer = hall.serve(root, note).handle("ada", 0)
        assert answer == ("hello",)
        assert answer.events[0].data == {"output": "hello", "to": "ada"}
        assert hall.memory.key("ada").short_term.get("mailed") == "ada"

    def test_nobody_sees_what_another_action_does_to_an_event(self, hall: Hall) -> None:
        """Each gets data of its own; so does the store."""

        @action(InputEvent)
        def spoil(event: InputEvent, ctx: RunnerContext) -> None:
            event.input.append("spoilt")
            mine = [1]
            ctx.send_event(OutputEvent(mine))
            mine.append(2)

        @action(InputEvent)
        def look(event: InputEvent, ctx: RunnerContext) -> None:
            ctx.send_event(OutputEvent(event.input))

        given = ["given"]
        runner = hall.serve(spoil, look)
        assert runner.handle("ada", given) == ([1], ["given"])
        assert given == ["given"]

    # --- runs of a key

    def test_runs_of_a_key_go_one_after_the_other(self, hall: Hall) -> None:
        """In the order their inputs were accepted, whichever thread submitted them."""
        crowd = ConcurrencyMeter()

        @action(InputEvent)
        def note(event: InputEvent, ctx: RunnerContext) -> None:
            crowd.enter(ctx.key)
            appended(ctx.short_term_memory, "runs", ctx.run.number)
            ctx.send_event(FirstActionDone(event.input))

        @action(FirstActionDone)
        def end(event: FirstActionDone, ctx: RunnerContext) -> None:
            appended(ctx.short_term_memory, "inputs", event.n)
            crowd.leave(ctx.key)
            ctx.send_event(OutputEvent(event.n))

        runner = hall.serve(note, end, concurrency=4)

        def submit(i: int) -> list[tuple[int, int]]:
            made = [(n, runner.submit(f"key {n % 3}", n)) for n in range(i * 20, i * 20 + 20)]
            return [(ticket.number, n) for n, ticket in made if ticket.result(LONG_S) == (n,)]

        accepted = [pair for pairs in at_once(6, submit) for pair in pairs]
        assert (len(accepted), crowd.clashes) == (120, 0)
        for k in range(3):
            tree = hall.memory.key(f"key {k}").short_term
            numbered = sorted((number, n) for number, n in accepted if n % 3 == k)
            assert tree.get("runs") == list(range(40))
            assert tree.get("inputs") == [n for _, n in numbered]

    def test_two_runners_of_one_agent_share_its_inbox(self, hall: Hall) -> None:
        """Each input is run once, each key in order, whoever accepted it."""
        crowd = ConcurrencyMeter()

        @action(InputEvent)
        def note(event: InputEvent, ctx: RunnerContext) -> None:
            crowd.enter(ctx.key)
            ctx.send_event(OutputEvent(ctx.short_term_memory.increment("n")))
            crowd.leave(ctx.key)

        runners = [hall.serve(note) for _ in range(2)]

        def handle(i: int) -> list[int]:
            runner = runners[i % 2]
            return [runner.handle(f"key {n % 2}", n, wait_s=LONG_S)[0] for n in range(15)]

        answers = [n for given in at_once(4, handle) for n in given]
        assert sorted(answers) == sorted([*range(1, 33), *range(1, 29)])
        assert crowd.clashes == 0

    # --- keys side by side

    @pytest.mark.parametrize("is_async", [False, True])
    def test_keys_go_side_by_side_up_to_concurrency(self, hall: Hall, *, is_async: bool) -> None:
        """As many at once as were asked for, and never more."""
        crowd, meeting = ConcurrencyMeter(), threading.Barrier(3)

        def meet(ctx: RunnerContext) -> None:
            crowd.enter(ctx.key)
            meeting.wait(LONG_S)
            crowd.leave(ctx.key)

        @action(InputEvent)
        def plain(event: InputEvent, ctx: RunnerContext) -> None:
            meet(ctx)

        @action(InputEvent)
        async def awaited(event: InputEvent, ctx: RunnerContext) -> None:
            await asyncio.to_thread(meet, ctx)

        runner = hall.serve(awaited if is_async else plain, concurrency=3)
        answers = at_once(9, lambda i: runner.handle(f"key {i}", i, wait_s=LONG_S))
        assert (len(answers), crowd.most, crowd.clashes) == (9, 3, 0)

    def test_one_at_a_time_serves_many_who_wait(self, hall: Hall) -> None:
        """With a concurrency of 1, callers help, and nobody waits for ever."""
        crowd = ConcurrencyMeter()

        @action(InputEvent)
        def note(event: InputEvent, ctx: RunnerContext) -> None:
            crowd.enter("all")
            ctx.send_event(OutputEvent(ctx.short_term_memory.increment("n")))
            crowd.leave("all")

        runner = hall.serve(note, concurrency=1)

        def handle(i: int) -> list[int]:
            return [runner.handle(f"key {i}", n, wait_s=LONG_S)[0] for n in range(10)]

        assert at_once(8, handle) == [list(range(1, 11))] * 8
        assert (crowd.most, crowd.clashes) == (1, 0)

    def test_an_action_that_takes_long_holds_only_its_key_up(self, hall: Hall) -> None:
        """Also one that has been quick so far; and what was done just before it is committed."""
        gate = ActionGate()

        @action(InputEvent)
        def note(event: InputEvent, ctx: RunnerContext) -> None:
            if event.input == "long":
                gate.stop()
            ctx.send_event(OutputEvent(event.input))

        runner = hall.serve(note, concurrency=2)
        assert [answer[0] for answer in runner.map(("ada", n) for n in range(50))] == list(
            range(50)
        )
        before = [runner.submit(f"before {n}", n) for n in range(20)]
        stopped = runner.submit("ada", "long")
        after = [runner.submit(f"after {n}", n) for n in range(20)]
        gate.reached()
        behind = runner.submit("ada", 1)
        answers = [ticket.result(LONG_S)[0] for ticket in (*before, *after)]
        assert answers == [*range(20), *range(20)]
        assert (stopped.done, behind.done) == (False, False)
        gate.open()
        assert (stopped.result(LONG_S), behind.result(LONG_S)) == (("long",), (1,))

    def test_a_queue_that_never_ends_leaves_its_key_to_others_at_times(self, hall: Hall) -> None:
        """To another agent's runs, and to writes from outside; its own order stays."""
        seen, served = list[int](), threading.Event()

        @action(InputEvent)
        def hog(event: InputEvent, ctx: RunnerContext) -> None:
            seen.append(event.input)
            if not served.is_set():
                runners[0].submit(ctx.key, event.input + 2)

        @action(InputEvent)
        def guest(event: InputEvent, ctx: RunnerContext) -> None:
            ctx.send_event(OutputEvent(len(seen)))

        runners = [hall.serve(hog, name="hog"), hall.serve(guest, name="guest")]
        for n in range(2):
            runners[0].submit("ada", n)
        while not seen:
            hall.pause()
        try:
            (before,) = runners[1].handle("ada", 1, wait_s=LONG_S)
            hall.memory.key("ada").short_term.set("from", "outside")
        finally:
            served.set()
        runners[0].run_until_idle()
        assert 0 < before < len(seen)
        assert seen == list(range(len(seen)))
