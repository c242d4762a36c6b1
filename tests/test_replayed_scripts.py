"""A script of calls that carry idempotency keys may be run again, from any point, at any time."""

from __future__ import annotations

import ast
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from random import Random

import pytest

import alveus
from alveus import Item
from alveus.errors import AlveusError, Forgotten, HistoryPruned
from alveus.testing import START
from scale import COUNTS

IDS = ("a", "b", "c")
LAST = 1 << 62

COVERED = {
    "add", "add_many", "update", "delete", "clear", "pop", "supersede", "batch", "commit", "once",
}  # fmt: skip
"""Every call that takes an idempotency key, but for those below; `Script` makes all of them."""

OTHERS = {"forget", "undo", "release", "discard"}
"""Calls about what others left; tests/test_server_once.py repeats them, with kills between."""

INNER = {"op", "named", "answer_once"}
"""What such calls are made of."""


def test_every_call_that_takes_a_key_is_in_the_script():
    """A new one has to keep the same law."""
    found: set[str] = set()
    package = Path(alveus.__file__).parent
    for path in package.rglob("*.py"):
        if any(path.is_relative_to(package / room) for room in ("server", "memory/remote")):
            continue  # tests/test_server.py and tests/test_client.py repeat their requests
        text = path.read_text()
        for node in ast.walk(ast.parse(text if "idempotency_key:" in text else "")):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                names = {argument.arg for argument in [*node.args.args, *node.args.kwonlyargs]}
                if "idempotency_key" in names and "call" not in names:  # `Writer.write` does them
                    found.add(node.name)
    assert {name for name in found if not name.startswith("_")} - INNER == COVERED | OTHERS


class Script:
    """Random calls, each under a key of its own, and what each of them answered."""

    def __init__(self, memory, rng):
        self.memory, self.rng = memory, rng
        self.done = []

    def play(self, steps):
        """Make calls; what fails is no part of the script."""
        for number in range(steps):
            call = self.rng.choice((
                self.add, self.add, self.keep, self.many, self.update, self.update, self.delete,
                self.clear, self.supersede, self.append, self.count, self.replace_value, self.make,
                self.batch, self.batch, self.say, self.known, self.pop, self.commit,
            ))(f"step {number}", Random(self.rng.random()))  # fmt: skip
            try:
                self.done.append((call, told(call())))
            except AlveusError:
                continue

    def answers(self, start=0):
        """Make the calls again, from one of them on; return what they answer by now."""
        found = []
        for call, first in self.done[start:]:
            try:
                found.append((first, told(call())))
            except AlveusError as error:
                found.append((first, error))
        return found

    def set(self, rng):
        names = ("notes", "more", "full")
        return self.memory.key("ada").set(rng.choice(names[:2]))

    # Each returns a call with its arguments, which are the same each time.

    def add(self, key, rng):
        home, item = self.set(rng), Item(f"text of {key}", rng.choice((None, *IDS)))
        ends = START + timedelta(seconds=rng.choice((5, 3600)))
        item = replace(item, expire_at=ends) if rng.random() < 0.3 else item
        how = rng.choice(("error", "update"))
        return lambda: home.add(item, on_existing=how, idempotency_key=key)

    def keep(self, key, rng):
        home, name = self.set(rng), rng.choice(IDS)
        return lambda: home.add(key, id=name, on_existing="keep", idempotency_key=key)

    def many(self, key, rng):
        home = self.set(rng)
        items = [Item(f"{key} {n}", rng.choice((None, IDS[n]))) for n in range(2)]
        return lambda: home.add_many(items, on_existing="update", idempotency_key=key)

    def update(self, key, rng):
        home, name, importance = self.set(rng), rng.choice(IDS), rng.random()
        return lambda: home.update(name, key, importance=importance, idempotency_key=key)

    def delete(self, key, rng):
        home, names = self.set(rng), rng.sample(IDS, 2)
        return lambda: home.delete(names, idempotency_key=key)

    def pop(self, key, rng):
        home, count = self.set(rng), rng.choice((1, 2))
        return lambda: [told(item) for item in home.pop(count, idempotency_key=key)]

    def commit(self, key, rng):
        name = rng.choice(IDS)

        def change(batch):
            batch.set("more").add(key, id=name, on_existing="update")
            return batch.short_term.increment("commits")

        return lambda: self.memory.key("ada").commit(change, idempotency_key=key)

    def clear(self, key, rng):
        home = self.set(rng)
        return lambda: home.clear(idempotency_key=key)

    def supersede(self, key, rng):
        home, name = self.set(rng), rng.choice(IDS)
        new = rng.choice((None, f"new {key}"))
        return lambda: home.supersede(name, key, new_id=new, idempotency_key=key)

    def append(self, key, rng):
        tree = self.memory.key("ada").short_term
        number = rng.random()
        return lambda: tree.once(key).append("list", number)

    def count(self, key, _rng):
        return lambda: self.memory.key("ada").short_term.once(key).increment("count")

    def replace_value(self, key, rng):
        name = rng.choice(("x", "y"))
        tree = self.memory.key("ada").short_term
        return rng.choice((
            lambda: tree.once(key).set(name, key, ttl=timedelta(hours=1)),
            lambda: tree.once(key).delete(name),
            lambda: tree.once(key).clear(),
        ))  # fmt: skip

    def make(self, key, _rng):
        return lambda: self.memory.key("ada").short_term.once(key).new_object("made") is not None

    def batch(self, key, rng):
        home, name = rng.choice(("notes", "more")), rng.choice(IDS)

        def block():
            with self.memory.key("ada").batch(idempotency_key=key) as batch:
                inside = batch.set(home)
                known = inside.get(name)
                inside.add(key, id=f"{name} {known and known.version}", on_existing="update")
                ends = START + timedelta(seconds=30)
                made = inside.add(f"once more {key}", id=name, on_existing="update", expire_at=ends)
                changed = inside.update(made, importance=0.5)
                count = batch.short_term.increment("batches")
                batch.knowledge.set("handbook").add(key, id="page", on_existing="update")
            return [known and known.value, made, changed.version, count, batch.committed.number]

        return block

    def say(self, key, rng):
        talk = self.memory.key("ada").conversation("talk")
        message = {"role": "user", "content": key, "id": rng.choice(("m", "n"))}
        return lambda: talk.add(message, idempotency_key=key)

    def known(self, key, rng):
        pages, name = self.memory.knowledge.set("handbook"), rng.choice(IDS)
        return lambda: pages.add(key, id=name, on_existing="update", idempotency_key=key)


