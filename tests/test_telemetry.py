"""Traces and metrics: what is emitted, on every store, and what never is."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from alveus import (
    Agent,
    AsyncMemory,
    InputEvent,
    LocalRunner,
    Memory,
    OutputEvent,
    Retry,
    Trim,
    action,
)
from alveus.errors import DuplicateItem, InvalidInput, RunParked, StaleRun
from alveus.store import Batch, Run, Scope
from alveus.store.ram import RamStore
from alveus.telemetry import OpenTelemetry
from alveus.telemetry.catalogue import ATTRIBUTES, DURABLE_CALL, EVENT_ATTRIBUTES, METRICS, SPANS
from alveus.telemetry.memory_telemetry import MemoryTelemetry
from doors import Letters
from harness.store.contract import WholeContract
from postgres_server import url_for
from waiting import wait_until

STORES = {"ram": "alveus.ram", "sqlite": "sqlite", "postgres": "postgresql"}

SPAN_INFO = {span.name: span for span in SPANS}
METRIC_INFO = {metric.name: metric for metric in METRICS}


class Emitted:
    """What one memory emitted."""

    def __init__(self, **settings: Any) -> None:
        self._exporter, self._reader = InMemorySpanExporter(), InMemoryMetricReader()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        meters = MeterProvider([self._reader])
        self.mine = self.provider.get_tracer("mine")
        self.telemetry = OpenTelemetry(
            tracer_provider=self.provider, meter_provider=meters, **settings
        )

    def spans(self, name: str | None = None) -> list[ReadableSpan]:
        found = self._exporter.get_finished_spans()
        return [span for span in found if name in (None, span.name)]

    def span(self, name: str) -> ReadableSpan:
        (found,) = self.spans(name)
        return found

    def metrics(self) -> dict[str, Any]:
        data = self._reader.get_metrics_data()
        return {
            metric.name: metric
            for resource in ([] if data is None else data.resource_metrics)
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }

    def value(self, name: str, **attributes: object) -> float:
        """The value of a metric, or the number of its values, summed over its attributes."""
        found = self.metrics().get(name)
        wanted = {key.replace("_", "."): value for key, value in attributes.items()}.items()
        points = [] if found is None else found.data.data_points
        matching = [point for point in points if wanted <= dict(point.attributes).items()]
        return sum(p.count if hasattr(p, "count") else p.value for p in matching)

    def text(self) -> str:
        """Everything, as an exporter would write it."""
        data = self._reader.get_metrics_data()
        metrics = "" if data is None else data.to_json()
        return "\n".join([*(span.to_json() for span in self.spans()), metrics])


@pytest.fixture
def emitted():
    return Emitted()


def parent_of(span: ReadableSpan) -> int | None:
    return None if span.parent is None else span.parent.span_id


def id_of(span: ReadableSpan) -> int:
    assert span.context is not None
    return span.context.span_id


def attributes_of(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def links_of(span: ReadableSpan) -> set[int]:
    return {link.context.span_id for link in span.links}


@pytest.fixture(params=STORES)
def kind(request):
    return request.param


@pytest.fixture
def url(kind, tmp_path):
    if kind == "postgres":
        return url_for(tmp_path / "memory")
    return ":memory:" if kind == "ram" else str(tmp_path / "memory.db")


def opened(url, emitted, **settings):
    settings = {"embedder": "words", "telemetry": emitted.telemetry, **settings}
    return Memory.open(url, **settings)


@action(InputEvent)
async def away(event, ctx):
    await ctx.durable(fetch, event.input)
    ctx.send_event(OutputEvent("async"))


def fetch(value):
    return value


@action(InputEvent)
def echo(event, ctx):
    ctx.send_event(OutputEvent(event.input))


class Clerk(Agent):
    @action(InputEvent)
    def note(self, event, ctx):
        ctx.long_term_memory.set("notes").add(str(event.input))
        answer = ctx.durable(fetch, event.input)
        if answer == "bad":
            raise ValueError(f"cannot do {answer}")
        ctx.send_event(OutputEvent(answer))


# --- what is emitted ----------------------------------------------------------------------------


def test_a_commit_and_a_search_are_children_of_their_callers_span(kind, url, emitted):
    """With counts on the span, and how long they took in the metrics."""
    with opened(url, emitted) as memory:
        notes = memory.key("ada").set("notes")
        with emitted.mine.start_as_current_span("mine") as mine:
            notes.add("she sits by the window")
            notes.search("window", limit=3)
    commit, search = emitted.span("alveus.commit"), emitted.span("alveus.search")
    caller = mine.get_span_context().span_id
    assert parent_of(commit) == parent_of(search) == caller
    system = {"db.system.name": STORES[kind]}
    counts = {"alveus.commit.number": 1, "alveus.commit.items": 1, "alveus.commit.values": 0}
    assert attributes_of(commit) == {**system, "db.operation.name": "commit", **counts}
    assert attributes_of(search) == {
        **system,
        "db.operation.name": "search",
        "db.response.returned_rows": 1,
        "alveus.search.limit": 3,
        "alveus.search.partial": False,
    }
    expected = SpanKind.CLIENT if kind == "postgres" else SpanKind.INTERNAL
    assert commit.kind is search.kind is expected
    metrics = emitted.metrics()
    duration = metrics["db.client.operation.duration"]
    assert duration.unit == "s"
    named = {p.attributes["db.operation.name"]: p for p in duration.data.data_points}
    assert {name: point.count for name, point in named.items()} == {"commit": 1, "search": 1}
    assert all(point.sum > 0 for point in named.values())
    assert emitted.value("db.client.response.returned_rows") == 1
    assert emitted.value("alveus.items.changed") == 1


def test_an_error_is_told_by_its_class_alone(url, emitted):
    """Its message quotes an id, which is content."""
    with opened(url, emitted) as memory:
        notes = memory.key("ada").set("notes")
        notes.add("one", id="canary")
        with pytest.raises(DuplicateItem):
            notes.add("two", id="canary")
    failed = [span for span in emitted.spans() if span.status.status_code is StatusCode.ERROR]
    for span in failed:
        assert attributes_of(span)["error.type"] == "DuplicateItem"
        assert span.status.description is None
        assert span.events == ()
    assert "canary" not in emitted.text()


def test_a_run_and_its_actions_are_spans(kind, url, emitted):
    """Below the span of whoever handed the input in; what an action does is below the action."""
    with opened(url, emitted) as memory, LocalRunner(Clerk, memory) as runner:
        with emitted.mine.start_as_current_span("mine") as mine:
            assert runner.handle("ada", "hello") == ("hello",)
        with pytest.raises(RunParked):
            runner.handle("bob", "bad")
        assert emitted.value("alveus.runs.parked") == 1
    done, parked = emitted.spans("alveus.run")
    assert parent_of(done) == mine.get_span_context().span_id
    assert parent_of(parked) is None
    told = attributes_of(done)
    assert told.pop("alveus.run.id") > 0
    assert told == {
        "db.system.name": STORES[kind],
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "Clerk",
        "alveus.run.resumed": False,
        "alveus.run.outcome": "done",
    }
    assert attributes_of(parked)["alveus.run.outcome"] == "parked"
    assert attributes_of(parked)["error.type"] == "ValueError"
    first, second = emitted.spans("alveus.action")
    assert (parent_of(first), parent_of(second)) == (id_of(done), id_of(parked))
    assert attributes_of(second)["error.type"] == "ValueError"
    (event,) = first.events
    assert event.name == DURABLE_CALL
    assert dict(event.attributes or {}) == {
        "alveus.call.position": 0,
        "alveus.call.outcome": "returned",
    }
    commits = {parent_of(span) for span in emitted.spans("alveus.commit")}
    assert {id_of(first), id_of(second)} <= commits
    assert emitted.value("alveus.run.duration", **{"alveus.run.outcome": "done"}) == 1
    assert emitted.value("alveus.run.wait.duration") == 2
    assert emitted.value("alveus.action.duration") == 2


def test_an_async_action_is_a_span_and_its_awaits_are_below_it(url, emitted):
    agent = Agent("away", actions=[away])
    with opened(url, emitted) as memory, LocalRunner(agent, memory) as runner:
        assert runner.handle("ada", "x") == ("async",)
    span = emitted.span("alveus.action")
    assert parent_of(span) == id_of(emitted.span("alveus.run"))
    assert [dict(event.attributes or {})["alveus.call.outcome"] for event in span.events] == [
        "returned"
    ]
    assert id_of(span) in {parent_of(commit) for commit in emitted.spans("alveus.commit")}


def test_a_replayed_call_is_told_as_such(emitted, tmp_path):
    """The action failed after it, and is tried again by hand."""
    broken = [True]

    class Once(Agent):
        @action(InputEvent)
        def pay(self, event, ctx):
            ctx.durable(fetch, event.input)
            if broken.pop():
                broken.append(False)
                raise ValueError

    with opened(str(tmp_path / "a.db"), emitted) as memory, LocalRunner(Once, memory) as runner:
        with pytest.raises(RunParked):
            runner.handle("ada", 1, event_id="e")
        runner.handle("ada", 1, event_id="e", on_parked="retry")
    outcomes = [
        dict(event.attributes or {})["alveus.call.outcome"]
        for span in emitted.spans("alveus.action")
        for event in span.events
    ]
    assert outcomes[0] == "returned"
    assert len(outcomes) == 2


@pytest.mark.parametrize("kind", ["sqlite", "postgres"], indirect=True)
def test_commits_that_share_a_transaction_are_linked_to_it(url, emitted):
    """Each stays a child of its own caller, and none of another one's."""
    with opened(url, emitted) as memory:
        store: Any = memory.store
        leading, go_on = threading.Event(), threading.Event()

        def lead(_tx):
            leading.set()
            wait_until(go_on.is_set)

        def write(key):
            with emitted.mine.start_as_current_span(key):
                memory.key(key).add("a note")

        threads = [threading.Thread(target=store.in_queue, args=(lead,))]
        threads[0].start()
        wait_until(leading.is_set)
        threads += [threading.Thread(target=write, args=(key,)) for key in ("ada", "bob")]
        for thread in threads[1:]:
            thread.start()
        wait_until(lambda: len(store.commit_queue._waiting) == 2)
        go_on.set()
        for thread in threads:
            thread.join()
    shared, commits = emitted.span("alveus.transaction"), emitted.spans("alveus.commit")
    assert parent_of(shared) is None
    assert links_of(shared) == {id_of(commit) for commit in commits}
    assert [links_of(commit) for commit in commits] == [{id_of(shared)}] * 2
    assert len({parent_of(commit) for commit in commits}) == 2
    assert attributes_of(shared)["alveus.transaction.commits"] == 2


