"""LangGraph on alveus: its own conformance tests, graphs, a kill, and its store beside its own."""

from __future__ import annotations

import asyncio
import math
import random
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from operator import add
from pathlib import Path
from typing import Annotated, Any, TypedDict, cast

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.graph import END, START, StateGraph
from langgraph.store.base import InvalidNamespaceError, PutOp, SearchOp
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command, interrupt

from alveus import Memory
from alveus.errors import InvalidFilter, InvalidInput, StoreClosed
from alveus.integrations.langgraph import AlveusSaver, AlveusStore
from doors import Clock, Letters
from frameworks_tried import counted
from postgres_server import url_for

WORKER = Path(__file__).parent / "langgraph_worker.py"
CONFIG: RunnableConfig = {"configurable": {"thread_id": "ada"}}


# --- the checkpointer -------------------------------------------------------------------------


def conforms(place: str) -> None:
    """Run LangGraph's conformance tests, all capabilities; none fails, and none is left out."""

    @checkpointer_test(name="AlveusSaver")
    async def saver():
        async with AlveusSaver.from_conn_string(place, embedder="words") as made:
            yield made

    report = asyncio.run(validate(saver))
    for name, result in report.results.items():
        assert result.passed, (name, result.failures)
    results = report.results.values()
    passed = sum(result.tests_passed for result in results)
    others = sum(result.tests_failed + result.tests_skipped for result in results)
    counted("LangGraph", passed=passed, tests=passed + others)


@pytest.mark.parametrize("place", ["ram", "file"])
def test_langgraphs_own_conformance_tests_pass(place, tmp_path):
    conforms(":memory:" if place == "ram" else str(tmp_path / "app.db"))


@pytest.mark.server
def test_langgraphs_own_conformance_tests_pass_on_a_server(tmp_path):
    conforms(url_for(tmp_path / "memory"))


class Count(TypedDict):
    total: Annotated[int, add]
    answer: str


def last(saver) -> Any:
    return saver.get_tuple(CONFIG)


def counting(saver, store=None) -> Any:
    def ask(state: Count):
        return {"total": 1, "answer": interrupt(f"at {state['total']}")}

    def end(state: Count):
        return {"total": 10}

    built = StateGraph(Count)
    built.add_node("ask", ask)
    built.add_node("end", end)
    built.add_edge(START, "ask")
    built.add_edge("ask", "end")
    built.add_edge("end", END)
    return built.compile(checkpointer=saver, store=store)


def test_a_graph_is_interrupted_resumed_and_looked_back_on(tmp_path):
    """In another process's place: the saver is closed and opened in between."""
    place = str(tmp_path / "app.db")
    with AlveusSaver.from_conn_string(place, embedder="words") as saver:
        stopped = counting(saver).invoke({"total": 5}, CONFIG)
        assert stopped["__interrupt__"][0].value == "at 5"
    with AlveusSaver.from_conn_string(place, embedder="words") as saver:
        graph = counting(saver)
        assert graph.get_state(CONFIG).next == ("ask",)
        assert graph.invoke(Command(resume="yes"), CONFIG) == {"total": 16, "answer": "yes"}
        history = list(graph.get_state_history(CONFIG))
        assert [state.values.get("total") for state in history] == [16, 6, 5, 0]
        before = next(state for state in history if state.next == ("end",))
        assert graph.invoke(None, before.config)["total"] == 16  # a fork
        assert graph.get_state(CONFIG).values["total"] == 16
        saver.delete_thread("ada")
        assert graph.get_state(CONFIG).values == {}
        assert list(saver.list(None)) == []


def test_a_graph_runs_with_asyncio(tmp_path):
    async def work():
        async with AlveusSaver.from_conn_string(str(tmp_path / "app.db"), embedder="words") as one:
            graph = counting(one)
            await graph.ainvoke({"total": 5}, CONFIG)
            made = await graph.ainvoke(Command(resume="yes"), CONFIG)
            states = [state async for state in graph.aget_state_history(CONFIG)]
            return made["total"], len(states)

    assert asyncio.run(work()) == (16, 4)


