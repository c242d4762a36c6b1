"""Runs in a file: what is beside the promise, and outside writes to a key that is being run."""

from __future__ import annotations

import threading
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import apsw
import pytest

from alveus import Memory
from alveus.errors import KeyBusy, NotFound, StaleRun, StoreReadOnly
from alveus.store import DurableCall, Put, QueuedInput, Retain, Scope, Step
from alveus.store.sql import writer
from alveus.store.sqlite import SqliteStore
from alveus.testing import ADA, NOW, batch, differences, reads
from alveus.testing.run_laws import BEGIN, accept, end, leased, queued_input, turn
from doors import Letters
from waiting import LIMIT_S, SHORT_S

SCOPE = Scope("default", "ada")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "app.db"


@pytest.fixture
def store(path):
    store = SqliteStore.open(path)
    yield store
    store.close()


@pytest.fixture(params=["ram", "file"])
def url(request, path):
    return ":memory:" if request.param == "ram" else path


@pytest.fixture
def memory(url):
    with Memory.open(url, space=SCOPE.space, embedder=Letters(), wait_s=SHORT_S) as memory:
        yield memory


def furnish(store) -> int:
    """Have a run done, one parked and one begun; return the last."""
    end(store, accept(store), ["1", "2"])
    store.accept("helper", [queued_input("e"), queued_input("f")])
    turn(store, store.queued_runs("helper", ADA)[0].id, "parked", '"why"')
    run = store.queued_runs("helper", ADA)[1].id
    lease = leased(store)
    store.commit(batch(Step(run, 0, "greet", sensory="1", outputs=["3"], begin=BEGIN), under=lease))
    store.commit(batch(DurableCall(run, 1, 0, "fetch", "digest", "pending"), under=lease))
    store.consumer_position("helper", "app", "mail")
    return run


# --- outside writes ----------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["set", "batch"])
def test_a_change_waits_for_whoever_runs_the_key(url, way):
    """It goes in once the lease is given back; a batch that saw what the run changed is stale."""
    with Memory.open(url, space=SCOPE.space, embedder=Letters(), wait_s=LIMIT_S) as memory:
        store, ada = memory.store, memory.key("ada")
        run, lease = accept(store, SCOPE), leased(store, SCOPE)
        step = Step(run, 0, "count", begin=BEGIN, done=True)
        work = batch(step, scope=SCOPE, under=lease, release=True)
        if way == "set":
            work = replace(work, base=0, state=[Put(("n",), 5)])
        timer = threading.Timer(0.02, store.commit, [work])
        if way == "set":
            timer.start()
            assert ada.short_term.increment("n") == 6
        else:
            with ada.batch() as changes:
                changes.short_term.set("n", 6)
                timer.start()
        timer.join()
        assert ada.short_term.to_dict() == {"n": 6}
        assert memory.stats().store.commits == 2


@pytest.mark.parametrize("way", ["set", "batch"])
def test_a_key_that_is_run_for_long_is_busy(memory, way):
    """The error says how long was waited; nothing was changed; items go in all the while."""
    ada = memory.key("ada")
    leased(memory.store, SCOPE)

    def change():
        with ada.batch() as changes:
            changes.short_term.set("a", 1)
            changes.add("note")

    with pytest.raises(KeyBusy, match=rf"{SHORT_S} s") as caught:
        change() if way == "batch" else ada.short_term.set("a", 1)
    assert (caught.value.key, caught.value.wait_s) == ("ada", SHORT_S)
    assert not ada.short_term.is_exist("a")
    ada.add("another note")
    assert [item.text for item in ada.list()] == ["another note"]


# --- the file ----------------------------------------------------------------------------------


def test_a_sound_file_has_no_problems(store):
    """Also while runs are under way."""
    furnish(store)
    assert store.problems() == []


DAMAGE = {
    "runs whose lane is wrong": "UPDATE lane SET next = 1",
    "runs that ended in part": "UPDATE run SET ended = NULL WHERE status = 2",
    "steps without a run and a commit": "UPDATE step SET n = 99",
    "durable calls without a run": "UPDATE durable_call SET step = 99 << 20",
    "outputs without a step": "DELETE FROM step",
}


