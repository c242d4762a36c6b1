"""Laws of memory in actions: who sees what, and when."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from fornix.errors import RunParked, Unusable
from fornix.events.events import Event, InputEvent, OutputEvent
from fornix.runs.agent import action
from fornix.runs.task import RunnerContext
from fornix.state import MemoryObject, MemoryRef, Ttl
from fornix.store import Scope, SetRef
from fornix.store.stored_read_set import Looked
from fornix.testing.runner.runner_laws import LONG_S, SHORT_S, ActionGate, Hall, RunnerLaws


class Next(Event):
    """Goes to the second action of a run."""

    given: Any = None


class RunMemoryLaws(RunnerLaws):
    """What holds of the memories that an action works with."""

    # --- one commit per action

    def test_an_action_sees_its_own_writes_at_once(self, hall: Hall) -> None:
        """Exact values, and items by id, by list and by search; so do later actions of its run."""
        seen: list[object] = []

        def look(ctx: RunnerContext) -> None:
            items = ctx.long_term_memory
            found = items.get("i")
            assert found is not None
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
        """Ids of items follow from the task, which is not its action alone."""

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
        """Nothing of an action is there before it has returned; then all of it is."""
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
        assert ticket.result(LONG_S) == ("out",)
        assert (ada.short_term.get("a"), hall.texts("ada")) == (1, ["kept"])
        assert [item.value for item in handbook.list()] == ["shared"]
        assert [output.value for output in runner.outputs()] == ["out"]

    def test_nobody_sees_writes_of_an_action_that_failed(self, hall: Hall) -> None:
        """Neither values, nor items, nor knowledge, nor events; of the actions before it, all."""

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
        """Only knowledge is shared."""

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
        """The exact tree is read as it was when the action began."""
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
        ticket.result(LONG_S)
        other.join(LONG_S)
        assert tree.get("n") == 102

    @pytest.mark.parametrize("late", [False, True])
    def test_an_item_that_moved_on_starts_the_action_over(self, hall: Hall, *, late: bool) -> None:
        """What it did before is not kept, and it sees the item as it is now."""
        gate, attempts = ActionGate(), list[int]()

        @action(InputEvent)
        def extend(event: InputEvent, ctx: RunnerContext) -> None:
            attempts.append(ctx.run.attempt)
            notes = ctx.long_term_memory
            found = notes.get("i")
            assert found is not None
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
        assert ticket.result(LONG_S) == ("first, second",)
        assert (hall.texts("ada"), attempts) == (["first, second, third"], [1, 2])

    # --- the run's own memory

    def test_sensory_memory_lasts_as_long_as_its_run(self, hall: Hall) -> None:
        """It is empty when a run begins, shared by its actions, and gone when it ends."""

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
        """For its retry; a later run of the key that goes on meanwhile starts empty."""
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
        """`ctx.now` is the same in all actions of a run, after a crash as well."""
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
        answer = hall.serve(first, then).handle("ada", 0, event_id="e1", wait_s=LONG_S)
        assert answer[0][0] == answer[0][1] == answer[1]
        assert ticket.run == answer.run

    def test_short_term_values_live_as_long_as_the_agent_says(self, hall: Hall) -> None:
        """Where a write does not say; an expired one is gone in the run that finds it so."""

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
        """Whatever is done with it then, or with what came from it, would be lost: it raises."""
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
        """Its key, its run, its time; and its memories by the names of Flink Agents too."""
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
        """And is followed where it arrives, into either exact memory."""

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
        """By owner, set and id, which name an item of a key or of any knowledge in the store."""

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
        looked = Looked.of(step.looked, run.scope)
        own = SetRef(run.scope, "notes")
        shared = SetRef(Scope(hall.memory.knowledge.name, None), "notes")
        assert [(ref, list(ids)) for ref, ids in looked.items] == [
            (own, ["one"]), (shared, ["two"]), (shared, ["one", "two"]), (shared, ["one"])
        ]  # fmt: skip
        mine, others = looked.searches
        assert (mine.sets, mine.query, mine.hits) == ([own], "tent", [(own, "one")])
        assert (others.sets, others.hits[0]) == ([shared], (shared, "one"))
        found = hall.memory.store.get(shared, ["one"], at=None)[0]
        assert found is not None
        assert (found.set, found.record.id) in set(looked.found())


def follow(ctx: RunnerContext, reference: Any) -> object:
    """Return what a reference in JSON leads to."""
    return ctx.sensory_memory.get(MemoryRef.from_json(reference))
