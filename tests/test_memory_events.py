"""Memory events; vectors H and I of Flink Agents are named after their ids: `test_h1_…` is H1.

The rows of the table in docs/coming-from/flink-agents.md are the others; see test_flink_vectors.
"""

from __future__ import annotations

import contextlib
import logging
import random
from pathlib import Path
from typing import Any

import pytest

from alveus import Agent, Event, InputEvent, LocalRunner, Memory, OutputEvent, action
from alveus.compat.flink_agents import memory_events
from alveus.errors import AlveusError, InvalidInput, RunParked, TreeConflict
from alveus.runs.memory_recorder import MemoryRecorder
from alveus.state import MemoryKind, Overlay, root_of
from alveus.store import Batch, Scope, StatusChange
from alveus.values import wire
from alveus.values.events import (
    MEMORY_EVENTS,
    LongTermGetEvent,
    LongTermSearchEvent,
    LongTermUpdateEvent,
    MemoryEvent,
    MemoryEvents,
    RunBeginEvent,
    SensoryReadEvent,
    SensoryWriteEvent,
    ShortTermReadEvent,
    ShortTermWriteEvent,
)
from doors import Letters
from scale import COUNTS

NOW = 1_800_000_000_000_000
ALL = MemoryEvents(every="values", run_begin="off")


@pytest.fixture(params=["ram", "file"])
def memory(request: pytest.FixtureRequest, tmp_path: Path):
    url = ":memory:" if request.param == "ram" else tmp_path / "app.db"
    with Memory.open(url, embedder=Letters()) as memory:
        yield memory


@pytest.fixture
def ram():
    with Memory.open(embedder=Letters()) as memory:
        yield memory


def told_of(memory, body, *, events=ALL, inputs=(("ada", None),), actions=()):
    """What a listener is told while an agent of one action, *body*, handles inputs."""

    @action(InputEvent)
    def act(event, ctx):
        body(ctx)

    agent = Agent("a", actions=[act, *actions], memory_events=events)
    heard: list[Any] = []
    stop = memory.subscribe(heard.append)
    with LocalRunner(agent, memory) as runner:
        for key, value in inputs:
            runner.handle(key, value)
    stop()
    return heard


def values(events, kind):
    return [event.value for event in events if type(event) is kind]


def sent(memory, run=1):
    """The classes of the events that the steps of a run keep, in order."""
    kept: list[Any] = [wire.decode(step.sent) for step in memory.store.steps(run) if step.sent]
    return [event[0] for step in kept for event, _ in step]


# --- H: the beginning of a run ------------------------------------------------------------------


class Gold(Agent):
    memory_events = MemoryEvents(run_begin="values")

    @action(InputEvent)
    def act(self, event, ctx):
        ctx.short_term_memory.set("user.tier", "gold")


def begun(memory, agent, keys):
    heard: list[MemoryEvent] = []
    stop = memory.subscribe(heard.append, kinds=[RunBeginEvent])
    with LocalRunner(agent, memory) as runner:
        for key in keys:
            runner.handle(key, None)
    stop()
    return heard


def test_h1_each_run_begins_with_what_is_there(memory):
    first, second = begun(memory, Gold, ["42", "42"])
    assert (first.value, second.value) == ({}, {"user.tier": "gold"})
    assert first.key == second.key == "42"
    assert first.id != second.id


def test_h2_keys_do_not_see_each_other(memory):
    heard = begun(memory, Gold, ["1", "2", "1"])
    assert [(e.key, e.value) for e in heard] == [("1", {}), ("2", {}), ("1", {"user.tier": "gold"})]


@pytest.mark.parametrize("events", [MemoryEvents(), MemoryEvents(run_begin="off")], ids=repr)
def test_h3_off_unless_it_is_on(memory, events):
    agent = Gold()
    agent.memory_events = events
    assert begun(memory, agent, ["1", "1"]) == []
    assert len(memory.store.steps(1)) == 1


class Watches(Agent):
    """Asks for the beginning, which is thereby on, and writes before the input's action does."""

    @action(InputEvent)
    def act(self, event, ctx):
        assert ctx.short_term_memory.get("run.begin.seen") is True
        ctx.short_term_memory.set("user.tier", "gold")
        ctx.send_event(OutputEvent(event.id))

    @action(RunBeginEvent)
    def began(self, event, ctx):
        ctx.short_term_memory.set("run.begin.seen", True)


def test_h4_an_action_of_the_beginning_goes_first(memory):
    first, second = begun(memory, Watches, ["k", "k"])
    assert first.value == {}
    assert second.value == {"run.begin.seen": True, "user.tier": "gold"}


