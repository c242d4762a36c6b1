"""Threads of alveus end before Python does, and where there are none, nothing committed raises."""

from __future__ import annotations

import gc
import signal
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from alveus import Agent, InputEvent, Item, LocalRunner, Memory, OutputEvent, Trim, action
from alveus.errors import Unavailable
from alveus.memory.compactor import Compactor
from alveus.runs.runner import local_runner
from alveus.runs.runner.task_executor import ActionThreads
from alveus.values import forks
from doors import Letters
from waiting import LIMIT_S, wait_until

HEAD = """
import os, sys, threading, time
import numpy as np
from alveus import Derived, CompactionPlan, Item, Memory
from alveus.values import forks

began = threading.Event()

def work():
    began.set()
    time.sleep(0.3)
    os.write(1, b"whole\\n")

class Slow:
    name, dimensions, instant = "slow", 2, False
    def embed(self, texts):
        work()
        return np.full((len(texts), 2), 0.5**0.5, dtype=np.float32)

def slow(items, capacity):
    work()
    return CompactionPlan(add=[Derived([item.id for item in items], "all of it")])
"""

EMBEDS = """
memory = Memory.open(sys.argv[1], embedder=Slow())
memory.key("ada").add("x")
began.wait()
"""

COMPACTS = """
memory = Memory.open(sys.argv[1], embedder="words")
notes = memory.key("ada").set("talk", capacity=4, compaction=slow)
notes.add_many(["a", "b", "c", "d"])
began.wait()
"""

GOES_ON = """
forks.AT_EXIT_S = 0.1
hangs = threading.Event()
work = hangs.wait
thread = forks.BackgroundThread(hangs.wait, "hangs", lambda: os.write(1, b"asked\\n"))
thread.start()
"""

CALLS_ANOTHER = """
import asyncio, logging
from alveus import Agent, InputEvent, LocalRunner, OutputEvent, action

class Calls(Agent):
    @action(InputEvent)
    async def answer(self, event, ctx):
        began.set()
        await asyncio.to_thread(threading.Event().wait)

with Memory.open(sys.argv[1], embedder="words") as memory:
    runner = LocalRunner(Calls, memory)
    runner.submit("ada", 1)
    began.wait()
    logging.disable()  # it says that an action did not end
    runner.close(0.1)
os.write(1, b"closed\\n")
"""

CLOSES = """
import atexit
atexit.register(lambda: memory.close())
"""

WRITES = """
import atexit

def at_exit():
    memory.key("ada").short_term.set("a", 1)
    memory.close()
    with Memory.open(sys.argv[1], embedder="words") as again:
        os.write(1, b"%d\\n" % again.key("ada").short_term.get("a"))

atexit.register(at_exit)
memory = Memory.open(sys.argv[1], embedder="words")
"""


def output(code: str, path: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", HEAD + code, str(path)],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=True,
    )
    assert not done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "code",
    [EMBEDS, COMPACTS, EMBEDS + CLOSES, EMBEDS + "raise SystemExit(0)"],
    ids=["embeds", "compacts", "is closed at exit", "exits"],
)
def test_a_process_ends_after_what_it_does_in_the_background(tmp_path: Path, code: str) -> None:
    """Stopped in the midst of a product of matrices, a thread has some processes never end."""
    assert output(code, tmp_path / "app.db") == "whole\n"


def test_a_memory_is_open_until_python_ends(tmp_path: Path) -> None:
    """Also for what was to be done at the end before the memory was opened."""
    assert output(WRITES, tmp_path / "app.db") == "1\n"


def test_a_process_does_not_wait_for_ever(tmp_path: Path) -> None:
    """What hangs is asked to end, and left."""
    assert output(GOES_ON, tmp_path / "app.db") == "asked\n"


def test_a_call_of_an_action_that_hangs_does_not_keep_python_from_ending(tmp_path: Path) -> None:
    """Python itself waits for the threads of pools, such as those of `asyncio.to_thread`."""
    assert output(CALLS_ANOTHER, tmp_path / "app.db") == "closed\n"


class Echo(Agent):
    """Answers what it is told."""

    @action(InputEvent)
    def answer(self, event, ctx):
        ctx.send_event(OutputEvent(event.input))


