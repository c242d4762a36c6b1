"""Commits of several hosts on PostgreSQL, drafted without the lock while others commit."""

from __future__ import annotations

import threading
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, cast

import pytest
from psycopg.errors import CheckViolation

from alveus.errors import (
    CompactionChanged,
    DuplicateItem,
    KeyBusy,
    KeyFull,
    NotFound,
    SetDefinitionConflict,
    SetFull,
    StaleItem,
    StaleRun,
)
from alveus.store import (
    CLOCK_STEP_US,
    Batch,
    Begin,
    Clear,
    Commit,
    Compact,
    Define,
    Definition,
    DurableCall,
    Erasure,
    Limits,
    Link,
    Put,
    QueuedInput,
    Refresh,
    Replace,
    Retire,
    Revive,
    Scope,
    SetRef,
    Step,
    Undo,
)
from alveus.store.commit_queue import CommitTicket
from alveus.store.postgres import PostgresStore
from alveus.store.postgres.connection import PostgresConnection
from alveus.store.postgres.database import REDRAFTS
from alveus.store.postgres.drafting import DraftConnection, DraftNumber, Known, NotADraft
from alveus.store.records import MINUTE_US
from alveus.store.sql import items
from alveus.store.sql.lanes import InputWriter, SqlLanes
from alveus.store.sql.writer import WriterCache
from alveus.testing import ADA, NOTES, NOW, add, write
from alveus.testing.batches import record, upsert
from postgres_server import orphans, url_for
from waiting import LIMIT_S

BOB = Scope("app", "bob")
START = NOW - NOW % MINUTE_US
"""A time from which clocks may go on for a minute."""


@pytest.fixture
def hosts(tmp_path):
    """Two hosts that know the keys `ADA` and `BOB`, after six commits, the last of `ADA`."""
    opened = [PostgresStore.open(url_for(tmp_path / "memory")) for _ in range(2)]
    for number, store in enumerate(opened):
        write(store, Put((f"b{number}",), number), scope=BOB, time=START)
        write(store, add(f"{number}"), Put((f"a{number}",), number), time=START)
        write(store, Put(("turn",), number), time=START)
    yield opened
    for store in opened:
        store.close()


@contextmanager
def interrupted(store, *works):
    """Have others work between the reads of a draft of *store* and its packet, once each."""
    left, send = list(works), store._send_draft

    def interrupt(*arguments):
        if left:
            left.pop(0)()
        return send(*arguments)

    store._send_draft = interrupt
    try:
        yield
    finally:
        del store._send_draft
    assert not left


def tree(store, scope=ADA):
    found = store.field_names(scope, (), at=None, now=START)
    return {name: store.node(scope, (name,), at=None, now=START).value for name, _ in found}


def notes(store):
    return {item.record.id: item for item in store.page(NOTES)}


def commit(store, *items, scope=ADA, time=START, **more):
    """Commit without asking for anything before."""
    return store.commit(Batch(scope=scope, time=time, items=items, **more))


def locked(store, monkeypatch):
    """Fail where a commit of *store* holds the lock from one packet to the next."""
    monkeypatch.setattr(store, "_begin", lambda _: pytest.fail("the lock was taken"))


def test_a_draft_is_moved_by_the_commits_of_others_to_other_keys(hosts, monkeypatch):
    """Numbers and rows are as if this host had begun after them; what it replaced ends with it."""
    here, there = hosts
    locked(here, monkeypatch)

    def others():
        for number in range(3):
            write(there, Put((f"q{number}",), number), scope=BOB, time=START)

    with interrupted(here, others):
        made = write(here, Put(("a0",), "new"), Put(("more",), 1), add("moved"), time=START)
    assert made.number == 10
    assert here.head(ADA) == there.head(ADA) == 10
    assert tree(there) == tree(here) == {"a0": "new", "turn": 1, "a1": 1, "more": 1}
    assert notes(there)["moved"].begin_commit == notes(there)["moved"].row >> 20 == 10
    assert [there.node(ADA, ("a0",), at=at, now=START).value for at in (9, 10)] == [0, "new"]
    assert [write(store, Put(("a0",), 1), time=START).number for store in hosts] == [11, 12]


def test_a_run_is_drafted_while_others_commit(hosts, monkeypatch):
    """Steps, durable calls, outputs and the end of a run, under its lease, which goes with it."""
    here, there = hosts
    run = here.accept("agent", [QueuedInput(ADA, "1", START)], owner="me")[0]
    assert run.lease is not None
    locked(here, monkeypatch)
    begin, epoch = Begin(START, ("greet",)), run.lease.epoch
    call = DurableCall(run.run, 0, 0, "fetch", "digest", "pending", None, 1, begin=begin)
    step = Step(run.run, 0, "greet", outputs=["1", "2"])
    done = Step(run.run, 1, "greet", outputs=["3"], done=True)
    parts = [
        {"run": call},
        {"run": replace(call, status="returned", outcome="1", begin=None)},
        {"run": step, "state": [Put(("a0",), "run")], "base": here.head(ADA)},
        {"run": done, "release": True},
    ]
    numbers = []
    for number, part in enumerate(parts):
        with interrupted(here, lambda: write(there, Put(("x",), 1), scope=BOB, time=START)):
            numbers.append(commit(here, epoch=epoch, time=START + number, **part).number)
    assert numbers == [8, 10, 12, 14]
    found = there.run_outputs(run.run)
    assert [out.position >> 20 for out in found] == [12, 12, 14]
    assert [out.event for out in found] == ["1", "2", "3"]
    assert there.run(run.run).status == "done"
    assert [each.commit for each in there.steps(run.run)] == [12, 14]
    assert there.durable_calls(run.run, 0)[0].status == "returned"
    assert there.acquire_lease(ADA, "you") is not None


