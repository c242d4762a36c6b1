"""What the client refuses, by name and before it is asked, and the options that it takes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from fornix import Budget, Item, Memory, ScriptedChat, Signals, Trim
from fornix.errors import InvalidInput, Rejected, Unsupported
from fornix.facts import LearnOptions
from fornix.llm import Asking
from fornix.sets.admission import Candidate, Size, Verdict, admission_rule
from fornix.state import Ttl
from fornix.text import ExtractiveSummariser
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
    "LearnOptions(asking=…)": lambda m: m.key("ada").learn(
        "x", model=None, options=LearnOptions(asking=Asking(attempts=1))
    ),
    "facts.cost(model=, options=)": lambda m: m.key("ada").facts.cost(
        m.key("ada").conversation("c"), model=ScriptedChat(["x"])
    ),
    "reranker=": lambda m: m.key("ada").search("x", reranker=Backwards()),
    "Budget(counter=…)": lambda m: m.key("ada").context("x", budget_tokens=Budget(9, counter=len)),
    "compaction by a strategy": lambda m: m.key("ada").set("s", compaction=own_plan),
    "admission by a rule": lambda m: m.key("ada").set("s", admission=[own_rule]),
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
    """Definitions, rules of fornix and times to live go over; code does not."""
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