class AsyncEcho(Agent):
    """The same on an event loop."""

    @action(InputEvent)
    async def answer(self, event, ctx):
        ctx.send_event(OutputEvent(event.input))


@contextmanager
def no_threads(monkeypatch: pytest.MonkeyPatch, *, but: int = 0) -> Iterator[None]:
    """Have the system give no more than so many new threads during a block."""
    start, left = threading.Thread.start, [but]

    def refused(thread: threading.Thread) -> None:
        if not left[0]:
            raise RuntimeError("can't start new thread")
        left[0] -= 1
        start(thread)

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refused)
        yield


def test_without_a_thread_items_wait_to_be_embedded(tmp_path: Path, monkeypatch) -> None:
    """A commit that stands does not raise: whoever asked would do it again."""
    with no_threads(monkeypatch):
        memory = Memory.open(tmp_path / "app.db", embedder=Letters(instant=False))
        memory.key("ada").add_many(["x", "y"])
        assert memory.stats().pending == 2
        assert [hit.item.value for hit in memory.key("ada").search("x", limit=1)] == ["x"]
        memory.key("ada").add("z")
    memory.key("ada").add("w")
    wait_until(lambda: memory.stats().pending == 0)
    memory.close()


def test_without_a_thread_a_set_waits_to_be_compacted(tmp_path: Path, monkeypatch) -> None:
    """`settle` says so in place of waiting for ever; the next call begins."""
    with Memory.open(tmp_path / "app.db", embedder="words") as memory:
        notes = memory.key("ada").set("talk", capacity=4, compaction=Trim())
        with no_threads(monkeypatch):
            notes.add_many([Item(str(number)) for number in range(4)])
            with pytest.raises(Unavailable, match="no thread could be started"):
                memory.settle()
        assert len(notes) == 4
        assert memory.settle()
        assert len(notes) == 2


@pytest.mark.parametrize("agent", [Echo, AsyncEcho])
def test_a_runner_without_threads_is_closed(tmp_path: Path, monkeypatch, agent) -> None:
    """It says what is the matter, and another one goes on with what was submitted."""
    with Memory.open(tmp_path / "app.db", embedder="words") as memory:
        runner = LocalRunner(agent, memory)
        with no_threads(monkeypatch), pytest.raises(Unavailable, match="no thread"):
            runner.submit("ada", "hello", event_id="one").result()
        runner.close()
        with LocalRunner(agent, memory) as runner:
            assert runner.handle("ada", "hello", event_id="one") == ("hello",)


def test_a_worker_that_could_not_be_called_is_called_again(tmp_path: Path, monkeypatch) -> None:
    """The watch, which has a thread, does it."""
    with Memory.open(tmp_path / "app.db", embedder="words") as memory:
        with no_threads(monkeypatch, but=1):
            runner = LocalRunner(Echo, memory)
            ticket = runner.submit("ada", "hello", event_id="one")
            assert not ticket.done
        assert ticket.result() == ("hello",)
        runner.close()


def test_an_async_action_without_a_loop_fails_its_runner(tmp_path: Path, monkeypatch) -> None:
    """Its watch has a thread; who waits is told."""
    with Memory.open(tmp_path / "app.db", embedder="words") as memory:
        with no_threads(monkeypatch, but=1):
            runner = LocalRunner(AsyncEcho, memory)
            with pytest.raises(Unavailable, match="no async action can run"):
                runner.handle("ada", "hello", event_id="one")
            runner.close()
        with LocalRunner(AsyncEcho, memory) as runner:
            assert runner.handle("ada", "hello", event_id="one") == ("hello",)


def test_a_thread_that_is_only_being_started_keeps_nobody_from_being_waited_for(monkeypatch):
    """As Python ends: nobody can wait for it, and the others are asked to stop, and end."""
    asked = threading.Event()
    new = forks.BackgroundThread(lambda: None, "new", lambda: None)
    running = forks.BackgroundThread(lambda: assert_set(asked), "running", asked.set)
    running.start()
    monkeypatch.setattr(threading, "enumerate", lambda: [new, running])
    forks._end_all()
    assert asked.is_set()
    assert not running.is_alive()


def assert_set(event: threading.Event) -> None:
    assert event.wait(LIMIT_S)


# --- told to stop by the handler of a signal ------------------------------------------------------

