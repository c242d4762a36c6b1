"""Windows that last: killed, side by side, in actions, against a model in plain Python."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

import warm
from alveus import Agent, InputEvent, LocalRunner, Memory, OutputEvent, Retry, action
from alveus.agents.windows import Observation, Priority, Reply, Stamp, Stream
from alveus.text.budget import Budget
from alveus.text.messages import Message
from scale import COUNTS
from stream_worker import CAP, windows
from waiting import LIMIT_S

KILLS = max(4, COUNTS.kills // 6)
WORKER = Path(__file__).with_name("stream_worker.py")

COMMITTER = """
import sys
from alveus import Memory
from alveus.agents.windows import Observation, Stamp, Stream
path, first, count, cap = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
with Memory.open(path, embedder="words", durability="normal") as memory:
    window = Stream(cap, memory=memory.key("ada"))
    for n in range(first, first + count):
        made = Stamp(f"01900000-{n:04x}-7000-8000-000000000000")
        gone = window.commit(Observation(f"q{n}", f"r{n}", created=made))
        print(*[one.query.content for one in gone], flush=True)
"""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "app.db"


def asked(window):
    return [str(one.query.content) for one in window.observations()]


def ids(window):
    return [one.created for one in window.observations()]


# --- killed -------------------------------------------------------------------------------------


def test_killed_while_it_commits(path):
    """Every acknowledged commit is there once; the bound holds; at most one more is there."""
    random, acknowledged = Random(1), list[str]()
    for kill in range(1, KILLS + 1):
        command = [sys.executable, str(WORKER), str(path)]
        with warm.Popen(command, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            for _ in range(random.randint(1, 30)):
                acknowledged.append(child.stdout.readline().strip())
            child.kill()
            acknowledged += [line.strip() for line in child.stdout if line.endswith("\n")]
        with Memory.open(path, embedder="words") as memory:
            few, everything = windows(memory)
            there = ids(everything)
            assert len(set(there)) == len(there)
            assert set(acknowledged) <= set(there)
            assert len(there) <= len(acknowledged) + kill
            assert len(few) == min(CAP, len(there))
            # Each kill may leave one that only the window of few has.
            both = [name for name in ids(few) if name in set(there)]
            assert both == there[-len(both) :]
            assert len(few) - len(both) <= kill
            assert len(few.context(None)) == 2 * len(few)


# --- side by side -------------------------------------------------------------------------------


def committing(path, first, count, cap):
    command = [sys.executable, "-c", COMMITTER, str(path), str(first), str(count), str(cap)]
    return warm.Popen(command, stdout=subprocess.PIPE, text=True)


def told(child):
    assert child.stdout is not None
    output, _ = child.communicate(timeout=LIMIT_S)
    assert child.returncode == 0
    return output.split()


def test_two_processes_keep_one_bound_and_lose_nothing(path):
    """Each observation is held, or was returned to one of them when it was let go; never both."""
    count = 40
    children = [committing(path, n * count, count, 10) for n in range(2)]
    gone = [name for child in children for name in told(child)]
    with Memory.open(path, embedder="words") as memory:
        held = asked(Stream(10, memory=memory.key("ada")))
    assert len(held) == 10
    assert sorted([*gone, *held]) == sorted(f"q{n}" for n in range(2 * count))


def test_two_processes_commit_the_same(path):
    """It is there once, whoever was first."""
    children = [committing(path, 0, 30, 100) for _ in range(2)]
    assert [told(child) for child in children] == [[], []]
    with Memory.open(path, embedder="words") as memory:
        assert asked(Stream(100, memory=memory.key("ada"))) == [f"q{n}" for n in range(30)]


# --- in an action -------------------------------------------------------------------------------


class Listener(Agent):
    """Commits what it hears, looks, and fails the first time."""

    failed = False

    @action(InputEvent, on_error="retry", retry=Retry(attempts=2, wait_s=0))
    def listen(self, event, ctx):
        window = Stream(2, "s", memory=ctx.long_term_memory)
        gone = window.commit(Observation(event.value, "heard", created=Stamp.at(ctx.now)))
        told = [str(message) for message in window.context("next")]
        if event.value == "b" and not self.failed:
            self.failed = True
            raise OSError
        ctx.send_event(OutputEvent([told, [str(one.query.content) for one in gone]]))


def test_in_an_action_it_is_committed_once_with_the_rest(path):
    """An action that fails after its commit leaves nothing; tried again it is there once."""
    with Memory.open(path, embedder="words") as memory:
        with LocalRunner(Listener(), memory) as runner:
            answers = [next(iter(runner.handle("ada", text))) for text in "abc"]
        assert answers[1] == [["s", "a", "heard", "b", "heard", "next"], []]
        assert answers[2] == [["s", "b", "heard", "c", "heard", "next"], ["a"]]
        assert asked(Stream(2, memory=memory.key("ada"))) == ["b", "c"]


# --- against a model ----------------------------------------------------------------------------


class Model:
    """A window in plain Python: a list, sorted whenever it is looked at."""

    def __init__(self, cap, by):
        self.cap, self.by, self.kept = cap, by, {}

    def commit(self, one):
        if one.created in self.kept:
            return []
        self.kept[one.created] = one
        gone = []
        while len(self.kept) > self.cap:
            newest = max(self.kept)
            left = [o for created, o in self.kept.items() if created != newest]
            worst = min(left, key=lambda o: (self.by(o), o.created))
            gone.append(self.kept.pop(worst.created))
        return [o.created for o in gone]

    def context(self, budget):
        left, shown = budget, set()
        newest = sorted(self.kept)[-1:]
        best = sorted(self.kept.values(), key=lambda o: (self.by(o), o.created), reverse=True)
        misses = 0
        for one in [*(self.kept[created] for created in newest), *best]:
            if one.created in shown:
                continue
            size = sum(len(m.content) + 1 for m in one.messages)
            if size <= left:
                left, misses = left - size, 0
                shown.add(one.created)
            elif one.created not in newest or misses:
                misses += 1
            if misses == 8:
                break
        return [m for created in sorted(shown) for m in self.kept[created].messages]


KINDS = {
    "stream": (Stream, lambda one: 0.0),
    "priority": (Priority, lambda one: one.reply.importance),
}


class Walk:
    """Random calls of a window, and of its model."""

    def __init__(self, path, kind, seed):
        self.random, (self.make, by) = Random(seed), KINDS[kind]
        self.path, self.cap = path, self.random.randint(1, 12)
        self.model, self.past = Model(self.cap, by), list[Observation]()
        self.reopen()

    def reopen(self):
        if hasattr(self, "memory"):
            self.memory.close()
        self.memory = Memory.open(self.path, embedder="words", durability="normal")
        key = self.memory.key("ada")
        self.both = [self.make(self.cap, memory=key, name="w") for _ in range(2)]

    @property
    def window(self):
        return self.random.choice(self.both)

    def new(self):
        importance, said = (
            self.random.choice([0.1, 0.5, 0.5, 0.9]),
            "x" * self.random.randint(0, 20),
        )
        reply = Reply(Message(said, "assistant"), importance=importance, scored_by="me")
        self.past.append(Observation("q", reply))
        if self.random.random() < 0.8:  # else it comes later, after newer ones
            self.commit(self.past[-1])

    def commit(self, one):
        assert [o.created for o in self.window.commit(one)] == self.model.commit(one)

    def again(self):
        if self.past:
            self.commit(self.random.choice(self.past[-20:]))

    def purge(self):
        self.window.purge()
        self.model.kept.clear()

    def look(self):
        tokens, window = self.random.randint(1, 200), self.window
        found = window.context(None, budget_tokens=Budget(tokens, len, message_tokens=1))
        assert found == self.model.context(tokens)
        assert ids(window) == sorted(self.model.kept)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(max(1, COUNTS.walks // 6)))
def test_a_window_on_a_file_is_what_a_list_would_be(path, kind, seed):
    """Whatever is committed, again, late, let go, purged, by whomever, closed in between."""
    walk = Walk(path, kind, seed)
    calls = [walk.new] * 30 + [walk.again] * 8 + [walk.purge] + [walk.reopen] + [walk.look] * 10
    for _ in range(COUNTS.random_ops // 10):
        walk.random.choice(calls)()
    walk.look()
    walk.memory.close()