def test_a_graph_that_is_killed_goes_on_where_it_was(tmp_path):
    """Its second step is killed; the first one is not done again."""

    def run(how):
        return subprocess.run(
            [sys.executable, str(WORKER), str(tmp_path), how],
            capture_output=True, text=True, check=False,
        )  # fmt: skip

    assert run("begin").returncode == -signal.SIGKILL
    done = run("resume")
    assert done.stdout.strip() == "['first', 'second']", done.stderr
    assert (tmp_path / "mark").read_text().split() == ["first", "second", "second"]


def test_a_checkpoint_and_its_values_are_one_commit(tmp_path):
    with AlveusSaver.from_conn_string(str(tmp_path / "app.db"), embedder="words") as saver:
        before = saver.memory.stats().store.commits
        checkpoint: Any = {
            "v": 1, "id": "1", "ts": "", "channel_values": {"a": 1, "b": [2]},
            "channel_versions": {"a": "1", "b": "1"}, "versions_seen": {}, "updated_channels": None,
        }  # fmt: skip
        saver.put(CONFIG, checkpoint, {}, {"a": "1", "b": "1"})
        assert saver.memory.stats().store.commits == before + 1
        assert last(saver).checkpoint["channel_values"] == {"a": 1, "b": [2]}


def test_tasks_of_many_threads_write_at_once(tmp_path):
    """None is in the way of another, or lost."""
    with AlveusSaver.from_conn_string(str(tmp_path / "app.db"), embedder="words") as saver:
        counting(saver).invoke({"total": 5}, CONFIG)
        config = last(saver).config

        def work(number):
            for step in range(5):
                saver.put_writes(config, [("a", step), ("b", [number])], f"task-{number}-{step}")

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(work, range(8)))
        writes = last(saver).pending_writes
        assert len([write for write in writes if write[0].startswith("task-")]) == 80


def test_deleting_a_thread_forgets_if_asked(tmp_path):
    with Memory.open(tmp_path / "app.db", embedder="words") as memory:
        memory.key("ada").add("Likes tea.")
        ways: Any = (("retire", 0), ("forget", 1))
        for deleting, receipts in ways:
            saver = AlveusSaver(memory, deleting=deleting)
            counting(saver).invoke({"total": 5}, CONFIG)
            saver.delete_thread("ada")
            assert saver.get_tuple(CONFIG) is None
            assert (len(memory.key("ada").list()), len(memory.receipts())) == (1, receipts)
        with pytest.raises(InvalidInput, match="'retire' or 'forget'"):
            AlveusSaver(memory, deleting=cast("Any", "soon"))


def test_what_is_closed_stays_closed(tmp_path):
    saver = AlveusSaver.from_conn_string(str(tmp_path / "app.db"), embedder="words")
    saver.close()
    saver.close()
    with pytest.raises(StoreClosed):
        saver.get_tuple(CONFIG)
    with Memory.open(tmp_path / "app.db", embedder="words") as memory:
        AlveusSaver(memory).close()
        assert memory.key("ada").list() == []  # who opened it closes it


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda saver: saver.get_tuple({"configurable": {}}), "thread_id"),
        (lambda saver: saver.put_writes(CONFIG, [], "t"), "checkpoint_id"),
        (lambda saver: saver.prune(["ada"], strategy="some"), "keep_latest"),
    ],
)
def test_what_is_wrong_is_said(call, words):
    with (
        AlveusSaver.from_conn_string(":memory:", embedder="words") as saver,
        pytest.raises(InvalidInput, match=words),
    ):
        call(saver)


def test_without_its_package_it_says_what_to_install():
    program = """
import importlib.util, sys
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *more: None if name == "langgraph" else find(name, *more)
import alveus.integrations.langgraph
"""
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert "run: pip install 'alveus[langgraph]'" in run.stderr.splitlines()[-1]


# --- the store --------------------------------------------------------------------------------

LABELS = ["users", "ada", "bob", "notes"]


def told(item):
    return None if item is None else (item.namespace, item.key, item.value)