def test_a_compaction_in_the_background_is_linked_to_who_set_it_off(url, emitted):
    with opened(url, emitted) as memory:
        notes = memory.key("ada").set("n", capacity=10, compaction=Trim(n=5))
        with emitted.mine.start_as_current_span("mine") as mine:
            for number in range(11):
                notes.add(f"note {number}")
        assert memory.settle(60)
        with emitted.mine.start_as_current_span("called"):
            notes.compact(Trim(n=1))
    background, called = emitted.spans("alveus.compact")[0], emitted.spans("alveus.compact")[-1]
    assert parent_of(background) is None
    assert links_of(background) == {mine.get_span_context().span_id}
    assert attributes_of(background)["alveus.compaction.by"] == "background"
    assert attributes_of(background)["alveus.compaction.retired"] == 5
    assert attributes_of(called)["alveus.compaction.by"] == "call"
    assert parent_of(called) is not None
    assert links_of(called) == set()
    assert emitted.value("alveus.compaction.retired") >= 6


def test_taking_over_and_fencing_are_counted(emitted):
    """A lease of an owner that died, and what it would still commit."""
    dead = set[str]()
    store = RamStore(alive=lambda owner: owner not in dead)
    store.observer = MemoryTelemetry(emitted.telemetry, store, lambda: 0)
    scope = Scope("s", "ada")
    first = store.acquire_lease(scope, "one")
    assert first is not None
    assert store.acquire_lease(scope, "two") is None
    assert emitted.value("alveus.leases.taken_over") == 0
    dead.add("one")
    again = store.acquire_lease(scope, "two")
    assert again is not None
    assert again.taken_over
    assert store.acquire_lease(scope, "two") == again
    assert emitted.value("alveus.leases.taken_over") == 1
    with pytest.raises(StaleRun):
        store.commit(Batch(scope=scope, time=1, epoch=first.epoch))
    assert emitted.value("alveus.commits.fenced") == 1
    store.release_lease(again)
    assert store.acquire_lease(scope, "three") is not None
    assert emitted.value("alveus.leases.taken_over") == 1


