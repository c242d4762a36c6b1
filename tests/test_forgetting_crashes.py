"""Forgetting and scrubbing are killed with SIGKILL at random moments: done, or not begun."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import warm
from alveus import Memory
from alveus.store import Scope
from alveus.store.sqlite import SqliteStore
from file_scan import scan
from planting import Planter
from scale import COUNTS
from waiting import LIMIT_S

WORKER = Path(__file__).with_name("forgetting_worker.py")

KEYS = 4
"""Keys that a worker is to forget, one after the other."""


def everything(memory: Memory, key: str) -> str:
    """Return all that is stored of a key, in words."""
    store, scope = memory.store, Scope(memory.space, key)
    sets = [(ref, store.all_versions(ref, limit=1_000)) for ref in store.all_sets(scope)]
    runs = [(run, store.steps(run.id)) for run in store.runs(scope.space, key=key)]
    return repr([memory.key(key).short_term.to_dict(), sets, runs])


def killed(path: Path, keys: list[str], after_s: float) -> list[str]:
    """Have a process forget keys, and kill it; return the keys that it said were done."""
    command = [sys.executable, str(WORKER), "forget", str(path), *keys]
    process = warm.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    time.sleep(after_s)  # noqa: TID251 - until the kill
    process.kill()
    lines = process.communicate()[0].decode().splitlines()
    return [line.removeprefix("done ") for line in lines if line.startswith("done ")]


class Story:
    """Keys that are planted, and forgotten by processes that are killed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.there: dict[str, str] = {}
        self.seen = {"gone": 0, "there": 0}
        with Memory.open(path, embedder="words", durability="normal") as memory:
            self.planter = Planter(memory)

    def plant(self) -> None:
        """Have all keys there."""
        with Memory.open(self.path, embedder="words", durability="normal") as memory:
            self.planter.memory = memory
            while len(self.there) < KEYS:
                key = self.planter.plant()
                self.there[key] = everything(memory, key)

    def check(self, done: list[str]) -> None:
        """Assert that each key is there as it was, or gone; a second forget changes nothing."""
        with Memory.open(self.path, embedder="words", wait_s=LIMIT_S) as memory:
            assert isinstance(memory.store, SqliteStore)
            assert memory.store.problems() == []
            keys = set(memory.keys())
            for key, before in list(self.there.items()):
                found = everything(memory, key)
                if key in keys:
                    assert key not in done, "it was said to be forgotten"
                    assert found == before, "a key is there in part"
                    self.seen["there"] += 1
                else:
                    assert found == "[{}, [], []]", "a key is gone in part"
                    assert not memory.forget(key, scrub="later").changed
                    del self.there[key]
                    self.seen["gone"] += 1

    def end(self) -> None:
        """Forget the rest, and scrub: whatever was begun before is completed."""
        with Memory.open(self.path, embedder="words") as memory:
            for key in self.there:
                assert memory.forget(key, scrub="later").changed
            memory.scrub()
            assert {receipt.state for receipt in memory.receipts(limit=10_000)} == {"scrubbed"}
            assert scan(self.planter.canaries, self.path.parent) == {}


def test_forgetting_is_done_or_not_begun(tmp_path: Path) -> None:
    """After each kill a key is there as it was, or gone; in the end no file holds any of it."""
    chance = random.Random(4)
    path = tmp_path / "store" / "app.db"
    path.parent.mkdir()
    story = Story(path)
    for _ in range(max(4, COUNTS.kills // 4)):
        story.plant()
        story.check(killed(path, list(story.there), chance.random() * 0.3))
    assert all(story.seen.values()), "every kill came at the same moment"
    story.end()