def test_the_input_keeps_its_id_behind_the_beginning(memory):
    """What goes first does not change the input."""
    with LocalRunner(Watches, memory) as runner:
        assert runner.handle("k", None, event_id="mine") == ("mine",)


def test_a_beginning_that_was_told_is_not_told_again(ram):
    """A run that goes on after a crash goes on with what it told; the input is not lost."""

    class Fails(Agent):
        broken = True

        @action(RunBeginEvent)
        def began(self, event, ctx):
            ctx.short_term_memory.set("seen", event.value)

        @action(RunBeginEvent)
        def also(self, event, ctx):
            if Fails.broken:
                raise LookupError
            ctx.send_event(OutputEvent(event.value))

        @action(InputEvent)
        def act(self, event, ctx):
            ctx.send_event(OutputEvent("input"))

    with LocalRunner(Fails, ram) as runner:
        with pytest.raises(RunParked):
            runner.handle("k", None)
        Fails.broken = False
        scope = Scope("default", "k")
        lease = ram.store.acquire_lease(scope, "somebody")
        turn = StatusChange(1, "parked", "waiting")
        ram.store.commit(Batch(scope=scope, time=NOW, epoch=lease.epoch, run=turn, release=True))
        runner.run_until_idle()
    assert [output.value for output in LocalRunner(Fails, ram).outputs()] == [{}, "input"]
    assert ram.key("k").short_term.get("seen") == {}


# --- I: memory events ---------------------------------------------------------------------------


def test_i1_the_last_write_stands_in_the_place_of_the_first(memory):
    def body(ctx):
        m = ctx.short_term_memory
        m.set("tier", "silver")
        m.set("nullable", None)
        m.set("tier", "gold")

    (event,) = told_of(memory, body)
    assert list(event.value.items()) == [("tier", "gold"), ("nullable", None)]
    assert event.objects == []


def test_i2_what_no_event_can_carry_is_left_out(memory, caplog):
    def body(ctx):
        ctx.short_term_memory.set("bad", float("nan"))
        ctx.short_term_memory.set("good", "v")

    assert values(told_of(memory, body), ShortTermWriteEvent) == [{"good": "v"}]
    assert "left out" in caplog.text
    assert "bad" not in caplog.text


def test_i3_nothing_stale_is_told(memory):
    def body(ctx):
        m = ctx.short_term_memory
        m.set("stale", "old")
        m.set("kept", "current")
        m.set("stale", float("nan"))

    assert values(told_of(memory, body), ShortTermWriteEvent) == [{"kept": "current"}]


def test_i4_sets_are_folded(memory):
    def body(ctx):
        a, other = ctx.long_term_memory.set("a"), ctx.long_term_memory.set("a.b")
        a.add("lost", id="m1")
        other.add("kept", id="m1")
        a.clear()
        a.add("old", id="m2")
        a.update("m2", "new")
        other.get("m1")
        other.search("q")

    update, got, searched = told_of(memory, body)
    assert update.value == {"a": {"m2": "new"}, "a.b": {"m1": "kept"}}
    assert update.cleared_sets == ["a"]
    assert got.value == {"a.b": {"m1": "kept"}}
    (hit,) = searched.value["a.b"]["q"]
    assert (hit["id"], hit["value"]) == ("m1", "kept")
    assert hit["score"] > 0


def busy(ctx):
    """Gives every kind something to tell."""
    for m in (ctx.short_term_memory, ctx.sensory_memory):
        m.set("x", 1)
        m.get("x")
    items = ctx.long_term_memory.set("s")
    items.add("tea", id="i")
    items.get("i")
    items.search("tea")


def kinds(memory, events):
    @action(InputEvent)
    def act(event, ctx):
        busy(ctx)

    with LocalRunner(Agent("a", actions=[act], memory_events=events), memory) as runner:
        runner.handle("ada", None)
    return sent(memory)


EVERY = [kind.__name__ for kind in MEMORY_EVENTS if kind is not RunBeginEvent]


def test_i6_where_nothing_is_said_of_a_job(ram):
    found = kinds(ram, memory_events({}))
    assert found == [kind for kind in EVERY if not kind.endswith("ReadEvent")]


def test_i7_all_off(ram):
    assert kinds(ram, MemoryEvents(every="off")) == []


def test_i8_all_on(ram):
    assert [k for k in kinds(ram, ALL) if k in EVERY] == EVERY