def test_what_others_changed_of_the_same_key_is_read_again(hosts):
    """A stale base is refused, an upsert meets what is there now, an id that is taken says so."""
    here, there = hosts
    base = here.head(ADA)
    overtake = interrupted(here, lambda: write(there, Put(("turn",), 2), time=START))
    with overtake, pytest.raises(StaleRun):
        commit(here, state=[Put(("turn",), 3)], base=base)
    assert tree(here)["turn"] == 2
    with interrupted(here, lambda: commit(there, add("both"))):
        commit(here, upsert("both", "of here"))
    assert (notes(here)["both"].version, notes(here)["both"].record.text) == (2, "of here")
    with interrupted(here, lambda: commit(there, add("taken"))), pytest.raises(DuplicateItem):
        commit(here, add("taken"))
    change = Replace(NOTES, 1, record("taken", "of here"))
    other = replace(change, record=record("taken", "of there"))
    with interrupted(here, lambda: commit(there, other)), pytest.raises(StaleItem):
        commit(here, change)
    with interrupted(here, lambda: commit(there, add("op"), op=b"once", request=b"this")):
        made = commit(here, add("other"), op=b"once", request=b"this")
    assert made.adopted
    assert "other" not in notes(here)


def test_a_lease_that_others_took_meanwhile_is_respected(hosts, monkeypatch):
    """Nothing of the key but its lease has changed."""
    here, there = hosts
    lease = here.acquire_lease(BOB, "me")
    batch = Batch(scope=BOB, time=START, base=here.head(BOB), state=[Put(("x",), 1)])

    def take_over():
        here._owners.dismiss("me")
        assert there.acquire_lease(BOB, "you") is not None

    with interrupted(here, take_over), pytest.raises(StaleRun):
        here.commit(replace(batch, epoch=lease.epoch))
    locked(here, monkeypatch)
    with pytest.raises(KeyBusy):
        here.commit(batch)


def test_a_host_that_stops_between_its_reads_and_its_packet_holds_nobody_up(tmp_path, hosts):
    """It holds no lock; when it goes on, its commit comes after theirs."""
    here, there = hosts
    reached, goes_on = threading.Event(), threading.Event()

    def stop():
        reached.set()
        assert goes_on.wait(LIMIT_S)

    answers = []

    def work():
        with interrupted(here, stop):
            answers.append(write(here, Put(("a0",), "late"), time=START).number)

    thread = threading.Thread(target=work)
    thread.start()
    assert reached.wait(LIMIT_S)
    with there.reader() as db:
        held = "SELECT count(*) FROM pg_locks WHERE relation = ?::text::regclass AND mode LIKE ?"
        name = f"{there._server.schema}.ledger"
        assert db.execute(held, (name, "Row%")).get == 0
    numbers = [write(there, Put(("x",), 1), scope=BOB, time=START).number for _ in range(5)]
    goes_on.set()
    thread.join(LIMIT_S)
    assert numbers == [*range(7, 12)]
    assert answers == [12]
    assert tree(there)["a0"] == "late"


def test_who_is_overtaken_again_and_again_takes_the_lock(hosts):
    """Others cannot be faster for ever."""
    here, there = hosts
    overtake = [lambda: commit(there, upsert("0", "of there"))] * (REDRAFTS + 1)
    with interrupted(here, *overtake):
        commit(here, upsert("0", "of here"))
    assert (notes(there)["0"].version, notes(there)["0"].record.text) == (6, "of here")


def test_times_follow_those_of_others_unless_they_decided_something(hosts):
    """What expires is judged by the time at which it is committed."""
    here, there = hosts
    ahead = START + 5_000_000
    expiring = add("expiring")
    commit(here, replace(expiring, record=replace(expiring.record, expires=START + 1_000_000)))
    with interrupted(here, lambda: write(there, Put(("x",), 1), scope=BOB, time=ahead)):
        made = write(here, Put(("a0",), "x"), time=START)
    assert made.time == ahead
    with interrupted(here, lambda: write(there, Put(("x",), 1), scope=BOB, time=ahead + 1)):
        made = commit(here, add("expiring"), time=START)
    assert made.time == ahead + 1
    assert notes(here)["expiring"].version == 2
    late = START + MINUTE_US
    with interrupted(here, lambda: write(there, Put(("x",), 1), scope=BOB, time=late)):
        made = commit(here, add("minute"), time=START + MINUTE_US - 1)
    assert made.time == late


@pytest.mark.parametrize(
    ("items", "state"), [([add("x")], []), ([], [Put(("a0",), 1)])], ids=["an item", "state"]
)
def test_a_commit_is_drafted_once_though_others_are_ahead(hosts, items, state):
    """Another host has committed a second later, by its clock: that changes no answer of these."""
    here, there = hosts
    base = here.head(ADA) if state else None
    with interrupted(here, lambda: write(there, Put(("x",), 1), scope=BOB, time=START + 1_000_000)):
        send, drafts = here._send_draft, []
        here._send_draft = lambda *given: drafts.append(1) or send(*given)
        made = commit(here, *items, state=state, base=base, corroborated=START)
    assert (made.time, len(drafts)) == (START + 1_000_000, 1)


def test_what_reads_what_it_wrote_is_done_under_the_lock(hosts):
    """A draft does not see its own writes: the server notices, or it is not tried."""
    here, there = hosts
    write(there, Put(("x",), 1), scope=BOB, time=START)
    write(here, Clear(()), Put(("a0",), "again"), add("a"), time=START)
    assert tree(there) == {"a0": "again"}
    write(here, Refresh(("a0",), START + 10), Refresh(("none",), 1), time=START)
    write(here, Put(("a0",), 1), Put(("a0",), 2), Clear(()), Put(("a0",), 3), time=START)
    assert tree(there) == {"a0": 3}
    made = commit(here, add("b"), Retire(NOTES, "b", version=1))
    assert [item.version for item in there.versions(NOTES, "b")] == [1]
    assert there.versions(NOTES, "b")[0].begin_commit == made.number


