"""What the client refuses, by name and before it is asked, and the options that it takes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest

from alveus import Budget, Item, KeyMemory, Memory, ScriptedChat, Signals, Trim
from alveus.errors import AlveusError, InvalidInput, Rejected, Unsupported
from alveus.facts import LearnOptions
from alveus.llm import Asking
from alveus.sets.admission import Candidate, Size, Verdict, admission_rule
from alveus.state import Ttl
from alveus.text import ExtractiveSummariser
from test_client import over_http
from test_server import ServedHere


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedHere]:
    made = ServedHere(tmp_path_factory.mktemp("served"))
    yield made
    made.stop()


OF_A_STORE = {
    "knowledge": "other",
    "embedder": "words",
    "model": object(),
    "reranker": object(),
    "durability": "normal",
    "wait_s": 5,
    "limits": object(),
    "short_term_ttl": Ttl(timedelta(1)),
    "admission": [object()],
    "cache_bytes": 1,
    "clock": lambda: datetime.now(UTC),
    "telemetry": object(),
}

REFUSED: dict[str, Callable[[Memory], object]] = {
    "memory.engine": lambda m: m.engine,
    "memory.store": lambda m: m.store,
    "memory.embedder": lambda m: m.embedder,
    "memory.settle": lambda m: m.settle(),
    "memory.stats": lambda m: m.stats(),
    "memory.sweep": lambda m: m.sweep(),
    "memory.shrink": lambda m: m.shrink(),
    "memory.backup": lambda m: m.backup("x"),
    "memory.prune_history": lambda m: m.prune_history(before=datetime.now(UTC)),
    "memory.scrub": lambda m: m.scrub(),
    "memory.receipts(before=)": lambda m: m.receipts(before=1),
    "memory.receipt": lambda m: m.receipt("x"),
    "memory.subscribe": lambda m: m.subscribe(print),
    "memory.on_compaction": lambda m: m.on_compaction(print),
    "key.engine": lambda m: m.key("ada").engine,
    "set.add_back": lambda m: m.key("ada").set("s").add_back([]),
    "set.compact": lambda m: m.key("ada").set("s").compact(),
    "compress(model=…)": lambda m: (
        m.key("ada").conversation("c").compress(model=ExtractiveSummariser())
    ),
    "learn(model=…)": lambda m: m.key("ada").learn("x", model=ScriptedChat(["x"])),
    "learn(progress=…)": lambda m: m.key("ada").learn("x", model=None, progress=print),
    "learn(options=…)": lambda m: m.key("ada").learn(
        "x", model=None, options=LearnOptions(asking=Asking(attempts=1))
    ),
    "facts.cost(model=…)": lambda m: m.key("ada").facts.cost(
        m.key("ada").conversation("c"), model=ScriptedChat(["x"])
    ),
    "reranker=": lambda m: m.key("ada").search("x", reranker=Backwards()),
    "Budget(counter=…)": lambda m: m.key("ada").context("x", budget_tokens=Budget(9, counter=len)),
    "compaction by a custom strategy": lambda m: m.key("ada").set("s", compaction=own_plan),
    "admission by a custom rule": lambda m: m.key("ada").set("s", admission=[own_rule]),
    "its store": lambda m: m.key("ada").blocks.history("human"),
}


class Backwards:
    def rerank(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        return [float(n) for n, _ in enumerate(texts)]


def own_plan(items: Any, capacity: int | None) -> Any:
    return None


@admission_rule
def own_rule(item: Item, candidate: Candidate) -> Verdict:
    return Verdict("accept")


@pytest.mark.parametrize("name", OF_A_STORE)
def test_what_only_a_store_takes_is_refused_by_name(name: str) -> None:
    """Before anything is asked: nobody is at this address."""
    with pytest.raises(Unsupported, match=f"{name}="):
        Memory.open("http://127.0.0.1:1", **{name: OF_A_STORE[name]})


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_kept_over_http_is_refused_by_name(served: ServedHere, name: str) -> None:
    """With what to do instead; never with an answer that says less."""
    with over_http(served, space="refused") as memory:
        with pytest.raises(Unsupported, match=re.escape(name)) as caught:
            REFUSED[name](memory)
        assert "; " in str(caught.value)


def test_a_set_takes_the_options_that_are_values(served: ServedHere) -> None:
    """Definitions, rules of alveus and times to live go over; code does not."""
    with over_http(served, space="options") as memory:
        options: dict[str, Any] = {
            "capacity": 9,
            "compaction": Trim(),
            "retention": timedelta(days=2),
            "signals": Signals(recency=1),
            "admission": [Size(max_chars=20)],
        }
        kept = memory.key("ada").set("s", ttl=Ttl(timedelta(hours=1), refresh="read"), **options)
        kept.add("short", id="a")
        item = kept.get("a")
        assert item is not None
        assert item.expire_at is not None
        with Memory.open() as ram:
            there = ram.key("ada").set("s", **options)
            there.add("short")
            assert kept.definition == there.definition
        assert kept.admit("x" * 99).outcome == "reject"
        with pytest.raises(Rejected):
            kept.add("x" * 99)
        added = kept.add_many(["fine", "x" * 99], on_rejected="skip")
        assert [place for place, _ in added.skipped] == [1]
        assert kept.renew(["a", "b"], ttl=timedelta(days=1)) == 1
        assert kept.redefine(capacity=None, compaction="reject").capacity is None
        assert kept.definition.compaction == "reject"
        with pytest.raises(InvalidInput):
            memory.knowledge.set("x", capacity=3)


ARGUMENTS: dict[str, Callable[[KeyMemory, Any], object]] = {
    "importance": lambda k, x: bool(k.add("x", importance=x)),
    "importance of an item": lambda k, x: len(k.add_many([Item("x", importance=x)])),
    "importance of a judged item": lambda k, x: k.set("s").admit(Item("x", importance=x)),
    "importance of a change": lambda k, x: k.update("one", importance=x),
    "speaker": lambda k, x: bool(k.add("x", speaker=x)),
    "role": lambda k, x: bool(k.add("x", role=x)),
    "session": lambda k, x: k.update("one", session=x).session,
    "text": lambda k, x: bool(k.add("x", text=x)),
    "id to update": lambda k, x: k.update(x, "x"),
    "metadata to update": lambda k, x: k.update("one", metadata=x).metadata,
    "version to update": lambda k, x: k.update("one", "x", if_version=x).text,
    "version to delete": lambda k, x: k.delete("none", if_version=x),
    "valid_at": lambda k, x: len(k.list(valid_at=x)),
    "newest_first": lambda k, x: len(k.list(newest_first=x)),
    "query": lambda k, x: k.set("s").search(x),
    "ttl": lambda k, x: k.set("s", ttl=x).name,
    "capacity": lambda k, x: k.set("s").redefine(capacity=x).capacity,
    "high_water": lambda k, x: k.set("s").redefine(high_water=x).high_water,
    "signals of a set": lambda k, x: k.set("s").redefine(signals=x).signals is None,
    "signals of a prompt": lambda k, x: k.context("x", signals=x).tokens > 0,
    "scrub": lambda k, x: k.forget("none", scrub=x).commit,
    "scrub of a key": lambda k, x: k.forget(where={"none": 1}, scrub=x).commit,
    "dry_run": lambda k, x: k.forget("none", dry_run=x).commit,
    "ids and where": lambda k, x: k.forget("none", where=x).commit,
    "a batch": lambda k, x: k.batch(idempotency_key=x) is None,
    "a moment of exact memory": lambda k, x: k.short_term.at(x).path,
    "a moment of blocks": lambda k, x: k.blocks.at(x) is None,
    "a name of one change": lambda k, x: k.short_term.once(x).path,
    "names, newest first": lambda k, x: k.short_term.names(newest_first=x),
    "overwrite": lambda k, x: k.short_term.new_object("o", overwrite=x).path,
    "the last messages": lambda k, x: k.conversation("c").messages(x),
    "messages of a summary": lambda k, x: k.conversation("c").update_compressed_summary("", x),
    "a summary": lambda k, x: k.conversation("c").update_compressed_summary(x),
    "messages to mark": lambda k, x: k.conversation("c").update_messages_mark("m", msg_ids=x),
    "a budget": lambda k, x: k.profile(budget=x).tokens,
    "steps": lambda k, x: k.facts.neighbours("Ada", steps=x),
    "where of facts": lambda k, x: k.facts.list(where=x),
    "how to learn": lambda k, x: k.learn([], model=None, options=x).messages,
    "what a conversation costs": lambda k, x: k.facts.cost(x, model=None),
    "whom it is asked": lambda k, x: k.facts.cost(k.conversation("c"), model=x).calls,
}

VALUES: tuple[Any, ...] = (
    None,
    True,
    "3",
    "",
    "\ud800",
    1.5,
    float("nan"),
    b"x",
    [1],
    {"a": {"like": 1}},
    np.int64(3),
)


@pytest.fixture(scope="module")
def both(served: ServedHere) -> Iterator[tuple[KeyMemory, KeyMemory]]:
    """The same key, in this process and behind the server."""
    with Memory.open(embedder="words") as ram, over_http(served, space="alike") as remote:
        for memory in (ram, remote):
            memory.key("ada").add_many([Item("x", id="one"), Item("y", id="two")])
            memory.key("ada").conversation("c").add({"role": "user", "content": "Hi."})
        yield ram.key("ada"), remote.key("ada")


@pytest.mark.parametrize("name", ARGUMENTS)
def test_wrong_arguments_are_told_as_by_a_memory_of_ones_own(
    both: tuple[KeyMemory, KeyMemory], name: str
) -> None:
    """By the same error, in the same words; what is taken by one is taken by the other."""

    def told(key: KeyMemory, value: object) -> object:
        try:
            return ARGUMENTS[name](key, value)
        except AlveusError as error:
            return type(error), re.sub("version [0-9]+ is", "version N is", str(error))

    values = (*VALUES, np.array([1, 2])) if name in ("valid_at", "text") else VALUES
    for value in values:
        here, there = (told(key, value) for key in both)
        assert repr(here) == repr(there), value