def test_i9_a_kind_of_its_own_over_all_off(ram):
    chosen = MemoryEvents(every="off", long_term_update="values", short_term_write="values")
    assert kinds(ram, chosen) == ["ShortTermWriteEvent", "LongTermUpdateEvent"]


def test_i10_a_kind_off_over_all_on(ram):
    found = kinds(ram, MemoryEvents(every="values", long_term_search="off"))
    assert "LongTermSearchEvent" not in found
    assert "LongTermGetEvent" in found


def test_i11_objects_and_values(memory):
    def body(ctx):
        m = ctx.short_term_memory
        m.new_object("empty")
        m.set("user.tier", "gold")
        m.get("user").get_fields()

    heard = told_of(memory, body)
    (write,) = (e for e in heard if type(e) is ShortTermWriteEvent)
    assert list(write.value.items()) == [("empty", None), ("user.tier", "gold")]
    assert write.objects == ["empty"]
    assert values(heard, ShortTermReadEvent) == [{"user.tier": "gold"}]


def test_i12_a_way_through_objects_is_one_read(memory):
    def body(ctx):
        m = ctx.short_term_memory
        m.set("user.address.city", "Lisbon")
        m.get("user").get("address").get("city")

    heard = told_of(memory, body)
    assert values(heard, ShortTermReadEvent) == [{"user.address.city": "Lisbon"}]


def test_i13_fields_that_are_objects_are_no_reads(memory):
    def body(ctx):
        user = ctx.short_term_memory.new_object("user")
        user.new_object("empty")
        user.set("tier", "gold")
        user.get_fields()
        assert user.is_exist("tier")
        user.get_field_names()

    assert values(told_of(memory, body), ShortTermReadEvent) == [{"user.tier": "gold"}]


def test_i14_an_async_action_tells_once_when_it_is_over(memory):
    def nothing() -> None:
        """A durable call, in which the action waits."""

    @action(InputEvent)
    async def act(event, ctx):
        ctx.short_term_memory.set("first", 1)
        await ctx.durable(nothing)
        assert heard == []
        ctx.short_term_memory.set("second", 2)

    heard: list[MemoryEvent] = []
    memory.subscribe(heard.append)
    with LocalRunner(Agent("a", actions=[act]), memory) as runner:
        runner.handle("ada", None)
    assert values(heard, ShortTermWriteEvent) == [{"first": 1, "second": 2}]


class Told(Event):
    """An event of the user's own."""


def test_i15_memory_events_come_behind_those_of_the_action(memory):
    @action(InputEvent)
    def act(event, ctx):
        ctx.short_term_memory.set("x", 1)
        ctx.send_event(Told())

    agent = Agent("a", actions=[act], memory_events=MemoryEvents(short_term_write="paths"))
    with LocalRunner(agent, memory) as runner:
        runner.handle("ada", None)
    assert sent(memory) == ["Told", "ShortTermWriteEvent"]


def test_i16_what_a_memory_event_sets_off_tells_nothing(memory):
    @action(ShortTermWriteEvent)
    def audit(event, ctx):
        ctx.short_term_memory.append("audit", [*event.value])
        ctx.long_term_memory.set("log").add("written")

    heard = told_of(memory, lambda ctx: ctx.short_term_memory.set("x", 1), actions=[audit])
    assert values(heard, ShortTermWriteEvent) == [{"x": 1}]
    assert values(heard, LongTermUpdateEvent) == []
    assert memory.key("ada").short_term.get("audit") == [["x"]]


def test_i17_a_failed_action_tells_nothing_and_takes_nothing_from_others(memory):
    @action(InputEvent, on_error="skip")
    def fails(event, ctx):
        ctx.long_term_memory.set("s").add("lost", id="lost")
        raise LookupError

    def body(ctx):
        ctx.long_term_memory.set("s").add("kept", id="kept")

    heard = told_of(memory, body, actions=[fails])
    assert values(heard, LongTermUpdateEvent) == [{"s": {"kept": "kept"}}]


@pytest.mark.parametrize("names", ["prefs", ("prefs",), {"prefs"}, {"prefs": 1}, 1], ids=repr)
def test_i20_cleared_sets_are_a_list_of_names(names):
    with pytest.raises(TypeError, match="must be a list"):
        LongTermUpdateEvent({}, cleared_sets=names)
    with pytest.raises(TypeError, match="only strings"):
        LongTermUpdateEvent({}, cleared_sets=["prefs", 1])  # pyright: ignore[reportArgumentType] - the law
    assert LongTermUpdateEvent({}, cleared_sets=None).cleared_sets == []  # pyright: ignore[reportArgumentType] - the law