def test_numbers_of_a_draft_are_never_taken_for_numbers_that_were_read():
    number = DraftNumber(7)
    row = (number + 1) << 20
    assert number != 7
    assert row + 1 >> 20 == DraftNumber(8) != 8
    assert number - 1 in {DraftNumber(6): 1}
    for wrong in (lambda: row | 1, lambda: 1 + row, lambda: number < 9, lambda: row - 1):
        with pytest.raises(NotADraft):
            wrong()
    known = Known(None, None, 0, 0, WriterCache())
    connection = DraftConnection(cast("PostgresConnection", None), known, guesses=True)
    for wrong in (
        lambda: connection.numbers([row]),
        connection.changes,
        connection.recover,
        lambda: connection.roll_back("ROLLBACK"),
        lambda: connection.execute("INSERT INTO scope (space, key) VALUES (?, ?)"),
        lambda: connection.execute("INSERT INTO lane (agent) VALUES (?) RETURNING id", (1,)),
    ):
        with pytest.raises(NotADraft):
            wrong()


def test_a_time_that_went_back_since_it_was_looked_at_is_not_gone_by(hosts):
    """A draft that is made again begins with the time of the last commit, which may go back."""
    here, there = hosts
    ahead = START + 14_000_000
    back = ahead - CLOCK_STEP_US - 1
    with interrupted(
        here,
        lambda: commit(there, upsert("0", "of there"), time=ahead),
        lambda: write(there, Put(("x",), 1), scope=BOB, time=back),
    ):
        made = commit(here, upsert("0", "of here"))
    assert made.time == START
    assert notes(here)["0"].version == 3


# --- inputs and leases ----------------------------------------------------------------------------


def sent(scope, number=0, event_id=None):
    """An input."""
    return QueuedInput(scope, str(number), START, event_id=event_id)


@pytest.fixture
def agents(hosts):
    """The hosts, once each has accepted an input of the agent for each key."""
    for store in hosts:
        store.accept("agent", [sent(ADA), sent(BOB)])
    return hosts


def test_inputs_are_accepted_while_others_accept(agents, monkeypatch):
    """Each run has an id and a place of its own, in the order in which they were accepted."""
    here, there = agents
    locked(here, monkeypatch)
    with interrupted(here, lambda: there.accept("agent", [sent(BOB, 1), sent(BOB, 2)])):
        taken = here.accept("agent", [sent(ADA, 3, b"id"), sent(ADA, 4)], owner="me")
    assert [run.run for run in taken] == [7, 8]
    assert [run.number for run in taken] == [2, 3]
    assert taken[0].lease == taken[1].lease is not None
    assert [(run.id, run.number, run.event) for run in there.queued_runs("agent", ADA)] == [
        (1, 0, "0"),
        (3, 1, "0"),
        (7, 2, "3"),
        (8, 3, "4"),
    ]
    assert [run.id for run in there.queued_runs("agent", BOB)] == [2, 4, 5, 6]
    [again] = there.accept("agent", [sent(ADA, 3, b"id")])
    assert (again.run, again.number, again.repeated) == (7, 2, True)
    assert [run.run for run in here.accept("agent", [sent(ADA)])] == [9]
    assert [run.run for run in here.accept("agent", [sent(ADA)])] == [10]


def test_inputs_of_a_lane_that_others_filled_meanwhile_come_after_theirs(agents, monkeypatch):
    """What was read of the lane is read again under the lock, and the draft made again."""
    here, there = agents
    locked(here, monkeypatch)
    with interrupted(here, lambda: there.accept("agent", [sent(ADA, 1)])):
        [taken] = here.accept("agent", [sent(ADA, 2)])
    assert (taken.run, taken.number, taken.first) == (6, 3, False)


def test_an_input_that_others_accepted_meanwhile_is_a_repetition(agents):
    """An event id is taken once."""
    here, there = agents
    with interrupted(here, lambda: there.accept("agent", [sent(ADA, 1, b"id")])):
        [taken] = here.accept("agent", [sent(ADA, 1, b"id")])
    assert (taken.run, taken.repeated) == (5, True)
    twice = here.accept("agent", [sent(BOB, 1, b"new"), sent(BOB, 1, b"new"), sent(BOB, 2)])
    assert [(run.run, run.repeated) for run in twice] == [(6, False), (6, True), (7, False)]


def test_leases_are_taken_and_given_back_while_others_commit(agents, monkeypatch):
    """A lease is held by one of two that ask at the same time; what was taken over is not given
    back by who had it."""
    here, there = agents
    monkeypatch.setattr(here._owners, "is_alive", lambda owner: owner == "you")
    locked(here, monkeypatch)
    with interrupted(here, lambda: commit(there, add("x"))):
        mine = here.acquire_lease(ADA, "me")
    assert (mine.epoch, mine.taken_over) == (1, False)
    with interrupted(here, lambda: commit(there, add("y"))):
        here.release_lease(mine)
    with interrupted(here, lambda: there.acquire_lease(ADA, "you")):
        assert here.acquire_lease(ADA, "me") is None
    with interrupted(here, lambda: commit(there, add("z"))):
        here.release_lease(mine)
    assert here.acquire_lease(ADA, "me") is None
    assert there.acquire_lease(ADA, "you").epoch == 2


