"""Whatever is passed, the answer is an error of alveus's own, short enough to be read."""

from __future__ import annotations

import dataclasses
import inspect
import os
import typing
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from alveus import (
    Agent,
    AlveusError,
    AsyncMemory,
    Budget,
    Item,
    KeyBatch,
    KeyMemory,
    Limits,
    Memory,
    MemorySet,
    OpenAIChat,
    Retry,
    Shares,
    Signals,
    Trim,
    Ttl,
)
from alveus.agents.layers import (
    EnhancedShortTermMemory,
    HybridMemory,
    LongTermMemory,
    SensoryMemory,
)
from alveus.agents.windows import Linked, Semantic, Void
from alveus.errors import InvalidInput
from alveus.errors.short_repr import short_repr
from alveus.memory.async_objects import AsyncConversation, AsyncKey, AsyncMemorySet
from alveus.memory.prompt import ContextRequest

DEEP = 5_000
LONGEST = 2_000
"""Characters of a message."""


def nested(wrap: Callable[[Any], Any], inside: object) -> Any:
    for _ in range(DEEP):
        inside = wrap(inside)
    return inside


LISTS = nested(lambda inner: [inner], 1)
DICTS = nested(lambda inner: {"a": inner}, 1)

WHERES = {
    "not": nested(lambda inner: {"not": inner}, {"t": 1}),
    "all": nested(lambda inner: {"all": [inner]}, {"t": 1}),
    "a list": {"t": LISTS},
    "operators": {"t": nested(lambda inner: {"eq": inner}, 1)},
    "in": {"t": {"in": LISTS}},
    "exists": {"t": {"exists": LISTS}},
    "a time": {"$time": LISTS},
    "parts": {"all": LISTS},
    "no dict": LISTS,
}

USES: dict[str, Callable[[Memory, Any], object]] = {
    "list": lambda m, where: m.key("a").list(where=where),
    "search": lambda m, where: m.key("a").set("default").search("x", where=where),
    "search a key": lambda m, where: m.key("a").search("x", where=where),
    "delete": lambda m, where: m.key("a").delete(where=where),
    "forget": lambda m, where: m.key("a").set("default").forget(where=where),
    "context": lambda m, where: m.context("x", key="a", where=where),
}


@pytest.fixture(scope="module")
def memory():
    with Memory.open(embedder="words") as memory:
        memory.key("a").add("hello", id="one", metadata={"t": 1})
        yield memory


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("where", WHERES)
def test_a_filter_nested_deeply_is_refused(memory: Memory, use: str, where: str) -> None:
    """By one clear error, wherever the depth is."""
    with pytest.raises(InvalidInput) as caught:
        USES[use](memory, WHERES[where])
    assert len(str(caught.value)) < LONGEST


