"""Laws of memory and outputs of runs: visibility, order, lifetime and clock."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from itertools import islice
from typing import Any

import pytest

from alveus.errors import InvalidInput, InvalidName, OutputsPruned, RunParked, Unusable
from alveus.memory.memory import Memory
from alveus.runs.agent import action
from alveus.runs.runner import LocalRunner
from alveus.runs.task import RunnerContext
from alveus.state import MemoryObject, MemoryRef, Ttl
from alveus.store import Retain, Scope, SetRef
from alveus.store.erasing import ReadSet
from alveus.testing.batches import present
from alveus.values.events import Event, InputEvent, OutputEvent
from harness.runner.runner_laws import ActionGate, Hall, RunnerLaws
from waiting import LIMIT_S, SHORT_S


class Next(Event):
    """An event for the second action of a run."""

    given: Any = None


class RunMemoryLaws(RunnerLaws):
    """Laws of the memories of an action."""

    # --- one commit per action

    def test_an_action_sees_its_writes_at_once(self, hall: Hall) -> None:
        """An action reads its writes by value, id, list and search.

        So do later actions of the run.
        """
        seen: list[object] = []

        def look(ctx: RunnerContext) -> None:
            items = ctx.long_term_memory
            found = present(items.get("i"))
            seen.append((ctx.short_term_memory.get("a.b"), ctx.sensory_memory.get("s")))
            seen.append((found.value, [hit.item.id for hit in items.search("window seat")]))
            shared = ctx.knowledge.set("handbook").list()
            seen.append(([item.value for item in items.list()], [item.id for item in shared]))

        @action(InputEvent)
        def write(event: InputEvent, ctx: RunnerContext) -> None:
            ctx.short_term_memory.set("a.b", 1)
            ctx.sensory_memory.set("s", 2)
            ctx.long_term_memory.add("window seat", id="i")
            ctx.knowledge.set("handbook").add("returns", id="k")
            seen.append(ctx.knowledge.sets())
            look(ctx)
            ctx.send_event(Next())

        @action(Next)
        def read(event: Next, ctx: RunnerContext) -> None:
            look(ctx)

        hall.serve(write, read).handle("ada", 0)
        one = [(1, 2), ("window seat", ["i"]), (["window seat"], ["k"])]
        assert seen == [["handbook"], *one, *one]

    def test_an_action_that_runs_twice_in_a_run_adds_two_items(self, hall: Hall) -> None:
        """Ids of items depend on the task, so a repeated action adds two items."""

        @action(InputEvent)
        def send(event: InputEvent, ctx: RunnerContext) -> None:
            ctx.send_event(Next("same"))
            ctx.send_event(Next("same"))

        @action(Next)
        def keep(event: Next, ctx: RunnerContext) -> None:
            ctx.long_term_memory.add(event.given)

        hall.serve(send, keep).handle("ada", 0)
        assert hall.texts("ada") == ["same", "same"]

    def test_others_see_writes_after_the_commit(self, hall: Hall) -> None:
        """Other readers see all writes of an action after its commit, and none before."""
        gate = ActionGate()

        @action(InputEvent)
        def write(event: InputEvent, ctx: RunnerContext) -> None:
            ctx.short_term_memory.set("a", 1)
            ctx.long_term_memory.add("kept", id="i")
            ctx.knowledge.set("handbook").add("shared", id="k")
            ctx.send_event(OutputEvent("out"))
            gate.stop()

        runner = hall.serve(write)
        ticket = runner.submit("ada", 0)
        gate.reached()
        ada, handbook = hall.memory.key("ada"), hall.memory.knowledge.set("handbook")
        assert (ada.short_term.get("a"), ada.list(), handbook.get("k")) == (None, [], None)
        assert list(runner.outputs()) == []
        gate.open()
        assert ticket.result(LIMIT_S) == ("out",)
        assert (ada.short_term.get("a"), hall.texts("ada")) == (1, ["kept"])
        assert [item.value for item in handbook.list()] == ["shared"]
        assert [output.value for output in runner.outputs()] == ["out"]

    def test_nobody_sees_writes_of_an_action_that_failed(self, hall: Hall) -> None:
        """A failed action leaves no values, items, knowledge or events. Earlier actions' stay."""

        @action(InputEvent)
        def good(event: InputEvent, ctx: RunnerContext) -> None:
            ctx.short_term_memory.set("good", 1)
            ctx.send_event(OutputEvent("good"))
            ctx.send_event(Next())

        @action(Next)
        def bad(event: Next, ctx: RunnerContext) -> None:
            ctx.short_term_memory.set("bad", 1)
            ctx.short_term_memory.set("good", 2)
            ctx.long_term_memory.add("bad")
            ctx.knowledge.set("handbook").add("bad")
            ctx.send_event(OutputEvent("bad"))
            raise RuntimeError

        runner = hall.serve(good, bad)
        with pytest.raises(RunParked):
            runner.handle("ada", 0)
        assert hall.memory.key("ada").short_term.to_dict() == {"good": 1}
        assert (hall.texts("ada"), hall.memory.knowledge.sets()) == ([], [])
        assert [output.value for output in runner.outputs()] == ["good"]

    def test_keys_do_not_see_each_other(self, hall: Hall) -> None:
        """Keys share only knowledge."""

        @action(InputEvent)
        def write(event: InputEvent, ctx: RunnerContext) -> None:
            ctx.short_term_memory.set("mine", ctx.key)
            ctx.long_term_memory.add(ctx.key)
            ctx.knowledge.set("all").add(ctx.key)
            shared = sorted(str(item.text) for item in ctx.knowledge.set("all").list())
            mine = [item.text for item in ctx.long_term_memory.list()]
            ctx.send_event(OutputEvent([ctx.short_term_memory.get_field_names(), mine, shared]))

        runner = hall.serve(write)
        assert runner.handle("ada", 0) == ([["mine"], ["ada"], ["ada"]],)
        assert runner.handle("bob", 0) == ([["mine"], ["bob"], ["ada", "bob"]],)

    def test_a_change_from_outside_waits_for_the_run(self, hall: Hall) -> None:
        """A change of the exact tree from outside waits for the run of the key."""
        gate = ActionGate()

        @action(InputEvent)
        def double(event: InputEvent, ctx: RunnerContext) -> None:
            before = ctx.short_term_memory.get("n", 1)
            gate.stop()
            ctx.short_term_memory.set("n", before * 2)

        ticket = hall.serve(double).submit("ada", 0)
        gate.reached()
        tree = hall.memory.key("ada").short_term
        other = threading.Thread(target=lambda: tree.increment("n", 100))
        other.start()
        other.join(SHORT_S)
        assert other.is_alive()
        gate.open()
        ticket.result(LIMIT_S)
        other.join(LIMIT_S)
        assert tree.get("n") == 102

    @pytest.mark.parametrize("late", [False, True])
    def test_an_item_that_moved_on_starts_the_action_over(self, hall: Hall, *, late: bool) -> None:
        """An action that meets a changed item starts over, on the present item."""
        gate, attempts = ActionGate(), list[int]()

        @action(InputEvent)
        def extend(event: InputEvent, ctx: RunnerContext) -> None:
            attempts.append(ctx.run.attempt)
            notes = ctx.long_term_memory
            found = present(notes.get("i"))
            if late:
                gate.stop()
            notes.update("i", f"{found.text}, {event.input}", if_version=found.version)
            gate.stop()
            ctx.send_event(OutputEvent(found.text))

        ada = hall.memory.key("ada")
        ada.add("first", id="i")
        ticket = hall.serve(extend).submit("ada", "third")
        gate.reached()
        ada.update("i", "first, second")
        gate.open()
        assert ticket.result(LIMIT_S) == ("first, second",)
        assert (hall.texts("ada"), attempts) == (["first, second, third"], [1, 2])

    # --- the run's own memory

    def test_sensory_memory_lasts_as_long_as_its_run(self, hall: Hall) -> None:
        """Sensory memory starts empty, is shared by the actions of a run, and ends with it."""

        @action(InputEvent)
        def first(event: InputEvent, ctx: RunnerContext) -> None:
            assert ctx.sensory_memory.get_field_names() == []
            assert not ctx.sensory_memory.is_exist("a")
            ctx.sensory_memory.set("a.b", event.input)
            ctx.sensory_memory.new_object("empty")
            ctx.send_event(Next())
            ctx.send_event(Next())

        @action(Next)
        def then(event: Next, ctx: RunnerContext) -> None:
            ctx.send_event(OutputEvent(ctx.sensory_memory.to_dict()))
            ctx.sensory_memory.delete("empty")
            ctx.sensory_memory.set("a.c", 2)

        runner = hall.serve(first, then)
        for n in range(2):
            answer = runner.handle("ada", n)
            assert answer == ({"a": {"b": n}, "empty": {}}, {"a": {"b": n, "c": 2}})
            assert all(step.sensory is None for step in hall.memory.store.steps(answer.run))
        assert hall.memory.key("ada").short_term.get_field_names() == []

    def test_a_parked_run_keeps_its_sensory_memory(self, hall: Hall) -> None:
        """A parked run keeps its sensory memory for the retry.

        A later run of the key starts empty.
        """
        broken = threading.Event()
        broken.set()

        @action(InputEvent)
        def first(event: InputEvent, ctx: RunnerContext) -> None:
            assert ctx.sensory_memory.get_field_names() == []
            ctx.sensory_memory.set("given", event.input)
            ctx.send_event(Next())

        @action(Next)
        def then(event: Next, ctx: RunnerContext) -> None:
            ctx.sensory_memory.set("tried", 1)
            if broken.is_set() and ctx.sensory_memory.get("given") == "bad":
                raise RuntimeError
            ctx.send_event(OutputEvent(ctx.sensory_memory.to_dict()))

        runner = hall.serve(first, then, on_failed="next")
        with pytest.raises(RunParked):
            runner.handle("ada", "bad")
        assert runner.handle("ada", "good") == ({"given": "good", "tried": 1},)
        broken.clear()
        (parked,) = hall.parked()
        hall.retry(parked.id)
        runner.run_until_idle()
        assert [o.value["given"] for o in runner.outputs()] == ["good", "bad"]
        assert hall.run(parked.id).status == "done"
        assert all(step.sensory is None for step in hall.memory.store.steps(parked.id))

    # --- time

    def test_the_time_of_a_run_stands_still(self, hall: Hall) -> None:
        """`ctx.now` is the same in all actions of a run, also after a crash."""
        gate, clock = ActionGate(), self.clock

        @action(InputEvent)
        def first(event: InputEvent, ctx: RunnerContext) -> None:
            ctx.short_term_memory.set("first", ctx.now.isoformat())
            clock.move(hours=1)
            ctx.send_event(Next())

        @action(Next)
        def then(event: Next, ctx: RunnerContext) -> None:
            gate.stop()
            clock.move(hours=1)
            ctx.send_event(OutputEvent([ctx.short_term_memory.get("first"), ctx.now.isoformat()]))
            ctx.send_event(OutputEvent(event.time.isoformat()))

        runner = hall.serve(first, then)
        ticket = runner.submit("ada", 0, event_id="e1")
        gate.reached()
        hall.crash(runner)
        gate.open()
        answer = hall.serve(first, then).handle("ada", 0, event_id="e1", wait_s=LIMIT_S)
        assert answer[0][0] == answer[0][1] == answer[1]
        assert ticket.run == answer.run

    def test_short_term_values_live_as_long_as_the_agent_says(self, hall: Hall) -> None:
        """A short-term value has the agent's lifetime by default. An expired value disappears."""

        @action(InputEvent)
        def visit(event: InputEvent, ctx: RunnerContext) -> None:
            memory = ctx.short_term_memory
            ctx.send_event(OutputEvent(memory.to_dict()))
            memory.set("short", event.input)
            memory.set("long", event.input, ttl=timedelta(days=1))

        runner = hall.serve(visit, short_term_ttl=Ttl(after=timedelta(minutes=1)))
        assert runner.handle("ada", 1) == ({},)
        self.clock.move(seconds=30)
        assert runner.handle("ada", 2) == ({"short": 1, "long": 1},)
        self.clock.move(seconds=90)
        assert runner.handle("ada", 3) == ({"long": 2},)
        self.clock.move(days=2)
        assert runner.handle("ada", 4) == ({},)
        outside = hall.memory.key("bob").short_term
        outside.set("kept", 1)
        self.clock.move(days=2)
        assert outside.get("kept") == 1

    # --- the context

    def test_a_context_is_of_no_use_after_its_action(self, hall: Hall) -> None:
        """After its action, the context and all objects from it raise."""
        held: list[tuple[RunnerContext, MemoryObject, MemoryObject, Any]] = []

        @action(InputEvent)
        def hold(event: InputEvent, ctx: RunnerContext) -> None:
            ctx.sensory_memory.set("a", 1)
            tree = ctx.short_term_memory
            tree.set("a", 1)
            held.append((ctx, tree, ctx.sensory_memory, ctx.long_term_memory.set("notes")))
            if event.input == "fail":
                raise RuntimeError

        runner = hall.serve(hold)
        runner.handle("ada", "go")
        with pytest.raises(RunParked):
            runner.handle("ada", "fail")
        assert len(held) == 2
        for ctx, short, sensory, notes in held:
            uses: tuple[Callable[[], object], ...] = (
                lambda ctx=ctx: ctx.send_event(OutputEvent(1)),
                lambda ctx=ctx: ctx.short_term_memory.set("b", 1),
                lambda ctx=ctx: ctx.long_term_memory.add("b"),
                lambda ctx=ctx: ctx.knowledge.set("all").add("b"),
                lambda ctx=ctx: ctx.durable(len, "b"),
                lambda short=short: short.set("b", 1),
                lambda short=short: short.get("a"),
                lambda sensory=sensory: sensory.set("b", 1),
                lambda notes=notes: notes.add("b"),
            )
            for use in uses:
                with pytest.raises(Unusable):
                    use()
            assert ctx.key == "ada"

    def test_the_context_says_where_it_is(self, hall: Hall) -> None:
        """A context has its key, run, time, and memories, also under the names of Flink Agents."""
        seen: list[object] = []

        @action(InputEvent)
        def look(event: InputEvent, ctx: RunnerContext) -> None:
            seen.append((ctx.key, ctx.run.key, ctx.run.agent, ctx.run.number, ctx.run.attempt))
            ctx.get_short_term_memory().set("a", 1)
            ctx.get_sensory_memory().set("b", 2)
            ctx.get_long_term_memory().add("c")
            ctx.get_knowledge().set("all").add("d")
            seen.append((ctx.short_term_memory.get("a"), ctx.sensory_memory.get("b")))
            seen.append((len(ctx.long_term_memory.list()), ctx.knowledge.sets()))
            ctx.log.debug("looked")
            ctx.send_event(OutputEvent(ctx.run.id))

        runner = hall.serve(look)
        answer = runner.handle("ada", 0)
        assert seen == [("ada", "ada", "helper", 0, 1), (1, 2), (1, ["all"])]
        assert answer == (answer.run,)

    def test_a_reference_travels_in_an_event(self, hall: Hall) -> None:
        """A reference in an event can be resolved by its receiver, in both exact memories."""

        @action(InputEvent)
        def write(event: InputEvent, ctx: RunnerContext) -> None:
            one = ctx.short_term_memory.set("a.b", 1)
            two = ctx.sensory_memory.set("c", 2)
            ctx.send_event(Next([one.to_json(), two.to_json()]))

        @action(Next)
        def read(event: Next, ctx: RunnerContext) -> None:
            ctx.send_event(OutputEvent([follow(ctx, ref) for ref in event.given]))

        assert hall.serve(write, read).handle("ada", 0) == ([1, 2],)

    # --- what is kept of it

    def test_a_step_keeps_which_items_it_looked_at(self, hall: Hall) -> None:
        """A step records the items it read, by owner, set and id, of keys and of knowledge."""

        @action(InputEvent)
        def work(event: InputEvent, ctx: RunnerContext) -> None:
            own, shared = ctx.long_term_memory.set("notes"), ctx.knowledge.set("notes")
            if event.input == "add":
                own.add("A red tent.", id="one")
                shared.add("A blue tent.", id="one")
                shared.add("A stove.", id="two")
                return
            own.get("one")
            shared.get(["two", "none"])
            shared.list()
            shared.history("one")
            own.search("tent")
            shared.search("tent")

        runner = hall.serve(work)
        runner.handle("ada", "add")
        run = hall.run(runner.submit("ada", "look").run)
        runner.run_until_idle()
        (step,) = hall.memory.store.steps(run.id)
        looked = ReadSet.of(step.read_set, run.scope)
        own = SetRef(run.scope, "notes")
        shared = SetRef(Scope(hall.memory.knowledge.name, None), "notes")
        assert [(ref, list(ids)) for ref, ids in looked.items] == [
            (own, ["one"]), (shared, ["two"]), (shared, ["one", "two"]), (shared, ["one"])
        ]  # fmt: skip
        mine, others = looked.searches
        assert (mine.sets, mine.query, mine.hits) == ([own], "tent", [(own, "one")])
        assert (others.sets, others.hits[0]) == ([shared], (shared, "one"))
        found = present(hall.memory.store.get(shared, ["one"], at=None)[0])
        assert (found.set, found.record.id) in set(looked.item_refs())