def test_consumers_read_on_while_others_commit(agents, monkeypatch):
    """Nobody waits for whoever says how far he has read."""
    here, there = agents
    locked(here, monkeypatch)
    with interrupted(here, lambda: commit(there, add("x"))):
        assert here.consumer_position("agent", "app", "mail") == 0
    with interrupted(here, lambda: commit(there, add("y"))):
        here.advance_consumer("agent", "app", "mail", 7)
    with interrupted(here, lambda: there.advance_consumer("agent", "app", "mail", 9)):
        here.advance_consumer("agent", "app", "mail", 8)
    assert there.consumer_position("agent", "app", "mail") == 9
    advance = SqlLanes.advance_consumer.__wrapped__
    group = [
        CommitTicket(
            lambda tx, to=to: advance(here, tx, "agent", "app", "mail", to),
            (), raises=True, drafts=True,
        )
        for to in (12, 11)
    ]  # fmt: skip
    commit(there, add("z"))
    commit(here, add("here"))  # finds that it does not write alone
    here._commit_group(group)
    assert there.consumer_position("agent", "app", "mail") == 12
    with pytest.raises(NotFound):
        here.advance_consumer("agent", "app", "nobody", 1)
    with interrupted(here, lambda: commit(there, add("w"))):
        assert here.drop_consumer("agent", "app", "mail")
    assert not there.drop_consumer("agent", "app", "mail")


def test_inputs_leases_and_commits_of_threads_are_one_draft(agents, monkeypatch):
    """Each of a group is answered as if it had come alone."""
    here, there = agents
    lease = here.acquire_lease(BOB, "me")
    run = here.queued_runs("agent", BOB)[0].id
    commit(there, add("before"))
    locked(here, monkeypatch)
    step = Step(run, 0, "greet", done=True, begin=Begin(START, ("greet",)))
    batches = [
        Batch(scope=BOB, time=START, epoch=lease.epoch, run=step),
        Batch(scope=ADA, time=START, items=[add("one")]),
    ]
    inputs = [sent(BOB, 1)]
    group = [
        *(CommitTicket(cast("Any", None), [batch], raises=True) for batch in batches),
        *(
            CommitTicket(work, (), raises=True, drafts=True)
            for work in (
                lambda tx: InputWriter(tx, "agent", "app").accept(inputs, None),
                lambda tx: tx.runs.acquire_lease(ADA, "me"),
            )
        ),
    ]
    here._commit_group(group)
    done, added, accepted, taken = [cast("Any", ticket.answer) for ticket in group]
    assert [done[0].number, added[0].number] == [8, 9]
    assert (accepted[0].run, accepted[0].number, accepted[0].first) == (5, 2, False)
    assert taken.epoch == 1
    assert there.run(run).status == "done"
    assert [each.id for each in there.queued_runs("agent", BOB)] == [4, 5]
    assert notes(there)["one"].begin_commit == 9


# --- first commits --------------------------------------------------------------------------------

EVE = Scope("app", "eve")
MORE = SetRef(EVE, "more")
TYPED = Definition(item_type="note")


def put(store, number):
    """Change exact memory, which is made with its key, once more if that changed meanwhile."""
    with suppress(StaleRun):
        write(store, Put((number,), 1), scope=EVE, time=START)
        return
    write(store, Put((number,), 1), scope=EVE, time=START)


def added(store, number):
    """Add to a set, which is made with its key if there is none."""
    commit(store, add(number, to=MORE), scope=EVE)


FIRST = {
    "a key": put,
    "a key and a set": added,
    "a set": lambda store, number: commit(store, add(number, to=SetRef(ADA, "more"))),
    "a definition": lambda store, number: commit(
        store, add(number, to=MORE), scope=EVE, define=[Define(MORE, TYPED)]
    ),
    "a lane": lambda store, number: store.accept("agent", [sent(EVE, number)], owner=number),
    "an agent": lambda store, number: store.accept("new", [sent(ADA, number)]),
}


def made(store):
    """What was made by works of `FIRST`."""
    sets = [item.record.id for ref in (MORE, SetRef(ADA, "more")) for item in store.page(ref)]
    lanes = [("agent", EVE), ("new", ADA)]
    return {
        *(name for name, _ in store.field_names(EVE, (), at=None, now=START)),
        *sets,
        *(run.event for agent, scope in lanes for run in store.queued_runs(agent, scope)),
    }


@pytest.mark.parametrize("what", FIRST)
def test_what_two_hosts_make_at_once_is_made_once(agents, monkeypatch, what):
    """The one that comes later goes by what the other one made; none waits for the other."""
    here, there = agents
    for store in agents:
        locked(store, monkeypatch)
    with interrupted(here, lambda: FIRST[what](there, "1")):
        FIRST[what](here, "2")
    for number, store in enumerate(agents, 3):
        FIRST[what](store, f"{number}")
    assert made(here) == made(there) == {"1", "2", "3", "4"}
    assert not orphans(here)


def test_a_key_that_two_hosts_make_for_different_ends_is_one(agents, monkeypatch):
    """Of two that make the same set, the other one is told of another definition."""
    here, there = agents
    with monkeypatch.context() as patched:
        locked(here, patched)
        with interrupted(here, lambda: there.accept("agent", [sent(EVE, 1)])):
            put(here, "2")
    with (
        interrupted(here, lambda: FIRST["a definition"](there, "3")),
        pytest.raises(SetDefinitionConflict),
    ):
        commit(here, add("never", to=MORE), scope=EVE, define=[Define(MORE, Definition())])
    added(here, "4")
    assert made(here) == {"1", "2", "3", "4"}
    assert not orphans(here)


