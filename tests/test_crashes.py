"""Processes are killed with SIGKILL at random moments; what they were told stands."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pytest

from alveus import KeyMemory, Memory
from alveus.embed import dequantise, quantise
from alveus.store import Scope
from alveus.store.sqlite import SqliteStore
from crash_worker import MANY, MODES, SlowEmbedder
from scale import COUNTS
from victims import Victim
from waiting import LIMIT_S


def check(key: KeyMemory, mode: str, done: int) -> int:
    """Assert that steps up to *done* are there, and at most one more, whole; return the next."""
    return globals()[f"check_{mode}"](key, done)


def check_add(key: KeyMemory, done: int) -> int:
    found = {item.id: item for item in key.list()}
    assert all(f"add-{step}" in found for step in range(done + 1))
    assert len(found) - done - 1 in (0, 1)
    for item in found.values():
        assert item.text == f"{key.key} item {item.metadata['step']}"
    return len(found)


def check_many(key: KeyMemory, done: int) -> int:
    found = {item.id for item in key.set("many").list()}
    steps = len(found) // MANY
    assert len(found) == steps * MANY, "a batch is there in part"
    assert steps - done - 1 in (0, 1)
    return steps


def check_update(key: KeyMemory, done: int) -> int:
    item = key.set("updated").get("it")
    if item is None:
        assert done == -1
        return 0
    step = item.metadata["step"]
    assert isinstance(step, int)
    assert item.text == f"version {step}"
    assert item.version == step + 1 == len(key.set("updated").history("it"))
    assert step - done in (0, 1)
    return step + 1


def check_delete(key: KeyMemory, done: int) -> int:
    steps = sorted(int(str(item.id)[4:]) for item in key.set("deleted").list())
    assert steps in ([done], [done, done + 1], [done + 1]) or (done == -1 and not steps)
    return steps[-1] if steps and steps[-1] > done else done + 1


def check_tree(key: KeyMemory, done: int) -> int:
    state = key.short_term.to_dict()
    steps = len(key.set("tree"))
    assert steps - done - 1 in (0, 1)
    if steps:
        assert state == {
            "a": {"step": steps - 1},
            "b": {"c": {"step": steps - 1}},
            "log": list(range(steps)),
        }
    return steps


def check_once(key: KeyMemory, done: int) -> int:
    texts = [item.text for item in key.set("once").list()]
    assert len(texts) == len(set(texts)), "one request was carried out twice"
    assert len(texts) - done - 1 in (0, 1)
    return done + 1


def check_run(key: KeyMemory, done: int) -> int:
    store, scope = key._engine.store, key._scope
    runs = store.runs(scope.space, key=key.key, limit=10**6)[::-1]
    assert [run.number for run in runs] == [int(run.event) for run in runs] == [*range(len(runs))]
    assert len(runs) - done - 1 in (0, 1)
    assert {run.status for run in runs[: done + 1]} <= {"done"}
    for run in runs:
        tasks = len(store.steps(run.id))
        assert (tasks == 2) == (run.status == "done")
        assert [output.event for output in store.run_outputs(run.id)] == [run.event] * (tasks > 0)
    begun = sum(run.now is not None for run in runs)
    assert key.short_term.get("runs", 0) == begun
    return done + 1


def check_fork(key: KeyMemory, done: int) -> int:
    found = {item.id for item in key.set("forked").list()}
    assert all(f"fork-{step}" in found for step in range(done + 1))
    assert len(found) - done - 1 in (0, 1)
    return len(found)


def check_store(memory: Memory) -> None:
    """Assert that the file is sound, and that every row is embedded rightly or pending."""
    store = memory.store
    assert isinstance(store, SqliteStore)
    assert store.problems() == []
    embedder = SlowEmbedder()
    waiting = {pending.row for pending in store.pending_vectors(limit=10**6)}
    for name in list(memory.keys()):
        for info in store.set_infos(Scope(memory.space, name)):
            features = {f.row: f for f in store.features(info.number)}
            for stored in store.items_by_row(list(features)):
                vectors = features[stored.row].vectors
                if vectors is None:
                    assert stored.row in waiting
                else:
                    expected = quantise(embedder.row(stored.record.text or "")[None, :])
                    assert (dequantise(vectors, 32) == dequantise(expected, 32)).all()


@pytest.mark.parametrize("mode", sorted(set(MODES) - {"spread"}))
def test_what_was_acknowledged_survives_kill(tmp_path: Path, mode: str) -> None:
    """Every acknowledged write is there, none in part, and writing goes on."""
    chance = random.Random(mode)
    path, next_step = tmp_path / "app.db", 0
    for _ in range(max(2, COUNTS.kills // len(MODES))):
        victim = Victim(path, mode, "ada", next_step)
        time.sleep(chance.random() ** 2 * 0.12)  # noqa: TID251 - until the kill
        done = victim.kill()
        try:
            with Memory.open(path, embedder=SlowEmbedder(), wait_s=LIMIT_S) as memory:
                next_step = check(memory.key("ada"), mode, done)
                check_store(memory)
        finally:
            for child in victim.children:
                os.kill(child, signal.SIGKILL)


def test_two_processes_are_killed_at_once(tmp_path: Path) -> None:
    """Two processes write to one file; killed together, each finds what it was told."""
    chance = random.Random(2)
    path, steps = tmp_path / "app.db", {"ada": 0, "bob": 0}
    modes = {"ada": "tree", "bob": "add"}
    for _ in range(max(2, COUNTS.kills // len(MODES))):
        victims = [Victim(path, modes[name], name, start) for name, start in steps.items()]
        time.sleep(chance.random() ** 2 * 0.12)  # noqa: TID251 - until the kill
        done = {victim.name: victim.kill() for victim in victims}
        with Memory.open(path, embedder=SlowEmbedder(), wait_s=LIMIT_S) as memory:
            for name in steps:
                steps[name] = check(memory.key(name), modes[name], done[name])
            check_store(memory)


def test_what_was_pending_is_embedded_in_the_end(tmp_path: Path) -> None:
    """Killed while embedding, again and again: the next one goes on, and nothing is missed."""
    path, next_step, kills = tmp_path / "app.db", 0, 0
    while kills < 3 or next_step == 0:
        victim, kills = Victim(path, "many", "ada", next_step), kills + 1
        time.sleep(0.1)  # noqa: TID251 - until the kill
        done = victim.kill()
        with Memory.open(path, embedder=SlowEmbedder()) as memory:
            next_step = check(memory.key("ada"), "many", done)
    with Memory.open(path, embedder=SlowEmbedder()) as memory:
        assert memory.settle(wait_s=LIMIT_S)
        assert memory.stats().pending == 0
        check_store(memory)
        hits = memory.key("ada").search(f"ada {next_step - 1}", limit=MANY)
        assert not hits.partial
        assert {hit.item.text for hit in hits} == {f"ada {next_step - 1}"}
