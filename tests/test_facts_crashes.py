"""Learning is killed with SIGKILL at random moments, in one process and in two, on each store."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from facts_script import said, scripted
from fornix import Memory
from fornix.facts import LearnOptions
from postgres_server import url_for
from scale import COUNTS
from waiting import LIMIT_S

WORKER = Path(__file__).with_name("facts_worker.py")

MESSAGES = 40

FEW = LearnOptions(batch_messages=6)

KILLED_WITHIN = 0.25
"""Seconds after which a process is killed at the latest; undisturbed, it takes about as long."""


def started(place: str, key: str) -> subprocess.Popen[str]:
    """Return a process that is ready to learn, and begins at a line."""
    command = [sys.executable, str(WORKER), place, key]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def killed(place: str, key: str, processes: int, after_s: float) -> None:
    """Have processes learn at the same time; kill the first one, and wait for the others."""
    running = [started(place, key) for _ in range(processes)]
    for process in running:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    time.sleep(after_s)  # noqa: TID251 - until the kill
    running[0].kill()
    for process in running:
        process.communicate()
    assert [process.returncode for process in running[1:]] == [0] * (processes - 1)


def as_told(memory: Memory, key: str) -> list[Any]:
    """Return all facts of a key with their sources, but for ids and tokens, by text."""
    facts = memory.key(key).facts.list()
    texts = {fact.id: fact.text for fact in facts}
    return sorted(
        [
            fact.text,
            fact.sources,
            [(quote.source, quote.start, quote.end, quote.text) for quote in fact.quotations],
            str(fact.valid_from),
            str(fact.valid_to),
            fact.confirmed,
            sorted(texts[one] for one in fact.replaces),
            sorted(texts[one] for one in fact.replaced_by),
        ]
        for fact in facts
    )


def tokens(memory: Memory, key: str) -> list[set[str]]:
    """Return the tokens of each learning's facts."""
    facts = memory.key(key).facts.list()
    found: dict[str, set[str]] = {}
    for fact in facts:
        marks = {name for name in fact.entities if name.startswith("token ")}
        found.setdefault(fact.learning, set()).update(marks)
    return list(found.values())


@pytest.fixture(scope="module")
def undisturbed() -> list[Any]:
    """Return what one run that nobody kills leaves."""
    with Memory.open(":memory:", embedder="words") as memory:
        return learnt(memory, "ada", added=True)


def learnt(memory: Memory, key: str, *, added: bool = False) -> list[Any]:
    """Have a key learn to the end, from messages that are added first; return its facts."""
    owner = memory.key(key)
    chat = owner.conversation("chat")
    if added:
        chat.add(said(MESSAGES))
    owner.learn(chat, model=scripted(), options=FEW)
    assert owner.facts.check() == []
    assert all(len(marks) <= 1 for marks in tokens(memory, key)), "two attempts are mixed"
    assert owner.learn(chat, model=scripted()).model_calls == 0
    return as_told(memory, key)


def kill_often(place: str, processes: int, times: int, undisturbed: list[Any]) -> None:
    """Kill learning so often; some keys are killed several times before they are looked at."""
    chance = random.Random(processes)
    for round_ in range(times):
        key = f"{processes}, {round_}"
        with Memory.open(place, embedder="words", wait_s=LIMIT_S, durability="normal") as memory:
            memory.key(key).conversation("chat").add(said(MESSAGES))
        for _ in range(1 + (chance.random() < 0.3)):
            killed(place, key, processes, chance.random() * KILLED_WITHIN)
        with Memory.open(place, embedder="words", wait_s=LIMIT_S) as memory:
            if processes > 1:
                assert as_told(memory, key) == undisturbed, "who was not killed read all"
            assert learnt(memory, key) == undisturbed


@pytest.mark.parametrize("processes", [1, 2])
def test_a_killed_learning_ends_as_an_undisturbed_one(
    processes: int, tmp_path: Path, undisturbed: list[Any]
) -> None:
    """Every fact is there once, with the sources that it has in a run that nobody kills."""
    times = max(4, COUNTS.kills // 2)
    kill_often(str(tmp_path / "app.db"), processes, times, undisturbed)


@pytest.mark.server
@pytest.mark.parametrize("processes", [1, 2])
def test_a_killed_learning_ends_so_on_a_server(
    processes: int, tmp_path: Path, undisturbed: list[Any]
) -> None:
    """What holds for a file holds for PostgreSQL."""
    place = url_for(tmp_path)
    kill_often(place, processes, max(4, COUNTS.kills // 10), undisturbed)
