"""What a runner does with arguments that make no sense, and with errors of odd kinds."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import inspect
import subprocess
import sys
import threading
from contextlib import ExitStack
from typing import Any

import pytest

from alveus import (
    Agent,
    InputEvent,
    LocalRunner,
    Memory,
    OutputEvent,
    Retain,
    Retry,
    action,
    durable,
)
from alveus.errors import InvalidInput, NotFound, RunParked, RunPending, StoreBusy
from alveus.sets.batch import Draft
from alveus.state.cells import Cells
from alveus.store.running_keys import RunningKey
from alveus.store.scope import Scope
from waiting import LIMIT_S, SHORT_S, wait_until


class Odd(BaseException):
    """Such as what pytest.fail raises."""


class Mute(Exception):
    def __str__(self):
        raise RuntimeError("no words")


@action(InputEvent)
def echo(event, ctx):
    ctx.send_event(OutputEvent(event.input))


ECHO = Agent("echo", actions=[echo])


@pytest.fixture
def memory():
    with Memory.open(embedder="words", wait_s=3600) as memory:
        yield memory


@pytest.mark.parametrize("retain", ["7d", 3, 0])
def test_retain_of_another_type_is_refused(memory, retain):
    with pytest.raises(InvalidInput, match="retain must be a Retain"):
        LocalRunner(ECHO, memory, retain=retain)


@pytest.mark.parametrize(
    "setting",
    [
        {"attempts": 0}, {"wait_s": "a"}, {"wait_s": None}, {"wait_s": True}, {"wait_s": -1},
        {"factor": "x"}, {"factor": 0.5}, {"most_s": float("inf")}, {"jitter": "x"}, {"jitter": 2},
        {"on": 3}, {"on": (3,)}, {"on": [ValueError]}, {"on": (int,)},
    ],
)  # fmt: skip
def test_a_retry_that_could_not_be_done_is_refused(setting):
    """When it is made; not when an action has failed."""
    with pytest.raises(InvalidInput, match=next(iter(setting))):
        Retry(**setting)


def test_a_retry_takes_one_class_of_errors_as_well():
    assert Retry(on=ValueError) == Retry(on=(ValueError,))  # pyright: ignore[reportArgumentType] - forgiven


@pytest.mark.parametrize("count", ["x", -1, 1 << 63])
def test_a_number_of_runs_that_cannot_be_kept_is_refused(count):
    with pytest.raises(InvalidInput, match="count must be"):
        Retain(count=count)


@pytest.mark.parametrize(
    "setting", [{"name": 3}, {"name": ""}, {"name": "x" * 5000}, {"retry": 3}, {"reconcile": 3}]
)
def test_a_durable_call_that_could_not_be_made_is_refused(memory, setting):
    """Where the function is marked, and in the action; not when the call fails."""
    with pytest.raises(InvalidInput):
        durable(**setting)

    @action(InputEvent)
    def work(event, ctx):
        with pytest.raises(InvalidInput):
            ctx.durable.using(**setting)
        with pytest.raises(InvalidInput, match="must be given a function, not 3"):
            ctx.durable(3)
        assert "call it with a function" in repr(ctx.durable)
        ctx.send_event(OutputEvent("refused"))

    with LocalRunner(Agent("calls", actions=[work]), memory) as runner:
        assert runner.handle("ada", 1) == ("refused",)


@pytest.mark.parametrize("function", [3, len])
def test_what_cannot_be_marked_as_durable_is_refused(function):
    with pytest.raises(InvalidInput, match="@durable"):
        durable()(function)


def test_a_runner_refuses_settings_that_make_no_sense(memory):
    wrong: list[dict[str, Any]] = [{"name": ""}, {"name": 3}, {"concurrency": 0}]
    for setting in [*wrong, {"concurrency": "3"}]:
        with pytest.raises(InvalidInput):
            LocalRunner(ECHO, memory, **setting)


@pytest.mark.parametrize(
    "asked",
    [
        {"after": "x"}, {"after": -1}, {"after": 1.5}, {"after": True}, {"after": 1 << 63},
        {"wait_s": "a"}, {"wait_s": float("nan")}, {"consumer": 3}, {"consumer": ""},
        {"consumer": "mailer", "after": 3},
    ],
)  # fmt: skip
def test_outputs_refuse_what_makes_no_sense_when_they_are_asked_for(memory, asked):
    """At the call, not at the first output; no consumer is remembered."""
    with LocalRunner(ECHO, memory) as runner, pytest.raises(InvalidInput):
        runner.outputs(**asked)


def test_map_and_serve_refuse_what_makes_no_sense(memory):
    with LocalRunner(ECHO, memory) as runner:
        with pytest.raises(InvalidInput, match="needs inputs, pairs"):
            runner.map(3)  # pyright: ignore[reportCallIssue, reportArgumentType] - wrong on purpose
        with pytest.raises(InvalidInput, match=r"must be a threading\.Event"):
            runner.serve(stop=3)  # pyright: ignore[reportArgumentType] - wrong on purpose
        with pytest.raises(InvalidInput, match="a key must be"):
            runner.runs.list(key="")


@pytest.mark.parametrize("wait_s", ["a", float("nan"), True, [1]])
def test_a_ticket_and_a_runner_refuse_a_wait_that_is_no_number(memory, wait_s):
    """Whether the run is over or not; the runner is still open then."""
    with LocalRunner(ECHO, memory) as runner:
        ticket = runner.submit("ada", 1)
        for _ in range(2):
            with pytest.raises(InvalidInput, match="wait_s must be a number"):
                ticket.result(wait_s)
            with pytest.raises(InvalidInput, match="wait_s must be a number"):
                asyncio.run(ticket.aresult(wait_s))
            ticket.result()
        with pytest.raises(InvalidInput, match="wait_s must be a number"):
            asyncio.run(runner.ahandle("ada", 2, wait_s=wait_s))
        with pytest.raises(InvalidInput, match="wait_s must be a number"):
            runner.close(wait_s)
        assert runner.handle("ada", 3) == (3,)


@pytest.mark.parametrize("wait_s", [None, float("inf"), 10**30, 0, -1])
def test_a_runner_closes_however_long_it_may_wait(memory, wait_s):
    runner = LocalRunner(ECHO, memory)
    runner.submit("ada", 1).result()
    runner.close(wait_s)
    assert "alveus-echo-watch" not in [thread.name for thread in threading.enumerate()]


@pytest.mark.parametrize("wait_s", ["a", float("nan"), True, [1]])
def test_a_wait_that_is_no_number_is_refused_before_anything_is_stored(memory, wait_s):
    with LocalRunner(ECHO, memory) as runner:
        with pytest.raises(InvalidInput, match="wait_s must be a number"):
            runner.handle("ada", 1, wait_s=wait_s)
        assert runner.runs.list() == []


def test_map_refuses_another_word_for_errors_at_once(memory):
    with LocalRunner(ECHO, memory) as runner, pytest.raises(InvalidInput, match="errors must be"):
        runner.map([("ada", 1)], errors="ignore")  # pyright: ignore[reportCallIssue, reportArgumentType] - wrong on purpose


def test_runs_refuse_what_names_no_run(memory):
    with LocalRunner(ECHO, memory) as runner:
        with pytest.raises(InvalidInput, match="status must be"):
            runner.runs.list(status="failed")  # pyright: ignore[reportArgumentType] - wrong on purpose
        with pytest.raises(InvalidInput, match="limit must be"):
            runner.runs.list(limit="3")  # pyright: ignore[reportArgumentType] - wrong on purpose
        for run in ("1", None, 1.0, True):
            with pytest.raises(InvalidInput, match="its id"):
                runner.runs.retry(run)  # pyright: ignore[reportArgumentType] - wrong on purpose
        for run in (0, -1, 999, 10**30):
            assert runner.runs.get(run) is None
            with pytest.raises(NotFound):
                runner.runs.discard(run)


@pytest.mark.parametrize("is_async", [False, True])
def test_an_error_that_cannot_say_anything_parks_its_run(memory, is_async):
    @action(InputEvent)
    def work(event, ctx):
        raise Mute

    @action(InputEvent)
    async def awork(event, ctx):
        raise Mute

    with LocalRunner(Agent("mute", actions=[awork if is_async else work]), memory) as runner:
        with pytest.raises(RunParked, match="its __str__ raised RuntimeError"):
            runner.handle("ada", 1, wait_s=LIMIT_S)
        with pytest.raises(RunParked):
            runner.submit("bob", 1).result(LIMIT_S)


@pytest.mark.parametrize("error", [Odd("x"), KeyboardInterrupt()])
def test_whatever_an_async_action_raises_parks_its_run(memory, error):
    @action(InputEvent)
    async def work(event, ctx):
        if event.input == "bad":
            raise error
        ctx.send_event(OutputEvent("fine"))

    with LocalRunner(Agent("odd", actions=[work]), memory) as runner:
        with pytest.raises(RunParked, match=type(error).__name__):
            runner.handle("ada", "bad", wait_s=LIMIT_S)
        assert runner.handle("bob", "good", wait_s=LIMIT_S) == ("fine",)


def test_handle_comes_back_in_time_from_an_action_that_blocks(memory):
    go_on = threading.Event()

    @action(InputEvent)
    def work(event, ctx):
        assert go_on.wait(LIMIT_S)
        ctx.send_event(OutputEvent("late"))

    with LocalRunner(Agent("slow", actions=[work]), memory) as runner:
        with pytest.raises(RunPending):
            runner.handle("ada", 1, event_id="one", wait_s=SHORT_S)
        go_on.set()
        assert runner.handle("ada", 1, event_id="one", wait_s=LIMIT_S) == ("late",)


@pytest.mark.parametrize("way", ["result", "map", "idle"])
def test_an_action_that_would_wait_for_itself_is_refused(memory, way):
    runners = []

    @action(InputEvent)
    def work(event, ctx):
        runner = runners[0]
        if event.input == "inner":
            return
        if way == "result":
            runner.submit(ctx.key, "inner").result()
        elif way == "map":
            list(runner.map([(ctx.key, "inner")]))
        else:
            runner.run_until_idle()

    with LocalRunner(Agent("self", actions=[work]), memory) as runner:
        runners.append(runner)
        with pytest.raises(RunParked, match=r"an action .*cannot wait"):
            runner.submit("ada", 1).result(LIMIT_S)
        with pytest.raises(RunParked, match=r"an action .*cannot wait"):
            runner.handle("bob", 1)


@pytest.mark.parametrize("error", [Odd("x"), SystemExit(3), GeneratorExit()])
def test_whatever_an_action_raises_parks_its_run(memory, error):
    """In the caller's thread and in a worker's; others go on."""

    @action(InputEvent)
    def work(event, ctx):
        if event.input == "bad":
            raise error
        ctx.send_event(OutputEvent("fine"))

    with LocalRunner(Agent("odd", actions=[work]), memory) as runner:
        with pytest.raises(RunParked, match=type(error).__name__):
            runner.handle("ada", "bad")
        with pytest.raises(RunParked, match=type(error).__name__):
            runner.submit("bob", "bad").result(LIMIT_S)
        assert runner.handle("eve", "good") == ("fine",)


def test_what_is_no_ctrl_c_parks_its_run_too(memory):
    """Ctrl-C comes to the main thread; a worker's action that raises the same is a failed one."""

    @action(InputEvent)
    def work(event, ctx):
        if event.input == "bad":
            raise KeyboardInterrupt
        ctx.send_event(OutputEvent("fine"))

    with LocalRunner(Agent("odd", actions=[work]), memory) as runner:
        with pytest.raises(RunParked, match="KeyboardInterrupt"):
            runner.submit("ada", "bad").result(LIMIT_S)
        assert runner.submit("eve", "good").result(LIMIT_S) == ("fine",)