def test_random_calls_answer_as_langgraphs_own_store_does():
    """Puts, deletes, gets, filters and lists, in batches; what is ranked is not compared."""
    dice = random.Random(5)
    filters = [
        {"n": 3},
        {"n": {"$gt": 2, "$lte": 5}},
        {"n": {"$ne": 3}},
        {"kind": "a", "n": {"$gte": 1}},
        {"deep": {"x": [1]}},
        {"tags": ["y"]},
        {"missing": None},
        {"kind": {"$ne": None}},
    ]

    def namespace():
        return tuple(dice.choice(LABELS) for _ in range(dice.randint(1, 3)))

    def value():
        n = dice.randrange(7)  # theirs raises where it is missing
        whole = {
            "kind": dice.choice(["a", "b", None]),
            "deep": {"x": [dice.randrange(2)]}, "tags": [dice.choice("xy")],
        }  # fmt: skip
        return {"n": n} | {name: part for name, part in whole.items() if dice.random() < 0.8}

    theirs = InMemoryStore()
    with AlveusStore.from_conn_string(":memory:", embedder="words") as ours:
        for _ in range(300):
            puts = [
                PutOp(namespace(), str(dice.randrange(4)), value() if dice.random() < 0.8 else None)
                for _ in range(dice.randint(1, 4))
            ]
            for store in (theirs, ours):
                store.batch(puts)
            for name in [name for name, items in theirs._data.items() if not items]:
                del theirs._data[name]  # it goes on to list what has become empty
            place, key, asked = namespace(), str(dice.randrange(4)), dice.choice(filters)
            depth, wild = dice.choice([None, 1, 2]), dice.choice([("*", "ada"), ("users",)])
            answers = [
                (
                    store.list_namespaces(prefix=wild, max_depth=depth, limit=99),
                    store.list_namespaces(suffix=wild, limit=99),
                    sorted(map(str, map(told, store.search(place[:1], filter=asked, limit=99)))),
                    len(store.search(place[:1], limit=3, offset=2)),
                    told(store.get(place, key)),
                )
                for store in (theirs, ours)
            ]
            assert answers[1] == answers[0]


def test_what_is_put_is_found_by_meaning_and_by_the_memory_behind():
    with Memory.open(":memory:") as memory:
        store = AlveusStore(memory, fields=["text", "tags[*]"])
        store.put(("users", "ada"), "a", {"text": "prefers a seat by the glass", "no": "unread"})
        store.put(("users", "bob"), "b", {"text": "grows tulips", "tags": ["garden", "spring"]})
        store.put(("users", "bob"), "c", {"text": "has a dog"}, index=False)
        found = store.search(("users",), query="which seat does she like?")
        assert (found[0].key, found[0].score is not None) == ("a", True)
        assert store.search(("users",), query="garden")[0].key == "b"
        assert (
            memory.key("langgraph.store:default").search("tulips")[0].item.value["text"]
            == "grows tulips"
        )
        behind = memory.key("langgraph.store:default")
        assert {hit.item.id for hit in behind.search("unread dog", limit=9)} == {"a", "b"}
        assert [item.text for item in behind.set("langgraph.users.bob").list()][1:] == [""]


def test_a_search_without_a_question_reads_as_many_items_as_it_returns(monkeypatch):
    """Not as many of each namespace below the one that is asked."""
    with Memory.open(embedder="words") as memory:
        store = AlveusStore(memory)
        for number in range(60):
            store.put(("users", f"u{number // 3:02}"), f"{number}", {"n": number})
        read, page = [], memory.store.page

        def counting(*args: Any, **options: Any) -> Any:
            read.append(len(found := page(*args, **options)))
            return found

        monkeypatch.setattr(memory.store, "page", counting)
        assert [item.key for item in store.search(("users",), limit=4)] == ["0", "1", "2", "3"]
        found = store.search(("users",), limit=2, offset=5, filter={"n": {"$gte": 3}})
        assert [item.key for item in found] == ["8", "9"]
        assert sum(read) <= 4 + 10
        assert store.search(("users",), limit=0) == []


def test_the_puts_of_a_batch_are_one_commit():
    """Reads of it see what was there before."""
    with AlveusStore.from_conn_string(":memory:", embedder="words") as store:
        before = store.memory.stats().store.commits
        results = store.batch(
            [
                PutOp(("a",), "1", {"n": 1}),
                SearchOp(("a",)),
                PutOp(("b",), "1", {"n": 2}),
                PutOp(("a",), "1", {"n": 3}),
            ]
        )
        assert results == [None, [], None, None]
        assert store.memory.stats().store.commits == before + 1
        assert told(asyncio.run(store.aget(("a",), "1"))) == (("a",), "1", {"n": 3})
        with pytest.raises(InvalidFilter, match=r"filter\['n'\]\['\$like'\] is not an operator"):
            store.search(("a",), filter={"n": {"$like": 1}})
        with pytest.raises(InvalidNamespaceError):
            store.put(("a.b",), "1", {"n": 1})


