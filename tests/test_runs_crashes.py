"""Runs under SIGKILL: what is left is what some undisturbed run would have left.

Every attempt of every action writes a fresh token everywhere it can write. So two attempts that
mixed show, and memory is compared with that of an undisturbed run up to the names of tokens.
"""

from __future__ import annotations

import json
import os
import random
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

import warm
from alveus import Agent, InputEvent, LocalRunner, Memory, OutputEvent, RunnerContext, action
from alveus.errors import RunPending, StoreBusy
from alveus.store import Scope
from alveus.store.sqlite import SqliteStore
from runs_left import Given, check
from runs_worker import EMBEDDER, Teller, World, agents, runners
from scale import COUNTS
from waiting import LIMIT_S, SHORT_S, wait_until

WORKER = Path(__file__).with_name("runs_worker.py")
KEYS = ["ada", "bob", "a/b", "_", "a_b", "a\nb", "🦉", "x" * 1000]
WAIT_S = LIMIT_S
"""Longest wait for a worker that is not killed."""


class Desk:
    """A file, the inputs that were ever submitted to it, and the workers that are killed on it."""

    def __init__(self, folder: Path, name: str) -> None:
        self.path, self.world = folder / f"{name}.db", folder / f"{name}.world"
        self.chance = random.Random(name)
        self.inputs: list[Given] = []
        self.kills = 0

    def some(self, agent: str, count: int, keys: list[str] = KEYS) -> list[Given]:
        """Make inputs up."""
        made = range(len(self.inputs), len(self.inputs) + count)
        new = [(agent, self.chance.choice(keys), {"n": n}, f"event {n}") for n in made]
        self.inputs += new
        return list(new)

    @contextmanager
    def worker(self, inputs: list[Given], *, crash: str | None = None) -> Iterator[Worker]:
        """Start a worker; it is killed in the end."""
        worker = Worker(self, inputs, crash)
        try:
            yield worker
        finally:
            worker.kill()

    def open(self) -> Memory:
        """Open the memory in this process."""
        return Memory.open(self.path, embedder=EMBEDDER, wait_s=LIMIT_S)

    def again(self, inputs: list[Given]) -> list[Given]:
        """Return inputs, and some that were submitted before."""
        known = [given for given in self.inputs if given[3] is not None]
        return [*self.chance.sample(known, min(3, len(known))), *inputs]

    def finish(self) -> None:
        """Have all inputs submitted once more, and everything done; then check it."""
        with self.worker([given for given in self.inputs if given[3] is not None]) as worker:
            assert worker.wait_for("idle"), "not everything is done"
        self.check()

    def check(self, *, once: bool = True) -> None:
        """Assert that all inputs were run once, and left what an undisturbed run leaves.

        Args:
            once: Durable calls were made by one process at a time, so that they can be counted.
        """
        with self.open() as memory:
            check(memory, self.world, self.inputs, once=once)


class Worker:
    """A process that runs agents."""

    def __init__(self, desk: Desk, inputs: list[Given], crash: str | None) -> None:
        self._desk = desk
        orders = {"db": str(desk.path), "world": str(desk.world), "inputs": inputs}
        environment = {**os.environ, **({} if crash is None else {"ALVEUS_CRASH": crash})}
        command = [sys.executable, str(WORKER), json.dumps(orders)]
        self.process = warm.Popen(command, stdout=subprocess.PIPE, bufsize=0, env=environment)
        self.wait_for("up")

    def wait_for(self, word: str) -> bool:
        """Wait until it says a word; return False if it died, or said nothing for long."""
        lines = self.process.stdout
        assert lines is not None
        while select.select([lines], [], [], LIMIT_S)[0]:
            found = lines.readline().decode().strip()
            if found in {word, ""}:
                return found == word
        return False

    def kill(self) -> None:
        """Kill it, if it did not kill itself."""
        if self.process.returncode is not None:
            return
        self.process.send_signal(signal.SIGKILL)
        assert self.process.wait() == -signal.SIGKILL, "the worker ended by itself"
        assert self.process.stdout is not None
        self.process.stdout.close()
        self._desk.kills += 1


def pause(seconds: float) -> None:
    """Wait until the next kill."""
    time.sleep(seconds)  # noqa: TID251 - kill tests wait, bounded


# --- one process --------------------------------------------------------------------------------


