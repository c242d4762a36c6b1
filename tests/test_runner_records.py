"""Runs as a program looks at them and decides of them; waiting for one's own key."""

from __future__ import annotations

import math
import threading

import pytest

from alveus import Agent, Event, InputEvent, LocalRunner, Memory, OutputEvent, action
from alveus.errors import InvalidInput, NotFound, RunDiscarded, RunParked, StaleRun
from alveus.runs.runner import scheduler, watcher
from alveus.runs.runner.scheduler import LaneState
from alveus.store import Scope
from waiting import LIMIT_S, wait_until


@pytest.fixture(params=["ram", "file"])
def memory(request, tmp_path):
    place = ":memory:" if request.param == "ram" else tmp_path / "app.db"
    with Memory.open(place, embedder="words") as opened:
        yield opened


class Fussy(Agent):
    """Fails on every text in `refused`."""

    def __init__(self, **settings):
        super().__init__(**settings)
        self.refused = {"bad"}

    @action(InputEvent)
    def take(self, event, ctx):
        if event.input in self.refused:
            raise ValueError(f"not {event.input!r}")
        ctx.send_event(OutputEvent(event.input))


def test_runs_are_listed_and_retried(memory):
    agent = Fussy()
    with LocalRunner(agent, memory) as runner:
        assert runner.handle("ada", "good", event_id="first") == ("good",)
        with pytest.raises(RunParked) as parked:
            runner.handle("ada", "bad")
        waiting = runner.submit("ada", "later")
        assert [(r.number, r.status) for r in runner.runs.list(key="ada")] == [
            (2, "waiting"), (1, "parked"), (0, "done"),
        ]  # fmt: skip
        (found,) = runner.runs.list(status="parked")
        assert found == runner.runs.get(parked.value.run)
        assert found.error is not None
        assert (found.error["action"], found.error["type"]) == ("take", "ValueError")
        assert found.input == {"input": "bad"}
        assert found.ended is None
        agent.refused.clear()
        assert runner.runs.retry(found.id) == found.id
        assert waiting.result(wait_s=LIMIT_S) == ("later",)
        assert {r.status for r in runner.runs.list()} == {"done"}


def test_a_discarded_run_lets_others_go_on(memory):
    with LocalRunner(Fussy, memory) as runner:
        with pytest.raises(RunParked) as parked:
            runner.handle("ada", "bad")
        behind = runner.submit("ada", "good")
        runner.runs.discard(parked.value.run)
        assert behind.result(wait_s=LIMIT_S) == ("good",)
        with pytest.raises(StaleRun):
            runner.runs.discard(parked.value.run)


def test_an_overtaken_run_is_retried_as_a_new_one(memory):
    agent = Fussy(on_failed="next")
    with LocalRunner(agent, memory) as runner:
        with pytest.raises(RunParked) as parked:
            runner.handle("ada", "bad")
        assert runner.handle("ada", "good") == ("good",)
        agent.refused.clear()
        heir = runner.runs.retry(parked.value.run)
        runner.run_until_idle()
        old, new = runner.runs.get(parked.value.run), runner.runs.get(heir)
        assert old is not None
        assert new is not None
        assert (old.status, new.status, new.number) == ("retried", "done", 2)


def test_the_watch_asks_for_parked_runs_together(memory, monkeypatch):
    """And for what waits behind them: it looks twenty times a second."""
    monkeypatch.setattr(watcher, "LOOKED_AT", 8)
    run, run_statuses = memory.store.run, memory.store.run_statuses
    asked: list[list[int]] = []

    def counted(runs):
        asked.append([*runs])
        return run_statuses(runs)

    agent = Fussy()
    with LocalRunner(agent, memory) as runner:
        keys = [f"k{number}" for number in range(20)]
        parked = [*runner.map([(key, "bad") for key in keys], errors="return")]
        assert all(isinstance(each, RunParked) for each in parked)
        stuck = {each.run for each in parked if isinstance(each, RunParked)}
        behind = [runner.submit(key, "good") for key in keys]
        wanted = stuck | {ticket.run for ticket in behind}
        singly: list[int] = []
        monkeypatch.setattr(
            memory.store, "run", lambda number: singly.append(number) or run(number)
        )
        monkeypatch.setattr(memory.store, "run_statuses", counted)
        wait_until(lambda: wanted <= {number for runs in [*asked] for number in runs})
        assert all(len(runs) <= 8 for runs in asked)
        assert singly == []
        agent.refused.clear()
        for number in stuck:
            runner.runs.retry(number)
        assert [ticket.result(wait_s=LIMIT_S) for ticket in behind] == [("good",)] * 20


def test_keys_whose_runs_are_parked_are_not_kept_in_mind(memory, monkeypatch):
    """Where a runner serves, it finds them again when somebody has decided of the parked run."""
    monkeypatch.setattr(scheduler, "LANES", 5)
    monkeypatch.setattr(scheduler, "IDLE_S", -math.inf)
    agent, stop = Fussy(), threading.Event()
    with LocalRunner(agent, memory) as runner:
        serving = threading.Thread(target=runner.serve, kwargs={"stop": stop})
        serving.start()
        try:
            lanes, keys = runner._executor.scheduler.lanes, [f"k{number}" for number in range(20)]
            bad = [*runner.map([(key, "bad") for key in keys], errors="return")]
            wait_until(lambda: len(lanes) <= 5)
            monkeypatch.setattr(scheduler, "IDLE_S", math.inf)
            behind = [runner.submit(key, "good") for key in keys[:10]]
            with pytest.raises(RunParked):
                behind[0].result()
            agent.refused.clear()
            for each in bad:
                assert isinstance(each, RunParked)
                runner.runs.retry(each.run)
            assert [ticket.result(wait_s=LIMIT_S) for ticket in behind] == [("good",)] * 10
            runner.run_until_idle()
            assert {run.status for run in runner.runs.list()} == {"done"}
        finally:
            stop.set()
            serving.join(LIMIT_S)