# --- an action that would wait for itself ---------------------------------------------------------


def of_itself(memory, what, *, is_async):
    """Have an action do something to what it runs in; return what came of it.

    Who waited here would do so for an hour.
    """
    runners = []

    @action(InputEvent)
    def work(event, ctx):
        what(ctx, runners[0])

    @action(InputEvent)
    async def awork(event, ctx):
        await asyncio.sleep(0)
        await what(ctx, runners[0]) if inspect.iscoroutinefunction(what) else what(ctx, runners[0])

    agent = Agent("self", actions=[awork if is_async else work])
    with LocalRunner(agent, memory) as runner:
        runners.append(runner)
        with pytest.raises(RunParked) as parked:
            runner.submit("ada", 1).result(LIMIT_S)
        return str(parked.value)


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("way", ["set", "batch", "append", "thread"])
def test_an_action_is_told_at_once_that_it_holds_its_key(memory, way, is_async):
    """Also across awaits, and in a thread of the loop; it would wait for itself."""

    def change(ctx, runner):
        ada = memory.key(ctx.key)
        if way == "batch":
            with ada.batch() as batch:
                batch.short_term.set("a", 1)
        elif way == "append":
            ada.short_term.append("a", 1)
        else:
            ada.short_term.set("a", 1)

    async def elsewhere(ctx, runner):
        await asyncio.to_thread(change, ctx, runner)

    what = elsewhere if way == "thread" and is_async else change
    told = of_itself(memory, what, is_async=is_async)
    assert "action that makes this call holds" in told
    assert "use ctx.short_term_memory" in told
    assert memory.key("ada").short_term.get("a") is None


