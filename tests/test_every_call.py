"""Every argument of every public call: what cannot be used is refused, and changes nothing.

The calls are found by looking at the classes, so a new one is tried as soon as it is there.
"""

from __future__ import annotations

import enum
import importlib
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import alveus
from alveus import AsyncMemory, Memory
from alveus.errors import InvalidFilter, InvalidInput
from alveus.memory.prompt import Shares
from alveus.memory.remote.codecs import argument_of
from every_call import (
    CONSTRUCTED,
    DOORS,
    FUNCTIONS,
    HOSTILE,
    LOOP,
    MADE_BY_CALLS,
    NO_CALLS,
    NOT_PASSED,
    NOT_TRIED,
    Door,
    arguments_of,
    calls_of,
    memory_for_fuzzing,
    passed_to,
    tried,
)
from test_server import ServedHere

FEW = ("raises", "operators of a dict", "a deep dict", "an array", "a surrogate", "a huge int")
"""What is passed where each call costs more: by way of another class, or of a server."""


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch) -> None:
    """A text that is passed may name a file."""
    monkeypatch.chdir(tmp_path)


@contextmanager
def door_of(memory: Memory) -> Iterator[Door]:
    """Give a door, and close what is behind it; what was drafted there may not be committed."""
    door = Door(memory)
    try:
        yield door
    finally:
        door.leave()


def faults_of(name: str, made, hostile) -> list[str]:
    """Return what came out of the calls of an object that should not have."""
    with door_of(memory_for_fuzzing()) as door:
        kind = type(made(door))
    found: list[str] = []
    for call in calls_of(name, kind):
        if str(call) in NOT_TRIED:
            continue
        with door_of(memory_for_fuzzing()) as door:
            subject = made(door)
            for argument in call.arguments:
                for what in hostile:
                    if what in NOT_PASSED.get(f"{call}.{argument}", ()):
                        continue
                    before = door.commits()
                    passed = passed_to(door, call.needed) | {argument: HOSTILE[what]()}
                    fault = tried(getattr(subject, call.name), passed)
                    if fault:
                        changed = " and something was committed" * (door.commits() != before)
                        found.append(f"{call}({argument}={what}): {fault}{changed}")
    return found


@pytest.mark.parametrize("name", DOORS)
def test_an_argument_that_cannot_be_used_is_refused(name: str) -> None:
    """By an error of alveus that can be read; a call that fails has changed nothing."""
    assert faults_of(name, DOORS[name], HOSTILE) == []


@pytest.mark.parametrize("name", [*CONSTRUCTED, *FUNCTIONS])
def test_what_nothing_can_be_made_of_is_refused(name: str) -> None:
    """By every constructor, and every function of the package."""
    called = getattr(alveus, name)
    arguments, needed = arguments_of(called)
    found: list[str] = []
    with door_of(memory_for_fuzzing()) as door:
        for argument in arguments:
            for what, made in HOSTILE.items():
                if what in NOT_PASSED.get(f"{name}.{argument}", ()):
                    continue
                fault = tried(called, passed_to(door, needed) | {argument: made()})
                found += [f"{name}({argument}={what}): {fault}"] if fault else []
    assert found == []


FOREIGN = ("serde", "cache_control", "session_settings", "ttl")
"""Arguments whose types are of the frameworks, which look at them."""


@pytest.mark.parametrize(
    "name", ["agent_framework", "anthropic_memory", "langgraph", "openai_agents", "pydantic_ai"]
)
def test_what_no_integration_can_be_made_of_is_refused(name: str) -> None:
    """By each class of the package that a framework is given."""
    module = importlib.import_module(f"alveus.integrations.{name}")
    made = [kind for each, kind in vars(module).items() if each.startswith("Alveus")]
    found: list[str] = []
    for kind in made:
        arguments, needed = arguments_of(kind)
        for argument in sorted({*arguments} - {*FOREIGN}):
            for what, value in HOSTILE.items():
                with door_of(memory_for_fuzzing()) as door:
                    fault = tried(kind, passed_to(door, needed) | {argument: value()})
                found += [f"{kind.__name__}({argument}={what}): {fault}"] if fault else []
    assert made
    assert found == []


def test_every_public_class_is_tried() -> None:
    """Or named as one that has no calls, or is made by others alone."""
    for name in alveus.__all__:
        known = getattr(alveus, name)
        if not inspect.isclass(known):
            assert name in FUNCTIONS, name
        elif issubclass(known, Exception) or issubclass(known, enum.Enum):
            continue
        else:
            has_calls = any(call.arguments for call in calls_of(name, known))
            assert not has_calls or name in DOORS or name in NO_CALLS, name
            assert (name in CONSTRUCTED) != (name in MADE_BY_CALLS), name