def test_leases_of_others_are_tried_a_few_at_a_time(memory, monkeypatch):
    """Each try is a transaction; all are tried in the end."""
    monkeypatch.setattr(watcher, "TRIED", 4)
    scopes = [Scope("default", f"k{number}") for number in range(10)]
    leases = [memory.store.acquire_lease(scope, "another") for scope in scopes]
    acquire, tried = memory.store.acquire_lease, list[Scope]()

    def noted(scope, owner):
        tried.append(scope)
        return acquire(scope, owner)

    monkeypatch.setattr(memory.store, "acquire_lease", noted)
    with LocalRunner(Fussy, memory) as runner:
        tickets = [runner.submit(scope.key or "", "good") for scope in scopes]
        lanes = runner._executor.scheduler.lanes
        wait_until(lambda: all(lanes[scope].state is LaneState.BLOCKED for scope in scopes))
        runner._watch.stop()
        for _ in range(5):
            tried.clear()
            assert runner._watch._look()
            assert len(tried) == 4
        for lease in leases:
            memory.store.release_lease(lease)
        for _ in range(3):
            runner._watch._look()
        assert [ticket.result(wait_s=LIMIT_S) for ticket in tickets] == [("good",)] * 10


def test_runs_that_are_parked_are_not_read_again_and_again(memory, monkeypatch):
    """Where others go on past them: each that waits is read about once."""
    monkeypatch.setattr(scheduler, "PAGE", 10)
    monkeypatch.setattr(scheduler, "TURN_S", (math.inf, math.inf))
    queued_runs, read = memory.store.queued_runs, list[int]()

    def counted(*args, **options):
        rows = queued_runs(*args, **options)
        read.extend(row.id for row in rows)
        return rows

    monkeypatch.setattr(memory.store, "queued_runs", counted)
    with LocalRunner(Fussy(on_failed="next"), memory) as runner:
        answers = [*runner.map([("ada", "bad")] * 60, errors="return")]
        assert all(isinstance(answer, RunParked) for answer in answers)
        assert runner.handle("ada", "good") == ("good",)
    assert len(read) <= 2 * 61


def test_other_agents_runs_are_not_this_ones(memory):
    with LocalRunner(Fussy, memory) as runner, LocalRunner(Fussy, memory, name="other") as other:
        mine = runner.handle("ada", "good").run
        assert other.runs.get(mine) is None
        assert other.runs.list() == []
        with pytest.raises(NotFound):
            other.runs.retry(mine)


def test_an_action_does_not_wait_for_its_own_key(memory):
    told = []

    @action(InputEvent)
    def ask(event, ctx):
        if event.input == "outer":
            with pytest.raises(InvalidInput, match="of the same key"):
                runner.handle(ctx.key, "inner")
            told.append(runner.handle("bob", "inner"))
        ctx.send_event(OutputEvent(event.input))

    with LocalRunner(Agent("asker", actions=[ask]), memory) as runner:
        assert runner.handle("ada", "outer", wait_s=LIMIT_S) == ("outer",)
    assert told == [("inner",)]


class Again(Event):
    n: int


def test_a_run_without_end_is_stopped(memory):
    @action(InputEvent)
    def begin(event, ctx):
        ctx.send_event(Again(0))

    @action(Again)
    def go_on(event, ctx):
        ctx.short_term_memory.set("n", event.n)
        ctx.send_event(Again(event.n + 1))

    with LocalRunner(Agent("endless", actions=[begin, go_on]), memory) as runner:
        ticket = runner.submit("ada", "go")
        behind = runner.submit("bob", "go")
        while not memory.key("ada").short_term.get("n"):
            assert runner.runs.get(ticket.run)
        for each in (ticket, behind):
            runner.runs.discard(each.run)
            with pytest.raises(RunDiscarded):
                each.result(wait_s=LIMIT_S)
        reached = memory.key("ada").short_term.get("n")
        with pytest.raises(StaleRun):
            runner.runs.discard(ticket.run)
        runner.run_until_idle()
        assert memory.key("ada").short_term.get("n") == reached


def test_a_retry_beside_a_look_at_its_run_waits_for_its_own_try(memory, monkeypatch):
    """What was read of the run before the retry does not answer a ticket that came after it."""
    agent = Fussy()
    runner = LocalRunner(agent, memory)
    with pytest.raises(RunParked) as parked:
        runner.handle("ada", "bad", event_id="e")
    agent.refused.clear()
    read, tickets = memory.store.run, []

    def read_late(run):
        row = read(run)
        monkeypatch.setattr(memory.store, "run", read)
        tickets.append(runner.submit("ada", "bad", event_id="e", on_parked="retry", at_once=False))
        return row

    monkeypatch.setattr(memory.store, "run", read_late)
    runner._registry.look_up(parked.value.run)
    assert tickets[0].result(LIMIT_S) == ("bad",)
    runner.close()