def test_an_action_may_change_what_it_does_not_hold(memory):
    """Another key, items of its own, the same key of another store; a read goes anyway."""

    @action(InputEvent)
    def work(event, ctx):
        memory.key("bob").short_term.set("a", 1)
        memory.key(ctx.key).add("an item")
        with memory.key(ctx.key).batch() as batch:
            batch.add("another")
        other.key(ctx.key).short_term.set("a", memory.key(ctx.key).short_term.get("a", 2))

    with Memory.open(embedder="words") as other:
        with LocalRunner(Agent("free", actions=[work]), memory) as runner:
            runner.handle("ada", 1)
        assert memory.key("bob").short_term.get("a") == 1
        assert len(memory.key("ada").list()) == 2
        assert other.key("ada").short_term.get("a") == 2
        memory.key("ada").short_term.set("a", 3)


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("way", ["close", "idle", "result"])
def test_an_action_cannot_wait_for_its_own_runner(memory, way, is_async):
    """It is told at once, and nothing is closed."""

    def wait(ctx, runner):
        if way == "result":
            runner.submit(ctx.key, 2).result()
        elif way == "idle":
            runner.run_until_idle()
        else:
            runner.close()

    async def await_it(ctx, runner):
        await (runner.aclose() if way == "close" else runner.ahandle(ctx.key, 2))

    what = await_it if way != "idle" and is_async else wait
    assert "an action" in of_itself(memory, what, is_async=is_async)


