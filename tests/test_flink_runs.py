"""The vectors of Apache Flink Agents about runs (G) and what is recorded of them (J), by their ids.

A test is named after its vector, as in `test_flink_vectors.py`, which sees to it that each has one
place.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from alveus import Agent, Event, InputEvent, LocalRunner, Memory, OutputEvent, action
from alveus.errors import RunParked
from alveus.runs.durable_calls import (
    Calls,
    Durable,
    arguments_digest,
    call_name,
    checked_reconcile,
    options_of,
)
from alveus.state import MemoryKind, Overlay, committed_tree, root_of
from alveus.store import DurableCall, Retain
from alveus.store.runs import CallStatus
from alveus.values.forks import Flag
from doors import Letters
from harness.runner.runner_laws import ActionGate
from waiting import LIMIT_S


class Mid(Event):
    pass


class Recorder:
    """Keeps the records of one task, as a store would."""

    def __init__(self, *calls: DurableCall) -> None:
        self.records: list[DurableCall] = []
        self.kept = {call.position: call for call in calls}

    def record(self, call: DurableCall) -> None:
        self.records.append(call)
        self.kept[call.position] = call


class Open:
    """A context that may always be used."""

    def check_open(self) -> None: ...

    def seal(self, reason: str) -> None: ...

    def reopen(self) -> None: ...


def durable(*recorded: DurableCall, **settings) -> tuple[Durable, Recorder]:
    """Return what calls durably in a task of which this is recorded, and what it records."""
    recorder = Recorder(*recorded)
    calls = Calls(
        1, 0, "work", b"salt", recorder.record, Flag(), recorded=dict(recorder.kept), **settings
    )
    return Durable(calls, Open()), recorder


def slot(
    position: int, function, *args, status: CallStatus = "returned", outcome: str | None = None
) -> DurableCall:
    name = call_name(function, options_of(function))
    digest = arguments_digest(name, args, {}, b"salt")
    return DurableCall(1, 0, position, name, digest, status, outcome)


@action(InputEvent)
def action1(event, ctx):
    ctx.sensory_memory.set("tmp", event.input + 1)
    ctx.send_event(Mid())


@action(Mid)
def action2(event, ctx):
    ctx.send_event(OutputEvent(ctx.sensory_memory.get("tmp") * 2))


@pytest.fixture
def memory():
    with Memory.open(embedder=Letters()) as memory:
        yield memory


def serve(memory, *actions, **settings):
    return LocalRunner(Agent("helper", actions=actions, **settings), memory)


# --- G: runs, order, keys -----------------------------------------------------------------------


def test_g1_two_actions_and_their_output(memory):
    with serve(memory, action1, action2) as runner:
        assert (runner.handle("k", 0), runner.handle("k", 1)) == ((2,), (4,))


def test_g2_inputs_of_a_key_are_not_interleaved(memory):
    """Two inputs before anything runs: the tasks of the first, then those of the second."""
    order = []

    @action(InputEvent)
    def first(event, ctx):
        order.append(("first", event.input))
        ctx.send_event(Mid())

    @action(Mid)
    def then(event, ctx):
        order.append(("then", ctx.run.number))

    with serve(memory, first, then) as runner:
        list(runner.map([("k", 0), ("k", 1)]))
    assert order == [("first", 0), ("then", 0), ("first", 1), ("then", 1)]


def test_g3_inputs_of_two_keys(memory):
    with serve(memory, action1, action2) as runner:
        assert list(runner.map([("a", 0), ("b", 1)])) == [(2,), (4,)]


def test_g5_async_actions(memory):
    @action(InputEvent)
    async def work(event, ctx):
        if event.input == 7:
            plus = await ctx.durable(plus_100, event.input)
            ctx.send_event(OutputEvent(await ctx.durable(twice, plus)))
        else:
            ctx.send_event(OutputEvent(await ctx.durable(twice, event.input * 10)))

    with serve(memory, work) as runner:
        assert (runner.handle("k", 5), runner.handle("k", 7)) == ((100,), (214,))
        answers = [runner.submit(f"key {n}", n) for n in (3, 4)]
        assert {ticket.result(LIMIT_S)[0] for ticket in answers} == {60, 80}


def plus_100(n):
    return n + 100


def twice(n):
    return n * 2


def test_g9_sensory_memory_is_gone_with_its_run(memory):
    @action(InputEvent)
    def visit(event, ctx):
        sensory, short = ctx.sensory_memory, ctx.short_term_memory
        there = [m.is_exist(p) for m in (sensory, short) for p in ("existing", "existing.path")]
        sensory.set("existing.path", 1)
        short.set("existing.path", 1)
        ctx.send_event(OutputEvent(there))

    with serve(memory, visit) as runner:
        assert runner.handle("k", 0) == ([False, False, False, False],)
        assert runner.handle("k", 1) == ([False, False, True, True],)


def test_g10_what_follows_a_failure_does_not_run(memory):
    ran = []

    @action(InputEvent)
    def failing(event, ctx):
        raise RuntimeError

    @action(InputEvent)
    def second(event, ctx):
        ran.append("second")

    with serve(memory, failing, second) as runner, pytest.raises(RunParked):
        runner.handle("k", 0)
    assert ran == []


# --- J: what is recorded ------------------------------------------------------------------------


def test_j6_pruning_removes_what_is_over(memory):
    with serve(memory, action1, action2) as runner:
        runs = [runner.handle("k", n).run for n in range(3)]
        retain = Retain(age=None, count=1)
        assert memory.store.prune_runs("helper", "default", retain, now=memory.engine.clock()) == 2
        assert [memory.store.run(run) is not None for run in runs] == [False, False, True]
        assert runner.handle("k", 3).number == 3


def test_j7_what_is_complete_is_not_executed_again(memory):
    """The same input, to a new runner on the same store."""
    ran = []

    @action(InputEvent)
    def first(event, ctx):
        ran.append("first")
        action1(event, ctx)

    with serve(memory, first, action2) as runner:
        assert runner.handle("k", 7, event_id="e") == (16,)
    with serve(memory, first, action2) as runner:
        assert runner.handle("k", 7, event_id="e") == (16,)
        assert [output.value for output in runner.outputs()] == [16]
    assert ran == ["first"]


def test_j9_nothing_is_pruned_that_recovery_needs(memory):
    """A run is pruned after it has ended, and not before."""
    gate = ActionGate()

    @action(InputEvent)
    def wait(event, ctx):
        gate.stop()

    with serve(memory, wait) as runner:
        ticket = runner.submit("k", 0)
        gate.reached()
        nothing = Retain(age=timedelta(microseconds=0), count=0)
        now = memory.engine.clock() + 10**12
        assert memory.store.prune_runs("helper", "default", nothing, now=now) == 0
        gate.open()
        ticket.result(LIMIT_S)
        assert memory.store.prune_runs("helper", "default", nothing, now=now) == 1


def test_j10_a_run_under_way_is_left(memory):
    """Of two inputs, only the one that is over is pruned."""
    gate = ActionGate()

    @action(InputEvent)
    def wait(event, ctx):
        if event.input == 1:
            gate.stop()

    with serve(memory, wait) as runner:
        tickets = [runner.submit("k", n) for n in range(2)]
        tickets[0].result(LIMIT_S)
        gate.reached()
        nothing = Retain(age=timedelta(microseconds=0), count=0)
        now = memory.engine.clock() + 10**12
        assert memory.store.prune_runs("helper", "default", nothing, now=now) == 1
        assert memory.store.run(tickets[1].run) is not None
        gate.open()


def times(made, a, b):
    made.append((a, b))
    return a * b


def test_j12_a_call_is_made_once():
    made = []

    def multiply(a, b):
        return times(made, a, b)

    call, recorder = durable()
    assert call(multiply, 7, 3) == 21
    again, _ = durable(*recorder.kept.values())
    assert again(multiply, 7, 3) == 21
    assert made == [(7, 3)]


def test_j13_an_error_is_raised_again():
    made = []

    def failing():
        made.append(1)
        raise ConnectionError("too far")

    call, recorder = durable()
    with pytest.raises(ConnectionError, match="too far"):
        call(failing)
    again, _ = durable(*recorder.kept.values())
    with pytest.raises(ConnectionError, match="too far"):
        again(failing)
    assert made == [1]


def charge():
    raise AssertionError


def test_j14_a_reconciler_answers_for_a_pending_call():
    call, recorder = durable(slot(0, charge, status="pending"))
    assert call.using(reconcile=lambda: 42)(charge) == 42
    assert [(c.status, c.outcome) for c in recorder.records] == [("returned", "42")]


def test_j15_a_reconciler_that_raises():
    def unavailable():
        raise RuntimeError("reconcile unavailable")

    call, recorder = durable(slot(0, charge, status="pending"))
    with pytest.raises(RuntimeError, match="reconcile unavailable"):
        call.using(reconcile=unavailable)(charge)
    assert [c.status for c in recorder.records] == ["raised"]


def test_j16_a_pending_call_of_another_name():
    """Where the agent says "truncate": the reconciler is not asked, the call is made; 3 writes."""
    call, recorder = durable(slot(0, charge, status="pending"), on_mismatch="truncate")
    assert call.using(reconcile=charge)(twice, 2) == 4
    assert [(c.status, c.truncate) for c in recorder.records] == [
        ("pending", True),
        ("pending", False),
        ("returned", False),
    ]


def test_j17_a_complete_call_then_a_pending_one():
    complete, pending = slot(0, charge, outcome="11"), slot(1, charge, status="pending")
    call, _ = durable(complete, pending)
    assert call(charge) + call.using(reconcile=lambda: 50)(charge) == 61


def test_j18_how_often_a_call_is_written():
    for reconcile, writes in ((None, 1), (charge, 2)):
        call, recorder = durable()
        assert call.using(reconcile=reconcile)(twice, 2) == 4
        assert len(recorder.records) == writes


def test_j19_digests_of_arguments():
    def digest(*args, **kwargs):
        return arguments_digest("f", args, kwargs, b"salt")

    assert digest(1, 2) == digest(1, 2)
    assert len({digest(1, 2), digest(1, 3), digest(2, 1), digest(a=1, b=2), digest([1, 2])}) == 5
    assert digest(a=1, b=2) == digest(b=2, a=1)
    assert len(digest()) == 16


@pytest.mark.parametrize(
    ("reconcile", "says"), [(1, "must be a function"), (lambda needed: needed, "take no arguments")]
)
def test_j20_what_a_reconciler_is(reconcile, says):
    with pytest.raises(TypeError, match=says):
        checked_reconcile(reconcile)
    assert checked_reconcile(None) is None
    assert checked_reconcile([].copy) is not None


@pytest.mark.parametrize("value", [b"\x00\x01", 1 << 70, {"a": [1, [2.5, None], {}]}, None, "é"])
def test_j21_what_is_written_to_memory_keeps_its_type(value):
    """In the steps of a run, from which its sensory memory is made again."""
    tree = Overlay.over(None, kind=MemoryKind.SENSORY, now=0)
    root_of(tree).set("a.b", value)
    again = Overlay.over(None, kind=MemoryKind.SENSORY, now=0)
    again.apply(committed_tree.deltas_from_json(committed_tree.deltas_to_json(tree.deltas())))
    assert root_of(again).get("a.b") == value
    assert type(root_of(again).get("a.b")) is type(value)


def test_j22_objects_are_made_again():
    """Into an empty tree, and over what is there; twice is the same."""
    tree = Overlay.over(None, kind=MemoryKind.SENSORY, now=0)
    root_of(tree).new_object("user")
    root_of(tree).set("user.name", "ada")
    changes = committed_tree.deltas_from_json(committed_tree.deltas_to_json(tree.deltas()))
    again = Overlay.over(None, kind=MemoryKind.SENSORY, now=0)
    again.apply(changes)
    again.apply(changes)
    assert root_of(again).to_dict() == {"user": {"name": "ada"}}


def test_both_kinds_of_calls_keep_the_same_records():
    """What an async action records is what a plain one does."""
    call, recorder = durable(is_async=True)
    assert asyncio.run(call(twice, 2)) == 4
    plain, other = durable()
    assert plain(twice, 2) == 4
    assert recorder.records == other.records
