"""All public calls, found by looking at the classes, with what to pass to each of them."""

from __future__ import annotations

import asyncio
import inspect
import math
import typing
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from alveus import (
    Agent,
    AlveusError,
    Budget,
    Compactor,
    Event,
    InputEvent,
    Item,
    LocalRunner,
    Memory,
    OutputEvent,
    Retry,
    RunnerContext,
    ScriptedChat,
    Signals,
    action,
)
from doors import Letters

DEEP = 100_000
LONG = 200_000


class OwnError(Exception):
    """What a user's own object raises where its content is read, which is passed on as it is."""


class Raises:
    """An object of a user whose every use fails."""

    def _fail(self, *_: object) -> Any:
        raise RuntimeError("hostile")

    def _content(self, *_: object) -> Any:
        raise OwnError

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _fail
    __str__ = __repr__ = __len__ = __bool__ = __format__ = _fail
    __int__ = __float__ = __contains__ = __getitem__ = _fail
    __iter__ = __fspath__ = __hash__ = __index__ = _content


class Text(str):
    """A text that is equal to none, not even to itself."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return False

    __hash__ = str.__hash__


class Number(int):
    """A number that is no int by type."""


class Fields(dict[Any, Any]):
    """A dict whose fields are nobody's."""

    def items(self) -> Any:
        """Fail."""
        raise OwnError

    __iter__ = keys = values = items


def nested(wrap: Callable[[Any], Any], inside: object) -> Any:
    """Return a value that is wrapped very often."""
    for _ in range(DEEP):
        inside = wrap(inside)
    return inside


def _cycles() -> tuple[list[Any], dict[str, Any]]:
    items: list[Any] = []
    items.append(items)
    fields: dict[str, Any] = {}
    fields["a"] = fields
    return items, fields


CYCLES = _cycles()

DEEP_LIST, DEEP_DICT = nested(lambda inner: [inner], 1), nested(lambda inner: {"a": inner}, 1)

HOSTILE: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "an object": object,
    "raises": Raises,
    "a list of what raises": lambda: [Raises()],
    "a dict of what raises": lambda: {"a": Raises()},
    "True": lambda: True,
    "0": lambda: 0,
    "-1": lambda: -1,
    "a huge int": lambda: 10**5_000,
    "2**63": lambda: 1 << 63,
    "a subclass of int": lambda: Number(3),
    "NaN": lambda: math.nan,
    "inf": lambda: math.inf,
    "-inf": lambda: -math.inf,
    "1e308": lambda: 1e308,
    "complex": lambda: 1j,
    "empty text": lambda: "",
    "text": lambda: "x",
    "NUL": lambda: "a\0b",
    "a surrogate": lambda: "a\ud800",
    "a long text": lambda: "x" * LONG,
    "dots": lambda: "..",
    "a subclass of str": lambda: Text("x"),
    "bytes": lambda: b"x",
    "bytearray": lambda: bytearray(b"x"),
    "a naive time": lambda: datetime(2024, 1, 1),  # noqa: DTZ001 - on purpose
    "the first time": lambda: datetime.min.replace(tzinfo=UTC),
    "the last time": lambda: datetime.max.replace(tzinfo=UTC),
    "a long span": lambda: timedelta.max,
    "a negative span": lambda: timedelta(-1),
    "no items": list,
    "no fields": dict,
    "a tuple": lambda: (1, (2,)),
    "a set": lambda: {1, "x"},
    "a generator": lambda: (each for each in ["x", 1]),
    "a list of anything": lambda: [1, "x", None, b"x", 1.5, [], {}],
    "a list of surrogates": lambda: ["\ud800", "a\0"],
    "a dict of numbers": lambda: {3: "x"},
    "operators of a dict": lambda: {"a": {"gt": {3: "x"}}},
    "operators of a list": lambda: {"a": {"contains": [[[{}]]]}},
    "operators of what raises": lambda: {"a": {"lte": Raises()}},
    "operators of an array": lambda: {"a": {"gte": np.zeros(2)}},
    "a deep operand": lambda: {"a": {"lt": DEEP_LIST}},
    "a cyclic operand": lambda: {"a": {"gt": CYCLES[1]}},
    "a subclass of dict": lambda: Fields(a=1),
    "an array": lambda: np.zeros((2, 2)),
    "a number of NumPy": lambda: np.int64(3),
    "a deep list": lambda: DEEP_LIST,
    "a deep dict": lambda: DEEP_DICT,
    "a cyclic list": lambda: CYCLES[0],
    "a cyclic dict": lambda: CYCLES[1],
    "an item": lambda: Item("x", metadata={"a": object()}),
    "items": lambda: [Item("x", id="one"), "x", Raises()],
    "a message": lambda: [{"role": "user", "content": "x"}, {"role": Raises(), "content": []}],
    "an event": lambda: InputEvent(input=Raises()),
    "an error": lambda: ValueError("x"),
}
"""What may be passed by mistake, or on purpose; made anew each time."""