# --- runners that nobody closed -----------------------------------------------------------------


def drop(things, caught):
    """Drop what should be warned of; a thread that has just answered may be the last to hold it."""
    things.clear()
    gc.collect()
    wait_until(lambda: len(caught))


def named(runner_name):
    return [t for t in threading.enumerate() if t.name.startswith(f"alveus-{runner_name}-")]


@pytest.mark.parametrize("is_async", [False, True])
def test_the_threads_of_a_forgotten_runner_end(memory, is_async):
    """Once it is garbage, with a warning that names it; its keys are given back."""

    @action(InputEvent)
    def work(event, ctx):
        return

    @action(InputEvent)
    async def awork(event, ctx):
        return

    agent = Agent("forgotten", actions=[awork if is_async else work])
    runners = [LocalRunner(agent, memory)]
    runners[0].submit("ada", 1).result()
    runners[0].submit("bob", 1).result(LIMIT_S)
    threads = named("forgotten")
    assert threads
    never = "runner of agent 'forgotten' .* was never closed"
    with pytest.warns(ResourceWarning, match=never) as caught:
        drop(runners, caught)
    for thread in threads:
        thread.join(LIMIT_S)
    assert named("forgotten") == []
    memory.key("ada").short_term.set("free", 1)


def test_a_forgotten_runner_ends_what_somebody_waits_for(memory):
    """A ticket keeps its runner."""
    tickets = [LocalRunner(ECHO, memory).submit("ada", 1)]
    assert tickets[0].result(LIMIT_S) == (1,)
    with pytest.warns(ResourceWarning) as caught:
        drop(tickets, caught)


def test_a_program_that_closes_nothing_ends(tmp_path):
    """At once, and with a warning where such are shown."""
    program = (
        "from alveus import Agent, InputEvent, LocalRunner, Memory, action\n"
        "@action(InputEvent)\n"
        "def work(event, ctx): ...\n"
        "memory = Memory.open('m.db', embedder='words')\n"
        "runner = LocalRunner(Agent('left', actions=[work]), memory)\n"
        "runner.submit('ada', 1)\n"
    )
    words = [sys.executable, "-W", "always::ResourceWarning", "-c", program]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, timeout=LIMIT_S, check=True)
    assert b"runner of agent 'left' on space 'default'> was never closed" in done.stderr