CALLS: dict[str, Callable[[Memory, Any], object]] = {
    "key": lambda m, x: m.key(x),
    "value": lambda m, x: m.key("a").add({"text": "x", "z": x}),
    "metadata": lambda m, x: m.key("a").add("x", metadata=x),
    "a field of metadata": lambda m, x: m.key("a").add("x", metadata={"z": x}),
    "an item": lambda m, x: m.key("a").add(Item("x", metadata={"z": x})),
    "id": lambda m, x: m.key("a").add("x", id=x),
    "importance": lambda m, x: m.key("a").add("x", importance=x),
    "speaker": lambda m, x: m.key("a").add("x", speaker=x),
    "time": lambda m, x: m.key("a").add("x", time=x),
    "idempotency key": lambda m, x: m.key("a").add("x", idempotency_key=x),
    "items to add back": lambda m, x: m.key("a").set("s").add_back(x),
    "an item to add back": lambda m, x: m.key("a").set("s").add_back([x]),
    "update": lambda m, x: m.key("a").update("one", x),
    "get": lambda m, x: m.key("a").get(x),
    "limit": lambda m, x: m.key("a").list(limit=x),
    "as_of": lambda m, x: m.key("a").list(as_of=x),
    "valid_at": lambda m, x: m.key("a").list(valid_at=x),
    "query": lambda m, x: m.key("a").search(x),
    "signals": lambda m, x: m.key("a").search("x", signals=x),
    "capacity": lambda m, x: m.key("a").set("s", capacity=x),
    "compaction": lambda m, x: m.key("a").set("s", compaction=x),
    "retention": lambda m, x: m.key("a").set("s", retention=x),
    "admission": lambda m, x: m.key("a").set("s", admission=x),
    "a batch": lambda m, x: m.key("a").batch(idempotency_key=x),
    "a path": lambda m, x: m.key("a").short_term.set(x, 1),
    "a path to read": lambda m, x: m.key("a").short_term.get_object(x),
    "an exact value": lambda m, x: m.key("a").short_term.set("p", x),
    "appended": lambda m, x: m.key("a").short_term.append("q", x),
    "forget": lambda m, x: m.forget(x),
    "url": lambda _, x: Memory.open(x),
    "mode": lambda _, x: Memory.open(mode=x),
    "durability": lambda _, x: Memory.open(durability=x),
    "space": lambda _, x: Memory.open(space=x),
    "limits": lambda _, x: Memory.open(limits=x),
    "wait_s": lambda _, x: Memory.open(wait_s=x),
    "ttl": lambda _, x: Memory.open(short_term_ttl=x),
    "strategy": lambda _, x: Trim(n=x),
}

INTS_ARE_FINE = {
    "value",
    "a field of metadata",
    "an item",
    "limit",
    "capacity",
    "an exact value",
    "appended",
}
"""Where an int of any size has a meaning."""


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("kind", ["lists", "dicts", "int"])
def test_what_is_nested_deeply_or_huge_is_refused(memory: Memory, call: str, kind: str) -> None:
    """Its error shows a part of it, and does not fail on it."""
    if kind == "int" and call in INTS_ARE_FINE:
        CALLS[call](memory, 10**5_000)
        return
    with pytest.raises(AlveusError) as caught:
        CALLS[call](memory, {"lists": LISTS, "dicts": DICTS, "int": 10**5_000}[kind])
    assert len(str(caught.value)) < LONGEST


def test_a_whole_number_of_another_type_is_told_what_to_do(memory: Memory) -> None:
    with pytest.raises(InvalidInput, match=r"limit must .*, not np\.int64\(3\); use int\(\)"):
        memory.key("a").list(limit=np.int64(3))  # pyright: ignore[reportArgumentType] - on purpose
    with pytest.raises(InvalidInput, match=r"not True$"):
        memory.key("a").list(limit=True)


@pytest.mark.parametrize("value", [1, "x", [1, {"a": b"b"}], None, -(2**63), datetime.now(UTC)])
def test_what_is_short_is_shown_as_it_is(value) -> None:
    assert short_repr(value) == repr(value)


def paths(folder: Path) -> dict[str, object]:
    """Return what names no file that could be a memory, in *folder*."""
    (folder / "folder").mkdir()
    (folder / "file").write_bytes(b"x" * 5_000)
    os.mkfifo(folder / "fifo")
    (folder / "loop").symlink_to(folder / "loop")
    (folder / "dangling").symlink_to(folder / "nowhere" / "x")
    return {
        "None": None,
        "int": 1,
        "float": 1.5,
        "bytes": b"x",
        "bool": True,
        "object": object(),
        "empty": "",
        "here": Path(),
        "NUL": f"{folder}/a\0b",
        "a url with a NUL": "sqlite:///a\0b",
        "surrogate": f"{folder}/a\ud800",
        "not valid UTF-8": f"{folder}/a\udcff",
        "a long name": folder / ("n" * 300),
        "a long path": f"{folder}/" + "n/" * 4_000,
        "a folder": folder / "folder",
        "no file": "sqlite://",
        "in a file": folder / "file" / "x",
        "something else": folder / "file",
        "a pipe": folder / "fifo",
        "a loop": folder / "loop",
        "into nowhere": folder / "dangling",
        "no folder": folder / "none" / "x",
        "a device": "/dev/null",
    }


