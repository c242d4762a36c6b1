"""Learning is killed with SIGKILL at random moments, in one process and in two, on each store."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

import warm
from alveus import Memory
from alveus.facts import LearnOptions
from alveus.testing.chat_server import ChatServer
from facts_script import answer, said, scripted
from postgres_server import url_for
from scale import COUNTS
from waiting import LIMIT_S, wait_until

WORKER = Path(__file__).with_name("facts_worker.py")

MESSAGES = 40

FEW = LearnOptions(batch_messages=6)

KILLED_WITHIN = 0.25
"""Seconds after which a process is killed at the latest; undisturbed, it takes about as long."""


def started(place: str, key: str, *budget: str) -> subprocess.Popen[str]:
    """Return a process that is ready to learn, and begins at a line."""
    command = [sys.executable, str(WORKER), place, key, *budget]
    pipe = subprocess.PIPE
    process = warm.Popen(command, stdin=pipe, stdout=pipe, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def killed(place: str, key: str, processes: int, after_s: float, *budget: str) -> list[str]:
    """Have processes learn at the same time; kill the first one, and wait for the others.

    Returns the lines that they said.
    """
    running = [started(place, key, *budget) for _ in range(processes)]
    for process in running:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    time.sleep(after_s)  # noqa: TID251 - until the kill
    running[0].kill()
    told = [process.communicate()[0] for process in running]
    assert [process.returncode for process in running[1:]] == [0] * (processes - 1)
    return [line for lines in told for line in lines.splitlines()]


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
    times = max(4, COUNTS.kills // 5)
    kill_often(str(tmp_path / "app.db"), processes, times, undisturbed)


@pytest.mark.parametrize("processes", [1, 2])
def test_a_budget_holds_for_all_who_are_killed(
    processes: int, tmp_path: Path, undisturbed: list[Any]
) -> None:
    """No call beyond it is made, by whomever; and what was learnt within it is never lost."""
    place, chance = str(tmp_path / "app.db"), random.Random(processes)
    now = datetime.now(UTC)
    ahead = timedelta(hours=1) - (now - now.replace(minute=0, second=0, microsecond=0))

    def clock() -> datetime:
        return datetime.now(UTC) + ahead  # a full hour begins with the test

    for round_ in range(max(3, COUNTS.kills // 12)):
        key, calls = f"{processes}, {round_}", chance.randrange(1, 12)
        settings = {"space": key, "embedder": "words", "wait_s": LIMIT_S, "clock": clock}
        with Memory.open(place, **settings, durability="normal") as memory:
            memory.key(key).conversation("chat").add(said(MESSAGES))
        budget, made = (str(calls), str(ahead.total_seconds())), 0
        for _ in range(2):
            told = killed(place, key, processes, chance.random() * KILLED_WITHIN, *budget)
            made += sum(1 for line in told if not line.startswith("done"))
        assert made <= calls
        with Memory.open(place, **settings) as memory:
            assert memory.key(key).facts.check() == []
            assert learnt(memory, key) == undisturbed


def stop_all(running: list[subprocess.Popen[bytes]]) -> None:
    """End processes that a failed test left."""
    for one in running:
        one.kill()
        one.communicate()


@pytest.mark.parametrize("processes", [1, 2])
def test_a_killed_watch_ends_as_an_undisturbed_learning(
    processes: int, tmp_path: Path, undisturbed: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one beside it, or the one that is started next, reads what was not read."""
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    place, chance = tmp_path / "app.db", random.Random(processes)

    def reply(request: Any) -> str:
        return answer(request.body["messages"], lambda: uuid4().hex)

    def watching(server: ChatServer, key: str) -> subprocess.Popen[bytes]:
        words = ("learn", "--db", str(place), "--watch", "--key", key, "--batch", "6")
        model = ("--model", "test", "--base-url", server.url)
        begun = warm.Popen(
            [sys.executable, "-m", "alveus.cli", *words, *model],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        assert begun.stderr is not None
        while b"watching" not in (line := begun.stderr.readline()):
            assert line, "it ended"
        return begun

    with (
        ChatServer(reply) as server,
        Memory.open(place, embedder="words") as memory,
        ExitStack() as stack,
    ):
        for round_ in range(max(2, COUNTS.kills // 24)):
            key = f"{processes}, {round_}"
            running = [watching(server, key) for _ in range(processes)]
            stack.callback(stop_all, running)
            memory.key(key).conversation("chat").add(said(MESSAGES))
            wait_until(memory.key(key).facts.learnings)
            time.sleep(chance.random() * KILLED_WITHIN)  # noqa: TID251 - until the kill
            running[0].kill()
            running[0].communicate()
            running += [] if processes > 1 else [watching(server, key)]
            left = running[1:]
            wait_until(lambda: as_told(memory, key) == undisturbed)  # noqa: B023 - called at once
            for one in left:
                one.send_signal(signal.SIGTERM)
                one.communicate(timeout=LIMIT_S)
            assert [one.returncode for one in left] == [0]
            assert learnt(memory, key) == undisturbed


@pytest.mark.server
@pytest.mark.parametrize("processes", [1, 2])
def test_a_killed_learning_ends_so_on_a_server(
    processes: int, tmp_path: Path, undisturbed: list[Any]
) -> None:
    """What holds for a file holds for PostgreSQL."""
    place = url_for(tmp_path)
    kill_often(place, processes, max(4, COUNTS.kills // 24), undisturbed)
