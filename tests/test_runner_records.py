"""Runs as a program looks at them and decides of them; waiting for one's own key."""

from __future__ import annotations

import pytest

from fornix import Agent, Event, InputEvent, LocalRunner, Memory, OutputEvent, action
from fornix.errors import InvalidInput, NotFound, RunDiscarded, RunParked, StaleRun
from waiting import LIMIT_S


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
            with pytest.raises(InvalidInput, match="own"):
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