OPENED: dict[str, Callable[[Any, Path], object]] = {
    "open": lambda url, _: Memory.open(url, embedder="words"),
    "read": lambda url, _: Memory.open(url, mode="ro", embedder="words"),
    "restore into": Memory.restore,
    "restore from": lambda url, store: Memory.restore(store, url),
    "repair": lambda url, _: Memory.repair(url),
    "reindex": lambda url, _: Memory.reindex(url, embedder="words"),
}


@pytest.mark.parametrize("way", OPENED)
def test_what_can_be_no_memory_is_refused(tmp_path: Path, monkeypatch, way: str) -> None:
    """Whatever it is, by an error that names it; and a memory that is there stays as it is."""
    monkeypatch.chdir(tmp_path)
    store = tmp_path / "store.db"
    with Memory.open(store, embedder="words") as memory:
        memory.key("a").add("hello")
    for what, url in paths(tmp_path).items():
        with pytest.raises(AlveusError) as caught:
            OPENED[way](url, store)
        assert len(str(caught.value)) < 2 * 8_000 + LONGEST, what
    with Memory.open(store, mode="ro") as memory:
        assert [item.text for item in memory.key("a").list()] == ["hello"]


WAITING: dict[str, Callable[[Path, Any], object]] = {
    "restore": lambda store, x: Memory.restore(store, store.with_name("backup.db"), wait_s=x),
    "repair": lambda store, x: Memory.repair(store, wait_s=x),
    "reindex": lambda store, x: Memory.reindex(store, embedder="static", wait_s=x),
}


@pytest.mark.parametrize("way", WAITING)
def test_a_wait_that_ends_at_no_time_is_refused_first(tmp_path: Path, way: str) -> None:
    """Where no memory is open, too; nothing is changed."""
    store = tmp_path / "store.db"
    with Memory.open(store, embedder="words") as memory:
        memory.key("a").add("hello")
        memory.backup(tmp_path / "backup.db")
    for wait in (None, "1", float("nan"), float("inf"), -1, True, 10**400):
        with pytest.raises(InvalidInput, match="wait_s must be"):
            WAITING[way](store, wait)
    with Memory.open(store, mode="ro") as memory:
        assert memory.embedder.name == "words"


TELLING: dict[str, Callable[[Memory, Any], object]] = {
    "learn": lambda m, x: m.key("a").learn("I live in Lisbon.", model=None, progress=x),
    "prune_history": lambda m, x: m.prune_history(before=LONG_AGO, progress=x),
    "settle": lambda m, x: m.settle(progress=x),
    "shrink": lambda m, x: m.shrink(progress=x),
    "repair": lambda m, x: Memory.repair(m.store.location, progress=x),
    "reindex": lambda m, x: Memory.reindex(m.store.location, embedder="words", progress=x),
}
LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("way", TELLING)
def test_what_cannot_be_called_is_told_no_progress(tmp_path: Path, way: str) -> None:
    """It is refused before the work begins, of which there may be much, or none."""
    with Memory.open(tmp_path / "store.db", embedder="words") as memory:
        for progress in (5, "x", np.array([1, 2])):
            with pytest.raises(InvalidInput, match="progress must be a function of"):
                TELLING[way](memory, progress)
        assert (memory.key("a").facts.list(), memory.key("a").sets()) == ([], [])


@pytest.mark.parametrize("path", [None, 1, b"x", "", "a\0b", "a\ud800", "n" * 300])
def test_a_backup_needs_a_path(tmp_path: Path, monkeypatch, path) -> None:
    """One that can name a file."""
    monkeypatch.chdir(tmp_path)
    with (
        Memory.open(tmp_path / "store.db", embedder="words") as memory,
        pytest.raises(InvalidInput),
    ):
        memory.backup(path)


