"""Every call of a key, its sets and its exact tree, at random: RAM and SQLite answer alike."""

from __future__ import annotations

import inspect
import random
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

from alveus import Hit, Item, KeyBatch, KeyMemory, Memory, MemoryObject, MemorySet
from alveus.errors import AlveusError
from alveus.store import Limits
from alveus.store.sqlite import SqliteStore
from scale import COUNTS

Place = KeyMemory | KeyBatch
START = datetime(2026, 1, 1, tzinfo=UTC)
MADE = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
STEPS = 50
"""Calls of one walk."""

OFTEN = ["add", "add a new one", "add many", "add once", "put", "batch"] * 5
"""What the other calls need something of."""


@dataclass(frozen=True)
class Given:
    """What a call is given, as far as it takes it."""

    key: str
    set: str
    id: str
    path: str
    text: str
    number: int
    existing: Any
    name: str | None
    as_of: int | datetime | None
    where: dict[str, object] | None
    span: timedelta | None
    definition: dict[str, Any]
    inner: tuple[tuple[str, Given], ...] = ()


def given(rng: random.Random, *, inner: bool = True) -> Given:
    """Choose what a call is given, so that others meet it often."""
    return Given(
        key=rng.choice(("ada", "bob")),
        set=rng.choice(("default", "notes", "full")),
        id=rng.choice("abcd"),
        path=rng.choice(("x", "y", "list", "o", "o.a", "o.b", "o.p.q")),
        text=rng.choice(("tea", "green tea", "coffee", "a window seat")),
        number=rng.randrange(3),
        existing=rng.choice(("error", "error", "keep", "update")),
        name=rng.choice((None, None, None, "k1", "k2", "k3")),
        as_of=rng.choice((None, None, rng.randrange(30), START + timedelta(seconds=60))),
        where=rng.choice((None, {"n": 1}, {"n": {"gte": 1}}, {"not": {"n": 1}}, {"$value": 1})),
        span=rng.choice((None, None, timedelta(seconds=5), timedelta(seconds=20))),
        definition={
            "capacity": rng.choice((None, 2, 4)),
            "compaction": rng.choice(("trim", "reject")),
        },
        inner=tuple((rng.choice([*CALLS]), given(rng, inner=False)) for _ in range(3) if inner),
    )


def many(g: Given) -> list[object]:
    """Return what is added together."""
    return [g.text, Item(g.text, id=g.id, metadata={"n": g.number}), Item("x", id=f"{g.id}2")]


def removed(place: Place, g: Given) -> list[Item]:
    """Return items that were in a set at some moment."""
    return place.set(g.set).list(as_of=g.as_of, limit=2)


def found(hits: Iterable[Hit]) -> list[tuple[float, str | None]]:
    """Return scores and texts; hits of one score come in the order of their ids."""
    return sorted((round(hit.score, 4), hit.item.text) for hit in hits)