# --- what the vectors do not say ----------------------------------------------------------------


def test_everything_is_off_and_costs_nothing():
    """Without a reader, nothing is recorded: overlay and draft of an action have no recorder."""
    with Memory.open(embedder=Letters()) as memory:
        seen: list[object] = []

        @action(InputEvent)
        def act(event, ctx):
            busy(ctx)
            task = ctx._task
            seen.extend(task._made[part]._recorder for part in ("short", "draft"))

        with LocalRunner(Agent("a", actions=[act]), memory) as runner:
            runner.handle("ada", None)
        assert seen == [None, None]
        assert sent(memory) == []


def test_what_is_asked_for_is_told_unless_it_is_off(ram):
    """An action that asks for a kind switches it on; the agent's word against it holds."""
    found: list[object] = []

    @action(SensoryWriteEvent)
    def audit(event, ctx):
        found.append(event.value)

    @action(InputEvent)
    def act(event, ctx):
        busy(ctx)

    for name, events in (("on", MemoryEvents()), ("off", MemoryEvents(sensory_write="off"))):
        with LocalRunner(Agent(name, actions=[act, audit], memory_events=events), ram) as runner:
            runner.handle(name, None)
    assert found == [{"x": 1}]
    assert sent(ram) == ["SensoryWriteEvent"]


def test_paths_say_where_but_not_what(ram):
    """With "paths", no value leaves memory."""

    def body(ctx):
        busy(ctx)
        ctx.long_term_memory.set("s").delete("i")

    heard = told_of(ram, body, events=MemoryEvents(every="paths"))
    for event in heard:
        assert event.detail == "paths"
    assert values(heard, ShortTermReadEvent) == [{"x": None}]
    assert values(heard, SensoryReadEvent) == [{"x": None}]
    assert values(heard, SensoryWriteEvent) == [{"x": None}]
    assert values(heard, LongTermGetEvent) == [{"s": {"i": None}}]
    (update,) = (e for e in heard if type(e) is LongTermUpdateEvent)
    assert (update.value, update.deleted) == ({"s": {"i": None}}, {"s": ["i"]})
    (answer,) = values(heard, LongTermSearchEvent)
    assert answer["s"]["tea"][0]["value"] is None
    assert values(heard, RunBeginEvent) == [{}]


def test_deletions_are_told_apart_from_none(ram):
    """What a write event says leads from one tree to the other."""
    short = ram.key("ada").short_term
    short.set("old.x", 1)
    short.set("emptied.x", 1)
    short.set("turned", 1)

    def body(ctx):
        m = ctx.short_term_memory
        m.delete("old")
        m.get("emptied").clear()
        m.new_object("turned", overwrite=True).set("x", 2)
        m.set("copy", m.get("turned"))
        m.set("brief", 1)
        m.delete("brief")
        m.increment("count")
        m.append("list", 1)
        m.set(("a.b", "c"), 3)
        m.set("way.gone", 1)
        m.delete("way.gone")

    (write,) = told_of(ram, body, events=MemoryEvents(short_term_write="values"))[:1]
    assert write.deleted == ["old"]
    assert write.cleared == ["emptied"]
    assert write.value == {
        "turned": None,
        "turned.x": 2,
        "copy": None,
        "copy.x": 2,
        "count": 1,
        "list": [1],
        '["a.b", "c"]': 3,
        "way": None,
    }
    assert set(write.objects) == {"turned", "copy", "way"}


NAMES = ("a", "b", "c")


def step(m, chance: random.Random) -> None:
    """Do something to an exact tree; what is refused changes nothing."""
    path = ".".join(chance.choices(NAMES, k=chance.randint(1, 3)))
    other = m.get(".".join(chance.choices(NAMES, k=chance.randint(1, 2))))
    calls = [
        lambda: m.set(path, chance.randint(0, 9)),
        lambda: m.set(path, None),
        lambda: m.new_object(path, overwrite=chance.random() < 0.5),
        lambda: m.delete(path),
        lambda: m.increment(path),
        lambda: m.append(path, chance.randint(0, 9)),
        lambda: m.get_object(path).clear(),
        lambda: m.set(path, other),
    ]
    with contextlib.suppress(TreeConflict):
        chance.choice(calls)()


def redo(m, event) -> None:
    """Do to a tree what a write event says was done."""
    for path in event.deleted:
        m.delete(path)
    for path in event.cleared:
        m.get_object(path).clear()
    for path, value in event.value.items():
        if path in event.objects:
            m.new_object(path, overwrite=True)
        else:
            m.set(path, value)