def _prompt(**options: Any) -> object:
    with Memory.open(embedder="words") as memory:
        return memory.key("a").context("seat", **options)


def _settle(**options: Any) -> object:
    with Memory.open(embedder="words") as memory:
        return memory.settle(**options)


def _forget(**options: Any) -> object:
    with Memory.open(embedder="words") as memory:
        return memory.forget(**options)


def _on_key(name: str, *path: str) -> Callable[..., object]:
    """Return a call of a method of a key, or of a part of it, by any keywords."""

    def call(**options: Any) -> object:
        with Memory.open(embedder="words") as memory:
            called: Any = memory.key("a")
            for step in path:
                called = getattr(called, step)
            return getattr(called, name)(*(["x"] if name == "add" else []), **options)

    return call


def _on_set(name: str) -> Callable[..., object]:
    def call(**options: Any) -> object:
        with Memory.open(embedder="words") as memory:
            return getattr(memory.key("a").set("n"), name)(**options)

    return call


MISSPELLED: dict[str, tuple[Callable[..., object], str]] = {
    "Budget() has no argument 'token'; did you mean 'tokens'?": (Budget, "token"),
    "Shares() has no argument 'item'; did you mean 'items'?": (Shares, "item"),
    "Retry() has no argument 'times'; the arguments are attempts, wait_s, factor, most_s, jitter, "
    "on": (Retry, "times"),
    "OpenAIChat() has no argument 'timeout'; did you mean 'timeout_s'?": (OpenAIChat, "timeout"),
    "Memory.open() has no argument 'embeder'; did you mean 'embedder'?": (Memory.open, "embeder"),
    "KeyMemory.context() has no argument 'budget'; did you mean 'budget_tokens'?": (
        _prompt,
        "budget",
    ),
    "Semantic() has no argument 'budget'; did you mean 'budget_tokens'?": (Semantic, "budget"),
    "Semantic() has no argument 'topk'; did you mean 'top_k'?": (Semantic, "topk"),
    "Linked() has no argument 'hop'; did you mean 'hops'?": (Linked, "hop"),
    "Void() has no argument 'budget'; did you mean 'budget_tokens'?": (Void, "budget"),
    "SensoryMemory() has no argument 'buffersize'; did you mean 'buffer_size'?": (
        SensoryMemory,
        "buffersize",
    ),
    "EnhancedShortTermMemory() has no argument 'lable'; did you mean 'label'?": (
        EnhancedShortTermMemory,
        "lable",
    ),
    "LongTermMemory() has no argument 'dedup'; did you mean 'dedupe'?": (LongTermMemory, "dedup"),
    "HybridMemory() has no argument 'profil'; did you mean 'profile'?": (HybridMemory, "profil"),
    "Item() has no argument 'metdata'; did you mean 'metadata'?": (Item, "metdata"),
    "Limits() has no argument 'item'; did you mean 'items'?": (Limits, "item"),
    "Signals() has no argument 'sesion'; did you mean 'session'?": (Signals, "sesion"),
    "Ttl() has no argument 'refreshed'; did you mean 'refresh'?": (Ttl, "refreshed"),
    "Agent() has no argument 'action'; did you mean 'actions'?": (Agent, "action"),
    "KeyMemory.add() has no argument 'on_exist'; did you mean 'on_existing'?": (
        _on_key("add"),
        "on_exist",
    ),
    "KeyMemory.list() has no argument 'limits'; did you mean 'limit'?": (_on_key("list"), "limits"),
    "KeyMemory.get() has no argument 'asof'; did you mean 'as_of'?": (_on_key("get"), "asof"),
    "KeyMemory.history() has no argument 'item'; the arguments are id": (
        _on_key("history"),
        "item",
    ),
    "KeyMemory.conversation() has no argument 'nam'; did you mean 'name'?": (
        _on_key("conversation"),
        "nam",
    ),
    "MemoryObject.set() has no argument 'expire_at'; did you mean 'expires_at'?": (
        _on_key("set", "short_term"),
        "expire_at",
    ),
    "MemoryObject.new_object() has no argument 'over'; did you mean 'overwrite'?": (
        _on_key("new_object", "short_term"),
        "over",
    ),
    "KeyMemory.forget() has no argument 'dryrun'; did you mean 'dry_run'?": (
        _on_key("forget"),
        "dryrun",
    ),
    "MemorySet.compact() has no argument 'compacton'; did you mean 'compaction'?": (
        _on_set("compact"),
        "compacton",
    ),
    "MemorySet.admit() has no argument 'item'; the arguments are value": (_on_set("admit"), "item"),
    "Memory.settle() has no argument 'wait'; did you mean 'wait_s'?": (_settle, "wait"),
    "Memory.forget() has no argument 'keys'; did you mean 'key'?": (_forget, "keys"),
}