def test_a_lease_of_a_process_that_died_is_taken_over(url, kind, emitted, tmp_path):
    """On a store of several processes."""
    if kind == "ram":
        return
    program = (
        "import os, sys; from alveus import Memory; from alveus.store import Scope;"
        "memory = Memory.open(sys.argv[1], embedder='words');"
        "assert memory.store.acquire_lease(Scope('default', 'ada'), 'dead'); os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", program, url], check=True, timeout=120)
    with opened(url, emitted) as memory:
        wait_until(lambda: memory.store.acquire_lease(Scope("default", "ada"), "next"))
        assert emitted.value("alveus.leases.taken_over") == 1
        assert emitted.value("alveus.leases.held") == 1


def test_gauges_tell_what_waits(emitted, tmp_path):
    """Of a store that two memories have open, once; of one that was closed, nothing."""
    slow = Letters(instant=False)
    slow.broken = RuntimeError("no")
    place = tmp_path / "memory.db"
    with opened(place, emitted, embedder=slow) as memory:
        memory.key("ada").add("a note")
        with opened(place, emitted, embedder=slow):
            assert emitted.value("alveus.items.pending") == 1
        assert emitted.value("alveus.items.pending") == 1
        assert emitted.value("alveus.store.size") > 0
        assert emitted.value("alveus.runs.waiting") == 0
    MemoryTelemetry(emitted.telemetry, RamStore(), lambda: 0)  # dropped at once
    assert emitted.value("alveus.store.size") == 0