@pytest.mark.parametrize("seed", range(COUNTS.fuzz_examples))
def test_a_write_event_leads_from_one_tree_to_the_other(seed):
    """Whoever has the tree as it was, and the event, has the tree as it is."""
    chance = random.Random(seed)
    base = Overlay.over(None, kind=MemoryKind.SHORT_TERM, now=0)
    for _ in range(chance.randint(0, 12)):
        step(root_of(base), chance)
    recorder = MemoryRecorder(MemoryEvents(every="values").reported(()), Scope("s", "ada"))
    kind = MemoryKind.SHORT_TERM
    tree = Overlay.over(base, kind=kind, now=0, recorder=recorder.tree(kind))
    for _ in range(chance.randint(0, 12)):
        step(root_of(tree), chance)
    copy = Overlay.over(base, kind=MemoryKind.SHORT_TERM, now=0)
    for event in recorder.events((), tree.deltas()):
        if isinstance(event, ShortTermWriteEvent):
            redo(root_of(copy), event)
    assert root_of(copy).to_dict() == root_of(tree).to_dict()


def test_reads_are_copies(ram):
    """What an action makes of a list that it read is not what it read."""
    ram.key("ada").short_term.set("list", [1])

    def body(ctx):
        ctx.short_term_memory.get("list").append(2)
        ctx.short_term_memory.to_dict()["list"].append(3)

    assert values(told_of(ram, body), ShortTermReadEvent) == [{"list": [1]}]


def test_knowledge_is_not_long_term_memory(ram):
    """Memory events tell of the key's own sets."""

    def body(ctx):
        rules = ctx.knowledge.set("rules")
        rules.add("no sugar", id="r")
        rules.get("r")
        rules.search("sugar")
        rules.clear()

    assert told_of(ram, body) == []


def test_a_listener_is_told_after_the_commit(memory):
    """When it is called, everybody sees what it is told of."""
    seen: list[object] = []
    memory.subscribe(
        lambda event: seen.append(memory.key(event.key).short_term.get("x")),
        kinds=[ShortTermWriteEvent],
    )

    @action(InputEvent)
    def act(event, ctx):
        busy(ctx)

    with LocalRunner(Agent("a", actions=[act]), memory) as runner:
        runner.handle("ada", None)
        assert seen == [1]
        assert sent(memory) == []


def test_a_listener_that_raises_is_dropped(ram, caplog):
    """It is told in the log, and neither the run nor other listeners notice."""
    calls: list[str] = []
    heard: list[MemoryEvent] = []

    def bad(event):
        calls.append(event.type)
        raise LookupError("listener")

    ram.subscribe(bad)
    ram.subscribe(heard.append, kinds=[ShortTermWriteEvent])

    @action(InputEvent)
    def act(event, ctx):
        ctx.short_term_memory.set("x", event.input)
        ctx.send_event(OutputEvent("fine"))

    with caplog.at_level(logging.ERROR), LocalRunner(Agent("a", actions=[act]), ram) as runner:
        assert runner.handle("ada", 1) == ("fine",)
        assert runner.handle("ada", 2) == ("fine",)
    assert calls == ["ShortTermWriteEvent"]
    assert "dropped" in caplog.text
    assert [e.value for e in heard] == [{"x": 1}, {"x": 2}]


def test_who_unsubscribed_is_told_no_more(ram):
    """And nothing is noted for him any more; twice is fine."""
    heard: list[MemoryEvent] = []
    stop = ram.subscribe(heard.append)
    stop()
    stop()
    assert ram.engine.listeners.kinds == frozenset()
    assert told_of(ram, busy, events=MemoryEvents()) != []
    assert heard == []


def test_what_cannot_be_meant_is_refused(ram):
    """Errors name what was passed."""
    with pytest.raises(InvalidInput, match="'all'"):
        MemoryEvents(every="all")  # pyright: ignore[reportArgumentType] - the law
    with pytest.raises(InvalidInput, match="memory events"):
        ram.subscribe(print, kinds=[InputEvent])
    with pytest.raises(InvalidInput, match="function"):
        ram.subscribe("print")
    with pytest.raises(TypeError, match="must be of a subclass"):
        MemoryEvent({})
    with pytest.raises(TypeError, match="must be a dict"):
        ShortTermWriteEvent(None)  # pyright: ignore[reportArgumentType] - the law

    class Wrong(Gold):
        memory_events = True  # pyright: ignore[reportAssignmentType] - the law

    with pytest.raises(AlveusError, match="MemoryEvents"):
        LocalRunner(Wrong, ram)