CALLS: dict[str, Callable[[Place, Given], object]] = {
    "add": lambda k, g: k.set(g.set).add(
        g.text, id=g.id, metadata={"n": g.number}, on_existing=g.existing, ttl=g.span
    ),
    "add a new one": lambda k, g: k.add(g.text, importance=g.number / 2),
    "add many": lambda k, g: k.set(g.set).add_many(many(g), on_existing=g.existing),
    "update": lambda k, g: k.set(g.set).update(g.id, g.text, metadata={"n": g.number}),
    "update a version": lambda k, g: k.set(g.set).update(g.id, g.text, if_version=g.number),
    "supersede": lambda k, g: k.set(g.set).supersede(g.id, g.text),
    "delete": lambda k, g: k.set(g.set).delete(g.id),
    "delete where": lambda k, g: k.set(g.set).delete(where=g.where or {"n": 2}),
    "pop": lambda k, g: k.set(g.set).pop(),
    "renew": lambda k, g: k.set(g.set).renew(g.id, ttl=g.span or timedelta(seconds=9)),
    "clear": lambda k, g: k.set("full").clear(),
    "get": lambda k, g: k.set(g.set).get(g.id, as_of=g.as_of),
    "list": lambda k, g: k.set(g.set).list(where=g.where, as_of=g.as_of),
    "recent": lambda k, g: k.set(g.set).recent(g.number + 1),
    "history": lambda k, g: k.set(g.set).history(g.id),
    "search": lambda k, g: found(
        k.set(g.set).search(g.text, where=g.where, as_of=g.as_of, limit=50)
    ),
    "search a key": lambda k, g: found(k.search(g.text, limit=50)),
    "ask a set": lambda k, g: (len(k.set(g.set)), g.id in k.set(g.set), [*k.set(g.set)]),
    "sets": lambda k, g: k.sets(counts=True),
    "admit": lambda k, g: k.set(g.set).admit(g.text),
    "put": lambda k, g: k.short_term.set(g.path, g.number, ttl=g.span),
    "make an object": lambda k, g: k.short_term.new_object(g.path, overwrite=g.number > 0).path,
    "increment": lambda k, g: k.short_term.increment(g.path, g.number),
    "append": lambda k, g: k.short_term.append(g.path, g.text),
    "take away": lambda k, g: k.short_term.delete(g.path),
    "move": lambda k, g: k.short_term.move(g.path, f"moved.{g.id}"),
    "compare and set": lambda k, g: k.short_term.update(g.path, g.text, expected=g.number),
    "empty": lambda k, g: k.short_term.get_object("o").clear(),
    "read": lambda k, g: (k.short_term.get(g.path, 7), g.path in k.short_term),
    "read all": lambda k, g: (k.short_term.to_dict(), [*k.short_term.walk()]),
    "names": lambda k, g: (
        *(k.short_term.names(prefix="o"), k.short_term.get_field_names()),
        *([*k.short_term.get_fields()], k.short_term.is_exist(g.path)),
    ),
    "write a block": lambda k, g: k.blocks.append("human", g.text),
    "say": lambda k, g: len(k.conversation("talk").add([{"role": "user", "content": g.text}])),
    "context": lambda k, g: sorted(k.context(g.text, budget_tokens=9_000).text.split("\n")),
}
"""Calls of a key, and of a batch of it."""


def together(place: Place, g: Given) -> list[object]:
    """Make some calls, each of which may be refused."""
    return [answer(CALLS[name], place, inner) for name, inner in g.inner]


def batch(key: KeyMemory, g: Given) -> list[object]:
    """Make some calls in a block, which leaves nothing if it raises."""
    done: list[object] = []
    try:
        with key.batch(idempotency_key=g.name) as block:
            done += together(block, g)
            _ = 1 / g.number
    except ZeroDivisionError:
        done.append("left")
    return [*done, block.committed is not None and block.committed.adopted]


KEY_CALLS: dict[str, Callable[[KeyMemory, Given], object]] = {
    "add once": lambda k, g: k.set(g.set).add(g.text, id=g.id, idempotency_key=g.name),
    "update once": lambda k, g: k.set(g.set).update(g.id, g.text, idempotency_key=g.name),
    "increment once": lambda k, g: k.short_term.once(g.name or "k").increment("once"),
    "add back": lambda k, g: k.set(g.set).add_back(removed(k, g), on_existing=g.existing),
    "redefine": lambda k, g: k.set("full").redefine(**g.definition),
    "changes": lambda k, g: len(k.diff(0).items),
    "compact": lambda k, g: k.set("full").compact() is None,
    "undo": lambda k, g: [k.set("full").undo(c.id) for c in k.set("full").compactions()[:1]],
    "lineage": lambda k, g: (k.set("full").lineage(g.id), k.set("full").sources(g.id)),
    "read the past": lambda k, g: k.short_term.at(g.as_of or 0).to_dict(),
    "commit": lambda k, g: k.commit(lambda b: together(b, g), idempotency_key=g.name),
    "forget": lambda k, g: k.set(g.set).forget(g.id).counts,
    "forget where": lambda k, g: k.forget(where={"n": g.number}).counts,
    "forget a key": lambda k, g: k.forget().counts if g.id == g.set[:1] else None,
    "summarise": lambda k, g: k.conversation("talk").compress(keep_recent=2).messages,
    "learn": lambda k, g: k.learn(k.conversation("talk"), model=None).added,
    "tell": lambda k, g: (k.profile().text, k.about(g.text)),
    "batch": batch,
}