def test_the_memory_for_asyncio_nests_as_well(url, emitted):
    async def work():
        async with await AsyncMemory.open(
            url, embedder="words", telemetry=emitted.telemetry
        ) as memory:
            with emitted.mine.start_as_current_span("mine") as mine:
                await (await memory.key("ada")).add("a note")
            return mine.get_span_context().span_id

    caller = asyncio.run(work())
    assert parent_of(emitted.span("alveus.commit")) == caller


# --- what never is ------------------------------------------------------------------------------

CANARY = "xylophone"


class Leaky(Agent):
    """Puts the canary wherever an action can."""

    @action(InputEvent)
    def leak(self, event, ctx):
        ctx.short_term_memory.set(CANARY, CANARY)
        ctx.long_term_memory.set(CANARY).add(event.input, metadata={CANARY: CANARY})
        ctx.long_term_memory.set(CANARY).search(CANARY)
        ctx.durable.using(name=CANARY)(fetch, CANARY)
        ctx.send_event(OutputEvent(CANARY))
        if event.input.endswith("!"):
            raise RuntimeError(CANARY)


def leak(url, emitted):
    """Work on a memory that holds the canary everywhere."""
    where = {"space": CANARY, "knowledge": CANARY}
    with opened(url, emitted, **where) as memory:
        key = memory.key(CANARY)
        notes = key.set(CANARY, capacity=10, compaction=Trim(n=5))
        for number in range(12):
            notes.add(f"{CANARY} {number}", id=f"{CANARY}{number}", metadata={CANARY: CANARY})
        assert memory.settle(60)
        notes.search(CANARY, where={CANARY: CANARY})
        memory.knowledge.set(CANARY).add(CANARY)
        key.short_term.set(CANARY, CANARY)
        with pytest.raises(DuplicateItem):
            notes.add(CANARY, id=f"{CANARY}11")
        with pytest.raises(InvalidInput):
            notes.search(CANARY, where={CANARY: object()})
        memory.context(CANARY, key=CANARY, budget_tokens=100)
        notes.compact(Trim(n=1))
        with LocalRunner(Agent(CANARY, actions=[echo]), memory) as runner:
            runner.handle(CANARY, CANARY)
        with LocalRunner(Leaky, memory, name=f"{CANARY}3") as runner:
            runner.handle(CANARY, CANARY, event_id=CANARY)
            with pytest.raises(RunParked):
                runner.handle(f"{CANARY}2", f"{CANARY}!", event_id=f"{CANARY}!")