WAITS = "wait", "serve", "run"
"""The functions that wait, ours and those of `threading`: here a handler may run."""


def told(point: int, work: Callable[[], object], stop: Callable[[], object]) -> None:
    """Do work, and call *stop* from its own thread at one of the points where it waits."""
    passed = count(1)

    def trace(frame: FrameType, _event: str, _argument: object) -> Any:
        if frame.f_code.co_name not in WAITS:
            return None
        frame.f_trace_opcodes = True
        if next(passed) == point:
            stop()
        return trace

    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(None)


@pytest.fixture(params=["sign", "compactor", "runner"])
def waiting(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Callable[[], object], Callable[[], object]]]:
    """Work that waits again and again, and how to have it stop."""
    often = 0.001
    with Memory.open(tmp_path / "app.db", embedder="words") as memory:
        if request.param == "sign":
            sign = forks.Flag()
            yield lambda: [*iter(lambda: sign.wait(often), True)], sign.set
        elif request.param == "compactor":
            compactor = Compactor(memory)
            every = timedelta(seconds=often)
            yield lambda: compactor.run(watch=True, every=every), compactor.stop
        else:
            monkeypatch.setattr(local_runner, "LOOK_S", often)
            stop = threading.Event()
            with LocalRunner(Echo(), memory) as runner:
                yield lambda: runner.serve(stop=stop), stop.set


@pytest.mark.parametrize("point", range(1, 200, 3))
def test_the_handler_of_a_signal_may_stop_what_its_thread_waits_for(waiting, point):
    """An event whose lock the thread holds would be waited for, and the process never end."""
    thread = threading.Thread(target=told, args=(point, *waiting), daemon=True)
    thread.start()
    thread.join(LIMIT_S)
    assert not thread.is_alive()


@pytest.mark.parametrize("ignored", [True, False])
def test_a_closed_terminal_stays_ignored_if_it_was(ignored: bool) -> None:
    """As under `nohup`; otherwise it is handled as Ctrl-C is, until the old handler is back."""
    was = signal.SIG_IGN if ignored else signal.SIG_DFL

    def end(_number: int, _frame: FrameType | None) -> None: ...

    before = signal.signal(signal.SIGHUP, was)
    try:
        take_back = forks.handle_ends(end)
        assert signal.getsignal(signal.SIGHUP) is (was if ignored else end)
        take_back()
        assert signal.getsignal(signal.SIGHUP) is was
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.timeout(LIMIT_S)
def test_a_wait_ends_though_a_handler_took_longer():
    """A `queue.SimpleQueue` of CPython 3.12 would then wait for good."""
    came: list[int] = []

    def handle(number: int, _frame: object) -> None:
        came.append(number)
        threading.Event().wait(0.05)  # nobody sets it

    before = signal.signal(signal.SIGALRM, handle)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.001)
        flag = forks.Flag()
        while not came:
            assert not flag.wait(0.02)  # nobody sets it
    finally:
        signal.signal(signal.SIGALRM, before)


def test_an_interrupted_wait_takes_no_wake_up_from_another():
    """The interrupt comes as the wait for the lock returns."""

    def interrupt(frame: FrameType, event: str, _function: object) -> None:
        if event == "c_return" and frame.f_code.co_name == "wait":
            raise KeyboardInterrupt

    for _ in range(100):
        flag = forks.Flag()
        other = threading.Thread(target=flag.wait, daemon=True)
        other.start()
        setter = threading.Thread(target=flag.set, daemon=True)
        setter.start()
        sys.setprofile(interrupt)
        try:
            flag.wait()
        except KeyboardInterrupt:
            pass
        finally:
            sys.setprofile(None)
        other.join(LIMIT_S)
        assert not other.is_alive()


def test_what_a_call_raised_is_let_go():
    """With what it was called with, at once, and not when the garbage is collected."""

    class Argument:
        pass

    def fail(_: Argument) -> None:
        raise ValueError

    pool = ActionThreads(1, "test")
    argument = Argument()
    seen = weakref.ref(argument)
    gc.disable()
    try:
        assert isinstance(pool.submit(fail, argument).exception(LIMIT_S), ValueError)
        del argument
        assert pool.submit(int).result(LIMIT_S) == 0
        assert seen() is None
    finally:
        gc.enable()
        pool.shutdown()