def test_killed_at_random_moments(tmp_path: Path) -> None:
    """Killed at any moment, from its start on: nothing is lost, nothing twice, nothing mixed."""
    desk = Desk(tmp_path, "random")
    for _ in range(max(3, COUNTS.kills // 5)):
        inputs = desk.again([*desk.some("Teller", 3), *desk.some("Counter", 3)])
        with desk.worker(inputs):
            pause(desk.chance.random() ** 2 * 0.5)
        if desk.chance.random() < 0.2:
            submit_here(desk)
    desk.finish()


def submit_here(desk: Desk) -> None:
    """Submit inputs in this process, one without an event id; another worker may finish them."""
    new = desk.some("Teller", 2)
    desk.inputs[-1] = new[1] = (*new[1][:3], None)
    with desk.open() as memory:
        assert isinstance(memory.store, SqliteStore)
        assert memory.store.problems() == []
        runner = LocalRunner(agents(desk.world)["Teller"], memory)
        for _, key, value, event_id in new:
            runner.submit(key, value, event_id=event_id)
        runner.close()


POINTS = [
    ("before commit", 12),
    ("after apply", 30),
    ("after commit", 12),
    ("before record", 8),
    ("after record", 8),
    ("before call", 6),
    ("after call", 6),
    ("before put", 8),
    ("after put", 8),
    ("before accept", 6),
    ("after insert", 6),
    ("after accept", 6),
    ("after lease", 6),
    ("after queue", 2),
    ("before steps", 2),
    ("after steps", 2),
    ("after calls", 2),
    ("before advance", 8),
    ("after advance", 8),
]


@pytest.mark.parametrize(("point", "most"), POINTS[:: 1 if COUNTS.kills > len(POINTS) else 3])
def test_killed_at_a_point(tmp_path: Path, point: str, most: int) -> None:
    """Killed at a place that chance may miss, a few times on one file."""
    desk = Desk(tmp_path, point)
    for _ in range(max(1, COUNTS.kills // 5 // len(POINTS))):
        inputs = desk.again([*desk.some("Teller", 3, KEYS[:3]), *desk.some("Counter", 3, KEYS[:3])])
        with desk.worker(inputs, crash="before record:3"):
            pause(0.3)
        with desk.worker(inputs, crash=f"{point}:{desk.chance.randint(1, most)}") as worker:
            worker.wait_for("idle")
    desk.finish()


# --- whoever goes on ----------------------------------------------------------------------------


@pytest.mark.parametrize("kills_first", [True, False])
def test_event_of_a_killed_process_is_submitted_elsewhere(
    tmp_path: Path, kills_first: bool
) -> None:
    """Who submits an event again gets its outputs, also if the process that ran it dies."""
    desk = Desk(tmp_path, "elsewhere")
    with desk.open() as memory, LocalRunner(agents(desk.world)["Teller"], memory) as runner:
        new = desk.some("Teller", 2, ["ada"])
        with desk.worker(new, crash=f"after call:2:wait={tmp_path / 'never'}") as worker:
            assert worker.wait_for("held")
            if kills_first:
                worker.kill()
            _, key, value, event_id = new[1]
            ticket = runner.submit(key, value, event_id=event_id)
            assert ticket.repeated
            with pytest.raises(RunPending):
                ticket.result(0 if kills_first else SHORT_S)
            worker.kill()
            outputs = ticket.result(WAIT_S)
            assert [min(value) for value in outputs] == ["take", "weigh", "end"]
    desk.check()


def test_another_program_finishes_what_a_killed_one_began(tmp_path: Path) -> None:
    """What the process that was killed left in the middle of a run, `run_until_idle` finishes."""
    desk = Desk(tmp_path, "finisher")
    for place in ("after call:3", "after record:3", "before commit:3"):
        new = desk.some("Teller", 3, ["ada"])
        with desk.worker(new, crash=place) as worker:
            assert not worker.wait_for("idle"), "the worker did not come to its end"
        with desk.open() as memory:
            left = memory.store.runs(memory.space, status="waiting")
            assert any(memory.store.steps(row.id) for row in left)
            with runners(memory, desk.world) as by_name:
                by_name["Teller"].run_until_idle()
                assert not memory.store.runs(memory.space, status="waiting")
                for _, key, value, event_id in new:
                    assert by_name["Teller"].handle(key, value, event_id=event_id).events
    desk.check()


def test_every_key_and_agent_is_its_own_and_equal_events_both_run(tmp_path: Path) -> None:
    """Keys stay apart, agents number their own runs, equal events both run."""
    desk = Desk(tmp_path, "odd")
    new = [
        given
        for key in KEYS
        for name in ("Teller", "Counter")
        for given in desk.some(name, 2, [key])
    ]
    for place in ("after apply:25", "before commit:20", "after record:20"):
        with desk.worker(new, crash=place) as worker:
            worker.wait_for("idle")
    desk.finish()
    with desk.open() as memory:
        for key in KEYS:
            state = memory.key(key).short_term
            told: Any = state.get("Teller.log")
            places = [(number, place) for number, place, *_ in told]
            assert places == [
                (number, place)
                for number in range(2)
                for place in ("take", "weigh", "part 0", "part 1", "end")
            ]
            tokens = {(number, place): token for number, place, _, token, *_ in told}
            asked = {(number, place): others[0] for number, place, _, _, *others in told}
            for number in range(2):
                took = tokens[number, "take"]
                assert asked[number, "part 0"] == asked[number, "part 1"] == took
                assert tokens[number, "part 0"] != tokens[number, "part 1"]
            counted: Any = state.get("Counter.log")
            assert [n for n, *_ in counted] == [0, 0, 1, 1]


def test_parked_run_outlives_kills_and_ends_when_it_is_retried(tmp_path: Path) -> None:
    """A run that failed waits, with its sensory memory and what is behind it; other keys go on."""
    desk = Desk(tmp_path, "parked")
    World(desk.world).broken.touch()
    new = [*desk.some("Teller", 3, ["ada"]), *desk.some("Teller", 1, ["bob"])]
    for place in ("before commit:9", "after commit:10", "after call:5"):
        with desk.worker(new, crash=place) as worker:
            worker.wait_for("idle")
    for _ in range(2):
        with desk.worker(new) as worker:
            assert worker.wait_for("idle")
    with desk.open() as memory:
        (parked,) = memory.store.runs(memory.space, status="parked")
        (behind,) = memory.store.runs(memory.space, status="waiting")
        assert (parked.scope.key, parked.number) == ("ada", 1)
        assert (behind.scope.key, behind.number) == ("ada", 2)
        assert [step.sensory is not None for step in memory.store.steps(parked.id)] == [True] * 4
        World(desk.world).broken.unlink()
        memory.store.retry_run(parked.id, last=False, time=parked.accepted)
    with desk.worker(new, crash="after commit:1") as worker:
        assert not worker.wait_for("idle")
    desk.finish()


# --- many keys, one commit ----------------------------------------------------------------------


def test_killed_inside_commits_that_many_keys_share(tmp_path: Path) -> None:
    """Of a commit that many keys share, all is there or nothing."""
    desk = Desk(tmp_path, "group")
    keys = [f"key {n}" for n in range(32)]
    ended = 0
    for round_ in range(max(2, COUNTS.kills // 15)):
        new = [given for key in keys for given in desk.some("Counter", 1, [key])]
        when = ("halfway", "after", "before")[round_ % 3]
        with desk.worker(new, crash=f"{when} commit:{desk.chance.randint(1, 2)}") as worker:
            ended += not worker.wait_for("idle")
    assert ended, "none came to its end"
    desk.finish()


@pytest.mark.parametrize("point", ["before commit", "after commit", "after record"])
def test_answer_of_a_commit_is_lost(tmp_path: Path, point: str) -> None:
    """Who believes that nothing was written, and tries again, adopts what was."""
    desk = Desk(tmp_path, point)
    for _ in range(max(1, COUNTS.kills // 60)):
        new = [*desk.some("Teller", 3, KEYS[:2]), *desk.some("Counter", 8)]
        with desk.worker(new, crash=f"{point}:{desk.chance.randint(2, 4)}:lose") as worker:
            assert worker.wait_for("idle")
    desk.finish()


# --- two processes ------------------------------------------------------------------------------


def test_two_processes_on_one_file_are_killed_in_turn(tmp_path: Path) -> None:
    """What one leaves the other goes on with, while both live and after either is killed."""
    desk = Desk(tmp_path, "two")
    with ExitStack() as stack:
        workers = [stack.enter_context(desk.worker([])) for _ in range(2)]
        for _ in range(max(3, COUNTS.kills // 6)):
            inputs = desk.again([*desk.some("Teller", 3), *desk.some("Counter", 3)])
            workers.append(stack.enter_context(desk.worker(inputs)))
            pause(desk.chance.random() ** 2 * 0.3)
            workers.pop(0).kill()
    desk.finish()


def test_keys_of_a_dead_owner_are_taken_over_at_once(tmp_path: Path) -> None:
    """A process that dies in the middle of a run is followed by another: no lease runs out."""
    desk, world = Desk(tmp_path, "takeover"), World(tmp_path / "takeover.world")
    with ExitStack() as stack:
        for place in range(max(2, COUNTS.kills // 30)):
            never = f"after call:2:wait={tmp_path / 'never'}"
            victim = stack.enter_context(desk.worker(desk.some("Teller", 1, ["ada"]), crash=never))
            assert victim.wait_for("held")
            before = len(world.calls())
            heir = stack.enter_context(desk.worker([]))
            pause(0.2 + 0.1 * (place % 3))
            assert len(world.calls()) == before, "somebody runs the key of a process that is alive"
            victim.kill()
            wait_until(lambda before=before: len(world.calls()) > before)
            assert heir.wait_for("idle")
            heir.kill()
    desk.finish()


@pytest.mark.parametrize(
    ("old_at", "new_at"), [("after call:4", "after record:1"), ("before look:1", "after look:1")]
)
def test_who_is_believed_dead_commits_nothing_more(
    tmp_path: Path, old_at: str, new_at: str
) -> None:
    """Who lost its key to another is fenced: what a call returned, and that an action failed."""
    desk, go = Desk(tmp_path, "fence"), tmp_path / "go"
    owners = tmp_path / "fence.db.alveus" / "owners"
    with desk.worker(desk.some("Teller", 2, ["ada"]), crash=f"{old_at}:wait={go}1") as old:
        assert old.wait_for("held")
        for file in owners.iterdir():
            file.unlink()
        with desk.worker([], crash=f"{new_at}:wait={go}2") as new:
            assert new.wait_for("held")  # in the same action, on its own account
            World(desk.world).broken.touch()
            Path(f"{go}1").touch()
            assert old.wait_for("a lease was taken over")
            World(desk.world).broken.unlink()
            Path(f"{go}2").touch()
            assert new.wait_for("idle")
            assert old.process.poll() is None
    desk.check(once=False)


def test_key_that_was_given_back_unheard_is_not_worked_on(tmp_path: Path, monkeypatch) -> None:
    """Whoever missed that its last commit gave the key back does not run what another has now."""
    ran: list[Any] = []

    def note(event: InputEvent, ctx: RunnerContext) -> None:
        ran.append(event.input)
        ctx.send_event(OutputEvent(event.input))

    agent = Agent("noter", actions=[action(InputEvent)(note)])
    with Desk(tmp_path, "unheard").open() as memory, LocalRunner(agent, memory) as runner:
        store, others = memory.store, []
        commit_many = store.commit_many

        def loses(batches: Any) -> Any:
            monkeypatch.undo()
            commit_many(batches)
            others.append(store.acquire_lease(Scope(memory.space, "ada"), "another process"))
            others.append(runner.submit("ada", 2))
            raise StoreBusy("the answer was lost")

        monkeypatch.setattr(store, "commit_many", loses)
        assert runner.handle("ada", 1) == (1,)
        lease, ticket = others
        with pytest.raises(RunPending):
            ticket.result(SHORT_S)
        assert ran == [1]
        store.release_lease(lease)
        assert ticket.result(WAIT_S) == (2,)
    assert ran == [1, 2]


def test_runners_that_closed_leave_nothing_open(tmp_path: Path) -> None:
    """A process may make as many runners on one memory as it likes, one after the other."""
    with Desk(tmp_path, "closed").open() as memory:
        assert isinstance(memory.store, SqliteStore)
        assert memory.store._owners is not None
        for n in range(5):
            with LocalRunner(Teller(tmp_path / "world"), memory) as runner:
                runner.handle("ada", {"n": n})
            assert len(memory.store._owners._mine) == 1
        with ExitStack() as stack:
            names = {
                stack.enter_context(LocalRunner(Teller(tmp_path / "world"), memory)).owner
                for _ in range(3)
            }
            assert len(names) == 3