# --- what is called -------------------------------------------------------------------------------

GIVEN: dict[str, Any] = {
    "id": "one", "ids": "one", "value": "x", "query": "x", "name": "n", "path": "p", "key": "a",
    "items": ["x"], "messages": [{"role": "user", "content": "x"}], "msg_ids": ["one"], "n": 1,
    "text": "x", "old": "x", "new": "y", "new_path": "q", "characters": 9, "mark": "m",
    "idempotency_key": None, "node": 0, "by": 1, "a": 0, "b": None, "others": ["x"],
    "source": ["I like tea."], "context": None, "event": InputEvent(input="x"),
    "compaction": 1, "summary": "x", "new_mark": "m", "state": {}, "learnings": 1, "fact": "one",
    "conversation": "talk", "subject": "x", "session_id": "s",
    "run": 1, "ticket": None, "inputs": [("a", "x")],
    "consumer": "c", "role": "user", "weights": {}, "attempt": 1, "error": ValueError("x"),
    "document": {}, "url": ":memory:", "model": "m",
    "on_rejected": "raise", "secrets": "mask", "texts": ["x"], "backup": "none.db",
}  # fmt: skip
"""What to pass for an argument that has no default."""


class LeftAlone(Exception):
    """Ends blocks whose drafts are not to be committed."""


@dataclass
class Door:
    """A public object, and the memory behind it."""

    memory: Memory
    stack: ExitStack = field(default_factory=ExitStack)

    def leave(self) -> None:
        """Close all, and commit nothing that was only drafted."""
        with suppress(AlveusError, LeftAlone), self.stack:
            raise LeftAlone
        self.memory.close()

    def commits(self) -> int:
        """Return the number of the last commit."""
        return self.memory.stats().store.commits


def memory_for_fuzzing() -> Memory:
    """Return a memory in RAM that has something of everything."""
    memory = Memory.open(embedder=Letters())
    key = memory.key("a")
    key.add("hello", id="one", metadata={"t": 1})
    key.set("n").add("hello", id="one")
    key.short_term.set("p", "x")
    key.conversation("talk").add([{"role": "user", "content": "I like tea."}])
    memory.knowledge.set("n").add("common", id="one")
    key.blocks.set("n", "x")
    return memory


class Fuzzed(Agent):
    """An agent that does nothing."""

    @action(InputEvent)
    def answer(self, event: InputEvent, ctx: RunnerContext) -> None:
        """Answer."""
        ctx.send_event(OutputEvent(output="x"))


def _runner(door: Door) -> LocalRunner:
    return door.stack.enter_context(LocalRunner(Fuzzed(), door.memory))


def _context(door: Door) -> RunnerContext:
    class Kept(Agent):
        """An agent whose context is fuzzed while its action goes on."""

        @action(InputEvent)
        def answer(self, event: InputEvent, ctx: RunnerContext) -> None:
            """Let it be used."""
            made.append(ctx)

    made: list[RunnerContext] = []
    with LocalRunner(Kept(), door.memory) as runner:
        runner.handle("c", "x")
    return made[0]


