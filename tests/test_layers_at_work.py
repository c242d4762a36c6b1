"""Layers in actions, in threads of theirs, and beside rules, models and items that are odd."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context

import pytest

from fornix import Agent, InputEvent, LocalRunner, Memory, OutputEvent, action
from fornix.errors import RunParked
from fornix.layers import AgentMemoryFragment, ShortTermMemory


@pytest.fixture
def memory():
    with Memory.open(embedder="words") as opened:
        yield opened


def frag(text, importance=None, **kwargs):
    return AgentMemoryFragment(text, importance=importance, **kwargs)


def texts(fragments):
    return [fragment.raw_observation for fragment in fragments]


def held(layer):
    return texts(asyncio.run(layer.read("")))


def acting(work):
    """Return an agent whose one action is *work*."""

    class Works(Agent):
        @action(InputEvent)
        async def work(self, event, ctx):
            await work(event, ctx)

    return Works()


# --- threads of an action ---------------------------------------------------------------------


def test_threads_that_asyncio_starts_are_the_actions(memory):
    """What `to_thread` and `run_in_executor` write is the action's: nothing of it if that fails."""
    short = ShortTermMemory(9, memory=memory.key("ada"))

    async def work(event, ctx):
        loop = asyncio.get_running_loop()
        await asyncio.to_thread(asyncio.run, short.write(frag("to_thread")))
        await loop.run_in_executor(None, lambda: asyncio.run(short.write(frag("executor"))))
        with ThreadPoolExecutor(1) as pool:
            known = copy_context().run
            pool.submit(known, lambda: asyncio.run(short.write(frag("pool")))).result()
        if event.value == "fail":
            raise OSError(event.value)

    with LocalRunner(acting(work), memory) as runner:
        with pytest.raises(RunParked):
            runner.handle("ada", "fail")
        assert held(short) == []
    with LocalRunner(acting(work), memory, name="again") as runner:
        runner.handle("ada", "go on")
    assert held(short) == ["to_thread", "executor", "pool"]


def test_a_bare_thread_is_told_of(memory, caplog):
    """A thread that knows of no action commits by itself, which is in the log, once."""
    short, names = ShortTermMemory(9, memory=memory.key("ada")), ["out 1", "out 2"]

    async def work(event, ctx):
        await short.write(frag("in"))
        while event.value and names:
            target = short.write(frag(names.pop(0)))
            thread = threading.Thread(target=asyncio.run, args=(target,))
            thread.start()
            thread.join()

    with caplog.at_level(logging.WARNING), LocalRunner(acting(work), memory) as runner:
        runner.handle("ada", False)
        assert caplog.records == []
        runner.handle("ada", True)
    assert held(short) == ["in", "out 1", "out 2", "in"]
    (told,) = [record for record in caplog.records if "copy_context" in record.message]
    assert told.key == "ada"


def test_a_bare_thread_with_the_actions_memory(memory):
    """A layer that is kept in the context's memory is the action's in every thread."""

    async def work(event, ctx):
        own = ShortTermMemory(9, memory=ctx.long_term_memory)
        thread = threading.Thread(target=asyncio.run, args=(own.write(frag("bare")),))
        thread.start()
        thread.join()
        if event.value == "fail":
            raise OSError(event.value)

    short = ShortTermMemory(9, memory=memory.key("ada"))
    with LocalRunner(acting(work), memory) as runner:
        with pytest.raises(RunParked):
            runner.handle("ada", "fail")
        assert held(short) == []
    with LocalRunner(acting(work), memory, name="again") as runner:
        runner.handle("ada", "go on")
    assert held(short) == ["bare"]


def test_many_threads_of_one_action(memory):
    """Layers that one action writes to from several threads at once lose and double nothing."""

    async def work(event, ctx):
        async def write(n):
            short = ShortTermMemory(500, memory=memory.key("ada"), label=f"{n % 3}")
            for m in range(8):
                await short.write(frag(f"{n} {m}"))

        await asyncio.gather(*(asyncio.to_thread(asyncio.run, write(n)) for n in range(12)))

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with LocalRunner(acting(work), memory) as runner:
            runner.handle("ada", None)
    finally:
        sys.setswitchinterval(before)
    found = [held(ShortTermMemory(500, memory=memory.key("ada"), label=f"{n}")) for n in range(3)]
    every = sorted(text for part in found for text in part)
    assert every == sorted(f"{n} {m}" for n in range(12) for m in range(8))


def test_an_action_beside_another_writer(memory):
    """An action is done over when a layer moved on meanwhile, also one that was empty at first."""
    short, seen = ShortTermMemory(9, memory=memory.key("ada")), []

    def outside(name):
        other = ShortTermMemory(9, memory=memory.key("ada"))
        thread = threading.Thread(target=asyncio.run, args=(other.write(frag(name)),))
        thread.start()
        thread.join()

    async def work(event, ctx):
        await short.write(frag("in"))
        seen.append(await short.read(""))
        if len(seen) < 3:
            outside(f"out {len(seen)}")
        ctx.send_event(OutputEvent(texts(await short.read(""))))

    with LocalRunner(acting(work), memory) as runner:
        assert [*runner.handle("ada", None)] == [["out 1", "out 2", "in"]]
    assert held(short) == ["out 1", "out 2", "in"]
