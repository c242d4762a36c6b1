"""Wall clocks that are wrong for a while: several memories, restarts, and what a timeline makes."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path
from random import Random

import pytest

from alveus import Memory
from alveus.store import CLOCK_STEP_US, QueuedInput, Retain, Scope, StatusChange
from alveus.store import Batch as StoreBatch
from alveus.store.times import (
    COUNTED_US,
    PROOF_US,
    TIMELINE,
    SteadyClock,
    Timeline,
    elapsed_beside,
    host_elapsed,
)
from alveus.testing import START, Clock
from alveus.values.storable import microseconds
from scale import COUNTS

HOUR_US = 3600 * 1_000_000
YEAR = timedelta(days=365)
YEAR_US = 365 * 24 * HOUR_US
RETAIN = Retain(age=timedelta(0), dedupe_for=timedelta(days=90), dedupe_count=0)
ADA = Scope("default", "ada")


class Beside:
    """A clock that is off by some time from another, and elapses with it."""

    def __init__(self, true: Clock, by: timedelta = timedelta(0)) -> None:
        self.true, self.by = true, by

    def __call__(self) -> datetime:
        return self.true.now + self.by

    def elapsed(self) -> timedelta:
        return self.true.elapsed()


def tidy(memory: Memory) -> None:
    """Let go of all that age gives up, without the floors."""
    now = memory.engine.clock.settle()
    memory.store.sweep(now=now, ops_kept=0)
    memory.store.prune_runs("helper", "default", RETAIN, now=now)


# --- timelines ----------------------------------------------------------------------------------


def looks(line: Timeline, *readings: tuple[int, int]) -> Timeline:
    """Look at (wall, elapsed) times of one era."""
    for wall, at in readings:
        line = line.observed(wall, "era", at, 0)
    return line


def test_a_timeline_follows_small_steps_at_once():
    """Either way; what lies a little ahead is no doubt."""
    line = looks(Timeline("era", 0, 0, 1_000), (1_000 + CLOCK_STEP_US, 0))
    assert (line.line, line.doubt) == (1_000, None)
    line = looks(line, (6_000 - CLOCK_STEP_US, 5_000))
    assert (line.line, line.doubt) == (1_000 - CLOCK_STEP_US, None)


@pytest.mark.parametrize("by", [YEAR_US, -YEAR_US])
def test_a_jump_is_believed_after_a_day_of_looks(by):
    """No sooner, and from its least reading on."""
    line = Timeline("era", 0, 0, 0)
    hours = PROOF_US // HOUR_US
    for hour in range(hours + 1):
        line = looks(line, (by + hour * HOUR_US + (5 if hour == 3 else 9), hour * HOUR_US))
        assert (line.line == 0) == (hour < hours)
    assert (line.line, line.doubt) == (by + 5, None)


def test_rare_looks_prove_less():
    """A clock that was seen twice in a day was not seen right for a day."""
    line = looks(Timeline("era", 0, 0, 0), (YEAR_US, 0), (YEAR_US + PROOF_US, PROOF_US))
    assert line.doubt is not None
    assert line.doubt.upheld == COUNTED_US


def test_one_right_look_ends_a_doubt():
    """A year ahead, right, and a year ahead again: the proof begins anew; so from side to side."""
    ahead = [(YEAR_US + n * HOUR_US, n * HOUR_US) for n in range(20)]
    line = looks(Timeline("era", 0, 0, 0), *ahead, (20 * HOUR_US, 20 * HOUR_US))
    assert (line.line, line.doubt) == (0, None)
    line = looks(line, (YEAR_US, 20 * HOUR_US), (-YEAR_US, 21 * HOUR_US))
    assert line.doubt is not None
    assert (line.doubt.ahead, line.doubt.upheld) == (False, 0)


def test_nothing_elapses_between_eras():
    """Nobody knows how long a host was off."""
    line = Timeline("one", 500, 70, 30)
    assert (line.active_at("one", 600), line.active_at("two", 600)) == (170, 70)
    assert line.active_at("one", 400) == 70


def test_the_host_tells_elapsed_time():
    """Since its boot, whatever process asks."""
    one, two = host_elapsed(), host_elapsed()
    (era, at), (same, later) = one(0), two(10**18)
    assert later >= at > 0
    if sys.platform == "linux":
        script = "from alveus.store.times import host_elapsed; print(*host_elapsed()(0))"
        plain = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
        name, number = plain.stdout.split()
        assert name.decode() == era == same
        assert int(number) > at


def test_a_clock_that_tells_no_elapsed_time_proves_nothing_by_itself():
    """What it is moved by did not elapse; a steady clock is asked."""
    elapsed = elapsed_beside(lambda: START)
    era, at = elapsed(0)
    assert elapsed(YEAR_US)[0] == era
    assert elapsed(YEAR_US)[1] - at < PROOF_US
    assert elapsed(5)[1] >= at
    clock = Clock()
    clock.elapse(hours=1)
    assert isinstance(clock, SteadyClock)
    assert elapsed_beside(clock)(0)[1] == HOUR_US


# --- memories -----------------------------------------------------------------------------------


def test_a_store_opened_by_a_wrong_clock_knows_better(tmp_path):
    """Also where each process lives for a moment only: the timeline is in the store."""
    true, path = Clock(), tmp_path / "app.db"
    with Memory.open(path, embedder="words", clock=true) as memory:
        memory.key("ada").short_term.once("visit").increment("visits")
    for _ in range(5):
        with Memory.open(path, clock=Beside(true, YEAR)) as memory:
            memory.key("ada").add("ahead")
            tidy(memory)
    with Memory.open(path, clock=true) as memory:
        tidy(memory)
        ada = memory.key("ada")
        ada.short_term.once("visit").increment("visits")
        assert ada.short_term.get("visits") == 1
        item = ada.get(ada.add("now"))
        assert item is not None
        assert item.created is not None
        assert item.created <= true.now


def test_a_store_without_a_timeline_begins_with_its_last_commit(tmp_path):
    """One that only a store wrote to, first opened as a memory while the clock is wrong."""
    path = tmp_path / "app.db"
    with Memory.open(path, embedder="words", clock=Clock()) as memory:
        memory.key("ada").short_term.once("visit").increment("visits")
        memory.store.put_note(TIMELINE, None, expected=memory.store.note(TIMELINE))
    with Memory.open(path, clock=Beside(Clock(), YEAR)) as memory:
        tidy(memory)
        memory.key("ada").short_term.once("visit").increment("visits")
        assert memory.key("ada").short_term.get("visits") == 1


def test_while_others_commit_at_the_right_time_a_wrong_clock_proves_nothing(tmp_path):
    """However long it is wrong, and though it alone looks after the store."""
    true, path = Clock(), tmp_path / "app.db"
    with (
        Memory.open(path, embedder="words", clock=true) as right,
        Memory.open(path, clock=Beside(true, YEAR)) as wrong,
    ):
        right.key("ada").short_term.once("visit").increment("visits")
        for n in range(60):
            right.key("ada").short_term.set("n", n)
            wrong.key("bob").short_term.set("n", n)
            tidy(wrong)
            true.elapse(hours=1)
        right.key("ada").short_term.once("visit").increment("visits")
        assert right.key("ada").short_term.get("visits") == 1


def test_a_reader_keeps_no_timeline(tmp_path):
    """It reads that of the store, and its clock is held by it all the same."""
    true, path = Clock(), tmp_path / "app.db"
    Memory.open(path, embedder="words", clock=true).close()
    with Memory.open(path, mode="ro", clock=Beside(true, -YEAR)) as memory:
        before = memory.store.note(TIMELINE)
        assert abs(memory.engine.clock() - microseconds(true.now)) < CLOCK_STEP_US
        assert memory.engine.clock.settle() < microseconds(true.now) - YEAR_US // 2
        assert memory.store.note(TIMELINE) == before


WRONG = """
import sys
from datetime import UTC, datetime, timedelta
from alveus import Agent, LocalRunner, Memory
sys.path.insert(0, sys.argv[3])
from harness.runner.memory import BARE, tally, tidy