@pytest.mark.parametrize("what", DAMAGE)
def test_damage_is_found(store, path, what):
    """By what it did to runs."""
    furnish(store)
    db = apsw.Connection(str(path))
    db.execute(DAMAGE[what])
    db.close()
    assert any(what in problem for problem in store.problems())


def test_a_backup_holds_runs(store, tmp_path):
    """Restored, they are as they were, and go on; what came later is gone."""
    run = furnish(store)
    before = reads(store, now=NOW)
    store.backup(tmp_path / "copy.db")
    end(store, accept(store, Scope("app", "bob")), ["4"])
    store.prune_runs("helper", "app", Retain(age=timedelta(microseconds=0)), now=NOW)
    store.restore(tmp_path / "copy.db")
    assert not differences(before, reads(store, now=NOW))
    lease = store.acquire_lease(ADA, "one")
    assert lease is not None
    store.commit(batch(Step(run, 1, "note", done=True), under=lease))
    assert accept(store) > run
    assert store.problems() == []


def test_a_store_that_is_only_read_says_so(store, path):
    """It tells of runs; it takes none."""
    furnish(store)
    with closing(SqliteStore.open(path, read_only=True)) as reader:
        assert not differences(reads(store, now=NOW), reads(reader, now=NOW))
        assert reader.consumer_position("helper", "app", "mail") == 0
        for call in (
            lambda: reader.accept("helper", [QueuedInput(ADA, "1", NOW)]),
            lambda: reader.consumer_position("helper", "app", "new"),
            lambda: reader.advance_consumer("helper", "app", "mail", 1),
            lambda: reader.retry_run(2, last=True, time=NOW),
            lambda: reader.prune_runs(
                "helper", "app", Retain(age=timedelta(microseconds=0)), now=NOW
            ),
        ):
            with pytest.raises(StoreReadOnly):
                call()


def test_what_is_remembered_of_runs_has_a_bound(store, monkeypatch):
    """What was forgotten is read again."""
    monkeypatch.setattr(writer, "CACHED", 2)
    scopes = [Scope("app", f"{i}") for i in range(6)]
    ids = [accept(store, scope) for scope in scopes * 2]
    assert len(store._cache.runs.runs) <= 3
    assert [end(store, run) for run in ids] == list(range(1, 13))
    answers = store.accept("helper", [QueuedInput(scope, "1", NOW) for scope in scopes])
    assert [(answer.number, answer.first) for answer in answers] == [(2, True)] * 6


def test_looking_for_work_does_not_pass_what_ended(store):
    """However much of it there is: what waits is found by an index of its own."""
    furnish(store)
    queries: list[str] = []
    with store.reader() as db:
        db.trace_v2(apsw.SQLITE_TRACE_STMT, lambda event: queries.append(event["sql"]))
        store._readers.append(db)
        store.queued_runs("helper", ADA)
        store.waiting_lanes("helper", "app", past_parked=True)
        store.waiting_lanes("helper", "app", past_parked=False)
        store.runs("app", status="parked")
        db.trace_v2(0, None)
        asked = [sql for sql in queries if "FROM run" in sql]
        plans = [
            [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {sql}", (1,) * sql.count("?"))]
            for sql in asked
        ]
    assert len(plans) == 4
    for plan in plans:
        assert any("run USING" in step and "run_open" in step for step in plan), plan


def test_a_run_that_is_gone_is_not_found(store):
    """Also when this very handle remembered it."""
    run = accept(store)
    other = SqliteStore.open(Path(store.location))
    end(other, run)
    other.prune_runs("helper", "app", Retain(age=timedelta(microseconds=0)), now=NOW)
    with pytest.raises(NotFound):
        store.retry_run(run, last=False, time=NOW)
    later = accept(other)
    with pytest.raises(StaleRun):
        store.retry_run(later, last=False, time=NOW)
    other.close()