def test_no_content_is_exported(url, emitted):
    """No text, key, set, space, question, id, metadata, value, event or message, anywhere."""
    leak(url, emitted)
    assert {"alveus.search", "alveus.compact", "alveus.run", "alveus.action"} <= {
        span.name for span in emitted.spans()
    }
    assert CANARY not in emitted.text()


def test_content_is_names_and_questions_where_it_is_asked_for(url):
    """And on spans alone; texts of items and messages of errors are not exported even then."""
    emitted = Emitted(content=True)
    with opened(url, emitted, space="shop") as memory:
        notes = memory.key("ada").set("notes")
        notes.add("she sits by the window", id="one")
        notes.search("where to sit")
    (search,) = emitted.spans("alveus.search")
    told = attributes_of(search)
    assert told["db.query.text"] == "where to sit"
    assert told["db.namespace"] == "shop"
    assert told["db.collection.name"] == "notes"
    assert told["alveus.key"] == "ada"
    assert "by the window" not in emitted.text()
    assert all("ada" not in json.dumps(m.to_json()) for m in emitted.metrics().values())


def test_what_is_emitted_is_on_the_page(url, emitted):
    """Spans, metrics, units and attributes are those of the catalogue, and no others."""
    leak(url, emitted)
    for span in emitted.spans():
        assert attributes_of(span).keys() <= set(SPAN_INFO[span.name].attributes)
        for event in span.events:
            assert event.name == DURABLE_CALL
            assert dict(event.attributes or {}).keys() <= set(EVENT_ATTRIBUTES)
    for name, metric in emitted.metrics().items():
        info = METRIC_INFO[name]
        assert metric.unit == info.unit
        for point in metric.data.data_points:
            assert dict(point.attributes).keys() <= set(info.attributes)


def test_the_catalogue_has_no_name_that_is_not_explained():
    """Each attribute of a span, an event or a metric is in the list; content is in no metric."""
    explained = {each.name: each for each in ATTRIBUTES}
    used = {name for one in (*SPANS, *METRICS) for name in one.attributes} | {*EVENT_ATTRIBUTES}
    assert used == set(explained)
    assert not any(explained[name].content for metric in METRICS for name in metric.attributes)
    assert {span.duration for span in SPANS} <= set(METRIC_INFO)


def test_a_chat_is_exported_without_its_conversation(emitted):
    """The name of its runner holds the conversation, which is a key."""
    memory = Memory.open(embedder="words", telemetry=emitted.telemetry)
    row = Run(1, f"chat {CANARY}", Scope("s", CANARY), 0, "waiting", CANARY, 0)
    memory.store.observer.run(row, "ConversableAgent").end("done")
    memory.close()
    assert attributes_of(emitted.span("alveus.run"))["gen_ai.agent.name"] == "ConversableAgent"
    assert CANARY not in emitted.text()