def told(answer):
    """Return an answer without what is told of later reads."""
    return replace(answer, accessed=None) if isinstance(answer, Item) else answer


def state(memory):
    """Return all that a memory says now."""
    ada = memory.key("ada")
    sets = [ada.set(name) for name in ("notes", "more", "talk")]
    return (
        memory.store.commit_at(LAST),
        ada.short_term.to_dict(),
        [[told(item) for item in chosen.list()] for chosen in sets],
        [told(item) for item in memory.knowledge.set("handbook").list()],
    )


@pytest.mark.parametrize("seed", range(max(4, COUNTS.kills // 8)))
def test_a_script_may_be_run_again_from_any_point(memory, clock, seed):
    """Nothing changes, and each call gives its first answer, whatever became of what it made."""
    script, rng = Script(memory, Random(seed)), Random(f"{seed} later")
    script.play(60)
    assert len(script.done) > 30
    ada = memory.key("ada")
    clock.elapse(minutes=rng.choice((0, 2)))
    memory.sweep()
    if rng.random() < 0.5:
        ada.set("notes").clear()
        ada.short_term.clear()
    for start in (0, 0, rng.randrange(len(script.done)), len(script.done) - 1):
        before = state(memory)
        for first, again in script.answers(start):
            assert again == first
        assert state(memory) == before


@pytest.mark.parametrize("seed", range(max(2, COUNTS.kills // 24)))
@pytest.mark.parametrize("what", ["items", "key"])
def test_what_was_forgotten_is_not_done_again(memory, seed, what):
    """A call either gives its first answer, or says that it was forgotten; nothing changes."""
    script = Script(memory, Random(seed))
    script.play(40)
    if what == "key":
        memory.forget("ada", scrub="later")
    else:
        memory.key("ada").set("notes").forget(list(IDS), scrub="later")
    before = state(memory)
    answers = [pair for _ in range(2) for pair in script.answers()]
    told_again = [again for first, again in answers if again == first]
    refused = [again for first, again in answers if again != first]
    assert refused
    assert all(isinstance(again, (Forgotten, HistoryPruned)) for again in refused), refused
    assert what == "key" or told_again
    assert state(memory) == before


def test_a_repeated_update_tells_what_is_left_where_versions_are_purged(memory, clock):
    """The item as it is now; where that is gone too, that its past is not kept."""
    notes = memory.key("ada").set("notes", retention="purge")
    notes.add("one", id="a")
    two = notes.update("a", "two", idempotency_key="two")
    notes.update("a", "three")
    assert notes.update("a", "two", idempotency_key="two").version == two.version
    memory.sweep()
    assert notes.update("a", "two", idempotency_key="two").value == "three"
    notes.delete("a")
    memory.sweep()
    with pytest.raises(HistoryPruned):
        notes.update("a", "two", idempotency_key="two")
    assert notes.list() == []


def test_an_update_answers_with_its_own_version(memory):
    """Also if others changed the item, or deleted it, before the call could look."""
    notes = memory.key("ada").set("notes")
    notes.add("one", id="a")
    commit = memory.store.commit

    def beaten(batch):
        answer = commit(batch)
        memory.store.commit = commit
        notes.delete("a")
        return answer

    memory.store.commit = beaten
    made = notes.update("a", "two")
    assert (made.value, made.version) == ("two", 2)
    assert notes.get("a") is None


def test_a_repeated_batch_needs_no_room(memory):
    """What it adds is there already, or was."""
    notes = memory.key("ada").set("notes", capacity=3, compaction="reject")

    def fill():
        with memory.key("ada").batch(idempotency_key="fill") as batch:
            notes = batch.set("notes", capacity=3, compaction="reject")
            notes.add_many(["one", "two"])
        return batch.committed.adopted

    assert not fill()
    notes.add("three")
    assert fill()
    assert len(notes) == 3