def follow(ctx: RunnerContext, reference: Any) -> object:
    """Return the object of a reference in JSON."""
    return ctx.sensory_memory.get(MemoryRef.from_json(reference))


@action(InputEvent)
def echo(event: InputEvent, ctx: RunnerContext) -> None:
    """Send the input."""
    ctx.send_event(OutputEvent(event.input))


class ConsumerLaws(RunnerLaws):
    """Laws of `outputs`, `retain` and `prune`."""

    def test_outputs_come_in_the_order_of_their_commits(self, hall: Hall) -> None:
        """Outputs are in the order of commits, with run and key.

        A position never changes its output.
        """
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
        """A request for the next output confirms the last.

        After a restart, an unconfirmed one repeats.
        """
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
        """A consumer may wait for outputs. The wait ends with the runner."""
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
        assert three.wait(LIMIT_S)
        runner.close()
        reader.join(LIMIT_S)
        assert (reader.is_alive(), seen) == (False, [0, 1, 2])

    def test_runs_are_kept_as_long_as_is_said(self, hall: Hall) -> None:
        """Runs are kept by age or by count. Their changes in memory stay."""
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
        """Pruning deletes every run outside the retention, in any number of transactions."""
        runner = hall.serve(echo, retain=Retain(age=None, count=1))
        for n in range(12):
            runner.handle("ada", n)
        steps, store = list[int](), hall.memory.store
        step = partial(store.prune_runs, limit=5)

        def few(*args: Any, **options: Any) -> int:
            steps.append(step(*args, **options))
            return steps[-1]

        monkeypatch.setattr(store, "prune_runs", few)
        runner.prune()  # the background thread may prune too
        assert (sum(steps), max(steps), store.stats().runs_ended) == (11, 5, 1)

    def test_what_was_pruned_is_not_passed_over_in_silence(self, hall: Hall) -> None:
        """A reader before the first kept output gets an error with its position."""
        runner = hall.serve(echo, retain=Retain(age=None, count=1))
        for n in range(3):
            runner.handle("ada", n)
        runner.prune()
        with pytest.raises(OutputsPruned) as pruned:
            list(runner.outputs(after=0))
        assert [o.value for o in runner.outputs(after=pruned.value.floor)] == [2]
        assert [o.value for o in runner.outputs(consumer="late")] == [2]

    def test_outputs_wait_for_their_consumers(self, hall: Hall) -> None:
        """Outputs that a named consumer has not read, and unfinished runs, are not pruned."""
        runner = hall.serve(echo, retain=Retain(age=None, count=0))
        assert list(runner.outputs(consumer="mailer")) == []
        for n in range(3):
            runner.handle("ada", n)
        assert runner.prune() == 0
        assert [o.value for o in runner.outputs(consumer="mailer")] == [0, 1, 2]
        assert runner.prune() == 3