def refused(store):
    with pytest.raises(StaleItem):
        commit(store, add("lost", to=MORE), Retire(MORE, "none", version=9), scope=EVE)


def refused_in_a_group(store):
    """One of two callers is told, the other one's key is made."""
    batches = [
        Batch(scope=EVE, time=START, items=[add("lost", to=MORE), Retire(MORE, "none", version=9)]),
        Batch(scope=ADA, time=START, items=[add("one")]),
    ]
    lost, kept = store.commit_many(batches)
    assert isinstance(lost, StaleItem)
    assert not kept.adopted


def under_the_lock(store):
    """What reads what it wrote is no draft after all."""
    commit(store, add("lost", to=MORE), Retire(MORE, "lost", version=1), scope=EVE)


def refused_by_the_server(store):
    with pytest.raises(CheckViolation):
        commit(store, add("never", to=MORE), scope=EVE)


@pytest.mark.parametrize(
    "comes_to_nothing", [refused, refused_in_a_group, under_the_lock, refused_by_the_server]
)
@pytest.mark.parametrize("alone", [True, False])
def test_numbers_of_a_draft_that_came_to_nothing_are_not_gone_by(agents, alone, comes_to_nothing):
    """Those of the key and the set that it would have made: what is added later is found."""
    here, there = agents
    table = f"{here._server.schema}.item"
    with here.writing() as db:
        db.execute(f"ALTER TABLE {table} ADD CONSTRAINT never CHECK (id <> 'never')")
    if alone:
        for _ in range(2):
            commit(here, upsert("0", "again"))
    comes_to_nothing(here)
    FIRST["a key"](here, "1")
    added(here, "2")
    FIRST["a lane"](here, "3")
    assert made(here) == made(there) == {"1", "2", "3"}
    assert not orphans(here)


def test_many_adds_are_moved_by_the_commits_of_others(hosts):
    """Rows made together too: each is of the commit that begins it."""
    here, there = hosts
    with interrupted(here, lambda: write(there, Put(("x",), 1), scope=BOB, time=START)):
        made = commit(here, *(add(f"many {number}") for number in range(10)))
    found = [item for name, item in notes(there).items() if name.startswith("many")]
    assert {(item.begin_commit, item.row >> 20, item.first >> 20) for item in found} == {
        (made.number, made.number, made.number)
    }
    assert len(found) == 10


# --- compactions ----------------------------------------------------------------------------------


def compacted(ids, *added, how="{}"):
    """A change that compacts items into others, which are linked to them."""
    links = [Link(NOTES, item_id) for item_id in ids]
    return Compact(
        NOTES,
        [(item_id, 1) for item_id in ids],
        [replace(add(each), links=links) for each in added],
        how,
    )


@pytest.mark.parametrize("count", [2, 20])
def test_a_compaction_is_drafted_while_others_commit(hosts, monkeypatch, count):
    """What it adds has the numbers of its own commit, and so says the compaction; it is undone."""
    here, there = hosts
    ids = [f"old {number}" for number in range(count)]
    commit(there, *map(add, ids))
    with monkeypatch.context() as patched:
        locked(here, patched)
        with interrupted(here, lambda: write(there, Put(("x",), 1), scope=BOB, time=START)):
            made = commit(here, compacted(ids, "sum", "more"), compacted(["0"]))
    assert set(notes(there)) == {"1", "sum", "more"}
    first, second = sorted(there.compactions(NOTES), key=lambda done: done.id)
    added = [there.versions(NOTES, name)[0].row for name in ("sum", "more")]
    retired = [there.versions(NOTES, name)[0].row for name in ids]
    assert (first.commit, list(first.added), list(first.retired)) == (made.number, added, retired)
    assert list(second.added) == []
    assert {item.end_commit for name in ids for item in there.versions(NOTES, name)} == {
        made.number
    }
    assert there.source_links(added) == [(row, source) for row in added for source in retired]
    commit(there, Undo(NOTES, first.id))
    assert set(notes(here)) == {"1", *ids}


def test_a_compaction_of_what_others_changed_meanwhile_is_refused(hosts):
    here, there = hosts
    with (
        interrupted(here, lambda: commit(there, Retire(NOTES, "1", version=1))),
        pytest.raises(StaleItem),
    ):
        commit(here, compacted(["0", "1"], "sum"))
    with pytest.raises(StaleItem):
        commit(here, compacted(["0", "0"], "sum"))
    commit(here, compacted(["0"], "0"))
    assert [item.version for item in there.versions(NOTES, "0")] == [1, 2]


# --- capacities -----------------------------------------------------------------------------------

FEW = SetRef(ADA, "few")


def of_few(store):
    return [item.record.id for item in store.page(FEW)]


def fill(store, definition, count=3):
    ids = [f"old {number}" for number in range(count)]
    added = [add(item_id, to=FEW, time=START + at) for at, item_id in enumerate(ids)]
    commit(store, *added, define=[Define(FEW, definition)])


@pytest.mark.parametrize(
    "definition", [Definition(capacity=4), Definition(capacity_bytes=60)], ids=["items", "bytes"]
)
def test_adds_to_a_set_with_a_capacity_are_drafted_while_others_commit(
    hosts, monkeypatch, definition
):
    """The oldest go as they would alone, those that others have added among them."""
    here, there = hosts
    fill(there, definition)
    locked(here, monkeypatch)
    other = add("there", to=FEW, time=START + 50)
    works = [
        lambda: write(there, Put(("x",), 1), scope=BOB, time=START),
        lambda: commit(there, other, time=START + 60),
        lambda: write(there, Put(("x",), 2), scope=BOB, time=START + 70),
    ]
    for number, work in enumerate(works):
        with interrupted(here, work):
            commit(here, add(f"{number}", to=FEW), time=START + 100 + number)
    assert of_few(here) == of_few(there) == ["there", "0", "1", "2"]
    [info] = [found for found in here.set_infos(ADA) if found.ref == FEW]
    assert info.items == 4