def test_what_has_a_time_to_live_is_renewed_by_reading():
    clock = Clock()
    with Memory.open(":memory:", embedder="words", clock=clock) as memory:
        store = AlveusStore(memory, ttl={"default_ttl": 60, "refresh_on_read": True})
        for key in ("read", "searched", "left"):
            store.put(("a",), key, {"text": key})
        clock.elapse(minutes=40)
        assert store.get(("a",), "read") is not None
        assert [item.key for item in store.search(("a",), query="searched")] == ["searched"]
        assert store.get(("a",), "left", refresh_ttl=False) is not None
        clock.elapse(minutes=40)
        assert {item.key for item in store.search(("a",))} == {"read", "searched"}


def test_one_memory_is_behind_the_threads_and_the_store(tmp_path):
    with Memory.open(tmp_path / "app.db", embedder="words") as memory:
        graph = counting(AlveusSaver(memory), AlveusStore(memory))
        graph.store.put(("users",), "ada", {"text": "likes tea"})
        graph.invoke({"total": 5}, CONFIG)
    with Memory.open(tmp_path / "app.db", embedder="words") as memory:
        assert counting(AlveusSaver(memory)).get_state(CONFIG).next == ("ask",)
        assert AlveusStore(memory).search(("users",), query="tea")[0].key == "ada"


def test_each_indexed_field_counts_for_itself():
    """The best of them is what an item is found by, as in LangGraph's own store."""
    with Memory.open(":memory:", embedder=Letters()) as memory:
        store = AlveusStore(memory, fields=["title", "tags[*]"])
        store.put(("a",), "1", {"title": "zzz xxx", "tags": ["qqq", "banana"]})
        store.put(("a",), "2", {"title": "zzz xxx qqq banana"})
        store.put(("a",), "3", {"tags": ["kiwi", *["mango"] * 40, "banana"]})
        store.put(("a",), "4", {"other": 1})
        behind = memory.key("langgraph.store:default")
        found = {hit.item.id: hit.parts["meaning"] for hit in behind.search("banana")}
        assert found["1"] == pytest.approx(2.0, abs=0.01)
        assert found["2"] < 1.5
        last = store.get(("a",), "4")
        assert last is not None
        assert last.value == {"other": 1}


def test_scores_are_relevance(memory):
    """Programs of LangGraph filter on a similarity from 0 to 1; what is equal has equal scores."""
    store = AlveusStore(memory)
    texts = {"a": "I sail a small boat.", "b": "I sail a small boat.", "c": "Rye bread with seeds."}
    for key, text in texts.items():
        store.put(("notes",), key, {"text": text})
    found = {item.key: item.score for item in store.search(("notes",), query="a small boat")}
    assert found["a"] == found["b"] > 0.5  # pyright: ignore[reportOptionalOperand] - the test fails where it is another type
    assert all(0 <= score <= 1 for score in found.values())  # pyright: ignore[reportOperatorIssue, reportOptionalOperand] - the test fails where it is another type
    assert store.search(("notes",), query="")[0].score is None


@pytest.mark.parametrize("number", [math.inf, -math.inf, math.nan])
@pytest.mark.parametrize("op", ["$eq", "$ne", "$gt", "$gte", "$lt", "$lte"])
def test_filters_compare_with_infinity_and_nan(memory, op, number):
    """As LangGraph's own store answers; infinity may be stored here as well as there."""
    ours, theirs = AlveusStore(memory), InMemoryStore()
    for store in (ours, theirs):
        for key, value in {"i": math.inf, "j": -math.inf, "n": 1, "m": 2.5e9}.items():
            store.put(("notes",), key, {"x": value})
    asked = {"x": {op: number}}
    found = [
        sorted(item.key for item in s.search(("notes",), filter=asked)) for s in (ours, theirs)
    ]
    assert found[0] == found[1]
