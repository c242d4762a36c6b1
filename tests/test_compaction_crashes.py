"""Compactions and undos are killed with SIGKILL, and got in the way of, at random moments."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from alveus import Memory, MemorySet, Summarize, Trim
from alveus.errors import SetBusy
from alveus.store.sqlite import SqliteStore
from scale import COUNTS
from victims import Victim
from waiting import LIMIT_S, rounds, wait_until


class Compacting(Victim):
    worker = "compaction_worker.py"


def reached(notes: MemorySet) -> list[str]:
    """Return the ids of all that the set holds, as itself or as a source; each must be once."""
    found: list[str] = []
    level = notes.list()
    while level:
        found += [str(item.id) for item in level if not item.compacted]
        summaries = [item for item in level if item.compacted]
        level = [source for item in summaries for source in notes.sources(str(item.id))]
    assert len(found) == len(set(found)), "an item stands for itself and is stood for"
    return found


def check_sound(memory: Memory) -> None:
    store = memory.store
    assert isinstance(store, SqliteStore)
    assert store.problems() == []


@pytest.mark.parametrize("mode", ["sync", "background"])
def test_a_killed_compaction_is_done_or_not_begun(tmp_path: Path, mode: str) -> None:
    """Every acknowledged add is there, as itself or as a source, and nothing is there twice."""
    chance, path, next_step = random.Random(mode), tmp_path / "app.db", 0
    for _ in range(max(3, COUNTS.kills // 8)):
        victim = Compacting(path, mode, "ada", next_step)
        time.sleep(chance.random() * 0.2)  # noqa: TID251 - until the kill
        done = victim.kill()
        with Memory.open(path, embedder="words", wait_s=LIMIT_S) as memory:
            notes = memory.key("ada").set(mode)
            found = {int(item_id[1:]) for item_id in reached(notes)}
            assert found >= set(range(done + 1))
            assert found - set(range(done + 1)) <= {done + 1}
            if mode == "sync":
                assert len(notes) <= 30
            check_sound(memory)
        next_step = max(found, default=-1) + 1
    with Memory.open(path, embedder="words") as memory:
        for done in memory.key("ada").set(mode).compactions(limit=1000):
            memory.key("ada").set(mode).undo(done.id)
        back = [item.id for item in memory.key("ada").set(mode).list()]
        assert back == [f"i{n}" for n in range(next_step)]


def test_a_killed_undo_is_done_or_not_begun(tmp_path: Path) -> None:
    """Whatever was killed in between: undoing what is left to undo gives back what was there."""
    chance, path, step = random.Random("undo"), tmp_path / "app.db", 0
    for _ in range(max(3, COUNTS.kills // 8)):
        victim = Compacting(path, "undo", "ada", step)
        time.sleep(chance.random() * 0.2)  # noqa: TID251 - until the kill
        victim.kill()
        with Memory.open(path, embedder="words", wait_s=LIMIT_S) as memory:
            notes = memory.key("ada").set("undo")
            open_ = [done for done in notes.compactions(limit=1000) if done.undone is None]
            assert len(open_) <= 1
            assert len(notes) in (0, 20, 14, 16)
            check_sound(memory)
            step = len(open_)  # an even step compacts, an odd one undoes
    with Memory.open(path, embedder="words") as memory:
        notes = memory.key("ada").set("undo")
        for done in notes.compactions(limit=1000):
            if done.undone is None:
                notes.undo(done.id)
        assert sorted(str(item.text) for item in notes.list()) == sorted(
            f"note {n}" for n in range(20)
        )


def test_two_agents_and_two_compactors_are_killed(tmp_path: Path) -> None:
    """G-18: agents add, compactors compact side by side; whoever dies, nothing is lost or twice."""
    chance, path = random.Random("G-18"), tmp_path / "app.db"
    steps = {"ada": 0, "bob": 0}
    for _ in range(max(2, COUNTS.kills // 15)):
        agents = [Compacting(path, "agent", name, start) for name, start in steps.items()]
        compactors = [Compacting(path, "compactor", name, 0) for name in ("c1", "c2")]
        time.sleep(0.1 + chance.random() * 0.3)  # noqa: TID251 - until the kill
        for compactor in compactors[: chance.randrange(3)]:
            compactor.kill()
        time.sleep(chance.random() * 0.1)  # noqa: TID251 - until the kill
        done = {agent.name: agent.kill() for agent in agents}
        for compactor in compactors:
            if compactor.process.poll() is None:
                compactor.kill()
        with Memory.open(path, embedder="words", wait_s=LIMIT_S) as memory:
            found = set(reached(memory.key("shared").set("shared")))
            check_sound(memory)
        for name, last in done.items():
            mine = {int(item_id.split("-")[1]) for item_id in found if item_id.startswith(name)}
            assert mine >= set(range(last + 1))
            assert mine <= set(range(last + 2))
            steps[name] = max(mine, default=-1) + 1


def test_eight_writers_add_while_compaction_runs(tmp_path: Path) -> None:
    """Every acknowledged add is found afterwards, as itself or as a source; none failed."""
    with Memory.open(tmp_path / "app.db", embedder="words") as memory:
        notes = memory.key("ada").set("n", capacity=200, compaction=Summarize(n=50, limit=3))
        told: list[list[str]] = [[] for _ in range(8)]
        failures: list[Exception] = []

        def write(place: int) -> None:
            try:
                for _ in rounds(COUNTS.contention_s * 3, least=100):
                    told[place].append(notes.add(f"writer {place} note {len(told[place])}"))
            except Exception as error:  # noqa: BLE001 - told below
                failures.append(error)

        writers = [threading.Thread(target=write, args=(place,)) for place in range(8)]
        for writer in writers:
            writer.start()
        while any(writer.is_alive() for writer in writers):
            try:
                notes.compact(Summarize(n=20))
            except SetBusy:
                continue
        for writer in writers:
            writer.join()
        assert failures == []
        assert memory.settle(LIMIT_S)
        found = set(reached(notes))
        assert found == {item_id for ids in told for item_id in ids}
        assert notes.compactions(limit=1)


@pytest.mark.parametrize(("how", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_watching_compactor_of_another_process(tmp_path: Path, how: int, code: int) -> None:
    """L7: no compaction in the agent, `alveus compact --watch` beside it: 20 to 119 are left.

    SIGTERM ends it well, Ctrl-C with 130, and both after the step under way.
    """
    path = tmp_path / "app.db"
    with Memory.open(path, embedder="words") as memory:
        notes = memory.key("ada").set(
            "n", capacity=100, compaction=Trim(n=10), execution="external"
        )
        notes.add("note 0")
        command = [sys.executable, "-m", "alveus", "--db", str(path), "--json", "compact"]
        with subprocess.Popen(
            [*command, "--watch", "--every", "20ms", "--progress"], stdout=subprocess.PIPE
        ) as watcher:
            try:
                for number in range(1, 120):
                    notes.add(f"note {number}")
                wait_until(lambda: len(notes) <= 100)
            finally:
                watcher.send_signal(how)
                said, _ = watcher.communicate(timeout=LIMIT_S)
        assert watcher.returncode == code
        assert said.splitlines()[-1] == b'{"compactions": 2}'
        assert [item.text for item in notes.list()] == [f"note {n}" for n in range(20, 120)]