def test_a_draft_makes_room_for_a_large_item_at_once(hosts, monkeypatch):
    """Bytes say how many go: to read the oldest one by one would end the first again and again."""
    here, there = hosts
    fill(there, Definition(capacity=9, capacity_bytes=60))
    locked(here, monkeypatch)
    commit(here, add("large", "x" * 40, to=FEW), time=START + 100)
    assert of_few(there) == ["old 2", "large"]


def of_tokens(item_id, tokens):
    change = add(item_id, to=FEW)
    return replace(change, record=replace(change.record, tokens=tokens))


def test_a_draft_reads_the_oldest_once(hosts, monkeypatch):
    """It does not see that they end, and goes on after those that it has read."""
    here, there = hosts
    old = [of_tokens(f"old {number}", 1) for number in range(6)]
    commit(there, *old, define=[Define(FEW, Definition(capacity_tokens=6))])
    locked(here, monkeypatch)
    monkeypatch.setattr(items, "TRIM_BATCH", 1)
    commit(here, of_tokens("new", 4), time=START + 100)
    assert of_few(there) == ["old 4", "old 5", "new"]


def test_an_item_beyond_all_of_a_capacity_leaves_nothing(hosts):
    """Those without tokens go for nothing, as in every store; then it goes itself."""
    here, there = hosts
    fill(there, Definition(capacity_tokens=6))
    commit(here, of_tokens("new", 9), time=START + 100)
    assert of_few(there) == []


@pytest.mark.parametrize("limits", [Limits(items=6), Limits(bytes=200)], ids=["items", "bytes"])
def test_adds_to_a_key_with_limits_are_drafted_while_others_commit(hosts, monkeypatch, limits):
    """What others add to it meanwhile counts, and so does what ends."""
    here, there = hosts
    fill(there, Definition(capacity=3))
    locked(here, monkeypatch)
    with interrupted(here, lambda: write(there, Put(("x",), 1), scope=BOB, time=START)):
        commit(here, add("0", "x" * 20, to=FEW), time=START + 100, limits=limits)
    with interrupted(here, lambda: commit(there, add("there"))):
        commit(here, add("1", to=FEW), limits=limits, time=START + 100)
    with (
        interrupted(here, lambda: commit(there, add("too many", "x" * 200))),
        pytest.raises(KeyFull),
    ):
        commit(here, add("2"), limits=limits)
    commit(there, Retire(NOTES, "too many", version=1))
    with (
        interrupted(here, lambda: write(there, Put(("x",), 1), scope=BOB, time=START)),
        pytest.raises(KeyFull),
    ):
        commit(here, add("2", "x" * 200), add("3"), limits=limits)
    commit(here, add("4", to=FEW), limits=limits, time=START + 200)
    assert of_few(there) == ["0", "1", "4"]


def batch_of(*items, scope=ADA, **more):
    return CommitTicket(
        cast("Any", None), [Batch(scope=scope, time=START, items=items, **more)], raises=True
    )


def test_adds_of_threads_to_a_key_with_limits_are_one_draft(hosts, monkeypatch):
    """Each counts those before it."""
    here, there = hosts
    more = SetRef(ADA, "more")
    commit(there, add("before"))
    locked(here, monkeypatch)
    limits = Limits(items=7)
    group = [batch_of(add("a", to=ref), limits=limits) for ref in (NOTES, more)]
    with interrupted(here, lambda: write(there, Put(("x",), 1), scope=BOB, time=START)):
        here._commit_group([*group, batch_of(add("b"), limits=limits)])
    group = [batch_of(add(name, to=more), limits=limits) for name in "cd"]
    here._commit_group(group)
    assert [type(ticket.error) for ticket in group] == [type(None), KeyFull]
    assert {*notes(there)} == {"0", "1", "before", "a", "b"}
    assert [item.record.id for item in there.page(more)] == ["a", "c"]


def test_adds_of_threads_to_several_keys_with_limits_are_one_draft(hosts, monkeypatch):
    """What one key holds is read though adds to another are gathered."""
    here, there = hosts
    locked(here, monkeypatch)
    few = Limits(items=2)
    group = [
        batch_of(add(name, to=SetRef(scope, "more")), scope=scope, limits=few)
        for name in "ab"
        for scope in (BOB, EVE)
    ]
    commit(here, add("x"))  # finds that it does not write alone
    send, drafts = here._send_draft, list[int]()
    monkeypatch.setattr(here, "_send_draft", lambda *given: drafts.append(1) or send(*given))
    here._commit_group(group)
    assert len(drafts) == 1
    for scope in (BOB, EVE):
        assert [item.record.id for item in there.page(SetRef(scope, "more"))] == ["a", "b"]
        with pytest.raises(KeyFull):
            commit(here, add("c", to=SetRef(scope, "more")), scope=scope, limits=few)


def test_a_repeated_call_beside_a_lease_moves_no_clock(hosts):
    """The last commit is as old as it was, whenever a call was repeated."""
    here, there = hosts
    first = commit(there, add("once"), op=b"once", request=b"1", time=START)
    repeated = replace(batch_of(add("once"), op=b"once", request=b"1").batches[0], time=START + 9)
    group = [
        CommitTicket(cast("Any", None), [repeated], raises=True),
        CommitTicket(lambda tx: tx.runs.acquire_lease(BOB, "me"), (), raises=True, drafts=True),
    ]
    here._commit_group(group)
    assert cast("list[Commit]", group[0].answer)[0].number == first.number
    assert commit(there, add("next"), time=START).time == START