def test_the_tables_name_nothing_that_is_gone() -> None:
    """A call that is left out is there, and says why."""
    with door_of(memory_for_fuzzing()) as door:
        named = {f"{call}" for name in DOORS for call in calls_of(name, type(DOORS[name](door)))}
    assert {*NOT_TRIED} <= named
    assert {each.rpartition(".")[0] for each in NOT_PASSED} <= named | {*CONSTRUCTED, *FUNCTIONS}


def waited(found: Any) -> Any:
    """Return what a call of the async memory gives."""
    return LOOP.run_until_complete(found) if inspect.isawaitable(found) else found


ASYNC: dict[str, Callable[[Any], Any]] = {
    "AsyncMemory": lambda memory: memory,
    "AsyncKey": lambda memory: waited(memory.key("a")),
    "AsyncSet": lambda memory: waited(waited(memory.key("a")).set("n")),
    "AsyncKnowledge": lambda memory: memory.knowledge,
    "AsyncFacts": lambda memory: waited(memory.key("a")).facts,
    "AsyncBlocks": lambda memory: waited(memory.key("a")).blocks,
    "AsyncQuarantine": lambda memory: waited(memory.key("a")).quarantine,
    "AsyncConversation": lambda memory: waited(waited(memory.key("a")).conversation("talk")),
    "AsyncMemoryObject": lambda memory: waited(memory.key("a")).short_term,
}


@pytest.mark.parametrize("name", ASYNC)
def test_an_awaited_call_refuses_the_same(name: str) -> None:
    """It is the sync one, in a thread of its own."""
    memory = LOOP.run_until_complete(AsyncMemory.open(embedder="words"))
    found: list[str] = []
    try:
        subject = ASYNC[name](memory)
        with door_of(memory_for_fuzzing()) as door:
            for call in calls_of(name, type(subject)):
                if call.name in ("close", "open", "reindex", "repair", "restore"):
                    continue
                for argument in call.arguments:
                    for what in FEW:
                        passed = passed_to(door, call.needed) | {argument: HOSTILE[what]()}
                        fault = tried(getattr(subject, call.name), passed)
                        found += [f"{call}({argument}={what}): {fault}"] if fault else []
    finally:
        LOOP.run_until_complete(memory.close())
    assert found == []


REMOTE = ("Memory", "KeyMemory", "MemorySet", "ConversationMemory", "Facts", "MemoryObject")


@pytest.mark.parametrize("name", REMOTE)
def test_a_memory_behind_a_server_refuses_the_same(name: str, tmp_path) -> None:
    """Wherever the argument is looked at, here or there."""
    served = ServedHere(tmp_path)
    found: list[str] = []
    try:
        with Memory.open(f"http://127.0.0.1:{served.port}") as memory:
            memory.key("a").add("hello", id="one")
            memory.key("a").set("n").add("hello", id="one")
            door = Door(memory)
            subject = DOORS[name](door)
            for call in calls_of(name, type(subject)):
                if call.name in ("close", "open", "reindex", "repair", "restore", "from_json"):
                    continue
                if call.name in ("address", "twin"):  # the client calls them itself
                    continue
                for argument in call.arguments:
                    for what in FEW:
                        passed = passed_to(door, call.needed) | {argument: HOSTILE[what]()}
                        fault = tried(getattr(subject, call.name), passed)
                        found += [f"{call}({argument}={what}): {fault}"] if fault else []
    finally:
        served.stop()
    assert found == []


@pytest.mark.parametrize("op", ["gt", "gte", "lt", "lte", "contains", "eq", "ne", "in", "nin"])
def test_an_operand_that_is_no_value_is_refused(op: str) -> None:
    """A list or a dict that was never checked was read as if it were one, to any depth."""
    with Memory.open(embedder="words") as memory:
        for what in ("a dict of numbers", "a deep list", "a cyclic dict", "raises", "an array"):
            with pytest.raises(InvalidFilter):
                memory.key("a").list(where={"a": {op: HOSTILE[what]()}})


def test_a_field_without_a_name_is_unknown() -> None:
    """Its name is "", which is as unknown as any other."""
    with pytest.raises(InvalidInput, match=r"Shares has no field ''"):
        argument_of(Shares, {"": 1}, None)