def runner_floor(runner: LocalRunner) -> int:
    """Return the position of the first kept output."""
    try:
        return next(iter(runner.outputs())).position - 1
    except OutputsPruned as pruned:
        return pruned.floor


EVENTS = 50
HOUR = timedelta(hours=1)
BARE = Retain(age=timedelta(days=7), dedupe_for=timedelta(days=90), dedupe_count=0)
"""A retention by age alone, without a minimum count that would hide the clock's effect."""


@action(InputEvent)
def tally(event: InputEvent, ctx: RunnerContext) -> None:
    """Count each input."""
    ctx.short_term_memory.increment("seen")
    ctx.send_event(OutputEvent(event.input))


def tidy(memory: Memory) -> None:
    """Delete everything older than its retention, without the minimum counts of a sweep."""
    memory.sweep()
    memory.store.sweep(now=memory.engine.clock.settle(), ops_kept=0)


class WrongClockLaws(RunnerLaws):
    """Laws for a memory's clock that jumps and returns."""

    @pytest.mark.parametrize("days", [365, 3650, -365, -20000])
    def test_redelivered_events_are_recognised(self, hall: Hall, days: int) -> None:
        """Repeated events are recognised, whatever was pruned under a wrong clock."""
        runner = hall.serve(tally, retain=BARE)
        for n in range(EVENTS):
            runner.handle("ada", n, event_id=f"e{n}")
        self.clock.move(days=days)
        assert runner.prune() == 0
        runner.handle("ada", "meanwhile", event_id="meanwhile")
        self.clock.move(days=-days)
        assert runner.prune() == 0
        again = [runner.handle("ada", n, event_id=f"e{n}") for n in range(EVENTS)]
        assert again == [(n,) for n in range(EVENTS)]
        runner.handle("ada", "meanwhile", event_id="meanwhile")
        assert hall.memory.key("ada").short_term.get("seen") == EVENTS + 1

    @pytest.mark.parametrize("days", [365, -365])
    def test_a_repeated_request_is_recognised(self, hall: Hall, days: int) -> None:
        """Repeated requests are recognised, swept or not."""
        ada = hall.memory.key("ada")
        ada.short_term.once("visit").increment("visits")
        self.clock.move(days=days)
        tidy(hall.memory)
        ada.short_term.once("meanwhile").increment("visits")
        self.clock.move(days=-days)
        tidy(hall.memory)
        ada.short_term.once("visit").increment("visits")
        ada.short_term.once("meanwhile").increment("visits")
        assert ada.short_term.get("visits") == 2

    def test_what_a_wrong_clock_hides_comes_back(self, hall: Hall) -> None:
        """Items, values, versions and past moments hidden by a wrong clock reappear.

        No sweep deletes them.
        """
        ada = hall.memory.key("ada")
        offers = ada.set("offers", capacity=2, compaction="trim", retention=timedelta(days=30))
        offers.add("10 %", id="offer", expire_at=self.clock.now + timedelta(days=40))
        offers.add("5 %", id="other")
        offers.update("other", "6 %")
        ada.short_term.set("code", 42, ttl=timedelta(days=40))
        ada.short_term.set("code", 43, ttl=timedelta(days=40))
        then = self.clock.now
        self.clock.move(days=365)
        assert (offers.get("offer"), "code" in ada.short_term) == (None, False)
        tidy(hall.memory)
        offers.add("7 %", id="more")
        with pytest.raises(InvalidInput, match="Set the clock right"):
            hall.memory.prune_history(before=self.clock.now - timedelta(days=90))
        self.clock.move(days=-365)
        tidy(hall.memory)
        assert [item.id for item in offers.list()] == ["offer", "other", "more"]
        assert [item.version for item in offers.history("other")] == [1, 2]
        assert ada.short_term.get("code") == 43
        assert ada.short_term.at(then).get("code") == 43

    def test_what_really_expired_goes(self, hall: Hall) -> None:
        """Expired data is deleted once the time has really elapsed."""
        runner, ada = hall.serve(tally, retain=BARE), hall.memory.key("ada")
        runner.handle("ada", 1, event_id="e")
        ada.set("offers").add("10 %", id="offer", expire_at=self.clock.now + HOUR)
        ada.short_term.once("visit").increment("visits")
        self.clock.elapse(days=91)
        assert runner.prune() == 1
        tidy(hall.memory)
        ada.short_term.once("visit").increment("visits")
        runner.handle("ada", 1, event_id="e")
        assert (ada.short_term.get("visits"), ada.short_term.get("seen")) == (2, 2)
        assert ada.set("offers").history("offer")[-1].retired is not None

    def test_times_heal_when_the_clock_does(self, hall: Hall) -> None:
        """A corrected clock gives the next commit the right time.

        Old moments keep their meaning.
        """
        ada = hall.memory.key("ada")
        marks: list[tuple[datetime, object]] = []

        def written(value: int) -> datetime:
            ada.short_term.set("n", value)
            item = present(ada.get(ada.add(f"{value}")))
            assert item.created is not None
            marks.append((self.clock.now, value))
            return item.created

        written(1)
        self.clock.elapse(hours=1)
        written(2)
        for days in (365, -365):
            right = self.clock.now
            self.clock.move(days=days)
            written(3)
            marks.pop()
            self.clock.move(days=-days)
            self.clock.elapse(hours=1)
            assert right < written(4) <= self.clock.now
            assert [ada.short_term.at(when).get("n") for when, _ in marks] == [n for _, n in marks]
        assert [item.text for item in ada.list(as_of=marks[1][0])] == ["1", "2"]
        assert ada.short_term.at(marks[-1][0] + HOUR).get("n") == 4

    def test_a_clock_that_stays_ahead_is_believed_after_a_day(self, hall: Hall) -> None:
        """A clock that stays ahead is trusted after a day of observed elapsed time."""
        runner = hall.serve(tally, retain=BARE)
        runner.handle("ada", 1, event_id="e")
        self.clock.move(days=365)
        for hour in range(30):
            assert runner.prune() == (hour >= 24)
            if hour >= 24:
                break
            self.clock.elapse(hours=1)

    def test_a_clock_that_stays_behind_is_believed_after_a_day(self, hall: Hall) -> None:
        """A clock that stays behind is trusted after a day: commits do not stay in the future."""
        ada = hall.memory.key("ada")
        before = self.clock.now
        self.clock.move(days=-365)
        for hour in range(30):
            ada.short_term.set("n", hour)
            hall.memory.sweep()
            self.clock.elapse(hours=1)
        created = present(ada.get(ada.add("x")))
        assert created.created is not None
        assert created.created <= self.clock.now < before