LEFT_OUT = {
    "get_memory_set": "another name of set",
    "map": "what points gives, as a picture",
    "points": "coordinates, which tests of projections hold to",
}
"""Public calls that no walk makes, and why."""


def answer(call: Callable[[Any, Given], object], place: object, g: Given) -> object:
    """Return what a call answers, or is refused with, so that it can be compared."""
    try:
        return plain(call(place, g))
    except AlveusError as error:
        return type(error).__name__, MADE.sub("#", str(error))


def plain(value: Any) -> Any:
    """Return a value without ids that were made, and when it was read last."""
    if isinstance(value, str):
        return MADE.sub("#", value)
    if is_dataclass(value) and not isinstance(value, MemoryObject):
        names = [field.name for field in fields(value) if field.name != "accessed"]
        return [type(value).__name__, *(plain(getattr(value, name)) for name in names)]
    if isinstance(value, Mapping):
        return {plain(name): plain(each) for name, each in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, bytes):
        return [plain(each) for each in value]
    return value


class Walk:
    """The same calls on a memory in RAM and on one in a file."""

    def __init__(self, path: Path, seed: int) -> None:
        self.rng, self.time, self.path = random.Random(seed), START, path
        self.limits = self.rng.choice((None, None, Limits(items=12), Limits(bytes=500)))
        self.memories = [self.opened(":memory:"), self.opened(path)]
        for memory in self.memories:
            memory.key("ada").set("full", capacity=2, compaction="trim").add("the first")

    def opened(self, url: str | Path) -> Memory:
        """Return a memory that goes by the time of the walk."""
        return Memory.open(
            url, embedder="words", durability="normal", limits=self.limits, clock=lambda: self.time
        )

    def play(self) -> None:
        """Make one call on both."""
        self.time += timedelta(seconds=self.rng.choice((-1, 0, 0, 1, 2, 5)))
        calls: dict[str, Callable[[Any, Given], object]] = {**CALLS, **KEY_CALLS}
        name, g = self.rng.choice([*calls, *OFTEN]), given(self.rng)
        ours, theirs = (answer(calls[name], m.key(g.key), g) for m in self.memories)
        assert ours == theirs, (name, g)
        if self.rng.random() < 0.05:
            for memory in self.memories:
                memory.sweep()

    def check(self) -> None:
        """Assert that both hold the same, the file also when it is opened again."""
        _, file = self.memories
        assert isinstance(file.store, SqliteStore)
        assert file.store.problems() == []
        file.close()
        self.memories[1] = self.opened(self.path)
        ours, theirs = ([(k, everything(m.key(k))) for k in [*m.keys()]] for m in self.memories)
        assert ours == theirs

    def close(self) -> None:
        """Close both."""
        for memory in self.memories:
            memory.close()


def everything(key: KeyMemory) -> list[Any]:
    """Return what is there of a key."""
    return [key.short_term.to_dict(), {n: plain(key.set(n).list()) for n in key.sets()}]


@pytest.mark.parametrize("seed", range(COUNTS.walks))
def test_every_call_is_answered_alike(tmp_path: Path, seed: int) -> None:
    """Alone, in batches and repeated, whatever is full, expired, undone or forgotten."""
    walk = Walk(tmp_path / "app.db", seed)
    for _ in range(STEPS):
        walk.play()
    walk.check()
    walk.close()


@pytest.mark.parametrize("kind", [KeyMemory, KeyBatch, MemorySet, MemoryObject])
def test_every_public_call_is_walked(kind: type) -> None:
    """A call that is new is to be met by all others."""
    source = inspect.getsource(sys.modules[__name__])
    public = {name for name in dir(kind) if not name.startswith("_")}
    calls = {name for name in public if isinstance(getattr(kind, name), FunctionType)}
    assert {name for name in calls if f".{name}(" not in source} <= LEFT_OUT.keys()