days = float(sys.argv[2])
def clock():
    return datetime.now(UTC) + timedelta(days=days)

with Memory.open(sys.argv[1], embedder="words", clock=clock if days else None) as memory:
    with LocalRunner(Agent("helper", actions=[tally]), memory, retain=BARE) as runner:
        for n in range(20):
            runner.handle("ada", n, event_id=f"e{n}")
        runner.prune()
    tidy(memory)
    memory.key("ada").short_term.once("visit").increment("visits")
    print(memory.key("ada").short_term.get("seen"), memory.key("ada").short_term.get("visits"))
"""


def test_processes_with_different_clocks_run_nothing_twice(tmp_path):
    """By the host's own elapsed time, one after the other: right, ahead, behind, right."""
    for days in ("0", "400", "0"):
        here = str(Path(__file__).parent)
        args = [sys.executable, "-c", WRONG, str(tmp_path / "app.db"), days, here]
        plain = subprocess.run(args, capture_output=True, check=True, text=True)
        assert plain.stdout.split() == ["20", "1"]


class Life:
    """A store under clocks that are stepped at random, and what must be true of it.

    The true time elapses by up to 20 hours a step. No spell of wrong clocks lasts for a day.
    """

    def __init__(self, path, rng):
        self.path, self.rng, self.true = path, rng, Clock()
        self.clocks = [Beside(self.true), Beside(self.true)]
        self.memories = [self.opened(clock) for clock in self.clocks]
        self.visits: dict[str, int] = {}
        self.events: dict[bytes, int] = {}
        self.wrong = timedelta(0)

    def opened(self, clock):
        return Memory.open(self.path, embedder="words", clock=clock, durability="normal")

    def now(self):
        return microseconds(self.true.now)

    def step(self):
        rng, elapsed = self.rng, timedelta(hours=self.rng.choice((0, 0, 1, 1, 5, 20)))
        self.true.elapse(hours=elapsed / timedelta(hours=1))
        self.wrong = self.wrong + elapsed if any(c.by for c in self.clocks) else timedelta(0)
        chosen = rng.randrange(2)
        if self.wrong > timedelta(hours=18) or rng.random() < 0.3:
            self.clocks[0].by = self.clocks[1].by = timedelta(0)
        elif rng.random() < 0.2:
            self.clocks[chosen].by = rng.choice((YEAR, 9 * YEAR, -YEAR, timedelta(days=100)))
        if rng.random() < 0.1:
            self.memories[chosen].close()
            self.memories[chosen] = self.opened(self.clocks[chosen])
        self.act(self.memories[chosen])

    def act(self, memory):
        rng = self.rng
        if rng.random() < 0.4:
            tidy(memory)
        elif rng.random() < 0.5:
            self.visit(memory, rng.choice(list(self.visits) or ["0"]))
            self.visit(memory, f"{len(self.visits)}")
        else:
            self.submit(memory, rng.choice(list(self.events) or [b"0"]))
            self.submit(memory, b"%d" % len(self.events))

    def visit(self, memory, name):
        """A request is made again: a new commit only if the first is 90 days old."""
        last = memory.store.commit_at(1 << 62)
        memory.key("ada").short_term.once(name).set("n", 1)
        new = memory.store.commit_at(1 << 62) > last or memory.store.time_of_commit(last) == 0
        age = self.now() - self.visits[name] if name in self.visits else None
        assert age is None or not new or age >= 90 * 24 * HOUR_US, (name, age)
        if age is None or new:
            self.visits[name] = self.now()

    def submit(self, memory, name):
        """An event comes again."""
        given = QueuedInput(ADA, "1", memory.engine.clock(), name, b"asked", "an event")
        (answer,) = memory.store.accept("helper", [given])
        age = self.now() - self.events[name] if name in self.events else None
        assert age is None or answer.repeated or age >= 90 * 24 * HOUR_US, (name, age)
        if not answer.repeated:
            self.events[name] = self.now()
            turn = StatusChange(answer.run, "waiting", "discarded")
            time = memory.engine.clock()
            memory.store.commit(StoreBatch(scope=ADA, time=time, run=turn))

    def heals(self):
        """Right clocks again: the next commit of each is on time, and in the end all ages."""
        for clock, memory in zip(self.clocks, self.memories, strict=True):
            clock.by = timedelta(0)
            memory.key("ada").short_term.set("n", self.rng.random())
            last = memory.store.commit_at(1 << 62)
            assert abs(memory.store.time_of_commit(last) - self.now()) <= CLOCK_STEP_US
            assert memory.store.commit_at(self.now() + CLOCK_STEP_US) == last
        for _ in range(30):
            self.true.elapse(hours=1)
            tidy(self.memories[0])
        self.true.elapse(days=91 + 9 * 365)
        tidy(self.memories[0])
        assert [memory.store.stats().runs_ended for memory in self.memories] == [0, 0]
        for memory, name in zip(self.memories, ("0", "1"), strict=True):
            last = memory.store.commit_at(1 << 62)
            memory.key("ada").short_term.once(name).set("n", 2)
            assert memory.store.commit_at(1 << 62) > last

    def close(self):
        for memory in self.memories:
            memory.close()


@pytest.mark.parametrize("seed", range(max(3, COUNTS.kills // 6)))
def test_whatever_clocks_do_nothing_young_is_let_go(tmp_path, seed):
    """Jumps either way, in the middle, across restarts, of two memories on one file."""
    life = Life(tmp_path / "app.db", Random(seed))
    try:
        for _ in range(120):
            life.step()
        life.heals()
    finally:
        life.close()


def test_a_timeline_that_is_kept_is_read_again(tmp_path):
    """With what is in doubt."""
    true, path = Clock(), tmp_path / "app.db"
    with Memory.open(path, embedder="words", clock=Beside(true)) as memory:
        assert isinstance(memory.engine.clock(), int)
    with Memory.open(path, clock=Beside(true, YEAR)) as memory:
        plain = json.loads(memory.store.note(TIMELINE) or "")
        assert plain["doubt"]["ahead"]
        true.elapse(hours=2)
        memory.engine.clock.settle()
        again = json.loads(memory.store.note(TIMELINE) or "")
        assert again["doubt"]["upheld"] > plain["doubt"]["upheld"]