# --- errors of other stores ---------------------------------------------------------------------


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("way", ["raise", "mode", "locked"])
def test_an_error_of_another_store_is_the_failure_of_the_action(memory, tmp_path, way, is_async):
    """Only what the runner's own store cannot do now is tried again without end."""
    calls = []

    def fail():
        calls.append(1)
        if way == "raise":
            raise StoreBusy("another one is busy")
        mode = "ro" if way == "mode" else "rw"
        with Memory.open(tmp_path / "other.db", mode=mode, wait_s=SHORT_S) as second:
            second.key("ada").add("x")

    @action(InputEvent)
    def work(event, ctx):
        fail()

    @action(InputEvent)
    async def awork(event, ctx):
        fail()

    retry = Retry(attempts=2, wait_s=0)
    actions = [awork if is_async else work]
    agent = Agent("busy", actions=actions, on_error="retry", retry=retry)
    with Memory.open(tmp_path / "other.db", embedder="words") as other, ExitStack() as stack:
        other.key("ada").add("x")
        if way == "locked":
            stack.enter_context(other.store.writing())  # pyright: ignore[reportAttributeAccessIssue] - it is a file
        with LocalRunner(agent, memory) as runner:
            kind = "StoreReadOnly" if way == "mode" else "StoreBusy"
            with pytest.raises(RunParked, match=kind):
                runner.submit("ada", 1).result(LIMIT_S)
    assert len(calls) == 2


def test_a_map_that_is_dropped_leaves_nothing_undone(memory):
    """What it accepted ahead is run like any other input, and stands in nobody's way."""
    with LocalRunner(ECHO, memory) as runner:
        answers = runner.map((f"key {n}", n) for n in range(3000))
        assert next(answers) == (0,)
        del answers
        assert list(runner.map([("ada", "one")])) == [("one",)]
    with LocalRunner(ECHO, memory) as runner:
        assert runner.runs.list(status="waiting") == []
        assert len(list(runner.outputs())) == 1024 + 1


def test_a_coroutine_that_is_left_behind_closes_in_silence():
    """Whoever closes it does so in another context, where there is nothing to set back."""

    async def left(gate):
        with RunningKey(gate, Scope("space", "ada"), "owner"):
            await gate

    loop = asyncio.new_event_loop()
    coroutine = left(loop.create_future())
    contextvars.Context().run(coroutine.send, None)
    coroutine.close()
    loop.close()


MAKING = {Draft.__init__.__code__, Cells.over.__func__.__code__}
"""What makes a part of a task: the draft of its items, or a tree's changes."""


class Meeting:
    """Stops a thread in the middle of making a part of a task, until another one asks for it."""

    def __init__(self) -> None:
        self.first_makes, self.second_asks = threading.Event(), threading.Event()

    def first(self, frame, event, _):
        """Profile the thread that is to stop."""
        if event == "call" and frame.f_code in MAKING and not self.first_makes.is_set():
            self.first_makes.set()
            assert self.second_asks.wait(LIMIT_S)

    def second(self, frame, event, _):
        """Profile the other one, which makes the part as well."""
        if event == "call" and frame.f_code in MAKING:
            self.second_asks.set()

    def profiled(self, profile, work, *args):
        """Call *work*."""
        if profile == self.second:
            assert self.first_makes.wait(LIMIT_S)
        sys.setprofile(profile)
        try:
            work(*args)
        finally:
            sys.setprofile(None)


@pytest.mark.parametrize("part", ["long_term_memory", "short_term_memory", "sensory_memory"])
def test_threads_of_one_action_share_what_they_ask_for_first(memory, part):
    """Both make it, and what is made first stands for both; what either writes is kept."""
    meeting = Meeting()

    def put(ctx, name):
        if part == "long_term_memory":
            ctx.long_term_memory.add(name, id=name)
        else:
            getattr(ctx, part).set(name, 1)

    @action(InputEvent)
    def write(event, ctx):
        beside = (meeting.profiled, meeting.second, put, ctx, "second")
        thread = threading.Thread(target=contextvars.copy_context().run, args=beside)
        thread.start()
        meeting.profiled(meeting.first, put, ctx, "first")
        thread.join(LIMIT_S)
        exact = part != "long_term_memory"
        tree = getattr(ctx, part)
        names = tree.get_field_names() if exact else [item.id for item in tree.list()]
        ctx.send_event(OutputEvent(sorted(names)))

    with LocalRunner(Agent("both", actions=[write]), memory) as runner:
        assert runner.handle("ada", None) == (["first", "second"],)