def test_a_run_that_its_runner_leaves_ends_its_span(emitted):
    """It waits for its next try as the runner closes, and is taken up by the next one."""

    class Failing(Agent):
        @action(InputEvent, retry=Retry(wait_s=30))
        def fail(self, event, ctx):
            raise ValueError

    with opened(":memory:", emitted) as memory:
        runner = LocalRunner(Failing, memory)
        runner.submit("ada", 1)
        wait_until(lambda: emitted.spans("alveus.action"))
        runner.close()
    assert attributes_of(emitted.span("alveus.run"))["alveus.run.outcome"] == "interrupted"


# --- what it costs, and what it may not break ---------------------------------------------------


class TestObservedStore(WholeContract):
    """A store that is observed keeps every promise."""

    def open(self, path):
        self.dead = set[str]()
        store = RamStore(alive=lambda owner: owner not in self.dead)
        store.observer = MemoryTelemetry(Emitted(content=True).telemetry, store, lambda: 0)
        return store

    def kill_owner(self, store, owner):
        self.dead.add(owner)

    def location(self, path):
        return ":memory:"


class Broken(SpanProcessor):
    """Raises whatever is asked of it."""

    def on_start(self, span, parent_context=None):
        raise RuntimeError("no start")

    def on_end(self, span):
        raise RuntimeError("no end")


class BrokenMeters(MeterProvider):
    """Its instruments can be made, and raise."""

    def get_meter(self, *args: Any, **kwargs: Any) -> Any:
        meter = super().get_meter(*args, **kwargs)

        class Raises:
            def record(self, *_args: Any) -> None:
                raise RuntimeError("no value")

            add = record

        class Meter:
            def create_histogram(self, *_args: Any, **_kwargs: Any) -> Raises:
                return Raises()

            def create_counter(self, *_args: Any) -> Raises:
                raise RuntimeError("no counter")

            create_observable_gauge = meter.create_observable_gauge

        return Meter()


def test_telemetry_that_fails_breaks_nothing(url, caplog):
    """Neither a write, nor a search, a compaction or a run; the log tells, by class."""
    spans = TracerProvider()
    spans.add_span_processor(Broken())
    telemetry = OpenTelemetry(tracer_provider=spans, meter_provider=BrokenMeters())
    with Memory.open(url, embedder="words", telemetry=telemetry) as memory:
        notes = memory.key("ada").set("notes")
        notes.add("she sits by the window")
        assert len(notes.search("window")) == 1
        notes.compact(Trim(n=1))
        with LocalRunner(Clerk, memory) as runner:
            assert runner.handle("ada", "hello") == ("hello",)
            with pytest.raises(RunParked):
                runner.handle("bob", "bad")
    assert "OpenTelemetry raised RuntimeError" in caplog.text


def test_nothing_is_imported_where_nobody_asks():
    """Nor is anything wrapped: the calls of a store are those of its class."""
    program = (
        "import sys; from alveus import Memory, LocalRunner, Agent;"
        "memory = Memory.open(embedder='words'); memory.key('a').add('b');"
        "loaded = [m for m in sys.modules if m.startswith(('opentelemetry', 'alveus.telemetry'))];"
        "assert not loaded, loaded; assert 'commit' not in vars(memory.store)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


def test_no_method_of_a_live_object_is_replaced(url, emitted):
    """Telemetry observes a store; it changes none of what a reader finds in the classes."""
    with opened(url, emitted) as memory:
        memory.key("ada").add("a note")
        compactions = memory.engine.compactions
        for live in (memory.store, memory.engine.recall, compactions, compactions.worker):
            assert not [n for n in vars(live) if callable(getattr(type(live), n, None))]


def test_without_the_package_the_error_says_what_to_install():
    program = (
        "import sys; sys.modules['opentelemetry'] = None\n"
        "from alveus.errors import Unsupported\n"
        "try:\n    from alveus.telemetry import OpenTelemetry\n"
        "except Unsupported as error:\n    assert 'alveus[otel]' in str(error), error\n"
        "else:\n    raise SystemExit('it was imported')"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


def test_what_is_no_telemetry_is_refused_at_once():
    with pytest.raises(InvalidInput, match="telemetry must be an OpenTelemetry"):
        Memory.open(telemetry=object())  # pyright: ignore[reportArgumentType] - the test