@pytest.mark.parametrize("message", MISSPELLED)
def test_a_wrong_keyword_is_answered_with_the_nearest_name(message: str) -> None:
    """And with the class that was called, not with the one that defines the method."""
    called, name = MISSPELLED[message]
    with pytest.raises(TypeError) as caught:
        called(**{name: 1})
    assert str(caught.value) == message


def test_errors_of_calls_that_take_a_dataclass_name_the_call() -> None:
    """As if the method listed the arguments; so does its signature."""
    with Memory.open(embedder="words") as memory:
        with pytest.raises(TypeError, match=r"^context\(\) missing 1 required positional argument"):
            memory.key("a").context()  # pyright: ignore[reportCallIssue] - wrong on purpose
        with pytest.raises(TypeError, match=r"^Memory\.context\(\) missing .* argument: 'key'"):
            memory.context("seat")  # pyright: ignore[reportCallIssue] - the same
    with pytest.raises(TypeError, match=r"^Memory\.open\(\) takes from 1 to 2 positional"):
        Memory.open("a.db", "b.db")  # pyright: ignore[reportCallIssue] - the same
    listed = inspect.signature(KeyMemory.context).parameters
    assert list(listed) == ["self", *(each.name for each in dataclasses.fields(ContextRequest))]
    assert listed["query"].kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
    assert listed["limit"].kind is inspect.Parameter.KEYWORD_ONLY


def test_type_hints_of_every_method_of_a_key_resolve() -> None:
    """Tools that read annotations at run time find what they name."""
    for kind in (KeyMemory, KeyBatch, MemorySet, Memory):
        for name, method in inspect.getmembers(kind, inspect.isfunction):
            assert typing.get_type_hints(method) is not None, name


def test_calls_of_the_async_door_are_coroutine_functions() -> None:
    """Frameworks that ask before they await are told so."""
    for kind in (AsyncMemory, AsyncKey, AsyncMemorySet, AsyncConversation):
        for name in ("add", "context", "forget", "settle", "search", "open"):
            if hasattr(kind, name):
                assert inspect.iscoroutinefunction(getattr(kind, name)), (kind, name)


def test_other_type_errors_stay_as_they_are() -> None:
    """Those of Python for missing or too many arguments; that of a callback is the cause."""

    def refuse(text: str) -> int:
        raise TypeError(text)

    with pytest.raises(TypeError, match="positional argument"):
        Budget(1, len, 4, 5)  # pyright: ignore[reportCallIssue] - wrong on purpose
    budget = Budget(90, counter=refuse)
    with Memory.open(embedder="words") as memory, pytest.raises(InvalidInput, match="seat") as one:
        memory.context("seat", key="a", budget_tokens=budget)
    assert isinstance(one.value.__cause__, TypeError)