def test_what_refuses_one_of_a_group_holds_nobody_up(hosts, monkeypatch):
    """The others are drafted together, and it by itself."""
    here, there = hosts
    commit(there, add("before"))
    write(here, Put(("x",), 1), scope=BOB, time=START)  # so it knows that it is not alone
    locked(here, monkeypatch)
    group = [
        batch_of(add("one")),
        batch_of(Retire(NOTES, "none", version=1)),
        batch_of(add("two")),
        batch_of(Retire(NOTES, "two", version=1)),
    ]
    here._commit_group(group)
    assert [type(ticket.error) for ticket in group] == [type(None), StaleItem, *[type(None)] * 2]
    assert set(notes(there)) == {"0", "1", "before", "one"}


def test_limits_are_judged_apart_from_what_others_of_the_group_end(hosts, monkeypatch):
    """A draft cannot count that out; nor does it try, as often as others commit."""
    here, there = hosts
    commit(there, add("before"))
    write(here, Put(("x",), 1), scope=BOB, time=START)  # so it knows that it is not alone
    locked(here, monkeypatch)
    send = here._send_draft

    def overtaken(*arguments):
        write(there, Put(("x",), 1), scope=BOB, time=START)
        return send(*arguments)

    monkeypatch.setattr(here, "_send_draft", overtaken)
    group = [
        batch_of(Retire(NOTES, "before", version=1)),
        batch_of(add("after"), limits=Limits(items=9)),
    ]
    here._commit_group(group)
    assert [ticket.error for ticket in group] == [None, None]
    assert set(notes(there)) == {"0", "1", "after"}


def test_a_large_group_that_only_the_server_finds_to_be_none_is_halved(hosts, monkeypatch):
    """One by one, most of it would be sent again for each of its calls."""
    here, there = hosts
    fill(there, Definition(capacity=3))
    write(here, Put(("x",), 1), scope=BOB, time=START)  # so it knows that it is not alone
    locked(here, monkeypatch)
    sent, send = list[int](), here._send_draft

    def counted(db, draft, touches):
        sent.append(len(draft.answers))
        return send(db, draft, touches)

    monkeypatch.setattr(here, "_send_draft", counted)
    oldest = of_few(there)[0]
    group = [batch_of(add(f"note {number}")) for number in range(14)]
    here._commit_group(
        [*group, batch_of(Retire(FEW, oldest, version=1)), batch_of(add("new", to=FEW))]
    )
    assert oldest not in of_few(there)
    assert "new" in of_few(there)
    assert len(notes(there)) == 16
    assert sum(sent) < 6 * 16


def test_a_group_of_a_host_that_writes_alone_is_one_commit_under_the_lock(hosts, monkeypatch):
    """Also after a wrong guess, that ids are new: nobody else wrote, and nobody waits."""
    here, _ = hosts
    for _ in range(2):
        write(here, Put(("x",), 1), scope=BOB, time=START)
    begun, begin = list[int](), here._begin

    def counted(db):
        begun.append(1)
        return begin(db)

    monkeypatch.setattr(here, "_begin", counted)
    for name in "ab":
        here._commit_group([batch_of(upsert("0", f"{name} {number}")) for number in range(4)])
    assert len(begun) == 2
    assert (notes(here)["0"].version, notes(here)["0"].record.text) == (9, "b 3")


def test_a_call_that_is_repeated_is_answered_without_the_lock(hosts, monkeypatch):
    """By itself, and among others."""
    here, there = hosts
    first = commit(there, add("once"), op=b"once", request=b"1")
    locked(here, monkeypatch)
    again = commit(here, add("once"), op=b"once", request=b"1")
    assert again == replace(first, adopted=True)
    with interrupted(here, lambda: commit(there, add("twice"), op=b"twice", request=b"2")):
        again = commit(here, add("twice"), op=b"twice", request=b"2")
    assert again.adopted
    write(there, Put(("x",), 2), scope=BOB, time=START + 60 * 60 * 1_000_000)
    assert commit(here, add("once"), op=b"once", request=b"1") == replace(first, adopted=True)
    write(there, Put(("x",), 1), scope=BOB, time=START)
    group = [batch_of(add("new")), batch_of(add("once"), op=b"once", request=b"1")]
    here._commit_group(group)
    [new], [repeated] = [cast("list[Commit]", ticket.answer) for ticket in group]
    assert (new.adopted, repeated) == (False, replace(first, adopted=True))
    assert notes(there)["new"].begin_commit == new.number


def test_a_full_set_refuses_what_others_filled_meanwhile(hosts):
    here, there = hosts
    fill(there, Definition(capacity=4, compaction="reject"))
    with interrupted(here, lambda: commit(there, add("there", to=FEW))), pytest.raises(SetFull):
        commit(here, add("here", to=FEW))
    assert {*of_few(here)} == {"old 0", "old 1", "old 2", "there"}


def test_what_expires_makes_room_in_a_draft(hosts, monkeypatch):
    """It is ended by the add that finds it, and counts no longer."""
    here, there = hosts
    fill(there, Definition(capacity=4, compaction="reject"))
    short = add("short", to=FEW)
    commit(there, replace(short, record=replace(short.record, expires=START + 10)))
    locked(here, monkeypatch)
    with interrupted(here, lambda: write(there, Put(("x",), 1), scope=BOB, time=START + 20)):
        made = commit(here, add("new", to=FEW), time=START + 20)
    assert of_few(there) == ["old 0", "old 1", "old 2", "new"]
    assert there.versions(FEW, "short")[0].end_commit == made.number