DOORS: dict[str, Callable[[Door], Any]] = {
    "Memory": lambda door: door.memory,
    "KeyMemory": lambda door: door.memory.key("a"),
    "KnowledgeMemory": lambda door: door.memory.knowledge,
    "MemorySet": lambda door: door.memory.key("a").set("n"),
    "KnowledgeSet": lambda door: door.memory.knowledge.set("n"),
    "KeyBatch": lambda door: door.stack.enter_context(door.memory.key("a").batch()),
    "ConversationMemory": lambda door: door.memory.key("a").conversation("talk"),
    "Facts": lambda door: door.memory.key("a").facts,
    "Blocks": lambda door: door.memory.key("a").blocks,
    "Quarantine": lambda door: door.memory.key("a").quarantine,
    "MemoryObject": lambda door: door.memory.key("a").short_term,
    "ItemOrigins": lambda door: door.memory.key("a").set("n").inside,
    "Compactor": lambda door: Compactor(door.memory),
    "LocalRunner": _runner,
    "Runs": lambda door: _runner(door).runs,
    "RunnerContext": _context,
    "MemoryRef": lambda door: door.memory.key("a").short_term.ref,
    "Hits": lambda door: door.memory.key("a").search("hello"),
    "Context": lambda door: door.memory.key("a").context("hello", budget_tokens=100),
    "MapPoints": lambda door: door.memory.key("a").points(),
    "Lineage": lambda door: door.memory.key("a").set("n").lineage("one"),
    "Receipt": lambda door: door.memory.key("a").forget("one"),
    "ScriptedChat": lambda _: ScriptedChat(["x"] * 99),
    "Budget": lambda _: Budget(100),
    "Retry": lambda _: Retry(),
    "Signals": lambda _: Signals(),
    "Event": lambda _: Event(),
}
"""A public object of each class that has calls."""


LOOP = asyncio.new_event_loop()


@dataclass(frozen=True)
class Call:
    """A public call, and the arguments that it can be given."""

    of: str
    name: str
    arguments: tuple[str, ...]
    needed: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.of}.{self.name}"


def arguments_of(function: Callable[..., Any]) -> tuple[list[str], list[str]]:
    """Return the names of all arguments of a call, and of those that it needs."""
    found: list[str] = []
    needed: list[str] = []
    for each in inspect.signature(function).parameters.values():
        if each.name in ("self", "cls"):
            continue
        if each.kind is each.VAR_KEYWORD and "Unpack" not in str(each.annotation):
            continue
        if each.kind is each.VAR_KEYWORD:
            hint = typing.get_type_hints(inspect.unwrap(function)).get(each.name)
            inside = typing.get_args(hint)
            found += typing.get_type_hints(inside[0]) if inside else ()
        elif each.kind is each.VAR_POSITIONAL:
            continue
        else:
            found.append(each.name)
            if each.default is each.empty:
                needed.append(each.name)
    return found, needed


def calls_of(name: str, kind: type) -> Iterator[Call]:
    """Yield the public calls of a class."""
    for attribute in sorted({*dir(kind)}):
        call = getattr(kind, attribute, None)
        is_function = inspect.isfunction(call) or inspect.ismethod(call)
        if attribute.startswith("_") or not is_function:
            continue
        found, needed = arguments_of(call)  # pyright: ignore[reportArgumentType] - the test fails where it is another type
        yield Call(name, attribute, tuple(found), tuple(needed))


def finish(found: object) -> None:
    """Let what a call returned do what is left to do."""
    if inspect.iscoroutine(found):
        found = LOOP.run_until_complete(found)
    if isinstance(found, Iterator):
        for _, _ in zip(range(3), found, strict=False):
            pass


