"""Laws of inputs and of order: accepted durably, run once, answered, one after the other."""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, cast

import pytest

from alveus.errors import (
    IdempotencyConflict,
    InvalidInput,
    InvalidName,
    InvalidValue,
    NotFound,
    RunParked,
    RunPending,
    StoreClosed,
)
from alveus.runs.agent import Agent, action
from alveus.runs.task import RunnerContext
from alveus.state import MemoryObject
from alveus.store import Retain
from alveus.testing.batches import at_once
from alveus.values.events import Event, InputEvent, OutputEvent
from harness.runner.runner_laws import ActionGate, Hall, RunnerLaws, put_out, stopping
from waiting import LIMIT_S, SHORT_S

KEYS = ("a_b", "a", "a/b", "a\nb", "\x00", "ключ", "🦜", " ", "k" * 1000, "1", "null", "$key")


class Ordered(Event):
    """An event class of a user."""

    tent: str
    count: int = 1


@action(InputEvent)
def count(event: InputEvent, ctx: RunnerContext) -> None:
    """Send the number of inputs so far, and the input."""
    number = ctx.short_term_memory.increment("seen")
    ctx.send_event(OutputEvent([number, event.input]))


class InputLaws(RunnerLaws):
    """Laws of inputs for `handle`, `submit`, `map`, `run_until_idle`, `serve` and `close`."""

    # --- answers

    def test_handle_returns_the_outputs_of_its_run(self, hall: Hall) -> None:
        """Outputs are in the order of sending, with their origin."""

        @action(InputEvent)
        def twice(event: InputEvent, ctx: RunnerContext) -> None:
            ctx.send_event(OutputEvent(event.input))
            ctx.send_event(OutputEvent({"again": event.input}))

        outputs = hall.serve(twice).handle("ada", 7)
        assert outputs == (7, {"again": 7})
        assert (outputs.number, outputs.repeated) == (0, False)
        assert [type(event) for event in outputs.events] == [OutputEvent, OutputEvent]
        assert [(event.key, event.time) for event in outputs.events] == [
            ("ada", outputs.events[0].time)
        ] * 2
        assert len({event.id for event in outputs.events}) == 2
        assert hall.run(outputs.run).status == "done"

    def test_an_input_is_durable_before_it_is_acknowledged(self, hall: Hall) -> None:
        """The store has the run of a ticket, begun or not."""
        gate = ActionGate()
        wait = stopping(gate)
        runner = hall.serve(wait)
        tickets = [runner.submit("ada", i) for i in range(3)]
        assert [hall.run(ticket.run).status for ticket in tickets] == ["waiting"] * 3
        assert [ticket.number for ticket in tickets] == [0, 1, 2]
        assert not any(ticket.done for ticket in tickets)
        gate.open()
        assert [ticket.result(LIMIT_S) for ticket in tickets] == [(0,), (1,), (2,)]
        assert all(ticket.done for ticket in tickets)
        assert tickets[0].result() == (0,)

    def test_runs_are_numbered_by_agent_and_key(self, hall: Hall) -> None:
        """Numbers start at 0.

        Agents of one space have separate inboxes and numbers, and share memory.
        """
        one, two = hall.serve(count, name="one"), hall.serve(count, name="two")
        numbers = [one.handle(key, 0).number for key in ("ada", "bob", "ada")]
        assert numbers == [0, 0, 1]
        answer = two.handle("ada", "x")
        assert (answer.number, answer) == (0, ([3, "x"],))
        named = hall.start(Agent("one", actions=[count]), name="named")
        assert (named.name, named.handle("ada", 1).number) == ("named", 0)

    def test_a_wait_that_is_too_short_ends_with_an_error(self, hall: Hall) -> None:
        """After a timeout, the run continues. Its ticket or event id gives the outputs later."""
        gate = ActionGate()
        wait = stopping(gate)
        runner = hall.serve(wait)
        ticket = runner.submit("ada", 1, event_id="one")
        gate.reached()
        with pytest.raises(RunPending) as pending:
            runner.handle("ada", 1, event_id="one", wait_s=SHORT_S)
        assert pending.value.run == ticket.run
        with pytest.raises(RunPending):
            ticket.result(0)
        with pytest.raises(RunPending):
            asyncio.run(ticket.aresult(SHORT_S))
        gate.open()
        assert runner.handle("ada", 1, event_id="one", wait_s=LIMIT_S) == (1,)
        assert ticket.result(LIMIT_S) == (1,)

    # --- event ids

    def test_the_same_event_id_twice_is_one_run(self, hall: Hall) -> None:
        """A repeated event id returns the first outputs, also after the runner was closed."""
        runner = hall.serve(count)
        first = runner.handle("ada", {"a": 1}, event_id="e1")
        again = runner.handle("ada", {"a": 1}, event_id="e1")
        assert (again, again.run, again.repeated, first.repeated) == (first, first.run, True, False)
        runner.close()
        later = hall.serve(count).handle("ada", {"a": 1}, event_id="e1")
        assert (later, later.repeated) == (first, True)
        assert hall.memory.key("ada").short_term.get("seen") == 1

    def test_the_same_event_id_at_the_same_time_is_one_run(self, hall: Hall) -> None:
        """A concurrent call with the same event id waits for the run of the first."""
        runner = hall.serve(count)
        answers = at_once(8, lambda _: runner.handle("ada", 1, event_id="e1", wait_s=LIMIT_S))
        assert [list(answer) for answer in answers] == [[[1, 1]]] * 8
        assert len({answer.run for answer in answers}) == 1
        assert sum(not answer.repeated for answer in answers) == 1

    def test_an_event_id_stands_for_one_input(self, hall: Hall) -> None:
        """An event id with another value, key or class is refused, per agent. No run begins."""
        runner = hall.serve(count, ordered)
        runner.handle("ada", 1, event_id="e1")
        for key, value in (("ada", 2), ("bob", 1), ("ada", 1.0), ("ada", Ordered("1"))):
            with pytest.raises(IdempotencyConflict, match="event id 'e1' was used before"):
                runner.submit(key, value, event_id="e1")
        with pytest.raises(IdempotencyConflict):
            list(runner.map([("cy", 1, "e2"), ("ada", 2, "e1")]))
        runner.run_until_idle()
        assert len(hall.memory.store.runs(hall.memory.space)) == 1
        assert hall.serve(count, name="other").handle("ada", 2, event_id="e1") == ([2, 2],)

    def test_the_outputs_of_a_pruned_run_are_gone(self, hall: Hall) -> None:
        """The event id of a pruned run does not run again. The error says that it was pruned."""
        runner = hall.serve(count, retain=Retain(age=timedelta(microseconds=1)))
        runner.handle("ada", 1, event_id="e1")
        self.clock.move(hours=1)
        assert runner.prune() == 1
        ticket = runner.submit("ada", 1, event_id="e1")
        assert (ticket.repeated, ticket.done) == (True, True)
        with pytest.raises(NotFound, match="pruned"):
            ticket.result()
        assert hall.memory.key("ada").short_term.get("seen") == 1

    # --- what may come in

    def test_an_input_may_be_an_event_of_a_users_class(self, hall: Hall) -> None:
        """An input may be a user's event, with its id or a new id, its key and its time."""
        seen: list[Any] = []

        @action(Ordered)
        def look(event: Ordered, ctx: RunnerContext) -> None:
            seen.append((event.tent, event.count, event.key, event.id, event.time <= ctx.now))
            seen.append((event.type, event.data))

        runner = hall.serve(look)
        runner.handle("ada", Ordered("Lhotse"), event_id="e1")
        assert seen[0] == ("Lhotse", 1, "ada", "e1", True)
        assert seen[1] == ("Ordered", {"tent": "Lhotse", "count": 1})
        answer = runner.handle("ada", Ordered("K2", count=2))
        assert seen[2][3] == str(answer.run)

    def test_an_input_that_nobody_asks_for_is_refused(self, hall: Hall) -> None:
        """An event without an action is refused. An event whose conditions are all false is not."""
        large = put_out(lambda event, _ctx: event.input, when=lambda event: event.input > 5)
        runner = hall.serve(large)
        with pytest.raises(InvalidInput, match="no action for Ordered"):
            runner.submit("ada", Ordered("K2"))
        answer = runner.handle("ada", 1)
        assert (answer, answer.number, hall.run(answer.run).status) == ((), 0, "done")
        assert runner.handle("ada", 6) == (6,)

    def test_the_classes_that_are_always_there_are_refused_too(self, hall: Hall) -> None:
        """An `InputEvent` or `OutputEvent` without an action is refused."""

        @action(Ordered)
        def order(event: Ordered, ctx: RunnerContext) -> None:
            ctx.send_event(OutputEvent(event.tent))

        runner = hall.serve(order)
        with pytest.raises(InvalidInput, match="no action for InputEvent"):
            runner.submit("ada", "K2")
        with pytest.raises(InvalidInput, match="no action for OutputEvent"):
            runner.submit("ada", OutputEvent("K2"))
        assert runner.handle("ada", Ordered("K2")) == ("K2",)

    def test_a_value_that_cannot_be_stored_is_refused(self, hall: Hall) -> None:
        """The error names the part of the value and a conversion. No run begins."""
        runner = hall.serve(count)
        with pytest.raises(InvalidValue, match="input"):
            runner.handle("ada", {"when": {1, 2}})
        assert hall.memory.store.runs(hall.memory.space) == []

    def test_keys_with_any_character_stay_apart(self, hall: Hall) -> None:
        """Keys with any characters have separate memory, numbers and outputs."""
        runner = hall.serve(count)
        answers = list(runner.map([(key, i) for i in range(2) for key in KEYS]))
        assert [list(answer) for answer in answers] == [
            [[i + 1, i]] for i in range(2) for _ in KEYS
        ]
        assert sorted(hall.memory.keys()) == sorted(KEYS)
        assert {output.key for output in runner.outputs()} == set(KEYS)

    @pytest.mark.parametrize("key", [7, None, "", b"ada", ("ada",), True])
    def test_a_key_is_a_text(self, hall: Hall, key: object) -> None:
        """A key that is not a text is refused. The error describes a key."""
        runner = hall.serve(count)
        with pytest.raises(InvalidName, match="must be a non-empty str"):
            runner.submit(cast("str", key), 1)
        with pytest.raises(InvalidName):
            runner.submit("ada", 1, event_id=cast("str", key) if key is not None else "")

    # --- many

    def test_map_answers_in_order(self, hall: Hall) -> None:
        """`map` answers in the order of inputs, and reads inputs as answers are read."""
        runner = hall.serve(count)
        asked: list[int] = []

        def inputs() -> Iterator[tuple[str, int]]:
            for i in range(1500):
                asked.append(i)
                yield (f"key {i % 7}", i)

        answers = runner.map(inputs())
        assert next(answers) == ([1, 0],)
        assert len(asked) < 1500
        rest = [answer[0] for answer in answers]
        assert rest == [[i // 7 + 1, i] for i in range(1, 1500)]

    def test_map_gives_or_raises_what_failed(self, hall: Hall) -> None:
        """With "return", `map` yields an error instead of the outputs; otherwise it raises."""
        runner = hall.serve(fail_on_bad)
        answers = list(runner.map([("a", "x"), ("b", "bad"), ("c", "y")], errors="return"))
        assert [answers[0], answers[2]] == [("x",), ("y",)]
        assert isinstance(answers[1], RunParked)
        with pytest.raises(RunParked):
            list(runner.map([("d", "x"), ("e", "bad"), ("f", "y")]))
        runner.run_until_idle()
        assert runner.handle("f", "z") == ("z",)

    def test_map_takes_event_ids(self, hall: Hall) -> None:
        """`map` takes pairs and triples with an event id. Anything else is refused."""
        runner = hall.serve(count)
        answers = list(runner.map([("ada", 1, "e1"), ("ada", 1, "e1"), ("ada", 1)]))
        assert [list(answer) for answer in answers] == [[[1, 1]], [[1, 1]], [[2, 1]]]
        with pytest.raises(InvalidInput, match=r"map\(\)"):
            list(runner.map(cast("Any", ["ada"])))

    # --- the inbox

    def test_run_until_idle_does_what_waits(self, hall: Hall) -> None:
        """`run_until_idle` runs all waiting inputs of any submitter, except behind a parked run."""
        first = hall.serve(fail_on_bad, concurrency=1)
        for key, value in (("a", "bad"), ("a", 1), ("b", 2), ("c", 3)):
            first.submit(key, value)
        first.close()
        runner = hall.serve(fail_on_bad)
        runner.run_until_idle()
        status = {(r.scope.key, r.number): r.status for r in hall.memory.store.runs("app")}
        expected = {("a", 0): "parked", ("a", 1): "waiting", ("b", 0): "done", ("c", 0): "done"}
        assert status == expected

    def test_serve_pulls_from_the_inbox(self, hall: Hall) -> None:
        """`serve` runs inputs until it is stopped or closed."""
        door, server = hall.serve(count), hall.serve(count)
        stop = threading.Event()
        thread = threading.Thread(target=server.serve, kwargs={"stop": stop})
        thread.start()
        tickets = [door.submit(f"key {i % 3}", i) for i in range(9)]
        door.close()
        assert all(self._ends(hall, ticket.run) for ticket in tickets)
        stop.set()
        thread.join(LIMIT_S)
        assert not thread.is_alive()

    def _ends(self, hall: Hall, run: int) -> bool:
        while hall.run(run).status != "done":
            hall.pause()
        return True

    # --- the end

    def test_what_is_to_be_done_outlives_the_runner(self, hall: Hall) -> None:
        """A closed runner begins no run. Its tickets raise, and the next runner continues."""
        gate = ActionGate()
        wait = stopping(gate)
        runner = hall.serve(wait)
        tickets = [runner.submit("ada", i) for i in range(3)]
        gate.reached()
        closing = threading.Thread(target=runner.close)
        closing.start()
        gate.open()
        closing.join(LIMIT_S)
        assert tickets[0].result(0) == (0,)
        for ticket in tickets[1:]:
            with pytest.raises(StoreClosed, match="inbox"):
                ticket.result(LIMIT_S)
        with hall.serve(wait) as following:
            following.run_until_idle()
        assert [hall.run(ticket.run).status for ticket in tickets] == ["done"] * 3

    def test_a_closed_runner_is_of_no_use(self, hall: Hall) -> None:
        """A closed runner raises. A second close is allowed. The memory stays open."""
        runner = hall.serve(count)
        runner.handle("ada", 1)
        runner.close()
        runner.close()
        for use in (
            lambda: runner.submit("ada", 1),
            lambda: runner.handle("ada", 1),
            lambda: list(runner.map([("ada", 1)])),
            runner.run_until_idle,
            runner.start,
        ):
            with pytest.raises(StoreClosed):
                use()
        assert hall.memory.key("ada").short_term.get("seen") == 1

    def test_a_with_block_waits_for_what_was_submitted_in_it(self, hall: Hall) -> None:
        """A with block waits for its inputs, except blocked ones.

        After an error it does not wait.
        """
        with hall.serve(count, fail_on_bad) as runner:
            tickets = [runner.submit(f"key {i % 4}", i) for i in range(40)]
            runner.submit("stuck", "bad")
            runner.submit("stuck", 1)
        assert all(ticket.done for ticket in tickets)

        def leave() -> None:
            with hall.serve(count) as runner:
                runner.submit("ada", 1)
                raise LookupError

        with pytest.raises(LookupError):
            leave()

    def test_a_memory_may_be_closed_under_a_runner(self, hall: Hall) -> None:
        """After the memory is closed, callers get an error, and closing the runner is quick."""
        gate = ActionGate()

        @action(InputEvent)
        def wait(event: InputEvent, ctx: RunnerContext) -> None:
            gate.stop()

        runner = hall.serve(wait)
        tickets = [runner.submit(key, 1) for key in ("ada", "ada", "bob")]
        gate.reached()
        hall.memory.close()
        gate.open()
        for ticket in tickets:
            with pytest.raises(StoreClosed):
                ticket.result(LIMIT_S)
        with pytest.raises(StoreClosed):
            runner.submit("ada", 2)

    # --- awaited

    def test_everything_can_be_awaited(self, hall: Hall) -> None:
        """The async calls return the same answers and errors."""

        async def use() -> None:
            async with hall.serve(fail_on_bad) as runner:
                answers = await asyncio.gather(*(runner.ahandle(f"k{i}", i) for i in range(5)))
                assert [list(answer) for answer in answers] == [[i] for i in range(5)]
                ticket = await runner.asubmit("ada", 1)
                assert await ticket.aresult() == await ticket.aresult() == (1,)
                with pytest.raises(RunParked):
                    await runner.ahandle("bob", "bad")
                with pytest.raises(RunParked):
                    await runner.ahandle("bob", "behind it")
                await runner.arun_until_idle()
                await runner.aclose()

        asyncio.run(use())

    def test_a_ticket_may_be_awaited_by_several(self, hall: Hall) -> None:
        """Several tasks can await one ticket. Each gets the answer."""
        gate = ActionGate()
        wait = stopping(gate)

        async def use() -> None:
            ticket = await hall.serve(wait).asubmit("ada", 1)
            waiting = [asyncio.ensure_future(ticket.aresult(LIMIT_S)) for _ in range(3)]
            await asyncio.to_thread(gate.reached)
            gate.open()
            assert await asyncio.gather(*waiting) == [(1,)] * 3

        asyncio.run(use())


@action(Ordered)
def ordered(event: Ordered, ctx: RunnerContext) -> None:
    """Send the order of the event."""
    ctx.send_event(OutputEvent(event.tent))


@action(InputEvent)
def fail_on_bad(event: InputEvent, ctx: RunnerContext) -> None:
    """Send the input, but fail on "bad"."""
    if event.input == "bad":
        raise RuntimeError("bad")
    ctx.send_event(OutputEvent(event.input))


class FirstActionDone(Event):
    """Sent by the first action of a run."""

    n: int = 0


class Right(Event):
    """Sent by the first action of a run."""

    n: int = 0


class Leaf(Event):
    """Sent on `FirstActionDone` and `Right`."""


class ConcurrencyMeter:
    """Counts concurrent actions.

    Attributes:
        most: The most concurrent actions so far.
        clashes: How often two actions of one key were concurrent.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._here: dict[str, int] = defaultdict(int)
        self.most = self.clashes = 0

    def enter(self, key: str) -> None:
        """Count an action in."""
        with self._lock:
            self._here[key] += 1
            self.clashes += self._here[key] > 1
            self.most = max(self.most, sum(self._here.values()))

    def leave(self, key: str) -> None:
        """Count an action out."""
        with self._lock:
            self._here[key] -= 1


def appended(memory: MemoryObject, path: str, value: object) -> None:
    """Append to a list, which is created if missing."""
    memory.set(path, [*memory.get(path, []), value])


class OrderLaws(RunnerLaws):
    """Laws of the order of tasks in a run, of runs of a key, and of concurrent keys."""

    # --- in a run

    def test_tasks_go_breadth_first(self, hall: Hall) -> None:
        """Tasks run breadth-first: by the order of events, then of definition."""
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
        """Equal events run separate tasks: a task is named by its position in the run."""

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
        """An action with a condition runs on events for which the condition is true."""

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
        """An output may trigger actions, and is still sent.

        A user's output class shows all fields.
        """

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
        """Each action, and the store, gets a copy of an event."""

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
        """Runs of a key are in the order of acceptance, whichever thread submitted them."""
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
            return [(ticket.number, n) for n, ticket in made if ticket.result(LIMIT_S) == (n,)]

        accepted = [pair for pairs in at_once(6, submit) for pair in pairs]
        assert (len(accepted), crowd.clashes) == (120, 0)
        for k in range(3):
            tree = hall.memory.key(f"key {k}").short_term
            numbered = sorted((number, n) for number, n in accepted if n % 3 == k)
            assert tree.get("runs") == list(range(40))
            assert tree.get("inputs") == [n for _, n in numbered]

    def test_two_runners_of_one_agent_share_its_inbox(self, hall: Hall) -> None:
        """Two runners of an agent run each input once, and each key in order."""
        crowd = ConcurrencyMeter()

        @action(InputEvent)
        def note(event: InputEvent, ctx: RunnerContext) -> None:
            crowd.enter(ctx.key)
            ctx.send_event(OutputEvent(ctx.short_term_memory.increment("n")))
            crowd.leave(ctx.key)

        runners = [hall.serve(note) for _ in range(2)]

        def handle(i: int) -> list[int]:
            runner = runners[i % 2]
            return [runner.handle(f"key {n % 2}", n, wait_s=LIMIT_S)[0] for n in range(15)]

        answers = [n for given in at_once(4, handle) for n in given]
        assert sorted(answers) == sorted([*range(1, 33), *range(1, 29)])
        assert crowd.clashes == 0

    # --- keys side by side

    @pytest.mark.parametrize("is_async", [False, True])
    def test_keys_go_side_by_side_up_to_concurrency(self, hall: Hall, *, is_async: bool) -> None:
        """At most *concurrency* keys run at the same time, and as many as possible."""
        crowd, meeting = ConcurrencyMeter(), threading.Barrier(3)

        def meet(ctx: RunnerContext) -> None:
            crowd.enter(ctx.key)
            meeting.wait(LIMIT_S)
            crowd.leave(ctx.key)

        @action(InputEvent)
        def plain(event: InputEvent, ctx: RunnerContext) -> None:
            meet(ctx)

        @action(InputEvent)
        async def awaited(event: InputEvent, ctx: RunnerContext) -> None:
            await asyncio.to_thread(meet, ctx)

        runner = hall.serve(awaited if is_async else plain, concurrency=3)
        answers = at_once(9, lambda i: runner.handle(f"key {i}", i, wait_s=LIMIT_S))
        assert (len(answers), crowd.most, crowd.clashes) == (9, 3, 0)

    def test_one_at_a_time_serves_many_who_wait(self, hall: Hall) -> None:
        """With a concurrency of 1, waiting callers help, and no caller waits forever."""
        crowd = ConcurrencyMeter()

        @action(InputEvent)
        def note(event: InputEvent, ctx: RunnerContext) -> None:
            crowd.enter("all")
            ctx.send_event(OutputEvent(ctx.short_term_memory.increment("n")))
            crowd.leave("all")

        runner = hall.serve(note, concurrency=1)

        def handle(i: int) -> list[int]:
            return [runner.handle(f"key {i}", n, wait_s=LIMIT_S)[0] for n in range(10)]

        assert at_once(8, handle) == [list(range(1, 11))] * 8
        assert (crowd.most, crowd.clashes) == (1, 0)

    def test_an_action_that_takes_long_holds_only_its_key_up(self, hall: Hall) -> None:
        """A slow action delays only its key, not the inputs before and after it."""
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
        answers = [ticket.result(LIMIT_S)[0] for ticket in (*before, *after)]
        assert answers == [*range(20), *range(20)]
        assert (stopped.done, behind.done) == (False, False)
        gate.open()
        assert (stopped.result(LIMIT_S), behind.result(LIMIT_S)) == (("long",), (1,))

    def test_a_queue_that_never_ends_leaves_its_key_to_others_at_times(self, hall: Hall) -> None:
        """A key with an endless queue leaves time to other agents' runs and writes, in order."""
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
        runners[0].submit_many([("ada", 0), ("ada", 1)])  # so that 2 is submitted after both
        while not seen:
            hall.pause()
        try:
            (before,) = runners[1].handle("ada", 1, wait_s=LIMIT_S)
            hall.memory.key("ada").short_term.set("from", "outside")
        finally:
            served.set()
        runners[0].run_until_idle()
        assert 0 < before < len(seen)
        assert seen == list(range(len(seen)))