def test_what_expired_by_a_clock_that_is_ahead_makes_room_in_a_draft(hosts):
    """Others committed by it before this host read anything, and nobody has since."""
    here, there = hosts
    fill(there, Definition(capacity=4))
    short = add("short", to=FEW)
    commit(there, replace(short, record=replace(short.record, expires=START + 10)))
    write(there, Put(("x",), 1), scope=BOB, time=START + 20)
    made = commit(here, add("new", to=FEW), time=START + 5)
    assert made.time == START + 20
    assert of_few(there) == ["old 0", "old 1", "old 2", "new"]
    assert there.versions(FEW, "short")[0].end_commit == made.number


def test_a_set_with_a_capacity_is_compacted_in_a_draft(hosts, monkeypatch):
    """What is retired is counted out before what is added is counted."""
    here, there = hosts
    fill(there, Definition(capacity=3, compaction="reject"))
    locked(here, monkeypatch)
    added = [replace(add("sum", to=FEW), links=[Link(FEW, "old 0"), Link(FEW, "old 1")])]
    change = Compact(FEW, [("old 0", 1), ("old 1", 1)], added, "{}")
    with interrupted(here, lambda: write(there, Put(("x",), 1), scope=BOB, time=START)):
        commit(here, change, add("more", to=FEW))
    assert {*of_few(there)} == {"old 2", "sum", "more"}


def test_an_add_that_is_older_than_all_is_the_first_to_go(hosts):
    """What a draft has not written is among the oldest: that is done under the lock."""
    here, there = hosts
    fill(there, Definition(capacity=3))
    commit(here, add("oldest", to=FEW, time=START - 5))
    assert of_few(there) == ["old 0", "old 1", "old 2"]
    assert there.versions(FEW, "oldest")[0].end_commit is not None


@pytest.mark.parametrize("count", [2, 20])
def test_an_undoing_is_drafted_while_others_commit(hosts, monkeypatch, count):
    """What comes back has the numbers of its own commit, and comes from what it came from."""
    here, there = hosts
    ids = [f"old {number}" for number in range(count)]
    commit(there, *map(add, ids))
    commit(there, compacted(ids, "sum", "more"))
    [done] = there.compactions(NOTES)
    with monkeypatch.context() as patched:
        locked(here, patched)
        with interrupted(here, lambda: write(there, Put(("x",), 1), scope=BOB, time=START)):
            made = commit(here, Undo(NOTES, done.id))
    assert set(notes(there)) == {"0", "1", *ids}
    versions = [there.versions(NOTES, name) for name in ids]
    assert {(old.version, new.version) for old, new in versions} == {(1, 2)}
    assert {(new.begin_commit, new.row >> 20) for _, new in versions} == {(made.number,) * 2}
    assert there.compactions(NOTES)[0].undo_commit == made.number
    assert there.versions(NOTES, "sum")[0].end_commit == made.number
    with pytest.raises(CompactionChanged, match="it was undone"):
        commit(here, Undo(NOTES, done.id))
    assert there.stats().items == count + 2


def test_an_undoing_of_what_others_added_again_meanwhile_is_refused(hosts):
    here, there = hosts
    commit(there, compacted(["0", "1"], "sum"))
    [done] = there.compactions(NOTES)
    with (
        interrupted(here, lambda: commit(there, add("1"))),
        pytest.raises(CompactionChanged, match=r"has an item .* again"),
    ):
        commit(here, Undo(NOTES, done.id))
    assert set(notes(here)) == {"1", "sum"}


def test_a_version_comes_back_in_a_draft(hosts, monkeypatch):
    here, there = hosts
    row = there.versions(NOTES, "0")[0].row
    commit(there, Retire(NOTES, "0", version=1))
    with monkeypatch.context() as patched:
        locked(here, patched)
        with interrupted(here, lambda: write(there, Put(("x",), 1), scope=BOB, time=START)):
            made = commit(here, Revive(NOTES, row))
    assert there.versions(NOTES, "0")[-1].begin_commit == made.number
    with pytest.raises(DuplicateItem):
        commit(here, Revive(NOTES, row))


@contextmanager
def read_between(monkeypatch, part, work):
    """Have others work once, before a draft asks for what has *part* in its statement."""
    left, read = [work], DraftConnection._rows_of

    def rows_of(self, *queries):
        if left and any(part in statement for statement, _ in queries):
            left.pop()()
        return read(self, *queries)

    monkeypatch.setattr(DraftConnection, "_rows_of", rows_of)
    yield
    assert not left


@pytest.mark.parametrize(
    ("change", "part", "left"),
    [
        (Undo(NOTES, 0), "GROUP BY one.row", ["1"]),
        (upsert("0", "new"), "SELECT sources FROM item", ["0", "1"]),
    ],
    ids=["undo", "upsert"],
)
def test_what_is_forgotten_between_two_reads_of_a_draft_is_read_again(
    hosts, monkeypatch, change, part, left
):
    """Reads are of several moments; what does not fit together is no error of the caller."""
    here, there = hosts
    if isinstance(change, Undo):
        commit(there, Compact(NOTES, [("0", 1), ("1", 1)], [add("s")], "{}"))
        change = Undo(NOTES, there.compactions(NOTES)[0].id)
    forget = Erasure(ADA, START, "receipt", items=[(NOTES, ["0"])])
    with read_between(monkeypatch, part, lambda: there.erase(forget)):
        commit(here, change)
    assert sorted(notes(there)) == left


def test_an_error_of_a_draft_that_nobody_overtook_is_told(hosts, monkeypatch):
    here, _ = hosts
    monkeypatch.setattr(DraftConnection, "json_of", lambda *_: {}["missing"])
    with pytest.raises(KeyError, match="missing"):
        commit(here, Compact(NOTES, [("0", 1)], [], "{}"))