def tried(call: Callable[..., object], passed: dict[str, Any]) -> str:
    """Make a call; return what came out that should not have, or nothing."""
    try:
        finish(call(**passed))
    except AlveusError as error:
        text = str(error)
        return f"{type(error).__name__}: {len(text)} characters" if len(text) > LONGEST else ""
    except OwnError:
        return ""
    except Exception as error:  # noqa: BLE001 - which one it was is what the test tells
        return f"{type(error).__name__}: {str(error)[:150]}"
    return ""


LONGEST = 20_000
"""Characters of the message of an error: it may show a name, which has 4,096 at most."""


def passed_to(door: Door, needed: tuple[str, ...] | list[str]) -> dict[str, Any]:
    """Return arguments that a call can do something with."""
    made: dict[str, Any] = {"memory": door.memory, "agent": Fuzzed, "store": None}
    if "store" in needed:
        made["store"] = door.memory.store
    return {name: made.get(name, GIVEN.get(name)) for name in needed}


NOT_TRIED = {
    "Memory.close": "what is behind it is used by the next call",
    "LocalRunner.close": "the same",
    "LocalRunner.aclose": "the same",
    "LocalRunner.wait": "tickets call it",
    "LocalRunner.look": "tickets call it",
}
"""Calls that are left out, and why."""

NOT_PASSED: dict[str, tuple[str, ...]] = {
    "LocalRunner.serve.stop": ("None",),
    "LocalRunner.outputs.wait_s": ("None", "inf", "2**63", "1e308"),
    "Compactor.run.watch": ("True",),
    "Receipt.verify.store": tuple(HOSTILE),  # a store is no value: there is one call that gives it
}
"""What is not passed: it is right, and the call would wait for somebody."""

CONSTRUCTED = (
    "Agent", "Budget", "Compactor", "CompactionPlan", "Derived", "Event", "InputEvent", "Item",
    "Learn", "Limits", "LocalRunner", "LongTermGetEvent", "LongTermSearchEvent",
    "LongTermUpdateEvent", "MemoryEvent", "MemoryEvents", "MemoryRef", "Merge", "OpenAIChat",
    "OutputEvent", "Retain", "Retry", "RunBeginEvent", "ScriptedChat", "SensoryReadEvent",
    "SensoryWriteEvent", "Shares", "ShortTermReadEvent", "ShortTermWriteEvent", "Signals",
    "Summarize", "Trim", "Ttl",
)  # fmt: skip
"""Classes that users make objects of."""

FUNCTIONS = ("action", "durable", "memory_tools", "valid_text")

MADE_BY_CALLS = {
    "AsyncMemory": "AsyncMemory.open", "ChatModel": "a promise", "Compacted": "a compaction",
    "Context": "context", "ConversationMemory": "conversation", "Embedder": "a promise",
    "Hit": "search", "Hits": "search", "KeyBatch": "batch", "KeyMemory": "key",
    "KnowledgeMemory": "knowledge", "KnowledgeSet": "set", "Memory": "Memory.open",
    "MemoryObject": "short_term", "MemorySet": "set", "MemoryStats": "stats",
    "OutOfReach": "forget", "Receipt": "forget", "RunnerContext": "a runner",
}  # fmt: skip
"""Classes whose objects calls return."""

NO_CALLS = {
    "AsyncMemory": "test_an_awaited_call_refuses_the_same", "ChatModel": "a promise",
    "Embedder": "a promise", "OpenAIChat": "test_llm.py asks a server", "OutOfReach": "a value",
    "InputEvent": "see Event", "OutputEvent": "see Event", "MemoryEvent": "see Event",
    "LongTermGetEvent": "see Event", "LongTermSearchEvent": "see Event",
    "LongTermUpdateEvent": "see Event", "RunBeginEvent": "see Event", "MemoryEvents": "see Event",
    "SensoryReadEvent": "see Event", "SensoryWriteEvent": "see Event",
    "ShortTermReadEvent": "see Event", "ShortTermWriteEvent": "see Event",
}  # fmt: skip
"""Classes whose calls are tried elsewhere."""
